"""A small batch of flights, a model that was never trained, and an agent made of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from pvn.corpus.alignment import Alignment
from pvn.corpus.vocabulary import Vocabulary
from pvn.learning.demonstrations import demonstrate, select, take_batch
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import Simulator, simulator_for
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.routes import sample_tour

SIMULATOR = SimulatorConfig(quality="fast")


@pytest.fixture(scope="session")
def demonstrations():
    """Three demonstrations of one tour."""
    return sample_tour(3)[:3]


@pytest.fixture(scope="session")
def tasks(demonstrations):
    return [demonstration.task for demonstration in demonstrations]


@pytest.fixture(scope="session")
def vocabulary(tasks):
    return Vocabulary.from_texts([task.instruction for task in tasks], min_count=1, dictionary=())


@pytest.fixture(scope="session")
def batch(demonstrations, vocabulary):
    """The oracle's three flights, a prediction every sixth frame; every noun's last word names its class."""
    nouns = [kind.noun.split()[-1] for kind in LANDMARK_CLASSES.values()]
    words = tuple((noun,) if noun in vocabulary.terms else () for noun in nouns)
    alignment = Alignment(vocabulary, words, tuple((1.0,) * len(own) for own in words))
    shown = demonstrate(demonstrations, vocabulary, alignment, simulator_for, config=SIMULATOR)
    return take_batch(shown, select(shown, torch.arange(3)))


@pytest.fixture(scope="session")
def model(vocabulary):
    torch.manual_seed(0)
    model = VisitationModel(VisitationConfig(num_words=len(vocabulary))).eval()
    # The language kernels are nearly equal for all words before training; here they differ.
    torch.nn.init.normal_(model.grounding.weight)
    return model


@pytest.fixture(scope="session")
def agent(model, vocabulary):
    torch.manual_seed(1)
    return PVN(model, ExecutionModel(ExecutionConfig()), vocabulary, simulator=SIMULATOR)


@pytest.fixture(scope="session")
def flown(agent, tasks):
    """Observations, actions and memories of 13 steps of three flights; the steps are given, the agent only watches."""
    simulator = Simulator([tasks[0].layout], 3, config=SIMULATOR)
    observation = simulator.reset(torch.tensor([task.start for task in tasks]))
    memory = agent.begin(tasks, torch.device("cpu"))
    steps = []
    for step in range(13):
        before = memory
        action, memory = agent.act(observation, before)
        steps.append(SimpleNamespace(observation=observation, before=before, action=action, after=memory))
        observation = simulator.step(torch.tensor([[2.0, 0.5, 0.0], [3.0, -0.2 * step, 0.0], [1.0, 0.0, 0.0]]))
    return steps
