"""Pictures of the field from above: every point is where it belongs."""

import math
from dataclasses import replace

import numpy as np
import torch

from pvn.geometry import MapGrid
from pvn.viz.pictures import EXTENT, REACH, as_bytes, field_from_above, in_grey, lay_over_field, to_pixels
from pvn.world.layout import FIELD_SIZE, Landmark, Layout

SIZE_PX = 480


def test_a_map_lies_over_the_field_where_it_belongs():
    grid = MapGrid()
    maps = torch.zeros(1, grid.size, grid.size)
    row, column = grid.cells(torch.tensor([10.0, 5.0])).round().int().tolist()  # ahead of the start, and to its left
    maps[0, row, column] = 1
    laid = lay_over_field(maps, (20.0, 10.0, math.pi / 2), grid, SIZE_PX)[..., 0]  # heading north: north-west of it
    y, x = np.unravel_index(laid.argmax(), laid.shape)
    assert math.dist((x + 0.5, y + 0.5), to_pixels((15, 20), SIZE_PX)) * EXTENT / SIZE_PX < 1.6


def test_north_is_up_and_the_margin_is_shown():
    assert to_pixels((REACH[0], REACH[1]), SIZE_PX) == (0, 0)
    assert to_pixels((REACH[1], REACH[0], 5.0), SIZE_PX) == (SIZE_PX, SIZE_PX)
    above = field_from_above(Layout(()), SIZE_PX)
    fences = {"north": (25, FIELD_SIZE), "west": (0, 25), "east": (FIELD_SIZE, 25), "south": (25, 0)}
    seen = {name: above[tuple(int(part) for part in reversed(to_pixels(at, SIZE_PX)))] for name, at in fences.items()}
    assert seen["north"].argmax() == 2 and seen["east"].argmax() == 0, "blue and red"
    assert seen["south"].min() > 0.7 and seen["west"][2] < 0.4 < seen["west"][:2].min(), "white and yellow"


def test_each_field_has_its_own_picture_which_the_caller_may_paint_on():
    well, wet = Landmark("Well", 30.0, 25.0, 5.0), np.zeros((100, 100), bool)
    wet[40:60, 40:60] = True
    fields = [Layout((well,)), Layout((replace(well, x=20.0),)), Layout((well,), wet), Layout(())]
    pictures = [field_from_above(layout, 64) for layout in fields]
    assert len({picture.tobytes() for picture in pictures}) == len(fields)
    expected = pictures[0].copy()
    pictures[0][:] = 0
    assert np.array_equal(field_from_above(Layout((replace(well),)), 64), expected)


def test_bytes_are_rounded_and_kept_in_range():
    assert as_bytes(np.array([0.0, 0.5, 1.0, 1.2])).tolist() == [0, 128, 255, 255]


def test_the_ground_in_print_has_no_colour():
    grey = in_grey(field_from_above(Layout(()), 64))
    assert grey.shape == (64, 64, 3) and np.ptp(grey, axis=-1).max() == 0 and grey.max() < 0.6
