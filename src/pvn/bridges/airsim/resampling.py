"""Images from other cameras, resampled to the size and field of view of ours."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as functional
from torch import Tensor

from pvn.geometry import Camera


def resample_image(image: np.ndarray, horizontal_view: float, camera: Camera) -> Tensor:
    """What `camera` would have seen (1, h, w, 3) uint8, given an image (H, W, 3) uint8 taken from the same pose.

    horizontal_view: the image's horizontal field of view, radians. What lies beyond the image's edges is black.
    """
    height, width = image.shape[:2]
    ours, theirs = math.tan(camera.horizontal_view / 2), math.tan(horizontal_view / 2)
    covered_px = width * ours / theirs  # pixels of the image across our field of view
    left = round((covered_px - width) / 2)
    top = round((covered_px * camera.height / camera.width - height) / 2)
    pixels = torch.from_numpy(np.ascontiguousarray(image)).permute(2, 0, 1)[None].float()
    pixels = functional.pad(pixels, (left, left, top, top))  # negative padding crops
    size = (camera.height, camera.width)
    if pixels.shape[-2:] != size:
        pixels = functional.interpolate(pixels, size, mode="bilinear", antialias=True)
    return pixels.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
