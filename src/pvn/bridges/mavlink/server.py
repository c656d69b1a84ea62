"""Our simulator as an autopilot on UDP: its clients, and what each is sent and how often."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymavlink.dialects.v20 import common as mavlink

from pvn.bridges.mavlink.autopilot import UNSUPPORTED, receive
from pvn.bridges.mavlink.drone import SimulatedDrone
from pvn.bridges.mavlink.mjpeg import STREAM_PATH, CameraStream
from pvn.bridges.mavlink.options import GROUND_STATION_PORT, SCRIPT_PORT, MavlinkServerOptions
from pvn.bridges.mavlink.telemetry import TELEMETRY, heartbeat
from pvn.bridges.shared.serving import FieldServer, cannot_listen
from pvn.geometry import Camera
from pvn.world.layout import Layout

log = logging.getLogger(__name__)

SYSTEM_ID, COMPONENT_ID = 1, 1
MAX_CLIENTS = 16
MAX_DATAGRAM = 2048
"""Bytes; a MAVLink message has at most 280, and clients put few into a datagram."""
RECEIVE_BUFFER_BYTES = 1 << 20
MAX_RATE_HZ = 100.0
SILENCE_S = 10.0
"""A client that is silent for longer, in seconds of wall-clock time, is forgotten, or gets only heartbeats."""
HEARTBEAT_S = 1.0
Address = tuple[Any, ...]
LISTENERS: Sequence[Address] = (("127.0.0.1", SCRIPT_PORT), ("127.0.0.1", GROUND_STATION_PORT))


@dataclass
class Link:
    """One client, and the state of its conversation."""

    address: Address
    is_permanent: bool
    """Whether it gets heartbeats although it has said nothing yet."""
    heard_at: float = -math.inf
    """Wall-clock time, seconds."""
    packer: Any = field(default_factory=lambda: mavlink.MAVLink(None, SYSTEM_ID, COMPONENT_ID))
    intervals: dict[int, float] = field(
        default_factory=lambda: {number: 1 / one.rate_hz for number, one in TELEMETRY.items() if one.rate_hz}
    )
    """Simulated seconds between two messages of a kind."""
    due_at: dict[int, float] = field(default_factory=dict)

    def pack(self, message: Any) -> bytes:
        """The message with the next number in this client's sequence."""
        packed: bytes = message.pack(self.packer)
        self.packer.seq = (self.packer.seq + 1) % 256
        return packed

    def due(self, time_s: float) -> list[int]:
        """Numbers of the messages that are due."""
        numbers = [number for number in self.intervals if self.due_at.get(number, 0.0) <= time_s]
        for number in numbers:
            previous, interval = self.due_at.get(number, 0.0), self.intervals[number]
            self.due_at[number] = previous + interval if previous + interval > time_s else time_s + interval
        return numbers

    def set_interval(self, number: int, interval_us: float) -> bool:
        """Send a message at an interval in microseconds, 0: the usual one, -1: never; returns whether it can be."""
        if number not in TELEMETRY or not math.isfinite(interval_us):
            return False
        if interval_us < 0:
            self.intervals.pop(number, None)
        elif interval_us == 0:
            self.intervals[number] = 1 / (TELEMETRY[number].rate_hz or 1.0)
        else:
            self.intervals[number] = max(interval_us / 1e6, 1 / MAX_RATE_HZ)
        return True


def parse_datagram(data: bytes) -> list[Any]:
    """The valid messages for our system in a datagram; each is read by itself, so that garbage spoils no other."""
    if len(data) > MAX_DATAGRAM:
        return []
    parser = mavlink.MAVLink(None)
    parser.robust_parsing = True
    messages = parser.parse_buffer(data) or []
    return [
        message
        for message in messages
        if message.get_type() != "BAD_DATA"
        and not message.get_type().startswith("UNKNOWN")
        and getattr(message, "target_system", SYSTEM_ID) in (0, SYSTEM_ID)
        and getattr(message, "target_component", COMPONENT_ID) in (0, COMPONENT_ID)
    ]


class Clients(asyncio.DatagramProtocol):
    """Answers MAVLink clients, and sends them telemetry."""

    def __init__(self, drone: SimulatedDrone, listeners: Sequence[Address]) -> None:
        """listeners: addresses at which scripts and ground stations wait for an autopilot to speak first."""
        self.drone = drone
        self.links: dict[Address, Link] = {address: Link(address, True) for address in listeners}
        self._transport: asyncio.DatagramTransport | None = None
        self._heartbeat_at = -math.inf
        drone.on_tick = self._after_tick

    def connection_made(self, transport: Any) -> None:
        """Remember how to send, and let the system keep a second of packets while we are busy."""
        wire = transport.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        self._transport = transport

    def error_received(self, error: Exception) -> None:
        """Nobody listens at one of the addresses; the other clients do not suffer for it."""

    def _send(self, link: Link, message: Any) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(link.pack(message), link.address)

    def _wall_clock(self) -> float:
        return asyncio.get_running_loop().time()

    def _link_for(self, address: Address) -> Link | None:
        """The link of a client; a new one if there is room."""
        if address not in self.links:
            if len(self.links) >= MAX_CLIENTS:
                return None
            self.links[address] = Link(address, False)
        return self.links[address]

    def datagram_received(self, data: bytes, address: Address) -> None:
        """Answer a client, whatever it has sent."""
        try:
            messages = parse_datagram(data)
            link = self._link_for(address) if messages else None
            if link is not None:
                link.heard_at = self._wall_clock()
                for message in messages:
                    self._answer(link, message)
        except Exception:  # what one client sends must not end the flight of another
            log.exception("%s: a datagram of %d bytes was ignored", address, len(data))

    def _answer(self, link: Link, message: Any) -> None:
        match message.get_type():
            case "PING" if message.target_system == 0:
                sender = message.get_srcSystem(), message.get_srcComponent()
                self._send(link, mavlink.MAVLink_ping_message(message.time_usec, message.seq, *sender))
            case "TIMESYNC" if message.tc1 == 0:
                self._send(link, mavlink.MAVLink_timesync_message(self.drone.vehicle.state.time_ns, message.ts1))
            case "COMMAND_LONG" if self._answer_request(link, message):
                pass
            case _:
                before = self.drone.autopilot.mode, self.drone.autopilot.is_armed
                self.drone.autopilot, replies = receive(self.drone.autopilot, message, self.drone.vehicle.state)
                for reply in replies:
                    self._send(link, reply)
                if (self.drone.autopilot.mode, self.drone.autopilot.is_armed) != before:
                    self._send_heartbeats()

    def _answer_request(self, link: Link, message: Any) -> bool:
        """Answer a command that is about messages; returns whether it is one."""
        wanted = message.param1 if math.isfinite(message.param1) else -1
        match message.command:
            case mavlink.MAV_CMD_SET_MESSAGE_INTERVAL:
                is_done, numbers = link.set_interval(int(wanted), message.param2), []
            case mavlink.MAV_CMD_REQUEST_MESSAGE:
                is_done, numbers = wanted in TELEMETRY, [int(wanted)]
            case mavlink.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES:
                is_done, numbers = True, [mavlink.MAVLINK_MSG_ID_AUTOPILOT_VERSION]
            case mavlink.MAV_CMD_GET_HOME_POSITION:
                is_done, numbers = True, [mavlink.MAVLINK_MSG_ID_HOME_POSITION]
            case _:
                return False
        sender = message.get_srcSystem(), message.get_srcComponent()
        result = 0 if is_done else UNSUPPORTED
        self._send(link, mavlink.MAVLink_command_ack_message(message.command, result, 0, 0, *sender))
        for number in numbers if is_done else ():
            self._send(link, TELEMETRY[number].build(self.drone.autopilot, self.drone.vehicle.state))
        return True

    def _send_heartbeats(self) -> None:
        self._heartbeat_at = self._wall_clock()
        message = heartbeat(self.drone.autopilot, self.drone.vehicle.state)
        for link in self.links.values():
            self._send(link, message)

    def _after_tick(self, told: Sequence[Any]) -> None:
        """Send what is due: heartbeats by the wall clock, as clients expect them, the rest by simulated time."""
        now = self._wall_clock()
        if told or now - self._heartbeat_at >= HEARTBEAT_S:
            silent = [link for link in self.links.values() if now - link.heard_at > SILENCE_S]
            for link in silent:
                if not link.is_permanent:
                    del self.links[link.address]
            self._send_heartbeats()
        made: dict[int, Any] = {}
        for link in self.links.values():
            if now - link.heard_at > SILENCE_S:
                continue
            for message in told:
                self._send(link, message)
            for number in link.due(self.drone.vehicle.state.time_s):
                if number not in made:
                    made[number] = TELEMETRY[number].build(self.drone.autopilot, self.drone.vehicle.state)
                self._send(link, made[number])


class MavlinkServer(FieldServer):
    """Our simulator as an autopilot with a camera."""

    def __init__(
        self,
        layout: Layout,
        options: MavlinkServerOptions = MavlinkServerOptions(),
        *,
        listeners: Sequence[Address] = LISTENERS,
    ) -> None:
        """listeners: where scripts and ground stations wait for an autopilot to speak first."""
        super().__init__(layout, options.quality)
        self.options = options
        self.drone = SimulatedDrone(
            self.renderer,
            speed=options.speed,
            camera=Camera(width=options.width, height=options.height),
            start=options.start,
            firmware=options.autopilot,
        )
        self.stream = CameraStream(self.drone)
        self.clients = Clients(self.drone, listeners)

    async def _serve(self, announce: Callable[[str], None]) -> None:
        host, loop = self.options.host, asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_datagram_endpoint(
                lambda: self.clients, local_addr=(host, self.options.port)
            )
        except OSError as error:
            raise cannot_listen(host, self.options.port, error) from None
        viewers = await self.stream.listen(host, self.options.camera_port)
        try:
            port, camera_port = transport.get_extra_info("sockname")[1], viewers.sockets[0].getsockname()[1]
            announce(
                f"MAVLink on {host}:{port}, speaking to ports {SCRIPT_PORT} and {GROUND_STATION_PORT}; camera at "
                f"http://{host}:{camera_port}{STREAM_PATH}; {len(self.renderer.layout.landmarks)} landmarks; stop with "
                "Ctrl-C"
            )
            await self.drone.run_clock()
        finally:
            transport.close()
            viewers.close()
            self.drone.close()
