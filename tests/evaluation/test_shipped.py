"""The weights in the package fly as well as they should."""

import pytest
import torch

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.natural.bundled import natural_corpus
from pvn.evaluation.flights import fly_split
from pvn.evaluation.pilots import load_pilot
from pvn.rollout.flight import fly
from pvn.rollout.policy import rows_of
from pvn.simulator.simulator import simulator_for

RELEASED = {"pvn": "1111110110111111", "pvn-plus": "1111110111111111"}
"""Which of 16 flights reached their goals when the weights were released: pvn in phrases, pvn-plus in natural dev."""
MAY_DIFFER = 2
"""Machines round differently, which decides a flight that ends near the edge of success."""


@pytest.fixture(scope="module")
def unseen():
    """The test split of a corpus, whose fields no training uses, whatever the size of the corpus."""
    return make_meadow(bundled_banks(), size=687, only=("test",))["test"][:16]


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASED)
def test_a_shipped_agent_still_reaches_the_goals_it_reached_when_it_was_released(name, unseen):
    pilot, flown = load_pilot(name), natural_corpus(only=("dev",))["dev"][:16] if name == "pvn-plus" else unseen
    is_success = fly_split(flown, pilot).metrics(flown, pilot.config.altitude).is_success
    outcome = "".join("01"[int(reached)] for reached in is_success)
    assert sum(now != then for now, then in zip(outcome, RELEASED[name], strict=True)) <= MAY_DIFFER, outcome


@pytest.mark.long
@pytest.mark.parametrize("name", ["pvn-plus", "pvn", "pvn-ideal-act", "gsmn", "chaplot"])
def test_flights_go_on_as_before_when_others_leave_their_batch(name, unseen):
    pilot, tasks = load_pilot(name), [segment.task for segment in unseen[:4]]
    simulator, policy = simulator_for(tasks, config=pilot.config), pilot.policy
    assert policy.memory_has_rows
    observation = simulator.reset(torch.tensor([task.start for task in tasks]))
    memory, left = policy.begin(tasks, torch.device("cpu")), torch.tensor([3, 1])
    for _ in range(2):
        action, memory = policy.act(observation, memory)
        observation = simulator.step(action)
    few, alone = simulator.select(left), rows_of(memory, left)
    seen = few.observe()
    for _ in range(4):  # over a prediction
        assert torch.equal(seen.image, observation.image[left])
        (action, memory), (own, alone) = policy.act(observation, memory), policy.act(seen, alone)
        assert torch.allclose(own, action[left], atol=1e-3)
        observation, seen = simulator.step(action), few.step(action[left])
        assert torch.equal(seen.pose_world, observation.pose_world[left])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn-plus", "pvn", "gsmn", "chaplot"])
def test_the_same_flights_are_the_same_to_the_bit_on_cuda(name, unseen):
    pilot, tasks = load_pilot(name, device="cuda"), [segment.task for segment in unseen]
    first, second = (
        fly(simulator_for(tasks, device="cuda", config=pilot.config), tasks, pilot.policy) for _ in range(2)
    )
    assert torch.equal(first.pose_world, second.pose_world) and torch.equal(first.action, second.action)
