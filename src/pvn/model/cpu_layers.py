"""Norms and convolutions in flight on a CPU, compiled: maps with channels last, one after another.

A library's convolutions are made for larger maps, and leave the norm before them, the padding and the rectifier after
them to passes of their own. Here a convolution reads a padded copy of its map, which is normalised while it is made,
and rectifies what it writes. With a stride of 1 it takes a quarter of the products: Winograd's F(4x4, 3x3), after
Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.

Whole numbers that are passed on are written np.int64(1), also where a variable begins with one: for a constant, Numba
would compile a function once more.
"""

from __future__ import annotations

import math

import numpy as np

from pvn.compiling import kernel
from pvn.model.cpu_vectors import (
    FEWEST_LANES,
    LANES,
    SPAN,
    STRIP,
    TILE,
    VECTOR,
    convolve_narrow_strip,
    convolve_strip,
    filter_tile,
    map_tile,
    multiply_narrow_strip,
    multiply_strip,
    result_tile,
)

BLOCK = 64
"""Values that are summed in single precision before they are added to a sum in double precision."""
TILES_AT_ONCE = 16
"""Tiles whose values stay in the processor's cache until they are multiplied."""
GAP = 16
"""Numbers left out behind a table of transformed values."""
LINE = 16
"""Numbers in a cache line; a vector that straddles two lines takes longer to read and write."""


@kernel
def aligned_room(count):
    """Room for `count` numbers, aligned to a cache line."""
    room = np.empty(count + LINE, np.float32)
    skipped = -(room.ctypes.data // 4) % LINE
    return room[skipped : skipped + count]


@kernel
def _lay_out(values, mean, factor, margin, padded):
    """A map (H, W, C), minus a mean for each channel, times a factor, into one with zeros around and behind."""
    height, width, num_channels = values.shape
    depth = padded.shape[2]
    for row in range(len(padded)):
        if row < margin or row >= height + margin:
            padded[row] = 0
            continue
        padded[row, :margin] = 0
        padded[row, margin + width :] = 0
        for column in range(width):
            for channel in range(num_channels):
                value = values[row - margin, column, channel]
                padded[row, column + margin, channel] = (value - mean[channel]) * factor[channel]
            for channel in range(num_channels, depth):
                padded[row, column + margin, channel] = 0


@kernel
def normalise(values, epsilon, margin, normed):
    """A map (H, W, C), each channel to mean 0 and deviation 1, into one with zeros around and behind.

    epsilon: added to the variance.
    """
    height, width, num_channels = values.shape
    num_pixels = height * width
    rows = values.reshape(num_pixels, num_channels)
    # What is summed is the distance from an estimate of the mean, so that squares cost no digits; 64 rows at a time in
    # single precision, for the same reason.
    mean, factor = np.zeros(num_channels, np.float32), np.empty(num_channels, np.float32)
    some, squares = np.empty(num_channels, np.float32), np.empty(num_channels, np.float32)
    total, total_squares = np.zeros(num_channels), np.zeros(num_channels)
    few = min(BLOCK, num_pixels)
    for row in range(few):
        for channel in range(num_channels):
            mean[channel] += rows[row, channel] / few
    for begin in range(0, num_pixels, BLOCK):
        some[:] = 0
        squares[:] = 0
        for row in range(begin, min(begin + BLOCK, num_pixels)):
            for channel in range(num_channels):
                off = rows[row, channel] - mean[channel]
                some[channel] += off
                squares[channel] += off * off
        for channel in range(num_channels):
            total[channel] += some[channel]
            total_squares[channel] += squares[channel]
    for channel in range(num_channels):
        off_mean = total[channel] / num_pixels
        mean[channel] += off_mean
        factor[channel] = 1 / math.sqrt(total_squares[channel] / num_pixels - off_mean * off_mean + epsilon)
    _lay_out(values, mean, factor, margin, normed)


@kernel
def multiply(source, place, step, rows, row_step, depth, filters, tap, num_out, out, to, num_pixels):
    """As a strip, for all output channels and any number of pixels from STRIP on, which lie in `out` one by one."""
    for begin in range(0, num_pixels, STRIP):
        pixel = min(begin, num_pixels - STRIP)  # some are computed twice, to the same result
        here, there = place + pixel * step, to + pixel * num_out
        for channel in range(0, num_out - LANES + 1, LANES):
            multiply_strip(
                source, here, step, rows, row_step, depth, filters, tap + channel, num_out,
                out, there + channel, num_out,
            )  # fmt: skip
        for channel in range(num_out // LANES * LANES, num_out, FEWEST_LANES):
            multiply_narrow_strip(
                source, here, step, rows, row_step, depth, filters, tap + channel, num_out,
                out, there + channel, num_out,
            )  # fmt: skip


@kernel
def _convolve_windows(
    padded, row, stride, height, width, filters, tap, bias, slope, out, to, out_step, num_pixels
):  # fmt: skip
    """The windows of height x width values of a padded map (H, W, C), from the beginning of a row on, through filters
    (height * width, C * O), rectified, to any number of pixels from STRIP on.

    The filters of the first value begin at `tap`; pixels in `out` are `out_step` apart, the first of them at `to`.
    """
    _, across, num_in = padded.shape
    num_out = len(bias)
    source, weights = padded.reshape(-1), filters.reshape(-1)
    step, row_step, depth = stride * num_in, across * num_in, width * num_in
    # A row of taps lies in a row in memory, in the map as well as in the filters.
    for begin in range(0, num_pixels, STRIP):
        pixel = min(begin, num_pixels - STRIP)  # as for `multiply`
        here, there = row * stride * row_step + pixel * step, to + pixel * out_step
        for channel in range(0, num_out - LANES + 1, LANES):
            convolve_strip(
                source, here, step, height, row_step, depth, weights, tap + channel, num_out, bias, channel, slope,
                out, there + channel, out_step,
            )  # fmt: skip
        for channel in range(num_out // LANES * LANES, num_out, FEWEST_LANES):
            convolve_narrow_strip(
                source, here, step, height, row_step, depth, weights, tap + channel, num_out, bias, channel, slope,
                out, there + channel, out_step,
            )  # fmt: skip


@kernel
def _convolve_every(padded, stride, height, width, filters, tap, bias, slope, out, down, right, spread):
    """All windows of a padded map through filters, as above, to every `spread`-th place of a map `out`, from one on.

    down, right: where the first of them lies, in `out`.
    """
    num_rows, num_columns, num_out = out.shape
    num_rows, num_columns, columns, flat = num_rows // spread, num_columns // spread, padded.shape[1], out.reshape(-1)
    step, row_step = spread * num_out, spread * num_columns * num_out * spread
    to = down * num_columns * spread * num_out + right * num_out
    if num_columns >= STRIP:
        for row in range(num_rows):
            _convolve_windows(
                padded, row, stride, height, width, filters, tap, bias, slope,
                flat, to + row * row_step, step, num_columns,
            )  # fmt: skip
        return
    # A row does not fill a strip: the windows run on from row to row, and what they make between rows is left out.
    num_pixels = max((num_rows - 1) * columns + num_columns, STRIP)
    results = aligned_room(num_pixels * num_out)
    _convolve_windows(
        padded, np.int64(0), stride, height, width, filters, tap, bias, slope, results, np.int64(0), num_out, num_pixels
    )
    for row in range(num_rows):
        for column in range(num_columns):
            here, there = (row * columns + column) * num_out, to + row * row_step + column * step
            for channel in range(num_out):
                flat[there + channel] = results[here + channel]


@kernel
def convolve_directly(padded, size, stride, filters, bias, slope, out):
    """A padded map (H', W', C) through filters (N * N, C * O), rectified, into out (H, W, O).

    slope: of the rectifier below zero.
    """
    nowhere, everywhere = np.int64(0), np.int64(1)
    _convolve_every(padded, stride, size, size, filters, nowhere, bias, slope, out, nowhere, nowhere, everywhere)


@kernel
def widen(padded, filters, bias, slope, out):
    """A map with zeros to the right and below (H + 1, W + 1, C) through a transposed convolution with 3x3 filters and a
    stride of 2, rectified, into out (2 H, 2 W, O).

    filters (9, C * O): those of results in even rows and even columns, made from one value; in even rows and odd
    columns, from two beside each other; in odd rows and even columns, from two below each other; in odd rows and odd
    columns, from four.
    """
    tap = np.int64(0)
    for down in range(2):
        for right in range(2):
            height, width = 1 + down, 1 + right
            _convolve_every(
                padded, np.int64(1), height, width, filters, tap, bias, slope, out, down, right, np.int64(2)
            )
            tap += height * width * filters.shape[1]


@kernel
def transform_filters(filters, transformed):
    """Filters (3 * 3, C * O) to values (SPAN * SPAN, C * O and a gap)."""
    weights, out = filters.reshape(-1), transformed.reshape(-1)
    (_, num_weights), (_, step) = filters.shape, transformed.shape
    for number in range(0, num_weights, VECTOR):
        filter_tile(weights, number, 3 * num_weights, num_weights, out, number, SPAN * step, step)


@kernel
def _convolve_in_tiles(padded, num_in, filters, bias, slope, out):
    """A padded map (4 R + 2, 4 S + 2, C') through filters of `transform_filters`, rectified, into out (H, W, O).

    There are R x S tiles, at least STRIP; C' is C or more, and a multiple of VECTOR.
    """
    height, across, depth = padded.shape
    num_rows, num_columns, num_out = out.shape
    tiles_across = (across - 2) // TILE
    num_tiles = (height - 2) // TILE * tiles_across
    at_once = min(TILES_AT_ONCE, num_tiles)
    source, transformed, result = padded.reshape(-1), filters.reshape(-1), out.reshape(-1)
    # Not a power of two apart, or all values of a tile would compete for the same few lines of the cache.
    value_step, product_step, filter_step = at_once * depth + GAP, at_once * num_out + GAP, filters.shape[1]
    values = aligned_room(SPAN * SPAN * value_step)
    products = aligned_room(SPAN * SPAN * product_step)
    tile_result = np.empty(TILE * TILE * num_out, np.float32)
    for begin in range(0, num_tiles, at_once):
        start = min(begin, num_tiles - STRIP)  # some are computed twice, to the same result
        count = min(at_once, num_tiles - start)
        for tile in range(count):
            row, column = (start + tile) // tiles_across * TILE, (start + tile) % tiles_across * TILE
            for channel in range(0, depth, VECTOR):
                map_tile(
                    source, (row * across + column) * depth + channel, across * depth, depth,
                    values, tile * depth + channel, SPAN * value_step, value_step,
                )  # fmt: skip
        for number in range(SPAN * SPAN):
            multiply(
                values, number * value_step, depth, np.int64(1), np.int64(0), num_in,
                transformed, number * filter_step, num_out, products, number * product_step, count,
            )  # fmt: skip
        for tile in range(count):
            row, column = (start + tile) // tiles_across * TILE, (start + tile) % tiles_across * TILE
            is_whole = row + TILE <= num_rows and column + TILE <= num_columns
            to = (row * num_columns + column) * num_out
            for channel in range(0, num_out, VECTOR):
                result_tile(
                    products, tile * num_out + channel, SPAN * product_step, product_step, bias, channel, slope,
                    result if is_whole else tile_result, (to if is_whole else 0) + channel,
                    (num_columns if is_whole else TILE) * num_out, num_out,
                )  # fmt: skip
            if not is_whole:
                for down in range(min(TILE, num_rows - row)):
                    there, here = to + down * num_columns * num_out, down * TILE * num_out
                    for number in range(min(TILE, num_columns - column) * num_out):
                        result[there + number] = tile_result[here + number]


@kernel
def room_for_map(height, width, depth):
    """Room for a map (H, W, C), and zeros behind it: a strip of windows may run over the end of a small map."""
    count = height * width * depth
    room = aligned_room(count + 2 * STRIP * depth)
    room[count:] = 0
    return room[:count].reshape(height, width, depth)


@kernel
def _room_around(height, width, depth, filters):
    """Room for a map (H, W, C) with a border of zeros, as `convolve` takes it."""
    if len(filters) == SPAN * SPAN:
        height, width, depth = -(-height // TILE) * TILE, -(-width // TILE) * TILE, -(-depth // VECTOR) * VECTOR
    return room_for_map(height + 2, width + 2, depth)


@kernel
def lay_or_normalise(values, epsilon, margin, padded):
    """A map (H, W, C) into one with zeros around and behind; normalised, unless epsilon is below zero."""
    if epsilon < 0:
        num_channels = values.shape[2]
        _lay_out(values, np.zeros(num_channels, np.float32), np.ones(num_channels, np.float32), margin, padded)
    else:
        normalise(values, epsilon, margin, padded)


@kernel
def lay_beside(values, num_channels, channel, margin, padded):
    """The first channels of a map (H, W, C) into a padded one, from a channel on."""
    height, width, _ = values.shape
    for row in range(height):
        for column in range(width):
            for number in range(num_channels):
                padded[row + margin, column + margin, channel + number] = values[row, column, number]


@kernel
def convolve(values, epsilon, beside, num_beside, stride, filters, bias, slope, out):
    """A map (H, W, C) through 3x3 filters, rectified, into out (H / stride, W / stride, O).

    epsilon: of a norm before it; below zero, there is none. beside: a map whose first `num_beside` channels come after
    those of the first. filters: those of `transform_filters`, for a stride of 1, or (3 * 3, C * O).
    """
    height, width, num_in = values.shape
    padded = _room_around(height, width, num_in + num_beside, filters)
    lay_or_normalise(values, epsilon, np.int64(1), padded)
    if num_beside > 0:
        lay_beside(beside, num_beside, num_in, np.int64(1), padded)
    if len(filters) == SPAN * SPAN:
        _convolve_in_tiles(padded, num_in + num_beside, filters, bias, slope, out)
    else:
        convolve_directly(padded, np.int64(3), stride, filters, bias, slope, out)


@kernel
def normalise_maps(first, last, values, epsilon, normed):
    """Some of the maps (K, H, W, C), each channel to mean 0 and deviation 1."""
    for picture in range(first, last):
        normalise(values[picture], epsilon, np.int64(0), normed[picture])


def fills_vectors(num_out: int, rows: int, columns: int, in_tiles: bool) -> bool:
    """Whether results (rows, columns, num_out) fill the vectors: only then are there convolutions for them here."""
    num_places = -(-rows // TILE) * -(-columns // TILE) if in_tiles else columns
    return num_out % FEWEST_LANES == 0 and num_places >= STRIP
