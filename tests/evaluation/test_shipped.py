"""The weights in the package fly as well as they should."""

import pytest
import torch

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.evaluation.flights import fly_split
from pvn.evaluation.pilots import load_pilot
from pvn.rollout.flight import fly, simulator_for

SUCCESS = (66.6, 81.7)
"""95% interval of PVN's success rate on these 100 flights, percent, when its weights were released: 74."""


@pytest.fixture(scope="module")
def unseen():
    """The test split of a corpus: fields of its own, whatever the size; nothing was trained in any of them."""
    segments = make_meadow(bundled_banks(), size=687, only=("test",))["test"]
    assert len(segments) == 100
    return segments


@pytest.mark.long
def test_the_shipped_agent_still_reaches_its_goals_on_a_hundred_flights_of_the_test_split(unseen):
    pilot = load_pilot("pvn")
    success = 100 * fly_split(unseen, pilot).metrics(unseen, pilot.config.altitude).is_success.mean()
    assert SUCCESS[0] <= success <= SUCCESS[1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn", "gsmn", "chaplot"])
def test_the_same_flights_are_the_same_to_the_bit_on_cuda(name, unseen):
    pilot, tasks = load_pilot(name, device="cuda"), [segment.task for segment in unseen]
    first, second = (
        fly(simulator_for(tasks, device="cuda", config=pilot.config), tasks, pilot.policy) for _ in range(2)
    )
    assert torch.equal(first.pose_world, second.pose_world) and torch.equal(first.action, second.action)
