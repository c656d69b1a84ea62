"""A flight as a film: .mp4, or for web pages .webp and .gif."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pvn.files import replacing
from pvn.viz.field_views import Bytes
from pvn.viz.film_frames import FRAMES_PER_STEP, HEIGHT, WIDTH, draw_frames
from pvn.viz.flight_record import FlightRecord

SUFFIXES = (".mp4", ".webp", ".gif")
NO_FFMPEG = 'imageio-ffmpeg is not installed, so no .mp4 can be written; pip install "pvn-drone[app]"'

HOLD_SECONDS = 2.0
"""How long the last frame is shown."""
WEB_SCALE = {".webp": 0.75, ".gif": 0.5}
"""Size relative to that of an .mp4 film; files for web pages should be small."""
WEB_STRIDE = {".webp": 2, ".gif": 3}
"""For web pages, one frame in this many is drawn."""
WEBP_QUALITY, GIF_COLOURS = 70, 128
WEBP_EFFORT = 2
"""How hard the encoder tries, 0 to 6; with more, films take twice as long to write and are hardly smaller."""


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


def _resized(frame: Bytes, size: tuple[int, int]) -> Image.Image:
    return Image.fromarray(frame).resize(size, Image.Resampling.LANCZOS)


def _write_web(record: FlightRecord, path: Path, rate: float) -> None:
    scale, stride = WEB_SCALE[path.suffix], WEB_STRIDE[path.suffix]
    size = (round(WIDTH * scale), round(HEIGHT * scale))
    # Reduced one by one: all frames of a long flight at full size would fill the memory.
    images = [_resized(frame, size) for frame in draw_frames(record, stride, scale)]
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


def film_path(path: Path) -> Path:
    """The path, if its suffix is that of a film; otherwise a ValueError."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"film: got {path}, expected a name that ends in {', '.join(SUFFIXES)}")
    return path


def write_film(record: FlightRecord, path: Path) -> None:
    """Write a flight as a film in real time, .mp4, .webp or .gif; the last frame is held for two seconds."""
    film_path(path)
    rate = FRAMES_PER_STEP / record.step_seconds
    if path.suffix == ".mp4" and not has_ffmpeg():
        raise ValueError(NO_FFMPEG)
    with replacing(path) as partial:
        if path.suffix == ".mp4":
            _write_mp4(record, partial, rate, round(HOLD_SECONDS * rate))
        else:
            _write_web(record, partial, rate)
