"""Buildings, towers, wells and statues."""

from __future__ import annotations

import math

from pvn.world.solids import Solid, Vector, ball, box, cone, cylinder, rod, slab

WHITE = "#f2efe6"
RED = "#cf2a24"
BLACK = "#1c1d20"
PANE = "#2c3c50"
WOOD = "#8a5a2e"
DARK_WOOD = "#5a3a20"
BRICK = "#a04a36"
STONE = "#8f8f8c"
DARK_STONE = "#6a6b6c"
PALE_STONE = "#b9b7b0"
MARBLE = "#ebe8e2"
MARBLE_SHADE = "#c6c4c6"
CASTLE = "#a3977e"
CASTLE_SHADE = "#857a65"
LION = "#cdb98c"
MANE = "#9c8152"
FUR = "#232327"
SILVER = "#6a6b72"
SKIN = "#7d6a64"
TOY = "#2f7a3c"
TOY_DARK = "#1d4f2a"


def _ring(count: int, radius: float, size: Vector, low: float, colours: tuple[str, ...]) -> list[Solid]:
    """Boxes of `size` (outward, along, up) standing at height `low` in a ring of `radius`."""
    blocks = []
    for i in range(count):
        angle = 2 * math.pi * (i + 0.5) / count
        centre = (radius * math.cos(angle), radius * math.sin(angle), low + size[2] / 2)
        blocks.append(box(centre, size, colours[i % len(colours)], (0, 0, math.degrees(angle))))
    return blocks


def _steep_roof(depth: float, ridge: tuple[Vector, Vector], hang: float, wall: str, tiles: str) -> list[Solid]:
    """A 45 degree roof with its gables, on walls `depth` apart, eaves overhanging by `hang`."""
    (ax, ay, z), (bx, by, _) = ridge
    x, y, length = (ax + bx) / 2, (ay + by) / 2, math.hypot(bx - ax, by - ay)
    ex, ey = (bx - ax) / length, (by - ay) / length
    yaw = math.degrees(math.atan2(ey, ex))
    # A box on its edge makes both gables; its lower half is hidden inside the walls.
    side, fall = depth / math.sqrt(2), depth / 2 + hang
    solids = [box((x, y, z - depth / 2), (length, side, side), wall, (45, 0, yaw))]
    for sign in (1, -1):
        eave = (x - sign * ey * fall, y + sign * ex * fall, z + 0.06 - fall)
        top = (x + sign * ey * 0.06, y - sign * ex * 0.06, z + 0.12)
        solids.append(slab(eave, top, length + 2 * hang, 0.16, tiles))
    return solids


def _windows(centre: Vector, size: Vector, count: int, wall: str, faces_x: bool = True) -> Solid:
    """Panes on two opposite walls in one box; `size` is along the row, through the house, up."""
    row = box(centre, size, wall, (0, 0, 90 if faces_x else 0))
    return row.painted("stripes", PANE, count + 0.5)


def _cottage() -> tuple[Solid, ...]:
    """White walls, red roof with the ridge across the front."""
    return (
        box((0, 0, 1.0), (3.1, 3.6, 2.0), WHITE),
        *_steep_roof(3.1, ((0, -1.79, 3.55), (0, 1.79, 3.55)), 0.28, WHITE, RED),
        box((-0.7, 1.0, 3.2), (0.55, 0.55, 1.9), BRICK),
        box((1.5, 0, 0.75), (0.2, 0.75, 1.5), DARK_WOOD),
        _windows((0, 0, 1.25), (3.4, 3.14, 0.7), 2, WHITE),
        _windows((0, 0, 1.25), (2.4, 3.64, 0.7), 1, WHITE, faces_x=False),
    )


def _blue_house() -> tuple[Solid, ...]:
    """Gable to the front over a white porch."""
    blue, slate = "#4a94d8", "#70757d"
    return (
        box((-0.2, 0, 1.25), (2.6, 2.4, 2.5), blue),
        *_steep_roof(2.4, ((-1.49, 0, 3.7), (1.09, 0, 3.7)), 0.2, blue, slate),
        box((1.05, 0, 0.7), (0.2, 0.6, 1.4), WHITE),
        box((1.05, 0, 2.75), (0.14, 0.6, 0.6), WHITE),
        box((1.45, 0, 1.75), (1.0, 1.8, 0.14), WHITE),
        cylinder((1.8, 0.75, 0), 0.08, 1.7, WHITE),
        cylinder((1.8, -0.75, 0), 0.08, 1.7, WHITE),
        _windows((-0.2, 0, 1.5), (2.2, 2.44, 0.7), 2, blue, faces_x=False),
    )


def _log_cabin() -> tuple[Solid, ...]:
    """Low, log walls, plank roof, stone chimney at the left end."""
    log, gap = "#9c6434", "#5b371b"
    roof = []
    for sign in (1, -1):
        # Too flat for a box on its edge, so thick slabs under the planks close the gables.
        roof.append(slab((sign * 1.2, 0, 1.4), (0, 0, 2.15), 2.9, 0.65, log))
        planks = slab((sign * 1.5, 0, 1.62), (-sign * 0.04, 0, 2.6), 3.3, 0.14, "#c99a5a")
        roof.append(planks.painted("stripes", "#a67940", 3.5))
    return (
        box((0, 0, 0.8), (2.4, 2.92, 1.6), log).painted("bands", gap, 5),
        *roof,
        box((-0.35, 1.45, 1.6), (0.8, 0.55, 3.2), STONE).painted("speckle", DARK_STONE, 4.3),
        box((1.15, -0.1, 0.65), (0.2, 0.65, 1.3), "#3b2514"),
        box((1.15, 0.85, 0.95), (0.2, 0.5, 0.5), PANE),
    )


def _big_house() -> tuple[Solid, ...]:
    """Two storeys, a gabled bay in front, two chimneys."""
    tan, brown = "#dcb983", "#5e3a24"
    return (
        box((-0.15, 0, 2.1), (2.7, 4.0, 4.2), tan),
        *_steep_roof(2.7, ((-0.15, -1.99, 5.55), (-0.15, 1.99, 5.55)), 0.2, tan, brown),
        box((1.1, 0, 2.2), (0.8, 1.6, 4.4), tan),
        *_steep_roof(1.6, ((0, 0, 5.2), (1.48, 0, 5.2)), 0.16, tan, brown),
        box((-0.5, 1.45, 5.3), (0.5, 0.5, 1.6), BRICK),
        box((-0.5, -1.45, 5.3), (0.5, 0.5, 1.6), BRICK),
        *(_windows((-0.15, 0, z), (3.6, 2.74, 0.8), 4, tan) for z in (1.3, 3.2)),
        *(_windows((-0.15, 0, z), (2.2, 4.04, 0.8), 2, tan, faces_x=False) for z in (1.3, 3.2)),
        box((1.45, 0, 0.75), (0.2, 0.8, 1.5), DARK_WOOD),
        box((1.45, 0, 3.2), (0.18, 0.8, 0.9), PANE),
    )


def _tv_tower() -> tuple[Solid, ...]:
    """Four banded legs with diagonal braces, and a mast."""
    height, foot, head = 6.8, 1.1, 0.25

    def corner(level: float, side: int) -> Vector:
        """Where the leg at corner `side` is at a fraction `level` of its height."""
        reach = foot + (head - foot) * level
        x, y = ((1, 1), (-1, 1), (-1, -1), (1, -1))[side % 4]
        return (x * reach, y * reach, level * height)

    legs = [rod(corner(0, i), corner(1, i), 0.12, RED).painted("bands", WHITE, 3.5) for i in range(4)]
    levels = (0.02, 0.36, 0.68)
    braces = [
        rod(corner(low, i), corner(high, i + 1), 0.06, colour)
        for low, high, colour in zip(levels, levels[1:], (RED, WHITE), strict=False)
        for i in range(4)
    ]
    return (
        box((0, 0, 0.1), (2.45, 2.45, 0.2), PALE_STONE),
        *legs,
        *braces,
        cylinder((0, 0, height - 0.1), 0.55, 0.3, RED),
        rod((0, 0, height), (0, 0, height + 3.0), 0.13, WHITE).painted("bands", RED, 2.5),
    )


def _windmill() -> tuple[Solid, ...]:
    """A round white tower; its sails stand as an X, which keeps them within the radius."""
    x, z = 0.78, 4.3
    sails, spars = [], []
    for quarter in range(4):
        roll = 45 + 90 * quarter
        along = (-math.sin(math.radians(roll)), math.cos(math.radians(roll)))
        aside = (along[1], -along[0])
        y_middle, z_middle = (1.12 * a + 0.22 * b for a, b in zip(along, aside, strict=True))
        sail = box((x, y_middle, z + z_middle), (0.06, 0.46, 1.46), "#f3ead4", (roll, 0, 0))
        sails.append(sail.painted("bands", "#96764a", 5.5))
    for sign in (1, -1):
        spars.append(rod((x, sign * 1.35, z - 1.35), (x, -sign * 1.35, z + 1.35), 0.09, DARK_WOOD))
    return (
        cone((-0.15, 0, 0), 1.2, 4.1, WHITE, top=0.75),
        cone((-0.15, 0, 4.05), 0.9, 1.0, BRICK, top=0.1),
        rod((-0.1, 0, z), (x + 0.15, 0, z), 0.17, DARK_WOOD),
        *sails,
        *spars,
        box((0.85, 0, 0.7), (0.4, 0.6, 1.4), WOOD),
        box((0.65, 0, 2.5), (0.3, 0.4, 0.6), PANE),
    )


def _lantern(sign: int) -> list[Solid]:
    """One arm of the street lamp and the lamp hanging from it."""
    return [
        rod((0, 0, 5.6), (0, sign * 1.25, 6.1), 0.1, BLACK),
        cone((0, sign * 1.28, 5.95), 0.3, 0.35, BLACK, top=0.12),
        ball((0, sign * 1.28, 5.75), (0.8, 0.8, 0.7), "#fff1b0"),
    ]


def _gorilla_limbs(sign: int) -> list[Solid]:
    """An arm standing on its knuckles and a bent leg."""
    return [
        ball((0.4, sign * 0.98, 1.95), (0.85, 0.8, 1.9), FUR, (sign * 16, -14, 0)),
        rod((0.6, sign * 1.2, 1.6), (0.9, sign * 1.1, 0.0), 0.3, FUR, top=0.36),
        rod((-0.5, sign * 0.6, 1.0), (-0.35, sign * 0.8, 0.0), 0.45, FUR, top=0.36),
    ]


STRUCTURES: dict[str, tuple[Solid, ...]] = {
    "Beacon": (
        cone((0, 0, 0), 2.8, 0.7, PALE_STONE, top=2.5),
        cone((0, 0, 0.6), 1.9, 6.6, RED, top=1.25).painted("bands", WHITE, 3),
        cylinder((0, 0, 7.15), 1.75, 0.25, BLACK),
        cylinder((0, 0, 7.3), 0.95, 1.3, "#ffe27a").shiny(0.3),
        cone((0, 0, 8.55), 1.3, 1.1, RED),
        ball((0, 0, 9.7), 0.35, BLACK),
        box((1.7, 0, 1.4), (0.5, 0.8, 1.6), DARK_WOOD),
    ),
    "BigHouse": _big_house(),
    "Column": (
        box((-0.3, 0.3, 0.15), (1.7, 1.7, 0.3), MARBLE_SHADE),
        cylinder((-0.3, 0.3, 0.25), 0.8, 0.3, MARBLE),
        cone((-0.3, 0.3, 0.5), 0.62, 2.4, MARBLE, top=0.55).painted("stripes", MARBLE_SHADE, 5),
        # The slanting break: a short drum tilted so far that its lower rim meets the shaft's edge.
        Solid("frustum", (-0.3, 0.3, 2.9), (0.48, 0.48, 0.25), MARBLE, (6, 31, 0)),
        rod((0.35, -1.15, 0.45), (1.15, -0.35, 0.45), 0.45, MARBLE).painted("stripes", MARBLE_SHADE, 5),
        box((1.15, 0.65, 0.12), (0.5, 0.4, 0.4), MARBLE, (20, 25, 40)),
    ),
    "House": _cottage(),
    "House1": _blue_house(),
    "House2": _log_cabin(),
    "Pillar": (
        box((0, 0, 0.2), (2.4, 2.4, 0.4), DARK_STONE),
        box((0, 0, 0.6), (1.8, 1.8, 0.6), STONE),
        box((0, 0, 3.2), (1.15, 1.15, 5.0), STONE).painted("bands", "#7a7a79", 4.5),
        box((0, 0, 5.7), (1.4, 1.4, 0.3), DARK_STONE),
        box((0, 0, 6.0), (1.7, 1.7, 0.4), STONE),
        box((0, 0, 6.25), (1.1, 1.1, 0.3), DARK_STONE),
    ),
    "Tower2": (
        cone((0, 0, 0), 2.1, 5.0, CASTLE, top=1.8).painted("speckle", CASTLE_SHADE, 5.3),
        cone((0, 0, 4.6), 1.8, 0.7, CASTLE_SHADE, top=2.2),
        cylinder((0, 0, 5.25), 1.9, 0.15, "#4d463b"),
        *_ring(8, 1.98, (0.45, 0.8, 1.0), 5.2, (CASTLE,)),
        box((1.9, 0, 0.8), (0.5, 0.9, 1.6), DARK_WOOD),
        box((1.8, 0, 3.2), (0.4, 0.3, 0.9), BLACK),
    ),
    "TvTower": _tv_tower(),
    "WaterWell": (
        cylinder((0, 0, 0), 1.5, 1.0, STONE).painted("speckle", DARK_STONE, 5.3),
        cylinder((0, 0, 0.9), 1.65, 0.2, PALE_STONE),
        cylinder((0, 0, 1.0), 1.25, 0.12, "#182430"),
        box((0, 1.0, 1.9), (0.22, 0.22, 2.0), DARK_WOOD),
        box((0, -1.0, 1.9), (0.22, 0.22, 2.0), DARK_WOOD),
        *(
            slab((sign * 0.9, 0, 2.4), (-sign * 0.05, 0, 3.2), 2.6, 0.12, WOOD).painted("stripes", "#75491f", 2.5)
            for sign in (1, -1)
        ),
        rod((0, -1.15, 1.8), (0, 1.15, 1.8), 0.12, "#b98a52"),
        cone((0, 0, 1.05), 0.22, 0.45, "#b98a52", top=0.3),
    ),
    "Well": (
        *_ring(12, 1.78, (0.55, 1.0, 1.0), 0, (STONE, "#a5a39c", "#7f7f7d")),
        cylinder((0, 0, 0), 1.6, 0.25, "#10283c").shiny(0.2),
    ),
    "Windmill": _windmill(),
    "StreetLamp": (
        cylinder((0, 0, 0), 0.9, 0.15, PALE_STONE),
        cone((0, 0, 0.1), 0.5, 0.9, BLACK, top=0.2),
        cylinder((0, 0, 0.5), 0.17, 5.5, BLACK),
        ball((0, 0, 6.1), (0.36, 0.36, 0.6), BLACK),
        *_lantern(1),
        *_lantern(-1),
    ),
    "Tombstone": (
        box((0.45, 0, 0.1), (2.1, 1.5, 0.2), STONE),
        ball((0.45, 0, 0.15), (1.9, 1.25, 0.7), "#5d4630"),
        box((-0.9, 0, 0.2), (0.8, 1.9, 0.4), DARK_STONE),
        box((-0.9, 0, 1.15), (0.4, 1.5, 1.7), STONE),
        Solid("frustum", (-0.9, 0, 2.0), (0.75, 0.75, 0.2), STONE, (0, 90, 0)),
        box((-0.72, 0, 1.75), (0.1, 0.18, 1.2), "#3d3e40"),
        box((-0.72, 0, 2.0), (0.1, 0.75, 0.18), "#3d3e40"),
    ),
    "LionStatue": (
        box((0, 0, 0.15), (5.0, 2.4, 0.3), DARK_STONE),
        box((0, 0, 0.8), (4.5, 1.9, 1.2), PALE_STONE),
        ball((-0.5, 0, 2.05), (3.2, 1.5, 1.5), LION),
        ball((-1.25, 0, 1.95), (1.5, 1.9, 1.5), LION),
        ball((0.75, 0, 2.95), (1.5, 1.9, 2.0), MANE),
        ball((1.2, 0, 3.1), (1.1, 1.05, 1.15), LION),
        ball((1.7, 0, 2.9), (0.6, 0.6, 0.5), "#e2cf9f"),
        ball((1.98, 0, 2.98), (0.16, 0.3, 0.18), BLACK),
        ball((0.95, 0.55, 3.75), (0.3, 0.4, 0.4), LION),
        ball((0.95, -0.55, 3.75), (0.3, 0.4, 0.4), LION),
        rod((0.4, 0.5, 1.65), (2.0, 0.5, 1.6), 0.28, LION),
        rod((0.4, -0.5, 1.65), (2.0, -0.5, 1.6), 0.28, LION),
        rod((-1.8, 0.3, 1.6), (-1.2, 1.0, 1.55), 0.14, LION),
        ball((-1.1, 1.05, 1.6), (0.5, 0.35, 0.35), MANE),
    ),
    "Gorilla": (
        ball((-0.35, 0, 1.5), (1.7, 1.6, 1.9), FUR, (0, 30, 0)),
        ball((0.2, 0, 2.25), (1.3, 2.1, 1.3), FUR),
        ball((-0.6, 0, 1.75), (1.4, 1.2, 1.5), SILVER, (0, 30, 0)),
        ball((0.6, 0, 2.95), (0.95, 0.9, 1.2), FUR),
        ball((0.95, 0, 2.82), (0.5, 0.72, 0.75), SKIN),
        ball((1.05, 0, 3.05), (0.3, 0.75, 0.2), FUR),
        ball((1.1, 0, 2.65), (0.45, 0.5, 0.35), "#54463f"),
        *_gorilla_limbs(1),
        *_gorilla_limbs(-1),
    ),
    "Soldier": (
        Solid("frustum", (0, 0, 0.12), (1.1, 1.6, 0.12), TOY_DARK),
        rod((0.1, 0.55, 0.2), (0, 0.25, 1.8), 0.32, TOY_DARK).painted("bands", TOY, 1),
        rod((-0.1, -0.55, 0.2), (0, -0.25, 1.8), 0.32, TOY_DARK).painted("bands", TOY, 1),
        Solid("frustum", (0, 0, 2.4), (0.38, 0.55, 0.75), TOY, taper=1.25),
        ball((0.06, 0, 3.5), (0.7, 0.65, 0.85), "#48a056"),
        ball((0, 0, 3.76), (0.98, 0.92, 0.75), TOY_DARK),
        rod((0, 0.7, 2.95), (0.7, 0.5, 2.45), 0.2, TOY),
        rod((0, -0.7, 2.95), (0.7, -0.3, 2.25), 0.2, TOY),
        rod((0.75, -0.95, 1.95), (0.75, 1.4, 3.1), 0.12, BLACK),
        box((-0.5, 0, 2.6), (0.45, 0.8, 0.9), TOY_DARK),
    ),
}
