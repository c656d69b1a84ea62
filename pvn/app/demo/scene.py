"""The field in 3D on the page of one visitor; field frame throughout: x east, y north, z up, metres."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import viser
from viser.transforms import SO3

from pvn.app.demo.flight_setup import FlightSetup
from pvn.app.demo.gltf import to_glb
from pvn.app.demo.pictures import GROUND_MARGIN, MAP_PX, ground_picture
from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.rays import SUN_X, SUN_Y, SUN_Z
from pvn.viz import palette
from pvn.viz.field_views import EXTENT, Bytes
from pvn.viz.flight_record import Floats
from pvn.viz.meshes import class_mesh, drone_mesh, fence_mesh
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.task import SUCCESS_M

CameraMode = Literal["free", "follow the drone", "from above"]

MIDDLE = FIELD_SIZE / 2
SKY = (184, 214, 240)
MEADOW_COLOUR, MEADOW_SIZE = (117, 127, 69), 1200.0
"""Colour and side (metres) of the plain ground around the picture of the field."""
FLOWN, DEMONSTRATED, GOAL, START = map(
    palette.rgb_bytes, (palette.FLOWN, palette.DEMONSTRATED, palette.GOAL, palette.START)
)
NO_POINTS = np.zeros((0, 2))
CIRCLE = np.stack([trig(np.linspace(0, 2 * np.pi, 65)) for trig in (np.cos, np.sin)], -1)
"""Points (65, 2) of a circle of radius 1, metres."""
FACING_UP = SO3.from_x_radians(math.pi).wxyz
"""viser's pictures have y down, as a camera's do; this rotation lays them on the ground with north up."""
PATH_HEIGHT, PREDICTIONS_HEIGHT, RING_HEIGHT = 0.35, 0.06, 0.12
"""Above the ground; different, so that what lies over another thing does not flicker."""
BEHIND, ABOVE, AHEAD = 9.0, 4.5, 5.0
"""The camera that follows the drone is this far behind and above it, and looks at a point this far ahead."""


@functools.cache
def landmark_glb(name: str) -> bytes:
    """A landmark class at scale 1 as a binary glTF file."""
    return to_glb(class_mesh(name))


@functools.cache
def _drone_glb() -> bytes:
    return to_glb(drone_mesh())


@functools.cache
def _fence_glb() -> bytes:
    return to_glb(fence_mesh(), is_two_sided=True)


def _lines_through(points: npt.NDArray[Any], height: float) -> npt.NDArray[np.float32]:
    """Lines (P - 1, 2, 3) through points (P, 2), at a height above the ground; none through a single point."""
    raised = np.concatenate([points, np.full((len(points), 1), height)], 1).astype(np.float32)
    return np.stack([raised[:-1], raised[1:]], 1)


def add_surroundings(server: viser.ViserServer) -> None:
    """Add what is the same for all visitors: sky, the meadow around the field, fences, light."""
    scene = server.scene
    scene.set_background_image(np.full((8, 8, 3), SKY, np.uint8))
    scene.configure_fog(120.0, 600.0, color=SKY)
    scene.world_axes.visible = False
    scene.add_image(
        "/meadow", np.full((8, 8, 3), MEADOW_COLOUR, np.uint8), MEADOW_SIZE, MEADOW_SIZE, format="png",
        cast_shadow=False, receive_shadow=False, wxyz=FACING_UP, position=(MIDDLE, MIDDLE, -0.1),
    )  # fmt: skip
    scene.configure_default_lights(False)
    scene.configure_environment_map(None)
    scene.add_light_ambient("/daylight", intensity=1.9)
    sun = (100 * float(SUN_X), 100 * float(SUN_Y), 100 * float(SUN_Z))
    scene.add_light_directional("/sun", intensity=2.0, position=sun)
    scene.add_glb("/fences", _fence_glb(), cast_shadow=False)


class FieldView3D:
    """The 3D view of one visitor: field, drone, paths and predictions."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self._client = client
        self._scene = client.scene
        self.on_drag: Callable[[int, float, float], None] = lambda index, x, y: None
        """Called with the index of a landmark and the point (x, y) to which it was dragged."""
        self._landmarks: list[viser.SceneNodeHandle] = []
        self._labels: list[viser.LabelHandle] = []
        self._has_names = True
        self._camera_mode: CameraMode = "free"
        self._pose: Floats = np.zeros(6, np.float32)
        self._drone = self._scene.add_frame("/drone", show_axes=False)
        self._scene.add_glb("/drone/body", _drone_glb())
        camera = Camera()
        tilt = rotation_body_camera(camera).numpy()
        self._frustum = self._scene.add_camera_frustum(
            "/drone/camera",
            fov=2 * math.atan(camera.height / 2 / camera.focal_px),
            aspect=camera.width / camera.height,
            scale=1.6,
            thickness=0.03,
            color=(255, 255, 255),
            wxyz=SO3.from_matrix(tilt).wxyz,
            cast_shadow=False,
        )
        transparent = np.zeros((MAP_PX, MAP_PX, 4), np.uint8)
        self._predictions = self._scene.add_image(
            "/predictions", transparent, EXTENT, EXTENT, format="png", cast_shadow=False, receive_shadow=False,
            wxyz=FACING_UP, position=(MIDDLE, MIDDLE, PREDICTIONS_HEIGHT), visible=False,
        )  # fmt: skip
        self._lines: dict[str, viser.LineSegmentsHandle] = {}
        plumb_line = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, SimulatorConfig().altitude]]], np.float32)
        self._plumb_line = self._scene.add_line_segments("/plumb_line", plumb_line, colors=FLOWN, thickness=0.05)

    def show_field(self, layout: Layout) -> None:
        """Show the ground and the landmarks of a field; the landmarks can be dragged."""
        across = FIELD_SIZE + 2 * GROUND_MARGIN
        ground = ground_picture(layout)
        with self._client.atomic():
            self._scene.add_image(
                "/ground", ground, across, across, format="jpeg", jpeg_quality=85,
                cast_shadow=False, receive_shadow=False, wxyz=FACING_UP, position=(MIDDLE, MIDDLE, 0.0),
            )  # fmt: skip
            for handle in self._landmarks:  # this also removes their names
                handle.remove()
            self._landmarks, self._labels = [], []
            for index, landmark in enumerate(layout.landmarks):
                self._add_landmark(index, landmark)

    def _add_landmark(self, index: int, landmark: Landmark) -> None:
        node = self._scene.add_glb(
            f"/landmarks/{index}",
            landmark_glb(landmark.name),
            scale=landmark.scale,
            wxyz=SO3.from_z_radians(landmark.yaw).wxyz,
            position=(landmark.x, landmark.y, 0.0),
        )
        kind = LANDMARK_CLASSES[landmark.name]
        top = landmark.scale * float(class_mesh(landmark.name).vertices[:, 2].max())
        label = self._scene.add_label(
            f"/landmarks/{index}/name",
            kind.noun,
            position=(0.0, 0.0, top + 0.25),  # viser scales the mesh of a node, but not its children
            font_screen_scale=0.85,
            visible=self._has_names,
            anchor="bottom-center",
        )
        self._landmarks.append(node)
        self._labels.append(label)
        grabbed: dict[str, npt.NDArray[np.float64]] = {}

        @node.on_drag("left")
        async def _(event: viser.SceneNodeDragEvent[Any]) -> None:
            if event.phase == "start":
                grabbed["offset"] = np.array([*event.start_position]) - node.position
                grabbed["before"] = node.position.copy()
            if "offset" not in grabbed:
                return
            # The point of the pointer's ray that is as high as the point that was grabbed.
            eye = event.client.camera.position
            along = np.array(event.end_position) - eye
            reach = (grabbed["offset"][2] - eye[2]) / along[2] if abs(along[2]) > 1e-6 else -1.0
            if reach > 0:
                place = (eye + reach * along - grabbed["offset"])[:2].clip(0.5, FIELD_SIZE - 0.5)
                node.position = (float(place[0]), float(place[1]), 0.0)
            if event.phase == "end":
                x, y = float(node.position[0]), float(node.position[1])
                node.position = grabbed.pop("before")
                grabbed.clear()
                self.on_drag(index, x, y)

    def show_names(self, is_shown: bool) -> None:
        """Show or hide the names of the landmarks."""
        self._has_names = is_shown
        for label in self._labels:
            label.visible = is_shown

    def show_setup(self, setup: FlightSetup) -> None:
        """Show the start and, if there is one, the demonstrated path with its goal; nothing is flown yet."""
        self.show_predictions(None)
        self.show_path(NO_POINTS)
        x, y, yaw = setup.task.start
        self.show_pose(np.array([x, y, SimulatorConfig().altitude, 0.0, 0.0, yaw], np.float32))
        path = NO_POINTS if setup.demonstrated is None else setup.demonstrated
        goal = path[-1:]
        self._show_lines("/start", _lines_through(np.array([x, y]) + 0.8 * CIRCLE, RING_HEIGHT), START)
        self._show_lines("/demonstration", _lines_through(path, PATH_HEIGHT)[::2], DEMONSTRATED)
        # The demonstrated path ends in a small ring of its own colour: one of the goal's is lost on a predicted goal.
        for name, radius, colour in (("/goal", SUCCESS_M, GOAL), ("/path_end", 0.5, DEMONSTRATED)):
            ring = goal + radius * CIRCLE if len(goal) else NO_POINTS
            self._show_lines(name, _lines_through(ring, RING_HEIGHT), colour)

    def _show_lines(self, name: str, lines: npt.NDArray[np.float32], colour: tuple[int, int, int]) -> None:
        """Show lines (N, 2, 3) in place of those that were shown under this name."""
        handle = self._lines.get(name)
        if handle is None and len(lines):
            self._lines[name] = self._scene.add_line_segments(name, lines, colors=colour, thickness=0.14)
        elif handle is not None:
            handle.visible = len(lines) > 0
            if len(lines):
                handle.points = lines

    def show_pose(self, pose_world: Floats) -> None:
        """Move the drone to a pose (6,), and the camera with it if it follows."""
        self._pose = pose_world
        rotation = rotation_world_body(torch.from_numpy(np.asarray(pose_world[None, 3:], np.float64)))[0].numpy()
        with self._client.atomic():
            self._drone.position = pose_world[:3]
            self._plumb_line.position = (float(pose_world[0]), float(pose_world[1]), 0.0)
            self._drone.wxyz = SO3.from_matrix(rotation).wxyz
            if self._camera_mode == "follow the drone":
                self._follow()

    def _follow(self) -> None:
        x, y, z, _, _, yaw = self._pose.astype(float)
        ahead = np.array([math.cos(yaw), math.sin(yaw), 0.0])
        place = np.array([x, y, z])
        self._look(place - BEHIND * ahead + np.array([0, 0, ABOVE]), place + AHEAD * ahead - np.array([0, 0, 2.5]))

    def _look(
        self, position: npt.NDArray[np.float64], target: npt.NDArray[np.float64], up: tuple[int, int, int] = (0, 0, 1)
    ) -> None:
        camera = self._client.camera
        camera.up_direction = np.array(up, float)
        camera.position = position
        camera.look_at = target

    def show_camera(self, mode: CameraMode) -> None:
        """Look at the field from another place."""
        self._camera_mode = mode
        middle = np.array([MIDDLE, MIDDLE, 0.0])
        with self._client.atomic():
            match mode:
                case "follow the drone":
                    self._follow()
                case "from above":
                    self._look(middle + np.array([0.0, -0.01, 42.0]), middle, up=(0, 1, 0))
                case _:
                    self._look(middle + np.array([-7.0, -40.0, 27.0]), middle - np.array([0.0, 3.0, 0.0]))

    def show_image(self, image: Bytes) -> None:
        """Show what the drone sees (H, W, 3), in its frustum."""
        self._frustum.image = image

    def show_path(self, points: npt.NDArray[Any]) -> None:
        """Show the flown path (P, 2), on the ground, beside the demonstrated and the predicted one."""
        self._show_lines("/flown", _lines_through(points, PATH_HEIGHT), FLOWN)

    def show_predictions(self, picture: Bytes | None) -> None:
        """Show both predicted distributions (H, W, 4) on the ground; None hides them."""
        if picture is not None:
            self._predictions.image = picture
        self._predictions.visible = picture is not None
