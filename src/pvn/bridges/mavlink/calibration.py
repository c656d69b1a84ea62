"""Pictures of another camera as the agent's own camera would have taken them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pvn.files import read_json
from pvn.geometry import Camera

Pixels = npt.NDArray[np.uint8]
LARGEST_NUMBER = 1e5
"""Larger numbers in a calibration, pixels or coefficients, are mistakes."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """A camera as OpenCV's calibration describes it: pixels, with the centre of the first pixel at (0, 0)."""

    width: int
    height: int
    fx: float
    """Focal lengths, pixels."""
    fy: float
    cx: float
    """Where the optical axis meets the picture, pixels."""
    cy: float
    distortion: tuple[float, ...] = ()
    """OpenCV's coefficients k1, k2, p1, p2, k3."""
    tilt_degrees: float = 15.0
    """How far the optical axis points below the body's forward axis."""
    latency_s: float = 0.0
    """How old a picture is when it arrives, seconds."""

    def __post_init__(self) -> None:
        numbers = (self.fx, self.fy, self.cx, self.cy, self.tilt_degrees, self.latency_s, *self.distortion)
        for number in numbers:
            if not abs(number) <= LARGEST_NUMBER:  # nor NaN
                raise ValueError(f"calibration: got {number:g}, expected numbers of at most {LARGEST_NUMBER:g}")
        sizes = self.width, self.height
        if any(isinstance(size, bool) or not isinstance(size, int) for size in sizes) or not (
            1 <= min(sizes) <= max(sizes) <= LARGEST_NUMBER and min(self.fx, self.fy) > 0
        ):
            raise ValueError(
                f"calibration: got {self.width!s:.20} x {self.height!s:.20} pixels and focal lengths {self.fx:g}, "
                f"{self.fy:g}, expected positive numbers, and whole ones of pixels"
            )
        if not -90 <= self.tilt_degrees <= 90:
            raise ValueError(f"tilt_degrees: got {self.tilt_degrees:g}, expected -90 (up) to 90 (down)")
        if len(self.distortion) not in (0, 4, 5, 8):
            raise ValueError(f"distortion: got {len(self.distortion)} coefficients, expected 4, 5 or 8, or none")
        if not 0 <= self.latency_s < 1:
            raise ValueError(f"latency_s: got {self.latency_s:g}, expected 0 to 1 s")


def calibration_like(camera: Camera, width: int, height: int) -> Calibration:
    """A camera of another size with the agent's own field of view across, square pixels and tilt."""
    focal = width / 2 / math.tan(camera.horizontal_view / 2)
    return Calibration(
        width=width, height=height, fx=focal, fy=focal, cx=(width - 1) / 2, cy=(height - 1) / 2,
        tilt_degrees=math.degrees(camera.tilt),
    )  # fmt: skip


def read_calibration(path: Path) -> Calibration:
    """Read a calibration from JSON, an object with the fields of `Calibration`."""
    try:
        content = read_json(path, "correct the file, docs/mavlink.md has an example")
    except OSError as error:
        raise ValueError(f"calibration: cannot read {path} ({error.strerror})") from None
    known = {one.name for one in fields(Calibration)}
    if not isinstance(content, dict) or not {"width", "height", "fx", "fy", "cx", "cy"} <= set(content) <= known:
        raise ValueError(
            f"calibration: got {path}, expected a JSON object with width, height, fx, fy, cx, cy and perhaps "
            "distortion, tilt_degrees, latency_s; docs/mavlink.md has one"
        )
    try:
        return Calibration(**{**content, "distortion": tuple(map(float, content.get("distortion", ())))})
    except (TypeError, OverflowError):
        raise ValueError(f"calibration: got {content!s:.200} in {path}, expected numbers") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def make_resampler(calibration: Calibration, camera: Camera) -> Callable[[Pixels], Pixels]:
    """A function from a calibrated camera's picture (H, W, 3) to what `camera` (h, w, 3) would have seen.

    What the calibrated camera does not see is black. Where its pixels are smaller than ours, they are averaged.
    """
    import cv2

    fineness = min(max(round(calibration.fx / camera.focal_px), 1), 16)
    columns = (np.arange(camera.width * fineness) + 0.5) / fineness - camera.width / 2
    rows = (np.arange(camera.height * fineness) + 0.5) / fineness - camera.height / 2
    right, down = np.meshgrid(columns / camera.focal_px, rows / camera.focal_px)
    # Our camera's frame is x right, y down, z ahead; theirs is turned about x by the difference of the tilts.
    turn = camera.tilt - math.radians(calibration.tilt_degrees)
    cos, sin = math.cos(turn), math.sin(turn)
    rays = np.stack([right, down * cos + sin, cos - down * sin], -1)
    matrix = np.array([[calibration.fx, 0, calibration.cx], [0, calibration.fy, calibration.cy], [0, 0, 1.0]])
    distortion = np.array(calibration.distortion or (0.0,) * 4)
    is_ahead = rays[..., 2] > 0.05
    safe = np.where(is_ahead[..., None], rays, (0.0, 0.0, 1.0)).reshape(-1, 1, 3)
    points, _ = cv2.projectPoints(safe, np.zeros(3), np.zeros(3), matrix, distortion)
    places = np.where(is_ahead[..., None], points.reshape(*is_ahead.shape, 2), -10.0).astype(np.float32)

    def resample(picture: Pixels) -> Pixels:
        if picture.shape != (calibration.height, calibration.width, 3):
            raise ValueError(
                f"camera: got a picture of {picture.shape[1]} x {picture.shape[0]} pixels, expected "
                f"{calibration.width} x {calibration.height} as calibrated"
            )
        seen: Any = cv2.remap(picture, places, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT)
        if fineness > 1:
            seen = cv2.resize(seen, (camera.width, camera.height), interpolation=cv2.INTER_AREA)
        return np.asarray(seen, np.uint8)

    return resample
