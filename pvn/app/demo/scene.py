"""The field in 3D as one visitor sees it; field frame throughout, x east, y north, z up, metres."""

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

from pvn.app.demo.flight_setup import Choice
from pvn.app.demo.gltf import to_glb
from pvn.app.demo.pictures import GROUND_MARGIN, HEAT_PX, Bytes, ground_picture
from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator.rays import SUN_X, SUN_Y, SUN_Z
from pvn.simulator.simulator import SimulatorConfig
from pvn.viz.flight_record import Floats
from pvn.viz.meshes import class_mesh, drone_mesh, fence_mesh
from pvn.viz.paper_figures import REACH
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.task import SUCCESS_M

View = Literal["free", "follow the drone", "from above"]

MIDDLE = FIELD_SIZE / 2
SKY = (184, 214, 240)
MEADOW, BEYOND = (117, 127, 69), 1200.0
"""Colour and extent (metres) of the ground where no picture of it reaches."""
FLOWN, DEMONSTRATED, GOAL, START = (30, 110, 255), (255, 255, 255), (255, 196, 0), (240, 228, 66)
FACING_UP = SO3.from_x_radians(math.pi).wxyz
"""viser's pictures stand as a camera's do, y down; turned so, north is up and they face the sky."""
PATH_HEIGHT, HEAT_HEIGHT, MARK_HEIGHT = 0.35, 0.06, 0.12
BEHIND, ABOVE, AHEAD = 9.0, 4.5, 5.0
"""Where the following camera is, and where it looks, seen from the drone."""


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


def _segments(points: npt.NDArray[Any], height: float) -> npt.NDArray[np.float32]:
    """Lines (P - 1, 2, 3) through points (P, 2), at a height above the ground."""
    raised = np.concatenate([points, np.full((len(points), 1), height)], 1).astype(np.float32)
    return np.stack([raised[:-1], raised[1:]], 1)


def _yaw(angle: float) -> npt.NDArray[Any]:
    return SO3.from_z_radians(angle).wxyz


def furnish(server: viser.ViserServer) -> None:
    """What is the same for everybody: sky, the meadow beyond, fences, light."""
    scene = server.scene
    scene.set_background_image(np.full((8, 8, 3), SKY, np.uint8))
    scene.configure_fog(120.0, 600.0, color=SKY)
    scene.world_axes.visible = False
    scene.add_image(
        "/meadow", np.full((8, 8, 3), MEADOW, np.uint8), BEYOND, BEYOND, format="png",
        cast_shadow=False, receive_shadow=False, wxyz=FACING_UP, position=(MIDDLE, MIDDLE, -0.1),
    )  # fmt: skip
    scene.configure_default_lights(False)
    scene.configure_environment_map(None)
    scene.add_light_ambient("/daylight", intensity=1.9)
    sun = (100 * float(SUN_X), 100 * float(SUN_Y), 100 * float(SUN_Z))
    scene.add_light_directional("/sun", intensity=2.0, position=sun)
    scene.add_glb("/fences", _fence_glb(), cast_shadow=False)


class Stage:
    """The scene of one visitor."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self._client = client
        self._scene = client.scene
        self.on_drag: Callable[[int, float, float], None] = lambda index, x, y: None
        """Is told to which place (x, y) the landmark of an index was dragged."""
        self._marks: list[viser.SceneNodeHandle] = []
        self._labels: list[viser.LabelHandle] = []
        self._has_names = True
        self._view: View = "free"
        self._pose: Floats = np.zeros(6, np.float32)
        self._drone = self._scene.add_frame("/drone", show_axes=False)
        self._scene.add_glb("/drone/body", _drone_glb())
        camera = Camera()
        tilt = rotation_body_camera(camera).numpy()
        self._camera = self._scene.add_camera_frustum(
            "/drone/camera",
            fov=2 * math.atan(camera.height / 2 / camera.focal_px),
            aspect=camera.width / camera.height,
            scale=1.6,
            thickness=0.03,
            color=(255, 255, 255),
            wxyz=SO3.from_matrix(tilt).wxyz,
            cast_shadow=False,
        )
        clear = np.zeros((HEAT_PX, HEAT_PX, 4), np.uint8)
        across = REACH[1] - REACH[0]
        self._heat = self._scene.add_image(
            "/heat", clear, across, across, format="png", cast_shadow=False, receive_shadow=False,
            wxyz=FACING_UP, position=(MIDDLE, MIDDLE, HEAT_HEIGHT), visible=False,
        )  # fmt: skip
        self._path: viser.LineSegmentsHandle | None = None
        stem = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, SimulatorConfig().altitude]]], np.float32)
        self._stem = self._scene.add_line_segments("/stem", stem, colors=FLOWN, thickness=0.05)

    def show_field(self, layout: Layout) -> None:
        """Ground and landmarks of a field; the landmarks can be dragged."""
        across = FIELD_SIZE + 2 * GROUND_MARGIN
        ground = ground_picture(layout)
        with self._client.atomic():
            self._scene.add_image(
                "/ground", ground, across, across, format="jpeg", jpeg_quality=85,
                cast_shadow=False, receive_shadow=False, wxyz=FACING_UP, position=(MIDDLE, MIDDLE, 0.0),
            )  # fmt: skip
            for handle in self._marks:  # their names go with them
                handle.remove()
            self._marks, self._labels = [], []
            for index, mark in enumerate(layout.landmarks):
                self._add_landmark(index, mark)

    def _add_landmark(self, index: int, mark: Landmark) -> None:
        node = self._scene.add_glb(
            f"/landmarks/{index}",
            landmark_glb(mark.name),
            scale=mark.scale,
            wxyz=_yaw(mark.yaw),
            position=(mark.x, mark.y, 0.0),
        )
        kind = LANDMARK_CLASSES[mark.name]
        top = mark.scale * float(class_mesh(mark.name).corners[:, 2].max())
        label = self._scene.add_label(
            f"/landmarks/{index}/name",
            kind.noun,
            position=(0.0, 0.0, top + 0.25),  # viser scales a landmark's mesh, and not what hangs on it
            font_screen_scale=0.85,
            visible=self._has_names,
            anchor="bottom-center",
        )
        self._marks.append(node)
        self._labels.append(label)
        held: dict[str, npt.NDArray[np.float64]] = {}

        @node.on_drag("left")
        async def _(event: viser.SceneNodeDragEvent[Any]) -> None:
            if event.phase == "start":
                held["offset"] = np.array([*event.start_position]) - node.position
                held["before"] = node.position.copy()
            if "offset" not in held:
                return
            # The pointer's ray, where it is as high as the point that was grabbed.
            eye = event.client.camera.position
            along = np.array(event.end_position) - eye
            reach = (held["offset"][2] - eye[2]) / along[2] if abs(along[2]) > 1e-6 else -1.0
            if reach > 0:
                place = (eye + reach * along - held["offset"])[:2].clip(0.5, FIELD_SIZE - 0.5)
                node.position = (float(place[0]), float(place[1]), 0.0)
            if event.phase == "end":
                x, y = float(node.position[0]), float(node.position[1])
                node.position = held.pop("before")
                held.clear()
                self.on_drag(index, x, y)

    def show_names(self, is_shown: bool) -> None:
        """Show or hide what the landmarks are called."""
        self._has_names = is_shown
        for label in self._labels:
            label.visible = is_shown

    def show_task(self, choice: Choice) -> None:
        """The start, and, where there is one, the demonstrated path and the goal region."""
        self.show_heat(None)
        self.show_path(np.zeros((0, 2), np.float32))
        x, y, yaw = choice.task.start
        self.show_pose(np.array([x, y, SimulatorConfig().altitude, 0.0, 0.0, yaw], np.float32))
        path = choice.task.path
        angle = np.linspace(0, 2 * math.pi, 65)
        ring = np.stack([np.cos(angle), np.sin(angle)], -1)
        self._add_lines("/demonstration", _segments(path, PATH_HEIGHT)[::2], DEMONSTRATED, choice.has_goal)
        self._add_lines("/goal", _segments(ring * SUCCESS_M + path[-1], MARK_HEIGHT), GOAL, choice.has_goal)
        self._add_lines("/goal_point", _segments(ring * 0.5 + path[-1], MARK_HEIGHT), GOAL, choice.has_goal)
        self._add_lines("/start", _segments(ring * 0.8 + np.array([x, y]), MARK_HEIGHT), START, True)

    def _add_lines(
        self, name: str, points: npt.NDArray[np.float32], colour: tuple[int, int, int], is_shown: bool
    ) -> viser.LineSegmentsHandle:
        return self._scene.add_line_segments(name, points, colors=colour, thickness=0.14, visible=is_shown)

    def show_pose(self, pose_world: Floats) -> None:
        """Put the drone at a pose (6,), and the camera that follows it behind it."""
        self._pose = pose_world
        turn = rotation_world_body(torch.from_numpy(np.asarray(pose_world[None, 3:], np.float64)))[0].numpy()
        with self._client.atomic():
            self._drone.position = pose_world[:3]
            self._stem.position = (float(pose_world[0]), float(pose_world[1]), 0.0)
            self._drone.wxyz = SO3.from_matrix(turn).wxyz
            if self._view == "follow the drone":
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

    def show_view(self, view: View) -> None:
        """Change cameras."""
        self._view = view
        middle = np.array([MIDDLE, MIDDLE, 0.0])
        with self._client.atomic():
            match view:
                case "follow the drone":
                    self._follow()
                case "from above":
                    self._look(middle + np.array([0.0, -0.01, 42.0]), middle, up=(0, 1, 0))
                case _:
                    self._look(middle + np.array([-7.0, -40.0, 27.0]), middle - np.array([0.0, 3.0, 0.0]))

    def show_image(self, image: Bytes) -> None:
        """What the drone sees (H, W, 3), in its frustum."""
        self._camera.image = image

    def show_path(self, points: Floats) -> None:
        """The flown path (P, 2), on the ground, where it can be compared with what was demonstrated and expected."""
        lines = _segments(points, PATH_HEIGHT) if len(points) > 1 else np.zeros((0, 2, 3), np.float32)
        if self._path is None or not len(lines):
            placed = lines if len(lines) else np.zeros((1, 2, 3), np.float32)
            self._path = self._add_lines("/flown", placed, FLOWN, bool(len(lines)))
        else:
            self._path.points = lines
            self._path.visible = True

    def show_heat(self, picture: Bytes | None) -> None:
        """Both distributions (H, W, 4) on the ground, or nothing."""
        if picture is not None:
            self._heat.image = picture
        self._heat.visible = picture is not None
