"""Norms and convolutions in flight on a CPU, compiled: maps with channels last, one after another.

A library's convolutions are made for larger maps, and leave the norm before them, the padding and the rectifier after
them to passes of their own. Here a convolution reads a padded copy of its map, which is normalised while it is made,
and rectifies what it writes. With a stride of 1 it takes a quarter of the products: Winograd's F(4x4, 3x3), after
Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016.

Whole numbers that are passed on are written np.int64(1): for a constant, Numba would compile a function once more.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

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
    result_tile,
)
from pvn.simulator.compiling import kernel

BLOCK = 64
"""Values that are summed in single precision before they are added to a sum in double precision."""
TILES_AT_ONCE = 16
"""Tiles whose values stay in the processor's cache until they are multiplied."""
GAP = 16
"""Numbers left out behind a table of transformed values."""
LINE = 16
"""Numbers in a cache line; a vector that straddles two lines takes longer to read and write."""


@kernel
def _aligned_room(count):
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
def _normalise(values, epsilon, margin, normed):
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
def _multiply(source, place, step, rows, row_step, depth, filters, tap, num_out, out, to, num_pixels):
    """As a strip, for all output channels and any number of pixels from STRIP on."""
    for begin in range(0, num_pixels, STRIP):
        pixel = min(begin, num_pixels - STRIP)  # some are computed twice, to the same result
        here, there = place + pixel * step, to + pixel * num_out
        for channel in range(0, num_out - LANES + 1, LANES):
            convolve_strip(
                source, here, step, rows, row_step, depth, filters, tap + channel, num_out, out, there + channel
            )
        for channel in range(num_out // LANES * LANES, num_out, FEWEST_LANES):
            convolve_narrow_strip(
                source, here, step, rows, row_step, depth, filters, tap + channel, num_out, out, there + channel
            )


@kernel
def _convolve_row(padded, row, size, stride, filters, sums):
    """One row of a padded map (H', W', C) through filters (N * N, C * O) to sums (W, O)."""
    _, across, num_in = padded.shape
    num_columns, num_out = sums.shape
    # A row of taps lies in a row in memory, in the map as well as in the filters.
    _multiply(
        padded.reshape(-1), row * stride * across * num_in, stride * num_in, size, across * num_in, size * num_in,
        filters.reshape(-1), np.int64(0), num_out, sums.reshape(-1), np.int64(0), num_columns,
    )  # fmt: skip


@kernel
def _convolve_directly(padded, size, stride, filters, bias, slope, out):
    """A padded map (H', W', C) through filters (N * N, C * O), rectified, into out (H, W, O).

    slope: of the rectifier below zero.
    """
    num_rows, num_columns, num_out = out.shape
    for row in range(num_rows):
        _convolve_row(padded, row, size, stride, filters, out[row])
        for column in range(num_columns):
            for channel in range(num_out):
                value = out[row, column, channel] + bias[channel]
                out[row, column, channel] = value if value > 0 else slope * value


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
    values = _aligned_room(SPAN * SPAN * value_step)
    products = _aligned_room(SPAN * SPAN * product_step)
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
            _multiply(
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
def _convolve(values, epsilon, stride, filters, bias, slope, out):
    """A map (H, W, C) through 3x3 filters, rectified, into out (H / stride, W / stride, O).

    epsilon: of a norm before it; below zero, there is none. filters: with a stride of 1 those of `transform_filters`,
    otherwise (3 * 3, C * O).
    """
    height, width, depth = values.shape
    num_in = depth
    if stride == 1:
        height, width, depth = -(-height // TILE) * TILE, -(-width // TILE) * TILE, -(-depth // VECTOR) * VECTOR
    padded = _aligned_room((height + 2) * (width + 2) * depth).reshape(height + 2, width + 2, depth)
    if epsilon < 0:
        _lay_out(values, np.zeros(num_in, np.float32), np.ones(num_in, np.float32), np.int64(1), padded)
    else:
        _normalise(values, epsilon, np.int64(1), padded)
    if stride == 1:
        _convolve_in_tiles(padded, num_in, filters, bias, slope, out)
    else:
        _convolve_directly(padded, np.int64(3), stride, filters, bias, slope, out)


@kernel
def _add_pooled(values, stride, out):
    """Add to out (H / stride, W / stride, C) the mean of 3x3 values of a map (H, W, C) around every stride-th one,
    with zeros beyond its border.
    """
    height, width, num_channels = values.shape
    num_rows, num_columns, _ = out.shape
    sums = np.zeros((width + 2, num_channels), np.float32)  # of a row of windows, with zeros at both ends
    share = np.float32(1 / 9)
    for row in range(num_rows):
        sums[:] = 0
        for down in range(max(stride * row - 1, 0), min(stride * row + 2, height)):
            for column in range(width):
                for channel in range(num_channels):
                    sums[column + 1, channel] += values[down, column, channel]
        for column in range(num_columns):
            left = stride * column
            for channel in range(num_channels):
                around = sums[left, channel] + sums[left + 1, channel] + sums[left + 2, channel]
                out[row, column, channel] += around * share


@kernel
def normalise_maps(first, last, values, epsilon, normed):
    """Some of the maps (K, H, W, C), each channel to mean 0 and deviation 1."""
    for picture in range(first, last):
        _normalise(values[picture], epsilon, np.int64(0), normed[picture])


@kernel
def convolve_maps(first, last, values, filters, bias, slope, out):
    """Some of the maps (K, H, W, C) through 3x3 filters of `transform_filters`, rectified, into out (K, H, W, O)."""
    for picture in range(first, last):
        _convolve(values[picture], -1.0, np.int64(1), filters, bias, slope, out[picture])


@kernel
def double_maps(first, last, values, filters, bias, out):
    """Some of the maps (K, H, W, C) through a transposed convolution with a stride of 2, into out (K, 2 H, 2 W, O).

    Every value of 2x2, with those to its right and below, makes 2x2 results: filters (2 * 2, C * O'), where the first
    4 O of O' channels are the results' rows, their columns, and O.
    """
    _, height, width, num_in = values.shape
    num_out = out.shape[3]
    nothing, whole = np.zeros(num_in, np.float32), np.ones(num_in, np.float32)
    padded = np.empty((height + 1, width + 1, num_in), np.float32)
    sums = np.empty((width, filters.shape[1] // num_in), np.float32)
    for picture in range(first, last):
        _lay_out(values[picture], nothing, whole, np.int64(0), padded)
        for row in range(height):
            _convolve_row(padded, row, np.int64(2), np.int64(1), filters, sums)
            for down in range(2):
                for column in range(2 * width):
                    for channel in range(num_out):
                        there = (2 * down + column % 2) * num_out + channel
                        out[picture, 2 * row + down, column, channel] = sums[column // 2, there] + bias[channel]


@kernel
def pass_block(first, last, values, epsilon, stride, is_pooled, filters, bias, later_filters, later_bias, slope, out):
    """Some of the maps (K, H, W, C) through two convolutions, each after a norm and rectified, beside a shortcut.

    stride: of the later convolution, whose filters are as for `_convolve`; is_pooled: whether the shortcut is.
    """
    for picture in range(first, last):
        value, result = values[picture], out[picture]
        middle = _aligned_room(value.size).reshape(value.shape)
        _convolve(value, epsilon, np.int64(1), filters, bias, slope, middle)
        _convolve(middle, epsilon, stride, later_filters, later_bias, slope, result)
        if is_pooled:
            _add_pooled(value, stride, result)
        else:
            result += value


@kernel
def convolve_pictures(first, last, images, epsilon, stride, filters, bias, out):
    """Some of the pictures (K, H, W, 3), each to mean 0 and deviation 1, through filters (N * N, 3 * O).

    epsilon: added to the deviation.
    """
    size = 1
    while size * size < len(filters):
        size += 1
    margin = size // 2
    _, height, width, depth = images.shape
    padded = np.zeros((height + 2 * margin, width + 2 * margin, depth), np.float32)
    shades = np.empty(256, np.float32)
    for picture in range(first, last):
        image = images[picture]
        total, squares = 0, 0  # whole numbers, and so exact
        for value in image.reshape(-1):
            total += np.int64(value)
            squares += np.int64(value) * np.int64(value)
        # Times the number of values, all are whole: a picture of one colour has a deviation of exactly 0.
        spread = math.sqrt(image.size * squares - total * total)
        for value in range(256):
            shades[value] = (image.size * value - total) / (spread + image.size * epsilon)
        for row in range(height):
            for column in range(width):
                for channel in range(depth):
                    padded[row + margin, column + margin, channel] = shades[image[row, column, channel]]
        _convolve_directly(padded, size, stride, filters, bias, np.float32(1), out[picture])


def as_values(filters: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Filters (3 * 3, C * O) as convolutions in tiles take them."""
    step = filters.shape[1] + GAP
    transformed: npt.NDArray[np.float32] = _aligned_room(SPAN * SPAN * step).reshape(SPAN * SPAN, step)
    transform_filters(filters, transformed)
    return transformed


def fills_vectors(num_out: int, rows: int, columns: int, in_tiles: bool) -> bool:
    """Whether results (rows, columns, num_out) fill the vectors: only then are there convolutions for them here."""
    num_places = -(-rows // TILE) * -(-columns // TILE) if in_tiles else columns
    return num_out % FEWEST_LANES == 0 and num_places >= STRIP
