"""LingUNet: a U-Net over the map, with filters generated from the instruction in its skip connections."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.model.resnet import in_device_layout, instance_norm

LEVELS = 5
CHANNELS = 48
"""Channels at every level (authors' code, as are the next two)."""
FILTERED = 24
"""Channels that pass through the instruction's filters, at all levels but the smallest, where all 48 do."""
LAST = 128
"""Channels before the last layer."""


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
        self.kernels = nn.ModuleList([nn.Linear(embedding_size, size * CHANNELS) for size in self.filter_sizes])
        joined = CHANNELS + FILTERED
        ups = [_Up(CHANNELS, CHANNELS), _Up(joined, CHANNELS), _Up(joined, CHANNELS), _Up(joined, LAST)]
        self.ups = nn.ModuleList(ups)
        self.last = nn.ConvTranspose2d(LAST + FILTERED, num_out, 3, stride=2, padding=1, output_padding=1)
        blocks: list[_Down | _Up] = [*downs, *ups]
        for block in blocks:
            for layer in (block.first, block.second):
                nn.init.kaiming_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, value: Tensor, embedding: Tensor) -> Tensor:
        """Scores (Q, num_out, S, S) of maps (Q, num_in, S, S) and embeddings (Q, E)."""
        value, unit = in_device_layout(value), functional.normalize(embedding, dim=-1)
        kernels = [functional.normalize(kernel(unit), dim=-1) for kernel in self.kernels]
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
