"""Our autopilot on the wire: pymavlink and MAVSDK fly it, and nothing that anyone sends ends it."""

import math
import random
import socket
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("pymavlink", reason='needs pymavlink: pip install "pvn-drone[mavlink]"')

from pymavlink import mavutil
from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink.autopilot import Autopilot, receive
from pvn.bridges.mavlink.drone import SimulatedDrone
from pvn.bridges.mavlink.modes import Mode
from pvn.bridges.mavlink.server import MAX_CLIENTS, MAX_DATAGRAM, parse_datagram
from pvn.bridges.shared.renderer import CameraRenderer

TIMEOUT_S = 60


class Client:
    """A ground station: pymavlink on a socket of its own."""

    def __init__(self, served):
        self.link = mavutil.mavlink_connection(f"udpout:127.0.0.1:{served.port}", source_system=250)
        self.link.mav.heartbeat_send(mavlink.MAV_TYPE_GCS, mavlink.MAV_AUTOPILOT_INVALID, 0, 0, 0)
        self.link.target_system = self.link.target_component = 1

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.link.close()

    def wait(self, kind, condition=lambda message: True):
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            message = self.link.recv_match(type=kind, blocking=True, timeout=1)
            if message is not None and condition(message):
                return message
        raise AssertionError(f"no {kind}")

    def command(self, number, *parameters):
        """The result of a command, which is sent again if there is no answer, as MAVLink's clients do: it is UDP."""
        padded = [*parameters, *[0.0] * (7 - len(parameters))]
        for attempt in range(TIMEOUT_S):
            self.link.mav.command_long_send(1, 1, number, attempt, *padded)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                message = self.link.recv_match(type="COMMAND_ACK", blocking=True, timeout=0.2)
                if message is not None and message.command == number:
                    return message.result
        raise AssertionError(f"no answer to {number}")


@pytest.fixture(scope="module")
def served(fly_drone):
    """An autopilot that several tests share; each begins and ends with a drone on the ground."""
    with fly_drone(speed=5.0, quality="fast") as one:
        yield one


@pytest.mark.long
def test_pymavlink_arms_takes_off_goes_somewhere_and_lands(served):
    with Client(served) as client:
        beat = client.wait("HEARTBEAT")
        assert beat.autopilot == mavlink.MAV_AUTOPILOT_PX4 and beat.type == mavlink.MAV_TYPE_QUADROTOR
        assert client.command(mavlink.MAV_CMD_COMPONENT_ARM_DISARM, 1.0) == 0
        assert client.command(mavlink.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, math.nan, 0, 0, math.nan) == 0
        client.wait("LOCAL_POSITION_NED", lambda message: message.z < -2.2)
        goal, mask = (3.0, 2.0, -2.5), 0b110111111000

        def has_arrived(here):
            """Ask for it with every position: on a busy machine set-points are late, and offboard control is lost."""
            frame = mavlink.MAV_FRAME_LOCAL_NED
            client.link.mav.set_position_target_local_ned_send(0, 1, 1, frame, mask, *goal, *[0] * 8)
            client.link.mav.command_long_send(1, 1, mavlink.MAV_CMD_DO_SET_MODE, 0, 1.0, 6.0, 0, 0, 0, 0, 0)
            return math.dist((here.x, here.y, here.z), goal) < 0.3

        client.wait("LOCAL_POSITION_NED", has_arrived)
        assert client.command(mavlink.MAV_CMD_NAV_LAND) == 0
        on_ground = mavlink.MAV_LANDED_STATE_ON_GROUND
        client.wait("EXTENDED_SYS_STATE", lambda message: message.landed_state == on_ground)
        client.wait("HEARTBEAT", lambda message: not message.base_mode & mavlink.MAV_MODE_FLAG_SAFETY_ARMED)


@pytest.mark.long
def test_telemetry_says_where_the_vehicle_is(fly_drone):
    with fly_drone(speed=5.0, quality="fast", start=(10.0, 40.0, 0.0)) as served, Client(served) as client:
        local, attitude = client.wait("LOCAL_POSITION_NED"), client.wait("ATTITUDE")
        assert (local.x, local.y, local.z) == pytest.approx((15.0, -15.0, 0.0))
        assert math.degrees(attitude.yaw) == pytest.approx(90.0), "east is 90 degrees clockwise from north"
        battery, home = client.wait("BATTERY_STATUS"), client.wait("HOME_POSITION")
        assert battery.battery_remaining == 100 and home.x == pytest.approx(15.0)
        assert client.wait("GLOBAL_POSITION_INT").hdg == 9000 and client.wait("GPS_RAW_INT").fix_type == 3


def test_messages_come_as_often_as_a_client_asks_and_others_do_not_notice(served):
    interval = mavlink.MAV_CMD_SET_MESSAGE_INTERVAL
    number = mavlink.MAVLINK_MSG_ID_ATTITUDE
    with Client(served) as client, Client(served) as other:
        other.wait("ATTITUDE")
        assert client.command(interval, number, -1) == 0
        assert client.command(interval, 9999, 1000) == mavlink.MAV_RESULT_UNSUPPORTED
        other.wait("ATTITUDE")
        assert client.command(mavlink.MAV_CMD_REQUEST_MESSAGE, mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION) == 0
        capabilities = client.wait("AUTOPILOT_VERSION").capabilities
        assert capabilities & mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED


@pytest.mark.long
def test_mavsdk_knows_its_position_parameters_and_version(served):
    mavsdk = pytest.importorskip("mavsdk")
    from mavsdk.plugins.action import Action
    from mavsdk.plugins.telemetry import Telemetry

    mavsdk.log_subscribe(lambda *line: True)
    configuration = mavsdk.Configuration.create_with_component_type(mavsdk.ComponentType.GROUND_STATION)
    with mavsdk.Mavsdk(configuration) as sdk:
        sdk.add_any_connection(served.address)
        system = sdk.first_autopilot(30.0)
        telemetry, action = Telemetry(system), Action(system)
        end = time.monotonic() + TIMEOUT_S
        while not telemetry.health_all_ok():
            assert time.monotonic() < end, telemetry.health()
            time.sleep(0.05)
        assert action.get_takeoff_altitude() == 2.5
        action.set_takeoff_altitude(4.0)
        assert served.drone.autopilot.parameters["MIS_TAKEOFF_ALT"] == 4.0
        action.set_takeoff_altitude(2.5)


def valid_packets():
    """Packets of every kind that the autopilot reads, as a client packs them."""
    packer = mavlink.MAVLink(None, 250, 190)
    command = mavlink.MAVLink_command_long_message
    messages = [
        *(command(1, 1, number, 0, 1.0, 6.0, 0, 0, 0, 0, 5.0) for number in (21, 22, 176, 192, 300, 400, 511, 512)),
        mavlink.MAVLink_set_mode_message(1, 1, 4 << 16 | 3 << 24),
        mavlink.MAVLink_set_position_target_local_ned_message(0, 1, 1, 8, 0b010111000111, *[0] * 3, 1, *[0] * 7),
        mavlink.MAVLink_set_position_target_global_int_message(0, 1, 1, 6, 0b110111111000, 1, 1, 1, *[0] * 8),
        mavlink.MAVLink_param_set_message(1, 1, b"MIS_TAKEOFF_ALT", 3.0, 9),
        mavlink.MAVLink_param_request_list_message(1, 1),
        mavlink.MAVLink_param_request_read_message(1, 1, b"", 3),
        mavlink.MAVLink_mission_count_message(1, 1, 3),
        mavlink.MAVLink_mission_item_int_message(1, 1, 0, 6, 16, 0, 1, 0, 0, 0, 0, 473977420, 85455940, 5.0),
        mavlink.MAVLink_mission_request_int_message(1, 1, 0),
        mavlink.MAVLink_mission_clear_all_message(1, 1),
        mavlink.MAVLink_ping_message(1, 1, 0, 0),
        mavlink.MAVLink_timesync_message(0, 1),
        mavlink.MAVLink_heartbeat_message(6, 8, 0, 0, 0, 3),
    ]
    return [bytes(message.pack(packer)) for message in messages]


def hostile_datagrams(count, seed):
    """Garbage, truncated, altered, glued and replayed packets, and some with correct sums but absurd content."""
    pick, packets = random.Random(seed), valid_packets()
    packer = mavlink.MAVLink(None, 250, 190)
    for number in range(count):
        packet = bytearray(pick.choice(packets))
        match number % 6:
            case 0:
                yield pick.randbytes(pick.randrange(0, 300))
            case 1:
                yield bytes(packet[: pick.randrange(len(packet))])
            case 2:
                packet[pick.randrange(len(packet))] ^= 1 << pick.randrange(8)
                yield bytes(packet)
            case 3:
                yield bytes(packet) + pick.randbytes(20) + pick.choice(packets)
            case 4:
                yield bytes(packet)
            case _:
                numbers = [pick.choice([math.nan, math.inf, -1e30, 1e30, 0.0, 7.0]) for _ in range(8)]
                absurd = mavlink.MAVLink_command_long_message(1, 1, pick.randrange(65536), 0, *numbers[:7])
                if pick.random() < 0.5:
                    absurd = mavlink.MAVLink_set_position_target_local_ned_message(
                        0, 1, 1, pick.randrange(256), pick.randrange(65536), *numbers, *numbers[:3]
                    )
                yield bytes(absurd.pack(packer))


def swallow(count, seed):
    """The state of an autopilot after it has read hostile datagrams."""
    autopilot, drone = Autopilot(), SimulatedDroneState()
    for data in hostile_datagrams(count, seed):
        for message in parse_datagram(data):
            autopilot, _ = receive(autopilot, message, drone.state)
    return autopilot


class SimulatedDroneState:
    """A vehicle that hovers, for an autopilot that is only talked to."""

    def __init__(self):
        from pvn.bridges.shared.vehicle import Vehicle

        self.state = Vehicle().state


@pytest.mark.long
def test_what_is_hostile_changes_nothing_that_it_may_not():
    autopilot = swallow(6000, seed=1)
    assert all(math.isfinite(value) and value >= 0 for value in autopilot.parameters.values())
    assert len(autopilot.mission.items) <= 200


@pytest.mark.slow
def test_100_000_hostile_datagrams_leave_it_alive(fly_drone):
    """Over the socket, while another client gets all positions, 50 a second; and memory does not grow."""
    import resource

    with fly_drone(speed=1.0, quality="fast") as served, Client(served) as listener:
        listener.wait("ATTITUDE")
        read, num_read, heard_at_ms = served.clients.datagram_received, 0, []

        def read_and_count(data, address):
            nonlocal num_read
            num_read += 1
            read(data, address)

        served.clients.datagram_received = read_and_count
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for number, data in enumerate(hostile_datagrams(100_000, seed=2)):
                sender.sendto(data, ("127.0.0.1", served.port))
                end = time.monotonic() + 1
                while num_read < number - 50 and time.monotonic() < end:  # no faster than the system keeps them
                    time.sleep(0.001)
                if number % 1000 == 0:
                    listener.link.mav.heartbeat_send(6, 8, 0, 0, 0)
                    while (position := listener.link.recv_match(type="LOCAL_POSITION_NED")) is not None:
                        heard_at_ms.append(position.time_boot_ms)
                    heard_at_ms.append(listener.wait("LOCAL_POSITION_NED").time_boot_ms)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert num_read > 99_000 and grown < 20_000, f"{num_read} read, {grown} kB more"
        gaps_ms = np.diff(heard_at_ms)
        assert len(gaps_ms) > 200 and set(gaps_ms) <= {10, 20, 30} and gaps_ms.mean() == pytest.approx(20, abs=0.1)
        assert len(served.clients.links) <= MAX_CLIENTS
        assert listener.command(mavlink.MAV_CMD_REQUEST_MESSAGE, mavlink.MAVLINK_MSG_ID_HEARTBEAT) == 0


@pytest.mark.long
def test_hostile_datagrams_over_the_socket_do_not_disturb_another_client(fly_drone):
    with (
        fly_drone(quality="fast") as served,
        Client(served) as listener,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        for number, data in enumerate(hostile_datagrams(600, seed=3)):
            sender.sendto(data, ("127.0.0.1", served.port))
            if number % 200 == 0:
                listener.wait("LOCAL_POSITION_NED")
        assert listener.command(mavlink.MAV_CMD_REQUEST_MESSAGE, mavlink.MAVLINK_MSG_ID_HEARTBEAT) == 0
        assert listener.command(mavlink.MAV_CMD_NAV_LAND) == 0


def test_a_datagram_that_is_too_long_is_not_read_and_one_for_another_system_is_not_obeyed():
    packet = valid_packets()[0]
    assert len(parse_datagram(packet)) == 1
    assert parse_datagram(packet * (MAX_DATAGRAM // len(packet) + 1)) == []
    other = mavlink.MAVLink_command_long_message(7, 1, 400, 0, 1.0, *[0.0] * 6)
    assert parse_datagram(bytes(other.pack(mavlink.MAVLink(None, 250, 190)))) == []


def test_there_is_room_for_so_many_clients_and_a_flood_of_them_does_not_push_others_out(served):
    with Client(served) as first:
        first.wait("ATTITUDE")
        crowd = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2 * MAX_CLIENTS)]
        for one in crowd:
            one.sendto(valid_packets()[-1], ("127.0.0.1", served.port))
        first.wait("ATTITUDE")
        first.wait("ATTITUDE")
        assert len(served.clients.links) <= MAX_CLIENTS
        for one in crowd:
            one.close()
        served.call(lambda: [served.clients.links.pop(address) for address in list(served.clients.links)[2:]])


def test_the_camera_shows_what_the_renderer_renders(served, layout):
    with urllib.request.urlopen(served.camera_url.replace(".mjpg", ".jpg")) as answer:
        seen = np.asarray(Image.open(answer), np.int16)
    drone = served.drone
    rendered = CameraRenderer(layout, is_full=False).render_scene(drone.camera_row(), drone.camera).astype(np.int16)
    assert seen.shape == (72, 128, 3) and np.abs(seen - rendered).mean() < 3
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(served.camera_url.replace("camera", "other"))


def test_a_speed_without_end_is_refused(layout):
    with pytest.raises(ValueError, match="speed: got inf, expected a finite number"):
        SimulatedDrone(CameraRenderer(layout), speed=math.inf)


def test_it_begins_where_it_is_told_holding_on_the_ground(layout):
    drone = SimulatedDrone(CameraRenderer(layout), start=(10.0, 12.0, 1.0), firmware="ardupilot")
    for _ in range(50):
        drone.tick()
    assert drone.vehicle.state.position == pytest.approx(
        (10.0, 12.0, 0.1)
    ) and drone.vehicle.state.yaw == pytest.approx(1.0)
    assert drone.autopilot.mode is Mode.HOLD and drone.autopilot.is_landed
