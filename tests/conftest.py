"""What tests of several rooms share."""

from __future__ import annotations

import gc
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch


@pytest.fixture(autouse=True)
def interrupts():
    """Programs that are started here can be interrupted, even if the suite runs in a background that ignores Ctrl-C, or
    a library that an earlier test used has set a handler of its own.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread():
    """One thread of torch: the suite runs in as many processes as there are cores, and idle threads would spin."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def imports_are_no_garbage():
    """Python looks for garbage among what the tests make, and not each time among all that they have imported."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def meadow():
    """A small corpus of the generator: 300 segments in train, dev and test. Do not change it."""
    from pvn.corpus.meadow.banks import bundled_banks
    from pvn.corpus.meadow.generator import make_meadow

    return make_meadow(bundled_banks(), size=300, seed=0)


@pytest.fixture(scope="session")
def paragraph():
    """One paragraph: five segments that follow each other in one field. Do not change it."""
    from pvn.corpus.meadow.generator import sample_paragraph

    return sample_paragraph(3)


@pytest.fixture(scope="session")
def shipped_pvn():
    """The agent that comes with the package. Do not change it."""
    from pvn.systems import load_agent

    return load_agent("pvn")


def _with_small_pictures(shipped, path):
    from pvn.learning.checkpoint import save_agent
    from pvn.model.pvn import PVN

    description = shipped.describe()
    description["visitation"]["camera"] |= {"width": 64, "height": 36}
    agent = PVN.rebuild(description, shipped.vocabulary)
    for name, network in agent.networks.items():
        network.load_state_dict(shipped.networks[name].state_dict())
    save_agent(agent, path, {})
    return path


@pytest.fixture(scope="session")
def quick_pvn(shipped_pvn, tmp_path_factory):
    """The file of an agent with the shipped weights and smaller pictures, which flies worse but sooner."""
    return _with_small_pictures(shipped_pvn, tmp_path_factory.mktemp("quick") / "pvn" / "agent.safetensors")


@pytest.fixture(scope="session")
def quick_plus(tmp_path_factory):
    """The same for the agent that flies by default."""
    from pvn.systems import load_agent

    path = tmp_path_factory.mktemp("quick") / "pvn-plus" / "agent.safetensors"
    return _with_small_pictures(load_agent("pvn-plus"), path)


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures are empty files, which are written faster."""
    from pvn.viz import flight_files, flight_pictures

    def touch(path, *arguments, **options):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    monkeypatch.setattr(flight_pictures, "draw_flight", touch)
    monkeypatch.setattr(flight_pictures, "prepare", lambda layout: None)
    monkeypatch.setattr(flight_files, "draw_summary", touch)
    monkeypatch.setattr(flight_pictures, "draw_paragraph", touch)


def _set_landmark_classes(classes):
    for name, module in list(sys.modules.items()):
        if name.startswith("pvn."):
            if hasattr(module, "LANDMARK_CLASSES"):
                module.LANDMARK_CLASSES = classes
            if hasattr(module, "LANDMARK_NAMES"):
                module.LANDMARK_NAMES = tuple(classes)
    if "pvn.world.shapes" in sys.modules:
        sys.modules["pvn.world.shapes"].catalogue_tables.cache_clear()


@pytest.fixture
def a_new_class():
    """`with a_new_class():` there is a landmark class "Aardvark", the first in the alphabet: all other ranks shift."""
    from pvn.world.landmarks import LANDMARK_CLASSES
    from pvn.world.models import MODELS

    aardvark = replace(LANDMARK_CLASSES["Barrel"], name="Aardvark", noun="aardvark")
    every = {"Aardvark": aardvark} | LANDMARK_CLASSES
    shifted = {name: replace(kind, index=index) for index, (name, kind) in enumerate(every.items())}

    @contextmanager
    def added():
        MODELS["Aardvark"] = MODELS["Barrel"]
        _set_landmark_classes(shifted)
        try:
            yield
        finally:
            _set_landmark_classes(LANDMARK_CLASSES)
            del MODELS["Aardvark"]

    return added
