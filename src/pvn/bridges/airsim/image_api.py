"""The calls of the AirSim API about cameras: their images, their poses, and the objects they detect."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Coroutine
from typing import Any

import numpy as np

from pvn.bridges.airsim import sensors
from pvn.bridges.airsim.host import Host
from pvn.bridges.airsim.images import IMAGE_TYPES, SCENE, ImageRequest, View
from pvn.bridges.airsim.state_api import encode_geo_point
from pvn.bridges.airsim.wire_types import (
    encode_pose,
    encode_quaternion,
    encode_vector,
    parse_number,
    parse_pose,
    parse_text,
)
from pvn.bridges.shared.frames import NED_ORIGIN_WORLD, Vector, rotate_vector, swap_rates, swap_rotation, to_ned
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.solids import horizontal_extent, top_height

MAX_IMAGES = 16
MAX_PIXELS = 1 << 25
"""Of all images of one call."""
MAX_FILTERS = 32


def _origin(host: Host, vehicle_name: str, is_external: Any) -> Vector:
    return NED_ORIGIN_WORLD if is_external else host.find_drone(vehicle_name).origin


def _parse_image_request(request: Any) -> tuple[Any, ImageRequest]:
    """The camera's name and what kind of image is wanted."""
    if not isinstance(request, dict):
        raise ValueError(f"simGetImages: got a request of {type(request).__name__}, expected an ImageRequest")
    image_type = request.get("image_type", SCENE)
    if not isinstance(image_type, int | float) or image_type not in IMAGE_TYPES:
        known = ", ".join(f"{name} ({number})" for number, name in IMAGE_TYPES.items())
        raise ValueError(f"image_type: got {str(image_type)[:80]!r}, expected one of {known}")
    kind = ImageRequest(
        int(image_type), bool(request.get("pixels_as_float", False)), bool(request.get("compress", True))
    )
    return request.get("camera_name", "0"), kind


async def _images(host: Host, requests: Any, vehicle_name: str, is_external: Any) -> list[dict[str, Any]]:
    """Images of the moment of the call, rendered in other threads."""
    wanted = [_parse_image_request(request) for request in requests]
    views = [host.view(name, kind.image_type, vehicle_name, is_external) for name, kind in wanted]
    num_pixels = sum(view.camera.width * view.camera.height for view in views)
    if num_pixels > MAX_PIXELS:
        raise ValueError(f"simGetImages: got {num_pixels} pixels, expected at most {MAX_PIXELS}; ask for fewer images")
    origin, time_ns = _origin(host, vehicle_name, is_external), host.vehicle.time_ns
    poses = [host.camera_pose(name, vehicle_name, is_external) for name, _ in wanted]
    images = [host.render_image(view, kind) for view, (_, kind) in zip(views, wanted, strict=True)]
    return [
        {
            **await image,
            "camera_name": str(name),
            "camera_position": encode_vector(to_ned(position, origin)),
            "camera_orientation": encode_quaternion(swap_rotation(rotation)),
            "time_stamp": time_ns,
            "message": "",
            "width": view.camera.width,
            "height": view.camera.height,
            "pixels_as_float": kind.is_float,
            "compress": kind.is_compressed,
            "image_type": kind.image_type,
            "annotation_name": "",
        }
        for image, view, (name, kind), (position, rotation) in zip(images, views, wanted, poses, strict=True)
    ]


def simGetImages(
    host: Host, requests: Any, vehicle_name: str = "", external: Any = False
) -> Coroutine[Any, Any, list[dict[str, Any]]]:
    """Several images of the same moment."""
    if not isinstance(requests, list) or not 1 <= len(requests) <= MAX_IMAGES:
        got = len(requests) if isinstance(requests, list) else type(requests).__name__
        raise ValueError(f"simGetImages: got {got} requests, expected a list of 1 to {MAX_IMAGES}")
    return _images(host, requests, vehicle_name, external)


def simGetImage(
    host: Host, camera_name: Any, image_type: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> Coroutine[Any, Any, bytes]:
    """One image as a PNG file."""

    async def png() -> bytes:
        # Cosys-AirSim sends the annotation's name, which means nothing here, before or after the others.
        request = {"camera_name": camera_name, "image_type": image_type}
        images = await _images(host, [request], vehicle_name, external is True)
        data: bytes = images[0]["image_data_uint8"]
        return data

    return png()


def simGetCameraInfo(
    host: Host, camera_name: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> dict[str, Any]:
    """The camera's pose, NED, its horizontal field of view, degrees, and its projection matrix.

    The matrix is that of a pinhole camera, without near and far planes.
    """
    lens = host.find_camera(camera_name, vehicle_name, external).lens(SCENE)
    position, rotation = host.camera_pose(camera_name, vehicle_name, external)
    across = 1 / math.tan(lens.horizontal_view / 2)
    down = across * lens.width / lens.height
    matrix = [[across, 0.0, 0.0, 0.0], [0.0, down, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    return {
        "pose": encode_pose(position, rotation, _origin(host, vehicle_name, external)),
        "fov": math.degrees(lens.horizontal_view),
        "proj_mat": {"matrix": matrix},
    }


def simSetCameraPose(
    host: Host, camera_name: Any, camera_pose: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> None:
    """Move and turn a camera relative to the body; one that stands in the field, relative to its middle."""
    camera = host.find_camera(camera_name, vehicle_name, external)
    camera.position, camera.rotation = parse_pose(camera_pose)


def simSetCameraFov(
    host: Host, camera_name: Any, fov_degrees: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> None:
    """Set a camera's horizontal field of view, degrees, for all types of images."""
    degrees = parse_number(fov_degrees, "fov_degrees")
    if not 0 < degrees < 180:
        raise ValueError(f"fov_degrees: got {degrees:g}, expected more than 0 and less than 180")
    host.find_camera(camera_name, vehicle_name, external).view = math.radians(degrees)


def simGetDistortionParams(
    host: Host, camera_name: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> list[float]:
    """The distortion K1, K2, K3, P1, P2 that was set."""
    return list(host.find_camera(camera_name, vehicle_name, external).distortion.values())


def simSetDistortionParam(
    host: Host, camera_name: Any, param_name: Any, value: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> None:
    """Note a distortion; images stay undistorted."""
    distortion = host.find_camera(camera_name, vehicle_name, external).distortion
    if not isinstance(param_name, str) or param_name not in distortion:
        raise ValueError(f"param_name: got {str(param_name)[:80]!r}, expected one of {', '.join(distortion)}")
    distortion[param_name] = parse_number(value, param_name)
    host.tell_once("simSetDistortionParam: noted, but images are not distorted here")


def simSetDetectionFilterRadius(
    host: Host, camera_name: Any, image_type: Any, radius_cm: Any, vehicle_name: str = "", external: Any = False,
    *rest: Any,
) -> None:  # fmt: skip
    """Detect objects up to this distance, centimetres."""
    camera = host.find_camera(camera_name, vehicle_name, external)
    camera.detection_radius_m = parse_number(radius_cm, "radius_cm") / 100


def simAddDetectionFilterMeshName(
    host: Host, camera_name: Any, image_type: Any, mesh_name: Any, vehicle_name: str = "", external: Any = False,
    *rest: Any,
) -> None:  # fmt: skip
    """Detect objects whose names fit, with * for any characters."""
    camera = host.find_camera(camera_name, vehicle_name, external)
    if len(camera.detected_names) >= MAX_FILTERS:
        raise ValueError(f"mesh_name: got more than {MAX_FILTERS}; call simClearDetectionMeshNames first")
    camera.detected_names.append(parse_text(mesh_name, "mesh_name"))


def simClearDetectionMeshNames(
    host: Host, camera_name: Any, image_type: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> None:
    """Detect nothing."""
    host.find_camera(camera_name, vehicle_name, external).detected_names.clear()


def _detections(host: Host, view: View, wanted: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the objects that may be detected, by their index, those that are seen, with the box of their pixels."""
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


def simGetDetections(
    host: Host, camera_name: Any, image_type: Any, vehicle_name: str = "", external: Any = False, *rest: Any
) -> Coroutine[Any, Any, list[dict[str, Any]]]:
    """The objects that a camera sees, of those whose names were asked for, with their boxes.

    The box in space, NED, is upright, around the object; the relative pose is that of its foot seen from the camera.
    """
    camera = host.find_camera(camera_name, vehicle_name, external)
    position, (w, x, y, z) = host.camera_pose(camera_name, vehicle_name, external)
    wanted: dict[int, dict[str, Any]] = {}
    for index, (name, landmark) in enumerate(zip(host.scene.names, host.scene.renderer.layout.landmarks, strict=True)):
        is_named = any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for pattern in camera.detected_names)
        if not is_named or math.dist((landmark.x, landmark.y), position[:2]) > camera.detection_radius_m:
            continue
        solids = LANDMARK_CLASSES[landmark.name].solids
        half, height = horizontal_extent(solids) * landmark.scale, top_height(solids) * landmark.scale
        north, east, down = to_ned((landmark.x, landmark.y, 0.0))
        offset = rotate_vector((w, -x, -y, -z), (landmark.x - position[0], landmark.y - position[1], -position[2]))
        wanted[index] = {
            "name": name,
            "geo_point": encode_geo_point(sensors.to_geo_point((landmark.x, landmark.y, 0.0), host.settings.origin)),
            "box3D": {
                "min": encode_vector((north - half, east - half, down - height)),
                "max": encode_vector((north + half, east + half, down)),
            },
            "relative_pose": {
                "position": encode_vector(swap_rates(offset)),
                "orientation": encode_quaternion((1.0, 0.0, 0.0, 0.0)),
            },
        }
    number = int(parse_number(image_type, "image_type"))
    view = host.view(camera_name, number if number in IMAGE_TYPES else SCENE, vehicle_name, external)

    async def detect() -> list[dict[str, Any]]:
        return await host.run_in_thread(lambda: _detections(host, view, wanted))

    return detect()
