"""Pictures of other cameras, as ours would have taken them."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from pvn.geometry import Camera


def resampled(image: np.ndarray, view: float, camera: Camera) -> Tensor:
    """What our camera would have seen (1, h, w, 3) uint8 of a picture (H, W, 3) uint8 `view` radians across.

    What is beyond the picture's edges is black.
    """
    height, width = image.shape[:2]
    ours, theirs = math.tan(camera.horizontal_view / 2), math.tan(view / 2)
    across = width * ours / theirs  # pixels of theirs under our picture
    left = round((across - width) / 2)
    top = round((across * camera.height / camera.width - height) / 2)
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float()
    pixels = functional.pad(pixels, (left, left, top, top))  # less than nothing cuts off
    size = (camera.height, camera.width)
    if pixels.shape[-2:] != size:
        pixels = functional.interpolate(pixels, size, mode="bilinear", antialias=True)
    return pixels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
