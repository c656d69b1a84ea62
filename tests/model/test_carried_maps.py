"""Maps that are carried from where one flight started to where the next one does."""

import math

import pytest
import torch

from pvn.geometry import MapGrid, to_map
from pvn.model.mapping import CarriedMap, carry_maps

GRID = MapGrid(size=16)
PLACES = GRID.places()


@pytest.fixture
def before():
    """A map of random features, of which the left half is known; its flight started at (20, 25) heading north-east."""
    value = torch.rand((256, 32), generator=torch.Generator().manual_seed(0))
    is_known = PLACES[:, 1] > 0
    return CarriedMap(torch.tensor([20.0, 25.0, math.pi / 4]), value * is_known[:, None], is_known)


def places_world(origin):
    """Ground points (256, 2) of the cells of a map, field frame."""
    x, y, yaw = origin.tolist()
    turn = torch.tensor([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
    return PLACES @ turn.T + torch.tensor([x, y])


def test_a_map_carried_nowhere_is_the_same(before):
    same = carry_maps([before], before.origin[None], PLACES, GRID)
    assert torch.equal(same.is_known[0], before.is_known) and torch.allclose(same.value[0], before.value, atol=1e-4)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_carried_map_has_the_same_features_at_the_same_ground_points(before, quarters):
    """After quarter turns and whole cells, every cell of the new map lies exactly on one of the old."""
    x, y = (2 * GRID.cell * torch.tensor([math.cos(math.pi / 4), math.sin(math.pi / 4)])).tolist()
    origin = before.origin + torch.tensor([x, y, quarters * math.pi / 2])
    carried = carry_maps([before], origin[None], PLACES, GRID)
    where = GRID.cells(to_map(places_world(origin)[None], before.origin[None]))[0].round().long()
    is_inside = ((where >= 0) & (where < GRID.size)).all(-1)
    assert 100 < is_inside.sum() < 256 and not carried.is_known[0, ~is_inside].any()
    old = where[is_inside, 0] * GRID.size + where[is_inside, 1]
    assert torch.equal(carried.is_known[0, is_inside], before.is_known[old])
    assert torch.allclose(carried.value[0, is_inside], before.value[old], atol=1e-3)


def test_unknown_cells_do_not_dilute_what_is_known():
    """Features that are a linear function of the ground stay so wherever the map is carried, up to its unknown half."""
    origin = torch.tensor([20.0, 25.0, 0.3])
    is_known = PLACES[:, 1] > 0
    value = (places_world(origin) / 50).repeat(1, 16) * is_known[:, None]
    new = torch.tensor([22.3, 24.1, 1.4])
    carried = carry_maps([CarriedMap(origin, value, is_known)], new[None], PLACES, GRID)
    known = carried.is_known[0]
    error = (carried.value[0] - (places_world(new) / 50).repeat(1, 16)).abs().amax(-1) * 50
    assert 60 < known.sum() < 140 and error[known].max() < GRID.cell / 2 and error[known].median() < 1e-3
    assert not carried.value[0, ~known].any()


def test_maps_in_a_batch_are_carried_each_from_its_own_origin(before):
    other = CarriedMap(before.origin + 1.0, before.value.flip(0), before.is_known.flip(0))
    origin = torch.tensor([[21.0, 26.0, 0.1], [18.0, 22.0, -2.0]])
    both = carry_maps([before, other], origin, PLACES, GRID)
    for flight, one in enumerate((before, other)):
        alone = carry_maps([one], origin[flight : flight + 1], PLACES, GRID)
        assert torch.allclose(both.value[flight], alone.value[0], atol=1e-6)
        assert torch.equal(both.is_known[flight], alone.is_known[0])
