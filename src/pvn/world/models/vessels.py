"""Stones, barrels, boxes and bins."""

from __future__ import annotations

import math

from pvn.world.solids import Solid, Vector, ball, box, cone, cylinder, rod, slab

BOULDER, BOULDER_LIGHT = "#7f8387", "#95989b"
PALE, PALE_WARM = "#f3ead2", "#dccfae"
SLATE, SLATE_LIGHT, SLATE_DARK = "#33373f", "#454b55", "#23262c"
REDSTONE, REDSTONE_LIGHT, REDSTONE_DARK = "#b5472f", "#d0704f", "#87301f"
RUST, RUST_DARK, RUST_LIGHT = "#d2691e", "#9a4513", "#e58a3a"
PLASTIC, PLASTIC_LIGHT = "#1f74e0", "#5aa5f5"
TAR, TAR_LIGHT, HOLE = "#1b1b1e", "#3a3b40", "#0d0b0a"
STAVE, STAVE_DARK, IRON = "#b07a3e", "#96632d", "#3d3f45"
CRATE, CRATE_DARK, CRATE_FRAME = "#d9a55c", "#c08a42", "#8f5d2a"
STEEL, STEEL_LIGHT, STEEL_DARK = "#93a7bd", "#e4eefa", "#4c5865"
CHEST, CHEST_DARK, GOLD = "#7a4420", "#5f3316", "#f5c022"
BIN, BIN_LID, WHITE = "#1d55b8", "#2f74e6", "#f4f6f8"
DUMPSTER, DUMPSTER_DARK, BLACK = "#1d5a37", "#143f27", "#17181a"
FREIGHT, FREIGHT_DARK, FREIGHT_FRAME = "#35a853", "#258540", "#1a6130"


def _granite(centre: Vector, size: Vector, turn: Vector) -> Solid:
    """A lump of grey, grainy boulder."""
    return ball(centre, size, BOULDER, turn).painted("speckle", BOULDER_LIGHT, 9)


def _crag(centre: Vector, half: Vector, colour: str, turn: Vector, taper: float = 0.08) -> Solid:
    """A narrowing block of stone with an oval foot; flat ones crossed at angles make ridges."""
    return Solid("frustum", centre, half, colour, turn, taper)


def _staves(foot: float, radius: float, top: float) -> Solid:
    """One quarter of a wooden barrel's height, from `foot` metres up."""
    middle, half = (0.0, 0.0, foot + 0.49), (radius, radius, 0.49)
    staves = Solid("frustum", middle, half, STAVE, (0, 0, 35), top / radius)
    return staves.painted("stripes", STAVE_DARK, 5)


def _recycling_sign(centre: Vector, reach: float, is_flat: bool) -> list[Solid]:
    """A white triangle of three bars around `centre`, lying flat or facing the front."""
    corners = []
    for angle in (90, 210, 330):
        across, up = (reach * f(math.radians(angle)) for f in (math.cos, math.sin))
        x, y, z = centre
        corners.append((x - up, y - across, z) if is_flat else (x, y - across, z + up))
    thickness, width = (0.1, 0.2) if is_flat else (0.2, 0.1)
    signs = []
    for start, end in zip(corners, corners[1:] + corners[:1], strict=True):
        gap = tuple(0.12 * (b - a) for a, b in zip(start, end, strict=True))
        first = (start[0] + gap[0], start[1] + gap[1], start[2] + gap[2])
        last = (end[0] - gap[0], end[1] - gap[1], end[2] - gap[2])
        signs.append(slab(first, last, width, thickness, WHITE))
    return signs


VESSELS: dict[str, tuple[Solid, ...]] = {
    "Rock": (
        _granite((0.0, 0.0, 1.2), (3.0, 3.2, 2.8), (0, 12, 20)),
        _granite((0.3, -0.35, 1.35), (2.1, 2.3, 2.9), (22, -14, 30)),
        _granite((-0.2, 0.45, 1.5), (2.0, 1.9, 2.5), (-24, 10, 0)),
        _granite((0.55, 0.6, 0.8), (1.8, 1.7, 2.0), (0, 20, 40)),
        _granite((-0.5, -0.75, 0.7), (1.9, 1.6, 1.9), (0, -25, 20)),
    ),
    "Stone1": (
        ball((0.0, 0.0, 0.55), (2.15, 3.2, 1.35), PALE, (12, 0, 20)).painted("bands", PALE_WARM, 2.5),
        ball((0.1, -0.25, 0.55), (1.9, 2.2, 1.3), PALE, (-6, 6, 0)),
    ),
    "Stone2": (
        _crag((0.0, 0.0, 0.18), (1.35, 1.68, 0.2), SLATE_DARK, (0, 0, 10), 0.96),
        _crag((0.1, -0.1, 0.3), (1.3, 1.35, 0.2), SLATE, (2, 3, 40), 0.92),
        box((-0.05, 0.05, 0.42), (1.5, 2.0, 0.3), SLATE_LIGHT, (2, -3, 15)),
        box((-0.1, 0.3, 0.6), (1.1, 1.2, 0.2), SLATE, (3, -4, 30)),
    ),
    # All crags lean left, like one tilted bed of rock; their feet are sunk into the ground to hide the rims.
    "Stone3": (
        _crag((0.0, 0.1, 1.35), (1.35, 1.05, 1.7), REDSTONE, (-16, 6, 20)),
        _crag((0.1, -0.2, 0.75), (1.2, 0.75, 1.15), REDSTONE_LIGHT, (-1, 18, 85)),
        _crag((-0.1, 0.2, 0.75), (1.4, 0.7, 1.1), REDSTONE_DARK, (14, 10, 145)),
        _crag((0.7, -0.45, 0.4), (0.8, 0.6, 0.8), REDSTONE_DARK, (-12, -11, -40)),
        _crag((0.1, 0.9, 0.35), (0.8, 0.6, 0.7), REDSTONE_LIGHT, (6, 16, 110)),
        _crag((-0.7, -0.4, 0.3), (0.75, 0.65, 0.65), REDSTONE_LIGHT, (14, -8, 210)),
    ),
    "Barrel": (
        rod((0, -1.32, 1.02), (0, 1.32, 1.02), 0.95, RUST).painted("speckle", RUST_DARK, 6),
        *(rod((0, y - 0.09, 1.02), (0, y + 0.09, 1.02), 1.02, RUST_LIGHT) for y in (-0.45, 0.45)),
        *(rod((0, y - 0.08, 1.02), (0, y + 0.08, 1.02), 1.02, RUST_DARK) for y in (-1.3, 1.3)),
        rod((0, -1.4, 1.02), (0, -1.2, 1.02), 0.84, HOLE),
        rod((0, 1.2, 1.02), (0, 1.4, 1.02), 0.84, RUST),
        rod((0.4, 1.3, 1.3), (0.4, 1.46, 1.3), 0.16, RUST_DARK),
        rod((0.3, 0.0, 1.8), (0.3, 0.0, 2.06), 0.16, RUST_DARK),
    ),
    "Barrel2": (
        cone((0, 0, 0), 1.45, 0.5, PLASTIC, top=1.66),
        cylinder((0, 0, 0.45), 1.66, 2.3, PLASTIC).shiny(0.2),
        cylinder((0, 0, 1.15), 1.7, 0.18, PLASTIC_LIGHT),
        cylinder((0, 0, 2.0), 1.7, 0.18, PLASTIC_LIGHT),
        cone((0, 0, 2.74), 1.66, 0.75, PLASTIC, top=1.05).shiny(0.2),
        cylinder((0, 0, 3.4), 1.12, 0.3, WHITE),
        cylinder((0, 0, 3.6), 0.85, 0.2, PLASTIC_LIGHT),
    ),
    "Box": (
        box((0, 0, 1.15), (2.12, 2.12, 2.1), CRATE).painted("bands", CRATE_DARK, 3.2),
        box((0, 0, 0.16), (2.36, 2.36, 0.32), CRATE_FRAME),
        box((0, 0, 2.14), (2.36, 2.36, 0.32), CRATE_FRAME),
        box((0, 0, 2.2), (1.8, 1.8, 0.28), CRATE).painted("stripes", CRATE_DARK, 3.2),
        *(box((x, y, 1.15), (0.3, 0.3, 2.2), CRATE_FRAME) for x in (-1.0, 1.0) for y in (-1.0, 1.0)),
        *(slab((x, -0.9 * x, 0.3), (x, 0.9 * x, 2.0), 0.16, 0.3, CRATE_FRAME) for x in (-1.05, 1.05)),
        *(slab((-0.9 * y, y, 0.3), (0.9 * y, y, 2.0), 0.16, 0.3, CRATE_FRAME) for y in (-1.05, 1.05)),
    ),
    # The two tones of each side stand for reflections of sky and ground.
    "SteelCube": (
        box((0, 0, 1.19), (2.36, 2.36, 2.36), STEEL_DARK).shiny(0.3),
        box((0, 0, 1.19), (2.41, 2.1, 2.1), STEEL).painted("bands", STEEL_LIGHT, 0.9, 0.35),
        box((0, 0, 1.19), (2.1, 2.41, 2.1), STEEL).painted("bands", STEEL_LIGHT, 0.9, 0.35),
        box((0, 0, 1.21), (2.1, 2.1, 2.41), STEEL).shiny(0.6),
        box((0, 0, 1.21), (1.3, 1.3, 2.45), STEEL_LIGHT).shiny(0.6),
    ),
    "OilDrum": (
        cylinder((0, 0, 0), 1.55, 4.1, TAR).shiny(0.15),
        *(cylinder((0, 0, z), 1.66, 0.16, TAR_LIGHT).shiny(0.2) for z in (0.0, 1.35, 2.65, 4.0)),
        cylinder((0, 0, 4.0), 1.45, 0.17, TAR),
        cylinder((0.85, 0.3, 4.1), 0.26, 0.2, "#d8302a"),
        cylinder((-0.9, -0.4, 4.1), 0.16, 0.16, TAR_LIGHT),
        box((0, 0, 2.08), (3.2, 0.62, 0.62), "#f2c21b", (45, 0, 0)),
    ),
    "WoodBarrel": (
        _staves(0.0, 1.3, 1.58),
        _staves(0.96, 1.58, 1.66),
        _staves(1.9, 1.66, 1.58),
        _staves(2.82, 1.58, 1.3),
        cone((0, 0, 0.15), 1.39, 0.3, IRON, top=1.48),
        cone((0, 0, 1.0), 1.62, 0.3, IRON, top=1.66),
        cone((0, 0, 2.5), 1.66, 0.3, IRON, top=1.62),
        cone((0, 0, 3.35), 1.48, 0.3, IRON, top=1.39),
        cylinder((0, 0, 3.7), 1.14, 0.15, STAVE_DARK).painted("stripes", CRATE, 3.3),
    ),
    "TreasureChest": (
        box((0, 0, 0.65), (1.7, 2.8, 1.3), CHEST).painted("bands", CHEST_DARK, 3),
        rod((0, -1.4, 1.3), (0, 1.4, 1.3), 0.85, CHEST),
        *(box((0, y, 0.66), (1.8, 0.3, 1.32), GOLD).shiny(0.3) for y in (-1.3, 0.0, 1.3)),
        *(rod((0, y - 0.15, 1.3), (0, y + 0.15, 1.3), 0.9, GOLD).shiny(0.3) for y in (-1.3, 0, 1.3)),
        box((0, 0, 1.3), (1.84, 2.94, 0.16), GOLD).shiny(0.3),
        box((0.9, 0, 1.2), (0.24, 0.5, 0.6), GOLD).shiny(0.4),
        box((1.0, 0, 1.12), (0.1, 0.12, 0.26), BLACK),
    ),
    "RecycleBin": (
        box((0.0, 0, 1.5), (1.9, 2.0, 2.4), BIN),
        box((0.05, 0, 2.75), (2.2, 2.2, 0.5), BIN),
        box((0.05, 0, 3.1), (2.4, 2.4, 0.3), BIN_LID, (0, 4, 0)),
        rod((-1.2, -0.8, 3.0), (-1.2, 0.8, 3.0), 0.12, BLACK),
        *(rod((-0.8, y - 0.15, 0.45), (-0.8, y + 0.15, 0.45), 0.45, BLACK) for y in (-1.0, 1.0)),
        box((0.6, 0, 0.2), (0.5, 1.9, 0.4), BIN),
        *_recycling_sign((0.95, 0, 1.4), 0.75, is_flat=False),
        *_recycling_sign((0.05, 0, 3.25), 0.8, is_flat=True),
    ),
    "Dumpster": (
        box((0, 0, 0.95), (1.5, 2.7, 1.4), DUMPSTER),
        box((0, 0, 1.6), (1.64, 2.84, 0.18), DUMPSTER_DARK),
        box((-0.35, 0, 1.75), (0.8, 2.66, 0.5), DUMPSTER),
        *(box((0.03, y, 1.96), (1.74, 1.34, 0.14), BLACK, (0, 16, 0)) for y in (-0.69, 0.69)),
        *(box((0, y, 0.95), (1.66, 0.16, 1.2), DUMPSTER_DARK) for y in (-0.85, 0.0, 0.85)),
        box((0, 0, 1.1), (0.9, 3.1, 0.3), DUMPSTER_DARK),
        *(rod((x, -1.2, 0.2), (x, 1.2, 0.2), 0.2, BLACK) for x in (-0.5, 0.5)),
    ),
    "Container": (
        box((0, 0, 0.92), (4.5, 1.46, 1.6), FREIGHT, (0, 0, 90)).painted("stripes", FREIGHT_DARK, 11),
        *(box((x, 0, z), (0.14, 4.68, 0.16), FREIGHT_FRAME) for x in (-0.7, 0.7) for z in (0.1, 1.7)),
        *(box((0, y, 0.9), (1.56, 0.16, 1.78), FREIGHT_FRAME) for y in (-2.27, 2.27)),
        *(box((x, -2.33, 0.9), (0.64, 0.12, 1.54), FREIGHT) for x in (-0.35, 0.35)),
        *(rod((x, -2.39, 0.15), (x, -2.39, 1.65), 0.04, STEEL) for x in (-0.2, 0.2)),
        box((0, 0.9, 1.1), (1.5, 1.2, 0.5), WHITE),
    ),
}
