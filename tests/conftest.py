"""What tests of several rooms share."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread():
    """One thread of torch: the suite runs in as many processes as there are cores, and idle threads would spin."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def meadow():
    """A small corpus of the generator: 300 segments in train, dev and test. Do not change it."""
    from pvn.corpus.meadow.banks import bundled_banks
    from pvn.corpus.meadow.generator import make_meadow

    return make_meadow(bundled_banks(), size=300, seed=0)


@pytest.fixture(scope="session")
def paragraph():
    """One paragraph: segments that follow each other in one field. Do not change it."""
    from pvn.corpus.meadow.generator import sample_paragraph

    return sample_paragraph(3)


@pytest.fixture(scope="session")
def shipped_pvn():
    """The agent that is shipped with the package. Do not change it."""
    from pvn.learning.agent import load_agent

    return load_agent("pvn")
