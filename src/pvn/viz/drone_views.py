"""What a drone saw on its way, drawn for people: sharper than the pictures that the agent gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pvn.geometry import Camera
from pvn.simulator.display import Pictures, show_views
from pvn.viz.flight_record import FlightRecord
from pvn.world.layout import Layout

VIEW_WIDTH = 384
"""Pixels across a view in a figure."""


def enlarged(camera: Camera, width: int) -> Camera:
    """The same camera with more pixels: `width` across, and as many down as its shape asks for."""
    return replace(camera, width=width, height=round(width * camera.height / camera.width))


def views_from(
    layout: Layout, poses_world: npt.NDArray[np.floating], camera: Camera, width: int = VIEW_WIDTH
) -> Pictures:
    """Views (K, H, W, 3) of a field from drones at poses (K, 6), field frame, `width` pixels across."""
    return show_views(layout, poses_world, enlarged(camera, width))


def views_at(record: FlightRecord, steps: Sequence[int], width: int = VIEW_WIDTH) -> Pictures:
    """Views (K, H, W, 3) at some steps of a flight."""
    return views_from(record.task.layout, record.flown_world[list(steps)], record.camera, width)


def picture_note(camera: Camera) -> str:
    """What is said below views: the agent's own pictures are smaller."""
    return f"The agent itself gets pictures of {camera.width} x {camera.height} pixels."
