"""The weights in the package fly as well as they should."""

import pytest
import torch

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.evaluation.flights import fly_split
from pvn.evaluation.pilots import load_pilot
from pvn.rollout.flight import fly, simulator_for

RELEASED = "1111110110111111"
"""Which of these 16 flights reached their goals when the weights were released."""
MAY_DIFFER = 2
"""Machines round differently, which decides a flight that ends near the edge of success."""


@pytest.fixture(scope="module")
def unseen():
    """The test split of a corpus: fields of its own, whatever the size; nothing was trained in any of them."""
    return make_meadow(bundled_banks(), size=687, only=("test",))["test"][: len(RELEASED)]


@pytest.mark.long
def test_the_shipped_agent_still_reaches_the_goals_it_reached_when_it_was_released(unseen):
    pilot = load_pilot("pvn")
    is_success = fly_split(unseen, pilot).metrics(unseen, pilot.config.altitude).is_success
    outcome = "".join("01"[int(reached)] for reached in is_success)
    assert sum(now != then for now, then in zip(outcome, RELEASED, strict=True)) <= MAY_DIFFER, outcome


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn", "gsmn", "chaplot"])
def test_the_same_flights_are_the_same_to_the_bit_on_cuda(name, unseen):
    pilot, tasks = load_pilot(name, device="cuda"), [segment.task for segment in unseen]
    first, second = (
        fly(simulator_for(tasks, device="cuda", config=pilot.config), tasks, pilot.policy) for _ in range(2)
    )
    assert torch.equal(first.pose_world, second.pose_world) and torch.equal(first.action, second.action)
