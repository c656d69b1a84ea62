"""Image encoder and LingUNet in flight on a CPU, compiled: pictures and maps with channels last, one after another.

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
        pixel = min(begin, num_pixels - STRIP)  # as for `_multiply`
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
    results = _aligned_room(num_pixels * num_out)
    _convolve_windows(
        padded, np.int64(0), stride, height, width, filters, tap, bias, slope, results, np.int64(0), num_out, num_pixels
    )
    for row in range(num_rows):
        for column in range(num_columns):
            here, there = (row * columns + column) * num_out, to + row * row_step + column * step
            for channel in range(num_out):
                flat[there + channel] = results[here + channel]


@kernel
def _convolve_directly(padded, size, stride, filters, bias, slope, out):
    """A padded map (H', W', C) through filters (N * N, C * O), rectified, into out (H, W, O).

    slope: of the rectifier below zero.
    """
    nowhere, everywhere = np.int64(0), np.int64(1)
    _convolve_every(padded, stride, size, size, filters, nowhere, bias, slope, out, nowhere, nowhere, everywhere)


@kernel
def _widen(padded, filters, bias, slope, out):
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
def _room_for_map(height, width, depth):
    """Room for a map (H, W, C), and zeros behind it: a strip of windows may run over the end of a small map."""
    count = height * width * depth
    room = _aligned_room(count + 2 * STRIP * depth)
    room[count:] = 0
    return room[:count].reshape(height, width, depth)


@kernel
def _room_around(height, width, depth, filters):
    """Room for a map (H, W, C) with a border of zeros, as `_convolve` takes it."""
    if len(filters) == SPAN * SPAN:
        height, width, depth = -(-height // TILE) * TILE, -(-width // TILE) * TILE, -(-depth // VECTOR) * VECTOR
    return _room_for_map(height + 2, width + 2, depth)


@kernel
def _lay_or_normalise(values, epsilon, margin, padded):
    """A map (H, W, C) into one with zeros around and behind; normalised, unless epsilon is below zero."""
    if epsilon < 0:
        num_channels = values.shape[2]
        _lay_out(values, np.zeros(num_channels, np.float32), np.ones(num_channels, np.float32), margin, padded)
    else:
        _normalise(values, epsilon, margin, padded)


@kernel
def _lay_beside(values, num_channels, channel, margin, padded):
    """The first channels of a map (H, W, C) into a padded one, from a channel on."""
    height, width, _ = values.shape
    for row in range(height):
        for column in range(width):
            for number in range(num_channels):
                padded[row + margin, column + margin, channel + number] = values[row, column, number]


@kernel
def _convolve(values, epsilon, beside, num_beside, stride, filters, bias, slope, out):
    """A map (H, W, C) through 3x3 filters, rectified, into out (H / stride, W / stride, O).

    epsilon: of a norm before it; below zero, there is none. beside: a map whose first `num_beside` channels come after
    those of the first. filters: those of `transform_filters`, for a stride of 1, or (3 * 3, C * O).
    """
    height, width, num_in = values.shape
    padded = _room_around(height, width, num_in + num_beside, filters)
    _lay_or_normalise(values, epsilon, np.int64(1), padded)
    if num_beside > 0:
        _lay_beside(beside, num_beside, num_in, np.int64(1), padded)
    if len(filters) == SPAN * SPAN:
        _convolve_in_tiles(padded, num_in + num_beside, filters, bias, slope, out)
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
def _convolve_picture(image, epsilon, stride, filters, bias, out):
    """A picture (H, W, 3), to mean 0 and deviation 1, through filters (N * N, 3 * O).

    epsilon: added to the deviation.
    """
    size = 1
    while size * size < len(filters):
        size += 1
    margin = size // 2
    height, width, depth = image.shape
    padded = _aligned_room((height + 2 * margin) * (width + 2 * margin) * depth)
    padded[:] = 0
    padded = padded.reshape(height + 2 * margin, width + 2 * margin, depth)
    total, squares = 0, 0  # whole numbers, and so exact
    for value in image.reshape(-1):
        total += np.int64(value)
        squares += np.int64(value) * np.int64(value)
    # Times the number of values, all are whole: a picture of one colour has a deviation of exactly 0.
    spread = math.sqrt(image.size * squares - total * total)
    shades = np.empty(256, np.float32)
    for value in range(256):
        shades[value] = (image.size * value - total) / (spread + image.size * epsilon)
    for row in range(height):
        for column in range(width):
            for channel in range(depth):
                padded[row + margin, column + margin, channel] = shades[image[row, column, channel]]
    _convolve_directly(padded, size, stride, filters, bias, np.float32(1), out)


@kernel
def _layer(weights, table, number):
    """A layer's filters and bias (O,), of those that lie end to end; table (L, 5): where they are, as `packed` says."""
    begin, height, width, bias_begin, num_out = table[number]
    return weights[begin : begin + height * width].reshape(height, width), weights[bias_begin : bias_begin + num_out]


@kernel
def pass_resnet(first, last, images, deviation_epsilon, start_stride, strides, weights, table, epsilon, slope, out):
    """Some of the pictures (K, H, W, 3) through the image encoder, into features (K, H / 4, W / 4, C).

    start_stride: of the first convolution. strides: of the blocks; 0 for those whose shortcut is their input, which is
    otherwise pooled. weights, table: of the first layer, as for `_convolve_picture`, and of two for each block, as for
    `_convolve`.
    """
    for picture in range(first, last):
        filters, bias = _layer(weights, table, np.int64(0))
        image, depth = images[picture], len(bias)
        height, width = -(-len(image) // start_stride), -(-image.shape[1] // start_stride)
        value = _aligned_room(height * width * depth).reshape(height, width, depth)
        _convolve_picture(image, deviation_epsilon, start_stride, filters, bias, value)
        shortcut = value
        for number in range(2 * len(strides)):
            pooling = strides[number // 2] if number % 2 == 1 else 0
            stride = max(pooling, 1)
            height, width = -(-height // stride), -(-width // stride)
            result = _aligned_room(height * width * depth).reshape(height, width, depth)
            filters, bias = _layer(weights, table, 1 + number)
            _convolve(value, epsilon, value, np.int64(0), stride, filters, bias, slope, result)
            value = result
            if number % 2 == 1:
                if pooling > 0:
                    _add_pooled(shortcut, pooling, value)
                else:
                    value += shortcut
                shortcut = value
        _normalise(value, epsilon, np.int64(0), out[picture])


@kernel
def _in_lanes(num_channels):
    """The fewest channels that fill the narrowest vectors."""
    return -(-num_channels // FEWEST_LANES) * FEWEST_LANES


@kernel
def _pass_filter(values, weights, begin, num_out, epsilon, out):
    """A map in room of `_room_for_map` through 1x1 filters, and normalised, unless epsilon is below zero, into out
    (H, W, O).

    The filters (num_out, C) begin at `begin` of the weights; O is num_out or more, and a multiple of FEWEST_LANES.
    """
    height, width, num_in = values.shape
    num_pixels, depth = height * width, out.shape[2]
    filters = _aligned_room(num_in * depth)
    filters[:] = 0
    for channel in range(num_out):
        for number in range(num_in):
            filters[number * depth + channel] = weights[begin + channel * num_in + number]
    sums = _aligned_room(max(num_pixels, STRIP) * depth)
    _multiply(
        values.reshape(-1), np.int64(0), num_in, np.int64(1), np.int64(0), num_in, filters, np.int64(0), depth,
        sums, np.int64(0), max(num_pixels, STRIP),
    )  # fmt: skip
    _lay_or_normalise(sums[: num_pixels * depth].reshape(height, width, depth), epsilon, np.int64(0), out)


@kernel
def _double(padded, filters, bias, out):
    """A map with zeros to the right and below (H + 1, W + 1, C) through a transposed convolution with a stride of 2 and
    few results, into out (2 H, 2 W, O).

    Every value of 2x2, with those to its right and below, makes 2x2 results: filters (2 * 2, C * O'), where the first
    4 O of O' channels are the results' rows, their columns, and O.
    """
    num_rows, num_columns, num_out = out.shape
    _, across, num_in = padded.shape
    depth = filters.shape[1] // num_in
    sums = _aligned_room(num_columns // 2 * depth)
    for row in range(num_rows // 2):
        _multiply(
            padded.reshape(-1), row * across * num_in, num_in, np.int64(2), across * num_in, 2 * num_in,
            filters.reshape(-1), np.int64(0), depth, sums, np.int64(0), num_columns // 2,
        )  # fmt: skip
        for down in range(2):
            for column in range(num_columns):
                for channel in range(num_out):
                    there = column // 2 * depth + (2 * down + column % 2) * num_out + channel
                    out[2 * row + down, column, channel] = sums[there] + bias[channel]


@kernel
def pass_lingunet(first, last, values, kernels, filtered, weights, table, epsilon, slope, out):
    """Some of the maps (K, S, S, C) through LingUNet, into scores `out` (K, S, S, O).

    kernels (K, F): the filters that the instructions make, level by level; filtered: how many channels come out of
    those of each level. weights, table: of each level, the layer that halves the size and the one after it, as for
    `_convolve`; of each but one, the transposed layer with a stride of 1, as for `_convolve`, and the one that doubles
    the size, as for `_widen`; and the last, as for `_double`. But for the first, transposed layers after a smaller
    level take its channels first, and then those that the instruction has filtered.
    """
    num_levels = len(filtered)
    for picture in range(first, last):
        value = values[picture]
        size, taken, end = len(value), np.int64(0), np.int64(0)
        for level in range(num_levels):
            size //= 2
            end += size * size * _in_lanes(filtered[level])
        passed = _aligned_room(end)
        size, end = len(value), np.int64(0)
        for number in range(2 * num_levels):
            level, stride = number // 2, 2 - number % 2
            size //= stride
            filters, bias = _layer(weights, table, number)
            result = _room_for_map(size, size, len(bias))
            _convolve(value, -1.0, value, np.int64(0), stride, filters, bias, slope, result)
            value = result
            if stride == 1:
                is_last = level == num_levels - 1
                if not is_last:
                    value = _room_for_map(size, size, value.shape[2])
                    _normalise(result, epsilon, np.int64(0), value)
                begin, depth = end, _in_lanes(filtered[level])
                end += size * size * depth
                through = passed[begin:end].reshape(size, size, depth)
                _pass_filter(value, kernels[picture], taken, filtered[level], -1.0 if is_last else epsilon, through)
                taken += filtered[level] * value.shape[2]
        value, end, num_beside = through, begin, np.int64(0)
        for level in range(num_levels - 1):
            filters, bias = _layer(weights, table, 2 * (num_levels + level))
            middle = _room_for_map(size, size, len(bias))
            before = epsilon if level > 1 else -1.0
            _convolve(value, before, through, num_beside, np.int64(1), filters, bias, slope, middle)
            wide = _room_for_map(size + 1, size + 1, len(bias))
            _lay_or_normalise(middle, -1.0, np.int64(0), wide)
            filters, bias = _layer(weights, table, 2 * (num_levels + level) + 1)
            size *= 2
            value = _room_for_map(size, size, len(bias))
            _widen(wide, filters, bias, slope, value)
            num_beside = filtered[num_levels - 2 - level]
            begin = end - size * size * _in_lanes(num_beside)
            through = passed[begin:end].reshape(size, size, _in_lanes(num_beside))
            end = begin
        padded = _room_for_map(size + 1, size + 1, value.shape[2] + num_beside)
        _normalise(value, epsilon, np.int64(0), padded)
        _lay_beside(through, num_beside, value.shape[2], np.int64(0), padded)
        filters, bias = _layer(weights, table, len(table) - 1)
        _double(padded, filters, bias, out[picture])


def fills_vectors(num_out: int, rows: int, columns: int, in_tiles: bool) -> bool:
    """Whether results (rows, columns, num_out) fill the vectors: only then are there convolutions for them here."""
    num_places = -(-rows // TILE) * -(-columns // TILE) if in_tiles else columns
    return num_out % FEWEST_LANES == 0 and num_places >= STRIP
