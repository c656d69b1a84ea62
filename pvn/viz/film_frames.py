"""Frames of a film: the field from above, what the drone sees, its maps, and how sure it is that it has arrived."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from pvn.viz.flight_picture import outcome
from pvn.viz.flight_record import Floats, Moment, Recorded
from pvn.viz.map_pictures import (
    EXPECTED_GOAL,
    EXPECTED_PATH,
    Range,
    as_bytes,
    blend_heat,
    grounding_picture,
    heat,
    map_ranges,
    picture_of_field,
    semantic_picture,
    speeds,
)
from pvn.viz.paper_figures import REACH
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.task import SUCCESS_M

WIDTH, HEIGHT = 1280, 720
FRAMES_PER_STEP = 6

PAPER, INK, FAINT = (22, 25, 29), (238, 238, 238), (150, 156, 164)
FLOWN, SHOWN, START, GOAL = (86, 180, 233), (255, 255, 255), (240, 228, 66), (230, 159, 0)
STOP, SPEED = (230, 120, 40), (86, 180, 233)
FINE = 2
"""Lines are drawn so many times larger and then reduced, which smooths their edges."""

# Left, top, right, bottom of the parts, pixels.
FIELD = (16, 112, 608, 704)
VIEW = (624, 112, 1264, 472)
SEMANTIC = (624, 508, 820, 704)
GROUNDING = (832, 508, 1028, 704)
STOP_CURVE = (1076, 508, 1264, 588)
SPEED_CURVE = (1076, 620, 1264, 684)

Box = tuple[int, int, int, int]
Point = tuple[float, float]
Frame = npt.NDArray[np.uint8]


@functools.cache
def _font(size: float, is_bold: bool = False) -> Any:
    name = "DejaVuSans-Bold.ttf" if is_bold else "DejaVuSans.ttf"  # comes with Matplotlib, so is the same everywhere
    return ImageFont.truetype(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name, size)


def _size(box: Box) -> tuple[int, int]:
    return box[2] - box[0], box[3] - box[1]


def _place(point: Sequence[float] | Floats) -> Point:
    """Where a point of the field (x, y, metres) is in the finely drawn picture of it."""
    scale = FINE * _size(FIELD)[0] / (REACH[1] - REACH[0])
    return float(point[0] - REACH[0]) * scale, float(REACH[1] - point[1]) * scale


def _dashed(draw: ImageDraw.ImageDraw, points: Sequence[Point], colour: tuple[int, int, int], width: int) -> None:
    """A line with gaps through points; every other piece of equal length is drawn."""
    line = np.array(points)
    along = np.concatenate([[0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
    pieces = max(1, int(along[-1] / 16))
    at = np.linspace(0, along[-1], 2 * (pieces // 2) + 2)
    x, y = np.interp(at, along, line[:, 0]), np.interp(at, along, line[:, 1])
    for k in range(0, len(at) - 1, 2):
        draw.line([(x[k], y[k]), (x[k + 1], y[k + 1])], fill=colour, width=width)


def _outlined(draw: ImageDraw.ImageDraw, points: Sequence[Point], colour: tuple[int, int, int], width: int) -> None:
    if len(points) > 1:
        draw.line(points, fill=(0, 0, 0), width=width + 4, joint="curve")
        draw.line(points, fill=colour, width=width, joint="curve")


def _draw_names(image: Image.Image, recorded: Recorded) -> None:
    draw = ImageDraw.Draw(image)
    for mark in recorded.task.layout.landmarks:
        x, y = _place((mark.x, mark.y - 0.52 * mark.radius - 0.2))
        noun = LANDMARK_CLASSES[mark.name].noun
        draw.text((x, y), noun, fill=INK, font=_font(11 * FINE), anchor="mt", stroke_width=FINE, stroke_fill=(0, 0, 0))


def _draw_task(image: Image.Image, recorded: Recorded) -> None:
    """Where the flight starts and, if it was demonstrated, the path and the region where it may end."""
    draw, task = ImageDraw.Draw(image), recorded.task
    if recorded.has_goal:
        _dashed(draw, [_place(point) for point in task.path.tolist()], SHOWN, 5)
        west, north = _place((task.goal[0] - SUCCESS_M, task.goal[1] + SUCCESS_M))
        east, south = _place((task.goal[0] + SUCCESS_M, task.goal[1] - SUCCESS_M))
        draw.ellipse((west, north, east, south), outline=GOAL, width=4)
        x, y = _place(task.goal)
        star = [
            (x + r * math.sin(k * math.pi / 5), y - r * math.cos(k * math.pi / 5))
            for k, r in enumerate((17, 7) * 5)
        ]  # fmt: skip
        draw.polygon(star, fill=GOAL, outline=(0, 0, 0))
    x, y = _place(task.start)
    draw.ellipse((x - 10, y - 10, x + 10, y + 10), fill=START, outline=(0, 0, 0), width=2)


def _draw_drone(image: Image.Image, pose: Floats, half_view: float) -> None:
    """An arrow along its heading, and what the camera can see ahead; pose (6,)."""
    x, y, yaw = float(pose[0]), float(pose[1]), float(pose[5])
    wedge = [_place((x, y))] + [
        _place((x + 9 * math.cos(yaw + turn), y + 9 * math.sin(yaw + turn)))
        for turn in np.linspace(-half_view, half_view, 13)
    ]
    ImageDraw.Draw(image, "RGBA").polygon(wedge, fill=(255, 255, 255, 46))
    outline = [
        _place((x + r * math.cos(yaw + turn), y + r * math.sin(yaw + turn)))
        for r, turn in ((1.5, 0.0), (1.2, 2.45), (0.5, math.pi), (1.2, -2.45))
    ]
    ImageDraw.Draw(image).polygon(outline, fill=(255, 255, 255), outline=(0, 0, 0), width=3)


@dataclass(frozen=True)
class _Curve:
    """A quantity over a flight, to be drawn as far as it has gone."""

    box: Box
    title: str
    unit: str
    colour: tuple[int, int, int]
    values: list[float]
    top: float
    """The greatest value that there can be."""
    num_steps: int

    def draw(self, image: Image.Image, until: float) -> None:
        """Onto a frame, up to a time in steps."""
        width, height = _size(self.box)
        panel = Image.new("RGB", (width * FINE, height * FINE), (32, 36, 42))
        draw = ImageDraw.Draw(panel)
        for level in (0.25, 0.5, 0.75):
            draw.line(
                [(0, height * FINE * level), (width * FINE, height * FINE * level)], fill=(52, 58, 66), width=FINE
            )
        across = (width * FINE - 1) / max(1, self.num_steps)

        def at(step: float) -> Point:
            value = float(np.interp(step, np.arange(len(self.values)), self.values))
            return step * across, (1 - 0.94 * min(1.0, value / self.top) - 0.03) * height * FINE

        last = min(until, len(self.values) - 1)
        points = [at(step) for step in range(int(last) + 1)] + [at(last)]
        draw.line(points, fill=self.colour, width=3 * FINE, joint="curve")
        x, y = points[-1]
        draw.ellipse((x - 8, y - 8, x + 8, y + 8), fill=self.colour, outline=INK, width=2)
        image.paste(panel.reduce(FINE), self.box[:2])
        draw = ImageDraw.Draw(image)
        left, up, right, bottom = self.box
        value = f"{np.interp(last, np.arange(len(self.values)), self.values):.2f}{self.unit}"
        draw.text((left, up - 7), self.title, fill=FAINT, font=_font(13), anchor="ls")
        draw.text((right, up - 7), value, fill=self.colour, font=_font(14, True), anchor="rs")
        draw.text((left - 6, up), f"{self.top:g}", fill=FAINT, font=_font(11), anchor="rt")
        draw.text((left - 6, bottom), "0", fill=FAINT, font=_font(11), anchor="rs")


def _curves(recorded: Recorded) -> list[_Curve]:
    num_steps = len(recorded.moments)
    fastest = max(3.0, math.ceil(float(speeds(recorded).max())))
    found = [_Curve(SPEED_CURVE, "speed", " m/s", SPEED, speeds(recorded).tolist(), fastest, num_steps)]
    chances = [moment.stop_chance for moment in recorded.moments]
    if None not in chances:
        values = [float(chance or 0.0) for chance in chances]
        found.append(_Curve(STOP_CURVE, "stop probability", "", STOP, values, 1.0, num_steps))
    return found


def _wrap(text: str, font: Any, width: int) -> list[str]:
    """The text in lines of at most so many pixels."""
    lines: list[str] = []
    for word in text.split():
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _draw_instruction(image: Image.Image, instruction: str) -> None:
    """In letters as large as two lines allow."""
    for size in range(30, 9, -1):
        lines = _wrap(f"“{instruction}”", _font(size), WIDTH - 40)
        if len(lines) <= 2:
            break
    height = 1.3 * size
    top = 44 - height * min(len(lines), 2) / 2 + height / 2
    for number, line in enumerate(lines[:2]):
        ImageDraw.Draw(image).text((18, top + height * number), line, fill=INK, font=_font(size), anchor="lm")


def _draw_legend(image: Image.Image, recorded: Recorded, has_heat: bool) -> None:
    draw = ImageDraw.Draw(image)
    entries = [("flown", FLOWN)]
    entries += [("demonstrated", SHOWN)] if recorded.has_goal else []
    if has_heat:
        path, goal = (tuple(round(255 * part) for part in colour) for colour in (EXPECTED_PATH, EXPECTED_GOAL))
        entries += [("expected path", path), ("expected goal", goal)]  # type: ignore[list-item]
    x: float = FIELD[0]
    for name, colour in entries:
        draw.rounded_rectangle((x, 94, x + 20, 103), 4, fill=colour)
        draw.text((x + 26, 98), name, fill=FAINT, font=_font(13), anchor="lm")
        x += 26 + _font(13).getlength(name) + 18


@dataclass(frozen=True)
class _Scene:
    """What stays the same in all frames."""

    recorded: Recorded
    above: npt.NDArray[np.float64]
    """The field from above, finely."""
    ranges: tuple[Range, Range] | None
    curves: list[_Curve]


def _ground(scene: _Scene, moment: Moment) -> Image.Image:
    """The field with what is expected at a moment, finely."""
    maps, picture = moment.maps, scene.above
    if maps is not None and maps.probability is not None:
        picture = blend_heat(scene.above, heat(maps, scene.recorded.task.start, len(scene.above)))
    image = Image.fromarray(as_bytes(picture))
    _draw_task(image, scene.recorded)
    _draw_names(image, scene.recorded)
    return image


def _backdrop(scene: _Scene, moment: Moment) -> Image.Image:
    """A frame without the field and the curves: all that stays the same until the next step."""
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    draw = ImageDraw.Draw(image)
    recorded, maps = scene.recorded, moment.maps
    _draw_instruction(image, recorded.task.instruction)
    _draw_legend(image, recorded, maps is not None and maps.probability is not None)
    height, width = moment.image.shape[:2]
    scale = min(_size(VIEW)[0] / width, _size(VIEW)[1] / height)
    seen = Image.fromarray(moment.image).resize((round(width * scale), round(height * scale)), Image.Resampling.BICUBIC)
    image.paste(seen, VIEW[:2])
    draw.text((VIEW[0], 98), f"what the drone sees ({width}x{height})", fill=FAINT, font=_font(13), anchor="lm")
    for box, title in ((SEMANTIC, "semantic map"), (GROUNDING, "grounding map")):
        draw.text((box[0], box[1] - 7), title, fill=FAINT, font=_font(13), anchor="ls")
        draw.rectangle((*box[:2], box[2] - 1, box[3] - 1), fill=(0, 0, 0), outline=(52, 58, 66))
    if maps is None or scene.ranges is None:
        for box in (SEMANTIC, GROUNDING):
            middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
            draw.text(middle, "this pilot has no map", fill=FAINT, font=_font(13), anchor="mm")
        return image
    start = recorded.task.start
    for box, paint, span in zip(
        (SEMANTIC, GROUNDING), (semantic_picture, grounding_picture), scene.ranges, strict=True
    ):
        image.paste(Image.fromarray(as_bytes(paint(maps, span, start, _size(box)[0]))), box[:2])
        scale = _size(box)[0] / FINE / _size(FIELD)[0]
        x, y = (part * scale for part in _place(moment.pose_world))
        draw.ellipse((box[0] + x - 4, box[1] + y - 4, box[0] + x + 4, box[1] + y + 4), fill=INK, outline=(0, 0, 0))
    return image


def _draw_end(image: Image.Image, recorded: Recorded) -> None:
    """How it ended, over the foot of the field."""
    words = outcome(recorded.distance, len(recorded.moments), recorded.has_stopped)
    colour = INK
    if recorded.is_success is not None:
        # Words beside the colour, for those who do not see it.
        words = ("success: " if recorded.is_success else "failure: ") + words
        colour = (124, 252, 138) if recorded.is_success else (255, 176, 0)
    draw = ImageDraw.Draw(image)
    x, y = (FIELD[0] + FIELD[2]) / 2, FIELD[3] - 30
    half = _font(17, True).getlength(words) / 2 + 16
    draw.rounded_rectangle((x - half, y - 19, x + half, y + 19), 10, fill=(12, 14, 17), outline=colour, width=2)
    draw.text((x, y), words, fill=colour, font=_font(17, True), anchor="mm")


def _between(flown: Floats, time: float) -> Floats:
    """The pose (6,) at a time in steps, between those before and after it."""
    before = min(int(time), len(flown) - 2)
    first, second = flown[before], flown[before + 1]
    off = second - first
    off[5] = (off[5] + math.pi) % (2 * math.pi) - math.pi  # the short way round
    return first + off * (time - before)


def frames(recorded: Recorded) -> Iterator[Frame]:
    """Every frame (HEIGHT, WIDTH, 3) of the film, FRAMES_PER_STEP a step; the last, which is held, once."""
    flown = recorded.flown_world
    scene = _Scene(
        recorded,
        picture_of_field(recorded.task.layout, FINE * _size(FIELD)[0]),
        map_ranges(recorded.moments),
        _curves(recorded),
    )
    half_view = recorded.camera.horizontal_view / 2
    ground: Image.Image | None = None
    for moment in recorded.moments:
        if ground is None or moment.is_planned:
            ground = _ground(scene, moment)
        backdrop = _backdrop(scene, moment)
        is_last = moment is recorded.moments[-1]
        for part in range(FRAMES_PER_STEP + is_last):
            time = moment.step + part / FRAMES_PER_STEP
            field = ground.copy()
            trail = [*flown[: int(time) + 1], _between(flown, time)]
            _outlined(ImageDraw.Draw(field), [_place(pose) for pose in trail], FLOWN, 6)
            _draw_drone(field, trail[-1], half_view)
            frame = backdrop.copy()
            frame.paste(field.reduce(FINE), FIELD[:2])
            for curve in scene.curves:
                curve.draw(frame, time)
            clock = f"{time * recorded.step_seconds:.1f} s"
            ImageDraw.Draw(frame).text((SPEED_CURVE[2], 704), clock, fill=INK, font=_font(14), anchor="rs")
            if is_last and part == FRAMES_PER_STEP:
                _draw_end(frame, recorded)
            yield np.asarray(frame)
