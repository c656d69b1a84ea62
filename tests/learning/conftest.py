"""A small corpus, its words, a few of the oracle's flights, and fresh models; small pictures and maps, to be quick."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from pvn.corpus.alignment import align
from pvn.corpus.store import write_corpus
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.learning.demonstrations import demonstrate
from pvn.learning.losses import ImitateOracle, ImitationLosses, PredictVisitation, VisitationLosses
from pvn.model.chaplot import Chaplot, ChaplotConfig, ChaplotModel
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.gsmn import GSMN, GSMNConfig, GSMNModel
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for

CAMERA, GRID = Camera(width=64, height=36), MapGrid(size=32, cell=3.125)
CHAPLOT_CAMERA = Camera(width=96, height=54)
"""Its convolutions need larger pictures."""


@pytest.fixture(scope="session")
def segments(meadow):
    """The training segments of a few fields."""
    return meadow["train"][:42]


@pytest.fixture(scope="session")
def vocabulary(meadow):
    return Vocabulary.from_texts((segment.task.instruction for segment in meadow["train"]), min_count=1)


@pytest.fixture(scope="session")
def alignment(meadow, vocabulary):
    return align(meadow["train"], vocabulary)


@pytest.fixture(scope="session")
def shown(segments, vocabulary, alignment):
    """Six of the oracle's flights, every third step of them."""
    demonstrations = [segment.demonstration for segment in segments[:6]]
    config = SimulatorConfig(camera=CAMERA)
    return demonstrate(demonstrations, vocabulary, alignment, simulator_for, frame_every=3, config=config)


@pytest.fixture(scope="session")
def shown_briefly(segments, vocabulary, alignment):
    """Two of them, for what learning does not change."""
    demonstrations = [segment.demonstration for segment in segments[:2]]
    config = SimulatorConfig(camera=CAMERA)
    return demonstrate(demonstrations, vocabulary, alignment, simulator_for, frame_every=3, config=config)


def simulator_of(system):
    return SimulatorConfig(quality="fast", camera=CHAPLOT_CAMERA if system == "chaplot" else CAMERA)


@pytest.fixture(scope="session")
def imitated(segments, vocabulary, alignment):
    """By baseline: four of the oracle's flights, a decision at every sixth step."""
    demonstrations = [segment.demonstration for segment in segments[:4]]
    options = {"predict_every": 1, "frame_every": 6}
    return {
        system: demonstrate(
            demonstrations, vocabulary, alignment, simulator_for, config=simulator_of(system), **options
        )
        for system in ("gsmn", "chaplot")
    }


@pytest.fixture(scope="session")
def imitated_fully(segments, vocabulary, alignment):
    """The same for Chaplot, a decision at every step."""
    demonstrations = [segment.demonstration for segment in segments[:4]]
    config = simulator_of("chaplot")
    return demonstrate(demonstrations, vocabulary, alignment, simulator_for, predict_every=1, config=config)


@pytest.fixture
def fresh_model(vocabulary):
    """Makes a stage 1 that was never trained, always the same one."""

    def make():
        torch.manual_seed(0)
        return VisitationModel(VisitationConfig(num_words=len(vocabulary), camera=CAMERA, grid=GRID))

    return make


@pytest.fixture
def fresh_agent(vocabulary):
    """Makes an agent of a system that was never trained, always the same one for a seed."""

    def make(system, seed=0):
        torch.manual_seed(seed)
        words, simulator = len(vocabulary), simulator_of(system)
        if system == "pvn":
            visitation = VisitationModel(VisitationConfig(num_words=words, camera=CAMERA, grid=GRID))
            return PVN(visitation, ExecutionModel(ExecutionConfig(grid=GRID)), vocabulary, plan_every=4)
        if system == "gsmn":
            model = GSMNModel(GSMNConfig(num_words=words, grid=GRID, camera=CAMERA))
            return GSMN(model, vocabulary, simulator=simulator)
        return Chaplot(ChaplotModel(ChaplotConfig(num_words=words, camera=CHAPLOT_CAMERA)), vocabulary)

    return make


@pytest.fixture
def objective_of(fresh_agent):
    """Makes what a system that was never trained learns in stage 1."""

    def make(system, weights=None, seed=0):
        agent = fresh_agent(system, seed)
        if system == "pvn":
            return PredictVisitation(agent.visitation, weights or VisitationLosses())
        return ImitateOracle(agent.model, GRID, weights or ImitationLosses())

    return make


@pytest.fixture
def shown_to(shown, imitated):
    """The oracle's flights as a system sees them."""
    return lambda system: shown if system == "pvn" else imitated[system]


@pytest.fixture
def copy_run_at():
    """Makes a watcher of progress that, at a step, copies a run's folder: what a run that is killed there leaves."""

    def make(at, folder, copy):
        return lambda phase, step, num_steps, values: step == at and shutil.copytree(folder, copy)

    return make


@pytest.fixture
def run_in_two_processes():
    """Runs a script in this process and in another, as torchrun would in two others, which takes longer to start."""
    before = signal.getsignal(signal.SIGTERM)

    def run(script, *arguments):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = str(listener.getsockname()[1])
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        beside = os.environ | {"OMP_NUM_THREADS": "1"} | shared | {"RANK": "1", "LOCAL_RANK": "1"}
        with (
            subprocess.Popen([sys.executable, "-c", script, *arguments], env=beside) as other,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr(sys, "argv", ["", *arguments])
            for name, value in (shared | {"RANK": "0", "LOCAL_RANK": "0"}).items():
                patch.setenv(name, value)
            try:
                exec(script, {})
                assert other.wait(600) == 0
            finally:
                other.kill()

    yield run
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def small_corpus(meadow, tmp_path_factory):
    """The folder of a corpus of 14 training segments, and two of one field in its dev split."""
    folder = tmp_path_factory.mktemp("corpora") / "small"
    write_corpus(replace(meadow, splits={"train": meadow["train"][:14], "dev": meadow["dev"][:2]}), folder)
    return folder
