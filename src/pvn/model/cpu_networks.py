"""Image encoder and LingUNet in flight on a CPU, compiled: pictures and maps with channels last, one after another."""

from __future__ import annotations

import math

import numpy as np

from pvn.compiling import kernel
from pvn.model.cpu_layers import (
    aligned_room,
    convolve,
    convolve_directly,
    lay_beside,
    lay_or_normalise,
    multiply,
    normalise,
    room_for_map,
    widen,
)
from pvn.model.cpu_vectors import FEWEST_LANES, STRIP


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
def _convolve_picture(image, epsilon, stride, filters, bias, out):
    """A picture (H, W, 3), to mean 0 and deviation 1, through filters (N * N, 3 * O).

    epsilon: added to the deviation.
    """
    size = 1
    while size * size < len(filters):
        size += 1
    margin = size // 2
    height, width, depth = image.shape
    padded = aligned_room((height + 2 * margin) * (width + 2 * margin) * depth)
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
    convolve_directly(padded, size, stride, filters, bias, np.float32(1), out)


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
    `convolve`.
    """
    for picture in range(first, last):
        filters, bias = _layer(weights, table, np.int64(0))
        image, depth = images[picture], len(bias)
        height, width = -(-len(image) // start_stride), -(-image.shape[1] // start_stride)
        value = aligned_room(height * width * depth).reshape(height, width, depth)
        _convolve_picture(image, deviation_epsilon, start_stride, filters, bias, value)
        shortcut = value
        for number in range(2 * len(strides)):
            pooling = strides[number // 2] if number % 2 == 1 else 0
            stride = max(pooling, 1)
            height, width = -(-height // stride), -(-width // stride)
            result = aligned_room(height * width * depth).reshape(height, width, depth)
            filters, bias = _layer(weights, table, 1 + number)
            convolve(value, epsilon, value, np.int64(0), stride, filters, bias, slope, result)
            value = result
            if number % 2 == 1:
                if pooling > 0:
                    _add_pooled(shortcut, pooling, value)
                else:
                    value += shortcut
                shortcut = value
        normalise(value, epsilon, np.int64(0), out[picture])


@kernel
def _in_lanes(num_channels):
    """The fewest channels that fill the narrowest vectors."""
    return -(-num_channels // FEWEST_LANES) * FEWEST_LANES


@kernel
def _pass_filter(values, weights, begin, num_out, epsilon, out):
    """A map in room of `room_for_map` through 1x1 filters, and normalised, unless epsilon is below zero, into out
    (H, W, O).

    The filters (num_out, C) begin at `begin` of the weights; O is num_out or more, and a multiple of FEWEST_LANES.
    """
    height, width, num_in = values.shape
    num_pixels, depth = height * width, out.shape[2]
    filters = aligned_room(num_in * depth)
    filters[:] = 0
    for channel in range(num_out):
        for number in range(num_in):
            filters[number * depth + channel] = weights[begin + channel * num_in + number]
    sums = aligned_room(max(num_pixels, STRIP) * depth)
    multiply(
        values.reshape(-1), np.int64(0), num_in, np.int64(1), np.int64(0), num_in, filters, np.int64(0), depth,
        sums, np.int64(0), max(num_pixels, STRIP),
    )  # fmt: skip
    lay_or_normalise(sums[: num_pixels * depth].reshape(height, width, depth), epsilon, np.int64(0), out)


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
    sums = aligned_room(num_columns // 2 * depth)
    for row in range(num_rows // 2):
        multiply(
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
    `convolve`; on the way back, from the smallest level on, a layer that keeps the size, as for `convolve`, and the one
    that doubles it, as for `widen`; and the last, as for `_double`. Layers on the way back that take what the
    instruction has filtered as well, all but the first, take it after the other channels.
    """
    num_levels = len(filtered)
    for picture in range(first, last):
        value = values[picture]
        size, taken, end = len(value), np.int64(0), np.int64(0)
        for level in range(num_levels):
            size //= 2
            end += size * size * _in_lanes(filtered[level])
        passed = aligned_room(end)
        size, end = len(value), np.int64(0)
        for number in range(2 * num_levels):
            level, stride = number // 2, 2 - number % 2
            size //= stride
            filters, bias = _layer(weights, table, number)
            result = room_for_map(size, size, len(bias))
            convolve(value, -1.0, value, np.int64(0), stride, filters, bias, slope, result)
            value = result
            if stride == 1:
                is_last = level == num_levels - 1
                if not is_last:
                    value = room_for_map(size, size, value.shape[2])
                    normalise(result, epsilon, np.int64(0), value)
                begin, depth = end, _in_lanes(filtered[level])
                end += size * size * depth
                through = passed[begin:end].reshape(size, size, depth)
                _pass_filter(value, kernels[picture], taken, filtered[level], -1.0 if is_last else epsilon, through)
                taken += filtered[level] * value.shape[2]
        value, end, num_beside = through, begin, np.int64(0)
        for level in range(num_levels - 1):
            filters, bias = _layer(weights, table, 2 * (num_levels + level))
            middle = room_for_map(size, size, len(bias))
            before = epsilon if level > 1 else -1.0
            convolve(value, before, through, num_beside, np.int64(1), filters, bias, slope, middle)
            wide = room_for_map(size + 1, size + 1, len(bias))
            lay_or_normalise(middle, -1.0, np.int64(0), wide)
            filters, bias = _layer(weights, table, 2 * (num_levels + level) + 1)
            size *= 2
            value = room_for_map(size, size, len(bias))
            widen(wide, filters, bias, slope, value)
            num_beside = filtered[num_levels - 2 - level]
            begin = end - size * size * _in_lanes(num_beside)
            through = passed[begin:end].reshape(size, size, _in_lanes(num_beside))
            end = begin
        padded = room_for_map(size + 1, size + 1, value.shape[2] + num_beside)
        normalise(value, epsilon, np.int64(0), padded)
        lay_beside(through, num_beside, value.shape[2], np.int64(0), padded)
        filters, bias = _layer(weights, table, len(table) - 1)
        _double(padded, filters, bias, out[picture])
