"""The image encoder: a residual network of 32 channels, whose features are a quarter of the picture's size.

The paper's has 13 convolutions, the first two of them at the picture's full size. Those take most of the time; the
quick one has 11, begins at half the size, and costs half as much.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

CHANNELS = 32
EPSILON = 1e-5
"""Added to a norm's variance, as torch does."""
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


def in_device_layout(value: Tensor) -> Tensor:
    """Maps (K, C, H, W) in the memory layout that suits the device's convolutions: channels last on a GPU.

    On a CPU norms have no quick gradients with channels last, and without gradients lose three digits.
    """
    return value.contiguous(memory_format=torch.channels_last if value.is_cuda else torch.contiguous_format)


def instance_norm(value: Tensor) -> Tensor:
    """Each channel of each picture to mean 0 and deviation 1, with no parameters and no running statistics."""
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
        return functional.leaky_relu(super().forward(instance_norm(value)))


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
    """The first half of the image encoder: from pictures to features at a quarter of their size."""

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
        self.halves = Shrinking(self.first, self.blocks[:num_shrinking]), Refining(self.blocks[num_shrinking:])
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, image: Tensor) -> Tensor:
        """Features (K, 32, H / 4, W / 4) of pictures (K, H, W, 3) uint8; feature j is centred on pixel 4 j."""
        shrinking, refining = self.halves
        return refining(shrinking(image))  # type: ignore[no-any-return]
