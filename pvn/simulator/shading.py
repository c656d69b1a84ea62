"""What a ray sees: the colour of what it meets, as scalar code for the CPU and for CUDA.

Colours are red, green, blue in [0, 1], display values; float32 throughout, as in `rays`.
"""

from __future__ import annotations

import math

from pvn.simulator.compiling import scalar
from pvn.simulator.rays import (
    COS,
    EAST,
    FIELD,
    GROUND,
    HALF,
    LAKE_CELL,
    LAKE_CELLS,
    NOISE_CELLS,
    NORTH,
    ONE,
    SIN,
    SKY,
    SOUTH,
    SUN_X,
    SUN_Y,
    SUN_Z,
    TINY,
    TWO,
    ZERO,
    F,
    is_shaded,
    nearest_hit,
    to_landmark,
    to_unit,
)
from pvn.world.solids import COLOUR, COUNT, GLOSS, KIND, PATTERN, SECOND, TAPER, M


@scalar
def noise_at(noise, x, y):
    """Smooth texture in [0, 1], one cell a unit, repeating every NOISE_CELLS."""
    floor_x, floor_y = math.floor(x), math.floor(y)
    i, j = int(floor_x) & (NOISE_CELLS - 1), int(floor_y) & (NOISE_CELLS - 1)
    k, m = (i + 1) & (NOISE_CELLS - 1), (j + 1) & (NOISE_CELLS - 1)
    u, v = x - floor_x, y - floor_y
    low = F(noise[i, j]) * (ONE - u) + F(noise[k, j]) * u
    high = F(noise[i, m]) * (ONE - u) + F(noise[k, m]) * u
    return (low * (ONE - v) + high * v) * F(1 / 255)


@scalar
def wetness_at(wetness, field, x, y):
    """How much a ground point belongs to a lake, in [0, 1]; the shore is at 1/2."""
    u, v = x / LAKE_CELL - HALF, y / LAKE_CELL - HALF
    last = F(LAKE_CELLS - 1)
    if u <= ZERO or v <= ZERO or u >= last or v >= last:
        return ZERO
    i, j = int(u), int(v)
    a, b = F(wetness[field, i, j]), F(wetness[field, i, j + 1])
    c, d = F(wetness[field, i + 1, j]), F(wetness[field, i + 1, j + 1])
    u, v = u - F(i), v - F(j)
    return ((a * (ONE - v) + b * v) * (ONE - u) + (c * (ONE - v) + d * v) * u) * F(1 / 255)


@scalar
def sky_colour(dx, dy, dz, noise):
    """Blue overhead, pale at the horizon, some clouds."""
    up = max(dz, ZERO)
    pale = (ONE - up) * (ONE - up)
    pale = pale * pale
    red = F(0.30) + F(0.52) * pale
    green = F(0.52) + F(0.37) * pale
    blue = F(0.86) + F(0.09) * pale
    if up > F(0.02):
        reach = F(3.0) / (up + F(0.08))
        cloud = noise_at(noise, dx * reach, dy * reach) * F(0.7) + F(0.3) * noise_at(
            noise, dx * reach * F(3.1), dy * reach * F(3.1)
        )
        cloud = min(max((cloud - F(0.55)) * F(4), ZERO), ONE) * min(up * F(8), ONE) * F(0.8)
        red, green, blue = red + (ONE - red) * cloud, green + (ONE - green) * cloud, blue + (ONE - blue) * cloud
    return red, green, blue


@scalar
def ground_colour(x, y, distance, slant, noise, wetness, field):
    """Grass, or water and its sandy shore; `slant` is how steeply the ray comes down, 0 to 1."""
    wet = wetness_at(wetness, field, x, y)
    if wet > HALF:
        glance = (ONE - slant) * (ONE - slant)
        ripple = F(0.06) * (noise_at(noise, x * F(2.3), y * F(2.3)) - HALF)
        return (
            F(0.10) + F(0.48) * glance + ripple,
            F(0.30) + F(0.42) * glance + ripple,
            F(0.52) + F(0.36) * glance + ripple,
        )
    broad = noise_at(noise, x * F(0.6), y * F(0.6)) - HALF
    i = int(math.floor(x * F(9))) & (NOISE_CELLS - 1)
    j = int(math.floor(y * F(9))) & (NOISE_CELLS - 1)
    blades = (F(noise[i, j]) * F(1 / 255) - HALF) * max(ZERO, ONE - distance * F(1 / 28))
    light = ONE + F(0.35) * broad + F(0.34) * blades
    if wet > F(0.30):
        return F(0.74) * light, F(0.66) * light, F(0.45) * light
    if x < ZERO or y < ZERO or x > FIELD or y > FIELD:
        return F(0.46) * light, F(0.50) * light, F(0.27) * light
    return (F(0.30) + F(0.10) * broad) * light, F(0.50) * light, F(0.17) * light


@scalar
def fence_colour(side, along, height):
    """Planks in the colour of that side; gaps and rails darker."""
    phase = TWO * along - math.floor(TWO * along)
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
def painted_colour(ux, uy, uz, solids, row):
    """Colour of a solid at a point of its surface, given in its unit frame."""
    pattern = int(solids[row, PATTERN])
    paint = COLOUR
    if pattern == 1:
        scale = solids[row, COUNT]
        i, j, k = int(math.floor(ux * scale)), int(math.floor(uy * scale)), int(math.floor(uz * scale))
        # A few rounds of integer mixing: neighbouring cells get unrelated bits.
        mixed = (i * 73856093) ^ (j * 19349663) ^ (k * 83492791)
        mixed = (mixed ^ (mixed >> 13)) * 1274126177
        if ((mixed >> 16) & 3) == 0:
            paint = SECOND
    elif pattern > 1:
        place = (uz if pattern == 2 else ux) * HALF + HALF
        phase = place * solids[row, COUNT]
        if phase - math.floor(phase) >= HALF:
            paint = SECOND
    return solids[row, paint], solids[row, paint + 1], solids[row, paint + 2]


@scalar
def unit_normal(ux, uy, uz, solids, row):
    """Outward direction, in the unit frame, at a point of the surface; not of unit length."""
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
    """Colour of a lit or shaded solid at a field-frame point seen along (dx, dy, dz)."""
    solids = fields.solids
    lx, ly, lz, _, _, _ = to_landmark(x, y, z, ZERO, ZERO, ZERO, fields.landmarks, field, landmark)
    ux, uy, uz = to_unit(lx, ly, lz, solids, row, ONE)
    red, green, blue = painted_colour(ux, uy, uz, solids, row)
    a, b, c = unit_normal(ux, uy, uz, solids, row)
    # Normals go back by the transpose of the map that brought the point here.
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
def trace(ox, oy, oz, dx, dy, dz, fields, field, candidates, row, count, has_shadow):
    """Colour seen along one ray: red, green, blue in [0, 1]."""
    distance, surface, landmark = nearest_hit(
        ox, oy, oz, dx, dy, dz, fields, field, candidates, row, count
    )
    if surface == SKY:
        return sky_colour(dx, dy, dz, fields.noise)
    x, y, z = ox + distance * dx, oy + distance * dy, oz + distance * dz
    is_lit = True
    # Shadows further than this are thinner than a pixel, and only landmarks throw them.
    if has_shadow and distance < F(80):
        lift = F(2e-3)
        is_lit = not is_shaded(x + lift * SUN_X, y + lift * SUN_Y, z + lift * SUN_Z, fields, field)
    if surface >= 0:
        red, green, blue = solid_colour(x, y, z, dx, dy, dz, fields, field, landmark, surface, is_lit)
    else:
        if surface == GROUND:
            red, green, blue = ground_colour(x, y, distance, -dz, fields.noise, fields.wetness, field)
        else:
            red, green, blue = fence_colour(surface, y if surface >= EAST else x, z)
        if not is_lit:
            red, green, blue = red * F(0.58), green * F(0.58), blue * F(0.62)
    haze = distance / (distance + F(320))
    haze = haze * haze * F(2.2)
    haze = min(haze, ONE)
    return (
        red + (F(0.82) - red) * haze,
        green + (F(0.89) - green) * haze,
        blue + (F(0.95) - blue) * haze,
    )
