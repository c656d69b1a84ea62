"""Instance norms, and the memory layout of the maps between convolutions."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.simulator.compiling import kernel

Network = TypeVar("Network", bound=nn.Module)
EPSILON = 1e-5
"""Added to a norm's variance, as torch does."""


def ready_to_fly(network: Network) -> Network:
    """The network itself, in evaluation mode, with weights that lie in memory as maps do in flight.

    Weights that lie otherwise would be turned round at every convolution. `train_by_imitation` undoes it on a CPU.
    """
    return network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def in_device_layout(value: Tensor) -> Tensor:
    """Maps (K, C, H, W) in the memory layout that suits the device's convolutions: channels last.

    In training on a CPU channels first: its norms have no quick gradients with channels last.
    """
    is_last = value.is_cuda or not torch.is_grad_enabled()
    return value.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)


@kernel
def _norm_rows(values, normed):
    """Values (K, N, C) to mean 0 and deviation 1 over N, written into normed (K, N, C)."""
    num_rows, num_channels = values.shape[1:]
    total, some = np.empty(num_channels), np.empty(num_channels, np.float32)
    mean, factor = np.empty(num_channels, np.float32), np.empty(num_channels, np.float32)
    for picture in range(len(values)):
        for is_second in range(2):  # sums, then sums of squares; of 64 rows at a time, which costs no digits
            total[:] = 0
            for begin in range(0, num_rows, 64):
                some[:] = 0
                for row in range(begin, min(begin + 64, num_rows)):
                    if is_second:
                        for channel in range(num_channels):
                            off = values[picture, row, channel] - mean[channel]
                            some[channel] += off * off
                    else:
                        for channel in range(num_channels):
                            some[channel] += values[picture, row, channel]
                for channel in range(num_channels):
                    total[channel] += some[channel]
            for channel in range(num_channels):
                if is_second:
                    factor[channel] = 1 / math.sqrt(total[channel] / num_rows + EPSILON)
                else:
                    mean[channel] = total[channel] / num_rows
        for row in range(num_rows):
            for channel in range(num_channels):
                normed[picture, row, channel] = (values[picture, row, channel] - mean[channel]) * factor[channel]


def _norm_channels_last(value: Tensor) -> Tensor:
    """Instance norm of maps (K, C, H, W) that lie in memory with channels last; torch's own loses three digits."""
    rows = value.permute(0, 2, 3, 1).flatten(1, 2)  # (K, H * W, C), no copy
    normed = torch.empty_like(rows)
    _norm_rows(rows.numpy(), normed.numpy())
    return normed.view(len(value), *value.shape[2:], -1).permute(0, 3, 1, 2)


def instance_norm(value: Tensor) -> Tensor:
    """Each channel of each picture to mean 0 and deviation 1, with no parameters and no running statistics."""
    if not torch.compiler.is_compiling():
        is_plain = value.device.type == "cpu" and value.dtype == torch.float32 and not torch.is_grad_enabled()
        if is_plain and not value.is_contiguous() and value.is_contiguous(memory_format=torch.channels_last):
            return _norm_channels_last(value)
        return functional.group_norm(value, value.shape[1], eps=EPSILON)  # the same as instance_norm, and faster
    # Written out, the compiler fuses it with its neighbours and leaves the layout alone.
    variance, mean = torch.var_mean(value.float(), dim=(2, 3), keepdim=True, correction=0)
    return ((value - mean) * torch.rsqrt(variance + EPSILON)).to(value.dtype)
