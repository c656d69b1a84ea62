"""The image encoder: a residual network of 32 channels, whose features are a quarter of the picture's size.

The paper's has 13 convolutions, the first two of them at the picture's full size. Those take most of the time; the
quick one has 11, begins at half the size, and costs half as much.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.model.layers import (
    EPSILON,
    SLOPE,
    NormedConvolution,
    PackedLayers,
    as_filters,
    in_device_layout,
    instance_norm,
    is_in_flight,
    kept_layers,
    on_maps,
    packed,
)

CHANNELS = 32
DEVIATION_EPSILON = 1e-9
"""Added to a picture's deviation, for pictures of one colour (authors' code)."""
STRIDE = 4
"""Pixels between neighbouring features."""


def normalised(image: Tensor) -> Tensor:
    """Pictures (K, 3, H, W) float, of mean 0 and deviation 1 each, from pictures (K, H, W, 3) uint8.

    One mean and one deviation for all pixels and colours of a picture, as in the authors' code.
    """
    value = image.permute(0, 3, 1, 2).float()
    dims = (1, 2, 3)
    if value.is_cuda:
        deviation, mean = torch.std_mean(value, dims, correction=0, keepdim=True)
        return (value - mean) / (deviation + DEVIATION_EPSILON)
    # On a CPU a fifth of the time of the above; the sum of whole numbers is exact, as for a picture of one colour.
    off = value - value.mean(dims, keepdim=True, dtype=torch.float64).float()
    return off / (off.square().mean(dims, keepdim=True).sqrt() + DEVIATION_EPSILON)


def average_pool(value: Tensor, stride: int) -> Tensor:
    """The mean of 3x3 values around every stride-th one; beyond the border they are zero."""
    if value.is_cuda and not torch.compiler.is_compiling():
        # Some releases of torch give wrong gradients for padding here: github.com/pytorch/pytorch/issues/188344.
        return functional.avg_pool2d(functional.pad(value, (1, 1, 1, 1)), 3, stride)
    return functional.avg_pool2d(value, 3, stride, 1)


class Block(nn.Module):
    """Two convolutions, each after a norm and before a leaky rectifier, beside a shortcut."""

    def __init__(self, stride: int | None, channels: int = CHANNELS) -> None:
        """stride: of the second convolution; the shortcut is then average pooling. None: 1, and the input itself."""
        super().__init__()
        self.stride = stride
        self.first = NormedConvolution(channels, channels)
        self.second = NormedConvolution(channels, channels, stride or 1)

    def forward(self, value: Tensor) -> Tensor:
        """Features (K, C, H / stride, W / stride) from features (K, C, H, W)."""
        change = self.second(self.first(value))
        if self.stride is not None:
            value = average_pool(value, self.stride)
        return value + change


class Shrinking(nn.Module):
    """The first half of the image encoder: pictures to features of a quarter of their size."""

    def __init__(self, first: nn.Conv2d, blocks: nn.Module) -> None:
        super().__init__()
        self.first, self.blocks = first, blocks

    def forward(self, image: Tensor) -> Tensor:
        """Features (K, 32, H / 4, W / 4) of pictures (K, H, W, 3) uint8."""
        return self.blocks(self.first(in_device_layout(normalised(image))))  # type: ignore[no-any-return]


class Refining(nn.Module):
    """The second half of the image encoder: better features of the same size."""

    def __init__(self, blocks: nn.Module) -> None:
        super().__init__()
        self.blocks = blocks

    def forward(self, value: Tensor) -> Tensor:
        """Features (K, 32, H / 4, W / 4) from features of that shape."""
        return instance_norm(self.blocks(value))


class ResNet(nn.Module):
    """Pictures to features."""

    halves: tuple[Shrinking, Refining]
    """The same network in two halves, to be compiled by two processes at the same time: next to nothing could be fused
    across the border, because the second half begins with a norm. In a tuple, they are not registered as
    submodules, and every weight has one name: that in `first` or `blocks`."""

    def __init__(self, is_quick: bool = False) -> None:
        super().__init__()
        self.first = (
            nn.Conv2d(3, CHANNELS, 5, stride=2, padding=2) if is_quick else nn.Conv2d(3, CHANNELS, 3, padding=1)
        )
        strides = [None, 2, None, 1, None] if is_quick else [2, None, 2, None, 1, None]
        num_shrinking = 2 if is_quick else 3
        self.blocks = nn.Sequential(*(Block(stride) for stride in strides))
        self.strides = np.array([stride or 0 for stride in strides])
        self.halves = Shrinking(self.first, self.blocks[:num_shrinking]), Refining(self.blocks[num_shrinking:])
        # As for the halves, a tuple; in the order in which they are passed.
        self.convolutions = tuple(module for module in self.modules() if isinstance(module, nn.Conv2d))
        for layer in self.convolutions:
            nn.init.kaiming_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, image: Tensor) -> Tensor:
        """Features (K, 32, H / 4, W / 4) of pictures (K, H, W, 3) uint8; feature j is centred on pixel 4 j."""
        if image.dtype == torch.uint8 and is_in_flight(image):
            flown = self._flown(image)
            if flown is not None:
                return flown
        shrinking, refining = self.halves
        return refining(shrinking(image))  # type: ignore[no-any-return]

    def _flown(self, image: Tensor) -> Tensor | None:
        """The same by compiled code of our own; None if there is none for such pictures."""
        shape = image.shape[1:]
        layers = kept_layers(self, self.convolutions, shape, lambda: self._flown_layers(*shape))
        if layers is None:
            return None
        from pvn.model.cpu_networks import pass_resnet

        height, width, _ = shape
        for layer in self.convolutions:
            height, width = -(-height // layer.stride[0]), -(-width // layer.stride[0])
        return on_maps(
            pass_resnet, (len(image), CHANNELS, height, width), image.contiguous().numpy(), DEVIATION_EPSILON,
            self.first.stride[0], self.strides, layers.weights, layers.table, EPSILON, np.float32(SLOPE),
        )  # fmt: skip

    def _flown_layers(self, height: int, width: int, depth: int) -> PackedLayers | None:
        """Copies of the weights for pictures (H, W, 3)."""
        from pvn.model.cpu_layers import fills_vectors

        if depth != self.first.in_channels:
            return None
        layers = []
        for layer in self.convolutions:
            stride = layer.stride[0]
            height, width = -(-height // stride), -(-width // stride)
            in_tiles = isinstance(layer, NormedConvolution) and stride == 1
            if not fills_vectors(layer.out_channels, height, width, in_tiles):
                return None
            assert layer.bias is not None
            layers.append((layer.weight, layer.bias, in_tiles))
        return packed([(as_filters(weight, in_tiles), bias) for weight, bias, in_tiles in layers])
