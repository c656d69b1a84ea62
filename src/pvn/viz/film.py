"""A flight as a film: .mp4, or .webp and .gif for web pages.

A frame shows the field from above, the drone's view, the agent's maps, and its speed and stop probability.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from pvn.files import replacing
from pvn.paths import distances_along, points_along
from pvn.viz import palette
from pvn.viz.axes import goal_circle, start_arrow
from pvn.viz.drawn_text import font_of, quoted, runs_of, wrapped
from pvn.viz.flight_record import FlightRecord, Floats, Moment, interpolate_pose
from pvn.viz.labels import along_path, place_names
from pvn.viz.pictures import (
    EXTENT,
    Bytes,
    MapRanges,
    Picture,
    as_bytes,
    field_from_above,
    grounding_picture,
    in_muted_colours,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
    to_pixels,
    views_from,
)
from pvn.world.task import SUCCESS_M

SUFFIXES = (".mp4", ".webp", ".gif")
NO_FFMPEG = 'imageio-ffmpeg is not installed, so no .mp4 can be written; pip install "pvn-drone[app]"'

WIDTH, HEIGHT = 1280, 720
FRAMES_PER_STEP = 6
FRAMES_PER_VIEW = 2
"""The view changes every second frame, since it takes longer to draw than all the rest."""
HOLD_SECONDS = 2.0
"""How long the last frame is shown."""
WEB_SCALE = {".webp": 0.75, ".gif": 0.5}
"""Size relative to an .mp4 film; files for web pages should be small."""
WEB_STRIDE = {".webp": 2, ".gif": 3}
"""For web pages, every second or third frame is drawn."""
WEBP_QUALITY, GIF_COLOURS = 70, 128
WEBP_EFFORT = 2
"""How hard the encoder tries, 0 to 6; with more, films take twice as long to write and are hardly smaller."""
SUPERSAMPLING = 2
"""The field is drawn this many times larger and then reduced, which smooths lines."""
TITLE_HEIGHT = 84
"""Height of the instruction, pixels."""
SMALLEST_PX = 9
"""Smallest font of an instruction, pixels."""
NAME_PX = 12
"""Font of landmarks' names, pixels."""
DASH_PX = 16
"""Length of a dash, and of the gap after it, in the supersampled picture."""

# Left, top, right and bottom of each part, pixels.
FIELD = (16, 112, 608, 704)
VIEW = (624, 112, 1264, 472)
SEMANTIC = (624, 508, 820, 704)
GROUNDING = (832, 508, 1028, 704)
STOP_CURVE = (1076, 508, 1264, 588)
SPEED_CURVE = (1076, 620, 1264, 684)

OWN_PX = (160, 120)
"""Largest size of the agent's own picture, in the corner of the view."""

Box = tuple[int, int, int, int]
Point = tuple[float, float]


def _size(box: Box) -> tuple[int, int]:
    return box[2] - box[0], box[3] - box[1]


def _place(point: Sequence[float] | npt.NDArray[np.floating]) -> Point:
    """Where a point (x, y), field frame, is in the supersampled picture of the field."""
    return to_pixels(point, SUPERSAMPLING * _size(FIELD)[0])


def _draw_note(
    draw: ImageDraw.ImageDraw, place: Point, text: str, *, size: int = 13, anchor: str = "ls",
    colour: str = palette.FILM_NOTE, is_bold: bool = False,
) -> None:  # fmt: skip
    draw.text(place, text, fill=colour, font=font_of(size, is_bold=is_bold), anchor=anchor)


def _draw_dashed(draw: ImageDraw.ImageDraw, points: Sequence[Point], colour: str, width: int) -> None:
    """A dashed line through points, pixels."""
    line = np.array(points)
    length = float(distances_along(line)[-1])
    ends = points_along(line, np.linspace(0, length, 2 * (max(1, int(length / DASH_PX)) // 2) + 2))
    for begin, end in zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True):
        draw.line([tuple(begin), tuple(end)], fill=colour, width=width)


def _draw_outlined(draw: ImageDraw.ImageDraw, points: Sequence[Point], colour: str, width: int) -> None:
    if len(points) > 1:
        draw.line(points, fill=palette.OUTLINE, width=width + 4, joint="curve")
        draw.line(points, fill=colour, width=width, joint="curve")


def _draw_names(draw: ImageDraw.ImageDraw, record: FlightRecord) -> None:
    """The names of landmarks, beside the paths."""
    lines: list[npt.NDArray[Any]] = [record.flown_world[:, :2]]
    if record.demonstrated is not None and record.goal is not None:
        lines += [record.demonstrated, goal_circle(record.goal)]
    points = np.concatenate([along_path(line) for line in lines])
    for name in place_names(record.task.layout, EXTENT / _size(FIELD)[0], NAME_PX, points=points):
        draw.text(
            _place((name.place.x, name.place.y)), name.text,
            fill=palette.FILM_TEXT, font=font_of(NAME_PX * SUPERSAMPLING), anchor="mm",
            stroke_width=SUPERSAMPLING, stroke_fill=palette.OUTLINE,
        )  # fmt: skip


def _draw_goal(draw: ImageDraw.ImageDraw, goal: Point) -> None:
    """A star at the goal (x, y), field frame, and a circle around the region in which a flight has to stop."""
    west, north = _place((goal[0] - SUCCESS_M, goal[1] + SUCCESS_M))
    east, south = _place((goal[0] + SUCCESS_M, goal[1] - SUCCESS_M))
    # The dark edge sets the circle off from a prediction of the same colour.
    draw.ellipse((west - 2, north - 2, east + 2, south + 2), outline=palette.OUTLINE, width=8)
    draw.ellipse((west, north, east, south), outline=palette.GOAL, width=4)
    x, y = _place(goal)
    star = [(x + r * math.sin(k * math.pi / 5), y - r * math.cos(k * math.pi / 5)) for k, r in enumerate((17, 7) * 5)]
    draw.polygon(star, fill=palette.GOAL, outline=palette.OUTLINE)


def _draw_task(draw: ImageDraw.ImageDraw, record: FlightRecord) -> None:
    """The start of the flight, and its demonstrated path and goal if there are any."""
    if record.demonstrated is not None and record.goal is not None:
        _draw_dashed(draw, [_place(point) for point in record.demonstrated.tolist()], palette.DEMONSTRATED, 5)
        _draw_goal(draw, record.goal)
    x, y = _place(record.task.start)
    draw.ellipse((x - 10, y - 10, x + 10, y + 10), fill=palette.START, outline=palette.OUTLINE, width=2)


def _draw_drone(image: Image.Image, pose: Floats, half_view: float) -> None:
    """An arrow along the heading of a pose (6,), and a wedge as wide as the camera's view, whose half is in radians."""
    x, y, yaw = float(pose[0]), float(pose[1]), float(pose[5])
    wedge = [_place((x, y))] + [
        _place((x + 9 * math.cos(yaw + turn), y + 9 * math.sin(yaw + turn)))
        for turn in np.linspace(-half_view, half_view, 13)
    ]
    ImageDraw.Draw(image, "RGBA").polygon(wedge, fill=(*palette.rgb_bytes(palette.DRONE), 46))
    arrow = [_place(corner) for corner in start_arrow((x, y, yaw), 1.4)]
    ImageDraw.Draw(image).polygon(arrow, fill=palette.DRONE, outline=palette.OUTLINE, width=3)


@dataclass(frozen=True)
class _Curve:
    """A quantity over a flight, drawn up to the present."""

    box: Box
    title: str
    unit: str
    colour: str
    values: list[float]
    """One for each step."""
    top: float
    """The value at the upper edge."""
    num_steps: int
    threshold: float | None = None
    """Drawn as a line across."""

    def _height(self, value: float) -> float:
        """Pixels from the top of the supersampled panel."""
        return (0.97 - 0.94 * min(1.0, value / self.top)) * _size(self.box)[1] * SUPERSAMPLING

    def draw(self, image: Image.Image, until: float) -> None:
        """Draw the curve onto a frame, up to a time in steps."""
        width, height = (SUPERSAMPLING * side for side in _size(self.box))
        panel = Image.new("RGB", (width, height), palette.FILM_PANEL)
        draw = ImageDraw.Draw(panel)
        for level in (0.25, 0.5, 0.75):
            draw.line([(0, height * level), (width, height * level)], fill=palette.FILM_LINES, width=SUPERSAMPLING)
        if self.threshold is not None:
            ends = [(0.0, self._height(self.threshold)), (width - 1.0, self._height(self.threshold))]
            _draw_dashed(draw, ends, palette.FILM_NOTE, SUPERSAMPLING)
        times, last = np.arange(len(self.values)), min(until, len(self.values) - 1)
        shown = [*range(int(last) + 1), last]
        heights = map(self._height, np.interp(shown, times, self.values).tolist())
        points = [(time / max(1, self.num_steps) * (width - 12), at) for time, at in zip(shown, heights, strict=True)]
        draw.line(points, fill=self.colour, width=3 * SUPERSAMPLING, joint="curve")
        x, y = points[-1]
        draw.ellipse((x - 8, y - 8, x + 8, y + 8), fill=self.colour, outline=palette.FILM_TEXT, width=2)
        image.paste(panel.reduce(SUPERSAMPLING), self.box[:2])
        self._label(ImageDraw.Draw(image), float(np.interp(last, times, self.values)))

    def _label(self, draw: ImageDraw.ImageDraw, value: float) -> None:
        """Title, present value and scale."""
        left, up, right, bottom = self.box
        _draw_note(draw, (left, up - 7), self.title)
        words = f"{value:.2f}{self.unit}"
        _draw_note(draw, (right, up - 7), words, size=14, anchor="rs", colour=self.colour, is_bold=True)
        _draw_note(draw, (left - 6, up), f"{self.top:g}", size=11, anchor="rt")
        _draw_note(draw, (left - 6, bottom), "0", size=11, anchor="rs")


def _curves(record: FlightRecord) -> list[_Curve]:
    num_steps, speeds = len(record.moments), record.speeds.tolist()
    fastest = max(3.0, math.ceil(max(speeds)))
    found = [_Curve(SPEED_CURVE, "speed", " m/s", palette.FILM_SPEED, speeds, fastest, num_steps)]
    values = [moment.stop_probability for moment in record.moments if moment.stop_probability is not None]
    if len(values) == num_steps:
        colour, threshold = palette.FILM_STOP_PROBABILITY, record.stop_threshold
        found.append(_Curve(STOP_CURVE, "stop probability", "", colour, values, 1.0, num_steps, threshold))
    return found


def _draw_instruction(image: Image.Image, instruction: str) -> None:
    """The instruction in the largest font in which all of it fits; if even the smallest is too large, it is cut."""
    for size in range(30, SMALLEST_PX - 1, -1):
        lines, height = wrapped(quoted(instruction), size, WIDTH - 40), 1.3 * size
        if height * len(lines) <= TITLE_HEIGHT:
            break
    else:
        lines = wrapped(quoted(instruction), size, WIDTH - 40, int(TITLE_HEIGHT / height))
    top = 44 - height * len(lines) / 2 + height / 2
    draw, (ascent, descent) = ImageDraw.Draw(image), font_of(size).getmetrics()
    for number, line in enumerate(lines):
        left, baseline = 18.0, top + height * number + (ascent - descent) / 2
        for letters, font in runs_of(line, size):
            draw.text((left, baseline), letters, fill=palette.FILM_TEXT, font=font, anchor="ls")
            left += font.getlength(letters)


def _draw_legend(draw: ImageDraw.ImageDraw, record: FlightRecord, has_prediction: bool) -> None:
    entries = [("flown", palette.FLOWN)]
    entries += [("demonstrated", palette.DEMONSTRATED)] if record.demonstrated is not None else []
    entries += zip(palette.PREDICTION_LABELS, palette.PREDICTION_COLOURS, strict=True) if has_prediction else ()
    x: float = FIELD[0]
    for name, colour in entries:
        draw.rounded_rectangle((x, 94, x + 20, 103), 4, fill=colour)
        _draw_note(draw, (x + 26, 98), name, anchor="lm")
        x += 26 + font_of(13).getlength(name) + 18


@dataclass(frozen=True)
class _Film:
    """What is the same in all frames."""

    record: FlightRecord
    above: Picture
    """The field from above, supersampled."""
    ranges: MapRanges | None
    curves: list[_Curve]
    scale: float
    """Size of the finished film relative to the frames."""


def _draw_ground(film: _Film, moment: Moment) -> Image.Image:
    """The field with the predictions of a moment, supersampled."""
    picture = film.above
    if moment.maps is not None and moment.has_prediction:
        heat = prediction_heat(moment.maps, film.record.task.start, len(film.above))
        picture = overlay_predictions(in_muted_colours(film.above), heat)
    image = Image.fromarray(as_bytes(picture))
    draw = ImageDraw.Draw(image)
    _draw_task(draw, film.record)
    _draw_names(draw, film.record)
    return image


def _draw_maps(image: Image.Image, film: _Film, moment: Moment) -> None:
    """Semantic and grounding map, with the drone as a dot."""
    draw, maps = ImageDraw.Draw(image), moment.maps
    for box, title, paint in (
        (SEMANTIC, "semantic map", semantic_picture),
        (GROUNDING, "grounding map", grounding_picture),
    ):
        _draw_note(draw, (box[0], box[1] - 7), title)
        draw.rectangle((*box[:2], box[2] - 1, box[3] - 1), fill="black", outline=palette.FILM_LINES)
        if maps is None or film.ranges is None:
            _draw_note(draw, ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), "this pilot has no map", anchor="mm")
            continue
        size = _size(box)[0]
        image.paste(Image.fromarray(as_bytes(paint(maps, film.ranges, film.record.task.start, size))), box[:2])
        x, y = to_pixels(moment.pose_world, size)
        dot = (box[0] + x - 4, box[1] + y - 4, box[0] + x + 4, box[1] + y + 4)
        draw.ellipse(dot, fill=palette.DRONE, outline=palette.OUTLINE)


def _draw_view(image: Image.Image, film: _Film, moment: Moment, pose: Floats) -> None:
    """The view from a pose (6,), and in its corner the picture that the agent got at that step."""
    record, camera = film.record, film.record.camera
    across = min(_size(VIEW)[0], int(_size(VIEW)[1] * camera.width / camera.height))
    down = round(across * camera.height / camera.width)
    (pixels,) = views_from(record.task.layout, pose[None], camera, round(film.scale * across))
    view = Image.fromarray(pixels).resize((across, down), Image.Resampling.BICUBIC)
    image.paste(view, VIEW[:2])
    own = Image.fromarray(moment.image)
    own.thumbnail(OWN_PX)
    left, top = VIEW[0] + view.width - own.width - 10, VIEW[1] + view.height - own.height - 10
    frame = (left - 2, top - 2, left + own.width + 1, top + own.height + 1)
    ImageDraw.Draw(image).rectangle(frame, fill=palette.FILM_TEXT)
    image.paste(own, (left, top))


def _draw_backdrop(film: _Film, moment: Moment) -> Image.Image:
    """A frame without field, view and curves: everything that stays the same until the next step."""
    image = Image.new("RGB", (WIDTH, HEIGHT), palette.FILM_BACKGROUND)
    _draw_instruction(image, film.record.task.instruction)
    draw, camera = ImageDraw.Draw(image), film.record.camera
    _draw_legend(draw, film.record, moment.has_prediction)
    title = f"what the drone sees; in the corner the agent's own picture, {camera.width} x {camera.height}"
    _draw_note(draw, (VIEW[0], 98), title, anchor="lm")
    _draw_maps(image, film, moment)
    return image


def _draw_end(image: Image.Image, record: FlightRecord) -> None:
    """How the flight ended, in place of the line above the view, where it hides nothing."""
    words, colour = record.outcome, palette.FILM_TEXT
    if record.is_success is not None:
        # Also in words, for those who do not see the colour.
        words = ("success: " if record.is_success else "failure: ") + words
        colour = palette.FILM_REACHED if record.is_success else palette.FILM_MISSED
    widest = VIEW[2] - VIEW[0] - 32
    size = next((size for size in range(17, 9, -1) if font_of(size, is_bold=True).getlength(words) <= widest), 9)
    draw, length = ImageDraw.Draw(image), font_of(size, is_bold=True).getlength(words)
    draw.rectangle((VIEW[0], 84, VIEW[2] - 1, VIEW[1] - 1), fill=palette.FILM_BACKGROUND)
    draw.rounded_rectangle((VIEW[0], 84, VIEW[0] + length + 28, 108), 8, outline=colour, width=2)
    _draw_note(draw, (VIEW[0] + 14, 96), words, size=size, anchor="lm", colour=colour, is_bold=True)


def draw_frames(record: FlightRecord, every: int = 1, scale: float = 1.0) -> Iterator[Bytes]:
    """Frames (HEIGHT, WIDTH, 3): FRAMES_PER_STEP for each step, or every `every`th of them, and the end.

    scale: size of the finished film relative to the frames; views need no finer details.
    """
    flown, half_view = record.flown_world, record.camera.horizontal_view / 2
    above = field_from_above(record.task.layout, SUPERSAMPLING * _size(FIELD)[0])
    film = _Film(record, above, map_ranges(record.moments), _curves(record), scale)
    ground: Image.Image | None = None
    for moment in record.moments:
        if ground is None or (moment.is_planned and moment.has_prediction):
            ground = _draw_ground(film, moment)
        backdrop = _draw_backdrop(film, moment)
        is_last = moment is record.moments[-1]
        before, after = flown[moment.step], flown[moment.step + 1]
        drawn_view = -1
        for part in range(FRAMES_PER_STEP + is_last):
            if part < FRAMES_PER_STEP and (moment.step * FRAMES_PER_STEP + part) % every:
                continue
            time = moment.step + part / FRAMES_PER_STEP
            pose = interpolate_pose(before, after, part / FRAMES_PER_STEP)
            field = ground.copy()
            trail = [_place(point) for point in (*flown[: moment.step + 1], pose)]
            _draw_outlined(ImageDraw.Draw(field), trail, palette.FLOWN, 6)
            _draw_drone(field, pose, half_view)
            if part // FRAMES_PER_VIEW != drawn_view:
                drawn_view = part // FRAMES_PER_VIEW
                seen_from = interpolate_pose(before, after, drawn_view * FRAMES_PER_VIEW / FRAMES_PER_STEP)
                _draw_view(backdrop, film, moment, seen_from)
            frame = backdrop.copy()
            frame.paste(field.reduce(SUPERSAMPLING), FIELD[:2])
            for curve in film.curves:
                curve.draw(frame, time)
            clock = f"{time * record.step_seconds:.1f} s"
            place = (SPEED_CURVE[2], 704)
            _draw_note(ImageDraw.Draw(frame), place, clock, size=14, anchor="rs", colour=palette.FILM_TEXT)
            if part == FRAMES_PER_STEP:
                _draw_end(frame, record)
            yield np.asarray(frame)


def _write_mp4(record: FlightRecord, path: Path, rate: float, num_held: int) -> None:
    import imageio_ffmpeg

    writer = imageio_ffmpeg.write_frames(
        str(path), (WIDTH, HEIGHT), fps=rate, codec="libx264", pix_fmt_out="yuv420p", macro_block_size=16,
        # One thread and no tags: the same flight gives the same file. The index comes first, so that it plays at once.
        output_params=["-crf", "21", "-threads", "1", "-fflags", "+bitexact", "-movflags", "+faststart"],
    )  # fmt: skip
    writer.send(None)
    for frame in draw_frames(record):
        writer.send(np.ascontiguousarray(frame))
    for _ in range(num_held - 1):  # the last frame again
        writer.send(np.ascontiguousarray(frame))
    writer.close()


def _write_web(record: FlightRecord, path: Path, rate: float) -> None:
    scale, stride = WEB_SCALE[path.suffix], WEB_STRIDE[path.suffix]
    size = (round(WIDTH * scale), round(HEIGHT * scale))
    # Reduced one by one: all frames of a long flight at full size would fill the memory.
    images = [
        Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS) for frame in draw_frames(record, stride, scale)
    ]
    tick = round(1000 * stride / rate)
    times = [tick] * (len(images) - 1) + [round(1000 * HOLD_SECONDS)]
    options: dict[str, Any] = {"quality": WEBP_QUALITY, "method": WEBP_EFFORT}
    if path.suffix == ".gif":
        # One palette and no dithering: pixels that do not change between frames cost nothing.
        shared = images[len(images) // 2].quantize(GIF_COLOURS, dither=Image.Dither.NONE)
        images = [image.quantize(palette=shared, dither=Image.Dither.NONE) for image in images]
        options = {"optimize": False}
    images[0].save(path, save_all=True, append_images=images[1:], duration=times, loop=0, **options)


def has_ffmpeg() -> bool:
    """Whether .mp4 films can be written here."""
    return importlib.util.find_spec("imageio_ffmpeg") is not None


def write_film(record: FlightRecord, path: Path) -> None:
    """Write a flight as a film in real time, .mp4, .webp or .gif; the last frame is held for two seconds."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"film: got {path}, expected a name that ends in {', '.join(SUFFIXES)}")
    if path.suffix == ".mp4" and not has_ffmpeg():
        raise ValueError(NO_FFMPEG)
    rate = FRAMES_PER_STEP / record.step_seconds
    with replacing(path) as partial:
        if path.suffix == ".mp4":
            _write_mp4(record, partial, rate, round(HOLD_SECONDS * rate))
        else:
            _write_web(record, partial, rate)
