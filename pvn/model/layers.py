"""Instance norms, the image encoder's convolutions, and how maps and weights lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.simulator.compiling import run_in_parallel

Network = TypeVar("Network", bound=nn.Module)
EPSILON = 1e-5
"""Added to a norm's variance, as torch does."""
SLOPE = 0.01
"""Of a leaky rectifier below zero, as torch has it."""


def ready_to_fly(network: Network) -> Network:
    """The network itself, in evaluation mode, with weights that lie in memory as its device needs them in flight.

    Weights that lie otherwise would be turned round at every convolution. `train_by_imitation` undoes it on a CPU.
    """
    network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for layer in network.modules():
        if isinstance(layer, NormedConvolution) and not layer.weight.is_cuda and layer.fills_vectors:
            layer.weight.data = layer.filters().permute(3, 2, 0, 1)
    return network


def in_device_layout(value: Tensor) -> Tensor:
    """Maps (K, C, H, W) in the memory layout that suits the device's convolutions: channels last.

    In training on a CPU channels first: its norms have no quick gradients with channels last.
    """
    is_last = value.is_cuda or not torch.is_grad_enabled()
    return value.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)


def _has_own_layers(value: Tensor) -> bool:
    """Whether compiled layers of our own take these maps: on a CPU, without gradients, and with channels last."""
    if torch.compiler.is_compiling() or torch.is_grad_enabled():
        return False
    is_plain = value.device.type == "cpu" and value.dtype == torch.float32
    return is_plain and not value.is_contiguous() and value.is_contiguous(memory_format=torch.channels_last)


def _on_maps(work: Callable[..., None], num_maps: int, *arguments: Any) -> None:
    """Call work(first, last, *arguments) for all maps, on several cores if torch may use several."""
    if torch.get_num_threads() == 1:
        work(0, num_maps, *arguments)
    else:
        run_in_parallel(work, num_maps, 1, *arguments)


def _normalised(value: Tensor, margin: int) -> npt.NDArray[np.float32]:
    """Normalised maps (K, H + 2 margin, W + 2 margin, C), zero around, from maps (K, C, H, W) with channels last."""
    from pvn.model.cpu_layers import normalise_maps

    values = value.permute(0, 2, 3, 1).numpy()
    num_maps, height, width, num_channels = values.shape
    normed = np.empty((num_maps, height + 2 * margin, width + 2 * margin, num_channels), np.float32)
    _on_maps(normalise_maps, num_maps, values, EPSILON, margin, normed)
    return normed


def instance_norm(value: Tensor) -> Tensor:
    """Each channel of each picture to mean 0 and deviation 1, with no parameters and no running statistics."""
    if _has_own_layers(value):  # torch's own loses three digits
        return torch.from_numpy(_normalised(value, 0)).permute(0, 3, 1, 2)
    if not torch.compiler.is_compiling():
        return functional.group_norm(value, value.shape[1], eps=EPSILON)  # the same as instance_norm, and faster
    # Written out, the compiler fuses it with its neighbours and leaves the layout alone.
    variance, mean = torch.var_mean(value.float(), dim=(2, 3), keepdim=True, correction=0)
    return ((value - mean) * torch.rsqrt(variance + EPSILON)).to(value.dtype)


class NormedConvolution(nn.Conv2d):
    """An instance norm, a convolution with 3x3 filters, and a leaky rectifier."""

    def __init__(self, num_in: int, num_out: int, stride: int = 1) -> None:
        super().__init__(num_in, num_out, 3, stride=stride, padding=1)

    def filters(self) -> Tensor:
        """The weights as (3, 3, C, O), with output channels last in memory; a copy unless they lie so already."""
        return self.weight.detach().permute(2, 3, 1, 0).contiguous()

    @property
    def fills_vectors(self) -> bool:
        """Whether its output channels are whole vectors of single precision: only then has it a compiled form."""
        from pvn.model.cpu_layers import LANES

        return self.out_channels % LANES == 0 and self.weight.dtype == torch.float32

    def forward(self, value: Tensor) -> Tensor:
        """Maps (K, O, H / stride, W / stride) from maps (K, C, H, W)."""
        if _has_own_layers(value) and self.fills_vectors and value.shape[1] == self.in_channels:
            from pvn.model.cpu_layers import STRIP, convolve_maps

            (num_maps, _, height, width), (stride, _) = value.shape, self.stride
            shape = num_maps, -(-height // stride), -(-width // stride), self.out_channels
            if shape[2] >= STRIP:
                assert self.bias is not None
                padded, filters, bias = _normalised(value, 1), self.filters().numpy(), self.bias.detach().numpy()
                out = np.empty(shape, np.float32)
                _on_maps(convolve_maps, num_maps, padded, stride, filters, bias, np.float32(SLOPE), out)
                return torch.from_numpy(out).permute(0, 3, 1, 2)
        return functional.leaky_relu(super().forward(instance_norm(value)), SLOPE)
