"""The simulator's kernels on CUDA: one thread per flight, tile or pixel, on torch's current stream.

`cpu` has the same functions; each takes tensors on its own device and fills them in place.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pvn.compiling import cuda_kernel as kernel
from pvn.compiling import current_stream, numba_cuda
from pvn.simulator.cpu import to_device as to_device
from pvn.simulator.quadcopter import Airframe, fly
from pvn.simulator.rays import NUM_AIMED_COLUMNS, Fields
from pvn.simulator.rendering import (
    MAX_CANDIDATES,
    TILE_HEIGHT,
    TILE_WIDTH,
    Lens,
    aim_landmark,
    count_tiles,
    gather_candidates,
    measure_pixel,
    num_tiles,
    paint_pixel,
    point_camera,
    tile_bounds,
)
from pvn.world.layout import MAX_LANDMARKS

THREADS = 64
cuda = numba_cuda()


@kernel
def _fly_all(state, setpoints, airframe, num_substeps):
    flight = cuda.grid(1)
    if flight < state.shape[0]:
        fly(state, flight, setpoints, airframe, num_substeps)


@kernel
def _point_all(state, lens, poses, cameras):
    flight = cuda.grid(1)
    if flight < state.shape[0]:
        point_camera(state, flight, lens, poses, cameras)


@kernel
def _aim_all(cameras, fields, field_index, aimed):
    item = cuda.grid(1)
    flight, landmark = item // MAX_LANDMARKS, item % MAX_LANDMARKS
    if flight < cameras.shape[0] and landmark < fields.num_landmarks[field_index[flight]]:
        aim_landmark(cameras, flight, fields, field_index[flight], landmark, aimed)


@kernel
def _gather_all(cameras, fields, field_index, aimed, width, height, candidates, counts):
    row = cuda.grid(1)
    if row < counts.shape[0]:
        tiles = num_tiles(width, height)
        flight, tile = row // tiles, row % tiles
        left, top, right, bottom = tile_bounds(tile, width, height)
        counts[row] = gather_candidates(
            cameras, flight, fields, field_index[flight], aimed,
            left, top, right, bottom, candidates, row,
        )  # fmt: skip


@kernel
def _paint_all(cameras, fields, field_index, aimed, candidates, counts, is_full, image):
    height, width = image.shape[1], image.shape[2]
    row = cuda.blockIdx.x
    tiles = num_tiles(width, height)
    flight = row // tiles
    left, top, right, bottom = tile_bounds(row % tiles, width, height)
    u, v = left + cuda.threadIdx.x, top + cuda.threadIdx.y
    if u < right and v < bottom:
        paint_pixel(
            cameras, flight, u, v, fields, field_index[flight],
            aimed, candidates, row, counts[row], is_full, image,
        )  # fmt: skip


@kernel
def _measure_all(cameras, aimed, candidates, counts, depth, seen):
    height, width = depth.shape[1], depth.shape[2]
    row = cuda.blockIdx.x
    tiles = num_tiles(width, height)
    flight = row // tiles
    left, top, right, bottom = tile_bounds(row % tiles, width, height)
    u, v = left + cuda.threadIdx.x, top + cuda.threadIdx.y
    if u < right and v < bottom:
        measure_pixel(cameras, flight, u, v, aimed, candidates, row, counts[row], depth, seen)


def share(fields: Fields) -> Fields:
    """The fields as the device arrays that kernels take, in the same memory."""
    return Fields(*(cuda.as_cuda_array(tensor) for tensor in fields))


def _blocks(num_threads: int) -> int:
    return -(-num_threads // THREADS)


def advance(state: Tensor, setpoints: Tensor, airframe: Airframe, num_substeps: int) -> None:
    """Advance state (B, 17) float64 by num_substeps, holding setpoints (B, 4) float64."""
    _fly_all[_blocks(len(state)), THREADS, current_stream()](state, setpoints, airframe, num_substeps)


def observe(state: Tensor, lens: Lens, poses: Tensor, cameras: Tensor) -> None:
    """Fill poses (B, 6) and cameras (B, 18), float32, from state (B, 17)."""
    _point_all[_blocks(len(state)), THREADS, current_stream()](state, lens, poses, cameras)


def _gather(
    cameras: Tensor, fields: Fields, field_index: Tensor, num_solids: int, width: int, height: int
) -> tuple[Tensor, Tensor, Tensor]:
    rows = len(cameras) * count_tiles(width, height)
    device = cameras.device
    aimed = torch.empty((len(cameras), num_solids, NUM_AIMED_COLUMNS), device=device)
    candidates = torch.empty((rows, MAX_CANDIDATES), dtype=torch.uint16, device=device)
    counts = torch.empty(rows, dtype=torch.int32, device=device)
    _aim_all[_blocks(len(cameras) * MAX_LANDMARKS), THREADS, current_stream()](cameras, fields, field_index, aimed)
    _gather_all[_blocks(rows), THREADS, current_stream()](
        cameras, fields, field_index, aimed, width, height, candidates, counts
    )
    return aimed, candidates, counts


def paint(cameras: Tensor, fields: Fields, field_index: Tensor, num_solids: int, is_full: bool, image: Tensor) -> None:
    """Fill image (B, H, W, 3) uint8 with what cameras (B, 18) see of fields[field_index (B,)].

    num_solids: at least the number of solids in the field that has the most.
    """
    height, width = image.shape[1], image.shape[2]
    aimed, candidates, counts = _gather(cameras, fields, field_index, num_solids, width, height)
    _paint_all[len(counts), (TILE_WIDTH, TILE_HEIGHT), current_stream()](
        cameras, fields, field_index, aimed, candidates, counts, is_full, image
    )


def measure_depth(
    cameras: Tensor, fields: Fields, field_index: Tensor, num_solids: int, depth: Tensor, seen: Tensor
) -> None:
    """Fill depth (B, H, W) float32, metres along the ray, 0 for sky; and seen (B, H, W) int16, landmark or -1."""
    height, width = depth.shape[1], depth.shape[2]
    aimed, candidates, counts = _gather(cameras, fields, field_index, num_solids, width, height)
    _measure_all[len(counts), (TILE_WIDTH, TILE_HEIGHT), current_stream()](
        cameras, aimed, candidates, counts, depth, seen
    )
