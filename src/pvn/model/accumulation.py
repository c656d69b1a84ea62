"""Features of pictures laid on the ground below them and accumulated over a flight, in one pass over the map's cells.

For every cell of a flight's map, in one pass through the flight's frames: where the cell's ground point is in view,
features are sampled there; the first observation is copied, later ones are blended in with a leak. The backward pass
visits the frames in reverse. Nothing of size frames x cells is ever stored. On the CPU the innermost loop runs over a
cell's channels, on CUDA each lane is a channel, so each pass is written twice; both use the same projection.

The frames of all flights are stored end to end: those of flight b are first_frame[b] to first_frame[b + 1]. A frame
with row >= 0 writes the map as it then is into that row of the output.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from pvn.compiling import cuda_kernel, current_stream, kernel, numba_cuda, run_in_parallel

NEAREST = 0.1
"""Ground points nearer to the camera plane than this, metres, are not in view."""
CENTRE = np.float32(0.125)
"""Feature j is centred on pixel 4 j, whose middle is an eighth of a feature from the edge."""


@numba.njit(inline="always", error_model="numpy")
def _locate(homographies, frame, x, y, width, height):
    """Column and row of a ground point in a frame's features; and whether it is in view."""
    depth = homographies[frame, 6] * x + homographies[frame, 7] * y + homographies[frame, 8]
    if depth < NEAREST:
        return np.float32(0), np.float32(0), False
    column = (homographies[frame, 0] * x + homographies[frame, 1] * y + homographies[frame, 2]) / depth
    row = (homographies[frame, 3] * x + homographies[frame, 4] * y + homographies[frame, 5]) / depth
    is_seen = column > 0 and column < width and row > 0 and row < height
    return column, row, is_seen


@numba.njit(inline="always", error_model="numpy")
def _corners(column, row, width, height):
    """The four features around a place, and the weights of the right and of the lower ones; edges are extended."""
    column = min(max(column - CENTRE, np.float32(0)), np.float32(width - 1))
    row = min(max(row - CENTRE, np.float32(0)), np.float32(height - 1))
    left, top = int(column), int(row)
    right, bottom = min(left + 1, width - 1), min(top + 1, height - 1)
    return left, top, right, bottom, column - np.float32(left), row - np.float32(top)


@kernel
def _accumulate_cpu(
    first, last, features, homographies, first_frame, rows, places, leak, memory, is_known, out, out_known
):
    height, width, channels = features.shape[1], features.shape[2], features.shape[3]
    state = np.empty(channels, np.float32)
    for flight in range(first, last):
        for cell in range(len(places)):
            known = is_known[flight, cell]
            for channel in range(channels):
                state[channel] = memory[flight, cell, channel]
            for frame in range(first_frame[flight], first_frame[flight + 1]):
                column, row, is_seen = _locate(homographies, frame, places[cell, 0], places[cell, 1], width, height)
                if is_seen:
                    left, top, right, bottom, s, t = _corners(column, row, width, height)
                    rate = leak if known else np.float32(1)
                    for channel in range(channels):
                        upper = features[frame, top, left, channel] * (1 - s) + features[frame, top, right, channel] * s
                        lower = (
                            features[frame, bottom, left, channel] * (1 - s)
                            + features[frame, bottom, right, channel] * s
                        )
                        state[channel] += rate * (upper * (1 - t) + lower * t - state[channel])
                    known = True
                if rows[frame] >= 0:
                    out_known[rows[frame], cell] = known
                    for channel in range(channels):
                        out[rows[frame], cell, channel] = state[channel]


@kernel
def _backward_cpu(first, last, grad_out, homographies, first_frame, rows, places, leak, is_known, grad):
    height, width, channels = grad.shape[1], grad.shape[2], grad.shape[3]
    flow = np.empty(channels, np.float32)
    for flight in range(first, last):
        begin, end = first_frame[flight], first_frame[flight + 1]
        for cell in range(len(places)):
            x, y = places[cell, 0], places[cell, 1]
            copied = -1
            if not is_known[flight, cell]:
                for frame in range(begin, end):
                    if _locate(homographies, frame, x, y, width, height)[2]:
                        copied = frame
                        break
                if copied < 0:
                    continue
            for channel in range(channels):
                flow[channel] = 0
            for frame in range(end - 1, max(begin, copied) - 1, -1):
                if rows[frame] >= 0:
                    for channel in range(channels):
                        flow[channel] += grad_out[rows[frame], cell, channel]
                column, row, is_seen = _locate(homographies, frame, x, y, width, height)
                if is_seen:
                    left, top, right, bottom, s, t = _corners(column, row, width, height)
                    rate = np.float32(1) if frame == copied else leak
                    for channel in range(channels):
                        part = rate * flow[channel]
                        grad[frame, top, left, channel] += part * (1 - s) * (1 - t)
                        grad[frame, top, right, channel] += part * s * (1 - t)
                        grad[frame, bottom, left, channel] += part * (1 - s) * t
                        grad[frame, bottom, right, channel] += part * s * t
                        flow[channel] -= part


WARPS = 8


@functools.cache
def _cuda_kernels() -> tuple[Any, Any]:
    """The same two passes for CUDA: a warp for each cell of each flight, a lane for each channel."""
    cuda = numba_cuda()

    @cuda_kernel
    def accumulate(features, homographies, first_frame, rows, places, leak, memory, is_known, out, out_known):
        cell = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        flight, lane = cuda.blockIdx.y, cuda.threadIdx.x
        height, width, channels = features.shape[1], features.shape[2], features.shape[3]
        if cell >= places.shape[0]:
            return
        known = is_known[flight, cell]
        x, y = places[cell, 0], places[cell, 1]
        for channel in range(lane, channels, 32):
            has_seen = known
            state = memory[flight, cell, channel]
            for frame in range(first_frame[flight], first_frame[flight + 1]):
                column, row, is_seen = _locate(homographies, frame, x, y, width, height)
                if is_seen:
                    left, top, right, bottom, s, t = _corners(column, row, width, height)
                    upper = features[frame, top, left, channel] * (1 - s) + features[frame, top, right, channel] * s
                    lower = (
                        features[frame, bottom, left, channel] * (1 - s) + features[frame, bottom, right, channel] * s
                    )
                    rate = leak if has_seen else np.float32(1)
                    state += rate * (upper * (1 - t) + lower * t - state)
                    has_seen = True
                if rows[frame] >= 0:
                    out[rows[frame], cell, channel] = state
                    if channel == 0:
                        out_known[rows[frame], cell] = has_seen

    @cuda_kernel
    def backward(grad_out, homographies, first_frame, rows, places, leak, is_known, grad):
        cell = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        flight, lane = cuda.blockIdx.y, cuda.threadIdx.x
        height, width, channels = grad.shape[1], grad.shape[2], grad.shape[3]
        if cell >= places.shape[0]:
            return
        x, y = places[cell, 0], places[cell, 1]
        begin, end = first_frame[flight], first_frame[flight + 1]
        copied = -1
        if not is_known[flight, cell]:
            for frame in range(begin, end):
                if _locate(homographies, frame, x, y, width, height)[2]:
                    copied = frame
                    break
            if copied < 0:
                return
        for channel in range(lane, channels, 32):
            flow = np.float32(0)
            for frame in range(end - 1, max(begin, copied) - 1, -1):
                if rows[frame] >= 0:
                    flow += grad_out[rows[frame], cell, channel]
                column, row, is_seen = _locate(homographies, frame, x, y, width, height)
                if is_seen:
                    left, top, right, bottom, s, t = _corners(column, row, width, height)
                    part = flow if frame == copied else leak * flow
                    cuda.atomic.add(grad, (frame, top, left, channel), part * (1 - s) * (1 - t))
                    cuda.atomic.add(grad, (frame, top, right, channel), part * s * (1 - t))
                    cuda.atomic.add(grad, (frame, bottom, left, channel), part * (1 - s) * t)
                    cuda.atomic.add(grad, (frame, bottom, right, channel), part * s * t)
                    flow -= part

    return accumulate, backward


def _launch(which: int, num_flights: int, num_cells: int, arguments: tuple[Any, ...]) -> None:
    """Run one of the two passes on the arguments' device; arguments are tensors and numbers, in the kernels' order."""
    is_cuda = next(argument for argument in arguments if isinstance(argument, Tensor)).is_cuda
    if not is_cuda:
        arrays = (argument.numpy() if isinstance(argument, Tensor) else argument for argument in arguments)
        run_in_parallel((_accumulate_cpu, _backward_cpu)[which], num_flights, 1, *arrays)
        return
    grid = (math.ceil(num_cells / WARPS), num_flights)
    _cuda_kernels()[which][grid, (32, WARPS), current_stream()](*arguments)


def _accumulate(
    features: Tensor, homographies: Tensor, first_frame: Tensor, rows: Tensor, num_rows: int, places: Tensor,
    leak: float, memory: Tensor, is_known: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    num_flights, num_cells = len(first_frame) - 1, len(places)
    out = torch.zeros((num_rows, num_cells, features.shape[-1]), device=features.device)
    out_known = torch.zeros((num_rows, num_cells), dtype=torch.bool, device=features.device)
    _launch(
        0, num_flights, num_cells,
        (features, homographies, first_frame, rows, places, np.float32(leak), memory, is_known, out, out_known),
    )  # fmt: skip
    return out, out_known


class _Accumulate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, features, homographies, first_frame, rows, num_rows, places, leak, memory, is_known):  # type: ignore[no-untyped-def]
        out, out_known = _accumulate(
            features, homographies, first_frame, rows, num_rows, places, leak, memory, is_known
        )
        ctx.save_for_backward(homographies, first_frame, rows, places, is_known)
        ctx.rate, ctx.shape = np.float32(leak), features.shape
        ctx.mark_non_differentiable(out_known)
        return out, out_known

    @staticmethod
    def backward(ctx, grad_out, _):  # type: ignore[no-untyped-def]
        homographies, first_frame, rows, places, is_known = ctx.saved_tensors
        grad = torch.zeros(ctx.shape, device=grad_out.device)
        _launch(
            1, len(first_frame) - 1, len(places),
            (grad_out.contiguous(), homographies, first_frame, rows, places, ctx.rate, is_known, grad),
        )  # fmt: skip
        return (grad, *(None,) * 8)


def accumulate(
    features: Tensor,
    homographies: Tensor,
    first_frame: Tensor,
    rows: Tensor,
    num_rows: int,
    places: Tensor,
    leak: float,
    memory: Tensor,
    is_known: Tensor,
) -> tuple[Tensor, Tensor]:
    """Maps (num_rows, S, C) of flights at their frames with a row, and which cells (num_rows, S) were ever in view.

    features (K, H, W, C) float32, contiguous, of all flights' frames; homographies (K, 9) float32: ground point
    (x, y, 1) in the map's frame to (column, row, 1) times depth, in units of features, 0 at the picture's left and
    upper edge; first_frame (B + 1,) int64; rows (K,) int64, -1 for none; places (S, 2) float32: the cells' ground
    points in the map's frame; memory (B, S, C) float32 and is_known (B, S) bool: the maps before the first frame.
    Gradients flow to the features alone.
    """
    arguments = features, homographies, first_frame, rows, num_rows, places, leak, memory, is_known
    return _Accumulate.apply(*arguments) if torch.is_grad_enabled() else _accumulate(*arguments)
