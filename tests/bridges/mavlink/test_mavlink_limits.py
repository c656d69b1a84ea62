"""Limits that an agent cannot exceed, and every reason for which a flight ends, each caused by itself."""

import math
from dataclasses import replace

import pytest

from pvn.bridges.mavlink.limits import (
    BRAKING,
    Limits,
    Response,
    Situation,
    Velocity,
    find_ending,
    limit_velocity,
)

START, LIMITS, MODES = (25.0, 25.0, 5.0), Limits(), ("OFFBOARD",)
FINE = Situation(
    now=100.0, telemetry_at=99.98, position=START, yaw=0.0, battery=0.8,
    is_armed=True, mode="OFFBOARD", picture_at=99.97, picture_changed_at=99.97, moving_since=math.inf,
)  # fmt: skip


def test_a_flight_in_which_all_is_well_goes_on():
    assert find_ending(FINE, START, LIMITS, MODES) is None


@pytest.mark.parametrize(
    ("change", "reason", "response"),
    [
        ({"telemetry_at": 98.9}, "no telemetry for 1.1 s", Response.HOLD),
        ({"picture_at": 98.5}, "no new picture for 1.5 s", Response.HOLD),
        ({"picture_changed_at": 90.0, "moving_since": 98.0}, "has not changed for 2.0 s while", Response.HOLD),
        ({"battery": 0.24}, "the battery is at 24%, below 25%", Response.LAND),
        ({"mode": "POSCTL"}, "the flight mode was changed to POSCTL", Response.LET_GO),
        ({"is_armed": False}, "disarmed", Response.LET_GO),
        ({"position": (67.5, 25.0, 5.0)}, "42.5 m from its start, the fence 40 m", Response.HOLD),
        ({"position": (25.0, 25.0, 16.5)}, "16.5 m high, the ceiling 15 m", Response.HOLD),
    ],
)
def test_each_reason_ends_it(change, reason, response):
    ending = find_ending(replace(FINE, **change), START, LIMITS, MODES)
    assert reason in ending.reason and ending.response is response


def test_a_pilot_who_took_over_is_left_alone_even_if_the_camera_is_dead():
    """To ask for a hold then would take the drone away from the pilot."""
    ending = find_ending(replace(FINE, mode="POSCTL", picture_at=0.0), START, LIMITS, MODES)
    assert ending.response is Response.LET_GO


def test_a_hovering_drone_may_see_the_same_picture_forever_and_its_battery_may_be_unknown():
    situation = replace(FINE, picture_changed_at=0.0, battery=None)
    assert find_ending(situation, START, LIMITS, MODES) is None


def test_before_offboard_control_begins_the_mode_is_not_a_reason():
    assert find_ending(replace(FINE, mode="HOLD", is_armed=False), START, LIMITS, ()) is None


def test_speed_turn_and_climb_are_bounded():
    sent = limit_velocity(Velocity(9.0, 0.0, 9.0), 5.0, FINE, START, LIMITS)
    assert sent == Velocity(LIMITS.speed, 0.0, LIMITS.yaw_rate)
    assert limit_velocity(Velocity(-1.0, 0.0, -9.0), 5.0, FINE, START, LIMITS).forward == 0
    low, high = (replace(FINE, position=(25.0, 25.0, z)) for z in (0.1, 14.0))
    assert limit_velocity(Velocity(), 5.0, low, START, LIMITS).climb == LIMITS.climb
    assert limit_velocity(Velocity(), 5.0, high, START, LIMITS).climb == -LIMITS.climb


@pytest.mark.parametrize(("altitude", "held"), [(0.5, LIMITS.floor), (50.0, LIMITS.ceiling)])
def test_the_height_that_is_held_stays_between_floor_and_ceiling(altitude, held):
    there = replace(FINE, position=(25.0, 25.0, held))
    assert limit_velocity(Velocity(), altitude, there, START, LIMITS).climb == 0


@pytest.mark.parametrize("wanted", [Velocity(math.nan, 0.0, 0.0), Velocity(1.0, 0.0, math.inf)])
def test_what_is_not_a_number_is_a_hover(wanted):
    assert limit_velocity(wanted, 5.0, FINE, START, LIMITS) == Velocity()


def test_an_agent_that_takes_too_long_hovers():
    wanted = Velocity(2.0, 0.0, 0.5)
    assert limit_velocity(wanted, 5.0, FINE, START, LIMITS, age_s=0.9) == wanted
    assert limit_velocity(wanted, 5.0, FINE, START, LIMITS, age_s=1.1) == Velocity()


@pytest.mark.parametrize("heading", [0.0, 1.0, 2.5, -2.0])
def test_a_drone_told_to_fly_on_forever_stays_inside_the_fence(heading):
    """A drone that brakes only as hard as is relied on, with a set-point every 0.05 s, from any place and heading."""
    x, y, speed = 35.0, 20.0, 0.0
    for _ in range(2000):
        situation = replace(FINE, position=(x, y, 5.0), yaw=heading)
        wanted = limit_velocity(Velocity(9.0), 5.0, situation, START, LIMITS).forward
        speed = max(wanted, speed - BRAKING * 0.05)
        x, y = x + speed * 0.05 * math.cos(heading), y + speed * 0.05 * math.sin(heading)
        assert math.dist((x, y), START[:2]) < LIMITS.fence + 0.3
    assert math.dist((x, y), START[:2]) > LIMITS.fence - 0.5, "it may use all the room it has"


def test_from_beyond_the_fence_it_may_only_come_back():
    outside = replace(FINE, position=(66.0, 25.0, 5.0))
    assert limit_velocity(Velocity(2.0), 5.0, outside, START, LIMITS).forward == 0
    back = replace(outside, yaw=math.pi)
    assert limit_velocity(Velocity(2.0), 5.0, back, START, LIMITS).forward == 2.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fence": 0.0}, "fence: got 0.0"),
        ({"speed": math.nan}, "speed: got nan"),
        ({"floor": 9.0, "ceiling": 4.0}, "ceiling: got 4 m, expected more than the floor, 9 m"),
        ({"battery": 25.0}, "expected a fraction"),
    ],
)
def test_limits_that_are_none_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Limits(**values)
