"""The simulator's loops on the CPU: threads over flights and over tiles of pixels.

`cuda` has the same functions; each takes tensors on its own device and fills them in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pvn.compiling import kernel, run_in_parallel
from pvn.simulator.lanes import MAX_LANES, NUM_ROWS, paint_tile
from pvn.simulator.quadcopter import Airframe, fly
from pvn.simulator.rays import NUM_AIMED_COLUMNS, F, Fields, nearest_hit
from pvn.simulator.rendering import (
    MAX_CANDIDATES,
    Lens,
    aim_landmark,
    count_tiles,
    gather_candidates,
    measure_pixel,
    num_tiles,
    pixel_ray,
    point_camera,
    tile_bounds,
)

GRAIN = 72  # tiles a thread takes at a time, at least


@kernel
def _fly_all(first, last, state, setpoints, airframe, num_substeps):
    for flight in range(first, last):
        fly(state, flight, setpoints, airframe, num_substeps)


@kernel
def _point_all(first, last, state, lens, poses, cameras):
    for flight in range(first, last):
        point_camera(state, flight, lens, poses, cameras)


@kernel
def _aim_all(first, last, cameras, fields, field_index, aimed):
    for flight in range(first, last):
        field = field_index[flight]
        for landmark in range(fields.num_landmarks[field]):
            aim_landmark(cameras, flight, fields, field, landmark, aimed)


@kernel
def _paint_tiles(first, last, cameras, fields, field_index, aimed, is_full, image):
    height, width = image.shape[1], image.shape[2]
    tiles = num_tiles(width, height)
    candidates = np.empty((1, MAX_CANDIDATES), np.uint16)
    lanes = np.empty((NUM_ROWS, MAX_LANES), np.float32)
    for item in range(first, last):
        flight, tile = item // tiles, item % tiles
        field = field_index[flight]
        left, top, right, bottom = tile_bounds(tile, width, height)
        count = gather_candidates(cameras, flight, fields, field, aimed, left, top, right, bottom, candidates, 0)
        paint_tile(
            cameras, flight, left, top, right, bottom, fields, field, aimed, candidates, count, is_full, lanes, image
        )


@kernel
def _measure_tiles(first, last, cameras, fields, field_index, aimed, depth, seen):
    height, width = depth.shape[1], depth.shape[2]
    tiles = num_tiles(width, height)
    candidates = np.empty((1, MAX_CANDIDATES), np.uint16)
    for item in range(first, last):
        flight, tile = item // tiles, item % tiles
        field = field_index[flight]
        left, top, right, bottom = tile_bounds(tile, width, height)
        count = gather_candidates(cameras, flight, fields, field, aimed, left, top, right, bottom, candidates, 0)
        for row in range(top, bottom):
            for column in range(left, right):
                measure_pixel(cameras, flight, column, row, aimed, candidates, 0, count, depth, seen)


@kernel
def _measure_rays(first, last, cameras, aimed, num_solids, camera_index, pixels, depth, seen):
    candidates = np.empty((1, 1), np.uint16)  # unused: a negative count stands for all solids
    for ray in range(first, last):
        camera, u, v = camera_index[ray], pixels[ray, 0], pixels[ray, 1]
        ox, oy, oz, dx, dy, dz, stretch = pixel_ray(cameras, camera, u, v)
        distance, _, landmark = nearest_hit(
            ox, oy, oz, dx, dy, dz, stretch, u, v, aimed, camera, candidates, 0, -num_solids
        )
        depth[ray] = distance if distance < F(1e8) else F(0)
        seen[ray] = landmark


def to_device(fields: Fields, device: torch.device) -> Fields:
    """The fields as tensors on the device."""
    return Fields(*(torch.from_numpy(array).to(device) for array in fields))  # type: ignore[arg-type]


def share(fields: Fields) -> Fields:
    """The fields as the arrays that kernels take, in the same memory."""
    return Fields(*(tensor.numpy() for tensor in fields))  # type: ignore[attr-defined]


def advance(state: Tensor, setpoints: Tensor, airframe: Airframe, num_substeps: int) -> None:
    """Advance state (B, 17) float64 by num_substeps, holding setpoints (B, 4) float64."""
    run_in_parallel(_fly_all, len(state), 16, state.numpy(), setpoints.numpy(), airframe, num_substeps)


def observe(state: Tensor, lens: Lens, poses: Tensor, cameras: Tensor) -> None:
    """Fill poses (B, 6) and cameras (B, 18), float32, from state (B, 17)."""
    _point_all(0, len(state), state.numpy(), lens, poses.numpy(), cameras.numpy())


def _aim(cameras: Tensor, fields: Fields, field_index: Tensor, num_solids: int) -> Any:
    aimed = np.empty((len(cameras), num_solids, NUM_AIMED_COLUMNS), np.float32)
    run_in_parallel(_aim_all, len(cameras), 32, cameras.numpy(), fields, field_index.numpy(), aimed)
    return aimed


def paint(cameras: Tensor, fields: Fields, field_index: Tensor, num_solids: int, is_full: bool, image: Tensor) -> None:
    """Fill image (B, H, W, 3) uint8 with what cameras (B, 18) see of fields[field_index (B,)].

    num_solids: at least the number of solids in the field that has the most.
    """
    aimed = _aim(cameras, fields, field_index, num_solids)
    tiles = len(cameras) * count_tiles(image.shape[2], image.shape[1])
    index = field_index.numpy()
    run_in_parallel(_paint_tiles, tiles, GRAIN, cameras.numpy(), fields, index, aimed, is_full, image.numpy())


def measure_depth(
    cameras: Tensor, fields: Fields, field_index: Tensor, num_solids: int, depth: Tensor, seen: Tensor
) -> None:
    """Fill depth (B, H, W) float32, metres along the ray, 0 for sky; and seen (B, H, W) int16, landmark or -1."""
    aimed = _aim(cameras, fields, field_index, num_solids)
    tiles = len(cameras) * count_tiles(depth.shape[2], depth.shape[1])
    index = field_index.numpy()
    run_in_parallel(_measure_tiles, tiles, GRAIN, cameras.numpy(), fields, index, aimed, depth.numpy(), seen.numpy())


def measure_rays(
    cameras: Tensor, fields: Fields, num_solids: int, camera_index: Tensor, pixels: Tensor, depth: Tensor, seen: Tensor
) -> None:
    """Fill depth (R,) and seen (R,), as `measure_depth` does, for rays through any pixels, in the first field.

    camera_index (R,) int64: whose ray of cameras (C, 18); pixels (R, 2) float32: u, v. Only the CPU has this.
    """
    aimed = _aim(cameras, fields, torch.zeros(len(cameras), dtype=torch.int64), num_solids)
    run_in_parallel(
        _measure_rays, len(depth), 256, cameras.numpy(), aimed, num_solids, camera_index.numpy(), pixels.numpy(),
        depth.numpy(), seen.numpy(),
    )  # fmt: skip
