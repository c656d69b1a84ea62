"""What only pictures for people show: blades of grass, fence posts, contact shadows, trees beyond the field.

Scalar code as in `rays` and `shading`, whose functions it uses and leaves as they are: float32, field frame, metres;
colours in [0, 1]. Pictures that agents see have none of this.
"""

from __future__ import annotations

import math

from pvn.compiling import scalar
from pvn.simulator.rays import (
    CLASS,
    COS,
    EAST,
    FAR,
    FIELD,
    HALF,
    NEAR,
    ONE,
    REACH,
    SCALE,
    SIN,
    SKY,
    SUN_X,
    SUN_Y,
    TINY,
    TWO,
    WEST,
    ZERO,
    F,
    X,
    Y,
    box_distance,
    floor_cell,
    to_landmark,
    to_unit,
)
from pvn.simulator.shading import (
    HORIZON_BLUE,
    HORIZON_GREEN,
    HORIZON_RED,
    WHITE,
    WRAP,
    cloud_at,
    fence_colour,
    sky_colour,
    texture_at,
    unit_normal,
)
from pvn.world.solids import BOUND, CENTRE, KIND, TAPER, M

POST_GAP, POST_HALF, POST_TOP = F(5), F(0.15), F(2.62)
"""Between fence posts, half their width, and their height."""
BLADE_HEIGHT, BLADES_PER_METRE, NUM_LAYERS = F(0.16), F(26), 6
"""Grass is searched for blades in this many layers, from the tips down."""
MIDDLE_OF_FIELD = FIELD * HALF
TREE_RING = F(92)
"""Radius of the ring of trees around the middle of the field."""
NUM_TREES = 144
TREES_PER_RADIAN = F(NUM_TREES / (2 * math.pi))
TREE_GAP = F(2 * math.pi * 92 / NUM_TREES)
HIGHEST_TREE = F(15)
HIGHEST_HILL = F(0.11)
"""Sine of its angle above the horizon."""
CONTACT = F(1.1)
"""How far from a solid its contact shadow reaches."""


@scalar
def post_distance(ox, oy, oz, dx, dy, dz, limit):
    """Distance to the nearest fence post before `limit`, and the side it stands on; `limit` and SKY if none."""
    best, side = limit, SKY
    for axis in range(2):
        across, along = (ox, oy) if axis == 0 else (oy, ox)
        step, slide = (dx, dy) if axis == 0 else (dy, dx)
        inverse = ONE / (step if abs(step) > TINY else TINY)
        for end in range(2):
            place = FIELD if end == 1 else ZERO
            # The ray can only hit the post nearest to where it crosses the fence: it crosses all of it within a step.
            t = (place - across) * inverse
            if t < -ONE or t - ONE > best or oz + t * dz > POST_TOP + ONE:
                continue
            post = F(floor_cell((along + t * slide) / POST_GAP + HALF)) * POST_GAP
            if post < ZERO or post > FIELD:
                continue
            cx, cy = (place, post) if axis == 0 else (post, place)
            found = box_distance(
                (ox - cx) / POST_HALF, (oy - cy) / POST_HALF, (oz - HALF * POST_TOP) / (HALF * POST_TOP),
                dx / POST_HALF, dy / POST_HALF, dz / (HALF * POST_TOP),
            )  # fmt: skip
            if NEAR < found < best:
                best, side = found, WEST - 2 * axis - end
    return best, side


@scalar
def faces_sun(side, dx, dy):
    """Whether the face of a fence that is seen along (dx, dy) is the one that the sun shines on."""
    return dx > ZERO if side >= EAST else dy > ZERO


@scalar
def display_fence(side, along, height, dx, dy, noise):
    """Planks that differ a little, with rounded edges, bright in the sun and darker on the other side."""
    red, green, blue = fence_colour(side, along, height)
    plank = floor_cell(TWO * along)
    phase = TWO * along - F(plank)
    light = F(1.04) - F(0.6) * (phase - HALF) * (phase - HALF)
    light += F(0.16) * texture_at(noise, WHITE, F(plank) + HALF, F(7) - F(3) * F(side))
    light *= F(0.84) + F(0.16) * min(height, ONE)  # darker where it meets the grass
    light *= ONE if faces_sun(side, dx, dy) else F(0.74)
    return red * light, green * light, blue * light


@scalar
def display_post(side, x, y, z, dx, dy):
    """A square post in the colour of its fence; the cap is brighter."""
    red, green, blue = fence_colour(side, F(0.25), ZERO)
    near_x, near_y = (
        x - F(floor_cell(x / POST_GAP + HALF)) * POST_GAP,
        y - F(floor_cell(y / POST_GAP + HALF)) * POST_GAP,
    )
    if z > POST_TOP - F(0.02):
        light = F(1.12)
    elif abs(near_x) > abs(near_y):
        light = F(0.92) if near_x < ZERO else F(0.62)
    else:
        light = F(0.98) if near_y < ZERO else F(0.66)
    if POST_TOP - F(0.24) < z < POST_TOP - F(0.16):
        light *= F(0.72)  # the groove below the cap
    return red * light, green * light, blue * light


@scalar
def _tree_noise(noise, tree, row, column):
    """A number in [0, 1] that is a tree's own."""
    return F(noise[WHITE, (tree % NUM_TREES + NUM_TREES) % NUM_TREES + 16 * row, 19 * column & WRAP]) * F(1 / 255)


@scalar
def tree_colour(ox, oy, oz, dx, dy, dz, limit, noise):
    """Red, green, blue and distance of the trees that a ray meets before `limit`; FAR if it meets none."""
    px, py = ox - MIDDLE_OF_FIELD, oy - MIDDLE_OF_FIELD
    a = dx * dx + dy * dy
    b = px * dx + py * dy
    if a < F(1e-4):
        return ZERO, ZERO, ZERO, FAR
    t = (math.sqrt(max(b * b - a * (px * px + py * py - TREE_RING * TREE_RING), ZERO)) - b) / a
    z = oz + t * dz
    if t > limit or z > HIGHEST_TREE or z < ZERO:
        return ZERO, ZERO, ZERO, FAR
    angle = math.atan2(py + t * dy, px + t * dx)
    place = angle * TREES_PER_RADIAN
    middle = floor_cell(place)
    # How much the side of a tree that is seen faces the sun.
    towards_sun = -(math.cos(angle) * SUN_X + math.sin(angle) * SUN_Y)
    found, depth = False, ZERO
    red, green, blue = ZERO, ZERO, ZERO
    for row in range(2):  # the front row, then the taller one behind
        for neighbour in range(-2, 3):
            tree = middle + neighbour
            spread, size, tint = (
                _tree_noise(noise, tree, row, 1), _tree_noise(noise, tree, row, 2), _tree_noise(noise, tree, row, 3),
            )  # fmt: skip
            height = F(4.5) + F(4.5) * size + F(2.5) * F(row)
            half_width = F(2.2) + F(1.6) * spread
            half_height = F(0.42) * height
            is_conifer = tint > F(0.72)
            shift = (place - F(tree) - F(0.2) - F(0.6) * spread - HALF * F(row)) * TREE_GAP
            if abs(shift) > F(1.3) * half_width:
                continue
            bumps = cloud_at(noise, shift * F(6) + F(31) * F(tree & 7), z * F(6)) - HALF
            leaves = cloud_at(noise, shift * F(19), z * F(19) + F(13) * F(tree & 15)) - HALF
            rough = F(0.32) * bumps + F(0.22) * leaves
            if is_conifer:
                height *= F(1.15)
                lift = z / height
                u = shift / (half_width * F(0.62) * max(ONE - lift, F(0.02)) + F(0.05)) + rough
                v = F(0.2)
                inside = ONE - abs(u) if lift < ONE else -ONE
            else:
                u, v = shift / half_width, (z - height + half_height) / half_height
                inside = ONE - (u * u + v * v) + TWO * rough
            if inside > ZERO and (not found or inside > depth + F(row)):
                found, depth = True, inside + F(row) * F(4)
                light = F(0.68) + F(0.26) * v + F(0.30) * towards_sun - F(0.18) * u * towards_sun + F(1.1) * rough
                light *= F(0.88) if row == 0 else F(0.8)
                red = (F(0.20) + F(0.12) * tint) * light if not is_conifer else F(0.14) * light
                green = (F(0.40) + F(0.06) * size) * light if not is_conifer else F(0.31) * light
                blue = F(0.15) * light if not is_conifer else F(0.18) * light
        if found:
            break
    if not found:
        # Undergrowth between the trunks.
        if z > F(2.6) + F(2.4) * cloud_at(noise, place * F(14), F(3)):
            return ZERO, ZERO, ZERO, FAR
        light = F(0.5) + F(0.4) * cloud_at(noise, place * F(30), z * F(4))
        red, green, blue = F(0.20) * light, F(0.34) * light, F(0.13) * light
    return red, green, blue, t


@scalar
def display_sky(dx, dy, dz, noise):
    """The sky with hills at the horizon."""
    if dz < HIGHEST_HILL:
        ridge = F(0.035) + F(0.07) * cloud_at(noise, math.atan2(dy, dx) * F(6) + F(40), F(90))
        if dz < ridge * math.sqrt(dx * dx + dy * dy):
            return (
                HORIZON_RED + (F(0.42) - HORIZON_RED) * HALF,
                HORIZON_GREEN + (F(0.55) - HORIZON_GREEN) * HALF,
                HORIZON_BLUE + (F(0.62) - HORIZON_BLUE) * HALF,
            )
    return sky_colour(dx, dy, dz, noise)


@scalar
def grass_light(x, y, dx, dy, dz, footprint, noise):
    """Brightness of grass, around 1, and how yellow it is, around 0, where a ray comes down on a pixel so wide."""
    patch = cloud_at(noise, x * F(0.9), y * F(0.9)) - HALF
    tuft = cloud_at(noise, x * F(4), y * F(4)) - HALF
    light = ONE + F(0.26) * patch + F(0.30) * tuft
    if footprint < F(0.25):
        clump = cloud_at(noise, x * F(21) + F(100), y * F(21)) - HALF
        light += F(0.42) * clump * (ONE - F(4) * footprint)
    if footprint < F(0.09):
        # Down through the layers until a blade is taller than the layer; the last one is bare ground.
        seen = ZERO
        for layer in range(NUM_LAYERS):
            level = ONE - (F(layer) + HALF) / F(NUM_LAYERS)
            back = BLADE_HEIGHT * level / dz  # dz < 0: back along the ray, to where it is this high
            i = floor_cell((x + dx * back) * BLADES_PER_METRE) & WRAP
            j = floor_cell((y + dy * back) * BLADES_PER_METRE) & WRAP
            if F(noise[WHITE, i, j]) * F(1 / 255) > level + F(0.25) * (ONE - level):
                seen = level
                break
        fade = ONE - footprint * F(1 / 0.09)
        # From straight above, blades are points.
        light += (F(0.80) + F(0.58) * dz) * (seen - F(0.62)) * fade
    return light, patch + HALF * tuft


@scalar
def _length(x, y, z):
    return math.sqrt(x * x + y * y + z * z)


@scalar
def solid_gap(x, y, z, solids, row):
    """About how far a landmark-frame point is from a solid's surface, negative inside, in the landmark's metres."""
    ux, uy, uz = to_unit(x, y, z, solids, row, ONE)
    # The rows of the matrix are as long as one over the half sizes.
    a = _length(solids[row, M], solids[row, M + 1], solids[row, M + 2])
    b = _length(solids[row, M + 3], solids[row, M + 4], solids[row, M + 5])
    c = _length(solids[row, M + 6], solids[row, M + 7], solids[row, M + 8])
    kind = solids[row, KIND]
    if kind == ZERO:
        length = _length(ux, uy, uz)
        gap = length * (length - ONE) / max(_length(ux * a, uy * b, uz * c), F(1e-4))
        # Far from a flat ellipsoid this is too short; no point of it is further from its centre than its half sizes.
        return max(gap, _length(ux / a, uy / b, uz / c) - ONE / min(a, min(b, c)))
    if kind == ONE:
        ex, ey, ez = (abs(ux) - ONE) / a, (abs(uy) - ONE) / b, (abs(uz) - ONE) / c
    else:
        taper = solids[row, TAPER]
        level = min(max(uz, -ONE), ONE)
        radius = (taper + ONE) * HALF + (taper - ONE) * HALF * level
        ex, ey = (math.sqrt(ux * ux + uy * uy) - radius) * TWO / (a + b), -FAR
        ez = (abs(uz) - ONE) / c
    return _length(max(ex, ZERO), max(ey, ZERO), max(ez, ZERO)) + min(max(ex, max(ey, ez)), ZERO)


@scalar
def contact_shadow(x, y, z, nx, ny, nz, fields, field, landmark):
    """How much of the sky the solids of a landmark hide from a point with normal (nx, ny, nz), 0 to about 1."""
    landmarks, solids = fields.landmarks, fields.solids
    kind = int(landmarks[field, landmark, CLASS])
    scale = landmarks[field, landmark, SCALE]
    hidden = ZERO
    for step in range(3):
        height = F(0.12) if step == 0 else F(0.4) if step == 1 else CONTACT
        lx, ly, lz, _, _, _ = to_landmark(
            x + height * nx, y + height * ny, z + height * nz, ZERO, ZERO, ZERO, landmarks, field, landmark, ONE
        )
        nearest = height / scale
        for row in range(fields.first_solid[kind], fields.first_solid[kind + 1]):
            # Most solids are too far away to matter: test the bounding sphere first.
            ax, ay, az = solids[row, CENTRE] - lx, solids[row, CENTRE + 1] - ly, solids[row, CENTRE + 2] - lz
            reach = solids[row, BOUND] + nearest
            if ax * ax + ay * ay + az * az < reach * reach:
                nearest = min(nearest, solid_gap(lx, ly, lz, solids, row))
        # What is near counts more.
        weight = F(0.4) if step == 0 else F(0.35) if step == 1 else F(0.25)
        hidden += weight * (height - max(nearest, ZERO) * scale) / height
    return hidden


@scalar
def ground_shadow(x, y, fields, field):
    """How much of the sky the landmarks around a point of the ground hide from it, 0 to about 1."""
    hidden = ZERO
    for landmark in range(fields.num_landmarks[field]):
        ax, ay = x - fields.landmarks[field, landmark, X], y - fields.landmarks[field, landmark, Y]
        reach = fields.landmarks[field, landmark, REACH] + CONTACT
        if ax * ax + ay * ay < reach * reach:
            hidden = max(hidden, contact_shadow(x, y, ZERO, ZERO, ZERO, ONE, fields, field, landmark))
    return hidden


@scalar
def surface_normal(x, y, z, fields, field, landmark, row):
    """Outward unit normal of a solid at a point of its surface, field frame."""
    solids = fields.solids
    lx, ly, lz, _, _, _ = to_landmark(x, y, z, ZERO, ZERO, ZERO, fields.landmarks, field, landmark, ONE)
    ux, uy, uz = to_unit(lx, ly, lz, solids, row, ONE)
    a, b, c = unit_normal(ux, uy, uz, solids, row)
    lx = solids[row, M] * a + solids[row, M + 3] * b + solids[row, M + 6] * c
    ly = solids[row, M + 1] * a + solids[row, M + 4] * b + solids[row, M + 7] * c
    nz = solids[row, M + 2] * a + solids[row, M + 5] * b + solids[row, M + 8] * c
    cos, sin = fields.landmarks[field, landmark, COS], fields.landmarks[field, landmark, SIN]
    nx, ny = cos * lx - sin * ly, sin * lx + cos * ly
    length = ONE / math.sqrt(nx * nx + ny * ny + nz * nz + TINY)
    return nx * length, ny * length, nz * length
