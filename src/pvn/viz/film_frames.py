"""Frames of a film: the field from above, what the drone sees, its maps, and how sure it is that it has arrived."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from pvn.paths import distances_along, points_along
from pvn.viz import palette
from pvn.viz.axes import goal_circle
from pvn.viz.drawn_text import font_of, quoted, runs_of, wrapped
from pvn.viz.drone_views import views_from
from pvn.viz.field_views import EXTENT, Bytes, Picture, as_bytes, field_from_above, in_muted_colours, to_pixels
from pvn.viz.flight_record import FlightRecord, Floats, Moment, interpolate_pose
from pvn.viz.labels import along_path, place_names
from pvn.viz.map_pictures import (
    MapRanges,
    grounding_picture,
    map_ranges,
    overlay_predictions,
    prediction_heat,
    semantic_picture,
)
from pvn.world.task import SUCCESS_M

WIDTH, HEIGHT = 1280, 720
FRAMES_PER_STEP = 6
FRAMES_PER_VIEW = 2
"""The view changes every second frame: it takes longer to draw than all the rest."""
SUPERSAMPLING = 2
"""Lines are drawn this many times larger and then reduced, which smooths their edges."""
TITLE_HEIGHT = 84
"""Of the instruction, pixels."""
SMALLEST_PX = 9
"""Of the letters of an instruction."""
NAME_PX = 12
"""Of the letters of landmarks' names."""
DASH_PX = 16
"""Length of a dash, and of the gap after it, in the finely drawn picture."""

# Left, top, right, bottom of the parts, pixels.
FIELD = (16, 112, 608, 704)
VIEW = (624, 112, 1264, 472)
SEMANTIC = (624, 508, 820, 704)
GROUNDING = (832, 508, 1028, 704)
STOP_CURVE = (1076, 508, 1264, 588)
SPEED_CURVE = (1076, 620, 1264, 684)

OWN_PX = (160, 120)
"""At most, of the agent's own picture in the corner of the view."""

Box = tuple[int, int, int, int]
Point = tuple[float, float]


def _size(box: Box) -> tuple[int, int]:
    return box[2] - box[0], box[3] - box[1]


def _place(point: Sequence[float] | Floats) -> Point:
    """Where a point of the field (x, y, metres) is in the finely drawn picture of it."""
    return to_pixels(point, SUPERSAMPLING * _size(FIELD)[0])


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


def _draw_names(image: Image.Image, record: FlightRecord) -> None:
    """The names of landmarks, beside the paths."""
    draw, layout = ImageDraw.Draw(image), record.task.layout
    lines: list[npt.NDArray[Any]] = [record.flown_world[:, :2]]
    if record.demonstrated is not None and record.goal is not None:
        lines += [record.demonstrated, goal_circle(record.goal)]
    metres_per_pixel = EXTENT / _size(FIELD)[0]
    points = np.concatenate([along_path(line) for line in lines])
    for name in place_names(layout, metres_per_pixel, NAME_PX, points=points):
        draw.text(
            _place((name.place.x, name.place.y)), name.text,
            fill=palette.FILM_TEXT, font=font_of(NAME_PX * SUPERSAMPLING), anchor="mm",
            stroke_width=SUPERSAMPLING, stroke_fill=palette.OUTLINE,
        )  # fmt: skip


def _draw_goal(draw: ImageDraw.ImageDraw, goal: Point) -> None:
    """A star at the goal (x, y), field frame, and a circle around the region in which a flight has to stop."""
    west, north = _place((goal[0] - SUCCESS_M, goal[1] + SUCCESS_M))
    east, south = _place((goal[0] + SUCCESS_M, goal[1] - SUCCESS_M))
    # A dark edge: what is predicted there has the same colour.
    draw.ellipse((west - 2, north - 2, east + 2, south + 2), outline=palette.OUTLINE, width=8)
    draw.ellipse((west, north, east, south), outline=palette.GOAL, width=4)
    x, y = _place(goal)
    star = [
        (x + r * math.sin(k * math.pi / 5), y - r * math.cos(k * math.pi / 5))
        for k, r in enumerate((17, 7) * 5)
    ]  # fmt: skip
    draw.polygon(star, fill=palette.GOAL, outline=palette.OUTLINE)


def _draw_task(image: Image.Image, record: FlightRecord) -> None:
    """The start of the flight and, if it was demonstrated, the path and the goal."""
    draw = ImageDraw.Draw(image)
    if record.demonstrated is not None and record.goal is not None:
        _draw_dashed(draw, [_place(point) for point in record.demonstrated.tolist()], palette.DEMONSTRATED, 5)
        _draw_goal(draw, record.goal)
    x, y = _place(record.task.start)
    draw.ellipse((x - 10, y - 10, x + 10, y + 10), fill=palette.START, outline=palette.OUTLINE, width=2)


def _draw_drone(image: Image.Image, pose: Floats, half_view: float) -> None:
    """An arrow along the heading of a pose (6,), and a wedge as wide as the camera's view; half of it in radians."""
    x, y, yaw = float(pose[0]), float(pose[1]), float(pose[5])
    wedge = [_place((x, y))] + [
        _place((x + 9 * math.cos(yaw + turn), y + 9 * math.sin(yaw + turn)))
        for turn in np.linspace(-half_view, half_view, 13)
    ]
    ImageDraw.Draw(image, "RGBA").polygon(wedge, fill=(*palette.rgb_bytes(palette.DRONE), 46))
    arrow = [
        _place((x + r * math.cos(yaw + turn), y + r * math.sin(yaw + turn)))
        for r, turn in ((1.5, 0.0), (1.2, 2.45), (0.5, math.pi), (1.2, -2.45))
    ]
    ImageDraw.Draw(image).polygon(arrow, fill=palette.DRONE, outline=palette.OUTLINE, width=3)


@dataclass(frozen=True)
class _Curve:
    """A quantity over a flight, drawn up to the present."""

    box: Box
    title: str
    unit: str
    colour: str
    values: list[float]
    """At every step."""
    top: float
    """The value at the upper edge."""
    num_steps: int

    def draw(self, image: Image.Image, until: float) -> None:
        """Draw the curve onto a frame, up to a time in steps."""
        width, height = _size(self.box)
        panel = Image.new("RGB", (width * SUPERSAMPLING, height * SUPERSAMPLING), palette.FILM_PANEL)
        draw = ImageDraw.Draw(panel)
        for level in (0.25, 0.5, 0.75):
            row = height * SUPERSAMPLING * level
            draw.line([(0, row), (width * SUPERSAMPLING, row)], fill=palette.FILM_LINES, width=SUPERSAMPLING)
        across = (width * SUPERSAMPLING - 1) / max(1, self.num_steps)

        def at(step: float) -> Point:
            value = float(np.interp(step, np.arange(len(self.values)), self.values))
            return step * across, (1 - 0.94 * min(1.0, value / self.top) - 0.03) * height * SUPERSAMPLING

        last = min(until, len(self.values) - 1)
        points = [at(step) for step in range(int(last) + 1)] + [at(last)]
        draw.line(points, fill=self.colour, width=3 * SUPERSAMPLING, joint="curve")
        x, y = points[-1]
        draw.ellipse((x - 8, y - 8, x + 8, y + 8), fill=self.colour, outline=palette.FILM_TEXT, width=2)
        image.paste(panel.reduce(SUPERSAMPLING), self.box[:2])
        self._label(image, float(np.interp(last, np.arange(len(self.values)), self.values)))

    def _label(self, image: Image.Image, value: float) -> None:
        """Title, present value, and the scale."""
        draw = ImageDraw.Draw(image)
        left, up, right, bottom = self.box
        draw.text((left, up - 7), self.title, fill=palette.FILM_NOTE, font=font_of(13), anchor="ls")
        draw.text(
            (right, up - 7), f"{value:.2f}{self.unit}", fill=self.colour, font=font_of(14, is_bold=True), anchor="rs"
        )
        draw.text((left - 6, up), f"{self.top:g}", fill=palette.FILM_NOTE, font=font_of(11), anchor="rt")
        draw.text((left - 6, bottom), "0", fill=palette.FILM_NOTE, font=font_of(11), anchor="rs")


def _curves(record: FlightRecord) -> list[_Curve]:
    num_steps, speeds = len(record.moments), record.speeds.tolist()
    fastest = max(3.0, math.ceil(max(speeds)))
    found = [_Curve(SPEED_CURVE, "speed", " m/s", palette.FILM_SPEED, speeds, fastest, num_steps)]
    values = [moment.stop_probability for moment in record.moments if moment.stop_probability is not None]
    if len(values) == num_steps:
        colour = palette.FILM_STOP_PROBABILITY
        found.append(_Curve(STOP_CURVE, "stop probability", "", colour, values, 1.0, num_steps))
    return found


def _draw_instruction(image: Image.Image, instruction: str) -> None:
    """The instruction in the largest letters with which all of it fits; if none are small enough, it is cut."""
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


def _draw_legend(image: Image.Image, record: FlightRecord, has_prediction: bool) -> None:
    draw = ImageDraw.Draw(image)
    entries = [("flown", palette.FLOWN)]
    entries += [("demonstrated", palette.DEMONSTRATED)] if record.demonstrated is not None else []
    entries += zip(palette.PREDICTION_LABELS, palette.PREDICTION_COLOURS, strict=True) if has_prediction else ()
    x: float = FIELD[0]
    for name, colour in entries:
        draw.rounded_rectangle((x, 94, x + 20, 103), 4, fill=colour)
        draw.text((x + 26, 98), name, fill=palette.FILM_NOTE, font=font_of(13), anchor="lm")
        x += 26 + font_of(13).getlength(name) + 18


@dataclass(frozen=True)
class _Film:
    """What stays the same in all frames."""

    record: FlightRecord
    above: Picture
    """The field from above, finely drawn."""
    ranges: MapRanges | None
    curves: list[_Curve]
    scale: float
    """Of the film that is shown to the frames that are drawn."""


def _draw_ground(film: _Film, moment: Moment) -> Image.Image:
    """The field with the predictions of a moment, finely drawn."""
    picture = film.above
    if moment.maps is not None and moment.has_prediction:
        heat = prediction_heat(moment.maps, film.record.task.start, len(film.above))
        picture = overlay_predictions(in_muted_colours(film.above), heat)
    image = Image.fromarray(as_bytes(picture))
    _draw_task(image, film.record)
    _draw_names(image, film.record)
    return image


def _draw_maps(image: Image.Image, film: _Film, moment: Moment) -> None:
    """Semantic and grounding map with the drone as a dot."""
    draw, maps = ImageDraw.Draw(image), moment.maps
    for box, title, paint in (
        (SEMANTIC, "semantic map", semantic_picture),
        (GROUNDING, "grounding map", grounding_picture),
    ):
        draw.text((box[0], box[1] - 7), title, fill=palette.FILM_NOTE, font=font_of(13), anchor="ls")
        draw.rectangle((*box[:2], box[2] - 1, box[3] - 1), fill="black", outline=palette.FILM_LINES)
        if maps is None or film.ranges is None:
            middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
            draw.text(middle, "this pilot has no map", fill=palette.FILM_NOTE, font=font_of(13), anchor="mm")
            continue
        size = _size(box)[0]
        image.paste(Image.fromarray(as_bytes(paint(maps, film.ranges, film.record.task.start, size))), box[:2])
        x, y = to_pixels(moment.pose_world, size)
        dot = (box[0] + x - 4, box[1] + y - 4, box[0] + x + 4, box[1] + y + 4)
        draw.ellipse(dot, fill=palette.DRONE, outline=palette.OUTLINE)


def _draw_view(image: Image.Image, film: _Film, moment: Moment, pose: Floats) -> None:
    """What is seen from a pose (6,), drawn for people; in the corner the picture that the agent got at that step."""
    record, camera = film.record, film.record.camera
    across = min(_size(VIEW)[0], int(_size(VIEW)[1] * camera.width / camera.height))
    down = round(across * camera.height / camera.width)
    (pixels,) = views_from(record.task.layout, pose[None], camera, round(film.scale * across))
    view = Image.fromarray(pixels).resize((across, down), Image.Resampling.BICUBIC)
    image.paste(view, VIEW[:2])
    own = Image.fromarray(moment.image)
    own.thumbnail(OWN_PX)
    left, top = VIEW[0] + view.width - own.width - 10, VIEW[1] + view.height - own.height - 10
    draw = ImageDraw.Draw(image)
    draw.rectangle((left - 2, top - 2, left + own.width + 1, top + own.height + 1), fill=palette.FILM_TEXT)
    image.paste(own, (left, top))


def _draw_backdrop(film: _Film, moment: Moment) -> Image.Image:
    """A frame without the field, the view and the curves: everything that stays the same until the next step."""
    image = Image.new("RGB", (WIDTH, HEIGHT), palette.FILM_BACKGROUND)
    _draw_instruction(image, film.record.task.instruction)
    _draw_legend(image, film.record, moment.has_prediction)
    camera = film.record.camera
    title = f"what the drone sees; in the corner the agent's own picture, {camera.width} x {camera.height}"
    ImageDraw.Draw(image).text((VIEW[0], 98), title, fill=palette.FILM_NOTE, font=font_of(13), anchor="lm")
    _draw_maps(image, film, moment)
    return image


def _draw_end(image: Image.Image, record: FlightRecord) -> None:
    """How the flight ended, in place of the line above the view: it hides nothing in the field."""
    words, colour = record.outcome, palette.FILM_TEXT
    if record.is_success is not None:
        # Also in words, for those who do not see the colour.
        words = ("success: " if record.is_success else "failure: ") + words
        colour = palette.FILM_REACHED if record.is_success else palette.FILM_MISSED
    widest = VIEW[2] - VIEW[0] - 32
    size = next((size for size in range(17, 9, -1) if font_of(size, is_bold=True).getlength(words) <= widest), 9)
    draw, font = ImageDraw.Draw(image), font_of(size, is_bold=True)
    draw.rectangle((VIEW[0], 84, VIEW[2] - 1, VIEW[1] - 1), fill=palette.FILM_BACKGROUND)
    draw.rounded_rectangle((VIEW[0], 84, VIEW[0] + font.getlength(words) + 28, 108), 8, outline=colour, width=2)
    draw.text((VIEW[0] + 14, 96), words, fill=colour, font=font, anchor="lm")


def draw_frames(record: FlightRecord, every: int = 1, scale: float = 1.0) -> Iterator[Bytes]:
    """Frames (HEIGHT, WIDTH, 3) of the film: FRAMES_PER_STEP for each step, or one in `every` of them, and the end.

    scale: the size at which they will be shown; views need no finer details.
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
        seen = -1
        for part in range(FRAMES_PER_STEP + is_last):
            if part < FRAMES_PER_STEP and (moment.step * FRAMES_PER_STEP + part) % every:
                continue
            time = moment.step + part / FRAMES_PER_STEP
            pose = interpolate_pose(before, after, part / FRAMES_PER_STEP)
            field = ground.copy()
            trail = [_place(point) for point in (*flown[: moment.step + 1], pose)]
            _draw_outlined(ImageDraw.Draw(field), trail, palette.FLOWN, 6)
            _draw_drone(field, pose, half_view)
            if part // FRAMES_PER_VIEW != seen:
                seen = part // FRAMES_PER_VIEW
                share = seen * FRAMES_PER_VIEW / FRAMES_PER_STEP
                _draw_view(backdrop, film, moment, interpolate_pose(before, after, share))
            frame = backdrop.copy()
            frame.paste(field.reduce(SUPERSAMPLING), FIELD[:2])
            for curve in film.curves:
                curve.draw(frame, time)
            clock = f"{time * record.step_seconds:.1f} s"
            draw = ImageDraw.Draw(frame)
            draw.text((SPEED_CURVE[2], 704), clock, fill=palette.FILM_TEXT, font=font_of(14), anchor="rs")
            if part == FRAMES_PER_STEP:
                _draw_end(frame, record)
            yield np.asarray(frame)
