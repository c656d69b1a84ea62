"""A flight as a Rerun recording (.rrd): everything seen, mapped, predicted and done, step by step."""

from __future__ import annotations

import hashlib
import importlib.util
import io
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image

from pvn.files import replacing
from pvn.geometry import rotation_body_camera, rotation_world_body
from pvn.model.visitation import GOAL, TRAJECTORY
from pvn.paths import Points
from pvn.simulator.meshes import Mesh, drone_mesh, fence_mesh, join_meshes, landmark_mesh
from pvn.viz import palette
from pvn.viz.axes import goal_circle
from pvn.viz.flight_record import FlightRecord, Maps
from pvn.viz.pictures import (
    EXTENT,
    REACH,
    Bytes,
    Picture,
    as_bytes,
    field_from_above,
    grounding_picture,
    in_muted_colours,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
)
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import FIELD_SIZE, Layout
from pvn.world.solids import top_height

NO_RERUN = 'rerun is not installed, so no .rrd can be written; pip install "pvn-drone[app]"'
GROUND_PX, MAP_PX = 320, 128
"""Width of the ground, and of pictures of maps, pixels."""


def has_rerun() -> bool:
    """Whether recordings can be written here: Rerun is an optional dependency."""
    return importlib.util.find_spec("rerun") is not None


def _encoded(rr: Any, picture: Bytes, form: Literal["png", "jpeg"] = "png") -> Any:
    """A picture (H, W, 3) as a file: lossless (png), or small (jpeg) if it is only for viewing."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, form, quality=85)
    return rr.EncodedImage(contents=file.getvalue(), media_type=f"image/{form}")


def _blueprint(rrb: Any, has_maps: bool, has_predictions: bool) -> Any:
    """The viewer's layout when the recording is opened."""
    field = rrb.Spatial3DView(
        origin="/world",
        name="field",
        background=(150, 178, 204),
        line_grid=False,
        eye_controls=rrb.EyeControls3D(
            position=(0.5 * FIELD_SIZE, -0.42 * FIELD_SIZE, 0.72 * FIELD_SIZE),
            look_target=(0.5 * FIELD_SIZE, 0.42 * FIELD_SIZE, 0.0),
        ),
    )
    maps = [
        rrb.Spatial2DView(origin="/maps/semantic", name="semantic map"),
        rrb.Spatial2DView(origin="/maps/grounding", name="grounding map"),
    ]
    predicted = rrb.Tabs(
        rrb.Spatial2DView(origin="/maps/predicted", name="predicted trajectory and goal"),
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
        right.append(rrb.Horizontal(*maps, *([predicted] if has_predictions else [])))
    return rrb.Blueprint(
        rrb.Horizontal(
            rrb.Vertical(rrb.TextDocumentView(origin="/caption", name="instruction"), field, row_shares=[1, 5]),
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
        vertex_positions=mesh.vertices,
        vertex_normals=mesh.normals,
        vertex_colors=mesh.colours,
        triangle_indices=mesh.triangles,
    )
    stream.log(path, shape, static=True)


def _log_field(rr: Any, stream: Any, layout: Layout) -> None:
    """Fences, and landmarks with their names if there are any."""
    stream.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
    _log_mesh(rr, stream, "world/fences", fence_mesh())
    if not layout.landmarks:
        return
    _log_mesh(rr, stream, "world/landmarks", join_meshes([landmark_mesh(mark) for mark in layout.landmarks]))
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


def _grid_map(rr: Any, picture: Bytes) -> Any:
    """A picture (H, W, 3) of the field from above, laid on the ground."""
    size = len(picture)
    form = rr.components.ImageFormat(width=size, height=size, color_model="RGB", channel_datatype="U8")
    return rr.GridMap(
        data=picture.tobytes(), format=form, cell_size=EXTENT / size, translation=(REACH[0], REACH[0], 0.0)
    )


def _log_maps(rr: Any, stream: Any, record: FlightRecord, above: Picture) -> None:
    """Semantic and grounding map at every step; distributions, and the ground with them, when predicted."""
    if not record.moments[0].has_prediction:
        stream.log("world/ground", _grid_map(rr, as_bytes(above)), static=True)
    origin, ranges = record.task.start, map_ranges(record.moments)
    if ranges is None:
        return
    for moment in record.moments:
        maps = moment.maps
        if maps is None:
            continue
        _set_time(stream, moment.step, record.step_seconds)
        for name, paint in (("semantic", semantic_picture), ("grounding", grounding_picture)):
            stream.log(f"maps/{name}", _encoded(rr, as_bytes(paint(maps, ranges, origin, MAP_PX))))
        if moment.is_planned and moment.has_prediction:
            _log_predictions(rr, stream, maps, origin, in_muted_colours(above))


def _log_predictions(rr: Any, stream: Any, maps: Maps, origin: tuple[float, float, float], ground: Picture) -> None:
    """Both distributions: as numbers, as a picture of the field, and on the ground in 3D."""
    assert maps.probability is not None
    for name, channel in (("trajectory", TRAJECTORY), ("goal", GOAL)):
        stream.log(f"distributions/{name}", rr.Tensor(maps.probability[channel], dim_names=("right", "forward")))
    picture = as_bytes(overlay_predictions(ground, prediction_heat(maps, origin, len(ground))))
    stream.log("maps/predicted", _encoded(rr, picture, "jpeg"))
    # Rerun has no transparent pictures in 3D, so the ground itself is repainted.
    stream.log("world/ground", _grid_map(rr, picture))


def _set_time(stream: Any, step: int, step_seconds: float) -> None:
    stream.set_time("step", sequence=step)
    stream.set_time("time", duration=step * step_seconds)


def _log_flight(rr: Any, stream: Any, record: FlightRecord) -> None:
    """Pose, picture and path at every step, and the pose after the last."""
    flown = record.flown_world
    rotations = rotation_world_body(torch.from_numpy(flown[:, 3:])).numpy()
    for step, (pose, rotation) in enumerate(zip(flown, rotations, strict=True)):
        _set_time(stream, step, record.step_seconds)
        stream.log("world/drone", rr.Transform3D(translation=pose[:3], mat3x3=rotation))
        below = flown[: step + 1, :3] * (1, 1, 0) + (0, 0, 0.2)  # on the ground, beside the demonstrated path
        stream.log(
            "world/flown",
            rr.LineStrips3D([flown[: step + 1, :3], below], colors=palette.rgb_bytes(palette.FLOWN), radii=(0.1, 0.06)),
        )
    for moment in record.moments:
        _set_time(stream, moment.step, record.step_seconds)
        stream.log("world/drone/camera", _encoded(rr, moment.image))


def _log_demonstration(rr: Any, stream: Any, demonstrated: Points) -> None:
    """The demonstrated path (P, 2), field frame, and the region in which a flight has to stop."""
    line, colour = np.c_[demonstrated, np.full(len(demonstrated), 0.25)], palette.rgb_bytes(palette.GOAL)
    shown = rr.LineStrips3D([line], colors=palette.rgb_bytes(palette.DEMONSTRATED), radii=0.1)
    stream.log("world/demonstrated", shown, static=True)
    x, y = demonstrated[-1].tolist()
    circle = np.pad(goal_circle((x, y)), ((0, 0), (0, 1)), constant_values=0.25)
    stream.log("world/goal/region", rr.LineStrips3D([circle], colors=colour, radii=0.08), static=True)
    stream.log("world/goal", rr.Points3D([(x, y, 0.4)], colors=colour, radii=0.4, labels="goal"), static=True)


def _log_curves(rr: Any, stream: Any, record: FlightRecord) -> None:
    """Stop probability, speed and commanded yaw rate over time."""
    stops = [(moment.step, moment.stop_probability) for moment in record.moments if moment.stop_probability is not None]
    turns = [(moment.step, float(moment.action[1])) for moment in record.moments]
    curves = {
        "stop/probability": ("stop probability", palette.STOP_PROBABILITY, stops),
        "motion/speed": ("speed, m/s", palette.SPEED, list(enumerate(record.speeds.tolist()))),
        "motion/yaw_rate": ("commanded yaw rate, rad/s", palette.YAW_RATE, turns),
    }
    for name, (label, colour, points) in curves.items():
        if not points:
            continue
        steps, values = np.array([step for step, _ in points]), [value for _, value in points]
        stream.log(
            f"plots/{name}", rr.SeriesLines(names=label, colors=palette.rgb_bytes(colour), widths=2.5), static=True
        )
        times = [
            rr.TimeColumn("step", sequence=steps),
            rr.TimeColumn("time", duration=steps * record.step_seconds),
        ]
        stream.send_columns(f"plots/{name}", times, rr.Scalars.columns(scalars=values))


def _log_caption(rr: Any, stream: Any, record: FlightRecord) -> None:
    """The instruction and the pilot, and at the end the outcome."""
    words = f"## “{record.task.instruction}”\n\nflown by **{record.pilot}**"
    _set_time(stream, 0, record.step_seconds)
    stream.log("caption", rr.TextDocument(words, media_type="text/markdown"))
    _set_time(stream, len(record.moments), record.step_seconds)
    verdict = "" if record.is_success is None else ": " + ("success" if record.is_success else "failure")
    stream.log("caption", rr.TextDocument(f"{words}: {record.outcome}{verdict}", media_type="text/markdown"))


def write_recording(record: FlightRecord, path: Path) -> None:
    """Write a flight as a Rerun recording with its own layout and two timelines, `step` and `time` (seconds)."""
    if path.suffix != ".rrd":
        raise ValueError(f"recording: got {path}, expected a name that ends in .rrd")
    if not has_rerun():
        raise ValueError(NO_RERUN)
    import rerun as rr
    import rerun.blueprint as rrb

    # The id is a hash of the flight, so that the same flight always makes the same recording.
    identity = hashlib.sha256(f"{record.pilot} {record.task.instruction}".encode())
    identity.update(record.flown_world.tobytes())
    stream = rr.RecordingStream("pvn", recording_id=identity.hexdigest()[:16], send_properties=False)
    stream.set_log_time_enabled(False)
    stream.set_log_tick_enabled(False)
    first = record.moments[0]
    has_maps = any(moment.maps is not None for moment in record.moments)
    has_predictions = any(moment.has_prediction for moment in record.moments)
    with replacing(path) as partial:
        stream.save(partial, _blueprint(rrb, has_maps, has_predictions))
        _log_field(rr, stream, record.task.layout)
        _log_mesh(rr, stream, "world/drone/body", drone_mesh())
        camera = record.camera
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
        if record.demonstrated is not None:
            _log_demonstration(rr, stream, record.demonstrated)
        _log_caption(rr, stream, record)
        _log_flight(rr, stream, record)
        _log_maps(rr, stream, record, field_from_above(record.task.layout, GROUND_PX))
        _log_curves(rr, stream, record)
        stream.disconnect()  # flushes everything to the file
