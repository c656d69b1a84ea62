"""The simulator: many quadcopters, each over its own field, flown and seen in one batch.

simulator = Simulator([sample_layout(0)], num_flights=1)
observation = simulator.reset(start=torch.tensor([[25.0, 25.0, 0.0]]))
observation = simulator.step(torch.tensor([[3.0, 0.0, 0.0]]))
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pvn.simulator import cpu
from pvn.simulator.cameras import from_above
from pvn.simulator.fields import num_solids, pack
from pvn.simulator.interface import FORWARD, STOP, TURN, Observation, SimulatorConfig
from pvn.simulator.quadcopter import (
    ALTITUDE,
    EAST_LIMIT,
    NUM_SETPOINTS,
    NUM_STATES,
    POSITION,
    QUATERNION,
    ROTORS,
    SPEED,
    SUBSTEP_SECONDS,
    VELOCITY,
    WEST_LIMIT,
    YAW_RATE,
    hover_rotor_speed,
)
from pvn.simulator.rendering import AHEAD, AHEAD_U, AHEAD_V, NUM_CAMERA_COLUMNS, ORIGIN, Lens
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.task import Task, distinct_layouts

GROUND_LEVEL = 0.02
"""What is seen lower than this, metres, and is no landmark, is ground, not fence."""


def checked_device(device: str | torch.device) -> torch.device:
    """The device, if the simulator can run on it here; otherwise a ValueError that says what to do."""
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f'device: got {device!r}, expected "cpu" or "cuda"') from None
    if checked.index not in (None, 0):
        raise ValueError(f'device: got "{checked}", expected "cuda"; choose the GPU with CUDA_VISIBLE_DEVICES')
    _device_functions(checked)
    return checked


def _device_functions(device: torch.device) -> Any:
    match device.type:
        case "cpu":
            return cpu
        case "cuda":
            if not torch.cuda.is_available():
                raise ValueError(
                    'device: got "cuda", but torch sees no CUDA GPU here; use device="cpu", or install a '
                    'driver, a CUDA build of torch and the extra: pip install "pvn-drone[cuda]"'
                )
            try:
                from pvn.simulator import cuda
            except ImportError as error:
                raise ValueError(
                    f'device: got "cuda", but numba-cuda does not load ({error}); '
                    'install it with: pip install "pvn-drone[cuda]"'
                ) from error
            return cuda
        case other:
            raise ValueError(f'device: got "{other}", expected "cpu" or "cuda"')


@functools.lru_cache(maxsize=16)
def _overhead_camera(size_px: int, margin: float, device: torch.device) -> Tensor:
    """A camera (18,) above a field; cached, because copying it to a GPU for every picture would make the CPU wait."""
    return torch.from_numpy(from_above(-margin, -margin, FIELD_SIZE + 2 * margin, size_px)).to(device)


class Simulator:
    """B quadcopters, each in one of the fields, moved and rendered together on one device.

    The same layouts, starts and actions give the same results, bit for bit, on the same device.
    """

    def __init__(
        self,
        layouts: Sequence[Layout],
        num_flights: int,
        *,
        field_index: Sequence[int] | None = None,
        device: str | torch.device = "cpu",
        config: SimulatorConfig = SimulatorConfig(),
    ) -> None:
        """Make the fields; flight i hovers in the middle of field `field_index[i]`, the first by default."""
        if not layouts:
            raise ValueError("layouts: got none, expected at least one field to fly in")
        if num_flights < 1:
            raise ValueError(f"num_flights: got {num_flights}, expected at least 1")
        if isinstance(layouts, Layout):
            raise ValueError("layouts: got one Layout, expected a list of them; write [layout]")
        self.device = checked_device(device)
        self._functions = _device_functions(self.device)
        self._configure(config)
        self.layouts = list(layouts)
        """The fields' layouts."""
        self._fields = self._functions.to_device(pack(layouts), self.device)
        self._traced = self._functions.share(self._fields)
        self._num_solids = num_solids(layouts)
        self._make_flights(num_flights)
        if field_index is not None:
            self._assign(torch.tensor(field_index), torch.ones(num_flights, dtype=torch.bool))

    def _configure(self, config: SimulatorConfig) -> None:
        camera = config.camera
        self.config = config
        self._lens = Lens(float(camera.width), float(camera.height), float(camera.focal_px), float(camera.tilt))
        self._num_substeps = max(1, round(config.step_seconds / SUBSTEP_SECONDS))

    def renderer(self, config: SimulatorConfig) -> Simulator:
        """A simulator of one flight in the same fields, with other settings.

        The fields are shared, not made again; they must not be replaced while both simulators are used.
        """
        other = copy.copy(self)
        other._configure(config)
        other._make_flights(1)
        return other

    def select(self, flights: Tensor) -> Simulator:
        """A simulator of some flights (b,) alone, as they are now.

        The fields are shared; they must not be replaced while both simulators are used.
        """
        other = copy.copy(self)
        other.num_flights = len(flights)
        for name in ("field_index", "_state", "_setpoints", "_cameras"):
            setattr(other, name, getattr(self, name)[flights])
        return other

    def _make_flights(self, num_flights: int) -> None:
        self.num_flights = num_flights
        self.field_index = torch.zeros(num_flights, dtype=torch.int64, device=self.device)
        """Which field each flight is in (B,)."""
        self._state = torch.zeros((num_flights, NUM_STATES), dtype=torch.float64, device=self.device)
        self._setpoints = torch.zeros((num_flights, NUM_SETPOINTS), dtype=torch.float64, device=self.device)
        self._cameras = torch.zeros((num_flights, NUM_CAMERA_COLUMNS), device=self.device)
        middle = torch.tensor([FIELD_SIZE / 2, FIELD_SIZE / 2, 0.0]).repeat(num_flights, 1)
        self._hover(middle, torch.ones(num_flights, dtype=torch.bool))

    def _checked(self, value: Tensor, name: str, columns: int, meaning: str, mask: Tensor | None = None) -> Tensor:
        """The value (B, columns) as float64 on our device; an error if a row (of those in mask) is not finite."""
        if not isinstance(value, Tensor) or value.shape != (self.num_flights, columns):
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"{name}: got {got}, expected a tensor of shape ({self.num_flights}, {columns}): {meaning} "
                "for each flight"
            )
        value = value.to(self.device, torch.float64)
        is_bad = ~torch.isfinite(value).all(dim=1)
        if mask is not None:
            is_bad &= mask
        if bool(is_bad.any()):
            flight = int(is_bad.nonzero()[0, 0])
            raise ValueError(
                f"{name}: got {value[flight].tolist()} for flight {flight}, expected finite numbers; nothing was moved"
            )
        return value

    def replace_field(self, index: int, layout: Layout) -> None:
        """Replace the layout of field `index`; flights there see the new one from their next observation on."""
        if not 0 <= index < len(self.layouts):
            raise ValueError(f"index: got {index}, expected 0 to {len(self.layouts) - 1}")
        self.layouts[index] = layout
        packed = self._functions.to_device(pack([layout]), self.device)
        for name in ("landmarks", "num_landmarks", "wetness", "sun_grid"):
            getattr(self._fields, name)[index] = getattr(packed, name)[0]
        self._num_solids = max(self._num_solids, num_solids([layout]))

    def reset(self, start: Tensor, field_index: Tensor | None = None, mask: Tensor | None = None) -> Observation:
        """`place` flights, then `observe`."""
        self.place(start, field_index, mask)
        return self.observe()

    def place(self, start: Tensor, field_index: Tensor | None = None, mask: Tensor | None = None) -> None:
        """Make flights hover at start (B, 3): x, y (metres) and yaw (radians), field frame, at the flying height.

        field_index (B,): the field of each flight; unchanged if not given. mask (B,) bool: which flights to place, all
        if not given; the other rows are ignored.
        """
        if mask is None:
            mask = torch.ones(self.num_flights, dtype=torch.bool, device=self.device)
        mask = torch.as_tensor(mask)
        if mask.shape != (self.num_flights,) or mask.dtype != torch.bool:
            raise ValueError(
                f"mask: got {mask.dtype} of shape {tuple(mask.shape)}, expected bool of shape ({self.num_flights},)"
            )
        mask = mask.to(self.device)
        start = self._checked(start, "start", 3, "x, y and yaw", mask)
        is_far = ((start[:, :2] < WEST_LIMIT) | (start[:, :2] > EAST_LIMIT)).any(1) & mask
        if bool(is_far.any()):
            flight = int(is_far.nonzero()[0, 0])
            raise ValueError(
                f"start: got x, y {start[flight, :2].tolist()} for flight {flight}, expected {WEST_LIMIT:g} to "
                f"{EAST_LIMIT:g} m, at most 10 m beyond the fences"
            )
        if field_index is not None:
            self._assign(field_index, mask)
        self._hover(start, mask)

    def _assign(self, field_index: Tensor, mask: Tensor) -> None:
        field_index = torch.as_tensor(field_index)
        if field_index.shape != (self.num_flights,):
            raise ValueError(f"field_index: got shape {tuple(field_index.shape)}, expected ({self.num_flights},)")
        index = field_index.to(self.device, torch.int64)
        index = torch.where(mask.to(self.device), index, self.field_index)
        if bool(((index < 0) | (index >= len(self.layouts))).any()):
            raise ValueError(
                f"field_index: got values from {int(index.min())} to {int(index.max())}, expected 0 to "
                f"{len(self.layouts) - 1}"
            )
        self.field_index = index

    def _hover(self, start: Tensor, mask: Tensor) -> None:
        start, mask = start.to(self.device, torch.float64), mask.to(self.device)
        state = torch.zeros_like(self._state)
        state[:, POSITION : POSITION + 2] = start[:, :2]
        state[:, POSITION + 2] = self.config.altitude
        state[:, QUATERNION] = torch.cos(start[:, 2] / 2)
        state[:, QUATERNION + 3] = torch.sin(start[:, 2] / 2)
        state[:, ROTORS:] = hover_rotor_speed(self.config.airframe)
        self._state = torch.where(mask[:, None], state, self._state)

    def step(self, action: Tensor) -> Observation:
        """`advance` by an action (B, 3), then `observe`."""
        self.advance(action)
        return self.observe()

    def advance(self, action: Tensor) -> None:
        """Fly one step with action (B, 3): forward speed (m/s), yaw rate (rad/s, left is positive), stop.

        Speed is clamped to [0, max_speed] and yaw rate to [-max_yaw_rate, max_yaw_rate]. A flight whose stop is above
        0.5 brakes and hovers. Set-points are held for the whole step; forward follows the drone's heading as it turns.
        """
        action = self._checked(action, "action", 3, "forward speed, yaw rate and stop")
        config = self.config
        is_flying = action[:, STOP] <= 0.5
        self._setpoints[:, SPEED] = action[:, FORWARD].clamp(0, config.max_speed) * is_flying
        self._setpoints[:, YAW_RATE] = action[:, TURN].clamp(-config.max_yaw_rate, config.max_yaw_rate) * is_flying
        self._setpoints[:, ALTITUDE] = config.altitude
        self._functions.advance(self._state, self._setpoints, config.airframe, self._num_substeps)

    def _aim(self) -> Tensor:
        poses = torch.empty((self.num_flights, 6), device=self.device)
        self._functions.observe(self._state, self._lens, poses, self._cameras)
        return poses

    def observe(self) -> Observation:
        """Pictures, poses and velocities of all flights now."""
        poses = self._aim()
        shape = (self.num_flights, self.config.camera.height, self.config.camera.width, 3)
        if self.config.quality == "none":
            # One byte for all pixels: filling their memory took a fifth of the time of blind flights.
            image = torch.zeros((1, 1, 1, 1), dtype=torch.uint8, device=self.device).expand(shape)
        else:
            image = torch.empty(shape, dtype=torch.uint8, device=self.device)
            self._paint(self._cameras, poses, self.field_index, image)
        velocity = self._state[:, VELOCITY : VELOCITY + 3].float()
        return Observation(image, poses, velocity)

    def _paint(self, cameras: Tensor, pose_world: Tensor, field_index: Tensor, image: Tensor) -> None:
        """Fill pictures (K, H, W, 3) uint8 by cameras (K, 18), those of drones at poses (K, 6), in fields (K,)."""
        if self.config.photographer is not None:
            layouts = [self.layouts[field] for field in field_index.tolist()]
            image.copy_(self.config.photographer.take(layouts, pose_world, self.config.camera))
        else:
            is_full = self.config.quality == "full"
            self._functions.paint(cameras, self._traced, field_index, self._num_solids, is_full, image)

    def depth_and_landmarks(self) -> tuple[Tensor, Tensor]:
        """Depth (B, H, W) float32, metres along each pixel's ray, 0 for sky; and the landmark seen in each pixel,
        (B, H, W) int16, as its index in the layout, -1 for none.
        """
        self._aim()
        return self._measure(self._cameras, self.field_index)

    def _cameras_at(self, pose_world: Tensor, tilt: Tensor | None = None) -> Tensor:
        """Cameras (K, 18) of drones at poses (K, 6), field frame; tilt (K,): how much further down each points."""
        pose = pose_world.to(self.device, torch.float64)
        half = pose[:, 3:] / 2
        (cr, cp, cy), (sr, sp, sy) = half.cos().unbind(-1), half.sin().unbind(-1)
        state = torch.zeros((len(pose), NUM_STATES), dtype=torch.float64, device=self.device)
        state[:, POSITION : POSITION + 3] = pose[:, :3]
        state[:, QUATERNION : QUATERNION + 4] = torch.stack([
            cr * cp * cy + sr * sp * sy, sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy, cr * cp * sy - sr * sp * cy,
        ], -1)  # fmt: skip
        if tilt is not None:
            # Turned about the body's left axis, as the camera is on its mount.
            w, x, y, z = state[:, QUATERNION : QUATERNION + 4].unbind(-1)
            cos, sin = (tilt.to(state) / 2).cos(), (tilt.to(state) / 2).sin()
            turned = torch.stack([w * cos - y * sin, x * cos - z * sin, y * cos + w * sin, z * cos + x * sin], -1)
            state[:, QUATERNION : QUATERNION + 4] = turned
        cameras = torch.zeros((len(pose), NUM_CAMERA_COLUMNS), device=self.device)
        self._functions.observe(state, self._lens, torch.empty((len(pose), 6), device=self.device), cameras)
        return cameras

    def render(self, pose_world: Tensor, field_index: Tensor, tilt: Tensor | None = None) -> Tensor:
        """Pictures (K, H, W, 3) uint8 taken at poses (K, 6), field frame, in fields (K,); flights stay as they are.

        tilt (K,): how much further down than usual the cameras point, radians; only for our own look.
        """
        camera = self.config.camera
        image = torch.empty((len(pose_world), camera.height, camera.width, 3), dtype=torch.uint8, device=self.device)
        self._paint(self._cameras_at(pose_world, tilt), pose_world, field_index, image)
        return image

    def _measure(self, cameras: Tensor, field_index: Tensor) -> tuple[Tensor, Tensor]:
        """`depth_and_landmarks` of cameras (K, 18) in fields (K,)."""
        camera = self.config.camera
        shape = (len(cameras), camera.height, camera.width)
        depth = torch.empty(shape, device=self.device)
        seen = torch.empty(shape, dtype=torch.int16, device=self.device)
        self._functions.measure_depth(cameras, self._traced, field_index, self._num_solids, depth, seen)
        return depth, seen

    def landmarks_at(self, pose_world: Tensor, field_index: Tensor, tilt: Tensor | None = None) -> Tensor:
        """The landmark (K, H, W) int16 in each pixel of `render`'s picture, as its index in the layout; -1 for none."""
        return self._measure(self._cameras_at(pose_world, tilt), field_index)[1]

    def ground_and_sky_at(
        self, pose_world: Tensor, field_index: Tensor, tilt: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Which pixels (K, H, W) bool of `render`'s picture show the ground, and which the sky."""
        cameras = self._cameras_at(pose_world, tilt)
        depth, seen = self._measure(cameras, field_index)
        u, v = (torch.arange(count, device=self.device) + 0.5 for count in (depth.shape[2], depth.shape[1]))
        ahead, along_u, along_v = (cameras[:, None, None, at : at + 3] for at in (AHEAD, AHEAD_U, AHEAD_V))
        ray = ahead + u[:, None] * along_u + v[:, None, None] * along_v
        height = cameras[:, None, None, ORIGIN + 2] + depth * ray[..., 2] / ray.norm(dim=-1)
        is_sky = depth == 0
        return (seen < 0) & ~is_sky & (height < GROUND_LEVEL), is_sky

    def render_from_above(self, field_index: Tensor, size_px: int, margin: float = 1.0) -> Tensor:
        """Pictures (K, S, S, 3) uint8 of fields (K,) and `margin` metres around them, from straight above, north up."""
        cameras = _overhead_camera(size_px, margin, self.device).repeat(len(field_index), 1)
        image = torch.empty((len(field_index), size_px, size_px, 3), dtype=torch.uint8, device=self.device)
        self._functions.paint(cameras, self._traced, field_index, self._num_solids, True, image)
        return image

    def top_down(self, size_px: int = 512, margin: float = 1.0) -> Tensor:
        """`render_from_above` of each flight's field: pictures (B, S, S, 3) uint8."""
        return self.render_from_above(self.field_index, size_px, margin)


def simulator_for(
    tasks: Sequence[Task],
    *,
    device: str | torch.device = "cpu",
    config: SimulatorConfig = SimulatorConfig(),
) -> Simulator:
    """A simulator with one flight per task, in that task's field; tasks with the same layout share the field."""
    if not tasks:
        raise ValueError("tasks: got none, expected at least one task to fly")
    layouts, field_index = distinct_layouts(tasks)
    return Simulator(layouts, len(tasks), field_index=field_index, device=device, config=config)
