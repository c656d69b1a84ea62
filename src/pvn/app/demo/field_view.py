"""The field in 3D on the page of one visitor; field frame throughout: x east, y north, z up, metres."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import viser
from viser.transforms import SO3

from pvn.app.demo.cameras import CameraMode, camera_place
from pvn.app.demo.flight_setup import FlightSetup, Pose, move_landmark, turn_landmark
from pvn.app.demo.pictures import GROUND_MARGIN, MAP_PX, ground_picture
from pvn.app.demo.scene import FACING_UP, MIDDLE, drone_glb, handle_glb, landmark_glb, lines_through
from pvn.app.demo.shown_flight import Touch
from pvn.geometry import Camera, rotation_body_camera, rotation_world_body
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.meshes import class_mesh
from pvn.viz import palette
from pvn.viz.flight_record import Floats
from pvn.viz.pictures import EXTENT, Bytes
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.shapes import solid_extent
from pvn.world.task import SUCCESS_M

FLOWN, DEMONSTRATED, GOAL, START, TOUCHED = map(
    palette.rgb_bytes, (palette.FLOWN, palette.DEMONSTRATED, palette.GOAL, palette.START, palette.TOUCHED)
)
NO_POINTS = np.zeros((0, 2))
CIRCLE = np.stack([trig(np.linspace(0, 2 * np.pi, 49)) for trig in (np.cos, np.sin)], -1)
"""Points (49, 2) of a circle of radius 1, metres."""
PATH_HEIGHT, PREDICTIONS_HEIGHT, RING_HEIGHT, HANDLE_HEIGHT = 0.35, 0.06, 0.12, 0.4
"""Heights above the ground; different, so that things that overlap do not flicker."""
START_RADIUS, PATH_END_RADIUS = 1.6, 0.5
"""Radii of the rings below the drone and at the end of the demonstrated path."""
DRAG_MARGIN = 0.5
"""Things can be dragged up to this distance from the fences, metres."""
ALTITUDE = SimulatorConfig().altitude

Place = npt.NDArray[np.float64]
Change = Callable[[Callable[[FlightSetup], FlightSetup]], None]
"""Called with an edit that makes another setup of the present one."""


def _on_the_level(event: viser.SceneNodeDragEvent[Any], height: float) -> Place | None:
    """Where the pointer's ray is at this height above the ground, (2,); None if nowhere."""
    eye = event.client.camera.position
    along = np.array(event.end_position) - eye
    reach = (height - eye[2]) / along[2] if abs(along[2]) > 1e-6 else -1.0
    with np.errstate(over="ignore", invalid="ignore"):
        place = (eye + reach * along)[:2]
    return place.clip(0.0, FIELD_SIZE) if reach > 0 and np.isfinite(place).all() else None


def _hovering(x: float, y: float, yaw: float) -> Floats:
    """The pose (6,) of a drone that hovers."""
    return np.array([x, y, ALTITUDE, 0.0, 0.0, yaw], np.float32)


def _reach(landmark: Landmark) -> float:
    """How far a landmark's solids reach from its middle."""
    return landmark.scale * solid_extent(landmark.name)


class FieldView3D:
    """The 3D view of one visitor: field, drone, paths and predictions."""

    def __init__(self, client: viser.ClientHandle, change: Change) -> None:
        self.client, self._scene, self._change = client, client.scene, change
        self._landmarks: list[tuple[Landmark, viser.GlbHandle, viser.LabelHandle]] = []
        self._selected: int | None = None
        self._has_names = True
        self._is_flying = False
        self._camera_mode: CameraMode = "overview"
        self._aspect = 0.0
        self._pose: Floats = np.zeros(6, np.float32)
        self._lines: dict[str, viser.LineSegmentsHandle] = {}
        self._drone = self._scene.add_frame("/drone", show_axes=False)
        body = self._scene.add_glb("/drone/body", drone_glb(), cast_shadow=False, receive_shadow=False)
        self._drag(
            body, lambda: self._drone.position,
            lambda x, y: self._place_drone((x, y, float(self._pose[5]))),
            lambda x, y: change(lambda setup: setup.starting_at((x, y, setup.start[2]))),
        )  # fmt: skip
        self._start_handle = self._add_handle("/start_handle", palette.START)
        self._turn_by(
            self._start_handle, lambda: self._pose[:2].astype(float),
            lambda yaw: self._place_drone((*self._pose[:2].tolist(), yaw)),
            lambda yaw: change(lambda setup: setup.starting_at((*setup.start[:2], yaw))),
        )  # fmt: skip
        self._landmark_handle = self._add_handle("/landmark_handle", palette.GOAL)
        self._landmark_handle.visible = False
        self._turn_by(self._landmark_handle, self._selected_place, self._turn_selected, self._drop_selected)
        self._add_drone_camera()
        client.camera.on_update(lambda _: self._on_resize())

    def _add_drone_camera(self) -> None:
        camera = Camera()
        self._frustum = self._scene.add_camera_frustum(
            "/drone/camera",
            fov=2 * math.atan(camera.height / 2 / camera.focal_px),
            aspect=camera.width / camera.height,
            scale=1.6,
            thickness=0.03,
            color=(255, 255, 255),
            wxyz=SO3.from_matrix(rotation_body_camera(camera).numpy()).wxyz,
            cast_shadow=False,
        )
        transparent = np.zeros((MAP_PX, MAP_PX, 4), np.uint8)
        self._predictions = self._scene.add_image(
            "/predictions", transparent, EXTENT, EXTENT, format="png", cast_shadow=False, receive_shadow=False,
            wxyz=FACING_UP, position=(MIDDLE, MIDDLE, PREDICTIONS_HEIGHT), visible=False,
        )  # fmt: skip
        plumb_line = np.array([[[0.0, 0.0, 0.0], [0.0, 0.0, ALTITUDE]]], np.float32)
        self._plumb_line = self._scene.add_line_segments("/plumb_line", plumb_line, colors=FLOWN, thickness=0.05)

    # The field.

    def show_layout(self, layout: Layout) -> None:
        """Show the ground and the landmarks of a field; the landmarks can be dragged."""
        across = FIELD_SIZE + 2 * GROUND_MARGIN
        ground = ground_picture(layout)
        with self.client.atomic():
            self._scene.add_image(
                "/ground", ground, across, across, format="jpeg", jpeg_quality=85,
                cast_shadow=False, receive_shadow=False, wxyz=FACING_UP, position=(MIDDLE, MIDDLE, 0.0),
            )  # fmt: skip
            for index, landmark in enumerate(layout.landmarks):
                self._show_landmark(index, landmark)
            for _, node, _ in self._landmarks[len(layout.landmarks) :]:
                node.remove()  # with its name
            del self._landmarks[len(layout.landmarks) :]
            self._select(self._selected)

    def put_back(self, setup: FlightSetup) -> None:
        """Put landmarks and drone back to where they are set up, after a move that was refused."""
        with self.client.atomic():
            for index, landmark in enumerate(setup.layout.landmarks[: len(self._landmarks)]):
                self._show_landmark(index, landmark)
            self._select(self._selected)
            if not self._is_flying:
                self._place_drone(setup.start)

    def _show_landmark(self, index: int, landmark: Landmark) -> None:
        """Show a landmark in place of the one with this index; an equal mesh is only moved."""
        place, turn = (landmark.x, landmark.y, 0.0), SO3.from_z_radians(landmark.yaw).wxyz
        if index < len(self._landmarks):
            shown, node, label = self._landmarks[index]
            if (shown.name, shown.radius, shown.yaw) == (landmark.name, landmark.radius, landmark.yaw):
                node.position, node.wxyz = np.array(place), turn
                self._landmarks[index] = (landmark, node, label)
                return
            node.remove()
        node = self._scene.add_glb(
            f"/landmarks/{index}",
            landmark_glb(landmark.name, landmark.yaw),
            scale=landmark.scale,
            wxyz=turn,
            position=place,
            cast_shadow=False,  # shadows are in the picture of the ground
            receive_shadow=False,
        )
        label = self._scene.add_label(
            f"/landmarks/{index}/name",
            LANDMARK_CLASSES[landmark.name].noun,
            font_screen_scale=0.85,
            visible=self._has_names,
        )
        self._place_name(landmark, label)
        self._landmarks[index : index + 1] = [(landmark, node, label)]

        def carry(x: float, y: float) -> None:
            node.position = np.array((x, y, 0.0))
            self._show_landmark_handle(x, y, landmark.yaw)

        def drop(x: float, y: float) -> None:
            self._change(lambda setup: move_landmark(setup, index, x, y))

        self._drag(node, lambda: node.position, carry, drop)
        node.on_click(lambda _: self._select(None if self._selected == index else index))

    def _place_name(self, landmark: Landmark, label: viser.LabelHandle) -> None:
        """Put a name above its landmark; for the following camera at its foot, where it hides nothing beyond."""
        is_below = self._camera_mode == "follow"
        top = landmark.scale * float(class_mesh(landmark.name).vertices[:, 2].max())
        # viser scales the mesh of a node, but not its children.
        label.position = np.array((0.0, 0.0, -0.2 if is_below else top + 0.25))
        label.anchor = "top-center" if is_below else "bottom-center"

    def show_names(self, is_shown: bool) -> None:
        """Show or hide the names of the landmarks."""
        self._has_names = is_shown
        for _, _, label in self._landmarks:
            label.visible = is_shown

    # What the visitor moves.

    def _drag(
        self,
        node: Any,
        place: Callable[[], npt.NDArray[Any]],
        carry: Callable[[float, float], None],
        drop: Callable[[float, float], None],
    ) -> None:
        """Let the visitor drag a node: `carry` moves it, `drop` is called at the end."""
        grabbed: dict[str, Place] = {}

        @node.on_drag("left")  # type: ignore[untyped-decorator]
        async def _(event: viser.SceneNodeDragEvent[Any]) -> None:
            if event.phase == "start" and not self._is_flying:
                grabbed["point"] = np.array([*event.start_position])
                grabbed["offset"] = grabbed["point"][:2] - place()[:2]
            if "offset" not in grabbed:
                return
            found = _on_the_level(event, grabbed["point"][2])
            if found is not None:
                carry(*(found - grabbed["offset"]).clip(DRAG_MARGIN, FIELD_SIZE - DRAG_MARGIN).tolist())
            if event.phase == "end":
                grabbed.clear()
                drop(float(place()[0]), float(place()[1]))

    def _add_handle(self, name: str, colour: str) -> Any:
        return self._scene.add_glb(name, handle_glb(colour), cast_shadow=False, receive_shadow=False)

    def _turn_by(
        self, handle: Any, centre: Callable[[], Place], turn: Callable[[float], None], drop: Callable[[float], None]
    ) -> None:
        """Let the visitor turn something about its centre (2,) by a handle; `drop` is called at the end."""

        @handle.on_drag("left")  # type: ignore[untyped-decorator]
        async def _(event: viser.SceneNodeDragEvent[Any]) -> None:
            found = None if self._is_flying else _on_the_level(event, HANDLE_HEIGHT)
            if found is None:
                return
            x, y = found - centre()
            yaw = math.atan2(y, x)
            turn(yaw)
            if event.phase == "end":
                drop(yaw)

    def _place_drone(self, start: Pose) -> None:
        self.show_pose(_hovering(*start))
        self._show_start(*start)

    def _selected_place(self) -> Place:
        landmark = self._landmarks[self._selected or 0][0]
        return np.array([landmark.x, landmark.y])

    def _turn_selected(self, yaw: float) -> None:
        landmark, node, _ = self._landmarks[self._selected or 0]
        node.wxyz = SO3.from_z_radians(yaw).wxyz
        self._show_landmark_handle(landmark.x, landmark.y, yaw)

    def _drop_selected(self, yaw: float) -> None:
        index = self._selected
        if index is not None:
            self._change(lambda setup: turn_landmark(setup, index, yaw))

    def _select(self, index: int | None) -> None:
        """Show the handle that turns a landmark; none for None."""
        self._selected = index if index is not None and index < len(self._landmarks) else None
        if self._selected is None or self._is_flying:
            self._landmark_handle.visible = False
            self._show_lines("/selected", lines_through(NO_POINTS, 0.0), GOAL)
        else:
            landmark = self._landmarks[self._selected][0]
            self._show_landmark_handle(landmark.x, landmark.y, landmark.yaw)

    def _show_landmark_handle(self, x: float, y: float, yaw: float) -> None:
        if self._selected is not None:
            radius = _reach(self._landmarks[self._selected][0]) + 1.0
            self._show_ring("/selected", self._landmark_handle, (x, y, yaw), radius, GOAL)

    def _show_start(self, x: float, y: float, yaw: float) -> None:
        self._show_ring("/start", self._start_handle, (x, y, yaw), START_RADIUS, START)
        self._start_handle.visible = not self._is_flying

    def _show_ring(self, name: str, handle: Any, pose: Pose, radius: float, colour: tuple[int, int, int]) -> None:
        """Show a ring with its handle."""
        x, y, yaw = pose
        self._show_lines(name, lines_through(np.array([x, y]) + radius * CIRCLE, RING_HEIGHT), colour)
        handle.position = np.array((x + radius * math.cos(yaw), y + radius * math.sin(yaw), HANDLE_HEIGHT))
        handle.visible = True

    # The flight.

    def show_flying(self, is_flying: bool) -> None:
        """During a flight nothing can be dragged and there are no handles; afterwards they are where the drone is."""
        self._is_flying = is_flying
        self._start_handle.visible = False
        if not is_flying:
            x, y, yaw = self._pose[[0, 1, 5]].tolist()
            self._show_start(x, y, yaw)
        self._select(self._selected)

    def show_setup(self, setup: FlightSetup) -> None:
        """Show the start and, if there is one, the demonstrated path with its goal; nothing is flown yet."""
        self.show_predictions(None)
        self.show_path(NO_POINTS)
        self.show_touched({})
        self._place_drone(setup.start)
        path = NO_POINTS if setup.demonstrated is None else setup.demonstrated
        goal = path[-1:]
        self._show_lines("/demonstration", lines_through(path, PATH_HEIGHT)[::2], DEMONSTRATED)
        # The end of the path has a small ring too: the goal's ring is hard to see over a predicted goal.
        for name, radius, colour in (("/goal", SUCCESS_M, GOAL), ("/path_end", PATH_END_RADIUS, DEMONSTRATED)):
            ring = goal + radius * CIRCLE if len(goal) else NO_POINTS
            self._show_lines(name, lines_through(ring, RING_HEIGHT), colour)

    def show_touched(self, touched: Mapping[int, Touch]) -> None:
        """Mark landmarks, by index, that were flown through or brushed: pink rings, and a word at their names."""
        rings = [lines_through(NO_POINTS, 0.0)]
        for index, (landmark, _, label) in enumerate(self._landmarks):
            noun = LANDMARK_CLASSES[landmark.name].noun
            words = {"through": f"✖ {noun}: flown through", "brushed": f"✖ {noun}: brushed", None: noun}
            if label.text != words[touched.get(index)]:
                label.text = words[touched.get(index)]
            if index in touched:
                circle = np.array([landmark.x, landmark.y]) + (_reach(landmark) + 0.3) * CIRCLE
                rings += [lines_through(circle, height) for height in (RING_HEIGHT, ALTITUDE)]
        self._show_lines("/touched", np.concatenate(rings), TOUCHED)

    def _show_lines(self, name: str, lines: npt.NDArray[np.float32], colour: tuple[int, int, int]) -> None:
        """Show lines (N, 2, 3) in place of those shown under this name."""
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
        with self.client.atomic():
            self._drone.position = pose_world[:3]
            self._plumb_line.position = np.array((float(pose_world[0]), float(pose_world[1]), 0.0))
            self._drone.wxyz = SO3.from_matrix(rotation).wxyz
            if self._camera_mode == "follow":
                self._look()

    def show_image(self, image: Bytes) -> None:
        """Show what the drone sees (H, W, 3), in its frustum."""
        self._frustum.image = image

    def show_path(self, points: npt.NDArray[Any]) -> None:
        """Show the flown path (P, 2), on the ground beside the demonstrated and the predicted one."""
        self._show_lines("/flown", lines_through(points, PATH_HEIGHT), FLOWN)

    def show_predictions(self, picture: Bytes | None) -> None:
        """Show both predicted distributions (H, W, 4) on the ground; None hides them."""
        if picture is not None:
            self._predictions.image = picture
        self._predictions.visible = picture is not None

    # The camera.

    def _look(self) -> None:
        camera = self.client.camera
        place = camera_place(self._camera_mode, self._pose, camera.fov, camera.aspect)
        camera.up_direction, camera.position, camera.look_at = place.up, place.position, place.target

    def show_camera(self, mode: CameraMode) -> None:
        """Look at the field from another place."""
        self._camera_mode, self._aspect = mode, self.client.camera.aspect
        with self.client.atomic():
            # Both would cover what the drone flies to.
            self._frustum.visible = self._plumb_line.visible = mode != "follow"
            for landmark, _, label in self._landmarks:
                self._place_name(landmark, label)
            self._look()

    def _on_resize(self) -> None:
        """Bring the whole field into view again if the window has another shape."""
        if abs(self.client.camera.aspect - self._aspect) > 0.02 * self._aspect:
            self.show_camera(self._camera_mode)
