"""A camera that another thread reads: its newest picture, and when it arrived."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pvn.bridges.mavlink.calibration import Calibration, Pixels, calibration_like, make_resampler
from pvn.geometry import Camera

FOLDER_PICTURES_PER_SECOND = 10.0
OPEN_TIMEOUT_S = 20.0
RETRY_S = 0.2
PICTURE_SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp")


@dataclass(frozen=True)
class Picture:
    """A picture and its times on the monotonic clock, seconds."""

    pixels: Pixels
    """(H, W, 3), red green blue, as the camera sends it."""
    taken_at: float
    """When it arrived, less the camera's latency."""
    arrived_at: float
    changed_at: float
    """When the picture last changed."""


def _read_folder(folder: Path) -> Callable[[], Pixels | None]:
    """A function that returns the pictures of a folder in the order of their names, then None."""
    import cv2

    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURE_SUFFIXES)
    if not paths:
        raise ValueError(f"camera: got the folder {folder} without a picture, expected .jpg or .png files")
    remaining, start, number = iter(paths), time.monotonic(), 0

    def read() -> Pixels | None:
        nonlocal number
        time.sleep(max(start + number / FOLDER_PICTURES_PER_SECOND - time.monotonic(), 0.0))
        number += 1
        path = next(remaining, None)
        picture: Any = None if path is None else cv2.imread(str(path), cv2.IMREAD_COLOR)
        return None if picture is None else picture[..., ::-1]

    return read


@contextmanager
def _quick_streams() -> Iterator[None]:
    """Make FFmpeg show pictures as they come: by default it collects seconds of them first."""
    name = "OPENCV_FFMPEG_CAPTURE_OPTIONS"
    before = os.environ.get(name)
    os.environ.setdefault(name, "fflags;nobuffer|flags;low_delay|analyzeduration;0|probesize;32768")
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)


def _read_stream(source: str) -> tuple[Callable[[], Pixels | None], Callable[[], None]]:
    """A function that returns the next picture of a URL, video or device, or None; and one that closes it."""
    import cv2

    with _quick_streams():
        if source.isdigit():
            capture = cv2.VideoCapture(int(source))
        else:
            # One thread: each further one would delay the stream by a picture.
            capture = cv2.VideoCapture(source, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    if not capture.isOpened():
        raise ValueError(
            f"camera: cannot open {source!r}, expected the URL of a stream, the number of a device or a folder of "
            "pictures; does it show in a browser or a video player?"
        )

    def read() -> Pixels | None:
        is_there, picture = capture.read()
        return picture[..., ::-1] if is_there else None

    return read, capture.release


class CameraReader:
    """Reads a camera until closed; nothing that the camera sends or fails to send ends the thread."""

    def __init__(self, source: str, view: Camera, calibration: Calibration | None = None) -> None:
        """view: the agent's camera. Without a calibration, the camera is assumed to have its field of view and tilt."""
        self.source, self._view, self._calibration = source, view, calibration
        self._resample: Callable[[Pixels], Pixels] | None = None
        self._latest: Picture | None = None
        self._has_ended = threading.Event()
        self._close: Callable[[], None] = lambda: None
        if Path(source).is_dir():
            read = _read_folder(Path(source))
        else:
            read, self._close = _read_stream(source)
        self._thread = threading.Thread(target=self._run, args=(read,), name="pvn-camera", daemon=True)
        self._thread.start()

    def _run(self, read: Callable[[], Pixels | None]) -> None:
        latency = 0.0 if self._calibration is None else self._calibration.latency_s
        while not self._has_ended.is_set():
            pixels = read()
            if pixels is None:
                self._has_ended.wait(RETRY_S)  # meanwhile the picture grows stale, which ends the flight
                continue
            now, before = time.monotonic(), self._latest
            is_same = before is not None and np.array_equal(pixels, before.pixels)
            changed_at = before.changed_at if before is not None and is_same else now
            self._latest = Picture(pixels, now - latency, now, changed_at)
        self._close()

    @property
    def latest(self) -> Picture | None:
        """The newest picture; None before the first."""
        return self._latest

    def wait(self) -> Picture:
        """The newest picture, once there is one."""
        end = time.monotonic() + OPEN_TIMEOUT_S
        while self._latest is None:
            if time.monotonic() > end:
                raise ValueError(f"camera: got no picture from {self.source!r} within {OPEN_TIMEOUT_S:g} s")
            time.sleep(0.02)
        return self._latest

    def see(self, picture: Picture) -> Pixels:
        """The picture as the agent's camera (h, w, 3) would have taken it."""
        if self._resample is None:
            height, width = picture.pixels.shape[:2]
            calibration = self._calibration or calibration_like(self._view, width, height)
            self._resample = make_resampler(calibration, self._view)
        return self._resample(np.ascontiguousarray(picture.pixels))

    def close(self) -> None:
        """Stop reading."""
        self._has_ended.set()
        self._thread.join(2.0)
