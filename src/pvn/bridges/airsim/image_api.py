"""AirSim's calls about cameras: their images, their poses, and the objects they detect.

Clients of Cosys-AirSim add the name of an annotation, which means nothing here; see `api.as_call`.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Coroutine
from typing import Any

import numpy as np

from pvn.bridges.airsim.drone import MountedCamera
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.images import ImageRequest, ImageType, View
from pvn.bridges.airsim.wire_types import (
    Pose,
    encode_pose,
    encode_quaternion,
    encode_vector,
    parse_number,
)
from pvn.bridges.shared.frames import rotate_vector, swap_rates, to_ned
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark
from pvn.world.solids import horizontal_extent, top_height

MAX_IMAGES = 16
MAX_PIXELS = 1 << 25
"""Of all images of one call."""
MAX_FILTERS = 32


def _parse_image_request(request: Any) -> tuple[Any, ImageRequest]:
    """The camera's name and what kind of image is wanted."""
    if not isinstance(request, dict):
        raise ValueError(f"simGetImages: got a request of {type(request).__name__}, expected an ImageRequest")
    image_type = request.get("image_type", ImageType.Scene)
    if not isinstance(image_type, int | float) or image_type not in list(ImageType):
        known = ", ".join(f"{one.name} ({one.value})" for one in ImageType)
        raise ValueError(f"image_type: got {str(image_type)[:80]!r}, expected one of {known}")
    is_float, is_compressed = bool(request.get("pixels_as_float", False)), bool(request.get("compress", True))
    return request.get("camera_name", "0"), ImageRequest(ImageType(int(image_type)), is_float, is_compressed)


async def _images(host: Host, wanted: list[tuple[Any, MountedCamera, ImageRequest]]) -> list[dict[str, Any]]:
    """Images of the moment at which this begins, rendered in other threads."""
    views = [host.view(camera, kind.image_type) for _, camera, kind in wanted]
    num_pixels = sum(view.camera.width * view.camera.height for view in views)
    if num_pixels > MAX_PIXELS:
        raise ValueError(f"simGetImages: got {num_pixels} pixels, expected at most {MAX_PIXELS}; ask for fewer images")
    time_ns, poses = host.vehicle.state.time_ns, [encode_pose(*camera.pose, camera.origin) for _, camera, _ in wanted]
    images = [host.render_image(view, kind) for view, (_, _, kind) in zip(views, wanted, strict=True)]
    return [
        {
            **await image,
            "camera_name": str(name),
            "camera_position": pose["position"],
            "camera_orientation": pose["orientation"],
            "time_stamp": time_ns,
            "message": "",
            "width": view.camera.width,
            "height": view.camera.height,
            "pixels_as_float": kind.is_float,
            "compress": kind.is_compressed,
            "image_type": int(kind.image_type),
            "annotation_name": "",
        }
        for image, view, (name, _, kind), pose in zip(images, views, wanted, poses, strict=True)
    ]


def simGetImages(
    host: Host, requests: Any, vehicle_name: Any = "", external: Any = False
) -> Coroutine[Any, Any, list[dict[str, Any]]]:
    """Several images of the same moment."""
    if not isinstance(requests, list) or not 1 <= len(requests) <= MAX_IMAGES:
        got = len(requests) if isinstance(requests, list) else type(requests).__name__
        raise ValueError(f"simGetImages: got {got} requests, expected a list of 1 to {MAX_IMAGES}")
    wanted = [_parse_image_request(request) for request in requests]
    return _images(host, [(name, host.find_camera(name, vehicle_name, bool(external)), kind) for name, kind in wanted])


def simGetImage(host: Host, camera: MountedCamera, image_type: Any) -> Coroutine[Any, Any, bytes]:
    """One image as a PNG file."""
    _, kind = _parse_image_request({"image_type": image_type})

    async def png() -> bytes:
        (image,) = await _images(host, [("", camera, kind)])
        data: bytes = image["image_data_uint8"]
        return data

    return png()


def simGetCameraInfo(host: Host, camera: MountedCamera) -> dict[str, Any]:
    """The camera's pose, NED, its horizontal field of view, degrees, and its projection matrix.

    The matrix is that of a pinhole camera, without near and far planes.
    """
    lens = camera.lens(ImageType.Scene)
    across = 1 / math.tan(lens.horizontal_view / 2)
    down = across * lens.width / lens.height
    matrix = [[across, 0.0, 0.0, 0.0], [0.0, down, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    pose, degrees = encode_pose(*camera.pose, camera.origin), math.degrees(lens.horizontal_view)
    return {"pose": pose, "fov": degrees, "proj_mat": {"matrix": matrix}}


def simSetCameraPose(host: Host, camera: MountedCamera, camera_pose: Pose) -> None:
    """Move and turn a camera relative to the body; one that stands in the field, relative to its middle."""
    camera.position, camera.rotation = camera_pose


def simSetCameraFov(host: Host, camera: MountedCamera, fov_degrees: float) -> None:
    """Set a camera's horizontal field of view, degrees, for all types of images."""
    if not 0 < fov_degrees < 180:
        raise ValueError(f"fov_degrees: got {fov_degrees:g}, expected more than 0 and less than 180")
    camera.view = math.radians(fov_degrees)


def simGetDistortionParams(host: Host, camera: MountedCamera) -> list[float]:
    """The distortion K1, K2, K3, P1, P2 that was set."""
    return list(camera.distortion.values())


def simSetDistortionParam(host: Host, camera: MountedCamera, param_name: Any, value: float) -> None:
    """Note a distortion; images stay undistorted."""
    if not isinstance(param_name, str) or param_name not in camera.distortion:
        raise ValueError(f"param_name: got {str(param_name)[:80]!r}, expected one of {', '.join(camera.distortion)}")
    camera.distortion[param_name] = value
    host.tell_once("simSetDistortionParam: noted, but images are not distorted here")


def simSetDetectionFilterRadius(host: Host, camera: MountedCamera, image_type: Any, radius_cm: float) -> None:
    """Detect objects up to this distance, centimetres."""
    camera.detection_radius_m = radius_cm / 100


def simAddDetectionFilterMeshName(host: Host, camera: MountedCamera, image_type: Any, mesh_name: str) -> None:
    """Detect objects whose names fit, with * for any characters."""
    if len(camera.detected_names) >= MAX_FILTERS:
        raise ValueError(f"mesh_name: got more than {MAX_FILTERS}; call simClearDetectionMeshNames first")
    camera.detected_names.append(mesh_name)


def simClearDetectionMeshNames(host: Host, camera: MountedCamera, image_type: Any) -> None:
    """Detect nothing."""
    camera.detected_names.clear()


def _detection(host: Host, name: str, landmark: Landmark, camera_pose: Pose) -> dict[str, Any]:
    """What is known of a landmark before it is seen: a box around it, NED and upright, and where its foot is."""
    solids = LANDMARK_CLASSES[landmark.name].solids
    half, height = horizontal_extent(solids) * landmark.scale, top_height(solids) * landmark.scale
    foot = landmark.x, landmark.y, 0.0
    north, east, down = to_ned(foot)
    position, (w, x, y, z) = camera_pose
    offset = rotate_vector((w, -x, -y, -z), [one - other for one, other in zip(foot, position, strict=True)])
    return {
        "name": name,
        "geo_point": host.globe.to_geo_point(foot)._asdict(),
        "box3D": {
            "min": encode_vector((north - half, east - half, down - height)),
            "max": encode_vector((north + half, east + half, down)),
        },
        "relative_pose": {
            "position": encode_vector(swap_rates(offset)),
            "orientation": encode_quaternion((1.0, 0.0, 0.0, 0.0)),
        },
    }


def _seen(view: View, wanted: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The detections, by the landmark's index, of landmarks that are seen, with the box of their pixels."""
    _, landmark_index = view.renderer.measure_depth(view.camera_row[None], view.camera)
    found = []
    for index, detection in wanted.items():
        rows, columns = np.nonzero(landmark_index[0] == index)
        if len(rows):
            corners = [
                {"x_val": float(columns.min()), "y_val": float(rows.min())},
                {"x_val": float(columns.max() + 1), "y_val": float(rows.max() + 1)},
            ]
            found.append({**detection, "box2D": {"min": corners[0], "max": corners[1]}})
    return found


def simGetDetections(host: Host, camera: MountedCamera, image_type: Any) -> Coroutine[Any, Any, list[dict[str, Any]]]:
    """The objects that a camera sees, of those whose names were asked for, with their boxes.

    The relative pose is where the object's foot is, seen from the camera.
    """
    number, pose = int(parse_number(image_type, "image_type")), camera.pose
    view = host.view(camera, number if number in list(ImageType) else ImageType.Scene)
    wanted = {
        index: _detection(host, name, landmark, pose)
        for index, (name, landmark) in enumerate(zip(host.scene.names, view.renderer.layout.landmarks, strict=True))
        if any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for pattern in camera.detected_names)
        and math.dist((landmark.x, landmark.y), pose[0][:2]) <= camera.detection_radius_m
    }

    async def detect() -> list[dict[str, Any]]:
        return await host.run_in_thread(lambda: _seen(view, wanted))

    return detect()
