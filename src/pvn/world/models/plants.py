"""Plants and fruit: trees, palms, bushes, flowers, mushrooms."""

from __future__ import annotations

import math

from pvn.world.solids import Solid, Vector, ball, box, cone, cylinder, rod

BARK = "#7a5230"
DARK_BARK = "#523621"
PALM_BARK = "#a9834f"
PALM_RING = "#7d5c33"
CREAM = "#f6eedb"
WHITE = "#fbfaf5"
APPLE_RED = "#d0161c"
BANANA_YELLOW = "#ffd61f"
PUMPKIN_ORANGE = "#f57c0a"
PUMPKIN_SHADE = "#dc6404"
CACTUS_GREEN = "#2f9a55"
CACTUS_RIB = "#1c6b3b"
PINE_DARK = "#1a4730"
PINE_DARK_INNER = "#2c6a48"
PINE = "#17724c"
PINE_RIM = "#2c9a68"
BOLETUS_CREAM = "#f0dc9c"
BOLETUS_BROWN = "#8f5020"
MUSHROOM_RED = "#e01b18"


def _around(count: int, radius: float, height: float, first: float = 0.0) -> list[Vector]:
    """Points evenly spaced on a horizontal circle around the axis, the first at `first` degrees."""
    turns = [math.radians(first) + 2 * math.pi * i / count for i in range(count)]
    return [(radius * math.cos(turn), radius * math.sin(turn), height) for turn in turns]


def _fronds(
    heart: Vector,
    count: int,
    length: float,
    droop: float,
    colours: tuple[str, str],
    width: float = 0.5,
    first: float = 0.0,
) -> list[Solid]:
    """Palm leaves in two greens that fan out from `heart`, `droop` degrees below the horizontal."""
    solids = []
    for i in range(count):
        yaw = first + 360 * i / count
        # Every other leaf hangs a little less, so that the crown has depth.
        pitch = droop - (0 if i % 2 == 0 else 14)
        out, down = math.cos(math.radians(pitch)), math.sin(math.radians(pitch))
        reach = length / 2 - 0.15  # leaves start behind the heart, so that the crown has no hole
        middle = (
            heart[0] + reach * out * math.cos(math.radians(yaw)),
            heart[1] + reach * out * math.sin(math.radians(yaw)),
            heart[2] - reach * down,
        )
        solids.append(ball(middle, (length, width, 0.14), colours[i % 2], (0, pitch, yaw)))
    return solids


def _trunk(points: list[Vector], radius: float, top: float) -> list[Solid]:
    """A ringed palm trunk through `points`, thinning from `radius` to `top`."""
    solids = []
    steps = len(points) - 1
    for i in range(steps):
        low, high = (radius + (top - radius) * j / steps for j in (i, i + 1))
        rings = 2 * math.dist(points[i], points[i + 1])
        part = rod(points[i], points[i + 1], low, PALM_BARK, high)
        solids.append(part.painted("bands", PALM_RING, max(2, round(rings))))
    return solids


def _conifer(foot: Vector, radius: float, height: float, tiers: int, rim: str, inner: str) -> list[Solid]:
    """A trunk and `tiers` cones whose rims have another colour."""
    bottom = 0.13 * height
    step = (height - bottom) / (tiers + 0.6)
    solids = [cylinder(foot, 0.16 * radius + 0.05, bottom + 0.3, DARK_BARK)]
    for i in range(tiers):
        base = (foot[0], foot[1], foot[2] + bottom + i * step)
        wide = radius * (1 - i / (tiers + 0.5))
        solids.append(cone(base, wide, 1.6 * step, rim).painted("bands", inner, 2))
    return solids


def _arm(side: float, low: float, high: float) -> list[Solid]:
    """A cactus arm on the left (side 1) or right (-1): out at height `low`, then up to `high`."""
    elbow = (0.0, side * 1.3, low)
    return [
        rod((0, 0, low - 0.1), elbow, 0.3, CACTUS_GREEN),
        ball(elbow, 0.78, CACTUS_GREEN),
        cylinder(elbow, 0.39, high - low, CACTUS_GREEN).painted("stripes", CACTUS_RIB, 4),
        ball((0, side * 1.3, high), 0.78, CACTUS_GREEN),
    ]


def _banana() -> list[Solid]:
    """A crescent, tips up and leaning back: bent both from the side and from above."""
    lean, bend = math.radians(42), 1.55
    spine: list[Vector] = []
    for angle in (-84, -66, -42, -14, 14, 42, 66, 76):
        turn = math.radians(angle)
        up = bend * (1 - math.cos(turn))
        place = (0.45 - up * math.sin(lean), bend * math.sin(turn), 0.57 + up * math.cos(lean))
        spine.append(place)
    thick = (0.17, 0.28, 0.49, 0.6, 0.6, 0.49, 0.26, 0.15)
    colours = ("#8a7a22", *5 * (BANANA_YELLOW,), "#3d2c14")
    parts = zip(spine, spine[1:], thick, thick[1:], colours, strict=False)
    solids = [rod(start, end, low, colour, high) for start, end, low, high, colour in parts]
    return solids + [ball(spine[i], 2 * thick[i], BANANA_YELLOW) for i in range(1, 7)]


def _cap_dots(middle: float, radius: float, height: float, tilt: float, count: int) -> list[Solid]:
    """A ring of white dots, `tilt` degrees down from the top of a dome about height `middle`."""
    turn = math.radians(tilt)
    out, up = radius * math.sin(turn), height * math.cos(turn)
    pitch = math.degrees(math.atan2(out / radius**2, up / height**2))
    return [
        ball((x, y, z), (0.62, 0.62, 0.2), WHITE, (0, pitch, math.degrees(math.atan2(y, x))))
        for x, y, z in _around(count, out, middle + up, tilt)
    ]


def _boletus(x: float, y: float, size: float) -> list[Solid]:
    """A fat white stem under a brown bun of radius `size` with a cream underside."""
    return [
        ball((x, y, 0.5 * size), (1.3 * size, 1.3 * size, 1.6 * size), WHITE),
        cone((x, y, 0.6 * size), 0.63 * size, 0.8 * size, WHITE, 0.42 * size),
        cone((x, y, 1.2 * size), 0.6 * size, 0.31 * size, BOLETUS_CREAM, size),
        ball((x, y, 1.5 * size), (2 * size, 2 * size, 1.2 * size), BOLETUS_CREAM).painted(
            "bands", BOLETUS_BROWN, 1, 0.15
        ),
    ]


def _flowers(petals: str, heart: str, thickness: float) -> list[Solid]:
    """A leafy mound full of flowers; each is one flat ball, the middle of which is painted another colour."""
    solids = [ball((0, 0, 0), (3.3, 3.3, 1.2), "#2c7a2e").painted("speckle", "#3f9a3a", 10)]
    for i in range(14):
        # A sunflower's spiral spreads them evenly and still looks random.
        out, yaw = 1.36 * math.sqrt((i + 0.5) / 14), 137.5 * i
        east, north = math.cos(math.radians(yaw)), math.sin(math.radians(yaw))
        place = (out * east, out * north, 0.9 - 0.28 * out * out + 0.14 * (i % 3 - 1))
        width = (0.84, 0.68, 0.76)[i % 3]
        head = ball(place, (width, width, thickness), petals, (0, 20 * out, yaw))
        solids.append(head.painted("bands", heart, 0.512))
    return solids


PLANTS: dict[str, tuple[Solid, ...]] = {
    "Apple": (
        ball((0, 0, 1.5), (3.2, 3.2, 2.3), APPLE_RED).shiny(0.2),
        *(
            ball((x, y, 1.5), (2.3, 2.3, 3.0), APPLE_RED, (0, 22, 45 * i)).shiny(0.2)
            for i, (x, y, _) in enumerate(_around(8, 0.48, 0))
        ),
        ball((0, 0, 2.55), (1.2, 1.2, 0.5), "#b8a824"),
        rod((0, 0, 2.6), (0.1, 0.25, 3.7), 0.09, DARK_BARK, 0.14),
        ball((0.1, 0.85, 3.35), (0.8, 1.5, 0.14), "#5cc22c", (-18, 20, 0)),
    ),
    "Banana": tuple(_banana()),
    "Boletus": (*_boletus(0, -0.42, 1.26), *_boletus(0.3, 1.15, 0.5)),
    "BushTree": (
        cylinder((0, 0, 0), 0.26, 0.9, BARK),
        ball((0, 0, 1.65), (3.0, 3.0, 2.5), "#45a728").painted("speckle", "#54b834", 12),
        *(
            ball(place, 1.5, "#52b932").painted("speckle", "#64c942", 7)
            for place in _around(6, 0.94, 1.35) + _around(3, 0.66, 2.2, 30)
        ),
    ),
    "BushTree2": (
        cylinder((0, 0, 0), 0.25, 1.4, DARK_BARK),
        *(ball(place, (1.6, 1.6, 2.1), "#18502a").painted("speckle", "#206034", 9) for place in _around(5, 0.89, 2.0)),
        *(
            ball(place, (1.5, 1.5, 2.1), "#1e5e30").painted("speckle", "#26703a", 9)
            for place in _around(4, 0.66, 3.3, 30)
        ),
        ball((0, 0, 4.2), (1.5, 1.5, 1.7), "#276e38").painted("speckle", "#318044", 9),
    ),
    "BushTree3": (
        *(rod((0, 0, 0), place, 0.14, BARK) for place in _around(3, 0.9, 2.0, 50)),
        *(
            ball(place, (1.5, 1.5, 1.15), "#dcca30").painted("speckle", "#b9b92c", 10)
            for place in _around(4, 0.94, 2.2, 20)
        ),
        *(
            ball(place, (1.1, 1.1, 0.9), "#c9ba28").painted("speckle", "#a9ad28", 8)
            for place in _around(4, 0.85, 1.95, 65)
        ),
        ball((0.1, 0, 2.8), (1.7, 1.5, 1.1), "#ead84a").painted("speckle", "#c9c63a", 10),
    ),
    "Cactus": (
        ball((0, 0, 0), (2.6, 2.6, 0.5), "#dcbc7c"),
        cylinder((0, 0, 0), 0.5, 4.2, CACTUS_GREEN).painted("stripes", CACTUS_RIB, 5),
        ball((0, 0, 4.2), 1.0, CACTUS_GREEN),
        *_arm(1, 1.6, 3.4),
        *_arm(-1, 2.1, 3.0),
        ball((0, 0, 4.66), (0.5, 0.5, 0.3), "#f04f9a"),
        ball((0, 1.3, 3.76), (0.4, 0.4, 0.25), "#f04f9a"),
    ),
    "ConniferCluster": (
        *_conifer((0.84, 0, 0), 0.85, 3.6, 3, PINE_DARK, PINE_DARK_INNER),
        *_conifer((-0.42, 0.73, 0), 0.85, 5.2, 3, PINE_DARK, PINE_DARK_INNER),
        *_conifer((-0.42, -0.73, 0), 0.85, 4.3, 3, PINE_DARK, PINE_DARK_INNER),
    ),
    "GiantPalm": (
        cone((0, 0, 0), 0.6, 0.6, PALM_RING, 0.3),
        *_trunk([(0, 0, 0), (0, 0, 9.6)], 0.42, 0.26),
        *_fronds((0, 0, 9.6), 7, 1.9, 55, ("#1c6a3c", "#237a46"), 0.42),
        *_fronds((0, 0, 9.7), 7, 1.85, 20, ("#2f8f52", "#2a8249"), 0.42, 22),
        ball((0, 0, 9.3), (0.75, 0.75, 0.6), "#c8922e"),
    ),
    "LowPolyTree": (
        box((0, 0, 0.8), (0.6, 0.6, 1.7), BARK),
        box((0, 0, 2.1), (2.36, 2.36, 1.3), "#86d235"),
        box((0, 0, 2.2), (3.1, 1.3, 0.8), "#99df48"),
        box((0, 0, 2.15), (1.3, 3.1, 0.8), "#99df48"),
        box((0.15, -0.15, 3.2), (1.6, 1.6, 1.2), "#a8e95a"),
        box((-0.1, 0.1, 3.95), (0.8, 0.8, 0.8), "#c0f07c"),
    ),
    "LpPine": tuple(_conifer((0, 0, 0), 1.69, 5.8, 4, PINE_RIM, PINE)),
    "Mushroom": (
        cone((0, 0, 0), 0.62, 2.4, WHITE, 0.42),
        cone((0, 0, 0.95), 0.85, 0.3, WHITE, 0.45),
        ball((0, 0, 2.6), (3.38, 3.38, 2.1), CREAM).painted("bands", MUSHROOM_RED, 1, 0.15),
        *_cap_dots(2.6, 1.69, 1.05, 0, 1),
        *_cap_dots(2.6, 1.69, 1.05, 38, 5),
        *_cap_dots(2.6, 1.69, 1.05, 67, 7),
    ),
    "Palm1": (
        *_trunk([(0, 0, 0), (0, 0, 2.4)], 0.5, 0.34),
        *_fronds((0, 0, 2.5), 9, 2.2, 27, ("#78c232", "#92d845"), 0.68),
        *(ball(place, 0.5, "#8a4b1c") for place in _around(3, 0.38, 2.15)),
    ),
    "Palm2": (
        *_trunk([(0, 1.95, 0), (0, 1.6, 1.2), (0, 0.85, 2.4), (0, -0.4, 3.4)], 0.32, 0.2),
        *_fronds((0, -0.45, 3.5), 8, 1.95, 30, ("#3c9a34", "#4fb040"), 0.54),
        ball((0, -0.3, 3.2), 0.45, "#8a4b1c"),
    ),
    "Palm3": (
        *_trunk([(0, 0.2, 0), (0, 1.0, 4.2)], 0.24, 0.17),
        *_trunk([(0, -0.2, 0), (0, -1.0, 3.2)], 0.24, 0.17),
        *_fronds((0, 1.0, 4.3), 7, 1.5, 32, ("#3c9a34", "#4fb040")),
        *_fronds((0, -1.0, 3.3), 7, 1.5, 32, ("#5aa52c", "#6cb83a"), first=25),
    ),
    "Pumpkin": (
        *(
            ball(place, (1.7, 1.25, 2.2), (PUMPKIN_ORANGE, PUMPKIN_SHADE)[i % 2], (0, 0, 36 * i))
            for i, place in enumerate(_around(10, 0.84, 1.1))
        ),
        rod((0, 0, 1.7), (0.1, 0.15, 2.6), 0.3, "#5f7d2a", 0.16),
        rod((0.1, 0.15, 2.55), (0.2, 0.5, 2.8), 0.17, "#5f7d2a", 0.2),
    ),
    "RedFlowers": tuple(_flowers("#ea141e", "#ffc933", 0.42)),
    "YellowFlowers": tuple(_flowers("#ffdc12", "#a85a10", 0.3)),
    "Stump": (
        cone((0, 0, 0), 1.2, 1.3, BARK, 1.05).painted("speckle", DARK_BARK, 7),
        ball((0, 0, 1.3), (2.0, 2.0, 0.16), "#e3bf83").painted("bands", "#bd8d50", 8),
        *(rod((0.4 * x, 0.4 * y, 0.7), (x, y, 0.0), 0.42, BARK, 0.16) for x, y, _ in _around(6, 1.58, 0)),
        rod((0, 0.6, 0.8), (0.2, 1.45, 1.3), 0.22, BARK, 0.16),
    ),
}
