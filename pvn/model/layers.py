"""Instance norms, convolutions with a rectifier, and how maps and weights lie in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.simulator.compiling import run_in_parallel

Network = TypeVar("Network", bound=nn.Module)
Convolution = nn.Conv2d | nn.ConvTranspose2d
EPSILON = 1e-5
"""Added to a norm's variance, as torch does."""
SLOPE = 0.01
"""Of a leaky rectifier below zero, as torch has it."""


def ready_to_fly(network: Network) -> Network:
    """The network itself, in evaluation mode, with weights that lie in memory as its device needs them in flight.

    Weights that lie otherwise would be turned round at every convolution. `train_by_imitation` undoes it on a CPU.
    """
    for module in network.modules():
        _filters.pop(module, None)
    return network.eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def in_device_layout(value: Tensor) -> Tensor:
    """Maps (K, C, H, W) in the memory layout that suits the device's convolutions: channels last.

    In training on a CPU channels first: its norms have no quick gradients with channels last.
    """
    is_last = value.is_cuda or not torch.is_grad_enabled()
    return value.contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)


def is_in_flight(value: Tensor) -> bool:
    """Whether this is computed on a CPU and without gradients, for which there is compiled code of our own."""
    return value.device.type == "cpu" and not (torch.is_grad_enabled() or torch.compiler.is_compiling())


def is_flown(value: Tensor) -> bool:
    """Whether these are maps in flight that our compiled code takes: with channels last, in single precision."""
    if not is_in_flight(value) or value.dtype != torch.float32 or value.is_contiguous():
        return False
    return value.is_contiguous(memory_format=torch.channels_last)


def rows_of(value: Tensor) -> npt.NDArray[np.float32]:
    """Maps (K, C, H, W) with channels last as (K, H, W, C)."""
    return value.permute(0, 2, 3, 1).numpy()


def on_maps(work: Callable[..., None], shape: Sequence[int], *arguments: Any) -> Tensor:
    """Maps (K, O, H, W) of this shape with channels last, which work(first, last, *arguments, maps (K, H, W, O)) makes.

    On several cores if torch may use several.
    """
    num_maps, depth, height, width = shape
    # Aligned to a cache line, unlike NumPy's.
    out = torch.empty((num_maps, height, width, depth), dtype=torch.float32, device="cpu")
    if torch.get_num_threads() == 1:
        work(0, num_maps, *arguments, out.numpy())
    else:
        run_in_parallel(work, num_maps, 1, *arguments, out.numpy())
    return out.permute(0, 3, 1, 2)


def instance_norm(value: Tensor) -> Tensor:
    """Each channel of each picture to mean 0 and deviation 1, with no parameters and no running statistics."""
    if is_flown(value):  # torch's own loses three digits
        from pvn.model.cpu_layers import normalise_maps

        return on_maps(normalise_maps, value.shape, rows_of(value), EPSILON)
    if not torch.compiler.is_compiling():
        return functional.group_norm(value, value.shape[1], eps=EPSILON)  # the same as instance_norm, and faster
    # Written out, the compiler fuses it with its neighbours and leaves the layout alone.
    variance, mean = torch.var_mean(value.float(), dim=(2, 3), keepdim=True, correction=0)
    return ((value - mean) * torch.rsqrt(variance + EPSILON)).to(value.dtype)


class NormedConvolution(nn.Conv2d):
    """An instance norm, a convolution with 3x3 filters, and a leaky rectifier."""

    def __init__(self, num_in: int, num_out: int, stride: int = 1) -> None:
        super().__init__(num_in, num_out, 3, stride=stride, padding=1)

    def forward(self, value: Tensor) -> Tensor:
        """Maps (K, O, H / stride, W / stride) from maps (K, C, H, W)."""
        return functional.leaky_relu(super().forward(instance_norm(value)), SLOPE)


class RectifiedConvolution(nn.Conv2d):
    """A convolution with 3x3 filters, and a leaky rectifier."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__(num_in, num_out, 3, padding=1)

    def forward(self, value: Tensor) -> Tensor:
        """Maps (K, O, H, W) from maps (K, C, H, W)."""
        flown = _rectified(self, value)
        return functional.leaky_relu(super().forward(value), SLOPE) if flown is None else flown


class RectifiedTransposed(nn.ConvTranspose2d):
    """A transposed convolution with 3x3 filters, and a leaky rectifier."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__(num_in, num_out, 3, padding=1)

    def forward(self, value: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Maps (K, O, H, W) from maps (K, C, H, W)."""
        flown = _rectified(self, value) if output_size is None else None
        return functional.leaky_relu(super().forward(value, output_size), SLOPE) if flown is None else flown


class Doubling(nn.ConvTranspose2d):
    """A transposed convolution with 3x3 filters that doubles the size of maps, for few output channels."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__(num_in, num_out, 3, stride=2, padding=1, output_padding=1)

    def forward(self, value: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Maps (K, O, 2 H, 2 W) from maps (K, C, H, W)."""
        weights = flown_weights(self, value.shape[1:]) if output_size is None and is_flown(value) else None
        if weights is None:
            return super().forward(value, output_size)
        from pvn.model.cpu_layers import double_maps

        num_maps, _, height, width = value.shape
        return on_maps(double_maps, (num_maps, self.out_channels, 2 * height, 2 * width), rows_of(value), *weights)


def _rectified(layer: RectifiedConvolution | RectifiedTransposed, value: Tensor) -> Tensor | None:
    """What the layer makes of maps (K, C, H, W) in flight; None if torch is to make it."""
    weights = flown_weights(layer, value.shape[1:]) if is_flown(value) else None
    if weights is None:
        return None
    from pvn.model.cpu_layers import convolve_maps

    num_maps, _, height, width = value.shape
    shape = num_maps, layer.out_channels, height, width
    return on_maps(convolve_maps, shape, rows_of(value), *weights, np.float32(SLOPE))


FlownWeights = tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]


@dataclass(frozen=True)
class _Filters:
    """A layer's filters as our compiled code takes them."""

    values: npt.NDArray[np.float32]
    shape: tuple[int, ...]
    """Of the last maps (C, H, W) that they were wanted for."""
    weight: Tensor
    """What they were made from; kept, so that nothing else can have its address."""
    version: int
    """Of the weight: torch counts how often it has been written to."""

    def are_of(self, weight: Tensor) -> bool:
        """Whether they are those of this weight, as it is now."""
        return self.weight.data_ptr() == weight.data_ptr() and self.version == weight._version


_filters: WeakKeyDictionary[nn.Module, _Filters] = WeakKeyDictionary()


def flown_weights(layer: Convolution, shape: Sequence[int]) -> FlownWeights | None:
    """A layer's filters and its bias (O,) as our compiled code takes them, for maps of this shape (C, H, W).

    The filters are a copy, made anew when torch knows of a change of the weights; after other changes, such as those by
    `weight.data` and by fused optimizers, `ready_to_fly` makes them anew. None if there is no compiled code for such
    maps.
    """
    weight, bias, shape = layer.weight, layer.bias, tuple(shape)
    assert bias is not None
    found = _filters.get(layer)
    is_known = found is not None and found.are_of(weight)
    if found is None or not is_known or found.shape != shape:
        if not _can_be_flown(layer, shape):
            return None
        values = found.values if found is not None and is_known else _flown_filters(layer)
        found = _filters[layer] = _Filters(values, shape, weight.detach(), weight._version)
    return found.values, bias.detach().numpy()


def _can_be_flown(layer: Convolution, shape: Sequence[int]) -> bool:
    """Whether there is compiled code for the layer and maps of this shape (C, H, W)."""
    from pvn.model.cpu_layers import fills_vectors
    from pvn.model.cpu_vectors import FEWEST_LANES

    (num_in, height, width), stride, weight = shape, layer.stride[0], layer.weight
    if isinstance(layer, Doubling):
        num_out, rows, columns = FEWEST_LANES, height, width
    else:
        num_out, rows, columns = layer.out_channels, -(-height // stride), -(-width // stride)
    # Of tensors of inference mode, torch does not count how often they have been written to.
    is_known = num_in == layer.in_channels and weight.dtype == torch.float32 and not weight.is_inference()
    return is_known and fills_vectors(num_out, rows, columns, _is_in_tiles(layer))


def _is_in_tiles(layer: Convolution) -> bool:
    """Whether our compiled code makes the layer's results tile by tile: that of 3x3 filters with a stride of 1."""
    return isinstance(layer, NormedConvolution | RectifiedConvolution | RectifiedTransposed) and layer.stride == (1, 1)


def _flown_filters(layer: Convolution) -> npt.NDArray[np.float32]:
    """A copy of the layer's weights in the order of our compiled code."""
    from pvn.model.cpu_layers import as_values

    weight = layer.weight.detach()
    if isinstance(layer, Doubling):
        return _doubling_filters(weight).numpy()
    if isinstance(layer, nn.ConvTranspose2d):  # a convolution with filters turned by half a turn
        weight = weight.flip(2, 3).transpose(0, 1)
    ordered = weight.permute(2, 3, 1, 0).clone(memory_format=torch.contiguous_format)
    filters = ordered.flatten(2).flatten(0, 1).numpy()  # (N * N, C * O)
    return as_values(filters) if _is_in_tiles(layer) else filters


def _doubling_filters(weight: Tensor) -> Tensor:
    """The weights (C, O, 3, 3) of a transposed convolution with a stride of 2 as filters (2 * 2, C * O').

    Through them go 2x2 values, and O' channels come out: 2 rows and 2 columns of O results, and zeros.
    """
    from pvn.model.cpu_vectors import FEWEST_LANES

    num_in, num_out = weight.shape[:2]
    # A result in an even row is made from one value, by the filter's middle row, one in an odd row from two.
    taps = weight.new_zeros(2, 3, 2)  # (result, filter, value)
    taps[0, 1, 0] = taps[1, 2, 0] = taps[1, 0, 1] = 1
    filters = torch.einsum("afd,bge,cofg->decabo", taps, taps, weight).reshape(2, 2, num_in, 4 * num_out)
    return functional.pad(filters, (0, -4 * num_out % FEWEST_LANES)).reshape(4, -1)
