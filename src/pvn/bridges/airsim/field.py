"""An AirSim world as a field to fly in: one flight, driven like our own simulator.

with AirSimField("127.0.0.1", 41451) as field:
    start = field.take_off()
    task = Task(field.layouts[0], start, "go to the tree")
    log = fly(field, [task], load_agent("pvn-plus"))
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pvn.bridges.airsim import DEFAULT_PORT
from pvn.bridges.airsim.client import disconnect, import_client
from pvn.bridges.airsim.resampling import resample_image
from pvn.bridges.airsim.wire_types import encode_quaternion, encode_vector, parse_pose
from pvn.bridges.flights import FlightAborted, log_of_steps
from pvn.bridges.shared.frames import (
    NED_ORIGIN_WORLD,
    Vector,
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
from pvn.rollout.flight import FlightLog
from pvn.simulator.interface import FORWARD, STOP, TURN, Observation, SimulatorConfig
from pvn.simulator.quadcopter import SUBSTEP_SECONDS
from pvn.world.layout import Layout

TAKEOFF_TIMEOUT_S, CLIMB_TIMEOUT_S, CLIMB_SPEED = 20.0, 60.0, 2.0
POLL_INTERVAL_S = 0.02
SETPOINT_INTERVAL_S = 0.02
"""Approximate time between the set-points of a step, seconds. AirSim reads the heading only once, when it receives a
velocity, whereas a policy's speed is along the current heading."""
SETPOINT_HOLD_S = 1.0
"""How much longer than a step a set-point is held: a policy may take this long before the drone hovers by itself."""
HOVER_TIMEOUT_S = 2
TILT_TOLERANCE = math.radians(2.0)
START_TOLERANCE_M = 1.0
ALTITUDE_TOLERANCE_M, SETTLE_S = 0.2, 1.0
IDLE_CLOCK_S = 1.0
LANDED = 0


@dataclass(frozen=True, kw_only=True)
class AirSimOptions:
    """How to use an AirSim server."""

    vehicle: str = ""
    """The vehicle's name in the server's settings.json; empty: the only one."""
    camera: str = "0"
    """The name of the camera the agent sees through."""
    timeout_s: int = 10
    """How long the server may take to answer, seconds."""
    is_stepped: bool = False
    """Whether the world is paused while the policy computes (simPause, simContinueForTime), so that the flight does not
    depend on the speed of the machine."""
    can_teleport: bool = False
    """Whether flights start where their task says (simSetVehiclePose), or where the drone is."""
    tilts_camera: bool = True
    """Whether the camera is turned to the tilt of the agent's camera (simSetCameraPose)."""


def _decode_image(response: dict[str, Any]) -> np.ndarray:
    """The pixels (H, W, 3), red green blue, of an image response; AirSim sends blue green red, sometimes with alpha."""
    width, height = int(response["width"]), int(response["height"])
    data = np.frombuffer(response["image_data_uint8"], np.uint8)
    if width < 1 or height < 1 or len(data) not in (3 * width * height, 4 * width * height):
        raise FlightAborted(f"simGetImages: got {len(data)} bytes for {width} x {height} pixels, expected an image")
    return data.reshape(height, width, -1)[..., 2::-1]


def _yaw_rate(state: Any) -> float:
    """How fast a vehicle's heading turns to the left, rad/s."""
    attitude, rates = state.kinematics_estimated.orientation, state.kinematics_estimated.angular_velocity
    roll, pitch, _ = roll_pitch_yaw(swap_rotation((attitude.w_val, attitude.x_val, attitude.y_val, attitude.z_val)))
    _, nose_down, left = swap_rates((rates.x_val, rates.y_val, rates.z_val))
    return (nose_down * math.sin(roll) + left * math.cos(roll)) / math.cos(pitch)


class AirSimField:
    """One flight in an AirSim world. AirSim's origin is the middle of the field."""

    num_flights = 1
    device = torch.device("cpu")

    def __init__(
        self,
        address: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        *,
        layout: Layout | None = None,
        config: SimulatorConfig = SimulatorConfig(),
        options: AirSimOptions = AirSimOptions(),
    ) -> None:
        """Connect. layout: that of the field, if it is known, for tasks that were made in it."""
        self._airsim = import_client()
        errors = importlib.import_module("msgpackrpc.error")
        self._rpc_error, self._timeout_error = errors.RPCError, errors.TimeoutError
        self.address, self.port, self.config, self.options = address, port, config, options
        self.layouts = [Layout(()) if layout is None else layout]
        self.field_index = torch.zeros(1, dtype=torch.int64)
        self._origin = NED_ORIGIN_WORLD
        self._poses: list[Tensor] = []
        self._velocities: list[Tensor] = []
        self._actions: list[Tensor] = []
        self.has_idle_clock = False
        """Whether the simulator's clock was found to stand still while nobody waits for a motion."""
        self._motion: Any = None
        """Future of the last motion sent; its answer may still be pending."""
        self._client = self._connect(options.timeout_s)
        try:
            with self._hovering_on_failure():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Take control of the vehicle and its camera."""
        self._client.ping()
        # AirSim 1.8 checks the number of arguments, and wants one more: whether a camera is external.
        self._external = () if self._client.getServerVersion() >= 4 else (False,)
        self._check_vehicle()
        self._client.enableApiControl(True, self.options.vehicle)
        if self._client.armDisarm(True, self.options.vehicle) is not True:
            raise FlightAborted("armDisarm: the vehicle could not be armed")
        self._aim_camera()

    def close(self) -> None:
        """Disconnect; the drone carries on with its last motion."""
        disconnect(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _connect(self, timeout_s: int) -> Any:
        return self._airsim.MultirotorClient(ip=self.address, port=self.port, timeout_value=timeout_s)

    @contextmanager
    def _hovering_on_failure(self) -> Iterator[None]:
        """If anything goes wrong inside, tell the drone to hover, and the user what happened."""
        try:
            yield
        except (self._rpc_error, OSError) as error:
            outcome = "was told to hover" if self.hover() else "could not be told to hover"
            raise FlightAborted(
                f"AirSim at {self.address}:{self.port}: {error}; the drone {outcome} after step {len(self._actions)}. "
                "Is the simulator running, and does its settings.json name this vehicle and camera?"
            ) from error

    def hover(self) -> bool:
        """Tell the drone to hover, over a new connection, as the current one may be broken.

        Returns whether the server confirmed it.
        """
        client = self._connect(HOVER_TIMEOUT_S)
        try:
            client.simPause(False)  # in a paused world the drone would not brake
            client.hoverAsync(self.options.vehicle).get()
        except (self._rpc_error, OSError):
            return False
        finally:
            disconnect(client)
        return True

    def _check_motion(self) -> None:
        """Raise the server's error about the last motion, if any; a motion that outlasts the time-out is no error."""
        error = None if self._motion is None else self._motion.error
        if error is not None and not isinstance(error, self._timeout_error):
            self._motion.get()

    def _check_vehicle(self) -> None:
        if self.options.vehicle:
            names = self._client.listVehicles()
            if self.options.vehicle not in names:
                raise ValueError(f"vehicle: got {self.options.vehicle!r}, expected one of {', '.join(names)}")

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
        if self.options.tilts_camera and abs(tilt - self.config.camera.tilt) > TILT_TOLERANCE:
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
        """Whether simulated time does not pass on its own; then it runs as fast as it can while it passes."""
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
            self.has_idle_clock = not self.options.is_stepped and self._stands_still(state)
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

    def reset(self, start: Tensor) -> Observation:
        """Start a flight at start (1, 3): x, y (metres) and yaw (radians), field frame.

        The drone must be there already, unless it may be teleported.
        """
        x, y, yaw = start[0].tolist()
        with self._hovering_on_failure():
            if self.options.is_stepped:
                self._client.simPause(True)
            if self.options.can_teleport:
                self._teleport((x, y, self.config.altitude), yaw)
            observation = self._observe()
        distance = math.dist(observation.pose_world[0, :2].tolist(), (x, y))
        if distance > START_TOLERANCE_M:
            raise ValueError(
                f"start: got ({x:g}, {y:g}), but the drone is {distance:.1f} m away; start the task where take_off() "
                "says the drone is, or set can_teleport"
            )
        self._poses, self._velocities = [observation.pose_world], [observation.velocity_world]
        self._actions = []
        return observation

    def _teleport(self, position: Vector, yaw: float) -> None:
        w, x, y, z = swap_rotation(rotation_from_yaw(yaw))
        position_ned = self._airsim.Vector3r(*to_ned(position, self._origin))
        pose = self._airsim.Pose(position_ned, self._airsim.Quaternionr(x, y, z, w))
        self._client.simSetVehiclePose(pose, True, self.options.vehicle)

    def step(self, action: Tensor) -> Observation:
        """Fly one step by action (1, 3), forward speed (m/s), yaw rate (rad/s), stop, and observe."""
        if action.shape != (1, 3) or not bool(torch.isfinite(action).all()):
            raise ValueError(f"action: got {action.tolist()}, expected (1, 3) finite numbers; the drone was not moved")
        config, wanted = self.config, action[0].double()
        is_stop = float(wanted[STOP]) > 0.5
        speed = 0.0 if is_stop else float(wanted[FORWARD].clamp(0, config.max_speed))
        yaw_rate = 0.0 if is_stop else float(wanted[TURN].clamp(-config.max_yaw_rate, config.max_yaw_rate))
        with self._hovering_on_failure():
            self._fly_step(speed, yaw_rate)
            # Without API control AirSim answers motions as usual, but does not fly them.
            if not self._client.isApiControlEnabled(self.options.vehicle):
                raise FlightAborted("API control was switched off by someone else")
            if is_stop:
                self._client.hoverAsync(self.options.vehicle).get()
            observation = self._observe()
        self._poses.append(observation.pose_world)
        self._velocities.append(observation.velocity_world)
        self._actions.append(action.float())
        return observation

    def _fly_step(self, speed: float, yaw_rate: float) -> None:
        """Fly along the heading at a speed, and turn, for the duration of a step."""
        state = self._state()
        end = state.timestamp + self.config.step_seconds * 1e9
        for num_left in range(max(1, round(self.config.step_seconds / SETPOINT_INTERVAL_S)), 0, -1):
            seconds = max(end - state.timestamp, 0.0) / 1e9 / num_left
            # Aimed along the mean heading until the next set-point; our own simulator aims anew in each substep.
            self._send_setpoint(speed, yaw_rate, -_yaw_rate(state) * (seconds - SUBSTEP_SECONDS) / 2)
            state = self._advance(state, seconds)

    def _advance(self, state: Any, seconds: float) -> Any:
        """Let simulated time pass; returns the state after it, and raises if the last motion was refused."""
        if self.options.is_stepped:
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
        config = self.config
        self._motion = self._client.moveByVelocityZBodyFrameAsync(
            speed * math.cos(right), speed * math.sin(right), self._altitude_ned(),
            config.step_seconds + SETPOINT_HOLD_S, self._airsim.DrivetrainType.MaxDegreeOfFreedom,
            self._airsim.YawMode(True, -math.degrees(yaw_rate)), self.options.vehicle,
        )  # fmt: skip

    def _wait_for_pause(self) -> None:
        """Wait for the end of simContinueForTime, which some servers answer at once, others when the time is over."""
        start = time.monotonic()
        while not self._client.simIsPause():
            if time.monotonic() - start > self.options.timeout_s:
                raise FlightAborted("simContinueForTime: the simulator did not pause again")
            time.sleep(POLL_INTERVAL_S)

    def _observe(self) -> Observation:
        request = self._airsim.ImageRequest(self.options.camera, self._airsim.ImageType.Scene, False, False)
        responses: Sequence[dict[str, Any]] = self._camera_call("simGetImages", [request])
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

    def log(self) -> FlightLog | None:
        """The flight so far; None before its first step."""
        return log_of_steps(self._poses, self._velocities, self._actions)
