"""Vehicles, furniture and street furniture."""

from __future__ import annotations

from collections.abc import Sequence

from pvn.world.solids import Solid, Vector, ball, box, cone, cylinder, rod, slab

RUBBER = "#1d1d20"
IRON = "#2b2d31"
STEEL = "#b9bec6"
GLASS = "#22303f"
GOLD = "#f2b51d"
RED = "#cc1f1a"
DARK_RED = "#8e1512"
WHITE = "#f4f4f0"


def _wheels(axles: Sequence[float], track: float, radius: float, width: float) -> list[Solid]:
    """A pair of tyres for each axle position x, standing on the ground, outer faces `track` apart."""
    return [
        rod((x, side * track / 2, radius), (x, side * (track / 2 - width), radius), radius, RUBBER)
        for x in axles
        for side in (-1, 1)
    ]


def _axles(axles: Sequence[float], length: float, height: float, radius: float, colour: str) -> list[Solid]:
    """Bars across the vehicle whose ends show as hub caps on both sides."""
    return [rod((x, -length / 2, height), (x, length / 2, height), radius, colour) for x in axles]


def _lamps(centre: Vector, size: Vector, lamp: str, between: str) -> Solid:
    """A strip across the vehicle with a lamp at each end; `size` is across, along, up."""
    return box(centre, size, lamp, (0, 0, 90)).painted("stripes", between, 1.49)


PLANK = "#c98a45"
DARK_PLANK = "#7a4a22"
OAR = "#eccf94"
THWART = "#dcae6c"


def _boat() -> list[Solid]:
    """A rowing boat, bow to the front: a flat bottom, planked walls, thwarts, oars."""
    walls = []
    for side in (-1, 1):
        for start, end in (
            ((-2.45, 0.72), (-1.0, 1.08)),
            ((-1.1, 1.08), (0.75, 1.08)),
            ((0.65, 1.10), (2.0, 0.62)),
            ((1.92, 0.68), (2.78, 0.03)),
        ):
            wall = slab((start[0], side * start[1], 0.68), (end[0], side * end[1], 0.68), 0.1, 0.95, PLANK)
            walls.append(wall.painted("bands", DARK_PLANK, 2.49))
    return [
        Solid("frustum", (0.05, 0, 0.2), (1.95, 0.84, 0.2), DARK_PLANK, taper=1.27),
        box((-1.5, 0, 0.3), (1.8, 1.5, 0.24), DARK_PLANK),
        *walls,
        box((-2.42, 0, 0.68), (0.12, 1.45, 0.95), PLANK),
        box((-1.5, 0, 0.86), (0.5, 1.9, 0.1), THWART),
        box((0.1, 0, 0.86), (0.5, 2.1, 0.1), THWART),
        box((1.5, 0, 0.86), (0.4, 1.5, 0.1), THWART),
        rod((-0.9, -0.45, 1.1), (0.9, -1.9, 1.25), 0.06, OAR, top=0.13),
        rod((-0.9, 0.45, 1.1), (0.9, 1.9, 1.25), 0.06, OAR, top=0.13),
    ]


COACHWORK = "#7b4322"
DARK_COACHWORK = "#46240f"
SPOKE = "#d9a85a"


def _coach() -> list[Solid]:
    """A stage coach without horses: cabin, luggage, driver's bench, shafts, big wheels."""
    wheels = []
    for x, radius in ((-1.3, 1.0), (1.0, 0.8)):
        for side in (-1, 1):
            inner, outer = (x, side * 0.98, radius), (x, side * 1.18, radius)
            disc = rod(inner, outer, 0.8 * radius, SPOKE).painted("stripes", DARK_COACHWORK, 3.5)
            rim = rod((x, side, radius), (x, side * 1.16, radius), radius, DARK_COACHWORK)
            wheels += [rim, disc]
    return [
        *wheels,
        *_axles((-1.3,), 2.5, 1.0, 0.2, GOLD),
        *_axles((1.0,), 2.5, 0.8, 0.17, GOLD),
        box((-0.15, 0, 0.95), (3.5, 0.8, 0.22), DARK_COACHWORK),
        box((-0.5, 0, 1.5), (2.0, 1.5, 1.0), COACHWORK),
        box((-0.5, 0, 2.4), (2.3, 1.64, 0.9), COACHWORK),
        # Its ends lie inside the cabin, so that only the flanks have windows.
        box((-0.5, 0, 2.42), (2.1, 1.68, 0.56), COACHWORK).painted("stripes", "#f3e3b3", 2.9),
        box((-0.5, 0, 2.88), (2.5, 1.86, 0.12), GOLD),
        box((-0.5, 0, 2.95), (2.4, 1.74, 0.16), COACHWORK),
        box((-0.85, 0, 3.2), (1.2, 1.1, 0.45), SPOKE).painted("bands", DARK_COACHWORK, 1.4),
        box((1.0, 0, 1.42), (0.8, 1.4, 0.8), "#9c2b20"),
        rod((1.2, -0.4, 0.85), (2.75, -0.4, 0.7), 0.06, SPOKE),
        rod((1.2, 0.4, 0.85), (2.75, 0.4, 0.7), 0.06, SPOKE),
    ]


JET_GREY = "#8d99a6"
DARK_JET_GREY = "#66727f"


def _jet() -> list[Solid]:
    """A delta-winged fighter on three legs, nose to the front."""

    def delta(x: float, y: float, z: float, half_span: float, length: float, colour: str) -> Solid:
        # A cone on its side, tip forward and pressed flat, makes a pair of swept wings.
        return Solid("frustum", (x, y, z), (0.07, half_span, length / 2), colour, (0, 90, 0), 0.05)

    return [
        rod((-2.45, 0, 1.15), (0.9, 0, 1.15), 0.42, JET_GREY).shiny(0.3),
        rod((0.88, 0, 1.15), (2.65, 0, 1.05), 0.42, JET_GREY, top=0.03).shiny(0.3),
        ball((0.75, 0, 1.48), (1.5, 0.52, 0.62), "#1f3a5c").shiny(0.7),
        box((-0.2, 0, 1.05), (1.6, 1.25, 0.5), DARK_JET_GREY),
        delta(-0.45, 0, 1.1, 2.0, 2.9, JET_GREY),
        delta(-1.95, 0, 1.2, 1.1, 1.3, DARK_JET_GREY),
        Solid("frustum", (-1.95, 0, 2.0), (0.65, 0.05, 0.62), DARK_JET_GREY, (0, -28, 0), 0.5),
        rod((-2.6, 0, 1.15), (-2.4, 0, 1.15), 0.34, "#26211f"),
        rod((-2.0, -1.85, 1.1), (-0.7, -1.85, 1.1), 0.09, WHITE),
        rod((-2.0, 1.85, 1.1), (-0.7, 1.85, 1.1), 0.09, WHITE),
        *_wheels((-0.7,), 1.3, 0.25, 0.2),
        *_wheels((1.4,), 0.2, 0.22, 0.2)[:1],
        box((-0.7, 0, 0.55), (0.15, 0.9, 0.6), STEEL),
        rod((1.4, 0, 0.2), (1.4, 0, 1.1), 0.07, STEEL),
    ]


def _pickup() -> list[Solid]:
    """A red pickup truck with an open load bed, bonnet to the front."""
    return [
        *_wheels((-1.12, 1.12), 1.74, 0.42, 0.32),
        *_axles((-1.12, 1.12), 1.78, 0.42, 0.2, STEEL),
        box((0, 0, 0.58), (3.5, 1.3, 0.36), IRON),
        box((1.25, 0, 0.86), (1.15, 1.6, 0.56), RED).shiny(0.35),
        box((0.15, 0, 0.84), (1.3, 1.64, 0.66), RED).shiny(0.35),
        box((-0.03, 0, 1.4), (0.98, 1.44, 0.62), GLASS).shiny(0.5),
        box((0.6, 0, 1.4), (0.08, 1.44, 0.8), "#7fa6c2", (0, -38, 0)).shiny(0.5),
        box((-0.08, 0, 1.74), (0.92, 1.5, 0.12), RED).shiny(0.35),
        box((-1.15, 0.77, 0.9), (1.4, 0.1, 0.52), RED).shiny(0.35),
        box((-1.15, -0.77, 0.9), (1.4, 0.1, 0.52), RED).shiny(0.35),
        box((-1.8, 0, 0.9), (0.1, 1.64, 0.52), DARK_RED),
        box((-1.15, 0, 0.72), (1.35, 1.5, 0.12), "#4a4d52"),
        _lamps((1.83, 0, 0.92), (1.5, 0.06, 0.26), "#fff3b8", IRON),
        box((1.82, 0, 0.55), (0.16, 1.64, 0.18), STEEL).shiny(0.5),
    ]


OLIVE = "#5d6330"
LIGHT_OLIVE = "#737a3e"
DARK_OLIVE = "#3e4322"


def _tank() -> list[Solid]:
    """An army tank, gun to the front."""
    tracks = []
    for side in (-1, 1):
        inner, outer = side * 0.6, side * 1.08
        tracks += [
            box((-0.15, side * 0.84, 0.44), (2.7, 0.48, 0.86), IRON).painted("stripes", "#4a4a48", 12),
            rod((-1.5, inner, 0.44), (-1.5, outer, 0.44), 0.43, IRON),
            rod((1.2, inner, 0.44), (1.2, outer, 0.44), 0.43, IRON),
        ]
    return [
        *tracks,
        *_axles((-1.5, -0.6, 0.3, 1.2), 2.22, 0.42, 0.28, LIGHT_OLIVE),
        box((-0.2, 0, 0.75), (3.1, 1.3, 0.7), OLIVE),
        box((-0.3, 0, 0.98), (2.8, 1.5, 0.14), OLIVE),
        box((1.25, 0, 0.82), (0.75, 1.28, 0.5), LIGHT_OLIVE, (0, 35, 0)),
        Solid("frustum", (-0.35, 0, 1.3), (1.05, 0.85, 0.3), LIGHT_OLIVE, taper=0.75),
        rod((0.2, 0, 1.32), (2.2, 0, 1.42), 0.11, DARK_OLIVE),
        rod((1.95, 0, 1.41), (2.24, 0, 1.42), 0.16, DARK_OLIVE),
        cylinder((-0.5, 0.25, 1.55), 0.3, 0.22, DARK_OLIVE),
        rod((-0.95, -0.4, 1.5), (-1.2, -0.4, 2.7), 0.03, IRON),
    ]


ANVIL_GREY = "#5b6068"
DARK_ANVIL_GREY = "#43474e"


def _anvil() -> list[Solid]:
    """A blacksmith's anvil in profile, horn to its right."""
    return [
        box((0, 0, 0.18), (1.5, 2.2, 0.36), DARK_ANVIL_GREY),
        Solid("frustum", (0, 0, 0.5), (0.72, 1.05, 0.25), DARK_ANVIL_GREY, taper=0.55),
        box((0, 0, 0.9), (0.7, 1.0, 0.8), ANVIL_GREY),
        Solid("frustum", (0, 0.1, 1.3), (0.4, 0.6, 0.22), ANVIL_GREY, taper=1.6),
        box((0, 0.45, 1.7), (0.9, 2.0, 0.5), ANVIL_GREY).shiny(0.25),
        box((0, 0.45, 1.96), (0.92, 2.02, 0.1), "#858b94").shiny(0.35),
        rod((0, -0.45, 1.7), (0, -1.68, 1.85), 0.36, "#737983", top=0.04).shiny(0.35),
        box((0, 1.15, 2.0), (0.2, 0.2, 0.06), IRON),
    ]


BENCH_WOOD = "#b06a2c"
LIGHT_BENCH_WOOD = "#c98240"


def _bench() -> list[Solid]:
    """A long park bench: slats on cast iron frames."""
    frames = []
    for y in (-2.25, 2.25):
        frames += [
            box((0.6, y, 0.65), (0.14, 0.14, 1.3), IRON),
            slab((-0.5, y, 0.0), (-0.85, y, 2.3), 0.14, 0.14, IRON),
            box((0.0, y, 1.02), (1.3, 0.14, 0.12), IRON),
            box((0.05, y, 1.62), (1.5, 0.2, 0.12), IRON),
        ]
    seat = [box((x, 0, 1.13), (0.36, 5.3, 0.12), BENCH_WOOD) for x in (-0.35, 0.1, 0.55)]
    back = [box((x, 0, z), (0.1, 5.3, 0.36), LIGHT_BENCH_WOOD, (0, -8, 0)) for x, z in ((-0.6, 1.65), (-0.68, 2.15))]
    return [*frames, *seat, *back]


def _fire_hydrant() -> list[Solid]:
    """A red hydrant with pale caps on three outlets."""
    return [
        cylinder((0, 0, 0), 1.2, 0.25, DARK_RED),
        cone((0, 0, 0.2), 0.85, 2.2, RED, top=0.75),
        cylinder((0, 0, 2.3), 1.0, 0.2, DARK_RED),
        ball((0, 0, 2.5), (1.7, 1.7, 1.5), RED).shiny(0.25),
        cylinder((0, 0, 3.15), 0.2, 0.35, STEEL),
        rod((0, -1.4, 1.65), (0, 1.4, 1.65), 0.36, RED),
        rod((0, -1.65, 1.65), (0, -1.35, 1.65), 0.42, STEEL),
        rod((0, 1.35, 1.65), (0, 1.65, 1.65), 0.42, STEEL),
        rod((0, 0, 1.45), (1.2, 0, 1.45), 0.48, RED),
        rod((1.15, 0, 1.45), (1.45, 0, 1.45), 0.55, STEEL),
    ]


STEP = "#d8a55c"
RAIL = "#b9803a"


def _ladder() -> list[Solid]:
    """A wooden step ladder: treads on the front, a plain prop behind, a platform on top."""
    top, foot, spread = 4.1, 1.4, 0.15
    treads = []
    for k in range(1, 5):
        share = k / 5
        x, half = foot + (spread - foot) * share, 0.85 - 0.3 * share
        treads.append(box((x, 0, top * share), (0.15, 2 * half, 0.14), STEP))
    rails = [
        slab((sign * foot, side * 0.9, 0), (sign * spread, side * 0.55, top), 0.14, 0.2, RAIL)
        for sign in (1, -1)
        for side in (1, -1)
    ]
    return [
        *rails,
        *treads,
        box((-1.05, 0, 1.1), (0.1, 1.6, 0.16), RAIL),
        box((-0.62, 0, 2.6), (0.1, 1.3, 0.16), RAIL),
        box((0, 0, top), (0.6, 1.4, 0.16), STEP),
    ]


def _phone_box() -> list[Solid]:
    """A red British telephone box, glazed on all sides."""
    pane = "#d5e6f0"
    return [
        box((0, 0, 0.15), (2.3, 2.3, 0.3), IRON),
        box((0, 0, 2.1), (2.1, 2.1, 3.8), RED),
        box((0, 0, 2.4), (2.14, 1.6, 2.8), pane).shiny(0.2),
        box((0, 0, 2.4), (1.6, 2.14, 2.8), pane).shiny(0.2),
        *[box((0, 0, 1.0 + 0.7 * k), (2.18, 2.18, 0.12), RED) for k in range(1, 4)],
        box((0, 0, 2.4), (2.18, 0.12, 2.8), RED),
        box((0, 0, 2.4), (0.12, 2.18, 2.8), RED),
        box((0, 0, 4.2), (2.3, 2.3, 0.7), "#b01a16"),
        box((0, 0, 4.25), (2.36, 1.6, 0.34), WHITE),
        box((0, 0, 4.25), (1.6, 2.36, 0.34), WHITE),
        ball((0, 0, 4.5), (2.2, 2.2, 0.9), RED),
    ]


ORANGE = "#ff6a10"
CHAIR_WOOD = "#7a3f1d"
SLAT_WOOD = "#96562a"


def _wooden_chair() -> list[Solid]:
    """A kitchen chair with a high slatted back."""
    legs = [rod((1.1, side * 1.1, 0), (0.9, side * 0.9, 1.75), 0.13, CHAIR_WOOD) for side in (-1, 1)]
    # The back leans so that its slats also show from above.
    posts = [rod((-0.85, side * 0.9, 0), (-1.4, side * 0.85, 4.1), 0.14, CHAIR_WOOD) for side in (-1, 1)]
    slats = [box((-0.85 - 0.134 * z, 0, z), (0.12, 1.7, 0.4), SLAT_WOOD, (0, -7.6, 0)) for z in (2.55, 3.2, 3.85)]
    return [
        *legs,
        *posts,
        *slats,
        box((0.0, 0, 1.75), (2.2, 2.1, 0.2), CHAIR_WOOD),
        box((0.08, 0, 1.85), (1.7, 1.7, 0.1), "#e0bb74"),
        rod((1.0, -1.0, 0.8), (1.0, 1.0, 0.8), 0.08, CHAIR_WOOD),
        rod((-0.95, -0.9, 0.8), (-0.95, 0.9, 0.8), 0.08, CHAIR_WOOD),
    ]


THINGS: dict[str, tuple[Solid, ...]] = {
    "Boat": tuple(_boat()),
    "Coach": tuple(_coach()),
    "Jet": tuple(_jet()),
    "Pickup": tuple(_pickup()),
    "Tank": tuple(_tank()),
    "Anvil": tuple(_anvil()),
    "Bench": tuple(_bench()),
    "FireHydrant": tuple(_fire_hydrant()),
    "GoldCone": (
        cylinder((0, 0, 0), 1.69, 0.15, "#9a6a0c").shiny(0.4),
        cone((0, 0, 0.14), 1.55, 4.6, "#ffb400").shiny(0.5),
    ),
    "Ladder": tuple(_ladder()),
    "PhoneBox": tuple(_phone_box()),
    "TrafficCone": (
        box((0, 0, 0.12), (2.4, 2.4, 0.24), "#26262a"),
        cone((0, 0, 0.2), 1.0, 3.3, ORANGE, top=0.22).painted("bands", WHITE, 1.49),
        cylinder((0, 0, 3.4), 0.13, 0.12, IRON),
    ),
    "WoodenChair": tuple(_wooden_chair()),
}
