"""LingUNet: a U-Net over the map, with filters generated from the instruction in its skip connections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.model.layers import (
    EPSILON,
    SLOPE,
    PackedLayers,
    as_doubling_filters,
    as_filters,
    as_widening_filters,
    in_device_layout,
    in_lanes,
    instance_norm,
    is_flown,
    kept_layers,
    on_maps,
    packed,
    rows_of,
)

LEVELS = 5
CHANNELS = 48
FILTERED = 24
LAST = 128


class _Down(nn.Module):
    """Half the size: a strided convolution and another one, each before a rectifier."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(num_in, num_in, 3, stride=2, padding=1)
        self.second = nn.Conv2d(num_in, num_out, 3, padding=1)

    def forward(self, value: Tensor) -> Tensor:
        return functional.leaky_relu(self.second(functional.leaky_relu(self.first(value))))


class _Up(nn.Module):
    """Twice the size: a transposed convolution and a strided one, each before a rectifier."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__()
        self.first = nn.ConvTranspose2d(num_in, num_out, 3, padding=1)
        self.second = nn.ConvTranspose2d(num_out, num_out, 3, stride=2, padding=1, output_padding=1)

    def forward(self, value: Tensor) -> Tensor:
        return functional.leaky_relu(self.second(functional.leaky_relu(self.first(value))))


def _filter(value: Tensor, kernel: Tensor) -> Tensor:
    """Maps (Q, O, S, S): each of maps (Q, I, S, S) through its own 1x1 filter (Q, O, I)."""
    if value.is_contiguous():
        return (kernel.to(value.dtype) @ value.flatten(2)).view(len(value), -1, *value.shape[2:])
    rows = value.permute(0, 2, 3, 1).flatten(1, 2)  # (Q, S*S, I), no copy for channels-last maps
    filtered = rows @ kernel.transpose(1, 2).to(rows.dtype)
    return filtered.view(len(value), *value.shape[2:], -1).permute(0, 3, 1, 2)


class LingUNet(nn.Module):
    """Maps of scores from a map of features and an instruction's embedding."""

    def __init__(self, num_in: int, embedding_size: int, num_out: int = 2) -> None:
        super().__init__()
        self.num_in = num_in
        downs = [_Down(num_in if level == 0 else CHANNELS, CHANNELS) for level in range(LEVELS)]
        self.downs = nn.ModuleList(downs)
        self.filter_sizes = [FILTERED] * (LEVELS - 1) + [CHANNELS]
        self.num_weights = [size * CHANNELS for size in self.filter_sizes]
        self.kernels = nn.ModuleList([nn.Linear(embedding_size, size) for size in self.num_weights])
        joined = CHANNELS + FILTERED
        ups = [_Up(CHANNELS, CHANNELS), _Up(joined, CHANNELS), _Up(joined, CHANNELS), _Up(joined, LAST)]
        self.ups = nn.ModuleList(ups)
        self.last = nn.ConvTranspose2d(LAST + FILTERED, num_out, 3, stride=2, padding=1, output_padding=1)
        # In tuples, they are not registered once more.
        self.blocks = tuple(downs), tuple(ups)
        blocks: list[_Down | _Up] = [*downs, *ups]
        self.convolutions = *(layer for block in blocks for layer in (block.first, block.second)), self.last
        for layer in self.convolutions[:-1]:
            nn.init.kaiming_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def filters(self, embedding: Tensor) -> Tensor:
        """All levels' filters (Q, F) from embeddings (Q, E)."""
        unit = functional.normalize(embedding, dim=-1)
        return torch.cat([functional.normalize(kernel(unit), dim=-1) for kernel in self.kernels], -1)

    def forward(self, value: Tensor, embedding: Tensor, filters: Tensor | None = None) -> Tensor:
        """Scores (Q, num_out, S, S) of maps (Q, num_in, S, S) and embeddings (Q, E), or the filters made from these."""
        value, filters = in_device_layout(value), self.filters(embedding) if filters is None else filters
        has_own = filters.shape == (len(value), sum(self.num_weights)) and filters.dtype == torch.float32
        if has_own and is_flown(value):
            flown = self._flown(value, filters)
            if flown is not None:
                return flown
        kernels = torch.split(filters, self.num_weights, -1)
        filtered = []
        for level, (down, kernel) in enumerate(zip(self.downs, kernels, strict=True)):
            value = down(value)
            if level < LEVELS - 1:
                value = instance_norm(value)
            passed = _filter(value, kernel.view(-1, self.filter_sizes[level], CHANNELS))
            filtered.append(instance_norm(passed) if level < LEVELS - 1 else passed)
        value = filtered.pop()
        for level, up in enumerate(self.ups):
            value = up(value if level == 0 else torch.cat([filtered.pop(), value], 1))
            if level > 0:
                value = instance_norm(value)
        return self.last(torch.cat([filtered.pop(), value], 1))  # type: ignore[no-any-return]

    def _flown(self, value: Tensor, filters: Tensor) -> Tensor | None:
        """The same by compiled code of our own; None if there is none for such maps."""
        shape = value.shape[1:]
        layers = kept_layers(self, self.convolutions, shape, lambda: self._flown_layers(*shape))
        if layers is None:
            return None
        from pvn.model.cpu_networks import pass_lingunet

        return on_maps(
            pass_lingunet, (len(value), self.last.out_channels, *shape[1:]), rows_of(value),
            filters.contiguous().numpy(), np.array(self.filter_sizes), layers.weights, layers.table,
            EPSILON, np.float32(SLOPE),
        )  # fmt: skip

    def _flown_layers(self, num_in: int, height: int, width: int) -> PackedLayers | None:
        """Copies of the weights for maps (C, H, W)."""
        from pvn.model.cpu_layers import fills_vectors

        if num_in != self.num_in or height != width or height % 2**LEVELS:
            return None
        in_tiles = [fills_vectors(CHANNELS, height >> level, width >> level, True) for level in range(1, LEVELS + 1)]
        filters = list[npt.NDArray[np.float32]]()
        downs, ups = self.blocks
        for down, is_large in zip(downs, in_tiles, strict=True):
            filters.append(as_filters(down.first.weight, False))
            filters.append(as_filters(down.second.weight, is_large, in_lanes(down.first.out_channels)))
        for level, (up, is_large) in enumerate(zip(ups, in_tiles[::-1], strict=False)):
            # As those of a convolution, by half a turn; a level's own channels come before those that were filtered.
            turned = up.first.weight.flip(2, 3).transpose(0, 1).roll(-FILTERED if level > 0 else 0, 1)
            filters += [as_filters(turned, is_large), as_widening_filters(up.second.weight)]
        filters.append(as_doubling_filters(self.last.weight.roll(-FILTERED, 0)))
        biases = [layer.bias for layer in self.convolutions if layer.bias is not None]
        return packed(list(zip(filters, biases, strict=True)))
