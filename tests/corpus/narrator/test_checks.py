"""The checks of what a text claims: true of hand-made flights, and false of flights that are nearly so."""

import numpy as np
import pytest

from pvn.corpus.narrator.checks import are_true
from pvn.corpus.narrator.events import Event
from pvn.world.lakes import LAKE_CELLS
from pvn.world.layout import FIELD_SIZE, LAKE_CELL

EAST = [(5, 25), (25, 25)]
BACK = [(5, 25), (14, 25), (14, 26), (5.5, 26)]
HALF_ROUND = [(25 + 4.5 * np.cos(a), 25 + 4.5 * np.sin(a)) for a in np.radians(np.linspace(-90, 90, 60))]
ALONG = [(5, FIELD_SIZE - 4), (25, FIELD_SIZE - 4)]
TO_FENCE = [(30, 25), (FIELD_SIZE - 2, 25)]
NOWHERE = (40, 40)
"""All landmarks have a radius of 4 m."""


@pytest.mark.parametrize(
    ("path", "marks", "event", "is_so"),
    [
        (EAST, [(15, 29)], Event("pass", 10, (0,), 1, "close"), True),
        (EAST, [(15, 29)], Event("pass", 10, (0,), -1, "close"), False),
        (EAST, [(15, 32)], Event("pass", 10, (0,), 1, "close"), False),
        (EAST, [(15, 32)], Event("pass", 10, (0,), 1, "by"), True),
        (EAST, [(15, 29), (20, 28)], Event("both", 10, (0, 1), 1), True),
        (EAST, [(15, 29), (20, 28)], Event("both", 10, (1, 0), 1), False),
        (EAST, [(15, 30), (15, 20)], Event("between", 10, (0, 1)), True),
        (EAST, [(15, 30), (15, 20)], Event("between", 10, (1, 0)), False),
        (EAST, [(27, 30), (27, 20)], Event("between", 20, (0, 1)), False),
        (EAST, [(35, 25)], Event("toward", 0, (0,)), True),
        (EAST, [(35, 32)], Event("toward", 0, (0,)), False),
        (HALF_ROUND, [(25, 25)], Event("round", 7, (0,), 1, "half"), True),
        (HALF_ROUND, [(25, 25)], Event("round", 7, (0,), 1, "bend"), False),
        (HALF_ROUND, [(25, 25)], Event("round", 7, (0,), 1, "most"), False),
        (ALONG, [NOWHERE], Event("along", 10, side=1, metres=15, colour="blue"), True),
        (ALONG, [NOWHERE], Event("along", 10, side=-1, metres=15, colour="blue"), False),
        (EAST, [NOWHERE], Event("along", 10, side=1, metres=15, colour="blue"), False),
        (BACK, [NOWHERE], Event("bend", 9.5, amount="about", metres=4.0), True),
        (EAST, [NOWHERE], Event("bend", 9.5, amount="about", metres=4.0), False),
        (EAST, [(29, 25)], Event("end front", 20, (0,)), True),
        (EAST, [(31, 25)], Event("end front", 20, (0,)), False),
        (EAST, [(33, 25)], Event("end short", 20, (0,), metres=8 - 0.45 * 4), True),
        (EAST, [(33, 25)], Event("end short", 20, (0,), metres=4.0), False),
        (EAST, [(45, 25)], Event("end half", 20, (0,)), True),
        (EAST, [(38, 25)], Event("end half", 20, (0,)), False),
        (EAST, [(25, 29)], Event("end beside", 20, (0,), 1), True),
        (EAST, [(25, 33)], Event("end beside", 20, (0,), 1), False),
        (EAST, [(25, 33)], Event("end level", 20, (0,), 1), True),
        (EAST, [(20, 28)], Event("end past", 20, (0,), 1, metres=5.0), True),
        (EAST, [(20, 28)], Event("end past", 20, (0,), 1, metres=7.0), False),
        (EAST, [(25, 30), (25, 20)], Event("end between", 20, (0, 1)), True),
        (EAST, [(25, 30), (25, 20)], Event("end between", 20, (1, 0)), False),
        (EAST, [NOWHERE], Event("end forward", 20, metres=20), True),
        (EAST, [NOWHERE], Event("end forward", 20, metres=15), False),
        (BACK, [NOWHERE], Event("end start", 18), True),
        (EAST, [NOWHERE], Event("end start", 20), False),
        (TO_FENCE, [NOWHERE], Event("end fence", 18, colour="red"), True),
        (TO_FENCE, [NOWHERE], Event("end fence", 18, colour="blue"), False),
        (EAST, [NOWHERE], Event("end fence", 20, colour="red"), False),
        (ALONG, [NOWHERE], Event("with fence", 20, side=1, colour="blue"), True),
        (ALONG, [NOWHERE], Event("with fence", 20, side=-1, colour="blue"), False),
        (EAST, [(35, 25)], Event("with ahead", 20, (0,)), True),
        (EAST, [(35, 32)], Event("with ahead", 20, (0,)), False),
        (EAST, [(35, 32)], Event("with ahead", 20, (0,), 1), True),
        (EAST, [(10, 25)], Event("with behind", 20, (0,)), True),
        (EAST, [(35, 25)], Event("with behind", 20, (0,)), False),
        (EAST, [(25, 35)], Event("with aside", 20, (0,), 1), True),
        (EAST, [(25, 45)], Event("with aside", 20, (0,), 1), False),
    ],
)
def test_a_claim_is_true_of_a_flight_or_not(fly, path, marks, event, is_so):
    names = ("Barrel", "Jet")
    flight = fly(path, dict(zip(names, marks, strict=False)))
    assert list(are_true([event], flight.demonstration)) == [is_so]


@pytest.mark.parametrize(("amount", "is_so"), [("slight", False), ("quarter", True), ("much", False)])
def test_a_first_turn_has_the_size_that_is_claimed(fly, amount, is_so):
    flight = fly(EAST, {"Barrel": NOWHERE}, yaw=-np.pi / 2)
    assert list(are_true([Event("turn", 0, side=1, amount=amount)], flight.demonstration)) == [is_so]


@pytest.mark.parametrize(
    ("west", "east", "south", "north", "event", "is_so"),
    [
        (12, 18, 22, 28, Event("water", 10, amount="across"), True),
        (12, 18, 22, 28, Event("water", 3, amount="across"), False),
        (12, 18, 22, 28, Event("water", 10, amount="onto"), False),
        (12, 18, 27, 33, Event("water", 10, amount="across"), False),
        (8, 22, 27, 33, Event("shore", 10, side=1, metres=12), True),
        (8, 22, 27, 33, Event("shore", 10, side=-1, metres=12), False),
        (8, 22, 30, 36, Event("shore", 10, side=1, metres=12), False),
    ],
)
def test_water_is_where_it_lies(fly, west, east, south, north, event, is_so):
    lake = np.zeros((LAKE_CELLS, LAKE_CELLS), bool)
    first_x, last_x, first_y, last_y = (round(side / LAKE_CELL) for side in (west, east, south, north))
    lake[first_x:last_x, first_y:last_y] = True
    assert list(are_true([event], fly(EAST, {"Barrel": NOWHERE}, lake=lake).demonstration)) == [is_so]
