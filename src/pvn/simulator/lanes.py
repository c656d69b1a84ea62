"""The rays of a tile side by side, on a CPU: loops over lanes that the compiler turns into vector instructions.

The arithmetic is that of `rays` and `rendering`, and so are the pictures, but for the last bit. What differs is the
order: one thing is done for all rays of a tile before the next. A loop over lanes has no branches, reads nothing under
a condition, and adds where it looks for a maximum, since the compiler makes no vectors of other loops; whatever is the
same for all lanes is read before it.
"""

from __future__ import annotations

import math

import numpy as np

from pvn.compiling import scalar
from pvn.simulator.rays import (
    AIM,
    AIM_U,
    AIM_V,
    BALL,
    BEGIN,
    BEGIN_U,
    BEGIN_V,
    CLASS,
    COS,
    FAR,
    FENCE_HEIGHT,
    FIELD,
    FORM,
    GROUND,
    HALF,
    LANDMARK,
    MIDDLE,
    NARROWING,
    NEAR,
    ONE,
    QUARTER,
    REACH,
    ROW,
    SHRINK,
    SIN,
    SKY,
    SUN_X,
    SUN_Y,
    SUN_Z,
    TINY,
    TWO,
    WEST,
    ZERO,
    F,
    X,
    Y,
    shading_landmarks,
    to_landmark,
    to_unit,
    unit_distance,
)
from pvn.simulator.rendering import (
    AHEAD,
    AHEAD_U,
    AHEAD_V,
    ORIGIN,
    ORIGIN_U,
    ORIGIN_V,
    TILE_HEIGHT,
    TILE_WIDTH,
    to_byte,
)
from pvn.simulator.shading import SHADOW_LIFT, SHADOW_RANGE, lit_colour
from pvn.world.solids import KIND, OFFSET, TAPER, M

TILE = TILE_WIDTH * TILE_HEIGHT
MAX_LANES = 4 * TILE
"""Rays of a tile with four of them per pixel."""
# Rows of a table of lanes: pixel, ray and its length before it was normalised, distance of what it hits and which solid
# (or SKY to NORTH), the point from which the sun is looked for, whether that is in the shade, colour.
(
    U, V, FROM_X, FROM_Y, FROM_Z, ALONG_X, ALONG_Y, ALONG_Z, STRETCH, DISTANCE, HIT, POINT_X, POINT_Y, POINT_Z, SHADE,
    RED, GREEN, BLUE,
) = range(18)  # fmt: skip
NUM_ROWS = 18
MISS = F(4e9)
"""Distance of a solid that is not hit: still beyond FAR when it is multiplied by a ray's length."""
WIDTH_MASK, HEIGHT_MASK = np.int32(TILE_WIDTH - 1), np.int32(TILE_HEIGHT - 1)
WIDTH_BITS, TILE_BITS = np.int32(TILE_WIDTH.bit_length() - 1), np.int32(TILE.bit_length() - 1)
UNIT = np.int32(1)


@scalar
def begin_rays(cameras, flight, left, top, offset, lanes, count):
    """Write the rays of a tile, and where they hit the ground. offset: of the first ray in its pixel."""
    ox, oy, oz = cameras[flight, ORIGIN], cameras[flight, ORIGIN + 1], cameras[flight, ORIGIN + 2]
    ox_u, oy_u, oz_u = cameras[flight, ORIGIN_U], cameras[flight, ORIGIN_U + 1], cameras[flight, ORIGIN_U + 2]
    ox_v, oy_v, oz_v = cameras[flight, ORIGIN_V], cameras[flight, ORIGIN_V + 1], cameras[flight, ORIGIN_V + 2]
    dx, dy, dz = cameras[flight, AHEAD], cameras[flight, AHEAD + 1], cameras[flight, AHEAD + 2]
    dx_u, dy_u, dz_u = cameras[flight, AHEAD_U], cameras[flight, AHEAD_U + 1], cameras[flight, AHEAD_U + 2]
    dx_v, dy_v, dz_v = cameras[flight, AHEAD_V], cameras[flight, AHEAD_V + 1], cameras[flight, AHEAD_V + 2]
    for lane in range(count):
        place = np.int32(lane)
        column, row, sample = place & WIDTH_MASK, (place >> WIDTH_BITS) & HEIGHT_MASK, place >> TILE_BITS
        u = F(np.int32(left) + column) + offset + HALF * F(sample & UNIT)
        v = F(np.int32(top) + row) + offset + HALF * F((sample >> UNIT) & UNIT)
        lanes[U, lane], lanes[V, lane] = u, v
        lanes[FROM_X, lane] = ox + u * ox_u + v * ox_v
        lanes[FROM_Y, lane] = oy + u * oy_u + v * oy_v
        from_z = oz + u * oz_u + v * oz_v
        x, y, z = dx + u * dx_u + v * dx_v, dy + u * dy_u + v * dy_v, dz + u * dz_u + v * dz_v
        stretch = math.sqrt(x * x + y * y + z * z)
        shrink = ONE / stretch
        z = z * shrink
        lanes[FROM_Z, lane], lanes[STRETCH, lane] = from_z, stretch
        lanes[ALONG_X, lane], lanes[ALONG_Y, lane], lanes[ALONG_Z, lane] = x * shrink, y * shrink, z
        lanes[DISTANCE, lane] = -from_z / z if z < -TINY else FAR
        lanes[HIT, lane] = F(GROUND) if z < -TINY else F(SKY)


@scalar
def meet_fence(lanes, count, across, along, step, slide, end, side):
    """One fence: rows of the coordinates across and along it, and of how fast they change; where it stands; its name.

    A ray that starts and ends inside the field, or that rises from above the fences, meets none by these conditions.
    """
    for lane in range(count):
        speed, begin, beside = lanes[step, lane], lanes[across, lane], lanes[along, lane]
        drift, low, rise = lanes[slide, lane], lanes[FROM_Z, lane], lanes[ALONG_Z, lane]
        best, hit = lanes[DISTANCE, lane], lanes[HIT, lane]
        t = (end - begin) * (ONE / (speed if abs(speed) > TINY else TINY))
        place, height = beside + t * drift, low + t * rise
        double = min(max(place, ZERO), FIELD) * F(2)
        phase = double - F(np.int32(double))
        top = FENCE_HEIGHT - HALF * abs(phase - HALF)  # as in fence_top
        is_met = F((t > NEAR) & (t < best) & (place >= ZERO) & (place <= FIELD) & (height >= ZERO) & (height <= top))
        lanes[DISTANCE, lane] = min(best, t if is_met > ZERO else MISS)
        lanes[HIT, lane] = hit + is_met * (side - hit)


@scalar
def meet_fences(lanes, count):
    """Fences in front of the ground, unless all rays start and end inside the field or rise from above the fences."""
    num_outside = ZERO
    for lane in range(count):
        x, y, distance = lanes[FROM_X, lane], lanes[FROM_Y, lane], lanes[DISTANCE, lane]
        end_x, end_y = x + distance * lanes[ALONG_X, lane], y + distance * lanes[ALONG_Y, lane]
        high, hit = lanes[FROM_Z, lane] - FENCE_HEIGHT, lanes[HIT, lane]
        begin_inside = min(min(x, FIELD - x), min(y, FIELD - y))
        end_inside = min(min(end_x, FIELD - end_x), min(end_y, FIELD - end_y))
        num_outside += F((min(begin_inside, end_inside) if hit == F(GROUND) else high) < ZERO)
    if num_outside > ZERO:
        meet_fence(lanes, count, FROM_X, FROM_Y, ALONG_X, ALONG_Y, ZERO, F(WEST))
        meet_fence(lanes, count, FROM_X, FROM_Y, ALONG_X, ALONG_Y, FIELD, F(WEST - 1))
        meet_fence(lanes, count, FROM_Y, FROM_X, ALONG_Y, ALONG_X, ZERO, F(WEST - 2))
        meet_fence(lanes, count, FROM_Y, FROM_X, ALONG_Y, ALONG_X, FIELD, F(WEST - 3))


@scalar
def may_meet_ball(x, y, z, radius, lanes, count):
    """Whether any ray touches a ball."""
    touching = ZERO
    for lane in range(count):
        off_x, off_y, off_z = x - lanes[FROM_X, lane], y - lanes[FROM_Y, lane], z - lanes[FROM_Z, lane]
        along = off_x * lanes[ALONG_X, lane] + off_y * lanes[ALONG_Y, lane] + off_z * lanes[ALONG_Z, lane]
        touching += F(off_x * off_x + off_y * off_y + off_z * off_z - along * along <= radius * radius)
    return touching > ZERO


@scalar
def may_be_shaded_by_ball(x, y, z, radius, lanes, count):
    """Whether any point's line to the sun touches a ball."""
    touching = ZERO
    for lane in range(count):
        off_x, off_y, off_z = x - lanes[POINT_X, lane], y - lanes[POINT_Y, lane], z - lanes[POINT_Z, lane]
        along = off_x * SUN_X + off_y * SUN_Y + off_z * SUN_Z
        touching += F(off_x * off_x + off_y * off_y + off_z * off_z - along * along <= radius * radius)
    return touching > ZERO


@scalar
def meet_solid_of_kind(kind, aimed, flight, solid, lanes, count):
    """An aimed solid in front of what was hit so far."""
    taper, name = aimed[flight, solid, NARROWING], F(solid)
    dx, dy, dz = aimed[flight, solid, AIM], aimed[flight, solid, AIM + 1], aimed[flight, solid, AIM + 2]
    dx_u, dy_u, dz_u = aimed[flight, solid, AIM_U], aimed[flight, solid, AIM_U + 1], aimed[flight, solid, AIM_U + 2]
    dx_v, dy_v, dz_v = aimed[flight, solid, AIM_V], aimed[flight, solid, AIM_V + 1], aimed[flight, solid, AIM_V + 2]
    ox, oy, oz = aimed[flight, solid, BEGIN], aimed[flight, solid, BEGIN + 1], aimed[flight, solid, BEGIN + 2]
    at_u, at_v = BEGIN_U, BEGIN_V
    ox_u, oy_u, oz_u = aimed[flight, solid, at_u], aimed[flight, solid, at_u + 1], aimed[flight, solid, at_u + 2]
    ox_v, oy_v, oz_v = aimed[flight, solid, at_v], aimed[flight, solid, at_v + 1], aimed[flight, solid, at_v + 2]
    for lane in range(count):
        u, v, stretch = lanes[U, lane], lanes[V, lane], lanes[STRETCH, lane]
        best, hit = lanes[DISTANCE, lane], lanes[HIT, lane]
        t = unit_distance(
            ox + u * ox_u + v * ox_v, oy + u * oy_u + v * oy_v, oz + u * oz_u + v * oz_v,
            dx + u * dx_u + v * dx_v, dy + u * dy_u + v * dy_v, dz + u * dz_u + v * dz_v, kind, taper,
        )  # fmt: skip
        t = stretch * (t if t < FAR else MISS)
        is_closer = F(t < best)
        lanes[DISTANCE, lane] = min(t, best)
        lanes[HIT, lane] = hit + is_closer * (name - hit)


@scalar
def meet_solid(aimed, flight, solid, lanes, count):
    """An aimed solid in front of what was hit so far."""
    kind = aimed[flight, solid, FORM]
    # A loop for each kind: with a constant in its place, the compiler leaves out the others.
    if kind == ZERO:
        meet_solid_of_kind(ZERO, aimed, flight, solid, lanes, count)
    elif kind == ONE:
        meet_solid_of_kind(ONE, aimed, flight, solid, lanes, count)
    else:
        meet_solid_of_kind(TWO, aimed, flight, solid, lanes, count)


@scalar
def shade_by_solid_of_kind(kind, fields, field, landmark, row, lanes, count):
    """Shade the points whose line to the sun meets a solid; whether all are now in the shade."""
    landmarks, solids = fields.landmarks, fields.solids
    taper = solids[row, TAPER]
    # The sun's direction is the same for all points; the matrices are read before the loop.
    _, _, _, dx, dy, dz = to_landmark(ZERO, ZERO, ZERO, SUN_X, SUN_Y, SUN_Z, landmarks, field, landmark, ONE)
    dx, dy, dz = to_unit(dx, dy, dz, solids, row, ZERO)
    west, south, shrink = (
        landmarks[field, landmark, X],
        landmarks[field, landmark, Y],
        landmarks[field, landmark, SHRINK],
    )
    cos, sin = landmarks[field, landmark, COS], landmarks[field, landmark, SIN]
    xx, xy, xz, at_x = solids[row, M], solids[row, M + 1], solids[row, M + 2], solids[row, OFFSET]
    yx, yy, yz, at_y = solids[row, M + 3], solids[row, M + 4], solids[row, M + 5], solids[row, OFFSET + 1]
    zx, zy, zz, at_z = solids[row, M + 6], solids[row, M + 7], solids[row, M + 8], solids[row, OFFSET + 2]
    in_sun = ZERO
    for lane in range(count):
        x, y, z, shade = (
            lanes[POINT_X, lane] - west,
            lanes[POINT_Y, lane] - south,
            lanes[POINT_Z, lane],
            lanes[SHADE, lane],
        )
        x, y, z = (cos * x + sin * y) * shrink, (cos * y - sin * x) * shrink, z * shrink
        t = unit_distance(
            xx * x + xy * y + xz * z + at_x, yx * x + yy * y + yz * z + at_y, zx * x + zy * y + zz * z + at_z,
            dx, dy, dz, kind, taper,
        )  # fmt: skip
        shade = max(shade, F(t < FAR))
        lanes[SHADE, lane] = shade
        in_sun += ONE - shade
    return in_sun <= ZERO


@scalar
def shade_by_solid(fields, field, landmark, row, lanes, count):
    """Shade the points whose line to the sun meets a solid; whether all are now in the shade."""
    kind = fields.solids[row, KIND]
    if kind == ZERO:
        return shade_by_solid_of_kind(ZERO, fields, field, landmark, row, lanes, count)
    if kind == ONE:
        return shade_by_solid_of_kind(ONE, fields, field, landmark, row, lanes, count)
    return shade_by_solid_of_kind(TWO, fields, field, landmark, row, lanes, count)


@scalar
def cast_shadows(fields, field, aimed, flight, lanes, count):
    """Find the points that rays hit on which no sun falls; only landmarks cast shadows."""
    for lane in range(count):
        distance = lanes[DISTANCE, lane]
        lanes[SHADE, lane] = ZERO
        lanes[POINT_X, lane] = lanes[FROM_X, lane] + distance * lanes[ALONG_X, lane] + SHADOW_LIFT * SUN_X
        lanes[POINT_Y, lane] = lanes[FROM_Y, lane] + distance * lanes[ALONG_Y, lane] + SHADOW_LIFT * SUN_Y
        lanes[POINT_Z, lane] = lanes[FROM_Z, lane] + distance * lanes[ALONG_Z, lane] + SHADOW_LIFT * SUN_Z
    mask = 0
    for lane in range(count):
        if lanes[DISTANCE, lane] < SHADOW_RANGE:
            mask |= shading_landmarks(lanes[POINT_X, lane], lanes[POINT_Y, lane], lanes[POINT_Z, lane], fields, field)
    landmarks, end = fields.landmarks, 0
    for landmark in range(fields.num_landmarks[field]):
        kind = int(landmarks[field, landmark, CLASS])
        first = fields.first_solid[kind]
        begin, end = end, end + fields.first_solid[kind + 1] - first
        if (mask >> landmark) & 1 == 0 or not may_be_shaded_by_ball(
            landmarks[field, landmark, X], landmarks[field, landmark, Y], landmarks[field, landmark, MIDDLE],
            landmarks[field, landmark, REACH], lanes, count,
        ):  # fmt: skip
            continue
        for solid in range(begin, end):
            if may_be_shaded_by_ball(
                aimed[flight, solid, BALL], aimed[flight, solid, BALL + 1], aimed[flight, solid, BALL + 2],
                aimed[flight, solid, BALL + 3], lanes, count,
            ) and shade_by_solid(fields, field, landmark, first + solid - begin, lanes, count):  # fmt: skip
                return


@scalar
def paint_tile(
    cameras, flight, left, top, right, bottom, fields, field, aimed, candidates, num_candidates, is_full, lanes, image
):
    """Write a tile's pixels: one ray through the middle of each, or 2x2 rays with shadows when `is_full`.

    lanes (NUM_ROWS, MAX_LANES): room for the rays. candidates (1, C): the aimed solids that may be seen; if their
    number is negative, it is minus the number of all, and any of them may be.
    """
    num_samples, offset, share = (4, QUARTER, QUARTER) if is_full else (1, HALF, ONE)
    count = num_samples * TILE
    begin_rays(cameras, flight, left, top, offset, lanes, count)
    meet_fences(lanes, count)
    for i in range(abs(num_candidates)):
        solid = np.int64(candidates[0, i]) if num_candidates > 0 else np.int64(i)
        if may_meet_ball(
            aimed[flight, solid, BALL], aimed[flight, solid, BALL + 1], aimed[flight, solid, BALL + 2],
            aimed[flight, solid, BALL + 3], lanes, count,
        ):  # fmt: skip
            meet_solid(aimed, flight, solid, lanes, count)
    if is_full:
        cast_shadows(fields, field, aimed, flight, lanes, count)
    for lane in range(count):
        surface, landmark = int(lanes[HIT, lane]), -1
        if surface >= 0:
            surface, landmark = int(aimed[flight, surface, ROW]), int(aimed[flight, surface, LANDMARK])
        distance = lanes[DISTANCE, lane]
        is_lit = not is_full or distance >= SHADOW_RANGE or lanes[SHADE, lane] == ZERO
        lanes[RED, lane], lanes[GREEN, lane], lanes[BLUE, lane] = lit_colour(
            lanes[FROM_X, lane], lanes[FROM_Y, lane], lanes[FROM_Z, lane],
            lanes[ALONG_X, lane], lanes[ALONG_Y, lane], lanes[ALONG_Z, lane],
            distance, surface, landmark, fields, field, is_lit,
        )  # fmt: skip
    for row in range(top, bottom):
        for column in range(left, right):
            red, green, blue = ZERO, ZERO, ZERO
            for sample in range(num_samples):
                lane = sample * TILE + (row - top) * TILE_WIDTH + column - left
                red, green = red + share * lanes[RED, lane], green + share * lanes[GREEN, lane]
                blue += share * lanes[BLUE, lane]
            image[flight, row, column, 0] = to_byte(red)
            image[flight, row, column, 1] = to_byte(green)
            image[flight, row, column, 2] = to_byte(blue)
