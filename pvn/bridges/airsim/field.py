"""Any AirSim world as a field to fly in: one flight, with the interface of our simulator.

with AirSimField("127.0.0.1", 41451) as field:
    start = field.take_off()
    task = Task(field.layouts[0], start, np.array([start[:2]] * 2), "go to the tree")
    log = fly(field, [task], shipped_agent())
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from pvn.bridges.airsim.frames import (
    ORIGIN,
    Vector,
    angles,
    from_ned,
    multiply,
    pitched,
    rotate,
    swap_rates,
    swap_rotation,
    swap_vector,
    to_ned,
    turned,
)
from pvn.bridges.airsim.pictures import resampled
from pvn.bridges.airsim.wire_types import pose_of, quaternion, vector
from pvn.rollout.flight import FlightLog
from pvn.simulator.quadcopter import SUBSTEP_SECONDS
from pvn.simulator.simulator import FORWARD, STOP, TURN, Observation, SimulatorConfig
from pvn.world.layout import Layout

TAKEOFF_S, CLIMB_S, CLIMB_SPEED = 20.0, 60.0, 2.0
POLL_S = 0.02
AIM_S = 0.02
"""Time between the set-points of a step, seconds, about. AirSim reads the heading once, when it hears of a velocity; a
pilot's speed is along the heading at each moment."""
HOLD_S = 1.0
"""How much longer than a step a set-point is held: a pilot may think that long before the drone hovers by itself."""
HOVER_TIMEOUT_S = 2
TILT_TOLERANCE = math.radians(2.0)
NEAR_START_M = 1.0
NEAR_ALTITUDE_M, SETTLE_S = 0.2, 1.0
LANDED = 0


class FlightLost(ConnectionError):
    """The flight cannot go on. The drone was told to hover if it hears; what was flown is in the field's `log`."""


@dataclass(frozen=True, kw_only=True)
class AirSimOptions:
    """How to use an AirSim server."""

    vehicle: str = ""
    """Its name in the server's settings.json; empty: the only one."""
    camera: str = "0"
    """Name of the camera to see by."""
    timeout_s: int = 10
    """How long an answer may take, seconds."""
    is_stepped: bool = False
    """Whether the world is paused while the pilot thinks (simPause, simContinueForTime), so that slow machines see the
    same flight."""
    can_teleport: bool = False
    """Whether flights begin where they are told (simSetVehiclePose), or where the drone is."""
    tilts_camera: bool = True
    """Whether the camera is turned as far down as the agent's (simSetCameraPose)."""


def _client_module() -> Any:
    for name in ("cosysairsim", "airsim"):
        with suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ValueError('AirSim: got no client here, expected cosysairsim; install it with: pip install "pvn[airsim]"')


def _hang_up(client: Any) -> None:
    """Close a client's connection for good."""
    session = client.client
    if session._transport is not None:
        session._transport._reconnect_limit = 0  # a closed connection is one that it would make anew
    session.close()
    session._loop.dettach_periodic_callback()  # which looks for timeouts, and would keep the client for ever


def _picture(response: dict[str, Any]) -> np.ndarray:
    """The pixels (H, W, 3), red green blue, of an image response; AirSim sends blue green red, and sometimes alpha."""
    width, height = int(response["width"]), int(response["height"])
    data = np.frombuffer(response["image_data_uint8"], np.uint8)
    if width < 1 or height < 1 or len(data) not in (3 * width * height, 4 * width * height):
        raise FlightLost(f"the image did not come: got {len(data)} bytes for {width} x {height} pixels")
    return data.reshape(height, width, -1)[..., 2::-1]


def _yaw_rate(state: Any) -> float:
    """How fast a vehicle's heading turns to the left, rad/s."""
    turned, rates = state.kinematics_estimated.orientation, state.kinematics_estimated.angular_velocity
    roll, pitch, _ = angles(swap_rotation((turned.w_val, turned.x_val, turned.y_val, turned.z_val)))
    _, nose_down, left = swap_rates((rates.x_val, rates.y_val, rates.z_val))
    return (nose_down * math.sin(roll) + left * math.cos(roll)) / math.cos(pitch)


class AirSimField:
    """One flight in an AirSim world. The field frame is set up so that AirSim's origin is the middle of the field."""

    num_flights = 1
    device = torch.device("cpu")

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 41451,
        *,
        layout: Layout | None = None,
        config: SimulatorConfig = SimulatorConfig(),
        options: AirSimOptions = AirSimOptions(),
    ) -> None:
        """Connect. layout: the field's, where it is known, for tasks that were made in it."""
        self._module = _client_module()
        errors = importlib.import_module("msgpackrpc.error")
        self._rpc_error, self._timeout_error = errors.RPCError, errors.TimeoutError
        self.host, self.port, self.config, self.options = host, port, config, options
        self.layouts = [Layout(()) if layout is None else layout]
        self.field_index = torch.zeros(1, dtype=torch.int64)
        self._origin = ORIGIN
        self._poses: list[Tensor] = []
        self._velocities: list[Tensor] = []
        self._actions: list[Tensor] = []
        self._motion: Any = None
        """The answer to the last motion sent, which may be still to come."""
        self._client = self._connected(options.timeout_s)
        try:
            with self._guarded():
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Get hold of the vehicle and its camera."""
        self._client.ping()
        # AirSim 1.8 wants one more argument, whether a camera is external, and counts its arguments strictly.
        self._external = () if self._client.getServerVersion() >= 4 else (False,)
        self._check_vehicle()
        self._client.enableApiControl(True, self.options.vehicle)
        if self._client.armDisarm(True, self.options.vehicle) is not True:
            raise FlightLost("armDisarm: the vehicle could not be armed")
        self._aim_camera()

    def close(self) -> None:
        """Hang up; the drone goes on with what it was told last."""
        _hang_up(self._client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _connected(self, timeout_s: int) -> Any:
        return self._module.MultirotorClient(ip=self.host, port=self.port, timeout_value=timeout_s)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Whatever goes wrong inside, the drone is told to hover, and the user what happened."""
        try:
            yield
        except (self._rpc_error, OSError) as error:
            told = "was told to hover" if self.hover() else "could not be told to hover"
            raise FlightLost(
                f"AirSim at {self.host}:{self.port}: {error}; the drone {told} after {len(self._actions)} steps. "
                "Is the simulator running, and does its settings.json name this vehicle and camera?"
            ) from error

    def hover(self) -> bool:
        """Tell the drone to hover, over a connection of its own: the old one may be what is broken.

        Returns whether it was heard.
        """
        client = self._connected(HOVER_TIMEOUT_S)
        try:
            client.simPause(False)  # a paused world would not brake
            client.hoverAsync(self.options.vehicle).get()
        except (self._rpc_error, OSError):
            return False
        finally:
            _hang_up(client)
        return True

    def _check_motion(self) -> None:
        """Raise what the server has against the last motion; one that takes longer than answers may is still flown."""
        error = None if self._motion is None else self._motion.error
        if error is not None and not isinstance(error, self._timeout_error):
            self._motion.get()

    def _check_vehicle(self) -> None:
        if self.options.vehicle:
            names = self._client.listVehicles()
            if self.options.vehicle not in names:
                raise ValueError(f"vehicle: got {self.options.vehicle!r}, expected one of {', '.join(names)}")

    def _camera_call(self, name: str, *arguments: Any) -> Any:
        return self._client.client.call(name, *arguments, self.options.vehicle, *self._external)

    def _aim_camera(self) -> None:
        """Read the camera's view, and turn it as far down as ours."""
        info = self._camera_call("simGetCameraInfo", self.options.camera)
        self._view = math.radians(info["fov"])
        place, rotation = pose_of(info["pose"])
        body = self._client.simGetVehiclePose(self.options.vehicle)
        position, attitude = pose_of({"position": vars(body.position), "orientation": vars(body.orientation)})
        back = (attitude[0], -attitude[1], -attitude[2], -attitude[3])
        # Both are AirSim's body frames, in which nose down is a turn backwards about the right.
        down = -angles(multiply(back, rotation))[1]
        if self.options.tilts_camera and abs(down - self.config.camera.tilt) > TILT_TOLERANCE:
            arm = rotate(back, [one - other for one, other in zip(place, position, strict=True)])
            mount = {"position": vector(arm), "orientation": quaternion(pitched(-self.config.camera.tilt))}
            self._client.client.call(
                "simSetCameraPose", self.options.camera, mount, self.options.vehicle, *self._external
            )

    def _state(self) -> Any:
        return self._client.getMultirotorState(self.options.vehicle)

    def _wait_until(self, is_done: Any, seconds: float, what: str) -> Any:
        """Until is_done(state), for at most `seconds` of simulated time; returns that state."""
        state = self._state()
        begin, last, seen = state.timestamp, state.timestamp, time.monotonic()
        while not is_done(state):
            if state.timestamp - begin > seconds * 1e9:
                raise FlightLost(f"the drone did not {what} in {seconds:g} s")
            if time.monotonic() - seen > self.options.timeout_s:
                raise FlightLost(f"the simulator's clock stands still (is it paused?) while the drone is to {what}")
            time.sleep(POLL_S)
            state = self._state()
            self._check_motion()
            if state.timestamp > last:
                last, seen = state.timestamp, time.monotonic()
        return state

    def take_off(self) -> tuple[float, float, float]:
        """Climb to the held altitude; returns where the drone is then: x, y (metres) and yaw (radians), field frame."""
        vehicle = self.options.vehicle
        with self._guarded():
            self._client.simPause(False)
            state = self._state()
            if state.landed_state == LANDED:
                rest = state.kinematics_estimated.position.z_val
                self._origin = (ORIGIN[0], ORIGIN[1], ORIGIN[2] + rest)
                self._motion = self._client.takeoffAsync(TAKEOFF_S, vehicle)
                self._wait_until(lambda now: self._height(now) > 1.0, TAKEOFF_S, "take off")
            down = to_ned((0.0, 0.0, self.config.altitude), self._origin)[2]
            self._motion = self._client.moveToZAsync(down, CLIMB_SPEED, vehicle_name=vehicle)
            self._wait_until(
                lambda now: abs(self._height(now) - self.config.altitude) < NEAR_ALTITUDE_M, CLIMB_S, "climb"
            )
            begin = self._state().timestamp
            self._set(0.0, 0.0)  # unlike AirSim's hovering, this holds the altitude that is wanted
            self._wait_until(lambda now: now.timestamp - begin >= SETTLE_S * 1e9, SETTLE_S, "hover")
            pose = self._observe().pose_world[0].tolist()
        return pose[0], pose[1], pose[5]

    def _height(self, state: Any) -> float:
        position = state.kinematics_estimated.position
        return from_ned((position.x_val, position.y_val, position.z_val), self._origin)[2]

    def reset(self, start: Tensor) -> Observation:
        """Hover at start (1, 3): x, y (metres) and yaw (radians), field frame; the drone must be there, or teleport."""
        x, y, yaw = start[0].tolist()
        with self._guarded():
            if self.options.is_stepped:
                self._client.simPause(True)
            if self.options.can_teleport:
                self._teleport((x, y, self.config.altitude), yaw)
            observation = self._observe()
        off = math.dist(observation.pose_world[0, :2].tolist(), (x, y))
        if off > NEAR_START_M:
            raise ValueError(
                f"start: got ({x:g}, {y:g}), but the drone is {off:.1f} m from there; begin the task where take_off() "
                "says the drone is, or set can_teleport"
            )
        self._poses, self._velocities = [observation.pose_world], [observation.velocity_world]
        self._actions = []
        return observation

    def _teleport(self, position: Vector, yaw: float) -> None:
        types = self._module
        w, x, y, z = swap_rotation(turned(yaw))
        place = types.Vector3r(*to_ned(position, self._origin))
        self._client.simSetVehiclePose(types.Pose(place, types.Quaternionr(x, y, z, w)), True, self.options.vehicle)

    def step(self, action: Tensor) -> Observation:
        """Fly one step with action (1, 3), forward speed (m/s), yaw rate (rad/s), stop, and see what comes of it."""
        if action.shape != (1, 3) or not bool(torch.isfinite(action).all()):
            raise ValueError(f"action: got {action.tolist()}, expected (1, 3) finite numbers; nothing was moved")
        config, wanted = self.config, action[0].double()
        is_stop = float(wanted[STOP]) > 0.5
        speed = 0.0 if is_stop else float(wanted[FORWARD].clamp(0, config.max_speed))
        turn = 0.0 if is_stop else float(wanted[TURN].clamp(-config.max_yaw_rate, config.max_yaw_rate))
        with self._guarded():
            self._hold(speed, turn)
            if not self._client.isApiControlEnabled(self.options.vehicle):  # without it AirSim answers, and stays
                raise FlightLost("API control was switched off by someone else")
            if is_stop:
                self._client.hoverAsync(self.options.vehicle).get()
            observation = self._observe()
        self._poses.append(observation.pose_world)
        self._velocities.append(observation.velocity_world)
        self._actions.append(action.float())
        return observation

    def _hold(self, speed: float, turn: float) -> None:
        """Fly at a speed along the heading, and turn, for a step."""
        state = self._state()
        end = state.timestamp + self.config.step_seconds * 1e9
        for left in range(max(1, round(self.config.step_seconds / AIM_S)), 0, -1):
            seconds = max(end - state.timestamp, 0.0) / 1e9 / left
            # Aimed where the drone will head on average until then; our own simulator aims anew each substep.
            self._set(speed, turn, -_yaw_rate(state) * (seconds - SUBSTEP_SECONDS) / 2)
            state = self._later(state, seconds)

    def _later(self, state: Any, seconds: float) -> Any:
        """The state after some simulated time, in which the last motion must not be refused."""
        if self.options.is_stepped:
            self._client.simContinueForTime(seconds)
            self._wait_for_pause()
            later = self._state()
        else:
            end = state.timestamp + seconds * 1e9
            later = self._wait_until(lambda now: now.timestamp >= end, seconds, "fly a step")
        self._check_motion()
        return later

    def _set(self, speed: float, turn: float, right: float = 0.0) -> None:
        """Send a set-point, `right` radians to the right of the heading; AirSim turns clockwise, in degrees."""
        types, config = self._module, self.config
        down = to_ned((0.0, 0.0, config.altitude), self._origin)[2]
        self._motion = self._client.moveByVelocityZBodyFrameAsync(
            speed * math.cos(right), speed * math.sin(right), down,
            config.step_seconds + HOLD_S, types.DrivetrainType.MaxDegreeOfFreedom,
            types.YawMode(True, -math.degrees(turn)), self.options.vehicle,
        )  # fmt: skip

    def _wait_for_pause(self) -> None:
        """Some servers answer simContinueForTime at once, others when the time is over."""
        begin = time.monotonic()
        while not self._client.simIsPause():
            if time.monotonic() - begin > self.options.timeout_s:
                raise FlightLost("simContinueForTime: the simulator did not pause again")
            time.sleep(POLL_S)

    def _observe(self) -> Observation:
        request = self._module.ImageRequest(self.options.camera, self._module.ImageType.Scene, False, False)
        answers: Sequence[dict[str, Any]] = self._camera_call("simGetImages", [request])
        if not answers:
            raise FlightLost("the image did not come: got no answer to simGetImages")
        camera = self.config.camera
        image = resampled(_picture(answers[0]), self._view, camera)
        place, rotation = pose_of(
            {"position": answers[0]["camera_position"], "orientation": answers[0]["camera_orientation"]}
        )
        # The pose of a body whose camera, mounted as ours is, is where theirs is.
        body = multiply(swap_rotation(rotation), pitched(-camera.tilt))
        pose = torch.tensor([[*from_ned(place, self._origin), *angles(body)]], dtype=torch.float32)
        velocity = self._state().kinematics_estimated.linear_velocity
        moved = swap_vector((velocity.x_val, velocity.y_val, velocity.z_val))
        return Observation(image, pose, torch.tensor([moved], dtype=torch.float32))

    def log(self) -> FlightLog | None:
        """The flight up to now; None before its first step."""
        if not self._actions:
            return None
        action = torch.stack(self._actions, 1)
        return FlightLog(
            pose_world=torch.stack(self._poses, 1),
            velocity_world=torch.stack(self._velocities, 1),
            action=action,
            num_steps=torch.tensor([action.shape[1]]),
            has_stopped=action[:, -1, STOP] > 0.5,
        )
