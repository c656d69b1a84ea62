"""Shapes that pictures for people show instead of those that agents see, of which people could not tell what they are.

They stand where the others stand, are about as large and have their colours, so that people and agents mean the same.
"""

from __future__ import annotations

import math

from pvn.world.solids import Solid, Vector, ball, box, rod, slab

SANDSTONE, SANDSTONE_LIGHT, SANDSTONE_DARK = "#9e4f3a", "#a85e49", "#853f2e"
COAT, MANE, DARK_MANE, FACE = "#d2ab62", "#8a5426", "#6b3d1a", "#e6cf9c"
PLINTH, DARK_PLINTH, BLACK = "#b9b5aa", "#77756f", "#17181a"
GREEN, DARK_GREEN, LID, LID_RIB = "#1d6a3f", "#134a2b", "#3c434a", "#59626b"


def _rock(centre: Vector, size: Vector, turn: Vector, colour: str = SANDSTONE) -> Solid:
    """A lump of grainy sandstone."""
    return ball(centre, size, colour, turn).painted("speckle", SANDSTONE_DARK, 9)


def _boulder() -> list[Solid]:
    """A boulder of sandstone, taller than it is wide, its lumps leaning to one side."""
    return [
        _rock((0.0, 0.0, 1.1), (2.6, 2.3, 3.2), (18, 10, 20)),
        _rock((0.25, -0.4, 1.3), (1.7, 2.1, 2.9), (30, -16, 35), SANDSTONE_LIGHT),
        _rock((-0.3, 0.35, 1.45), (1.9, 1.6, 2.7), (22, 14, -10)),
        _rock((0.6, 0.5, 0.8), (1.5, 1.9, 2.0), (12, 26, 50), SANDSTONE_LIGHT),
        _rock((-0.6, -0.65, 0.7), (1.6, 1.7, 2.1), (26, -20, 10)),
    ]


def _mane() -> list[Solid]:
    """Locks in a ring around the face, which looks along x."""
    locks = []
    for number in range(11):
        angle = 2 * math.pi * number / 11
        y, z = 0.82 * math.sin(angle), 0.86 * math.cos(angle)
        tone = MANE if number % 2 else DARK_MANE
        locks.append(rod((1.05, 0.35 * y, 3.05 + 0.35 * z), (0.75, 1.2 * y, 3.05 + 1.2 * z), 0.36, tone, top=0.1))
    return locks


def _lion() -> list[Solid]:
    """A lion that lies on a plinth, its head up: mane, muzzle, paws, tail with a tuft."""
    sides = []
    for side in (-1, 1):
        sides += [
            ball((-1.2, side * 0.62, 1.85), (1.5, 0.75, 1.1), COAT),
            rod((-0.9, side * 0.85, 1.52), (0.1, side * 0.95, 1.52), 0.2, COAT),
            rod((0.5, side * 0.5, 1.9), (0.95, side * 0.52, 1.58), 0.3, COAT),
            rod((0.8, side * 0.52, 1.58), (1.95, side * 0.52, 1.55), 0.22, COAT),
            ball((2.02, side * 0.52, 1.54), (0.5, 0.52, 0.36), FACE),
            ball((1.42, side * 0.27, 3.3), (0.14, 0.16, 0.16), BLACK),
            ball((0.9, side * 0.62, 3.72), (0.26, 0.36, 0.36), COAT),
        ]
    return [
        box((0, 0, 0.15), (4.9, 2.5, 0.3), DARK_PLINTH),
        box((0, 0, 0.8), (4.5, 2.1, 1.2), PLINTH),
        ball((-0.5, 0, 2.05), (3.2, 1.45, 1.35), COAT),
        ball((0.55, 0, 2.45), (1.5, 1.5, 1.8), MANE),
        ball((0.75, 0, 3.05), (0.9, 1.9, 2.0), DARK_MANE),
        *_mane(),
        ball((1.12, 0, 3.12), (0.9, 1.0, 1.15), COAT),
        ball((1.5, 0, 2.85), (0.75, 0.62, 0.5), FACE),
        slab((1.25, 0, 3.4), (1.82, 0, 3.02), 0.22, 0.12, FACE),
        ball((1.86, 0, 2.97), (0.16, 0.34, 0.2), BLACK),
        rod((1.5, -0.3, 2.7), (1.5, 0.3, 2.7), 0.06, BLACK),
        *sides,
        rod((-2.0, 0.2, 1.7), (-1.9, 1.0, 1.5), 0.1, COAT),
        rod((-1.9, 1.0, 1.5), (-1.0, 1.14, 1.5), 0.1, COAT),
        ball((-0.8, 1.13, 1.5), (0.6, 0.3, 0.3), DARK_MANE),
    ]


def _dumpster() -> list[Solid]:
    """A green dumpster; one lid is shut, the other hangs open behind it and shows what has been thrown away."""
    ribs = [box((0.86, y, 0.95), (0.12, 0.14, 1.2), DARK_GREEN) for y in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    walls = [
        box((0.76, 0, 0.98), (0.14, 2.8, 1.36), GREEN),
        box((-0.76, 0, 1.12), (0.14, 2.8, 1.64), GREEN),
        *(box((0, y, 1.02), (1.5, 0.14, 1.44), GREEN) for y in (-1.36, 0.0, 1.36)),
        *(box((0, y, 1.05), (0.9, 0.3, 0.24), DARK_GREEN) for y in (-1.5, 1.5)),
    ]
    rim = [
        box((0.78, 0, 1.66), (0.24, 2.96, 0.14), "#2a8a55"),
        *(box((0, y, 1.72), (1.62, 0.24, 0.14), "#2a8a55", (0, 5, 0)) for y in (-1.36, 0.0, 1.36)),
        box((-0.78, 0, 1.94), (0.2, 2.96, 0.14), "#2a8a55"),
    ]
    lid = [
        box((0.02, 0.68, 1.86), (1.66, 1.2, 0.1), LID, (0, 9, 0)),
        *(box((0.02, y, 1.92), (1.5, 0.1, 0.1), LID_RIB, (0, 9, 0)) for y in (0.35, 0.68, 1.01)),
        box((-0.98, -0.68, 1.35), (0.1, 1.2, 1.4), LID, (0, -8, 0)),
    ]
    rubbish = [
        box((0, -0.68, 1.15), (1.4, 1.24, 0.3), "#2b2620"),
        ball((0.3, -0.98, 1.42), (0.66, 0.62, 0.6), "#e8e6df"),
        ball((-0.3, -0.42, 1.42), (0.7, 0.6, 0.6), "#2f3136").shiny(0.25),
        box((0.3, -0.36, 1.42), (0.56, 0.46, 0.46), "#c08a4a", (12, 8, 25)),
        ball((-0.4, -1.05, 1.36), (0.5, 0.46, 0.5), "#3f77c4"),
    ]
    wheels = [rod((x, y - 0.08, 0.2), (x, y + 0.08, 0.2), 0.2, BLACK) for x in (-0.5, 0.5) for y in (-1.1, 1.1)]
    return [box((0, 0, 0.42), (1.5, 2.7, 0.2), DARK_GREEN), *walls, *ribs, *rim, *lid, *rubbish, *wheels]


DISPLAY: dict[str, tuple[Solid, ...]] = {
    "Stone3": tuple(_boulder()),
    "LionStatue": tuple(_lion()),
    "Dumpster": tuple(_dumpster()),
}
