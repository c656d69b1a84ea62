"""What a ray hits: scalar code, compiled unchanged for the CPU and for CUDA.

Everything is float32 (one float64 literal makes small GPUs thirty times slower). Lengths are metres in the field frame,
or in a landmark's own frame where it says so. A ray is an origin o and a unit direction d.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pvn.compiling import scalar
from pvn.world.lakes import LAKE_CELLS
from pvn.world.layout import FIELD_SIZE
from pvn.world.solids import KIND, OFFSET, TAPER, M

F = np.float32
ZERO, QUARTER, HALF, ONE, TWO = F(0), F(0.25), F(0.5), F(1), F(2)
NEAR, FAR = F(1e-3), F(1e9)
TINY = F(1e-9)

# Columns of a landmark row: position, cosine and sine of its heading, scale and its inverse, bounding sphere
# (height of the centre, radius), class.
X, Y, COS, SIN, SCALE, SHRINK, MIDDLE, REACH, CLASS = range(9)
NUM_LANDMARK_COLUMNS = 12

# Columns of an aimed solid, a solid as one camera sees it: its bounding sphere (centre, field frame, and radius),
# landmark, row of the solid table, kind, taper, and the ray of pixel (u, v) in the solid's unit frame: it starts at
# o + u * ou + v * ov and points along d + u * du + v * dv, three numbers each.
BALL, LANDMARK, ROW, FORM, NARROWING, BEGIN, BEGIN_U, BEGIN_V, AIM, AIM_U, AIM_V = (
    0, 4, 5, 6, 7, 8, 11, 14, 17, 20, 23,
)  # fmt: skip
NUM_AIMED_COLUMNS = 28

FIELD = F(FIELD_SIZE)
LAKE_CELL = F(FIELD_SIZE / LAKE_CELLS)
SUN_CELLS = 40
SUN_CELL = F(2)
SUN_ORIGIN = F(-15)  # the sun grid reaches 15 m beyond the fences
FENCE_HEIGHT = F(2.4)
NOISE_CELLS = 256

SKY, GROUND, WEST, EAST, SOUTH, NORTH = -1, -2, -3, -4, -5, -6

_sun = np.array([-0.45, -0.55, 0.95])  # from the south-west, 53 degrees high
SUN_X, SUN_Y, SUN_Z = (F(part) for part in _sun / np.linalg.norm(_sun))


class Fields(NamedTuple):
    """Everything that rays can hit in N fields, as arrays or device arrays."""

    solids: np.ndarray  # (num solids, NUM_COLUMNS) float32: every class's solids, landmark frame
    first_solid: np.ndarray  # (num classes + 1,) int32: rows of a class in `solids`
    landmarks: np.ndarray  # (N, MAX_LANDMARKS, NUM_LANDMARK_COLUMNS) float32
    num_landmarks: np.ndarray  # (N,) int32
    wetness: np.ndarray  # (N, LAKE_CELLS, LAKE_CELLS) uint8, [x, y]: above 127 is water
    sun_grid: np.ndarray  # (N, SUN_CELLS, SUN_CELLS) int32, [x, y]: landmarks that may shade this ground
    noise: np.ndarray  # (2, NOISE_CELLS, NOISE_CELLS) uint8: tileable textures, white and smooth


@scalar
def floor_cell(x):
    """The largest integer not above x, as an int32 (math.floor gives an int64, which would promote to float64)."""
    cell = np.int32(x)
    return cell - np.int32(1) if F(cell) > x else cell


@scalar
def ellipsoid_distance(ox, oy, oz, dx, dy, dz):
    """Where the ray enters the unit sphere; FAR if it does not, or starts inside."""
    a = dx * dx + dy * dy + dz * dz
    nearest = -(ox * dx + oy * dy + oz * dz) / a
    # Measured from the ray's point nearest the centre, so that a small, distant sphere keeps its precision.
    px, py, pz = ox + nearest * dx, oy + nearest * dy, oz + nearest * dz
    inside = ONE - (px * px + py * py + pz * pz)
    if inside <= ZERO:
        return FAR
    t = nearest - math.sqrt(inside / a)
    return t if t > NEAR else FAR


@scalar
def box_distance(ox, oy, oz, dx, dy, dz):
    """Where the ray enters the cube [-1, 1]^3; FAR if it does not, or starts inside."""
    ix = ONE / (dx if abs(dx) > TINY else TINY)
    iy = ONE / (dy if abs(dy) > TINY else TINY)
    iz = ONE / (dz if abs(dz) > TINY else TINY)
    wx, wy, wz = abs(ix), abs(iy), abs(iz)
    enter = max(max(-ox * ix - wx, -oy * iy - wy), -oz * iz - wz)
    leave = min(min(-ox * ix + wx, -oy * iy + wy), -oz * iz + wz)
    if enter > leave or enter <= NEAR:
        return FAR
    return enter


@scalar
def frustum_distance(ox, oy, oz, dx, dy, dz, taper):
    """Where the ray enters the frustum of radius 1 at z = -1 and `taper` at z = 1; FAR if it does not."""
    middle, slope = (taper + ONE) * HALF, (taper - ONE) * HALF
    nearest = -(ox * dx + oy * dy + oz * dz) / (dx * dx + dy * dy + dz * dz)
    px, py, pz = ox + nearest * dx, oy + nearest * dy, oz + nearest * dz
    enter = FAR
    radius = middle + slope * pz
    a = dx * dx + dy * dy - slope * slope * dz * dz
    b = px * dx + py * dy - slope * dz * radius
    c = px * px + py * py - radius * radius
    root = b * b - a * c
    if root > ZERO and abs(a) > TINY:
        root = math.sqrt(root)
        near, far = (-b - root) / a, (-b + root) / a
        if abs(pz + near * dz) <= ONE:
            enter = near
        if far < enter and abs(pz + far * dz) <= ONE:
            enter = far
    if abs(dz) > TINY:
        # The cap that faces the ray is the only one it can enter through.
        cap = -ONE if dz > ZERO else ONE
        t = (cap - pz) / dz
        x, y = px + t * dx, py + t * dy
        radius = middle + slope * cap
        if t < enter and x * x + y * y <= radius * radius:
            enter = t
    # Compared before adding: in float32, FAR plus a few dozen metres is no longer FAR.
    return enter + nearest if enter < FAR and enter + nearest > NEAR else FAR


@scalar
def to_landmark(ox, oy, oz, dx, dy, dz, landmarks, field, landmark, shift):
    """The ray in a landmark's frame, in which distances along it are the same numbers (shift 0: o is a direction)."""
    cos, sin = landmarks[field, landmark, COS], landmarks[field, landmark, SIN]
    shrink = landmarks[field, landmark, SHRINK]
    x, y = ox - shift * landmarks[field, landmark, X], oy - shift * landmarks[field, landmark, Y]
    return (
        (cos * x + sin * y) * shrink,
        (cos * y - sin * x) * shrink,
        oz * shrink,
        (cos * dx + sin * dy) * shrink,
        (cos * dy - sin * dx) * shrink,
        dz * shrink,
    )


@scalar
def to_unit(x, y, z, solids, row, shift):
    """A landmark-frame vector in the solid's unit frame (shift 1: a point, 0: a direction)."""
    return (
        solids[row, M] * x + solids[row, M + 1] * y + solids[row, M + 2] * z + shift * solids[row, OFFSET],
        solids[row, M + 3] * x + solids[row, M + 4] * y + solids[row, M + 5] * z + shift * solids[row, OFFSET + 1],
        solids[row, M + 6] * x + solids[row, M + 7] * y + solids[row, M + 8] * z + shift * solids[row, OFFSET + 2],
    )  # fmt: skip


@scalar
def unit_distance(ox, oy, oz, dx, dy, dz, kind, taper):
    """Where a unit-frame ray enters a solid of that kind; FAR if it does not."""
    if kind == ZERO:
        return ellipsoid_distance(ox, oy, oz, dx, dy, dz)
    if kind == ONE:
        return box_distance(ox, oy, oz, dx, dy, dz)
    return frustum_distance(ox, oy, oz, dx, dy, dz, taper)


@scalar
def solid_distance(ox, oy, oz, dx, dy, dz, solids, row):
    """Where a landmark-frame ray enters a solid; FAR if it does not."""
    ux, uy, uz = to_unit(ox, oy, oz, solids, row, ONE)
    vx, vy, vz = to_unit(dx, dy, dz, solids, row, ZERO)
    return unit_distance(ux, uy, uz, vx, vy, vz, solids[row, KIND], solids[row, TAPER])


@scalar
def aimed_distance(ox, oy, oz, dx, dy, dz, u, v, aimed, flight, solid):
    """Where the field-frame unit ray of pixel (u, v) enters an aimed solid; FAR if it does not."""
    x = aimed[flight, solid, BALL] - ox
    y = aimed[flight, solid, BALL + 1] - oy
    z = aimed[flight, solid, BALL + 2] - oz
    along = x * dx + y * dy + z * dz
    reach = aimed[flight, solid, BALL + 3]
    # A pixel misses nine in ten of the solids its tile may see: test the bounding sphere first.
    if x * x + y * y + z * z - along * along > reach * reach:
        return FAR
    ax = aimed[flight, solid, AIM] + u * aimed[flight, solid, AIM_U] + v * aimed[flight, solid, AIM_V]
    ay = aimed[flight, solid, AIM + 1] + u * aimed[flight, solid, AIM_U + 1] + v * aimed[flight, solid, AIM_V + 1]
    az = aimed[flight, solid, AIM + 2] + u * aimed[flight, solid, AIM_U + 2] + v * aimed[flight, solid, AIM_V + 2]
    bx = aimed[flight, solid, BEGIN] + u * aimed[flight, solid, BEGIN_U] + v * aimed[flight, solid, BEGIN_V]
    by = aimed[flight, solid, BEGIN + 1] + u * aimed[flight, solid, BEGIN_U + 1] + v * aimed[flight, solid, BEGIN_V + 1]
    bz = aimed[flight, solid, BEGIN + 2] + u * aimed[flight, solid, BEGIN_U + 2] + v * aimed[flight, solid, BEGIN_V + 2]
    return unit_distance(bx, by, bz, ax, ay, az, aimed[flight, solid, FORM], aimed[flight, solid, NARROWING])


@scalar
def inside_field(x, y):
    """Distance to the nearest fence, metres; negative outside the field."""
    return min(min(x, FIELD - x), min(y, FIELD - y))


@scalar
def fence_top(along):
    """Height of the fence at a place along it: pickets with pointed tops, two per metre."""
    phase = TWO * along - F(floor_cell(TWO * along))
    return FENCE_HEIGHT - F(0.5) * abs(phase - HALF)


@scalar
def fence_distance(ox, oy, oz, dx, dy, dz, limit):
    """Distance to the nearest fence before `limit`, and which one; `limit` and SKY if there is none."""
    best, side = limit, SKY
    for axis in range(2):
        across, along = (ox, oy) if axis == 0 else (oy, ox)
        step, slide = (dx, dy) if axis == 0 else (dy, dx)
        inverse = ONE / (step if abs(step) > TINY else TINY)
        for end in range(2):
            t = ((FIELD if end == 1 else ZERO) - across) * inverse
            if NEAR < t < best and oz + t * dz <= FENCE_HEIGHT:
                place = along + t * slide
                if ZERO <= place <= FIELD and ZERO <= oz + t * dz <= fence_top(place):
                    best, side = t, WEST - 2 * axis - end
    return best, side


@scalar
def nearest_hit(ox, oy, oz, dx, dy, dz, stretch, u, v, aimed, flight, candidates, row, count):
    """What the ray of pixel (u, v) hits first: distance, surface (solid row, or SKY to NORTH), landmark (-1 for none).

    Only the aimed solids candidates[row, :count] can be hit; if count is negative, any of the first -count can.
    `stretch` is the length of (dx, dy, dz) before it was normalised: distances to aimed solids are in units of it.
    """
    best, surface, seen = FAR, SKY, -1
    if dz < -TINY:
        best, surface = -oz / dz, GROUND
    # A ray that rises from above the fences hits none, nor does one that starts and ends inside the field.
    if surface == SKY:
        may_meet_fence = oz < FENCE_HEIGHT
    else:
        may_meet_fence = min(inside_field(ox, oy), inside_field(ox + best * dx, oy + best * dy)) < ZERO
    if may_meet_fence:
        best, side = fence_distance(ox, oy, oz, dx, dy, dz, best)
        if side != SKY:
            surface = side
    hit = np.int64(-1)
    for i in range(abs(count)):
        # Unsigned, so that Numba need not check whether the index counts from the end.
        solid = candidates[row, i] if count > 0 else np.uint16(i)
        t = aimed_distance(ox, oy, oz, dx, dy, dz, u, v, aimed, flight, solid)
        if t < FAR and t * stretch < best:
            best, hit = t * stretch, np.int64(solid)
    if hit >= 0:
        surface, seen = int(aimed[flight, hit, ROW]), int(aimed[flight, hit, LANDMARK])
    return best, surface, seen


@scalar
def shading_landmarks(x, y, z, fields, field):
    """Landmarks that may stand between this point and the sun, as the bits of a number."""
    # All points on a line to the sun share the ground cell where the line starts.
    cell_x = floor_cell((x - SUN_X / SUN_Z * z - SUN_ORIGIN) / SUN_CELL)
    cell_y = floor_cell((y - SUN_Y / SUN_Z * z - SUN_ORIGIN) / SUN_CELL)
    if cell_x < 0 or cell_x >= SUN_CELLS or cell_y < 0 or cell_y >= SUN_CELLS:
        return np.int32(0)
    return fields.sun_grid[field, cell_x, cell_y]


@scalar
def is_shaded(x, y, z, fields, field):
    """Whether a landmark stands between this point and the sun."""
    mask = shading_landmarks(x, y, z, fields, field)
    landmark = 0
    while mask != 0:
        if mask & 1:
            ox, oy, oz, dx, dy, dz = to_landmark(x, y, z, SUN_X, SUN_Y, SUN_Z, fields.landmarks, field, landmark, ONE)
            kind = int(fields.landmarks[field, landmark, CLASS])
            for row in range(fields.first_solid[kind], fields.first_solid[kind + 1]):
                if solid_distance(ox, oy, oz, dx, dy, dz, fields.solids, row) < FAR:
                    return True
        mask = (mask >> 1) & 0x7FFFFFFF
        landmark += 1
    return False
