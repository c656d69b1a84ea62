"""Norms and the image encoder's convolutions in flight on a CPU, compiled: maps with channels last, one after another.

A library's convolutions are made for larger maps, and leave the norm before them, the padding and the rectifier after
them to passes of their own. Here a convolution reads a padded copy of its map, which is normalised while it is made,
and rectifies what it writes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from pvn.simulator.compiling import kernel

BLOCK = 64
"""Values that are summed in single precision before they are added to a sum in double precision."""
# What Numba compiles for, by which it also tells cached code apart: not always what this processor has.
_, _, FEATURES = cpu_target.target_context.codegen().magic_tuple()
STRIP, LANES = (8, 32) if "+avx512f" in FEATURES else (4, 16)
"""Pixels beside each other, and output channels, whose sums are computed at once: as many as fit into registers."""


@intrinsic
def _convolve_strip(
    typing, source, place, step, rows, row_step, depth, filters, tap, num_out, bias, channel, slope, out, to
):  # fmt: skip
    """Write LANES channels of STRIP pixels beside each other: bias, and source times filters, rectified.

    A pixel is made from `rows` rows of `depth` values each, `row_step` apart; those of the first pixel begin at
    `place`, those of the next one `step` later. The filters of the first value begin at `tap`, those of the next one
    `num_out` later. Pixels in `out` are `num_out` apart too, the first of them at `to`.

    Written in LLVM's own language, since Numba does not keep a table of sums in registers.
    """
    signature = types.void(
        source, *(types.intp,) * 5, filters, types.intp, types.intp, bias, types.intp, types.float32, out, types.intp
    )
    vector, integer = ir.VectorType(ir.FloatType(), LANES), ir.IntType(32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, place, step, rows, row_step, depth, filters, tap, num_out, bias, channel, slope, out, to = arguments
        source, filters, bias, out = (
            context.make_array(signature.args[number])(context, builder, array).data
            for number, array in ((0, source), (6, filters), (9, bias), (12, out))
        )

        def pointer(data: Any, at: Any) -> Any:
            return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

        def load(data: Any, at: Any) -> Any:
            loaded = builder.load(pointer(data, at))
            loaded.align = 4  # of a number, not of a vector
            return loaded

        def spread(number: Any) -> Any:
            nothing = ir.Constant(vector, ir.Undefined)
            single = builder.insert_element(nothing, number, ir.Constant(integer, 0))
            return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(integer, LANES), [0] * LANES))

        pixels = [ir.Constant(ir.IntType(64), pixel) for pixel in range(STRIP)]
        start = load(bias, channel)
        sums = [cgutils.alloca_once_value(builder, start) for _ in pixels]
        with cgutils.for_range(builder, rows) as row:
            begin = builder.add(place, builder.mul(row.index, row_step))
            first = builder.add(tap, builder.mul(builder.mul(row.index, depth), num_out))
            with cgutils.for_range(builder, depth) as value:
                weights = load(filters, builder.add(first, builder.mul(value.index, num_out)))
                here = builder.add(begin, value.index)
                for pixel, total in zip(pixels, sums, strict=True):
                    number = builder.load(builder.gep(source, [builder.add(here, builder.mul(step, pixel))]))
                    product = builder.fmul(spread(number), weights, flags=["contract"])
                    builder.store(builder.fadd(builder.load(total), product, flags=["contract"]), total)
        for pixel, total in zip(pixels, sums, strict=True):
            large = builder.load(total)
            small = builder.fmul(large, spread(slope))
            rectified = builder.select(builder.fcmp_unordered("<", large, small), small, large)
            builder.store(rectified, pointer(out, builder.add(to, builder.mul(num_out, pixel)))).align = 4
        return context.get_dummy_value()

    return signature, generate


@kernel
def normalise_maps(first, last, values, epsilon, margin, normed):
    """Some of the maps (K, H, W, C), each channel to mean 0 and deviation 1, into `normed`, which is larger.

    epsilon: added to the variance; margin: zeros on each side of a normed map.
    """
    height, width, num_channels = values.shape[1:]
    num_pixels = height * width
    total, some = np.empty(num_channels), np.empty(num_channels, np.float32)
    mean, factor = np.empty(num_channels, np.float32), np.empty(num_channels, np.float32)
    for picture in range(first, last):
        rows = values[picture].reshape(num_pixels, num_channels)
        for is_second in range(2):  # sums, then sums of squares; of 64 rows at a time, which costs no digits
            total[:] = 0
            for begin in range(0, num_pixels, BLOCK):
                some[:] = 0
                for row in range(begin, min(begin + BLOCK, num_pixels)):
                    if is_second:
                        for channel in range(num_channels):
                            off = rows[row, channel] - mean[channel]
                            some[channel] += off * off
                    else:
                        for channel in range(num_channels):
                            some[channel] += rows[row, channel]
                for channel in range(num_channels):
                    total[channel] += some[channel]
            for channel in range(num_channels):
                if is_second:
                    factor[channel] = 1 / math.sqrt(total[channel] / num_pixels + epsilon)
                else:
                    mean[channel] = total[channel] / num_pixels
        for row in range(height + 2 * margin):
            if margin <= row < height + margin:
                normed[picture, row, :margin] = 0
                normed[picture, row, margin + width :] = 0
                for column in range(width):
                    for channel in range(num_channels):
                        value = values[picture, row - margin, column, channel]
                        normed[picture, row, column + margin, channel] = (value - mean[channel]) * factor[channel]
            else:
                normed[picture, row] = 0


@kernel
def convolve_maps(first, last, padded, stride, filters, bias, slope, out):
    """Some of the padded maps (K, H', W', C) through filters (N, N, C, O), rectified, into out (K, H, W, O).

    slope: of the rectifier below zero. W is at least STRIP, O a multiple of LANES.
    """
    height, across, num_in = padded.shape[1:]
    num_rows, num_columns, num_out = out.shape[1:]
    size, step, row_step = len(filters), stride * num_in, across * num_in
    # A row of taps lies in a row in memory, in the map as well as in the filters.
    depth = size * num_in
    source, weights, result = padded.reshape(-1), filters.reshape(-1), out.reshape(-1)
    for picture in range(first, last):
        for channel in range(0, num_out, LANES):
            for row in range(num_rows):
                place = (picture * height + row * stride) * row_step
                to = (picture * num_rows + row) * num_columns * num_out + channel
                for begin in range(0, num_columns, STRIP):
                    column = min(begin, num_columns - STRIP)  # some are computed twice, to the same result
                    _convolve_strip(
                        source, place + column * step, step, size, row_step, depth, weights, channel, num_out,
                        bias, channel, slope, result, to + column * num_out,
                    )  # fmt: skip
