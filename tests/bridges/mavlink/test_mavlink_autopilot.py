"""The autopilot as a function: what it answers, which modes it enters, and what it does as time passes."""

import math
from dataclasses import replace

import pytest

pytest.importorskip("pymavlink", reason='needs pymavlink: pip install "pvn-drone[mavlink]"')

from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink.autopilot import ACCEPTED, DENIED, TEMPORARILY_REJECTED, UNSUPPORTED, Autopilot, receive
from pvn.bridges.mavlink.autopilot import setpoint as held_setpoint
from pvn.bridges.mavlink.missions import MAX_ITEMS
from pvn.bridges.mavlink.modes import Mode, from_custom_mode, to_custom_mode
from pvn.bridges.mavlink.progress import advance
from pvn.bridges.mavlink.targets import GLOBE
from pvn.bridges.shared.frames import rotation_from_yaw
from pvn.bridges.shared.motions import VehicleState

FACING_NORTH = rotation_from_yaw(math.pi / 2)
GROUND = VehicleState(0.0, (25.0, 25.0, 0.1), (0.0, 0.0, 0.0), FACING_NORTH)
AIR = VehicleState(50.0, (20.0, 30.0, 5.0), (0.0, 0.0, 0.0), FACING_NORTH)
FLYING = Autopilot(is_armed=True, is_landed=False, home=GROUND.position, updated_at=50.0)
SETPOINT = mavlink.MAVLink_set_position_target_local_ned_message
COMMAND = mavlink.MAVLink_command_long_message


def command(number, *parameters):
    return COMMAND(1, 1, number, 0, *parameters, *[0.0] * (7 - len(parameters)))


def ask(autopilot, vehicle, number, *parameters):
    """The autopilot after a command, and the command's result."""
    autopilot, (answer,) = receive(autopilot, command(number, *parameters), vehicle)
    assert answer.command == number
    return autopilot, answer.result


def velocity_setpoint(forward, right, down, yaw_rate=0.0, frame=mavlink.MAV_FRAME_BODY_NED):
    mask = 0b010111000111
    return SETPOINT(0, 1, 1, frame, mask, 0, 0, 0, forward, right, down, 0, 0, 0, 0, yaw_rate)


def later(vehicle, seconds, **changes):
    return replace(vehicle, time_s=vehicle.time_s + seconds, **changes)


def to_geodetic(x, y):
    """Latitude and longitude, degrees, of a place in the field."""
    return GLOBE.to_geo_point((x, y, 0.0))[:2]


@pytest.mark.parametrize("firmware", ["px4", "ardupilot"])
def test_the_numbers_of_modes_there_and_back(firmware):
    for mode in Mode:
        if (mode, firmware) != (Mode.TAKEOFF, "ardupilot"):
            assert from_custom_mode(to_custom_mode(mode, firmware), firmware) is mode


def test_take_off_wants_an_armed_drone_and_ends_in_hold():
    autopilot, result = ask(Autopilot(), GROUND, mavlink.MAV_CMD_NAV_TAKEOFF)
    assert result == DENIED and autopilot.mode is Mode.HOLD
    autopilot, result = ask(autopilot, GROUND, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0)
    assert result == ACCEPTED and autopilot.is_armed
    autopilot, result = ask(autopilot, GROUND, mavlink.MAV_CMD_NAV_TAKEOFF, *[math.nan] * 7)
    assert result == ACCEPTED and autopilot.mode is Mode.TAKEOFF
    assert held_setpoint(autopilot, GROUND).altitude > 1
    there = later(GROUND, 3, position=(25.0, 25.0, 2.6))
    autopilot, _ = advance(autopilot, False, there)
    assert autopilot.mode is Mode.HOLD and not autopilot.is_landed


def test_ardupilot_takes_off_in_guided_and_stays_in_it():
    autopilot, _ = ask(Autopilot(firmware="ardupilot"), GROUND, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0)
    assert ask(autopilot, GROUND, mavlink.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, 5.0)[1] == DENIED
    autopilot, _ = ask(autopilot, GROUND, mavlink.MAV_CMD_DO_SET_MODE, 1.0, 4.0)
    autopilot, result = ask(autopilot, GROUND, mavlink.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, 0, 0, 0, 5.0)
    assert result == ACCEPTED and autopilot.target.altitude == pytest.approx(5.1)
    there = later(GROUND, 60, position=(25.0, 25.0, 5.1))
    autopilot, _ = advance(autopilot, False, there)
    assert autopilot.mode is Mode.OFFBOARD
    for loiter_or_brake in (5.0, 17.0):
        assert ask(autopilot, there, mavlink.MAV_CMD_DO_SET_MODE, 1.0, loiter_or_brake)[0].mode is Mode.HOLD


def test_in_the_air_it_cannot_be_disarmed_not_even_by_force():
    for force in (0.0, 21196.0):
        autopilot, result = ask(FLYING, AIR, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 0.0, force)
        assert result == DENIED and autopilot.is_armed


def test_offboard_control_wants_setpoints_that_flow_already_and_follows_them():
    assert ask(FLYING, AIR, mavlink.MAV_CMD_DO_SET_MODE, 1.0, 6.0)[1] == TEMPORARILY_REJECTED
    autopilot, answers = receive(FLYING, velocity_setpoint(2.0, 1.0, 0.0), AIR)
    assert not answers and autopilot.mode is Mode.HOLD
    autopilot, result = ask(autopilot, later(AIR, 0.5), mavlink.MAV_CMD_DO_SET_MODE, 1.0, 6.0)
    assert result == ACCEPTED and autopilot.mode is Mode.OFFBOARD
    held = held_setpoint(autopilot, AIR)
    # Facing north, forward is north and right is east; the height is held.
    assert held.velocity == pytest.approx((1.0, 2.0)) and held.altitude == 5.0


def test_a_silent_computer_loses_offboard_control():
    autopilot, _ = receive(FLYING, velocity_setpoint(2.0, 0.0, 0.0), AIR)
    autopilot, _ = ask(autopilot, AIR, mavlink.MAV_CMD_DO_SET_MODE, 1.0, 6.0)
    assert advance(autopilot, False, later(AIR, 0.9))[0].mode is Mode.OFFBOARD
    autopilot, told = advance(autopilot, False, later(AIR, 1.1))
    assert autopilot.mode is Mode.HOLD and "lost" in told[0].text
    assert held_setpoint(autopilot, later(AIR, 1.1)).velocity == (0.0, 0.0)


@pytest.mark.parametrize(
    ("frame", "velocity", "east_north"),
    [
        (mavlink.MAV_FRAME_LOCAL_NED, (2.0, 1.0), (1.0, 2.0)),
        (mavlink.MAV_FRAME_BODY_NED, (2.0, 1.0), (2.0, -1.0)),
        (mavlink.MAV_FRAME_BODY_FRD, (0.0, 1.0), (0.0, -1.0)),
    ],
)
def test_velocities_in_every_frame_for_a_drone_that_faces_east(frame, velocity, east_north):
    facing_east = replace(AIR, rotation=rotation_from_yaw(0.0))
    offboard = replace(FLYING, mode=Mode.OFFBOARD)
    autopilot, _ = receive(offboard, velocity_setpoint(*velocity, -1.0, frame=frame), facing_east)
    held = held_setpoint(autopilot, facing_east)
    assert held.velocity == pytest.approx(east_north) and held.altitude > 5.0


def test_a_yaw_in_a_body_frame_is_to_the_right_of_the_current_heading():
    mask = 0b101111000111
    message = SETPOINT(0, 1, 1, mavlink.MAV_FRAME_BODY_NED, mask, 0, 0, 0, 1.0, 0, 0, 0, 0, 0, 0.5, 0)
    target = receive(replace(FLYING, mode=Mode.OFFBOARD), message, AIR)[0].target
    assert target.yaw == pytest.approx(math.pi / 2 - 0.5)


def test_a_position_setpoint_leads_there_and_a_global_one_to_the_same_place():
    offboard = replace(FLYING, mode=Mode.OFFBOARD)
    mask = 0b100111111000
    local = SETPOINT(0, 1, 1, mavlink.MAV_FRAME_LOCAL_NED, mask, 10.0, 5.0, -3.0, 0, 0, 0, 0, 0, 0, 0.0, 0.0)
    latitude, longitude = (round(one * 1e7) for one in to_geodetic(30.0, 35.0))
    frame = mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT
    globally = mavlink.MAVLink_set_position_target_global_int_message(
        0, 1, 1, frame, mask, latitude, longitude, 3.0, 0, 0, 0, 0, 0, 0, 0.0, 0.0
    )
    for message in (local, globally):
        target = receive(offboard, message, AIR)[0].target
        assert target.place == pytest.approx((30.0, 35.0), abs=0.02) and target.altitude == pytest.approx(3.1)
        assert target.yaw == pytest.approx(math.pi / 2), "a yaw of 0 is north"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_setpoints_that_are_not_numbers_are_ignored(bad):
    offboard = replace(FLYING, mode=Mode.OFFBOARD)
    assert receive(offboard, velocity_setpoint(bad, 0.0, 0.0), AIR) == (offboard, [])


def test_a_pilot_takes_over_at_any_time():
    offboard = replace(receive(FLYING, velocity_setpoint(2.0, 0.0, 0.0), AIR)[0], mode=Mode.OFFBOARD)
    autopilot, result = ask(offboard, AIR, mavlink.MAV_CMD_DO_SET_MODE, 1.0, 3.0)
    assert result == ACCEPTED and autopilot.mode is Mode.PILOT
    followed, _ = receive(autopilot, velocity_setpoint(3.0, 0.0, 0.0), AIR)
    assert held_setpoint(followed, AIR).velocity == (0.0, 0.0), "set-points no longer count"


def test_it_lands_and_disarms_itself():
    autopilot, result = ask(FLYING, AIR, mavlink.MAV_CMD_NAV_LAND)
    assert result == ACCEPTED and held_setpoint(autopilot, AIR).altitude < 5.0
    down = later(AIR, 8, position=(20.0, 30.0, 0.1))
    autopilot, told = advance(autopilot, True, down)
    assert autopilot.is_landed and autopilot.is_armed and told
    autopilot, _ = advance(autopilot, True, later(down, 2.5))
    assert not autopilot.is_armed and autopilot.mode is Mode.HOLD


def test_an_armed_drone_that_does_not_take_off_disarms_itself():
    autopilot, _ = ask(Autopilot(), GROUND, mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0)
    assert advance(autopilot, True, later(GROUND, 9))[0].is_armed
    assert not advance(autopilot, True, later(GROUND, 11))[0].is_armed


def test_it_returns_home_and_lands_there():
    autopilot, _ = ask(FLYING, AIR, mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH)
    assert autopilot.target.place == (25.0, 25.0) and autopilot.target.altitude == pytest.approx(10.1)
    autopilot, _ = advance(autopilot, False, later(AIR, 10, position=(25.2, 25.0, 10.0)))
    assert autopilot.mode is Mode.LAND


def test_the_battery_empties_in_the_air_and_an_empty_one_lands():
    autopilot, _ = advance(FLYING, False, later(AIR, 120))
    assert autopilot.battery == pytest.approx(0.9)
    autopilot, told = advance(replace(autopilot, battery=0.05), False, later(AIR, 120.01))
    assert autopilot.mode is Mode.LAND and "battery" in told[0].text


def test_parameters_are_listed_read_and_set_but_not_to_nonsense():
    listed = receive(Autopilot(), mavlink.MAVLink_param_request_list_message(1, 1), GROUND)[1]
    assert [one.param_index for one in listed] == list(range(len(listed))) and len(listed) == listed[0].param_count
    kind = mavlink.MAV_PARAM_TYPE_REAL32
    autopilot, (answer,) = receive(
        Autopilot(), mavlink.MAVLink_param_set_message(1, 1, b"MIS_TAKEOFF_ALT", 7.0, kind), GROUND
    )
    assert answer.param_value == 7.0 and autopilot.parameters["MIS_TAKEOFF_ALT"] == 7.0
    for bad in (math.nan, -3.0):
        refused = mavlink.MAVLink_param_set_message(1, 1, b"MIS_TAKEOFF_ALT", bad, kind)
        assert receive(autopilot, refused, GROUND)[1][0].param_value == 7.0
    read = mavlink.MAVLink_param_request_read_message(1, 1, b"MIS_TAKEOFF_ALT", -1)
    assert receive(autopilot, read, GROUND)[1][0].param_value == 7.0
    unknown = mavlink.MAVLink_param_request_read_message(1, 1, b"NO_SUCH", -1)
    assert receive(autopilot, unknown, GROUND) == (autopilot, [])


def test_a_command_it_does_not_know_is_answered():
    assert ask(FLYING, AIR, mavlink.MAV_CMD_DO_PARACHUTE, 1.0) == (FLYING, UNSUPPORTED)


def mission_item(number, number_of_command, x, y, z):
    latitude, longitude = (round(one * 1e7) for one in to_geodetic(x, y))
    frame = mavlink.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT
    return mavlink.MAVLink_mission_item_int_message(
        1, 1, number, frame, number_of_command, 0, 1, 0.0, 0.0, 0.0, math.nan, latitude, longitude, z
    )


def upload(autopilot, items):
    autopilot, (wanted,) = receive(autopilot, mavlink.MAVLink_mission_count_message(1, 1, len(items)), GROUND)
    for item in items:
        assert wanted.get_type() == "MISSION_REQUEST_INT" and wanted.seq == item.seq
        autopilot, (wanted,) = receive(autopilot, item, GROUND)
    assert wanted.get_type() == "MISSION_ACK" and wanted.type == mavlink.MAV_MISSION_ACCEPTED
    return autopilot


def test_a_mission_is_uploaded_read_back_and_flown():
    items = [
        mission_item(0, mavlink.MAV_CMD_NAV_WAYPOINT, 30.0, 25.0, 6.0),
        mission_item(1, mavlink.MAV_CMD_DO_CHANGE_SPEED, 25.0, 25.0, 0.0),
        mission_item(2, mavlink.MAV_CMD_NAV_RETURN_TO_LAUNCH, 25.0, 25.0, 0.0),
    ]
    autopilot = upload(FLYING, items)
    count = receive(autopilot, mavlink.MAVLink_mission_request_list_message(1, 1), AIR)[1][0]
    assert count.count == 3
    back = receive(autopilot, mavlink.MAVLink_mission_request_int_message(1, 1, 0), AIR)[1][0]
    assert (back.x, back.y, back.z, back.command) == (items[0].x, items[0].y, 6.0, items[0].command)

    autopilot, result = ask(autopilot, AIR, mavlink.MAV_CMD_MISSION_START)
    assert result == ACCEPTED
    autopilot, _ = advance(autopilot, False, later(AIR, 0.01))
    assert autopilot.target.place == pytest.approx((30.0, 25.0), abs=0.02)
    assert autopilot.target.altitude == pytest.approx(6.1)
    there = later(AIR, 5, position=(30.0, 25.0, 6.1))
    reached = []
    for _ in range(4):
        autopilot, told = advance(autopilot, False, there)
        reached += [one.seq for one in told]
    assert reached == [0, 1, 2] and autopilot.mode is Mode.RETURN


def test_a_mission_that_is_too_long_or_never_arrives_leaves_the_old_one():
    autopilot = upload(FLYING, [mission_item(0, mavlink.MAV_CMD_NAV_WAYPOINT, 30.0, 25.0, 6.0)])
    refused, (answer,) = receive(autopilot, mavlink.MAVLink_mission_count_message(1, 1, MAX_ITEMS + 1), GROUND)
    assert answer.type == mavlink.MAV_MISSION_NO_SPACE and refused == autopilot
    begun, _ = receive(autopilot, mavlink.MAVLink_mission_count_message(1, 1, 5), GROUND)
    given_up, _ = advance(begun, True, later(GROUND, 6))
    assert given_up.mission == autopilot.mission
