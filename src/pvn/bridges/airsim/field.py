"""An AirSim world as a field to fly in: one flight, driven like our own simulator.

with AirSimField(AirSimOptions(port=41451)) as field:
    task = Task(field.layouts[0], field.take_off(), "go to the tree")
    log = fly(field, [task], load_agent("pvn-plus"))
    field.hover()
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from msgpackrpc.error import RPCError
from msgpackrpc.error import TimeoutError as NoAnswer
from torch import Tensor

from pvn.bridges.airsim.options import AirSimOptions
from pvn.bridges.airsim.wire_types import encode_quaternion, encode_vector, parse_pose
from pvn.bridges.shared.frames import (
    NED_ORIGIN_WORLD,
    from_ned,
    multiply_quaternions,
    roll_pitch_yaw,
    rotate_vector,
    rotation_from_pitch,
    rotation_from_yaw,
    swap_rates,
    swap_rotation,
    swap_vector,
    to_ned,
)
from pvn.bridges.shared.remote_field import Command, FlightAborted, RemoteField
from pvn.geometry import Camera
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.simulator.quadcopter import SUBSTEP_SECONDS
from pvn.world.layout import Layout

try:
    import cosysairsim as airsim
except ModuleNotFoundError:
    import airsim

log = logging.getLogger(__name__)

TAKEOFF_TIMEOUT_S, CLIMB_TIMEOUT_S, CLIMB_SPEED = 20.0, 60.0, 2.0
POLL_INTERVAL_S = 0.02
SETPOINT_INTERVAL_S = 0.02
"""Approximate time between two set-points of a step, seconds. AirSim reads the heading only when a velocity arrives,
whereas a policy's speed is along the current heading."""
SETPOINT_HOLD_S = 1.0
"""How much longer than a step a set-point holds: a policy may take this long before the drone hovers by itself."""
HOVER_TIMEOUT_S = 2
TILT_TOLERANCE = math.radians(2.0)
ALTITUDE_TOLERANCE_M, SETTLE_S = 0.2, 1.0
IDLE_CLOCK_S = 1.0
LANDED = 0


def _decode_image(response: dict[str, Any]) -> np.ndarray:
    """The pixels (H, W, 3), red green blue, of an image response; AirSim sends blue green red, sometimes with alpha."""
    width, height = int(response["width"]), int(response["height"])
    data = np.frombuffer(response["image_data_uint8"], np.uint8)
    if width < 1 or height < 1 or len(data) not in (3 * width * height, 4 * width * height):
        raise FlightAborted(f"simGetImages: got {len(data)} bytes for {width} x {height} pixels, expected an image")
    return data.reshape(height, width, -1)[..., 2::-1]


def resample_image(image: np.ndarray, horizontal_view: float, camera: Camera) -> Tensor:
    """What `camera` would have seen (1, h, w, 3) uint8, given an image (H, W, 3) uint8 taken from the same pose.

    horizontal_view: the image's horizontal field of view, radians. Beyond the image's edges it is black.
    """
    height, width = image.shape[:2]
    ours, theirs = math.tan(camera.horizontal_view / 2), math.tan(horizontal_view / 2)
    covered_px = width * ours / theirs  # pixels of the image across our field of view
    left = round((covered_px - width) / 2)
    top = round((covered_px * camera.height / camera.width - height) / 2)
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float()
    pixels = functional.pad(pixels, (left, left, top, top))  # negative padding crops
    size = (camera.height, camera.width)
    if pixels.shape[-2:] != size:
        pixels = functional.interpolate(pixels, size, mode="bilinear", antialias=True)
    return pixels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def _yaw_rate(state: Any) -> float:
    """How fast a vehicle's heading turns to the left, rad/s."""
    attitude, rates = state.kinematics_estimated.orientation, state.kinematics_estimated.angular_velocity
    roll, pitch, _ = roll_pitch_yaw(swap_rotation((attitude.w_val, attitude.x_val, attitude.y_val, attitude.z_val)))
    _, nose_down, left = swap_rates((rates.x_val, rates.y_val, rates.z_val))
    return (nose_down * math.sin(roll) + left * math.cos(roll)) / math.cos(pitch)


def close_client(client: Any) -> None:
    """Close the connection of AirSim's client for good."""
    session = client.client
    if session._transport is not None:
        session._transport._reconnect_limit = 0  # or it would reconnect as soon as the connection is closed
    session.close()
    session._loop.dettach_periodic_callback()  # it checks for time-outs and would keep the client alive forever


class AirSimField(RemoteField):
    """One flight in an AirSim world."""

    def __init__(
        self,
        options: AirSimOptions = AirSimOptions(),
        *,
        config: SimulatorConfig = SimulatorConfig(),
        layout: Layout | None = None,
        can_teleport: bool = False,
    ) -> None:
        """Connect. can_teleport: flights start where their task says (simSetVehiclePose), not where the drone is."""
        super().__init__(config, layout)
        self.options, self._can_teleport = options, can_teleport
        self._origin = NED_ORIGIN_WORLD
        self._motion: Any = None
        """Future of the last motion sent; its answer may still be pending."""
        self._client = self._connect(options.timeout_s)
        try:
            with self._hovering_on_failure():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _connect(self, timeout_s: int) -> Any:
        return airsim.MultirotorClient(ip=self.options.host, port=self.options.port, timeout_value=timeout_s)

    def _prepare(self) -> None:
        """Take control of the vehicle and its camera."""
        client, vehicle = self._client, self.options.vehicle
        client.ping()
        # AirSim 1.8 checks the number of arguments, and wants one more: whether a camera is external.
        self._external = () if client.getServerVersion() >= 4 else (False,)
        if vehicle and vehicle not in (names := client.listVehicles()):
            raise ValueError(f"vehicle: got {vehicle!r}, expected one of {', '.join(names)}")
        client.enableApiControl(True, vehicle)
        if client.armDisarm(True, vehicle) is not True:
            raise FlightAborted("armDisarm: the vehicle could not be armed")
        self._aim_camera()

    def close(self) -> None:
        """Disconnect; the drone carries on with its last motion."""
        close_client(self._client)

    @contextmanager
    def _hovering_on_failure(self) -> Iterator[None]:
        """If anything goes wrong inside, tell the drone to hover, and the user what happened."""
        try:
            yield
        except (RPCError, OSError) as error:
            outcome = "was told to hover" if self.hover() else "could not be told to hover"
            raise FlightAborted(
                f"AirSim at {self.options.host}:{self.options.port}: {error}; the drone {outcome} after step "
                f"{self.num_steps}. Is the simulator running, and does its settings.json name this vehicle and camera?"
            ) from error

    def hover(self) -> bool:
        """Tell the drone to hover, over a new connection, as the current one may be broken."""
        client = self._connect(HOVER_TIMEOUT_S)
        try:
            client.simPause(False)  # in a paused world the drone would not brake
            client.hoverAsync(self.options.vehicle).get()
        except (RPCError, OSError):
            return False
        finally:
            close_client(client)
        return True

    def _check_motion(self) -> None:
        """Raise the server's error about the last motion, if any; a motion that outlasts the time-out is no error."""
        error = None if self._motion is None else self._motion.error
        if error is not None and not isinstance(error, NoAnswer):
            self._motion.get()

    def _camera_call(self, method: str, *arguments: Any) -> Any:
        return self._client.client.call(method, *arguments, self.options.vehicle, *self._external)

    def _aim_camera(self) -> None:
        """Read the camera's field of view, and tilt it down as far as ours."""
        info = self._camera_call("simGetCameraInfo", self.options.camera)
        self._horizontal_view = math.radians(info["fov"])
        camera_position, camera_rotation = parse_pose(info["pose"])
        body = self._client.simGetVehiclePose(self.options.vehicle)
        position, rotation = parse_pose({"position": vars(body.position), "orientation": vars(body.orientation)})
        to_body = (rotation[0], -rotation[1], -rotation[2], -rotation[3])
        # Camera and body are both AirSim's here, with y to the right, about which nose down is a negative turn.
        tilt = -roll_pitch_yaw(multiply_quaternions(to_body, camera_rotation))[1]
        if not self.options.keep_camera and abs(tilt - self.config.camera.tilt) > TILT_TOLERANCE:
            offset = rotate_vector(to_body, [one - other for one, other in zip(camera_position, position, strict=True)])
            mount = {
                "position": encode_vector(offset),
                "orientation": encode_quaternion(rotation_from_pitch(-self.config.camera.tilt)),
            }
            self._camera_call("simSetCameraPose", self.options.camera, mount)

    def _state(self) -> Any:
        return self._client.getMultirotorState(self.options.vehicle)

    def _wait_until(self, is_done: Callable[[Any], bool], seconds: float, goal: str) -> Any:
        """Wait until is_done(state), for at most `seconds` of simulated time; returns that state."""
        state = self._state()
        start, last, last_change = state.timestamp, state.timestamp, time.monotonic()
        while not is_done(state):
            if state.timestamp - start > seconds * 1e9:
                raise FlightAborted(f"the drone did not {goal} within {seconds:g} s")
            if time.monotonic() - last_change > self.options.timeout_s:
                raise FlightAborted(f"the drone did not {goal}: the simulator's clock stands still; is it paused?")
            time.sleep(POLL_INTERVAL_S)
            state = self._state()
            self._check_motion()
            if state.timestamp > last:
                last, last_change = state.timestamp, time.monotonic()
        return state

    def _stands_still(self, state: Any) -> bool:
        """Whether simulated time passes only while a client waits, and then as fast as the simulator can."""
        end = time.monotonic() + IDLE_CLOCK_S
        while time.monotonic() < end:
            if self._state().timestamp > state.timestamp:
                return False
            time.sleep(POLL_INTERVAL_S)
        return True

    def take_off(self) -> tuple[float, float, float]:
        """Climb to the altitude to be held; returns x, y (metres) and yaw (radians) of the drone there, field frame."""
        vehicle, altitude = self.options.vehicle, self.config.altitude
        with self._hovering_on_failure():
            self._client.simPause(False)
            state = self._state()
            if not self.options.stepped and self._stands_still(state):
                log.warning(
                    "the simulator's clock runs only while a motion is flown, and then as fast as it can (pvn serve "
                    "airsim --speed inf): much simulated time passes between two decisions. Connect with --stepped, or "
                    "serve with --speed 1"
                )
            if state.landed_state == LANDED:
                resting_z = state.kinematics_estimated.position.z_val
                x, y, z = NED_ORIGIN_WORLD
                self._origin = (x, y, z + resting_z)
                self._motion = self._client.takeoffAsync(TAKEOFF_TIMEOUT_S, vehicle)
                self._wait_until(lambda now: self._height(now) > 1.0, TAKEOFF_TIMEOUT_S, "take off")
            self._motion = self._client.moveToZAsync(self._altitude_ned(), CLIMB_SPEED, vehicle_name=vehicle)
            self._wait_until(
                lambda now: abs(self._height(now) - altitude) < ALTITUDE_TOLERANCE_M, CLIMB_TIMEOUT_S, "climb"
            )
            start = self._state().timestamp
            self._send_setpoint(0.0, 0.0)  # unlike AirSim's own hovering, this holds the configured altitude
            self._wait_until(lambda now: now.timestamp - start >= SETTLE_S * 1e9, SETTLE_S, "hover")
            pose = self._observe().pose_world[0].tolist()
        return pose[0], pose[1], pose[5]

    def _altitude_ned(self) -> float:
        """The altitude to be held, as a z of NED."""
        return to_ned((0.0, 0.0, self.config.altitude), self._origin)[2]

    def _height(self, state: Any) -> float:
        position = state.kinematics_estimated.position
        return from_ned((position.x_val, position.y_val, position.z_val), self._origin)[2]

    def _begin(self, start: tuple[float, float, float]) -> Observation:
        x, y, yaw = start
        with self._hovering_on_failure():
            if self.options.stepped:
                self._client.simPause(True)
            if self._can_teleport:
                rotation = swap_rotation(rotation_from_yaw(yaw))
                position_ned = airsim.Vector3r(*to_ned((x, y, self.config.altitude), self._origin))
                pose = airsim.Pose(position_ned, airsim.Quaternionr(*rotation[1:], rotation[0]))
                self._client.simSetVehiclePose(pose, True, self.options.vehicle)
            return self._observe()

    def _fly_step(self, command: Command) -> Observation:
        with self._hovering_on_failure():
            state = self._state()
            end = state.timestamp + self.config.step_seconds * 1e9
            for num_left in range(max(1, round(self.config.step_seconds / SETPOINT_INTERVAL_S)), 0, -1):
                seconds = max(end - state.timestamp, 0.0) / 1e9 / num_left
                # Aimed along the mean heading until the next set-point; our own simulator aims anew in each substep.
                drift = -_yaw_rate(state) * (seconds - SUBSTEP_SECONDS) / 2
                self._send_setpoint(command.speed, command.yaw_rate, drift)
                state = self._advance(state, seconds)
            # Without API control AirSim answers motions as usual, but does not fly them.
            if not self._client.isApiControlEnabled(self.options.vehicle):
                raise FlightAborted("API control was switched off by someone else")
            if command.is_stop:
                self._client.hoverAsync(self.options.vehicle).get()
            return self._observe()

    def _advance(self, state: Any, seconds: float) -> Any:
        """Let simulated time pass; returns the state after it, and raises if the last motion was refused."""
        if self.options.stepped:
            self._client.simContinueForTime(seconds)
            self._wait_for_pause()
            later = self._state()
        else:
            end = state.timestamp + seconds * 1e9
            later = self._wait_until(lambda now: now.timestamp >= end, seconds, "fly a step")
        self._check_motion()
        return later

    def _send_setpoint(self, speed: float, yaw_rate: float, right: float = 0.0) -> None:
        """Send a velocity `right` radians to the right of the heading; yaw_rate: rad/s, left is positive."""
        self._motion = self._client.moveByVelocityZBodyFrameAsync(
            speed * math.cos(right), speed * math.sin(right), self._altitude_ned(),
            self.config.step_seconds + SETPOINT_HOLD_S, airsim.DrivetrainType.MaxDegreeOfFreedom,
            airsim.YawMode(True, -math.degrees(yaw_rate)), self.options.vehicle,
        )  # fmt: skip

    def _wait_for_pause(self) -> None:
        """Wait for the end of simContinueForTime, which some servers answer at once, others when the time is over."""
        start = time.monotonic()
        while not self._client.simIsPause():
            if time.monotonic() - start > self.options.timeout_s:
                raise FlightAborted("simContinueForTime: the simulator did not pause again")
            time.sleep(POLL_INTERVAL_S)

    def _observe(self) -> Observation:
        request = airsim.ImageRequest(self.options.camera, airsim.ImageType.Scene, False, False)
        responses = self._camera_call("simGetImages", [request])
        if not responses:
            raise FlightAborted("simGetImages: got no image, expected one")
        camera = self.config.camera
        image = resample_image(_decode_image(responses[0]), self._horizontal_view, camera)
        position, rotation = parse_pose(
            {"position": responses[0]["camera_position"], "orientation": responses[0]["camera_orientation"]}
        )
        # The pose of a body on which a camera mounted like ours would be where theirs is.
        body_rotation = multiply_quaternions(swap_rotation(rotation), rotation_from_pitch(-camera.tilt))
        pose = torch.tensor([[*from_ned(position, self._origin), *roll_pitch_yaw(body_rotation)]], dtype=torch.float32)
        velocity_ned = self._state().kinematics_estimated.linear_velocity
        velocity = swap_vector((velocity_ned.x_val, velocity_ned.y_val, velocity_ned.z_val))
        return Observation(image, pose, torch.tensor([velocity], dtype=torch.float32))
