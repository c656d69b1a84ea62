"""A flight as a Rerun recording (.rrd): all that was seen, mapped, predicted and done, to look at step by step."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from pvn.files import replacing
from pvn.geometry import rotation_body_camera, rotation_world_body
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.viz.flight_picture import outcome
from pvn.viz.flight_record import Maps, Recorded
from pvn.viz.map_pictures import (
    as_bytes,
    blend_heat,
    grounding_picture,
    heat,
    map_ranges,
    picture_of_field,
    semantic_picture,
    speeds,
)
from pvn.viz.meshes import Mesh, drone_mesh, join, landmark_mesh
from pvn.viz.paper_figures import REACH
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.solids import top_height
from pvn.world.task import SUCCESS_M

MISSING = 'rerun is not installed, so no .rrd can be written; pip install "pvn[app]"'
GROUND_PX, MAP_PX = 320, 128
FLOWN, SHOWN, GOAL_COLOUR = (86, 180, 233), (255, 255, 255), (230, 159, 0)
STOP_COLOUR, SPEED_COLOUR, TURN_COLOUR = (213, 94, 0), (0, 114, 178), (0, 158, 115)
FENCE_HEIGHT_M, FENCE_THICK_M = 2.4, 0.1
# Middle and half size along x and y, and colour, of the fences as the simulator paints them: west, east, south, north.
_HALF = FIELD_SIZE / 2
FENCES = (
    ((0.0, _HALF), (FENCE_THICK_M, _HALF), (242, 204, 20)),
    ((FIELD_SIZE, _HALF), (FENCE_THICK_M, _HALF), (209, 31, 26)),
    ((_HALF, 0.0), (_HALF, FENCE_THICK_M), (242, 242, 242)),
    ((_HALF, FIELD_SIZE), (_HALF, FENCE_THICK_M), (31, 71, 204)),
)


def has_rerun() -> bool:
    """Whether recordings can be written here."""
    return importlib.util.find_spec("rerun") is not None


def _encoded(rr: Any, picture: npt.NDArray[np.uint8], form: Literal["png", "jpeg"] = "png") -> Any:
    """A picture (H, W, 3), as it is (png) or, where it only serves to be looked at, small (jpeg)."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, form, quality=85)
    return rr.EncodedImage(contents=file.getvalue(), media_type=f"image/{form}")


def _blueprint(rrb: Any, has_maps: bool, has_heat: bool) -> Any:
    """How the viewer is laid out at first."""
    field = rrb.Spatial3DView(
        origin="/world",
        name="field",
        background=(150, 178, 204),
        line_grid=False,
        eye_controls=rrb.EyeControls3D(
            position=(_HALF, -0.42 * FIELD_SIZE, 0.72 * FIELD_SIZE), look_target=(_HALF, 0.42 * FIELD_SIZE, 0.0)
        ),
    )
    maps = [
        rrb.Spatial2DView(origin="/maps/semantic", name="semantic map"),
        rrb.Spatial2DView(origin="/maps/grounding", name="grounding map"),
    ]
    expected = rrb.Tabs(
        rrb.Spatial2DView(origin="/maps/expected", name="expected path and goal"),
        rrb.TensorView(origin="/distributions/trajectory", name="trajectory distribution"),
        rrb.TensorView(origin="/distributions/goal", name="goal distribution"),
        active_tab=0,
    )
    series = rrb.Horizontal(
        rrb.TimeSeriesView(
            origin="/plots/stop", name="stop probability", axis_y=rrb.ScalarAxis(range=(0.0, 1.0), zoom_lock=True)
        ),
        rrb.TimeSeriesView(origin="/plots/motion", name="speed and yaw rate"),
    )
    right = [rrb.Spatial2DView(origin="/world/drone/camera", name="what the drone sees")]
    if has_maps:
        right.append(rrb.Horizontal(*maps, *([expected] if has_heat else [])))
    return rrb.Blueprint(
        rrb.Horizontal(
            rrb.Vertical(rrb.TextDocumentView(origin="/told", name="instruction"), field, row_shares=[1, 5]),
            rrb.Vertical(*right, series, row_shares=[4, 3, 3] if has_maps else [4, 3]),
            column_shares=[1, 1],
        ),
        rrb.TimePanel(timeline="time", state="collapsed"),
        rrb.BlueprintPanel(state="collapsed"),
        rrb.SelectionPanel(state="collapsed"),
        auto_views=False,
    )


def _log_mesh(rr: Any, stream: Any, path: str, mesh: Mesh) -> None:
    shape = rr.Mesh3D(
        vertex_positions=mesh.corners,
        vertex_normals=mesh.normals,
        vertex_colors=mesh.colours,
        triangle_indices=mesh.triangles,
    )
    stream.log(path, shape, static=True)


def _log_field(rr: Any, stream: Any, layout: Layout) -> None:
    """Fences, landmarks and their names, if there are any: what does not change."""
    stream.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    middles, halves, colours = zip(*FENCES, strict=True)
    stream.log(
        "world/fences",
        rr.Boxes3D(
            centers=[(*middle, FENCE_HEIGHT_M / 2) for middle in middles],
            half_sizes=[(*half, FENCE_HEIGHT_M / 2) for half in halves],
            colors=colours,
            fill_mode="solid",
        ),
        static=True,
    )
    if not layout.landmarks:
        return
    _log_mesh(rr, stream, "world/landmarks", join([landmark_mesh(mark) for mark in layout.landmarks]))
    kinds = [LANDMARK_CLASSES[mark.name] for mark in layout.landmarks]
    tops = [top_height(kind.solids) * mark.scale for kind, mark in zip(kinds, layout.landmarks, strict=True)]
    names = rr.Points3D(
        [(mark.x, mark.y, top + 0.5) for mark, top in zip(layout.landmarks, tops, strict=True)],
        labels=[kind.noun for kind in kinds],
        colors=(255, 255, 255),
        radii=0.08,
        show_labels=True,
    )
    stream.log("world/names", names, static=True)


def _grid_map(rr: Any, picture: npt.NDArray[np.uint8]) -> Any:
    """A picture (H, W, 3) of the field from above as its ground."""
    size = len(picture)
    form = rr.components.ImageFormat(width=size, height=size, color_model="RGB", channel_datatype="U8")
    metres = REACH[1] - REACH[0]
    return rr.GridMap(
        data=picture.tobytes(), format=form, cell_size=metres / size, translation=(REACH[0], REACH[0], 0.0)
    )


def _log_maps(rr: Any, stream: Any, recorded: Recorded, above: npt.NDArray[np.float64]) -> None:
    """Semantic and grounding map at every step; distributions, and the ground, when predicted."""
    if recorded.moments[0].maps is None or recorded.moments[0].maps.probability is None:
        stream.log("world/ground", _grid_map(rr, as_bytes(above)), static=True)
    origin, ranges = recorded.task.start, map_ranges(recorded.moments)
    if ranges is None:
        return
    for moment in recorded.moments:
        maps = moment.maps
        if maps is None:
            continue
        _set_time(stream, moment.step, recorded.step_seconds)
        for name, draw, span in zip(
            ("semantic", "grounding"), (semantic_picture, grounding_picture), ranges, strict=True
        ):
            picture = as_bytes(draw(maps, span, origin, MAP_PX))
            stream.log(f"maps/{name}", _encoded(rr, picture))
        if moment.is_planned and maps.probability is not None:
            _log_expected(rr, stream, maps, origin, above)


def _log_expected(
    rr: Any, stream: Any, maps: Maps, origin: tuple[float, float, float], above: npt.NDArray[np.float64]
) -> None:
    """Both distributions: as they are, as a picture of the field, and on the ground of the field itself."""
    assert maps.probability is not None
    for name, channel in (("trajectory", TRAJECTORY), ("goal", GOAL)):
        stream.log(f"distributions/{name}", rr.Tensor(maps.probability[channel], dim_names=("right", "forward")))
    blended = as_bytes(blend_heat(above, heat(maps, origin, len(above))))
    stream.log("maps/expected", _encoded(rr, blended, "jpeg"))
    # Rerun does not let a picture in 3D be seen through, so the ground itself is painted anew.
    stream.log("world/ground", _grid_map(rr, blended))


def _set_time(stream: Any, step: int, step_seconds: float) -> None:
    stream.set_time("step", sequence=step)
    stream.set_time("time", duration=step * step_seconds)


def _log_flight(rr: Any, stream: Any, recorded: Recorded) -> None:
    """Pose, picture and path at every step, and the pose after the last."""
    flown = recorded.flown_world
    rotations = rotation_world_body(torch.from_numpy(flown[:, 3:])).numpy()
    for step, (pose, rotation) in enumerate(zip(flown, rotations, strict=True)):
        _set_time(stream, step, recorded.step_seconds)
        stream.log("world/drone", rr.Transform3D(translation=pose[:3], mat3x3=rotation))
        below = flown[: step + 1, :3] * (1, 1, 0) + (0, 0, 0.2)  # on the ground, beside the demonstrated path
        stream.log("world/flown", rr.LineStrips3D([flown[: step + 1, :3], below], colors=FLOWN, radii=(0.1, 0.06)))
    for moment in recorded.moments:
        _set_time(stream, moment.step, recorded.step_seconds)
        stream.log("world/drone/camera", _encoded(rr, moment.image))


def _log_demonstration(rr: Any, stream: Any, recorded: Recorded) -> None:
    """The demonstrated path and the region where a flight may end."""
    task = recorded.task
    shown = np.c_[task.path, np.full(len(task.path), 0.25)]
    stream.log("world/demonstrated", rr.LineStrips3D([shown], colors=SHOWN, radii=0.1), static=True)
    angle = np.linspace(0, 2 * math.pi, 65)
    x, y = task.goal
    circle = np.c_[x + SUCCESS_M * np.cos(angle), y + SUCCESS_M * np.sin(angle), np.full(65, 0.25)]
    stream.log("world/goal/region", rr.LineStrips3D([circle], colors=GOAL_COLOUR, radii=0.08), static=True)
    stream.log("world/goal", rr.Points3D([(x, y, 0.4)], colors=GOAL_COLOUR, radii=0.4, labels="goal"), static=True)


def _log_curves(rr: Any, stream: Any, recorded: Recorded) -> None:
    """Stop probability, speed and commanded yaw rate over time."""
    chances = [(moment.step, moment.stop_chance) for moment in recorded.moments if moment.stop_chance is not None]
    turns = [(moment.step, float(moment.action[1])) for moment in recorded.moments]
    curves = {
        "stop/probability": ("stop probability", STOP_COLOUR, chances),
        "motion/speed": ("speed, m/s", SPEED_COLOUR, list(enumerate(speeds(recorded).tolist()))),
        "motion/yaw_rate": ("yaw rate asked for, rad/s", TURN_COLOUR, turns),
    }
    for name, (label, colour, points) in curves.items():
        if not points:
            continue
        steps, values = np.array([step for step, _ in points]), [value for _, value in points]
        stream.log(f"plots/{name}", rr.SeriesLines(names=label, colors=colour, widths=2.5), static=True)
        times = [
            rr.TimeColumn("step", sequence=steps),
            rr.TimeColumn("time", duration=steps * recorded.step_seconds),
        ]
        stream.send_columns(f"plots/{name}", times, rr.Scalars.columns(scalars=values))


def _log_words(rr: Any, stream: Any, recorded: Recorded) -> None:
    """The instruction, and at the end how it went."""
    told = f"## “{recorded.task.instruction}”\n\nflown by **{recorded.system}**"
    _set_time(stream, 0, recorded.step_seconds)
    stream.log("told", rr.TextDocument(told, media_type="text/markdown"))
    num_steps = len(recorded.moments)
    _set_time(stream, num_steps, recorded.step_seconds)
    end = outcome(recorded.distance, num_steps, recorded.has_stopped)
    verdict = "" if recorded.is_success is None else ": " + ("success" if recorded.is_success else "failure")
    stream.log("told", rr.TextDocument(f"{told}: {end}{verdict}", media_type="text/markdown"))


def write_recording(recorded: Recorded, path: Path) -> None:
    """Write a flight as a Rerun recording with a layout of its own; timelines `step` and `time` (seconds)."""
    if path.suffix != ".rrd":
        raise ValueError(f"recording: got {path}, expected a name that ends in .rrd")
    if not has_rerun():
        raise ValueError(MISSING)
    import rerun as rr
    import rerun.blueprint as rrb

    # A name that the flight itself gives: the same flight is the same recording, and no other has its name.
    mark = hashlib.sha256(f"{recorded.system} {recorded.task.instruction}".encode())
    mark.update(recorded.flown_world.tobytes())
    stream = rr.RecordingStream("pvn", recording_id=mark.hexdigest()[:16], send_properties=False)
    stream.set_log_time_enabled(False)
    stream.set_log_tick_enabled(False)
    first = recorded.moments[0]
    has_maps = any(moment.maps is not None for moment in recorded.moments)
    has_heat = any(moment.maps is not None and moment.maps.probability is not None for moment in recorded.moments)
    with replacing(path) as partial:
        stream.save(partial, _blueprint(rrb, has_maps, has_heat))
        _log_field(rr, stream, recorded.task.layout)
        _log_mesh(rr, stream, "world/drone/body", drone_mesh())
        camera = recorded.camera
        stream.log("world/drone/camera", rr.Transform3D(mat3x3=rotation_body_camera(camera).numpy()), static=True)
        pinhole = rr.Pinhole(
            focal_length=camera.focal_px,
            width=first.image.shape[1],
            height=first.image.shape[0],
            camera_xyz=rr.ViewCoordinates.RDF,
            image_plane_distance=3.0,
            color=(30, 30, 30),
        )
        stream.log("world/drone/camera", pinhole, static=True)
        if recorded.has_goal:
            _log_demonstration(rr, stream, recorded)
        _log_words(rr, stream, recorded)
        _log_flight(rr, stream, recorded)
        _log_maps(rr, stream, recorded, picture_of_field(recorded.task.layout, GROUND_PX))
        _log_curves(rr, stream, recorded)
        stream.disconnect()  # all is in the file now
