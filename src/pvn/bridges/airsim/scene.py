"""The objects in the field under AirSim's names; clients may add, move, number and remove them."""

from __future__ import annotations

import asyncio
import json
import math
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pvn.bridges.shared.renderer import CameraRenderer
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout

GROUND, SKY = "Ground", "SkySphere"
"""Everything but landmarks; fences and lakes belong to the ground."""
MATCH_LIMIT_S, MATCH_TIMEOUT_S = 1.0, 10.0
"""How long matching a pattern may take, seconds: of computing, and of waiting for a busy machine."""
MAX_OBJECT_ID = (1 << 24) - 1
_STAND_INS = {"cube": "SteelCube", "box": "Box", "cone": "TrafficCone", "cylinder": "Barrel", "sphere": "Rock"}
"""Landmark classes for the basic shapes of Unreal, by a part of their names."""

# Python cannot interrupt a regular expression, so another process matches it, and can be ended. Where there is a timer,
# it ends itself.
_MATCHER = """
import json, re, signal, sys
pattern, names, limit = json.load(sys.stdin)
if hasattr(signal, "setitimer"):
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
json.dump([name for name in names if re.fullmatch(pattern, name, re.IGNORECASE)], sys.stdout)
"""


async def match_names(pattern: str, names: Sequence[str]) -> list[str]:
    """The names that a regular expression matches, whatever the case, as in AirSim.

    A pattern that takes too long is refused; some would take years.
    """
    if pattern == ".*":
        return list(names)
    if re.escape(pattern) == pattern:
        return [name for name in names if name.lower() == pattern.lower()]
    try:
        re.compile(pattern)
    except (re.error, RecursionError) as error:
        raise ValueError(f"name_regex: got {pattern!r}, expected a regular expression: {error}") from None
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", _MATCHER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(MATCH_TIMEOUT_S):
            output, _ = await process.communicate(json.dumps([pattern, list(names), MATCH_LIMIT_S]).encode())
    except TimeoutError:
        output = b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if not output:
        raise ValueError(f"name_regex: got {pattern!r}, which takes too long to match; simplify it")
    matched: list[str] = json.loads(output)
    return matched


def _unique_name(name: str, taken: Collection[str]) -> str:
    """Number repeated names: the second Barrel becomes Barrel_2."""
    number = 2
    while (numbered := name if number == 2 and name not in taken else f"{name}_{number}") in taken:
        number += 1
    return numbered


def class_of_asset(asset: str) -> str:
    """The landmark class that an asset's name stands for."""
    for name in LANDMARK_CLASSES:
        if name.lower() == asset.lower():
            return name
    for part, name in _STAND_INS.items():
        if part in asset.lower():
            return name
    raise ValueError(f"asset: got {asset[:80]!r}, expected one of the names that simListAssets returns")


class Scene:
    """The objects and their renderer. A change makes a new renderer, so that images in progress stay as they are."""

    def __init__(self, renderer: CameraRenderer) -> None:
        self.renderer = renderer
        self.version = 0
        """Counts the changes."""
        self._landmarks: dict[str, Landmark] = {}
        """By AirSim's names, in the layout's order."""
        for landmark in renderer.layout.landmarks:
            self._landmarks[_unique_name(landmark.name, self._landmarks)] = landmark
        self._ids = {GROUND: 0, SKY: 0} | {name: number for number, name in enumerate(self._landmarks, 1)}

    @property
    def names(self) -> list[str]:
        """Names of the landmarks, in the layout's order."""
        return list(self._landmarks)

    @property
    def all_names(self) -> list[str]:
        """Names of everything that has a segmentation number."""
        return [*self._landmarks, GROUND, SKY]

    @property
    def object_ids(self) -> tuple[int, ...]:
        """Segmentation numbers of the sky, the ground and each landmark."""
        return self._ids[SKY], self._ids[GROUND], *(self._ids[name] for name in self._landmarks)

    def landmark(self, name: Any) -> Landmark | None:
        """The landmark of a name; None for an unknown name."""
        return self._landmarks.get(name) if isinstance(name, str) else None

    def object_id(self, name: str) -> int:
        """An object's segmentation number; -1 for an unknown name."""
        return self._ids.get(name, -1)

    def set_object_ids(self, names: Sequence[str], object_id: int) -> None:
        """Give objects a segmentation number."""
        if not 0 <= object_id <= MAX_OBJECT_ID:
            raise ValueError(f"object_id: got {object_id}, expected 0 to {MAX_OBJECT_ID}")
        self._ids |= dict.fromkeys(names, object_id)
        self.version += 1

    def _replace(self, landmarks: dict[str, Landmark]) -> None:
        layout = Layout(tuple(landmarks.values()), self.renderer.layout.lake)
        self.renderer = CameraRenderer(layout, is_full=self.renderer.is_full)
        self._landmarks = landmarks
        self.version += 1

    def spawn(self, name: str, asset: str, x: float, y: float, yaw: float, scale: float) -> str:
        """Put a new landmark into the field, field frame; returns the name it got."""
        class_name = class_of_asset(asset)
        landmark = Landmark(class_name, x, y, LANDMARK_CLASSES[class_name].radius * scale, yaw)
        unique = _unique_name(name, self.all_names)
        self._replace(self._landmarks | {unique: landmark})
        self._ids[unique] = max(self._ids.values()) + 1
        return unique

    def destroy(self, name: str) -> None:
        """Remove a landmark."""
        self._replace({other: landmark for other, landmark in self._landmarks.items() if other != name})
        del self._ids[name]

    def change(self, name: str, x: float, y: float, yaw: float, scale: float) -> None:
        """Move or scale a landmark, field frame."""
        if not all(math.isfinite(number) for number in (x, y, yaw, scale)):
            raise ValueError(f"{name}: got ({x:g}, {y:g}), yaw {yaw:g}, scale {scale:g}, expected finite numbers")
        old = self._landmarks[name]
        radius = LANDMARK_CLASSES[old.name].radius * scale
        self._replace(self._landmarks | {name: replace(old, x=x, y=y, yaw=yaw, radius=radius)})
