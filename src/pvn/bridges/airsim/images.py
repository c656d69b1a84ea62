"""What AirSim's cameras see of our field, in AirSim's encodings."""

from __future__ import annotations

import io
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from pvn.bridges.shared.renderer import CameraRenderer, Floats, Pixels
from pvn.geometry import Camera
from pvn.simulator.rendering import AHEAD, AHEAD_U, AHEAD_V


class ImageType(IntEnum):
    """AirSim's image types, under its own names."""

    Scene = 0
    DepthPlanar = 1
    DepthPerspective = 2
    DepthVis = 3
    DisparityNormalized = 4
    Segmentation = 5
    SurfaceNormals = 6
    Infrared = 7


SKY_DEPTH_M = 65504.0
"""AirSim's depth where there is nothing: the largest half-precision float."""
DEPTH_VIS_RANGE_M = 100.0
"""The depth shown as white in DepthVis."""
STEREO_BASELINE_M = 0.25
"""Distance between the two cameras whose disparity is computed, as between AirSim's front cameras."""


def segmentation_colours(object_ids: npt.ArrayLike) -> Pixels:
    """Red, green and blue (..., 3) of objects (...) in segmentation images; 0 is black."""
    ids = np.asarray(object_ids, np.int64)[..., None]
    return (ids * np.array([67, 151, 223]) % 256).astype(np.uint8)


def _axis_cosines(camera: Camera) -> Floats:
    """Cosines (H, W) of the angles between the optical axis and the rays through the pixels."""
    u = (np.arange(camera.width) + 0.5 - camera.width / 2) / camera.focal_px
    v = (np.arange(camera.height) + 0.5 - camera.height / 2) / camera.focal_px
    return (1 / np.sqrt(1 + u[None, :] ** 2 + v[:, None] ** 2)).astype(np.float32)


def encode_png(pixels: Pixels) -> bytes:
    """A PNG file of pixels (H, W, 3), red green blue."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", compress_level=1)
    return file.getvalue()


@dataclass(frozen=True, kw_only=True)
class View:
    """What one camera sees at one moment."""

    renderer: CameraRenderer
    camera_row: Floats
    """(18,), see `simulator.rendering`."""
    camera: Camera
    object_ids: tuple[int, ...]
    """Segmentation numbers of the sky, of all that is neither sky nor landmark, and of each landmark."""

    def depth(self) -> Floats:
        """Depth (H, W) along the rays, metres; SKY_DEPTH_M for sky."""
        depth, _ = self.renderer.measure_depth(self.camera_row[None], self.camera)
        return np.where(depth[0] > 0, depth[0], np.float32(SKY_DEPTH_M))

    def planar_depth(self) -> Floats:
        """Depth (H, W) along the optical axis, metres; SKY_DEPTH_M for sky."""
        along_ray = self.depth()
        return np.where(along_ray < SKY_DEPTH_M, along_ray * _axis_cosines(self.camera), along_ray)

    def disparity(self) -> Floats:
        """Disparity (H, W) of two cameras STEREO_BASELINE_M apart, as a fraction of the width; at most 1."""
        pixels = self.camera.focal_px * STEREO_BASELINE_M / self.planar_depth()
        return np.clip(pixels / self.camera.width, 0, 1).astype(np.float32)

    def segments(self) -> npt.NDArray[np.int64]:
        """Segmentation numbers (H, W)."""
        depth, landmark_index = self.renderer.measure_depth(self.camera_row[None], self.camera)
        place = np.where(landmark_index[0] >= 0, landmark_index[0] + 2, (depth[0] > 0).astype(np.int16))
        return np.array(self.object_ids, np.int64)[place]

    def normals(self) -> npt.NDArray[np.float64]:
        """Unit normals (H, W, 3) of what is seen, north east down, towards the camera; 0 for sky.

        From three rays through each pixel, so those that straddle an edge of an object are wrong.
        """
        rows = np.repeat(self.camera_row[None], 3, 0)
        offset = 0.1  # pixels
        rows[1, AHEAD : AHEAD + 3] += offset * self.camera_row[AHEAD_U : AHEAD_U + 3]
        rows[2, AHEAD : AHEAD + 3] += offset * self.camera_row[AHEAD_V : AHEAD_V + 3]
        depth, _ = self.renderer.measure_depth(rows, self.camera)
        u, v = (np.arange(size) + 0.5 for size in (self.camera.width, self.camera.height))
        wide = rows.astype(np.float64)[:, None, None]
        rays = (
            wide[..., AHEAD : AHEAD + 3]
            + u[:, None] * wide[..., AHEAD_U : AHEAD_U + 3]
            + v[:, None, None] * wide[..., AHEAD_V : AHEAD_V + 3]
        )
        points = rays / np.linalg.norm(rays, axis=-1, keepdims=True) * depth[..., None]
        normals = np.cross(points[1] - points[0], points[2] - points[0])
        normals *= -np.sign((normals * points[0]).sum(-1, keepdims=True))
        normals /= np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-12)
        return np.where(depth.min(0)[..., None] > 0, normals[..., [1, 0, 2]] * [1, 1, -1], 0.0)


def _render_floats(view: View, image_type: ImageType) -> npt.NDArray[Any]:
    """An image (H, W) of floats: depths in metres, or values from 0 to 1."""
    match image_type:
        case ImageType.DepthPlanar:
            return view.planar_depth()
        case ImageType.DepthPerspective:
            return view.depth()
        case ImageType.DepthVis:
            return np.clip(view.planar_depth() / DEPTH_VIS_RANGE_M, 0, 1)
        case ImageType.DisparityNormalized:
            return view.disparity()
    return _render_pixels(view, image_type)[..., 0] / 255  # as in AirSim, the first channel of the picture


def _render_pixels(view: View, image_type: ImageType) -> Pixels:
    """An image of any type for people to look at (H, W, 3), red green blue."""
    match image_type:
        case ImageType.Scene:
            return view.renderer.render_scene(view.camera_row, view.camera)
        case ImageType.Segmentation:
            return segmentation_colours(view.segments())
        case ImageType.SurfaceNormals:
            return np.round((view.normals() + 1) * 127.5).astype(np.uint8)
        case ImageType.Infrared:  # as in AirSim, which shows an object's number as its warmth
            grey: npt.NDArray[Any] = view.segments() % 256
        case ImageType.DisparityNormalized:
            grey = 255 * view.disparity()
        case _:
            grey = 255 * _render_floats(view, ImageType.DepthVis)
    return np.repeat(grey.astype(np.uint8)[..., None], 3, axis=-1)


@dataclass(frozen=True)
class ImageRequest:
    """What kind of image a client wants."""

    image_type: ImageType
    is_float: bool
    """Depth in metres instead of bytes."""
    is_compressed: bool
    """A PNG file instead of raw pixels."""


def render_image(view: View, request: ImageRequest) -> dict[str, Any]:
    """What a camera sees, as AirSim sends it: a PNG file, raw pixels (blue green red), or floats.

    The field that is not used holds a single zero, as in AirSim, whose RPC library cannot send empty lists.
    """
    if request.is_float:
        floats = _render_floats(view, request.image_type)
        return {"image_data_uint8": b"\0", "image_data_float": floats.ravel().tolist()}
    pixels = _render_pixels(view, request.image_type)
    data = encode_png(pixels) if request.is_compressed else np.ascontiguousarray(pixels[..., ::-1]).tobytes()
    return {"image_data_uint8": data, "image_data_float": [0.0]}
