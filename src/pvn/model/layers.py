"""Instance norms, and how maps and weights lie in memory, for torch and for compiled code of our own."""

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

from pvn.compiling import run_in_parallel

Network = TypeVar("Network", bound=nn.Module)
EPSILON = 1e-5
"""Added to a norm's variance, as torch does."""
SLOPE = 0.01
"""Of a leaky rectifier below zero, as torch has it."""


def ready_to_fly(network: Network) -> Network:
    """The network itself, in evaluation mode, with weights that lie in memory as its device needs them in flight.

    Weights that lie otherwise would be turned round at every convolution. `train_by_imitation` undoes it on a CPU.
    """
    for module in network.modules():
        _kept.pop(module, None)
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


@dataclass(frozen=True)
class PackedLayers:
    """The filters and biases of a network's layers end to end, as our compiled code takes them."""

    weights: npt.NDArray[np.float32]
    table: npt.NDArray[np.int64]
    """(L, 5): where a layer's filters begin, their shape of two, where its bias begins, and its length."""


def packed(layers: Sequence[tuple[npt.NDArray[np.float32], Tensor]]) -> PackedLayers:
    """Filters (N, M) and biases (O,), to which zeros are added where their channels do not fill vectors."""
    parts, table, end = list[Tensor](), list[list[int]](), 0

    def begin_of(values: Tensor) -> int:
        nonlocal end
        begin, end = end, end + in_lanes(len(values))  # whole cache lines
        parts.append(functional.pad(values, (0, end - begin - len(values))))
        return begin

    for filters, bias in layers:
        at, bias_at = begin_of(torch.from_numpy(filters).flatten()), begin_of(bias.detach())
        table.append([at, *filters.shape, bias_at, in_lanes(len(bias))])
    # Torch aligns what it makes to a cache line.
    return PackedLayers(torch.cat(parts).numpy(), np.array(table))


@dataclass(frozen=True)
class _Kept:
    """What a network's layers were packed to."""

    layers: PackedLayers
    shape: tuple[int, ...]
    """Of the pictures or maps, without their number, for which they were packed."""
    weights: tuple[Tensor, ...]
    """What they were made from; kept, so that nothing else can have its address."""
    versions: tuple[int, ...]
    """Of the weights: torch counts how often they have been written to."""

    def are_of(self, weights: Sequence[Tensor]) -> bool:
        """Whether they are those of these weights, as they are now."""
        return all(
            own.data_ptr() == other.data_ptr() and version == other._version
            for own, other, version in zip(self.weights, weights, self.versions, strict=True)
        )


_kept: WeakKeyDictionary[nn.Module, _Kept] = WeakKeyDictionary()


def kept_layers(
    network: nn.Module,
    convolutions: Sequence[nn.Conv2d | nn.ConvTranspose2d],
    shape: Sequence[int],
    pack: Callable[[], PackedLayers | None],
) -> PackedLayers | None:
    """A network's convolutions as our compiled code takes them, for pictures or maps of this shape, without their
    number.

    They are packed anew when torch knows of a change of their weights; after other changes, such as those by
    `weight.data` and by fused optimizers, `ready_to_fly` has them packed anew. pack: gives None if there is no
    compiled code for such a shape.
    """
    weights = [values for layer in convolutions for values in (layer.weight, layer.bias) if values is not None]
    shape, found = tuple(shape), _kept.get(network)
    if found is None or found.shape != shape or not found.are_of(weights):
        # Of tensors of inference mode, torch does not count how often they have been written to.
        is_counted = all(weight.dtype == torch.float32 and not weight.is_inference() for weight in weights)
        layers = pack() if is_counted else None
        if layers is None:
            return None
        versions = tuple(weight._version for weight in weights)
        found = _kept[network] = _Kept(layers, shape, tuple(weight.detach() for weight in weights), versions)
    return found.layers


def as_filters(weight: Tensor, in_tiles: bool, depth: int = 0) -> npt.NDArray[np.float32]:
    """A convolution's weights (O, C, N, N), copied in the order of our compiled code.

    in_tiles: for 3x3 filters and a stride of 1, those that take fewer products. depth: if C is less, zeros are added.
    """
    from pvn.model.cpu_layers import GAP, transform_filters
    from pvn.model.cpu_vectors import SPAN

    num_out, num_in, *_ = weight.shape
    padded = functional.pad(weight.detach(), (0, 0, 0, 0, 0, max(depth - num_in, 0), 0, in_lanes(num_out) - num_out))
    ordered = padded.permute(2, 3, 1, 0).clone(memory_format=torch.contiguous_format)
    filters = ordered.flatten(2).flatten(0, 1).numpy()  # (N * N, C * O)
    if not in_tiles:
        return filters
    transformed = np.zeros((SPAN * SPAN, filters.shape[1] + GAP), np.float32)
    transform_filters(filters, transformed)
    return transformed


def as_widening_filters(weight: Tensor) -> npt.NDArray[np.float32]:
    """The weights (C, O, 3, 3) of a transposed convolution with a stride of 2, as our compiled code takes them."""
    # A result in an even row is made from one value, by the filter's middle row, one in an odd row from two.
    rows = [1], [2, 0]
    parts = [weight.detach()[:, :, down][..., right].permute(2, 3, 0, 1) for down in rows for right in rows]
    return torch.cat([part.flatten() for part in parts]).view(9, -1).numpy()  # (9, C * O)


def as_doubling_filters(weight: Tensor) -> npt.NDArray[np.float32]:
    """The same for few results: filters (2 * 2, C * O').

    Through them go 2x2 values, and O' channels come out: 2 rows and 2 columns of O results, and zeros.
    """
    num_in, num_out = weight.shape[:2]
    taps = weight.new_zeros(2, 3, 2)  # (result, filter, value)
    taps[0, 1, 0] = taps[1, 2, 0] = taps[1, 0, 1] = 1
    filters = torch.einsum("afd,bge,cofg->decabo", taps, taps, weight.detach()).reshape(2, 2, num_in, 4 * num_out)
    return functional.pad(filters, (0, in_lanes(4 * num_out) - 4 * num_out)).reshape(4, -1).numpy()


def in_lanes(num_channels: int) -> int:
    """The fewest channels that fill the vectors of our compiled code."""
    from pvn.model.cpu_vectors import FEWEST_LANES

    return -(-num_channels // FEWEST_LANES) * FEWEST_LANES
