"""What a ray sees: the colour of what it hits, as scalar code for the CPU and for CUDA.

Colours are red, green, blue in [0, 1], as displayed; float32 throughout, as in `rays`.
"""

from __future__ import annotations

import math

import numpy as np

from pvn.compiling import scalar
from pvn.simulator.rays import (
    COS,
    EAST,
    FIELD,
    GROUND,
    HALF,
    LAKE_CELL,
    NOISE_CELLS,
    NORTH,
    ONE,
    QUARTER,
    SIN,
    SKY,
    SOUTH,
    SUN_X,
    SUN_Y,
    SUN_Z,
    TINY,
    TWO,
    WEST,
    ZERO,
    F,
    floor_cell,
    inside_field,
    is_shaded,
    to_landmark,
    to_unit,
)
from pvn.world.lakes import LAKE_CELLS
from pvn.world.solids import COLOUR, COUNT, GLOSS, KIND, PATTERN, SECOND, TAPER, M

KERB = F(0.35)
HORIZON_RED, HORIZON_GREEN, HORIZON_BLUE = F(0.82), F(0.89), F(0.95)
SHADOW_RANGE = F(80)  # metres; only landmarks cast shadows, and further away they are thinner than a pixel
SHADOW_LIFT = F(2e-3)  # metres towards the sun, so that a surface does not shade itself


WHITE, SMOOTH = 0, 1  # the two textures
WRAP = NOISE_CELLS - 1


@scalar
def texture_at(noise, which, x, y):
    """Texture in [-1/2, 1/2], constant within cells of one unit, repeating every NOISE_CELLS."""
    return F(noise[which, floor_cell(x) & WRAP, floor_cell(y) & WRAP]) * F(1 / 255) - HALF


@scalar
def cloud_at(noise, x, y):
    """Smooth texture in [0, 1], interpolated between cells."""
    i, j = floor_cell(x), floor_cell(y)
    u, v = x - F(i), y - F(j)
    i, j, k, m = i & WRAP, j & WRAP, (i + 1) & WRAP, (j + 1) & WRAP
    low = F(noise[SMOOTH, i, j]) * (ONE - u) + F(noise[SMOOTH, k, j]) * u
    high = F(noise[SMOOTH, i, m]) * (ONE - u) + F(noise[SMOOTH, k, m]) * u
    return (low * (ONE - v) + high * v) * F(1 / 255)


@scalar
def wetness_at(wetness, field, x, y):
    """How wet a place inside the field is, in [0, 1]; the shore is at 1/2."""
    # Wetness changes by at most a third from cell to cell: where the nearest cell is dry, no shore is near.
    if wetness[field, np.int32(x / LAKE_CELL), np.int32(y / LAKE_CELL)] == 0:
        return ZERO
    last = F(LAKE_CELLS) - F(1.001)
    u = min(max(x / LAKE_CELL - HALF, ZERO), last)
    v = min(max(y / LAKE_CELL - HALF, ZERO), last)
    i, j = np.int32(u), np.int32(v)
    u, v = u - F(i), v - F(j)
    a, b = F(wetness[field, i, j]), F(wetness[field, i, j + 1])
    c, d = F(wetness[field, i + 1, j]), F(wetness[field, i + 1, j + 1])
    return ((a * (ONE - v) + b * v) * (ONE - u) + (c * (ONE - v) + d * v) * u) * F(1 / 255)


@scalar
def sky_colour(dx, dy, dz, noise):
    """Blue overhead, pale at the horizon, some clouds."""
    up = max(dz, ZERO)
    pale = (ONE - up) * (ONE - up)
    pale = pale * pale
    red = F(0.30) + (HORIZON_RED - F(0.30)) * pale
    green = F(0.52) + (HORIZON_GREEN - F(0.52)) * pale
    blue = F(0.86) + (HORIZON_BLUE - F(0.86)) * pale
    if up > F(0.02):
        reach = F(12.0) / (up + F(0.08))
        cloud = cloud_at(noise, dx * reach, dy * reach)
        cloud = min(max((cloud - F(0.52)) * F(3.5), ZERO), ONE) * min(up * F(8), ONE) * F(0.8)
        red, green, blue = red + (ONE - red) * cloud, green + (ONE - green) * cloud, blue + (ONE - blue) * cloud
    return red, green, blue


@scalar
def fence_colour(side, along, height):
    """Planks in the colour of that side, with darker gaps and rails."""
    phase = TWO * along - F(floor_cell(TWO * along))
    light = F(0.62) if phase < F(0.10) else ONE
    if abs(height - F(0.55)) < F(0.10) or abs(height - F(1.65)) < F(0.10):
        light *= F(0.80)
    if side == NORTH:
        return F(0.12) * light, F(0.28) * light, F(0.80) * light
    if side == SOUTH:
        return F(0.95) * light, F(0.95) * light, F(0.95) * light
    if side == EAST:
        return F(0.82) * light, F(0.12) * light, F(0.10) * light
    return F(0.95) * light, F(0.80) * light, F(0.08) * light


@scalar
def kerb_colour(x, y):
    """The kerb has the colour of the fence on it; from straight above, only the kerb is visible."""
    if min(abs(x), abs(x - FIELD)) < min(abs(y), abs(y - FIELD)):
        return fence_colour(WEST if x < FIELD * HALF else EAST, QUARTER, ZERO)
    return fence_colour(SOUTH if y < FIELD * HALF else NORTH, QUARTER, ZERO)


@scalar
def ground_colour(x, y, distance, slant, noise, wetness, field):
    """Grass, kerb, water or sandy shore; `slant` is how steeply the ray comes down, 0 to 1."""
    light = ONE + F(0.35) * texture_at(noise, SMOOTH, x * F(4), y * F(4))
    if distance < F(28):
        blades = texture_at(noise, WHITE, x * F(9), y * F(9))
        light += F(0.34) * blades * (ONE - distance * F(1 / 28))
    inside = inside_field(x, y)
    if inside < KERB:
        if inside > -KERB:
            return kerb_colour(x, y)
        return F(0.46) * light, F(0.50) * light, F(0.27) * light
    wet = wetness_at(wetness, field, x, y)
    if wet > HALF:
        glance = (ONE - slant) * (ONE - slant)
        ripple = F(0.07) * texture_at(noise, SMOOTH, x * F(14), y * F(14))
        return (
            F(0.10) + F(0.48) * glance + ripple,
            F(0.30) + F(0.42) * glance + ripple,
            F(0.52) + F(0.36) * glance + ripple,
        )
    if wet > F(0.30):
        return F(0.74) * light, F(0.66) * light, F(0.45) * light
    return F(0.31) * light * light, F(0.50) * light, F(0.17) * light


@scalar
def painted_colour(ux, uy, uz, solids, row):
    """Colour of a solid at a point of its surface, given in its unit frame."""
    pattern = int(solids[row, PATTERN])
    paint = COLOUR
    if pattern == 1:
        scale = solids[row, COUNT]
        i, j, k = floor_cell(ux * scale), floor_cell(uy * scale), floor_cell(uz * scale)
        # A few rounds of integer mixing give neighbouring cells unrelated bits.
        mixed = (i * 73856093) ^ (j * 19349663) ^ (k * 83492791)
        mixed = (mixed ^ (mixed >> 13)) * 1274126177
        if ((mixed >> 16) & 3) == 0:
            paint = SECOND
    elif pattern > 1:
        place = (uz if pattern == 2 else ux) * HALF + HALF
        phase = place * solids[row, COUNT]
        if phase - F(floor_cell(phase)) >= HALF:
            paint = SECOND
    return solids[row, paint], solids[row, paint + 1], solids[row, paint + 2]


@scalar
def unit_normal(ux, uy, uz, solids, row):
    """Outward normal at a point of the surface, unit frame, not normalised."""
    kind = solids[row, KIND]
    if kind == ZERO:
        return ux, uy, uz
    if kind == ONE:
        ax, ay, az = abs(ux), abs(uy), abs(uz)
        if ax >= ay and ax >= az:
            return ux, ZERO, ZERO
        if ay >= az:
            return ZERO, uy, ZERO
        return ZERO, ZERO, uz
    taper = solids[row, TAPER]
    radius = (taper + ONE) * HALF + (taper - ONE) * HALF * uz
    if abs(uz) > F(0.9995) and ux * ux + uy * uy < radius * radius * F(0.999):
        return ZERO, ZERO, uz
    return ux, uy, radius * (ONE - taper) * HALF


@scalar
def solid_colour(x, y, z, dx, dy, dz, fields, field, landmark, row, is_lit):
    """Colour of a solid, lit or shaded, at a field-frame point seen along (dx, dy, dz)."""
    solids = fields.solids
    lx, ly, lz, _, _, _ = to_landmark(x, y, z, ZERO, ZERO, ZERO, fields.landmarks, field, landmark, ONE)
    ux, uy, uz = to_unit(lx, ly, lz, solids, row, ONE)
    red, green, blue = painted_colour(ux, uy, uz, solids, row)
    a, b, c = unit_normal(ux, uy, uz, solids, row)
    # Normals transform back by the transpose of the matrix that brought the point here.
    lx = solids[row, M] * a + solids[row, M + 3] * b + solids[row, M + 6] * c
    ly = solids[row, M + 1] * a + solids[row, M + 4] * b + solids[row, M + 7] * c
    nz = solids[row, M + 2] * a + solids[row, M + 5] * b + solids[row, M + 8] * c
    cos, sin = fields.landmarks[field, landmark, COS], fields.landmarks[field, landmark, SIN]
    nx, ny = cos * lx - sin * ly, sin * lx + cos * ly
    length = ONE / math.sqrt(nx * nx + ny * ny + nz * nz + TINY)
    nx, ny, nz = nx * length, ny * length, nz * length
    sun = max(nx * SUN_X + ny * SUN_Y + nz * SUN_Z, ZERO) if is_lit else ZERO
    light = F(0.56) + F(0.12) * nz + F(0.52) * sun
    red, green, blue = red * light, green * light, blue * light
    gloss = solids[row, GLOSS]
    if gloss > ZERO:
        turn = TWO * (dx * nx + dy * ny + dz * nz)
        rx, ry, rz = dx - turn * nx, dy - turn * ny, dz - turn * nz
        spark = max(rx * SUN_X + ry * SUN_Y + rz * SUN_Z, ZERO) if is_lit else ZERO
        spark = spark * spark
        spark = spark * spark
        spark = spark * spark * spark
        mirror = F(0.5) + F(0.5) * min(max(rz * F(3), -ONE), ONE)
        red += gloss * (spark + (F(0.75) * mirror + F(0.12) - red) * HALF)
        green += gloss * (spark + (F(0.85) * mirror + F(0.14) - green) * HALF)
        blue += gloss * (spark + (F(0.98) * mirror + F(0.08) - blue) * HALF)
    return red, green, blue


@scalar
def lit_colour(ox, oy, oz, dx, dy, dz, distance, surface, landmark, fields, field, is_lit):
    """Colour of what a ray hits, in the sun or in the shade: red, green, blue in [0, 1]."""
    if surface == SKY:
        return sky_colour(dx, dy, dz, fields.noise)
    haze = distance * distance * F(1.5e-5)
    if haze > ONE:
        return HORIZON_RED, HORIZON_GREEN, HORIZON_BLUE
    x, y, z = ox + distance * dx, oy + distance * dy, oz + distance * dz
    if surface >= 0:
        red, green, blue = solid_colour(x, y, z, dx, dy, dz, fields, field, landmark, surface, is_lit)
    else:
        if surface == GROUND:
            red, green, blue = ground_colour(x, y, distance, -dz, fields.noise, fields.wetness, field)
        else:
            red, green, blue = fence_colour(surface, y if surface >= EAST else x, z)
        if not is_lit:
            red, green, blue = red * F(0.58), green * F(0.58), blue * F(0.62)
    return (
        red + (HORIZON_RED - red) * haze,
        green + (HORIZON_GREEN - green) * haze,
        blue + (HORIZON_BLUE - blue) * haze,
    )


@scalar
def seen_colour(ox, oy, oz, dx, dy, dz, distance, surface, landmark, fields, field, has_shadow):
    """Colour of what a ray hits: red, green, blue in [0, 1]."""
    is_lit = True
    if has_shadow and surface != SKY and distance < SHADOW_RANGE:
        x, y, z = ox + distance * dx, oy + distance * dy, oz + distance * dz
        is_lit = not is_shaded(x + SHADOW_LIFT * SUN_X, y + SHADOW_LIFT * SUN_Y, z + SHADOW_LIFT * SUN_Z, fields, field)
    return lit_colour(ox, oy, oz, dx, dy, dz, distance, surface, landmark, fields, field, is_lit)
