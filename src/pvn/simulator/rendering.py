"""From cameras to pixels: the ray through a pixel, the solids a tile of pixels can see, what a pixel shows.

A camera is a row of 18 numbers (float32, field frame): the ray through the continuous pixel (u, v), u to the
right and v down, starts at o + u * ou + v * ov and points along d + u * du + v * dv. A pinhole camera has
ou = ov = 0, an orthographic one du = dv = 0; the code below is the same for both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pvn.compiling import scalar
from pvn.simulator.quadcopter import POSITION, QUATERNION, heading, rotate_to_world
from pvn.simulator.rays import (
    AIM,
    BALL,
    BEGIN,
    CLASS,
    COS,
    FORM,
    HALF,
    LANDMARK,
    MIDDLE,
    NARROWING,
    ONE,
    QUARTER,
    REACH,
    ROW,
    SCALE,
    SIN,
    ZERO,
    F,
    X,
    Y,
    nearest_hit,
    to_landmark,
    to_unit,
)
from pvn.simulator.shading import seen_colour
from pvn.world.solids import BOUND, CENTRE, KIND, TAPER

ORIGIN, ORIGIN_U, ORIGIN_V, AHEAD, AHEAD_U, AHEAD_V = 0, 3, 6, 9, 12, 15
NUM_CAMERA_COLUMNS = 18

TILE_WIDTH, TILE_HEIGHT = 8, 4
MAX_CANDIDATES = 64


class Lens(NamedTuple):
    """What rendering needs to know about the camera on a drone."""

    width: float  # pixels
    height: float
    focal_px: float
    tilt: float  # radians below the body's forward axis


@scalar
def pixel_ray(cameras, flight, u, v):
    """The ray through continuous pixel (u, v): origin, unit direction (field frame), length before normalising."""
    ox = cameras[flight, ORIGIN] + u * cameras[flight, ORIGIN_U] + v * cameras[flight, ORIGIN_V]
    oy = cameras[flight, ORIGIN + 1] + u * cameras[flight, ORIGIN_U + 1] + v * cameras[flight, ORIGIN_V + 1]
    oz = cameras[flight, ORIGIN + 2] + u * cameras[flight, ORIGIN_U + 2] + v * cameras[flight, ORIGIN_V + 2]
    dx = cameras[flight, AHEAD] + u * cameras[flight, AHEAD_U] + v * cameras[flight, AHEAD_V]
    dy = cameras[flight, AHEAD + 1] + u * cameras[flight, AHEAD_U + 1] + v * cameras[flight, AHEAD_V + 1]
    dz = cameras[flight, AHEAD + 2] + u * cameras[flight, AHEAD_U + 2] + v * cameras[flight, AHEAD_V + 2]
    stretch = math.sqrt(dx * dx + dy * dy + dz * dz)
    shrink = ONE / stretch
    return ox, oy, oz, dx * shrink, dy * shrink, dz * shrink, stretch


@scalar
def num_tiles(width, height):
    """Number of tiles that cover a picture."""
    return ((width + TILE_WIDTH - 1) // TILE_WIDTH) * ((height + TILE_HEIGHT - 1) // TILE_HEIGHT)


def count_tiles(width: int, height: int) -> int:
    """The same for callers in Python, who would otherwise wait a tenth of a second until it is compiled."""
    return int(num_tiles.py_func(width, height))


@scalar
def tile_bounds(tile, width, height):
    """First column and row of a tile, and the column and row after its last."""
    across = (width + TILE_WIDTH - 1) // TILE_WIDTH
    left, top = (tile % across) * TILE_WIDTH, (tile // across) * TILE_HEIGHT
    return left, top, min(left + TILE_WIDTH, width), min(top + TILE_HEIGHT, height)


@scalar
def cone_sees(vx, vy, vz, ax, ay, az, width, tangent, secant, radius):
    """Whether a sphere at (vx, vy, vz) from the apex may touch a cone along (ax, ay, az), `width` wide at the apex."""
    along = vx * ax + vy * ay + vz * az
    if along < -(radius + width):
        return False
    across = max(vx * vx + vy * vy + vz * vz - along * along, ZERO)
    reach = width + max(along, ZERO) * tangent + radius * secant
    return across <= reach * reach


@scalar
def tile_cone(cameras, flight, left, top, right, bottom):
    """The cone around a tile's rays: apex, unit axis, width at the apex, tangent and secant of its half angle."""
    ox, oy, oz, ax, ay, az, _ = pixel_ray(cameras, flight, HALF * F(left + right), HALF * F(top + bottom))
    cosine, width = ONE, ZERO
    for corner in range(4):
        u = F(left if corner & 1 == 0 else right)
        v = F(top if corner & 2 == 0 else bottom)
        px, py, pz, dx, dy, dz, _ = pixel_ray(cameras, flight, u, v)
        cosine = min(cosine, dx * ax + dy * ay + dz * az)
        px, py, pz = px - ox, py - oy, pz - oz
        width = max(width, math.sqrt(px * px + py * py + pz * pz))
    cosine = max(cosine - F(1e-6), F(0.05))
    return ox, oy, oz, ax, ay, az, width, math.sqrt(ONE - cosine * cosine) / cosine, ONE / cosine


@scalar
def aim_solid(cameras, flight, fields, field, landmark, row, aimed, place):
    """Write aimed[flight, place]: one solid as this flight's camera sees it."""
    landmarks, solids = fields.landmarks, fields.solids
    cos, sin = landmarks[field, landmark, COS], landmarks[field, landmark, SIN]
    scale = landmarks[field, landmark, SCALE]
    x, y = solids[row, CENTRE] * scale, solids[row, CENTRE + 1] * scale
    aimed[flight, place, BALL] = landmarks[field, landmark, X] + cos * x - sin * y
    aimed[flight, place, BALL + 1] = landmarks[field, landmark, Y] + sin * x + cos * y
    aimed[flight, place, BALL + 2] = solids[row, CENTRE + 2] * scale
    aimed[flight, place, BALL + 3] = solids[row, BOUND] * scale
    aimed[flight, place, LANDMARK], aimed[flight, place, ROW] = landmark, row
    aimed[flight, place, FORM], aimed[flight, place, NARROWING] = solids[row, KIND], solids[row, TAPER]
    for part in range(3):
        at = 3 * part
        ox, oy, oz, dx, dy, dz = to_landmark(
            cameras[flight, ORIGIN + at], cameras[flight, ORIGIN + at + 1], cameras[flight, ORIGIN + at + 2],
            cameras[flight, AHEAD + at], cameras[flight, AHEAD + at + 1], cameras[flight, AHEAD + at + 2],
            landmarks, field, landmark, ONE if part == 0 else ZERO,
        )  # fmt: skip
        ox, oy, oz = to_unit(ox, oy, oz, solids, row, ONE if part == 0 else ZERO)
        dx, dy, dz = to_unit(dx, dy, dz, solids, row, ZERO)
        aimed[flight, place, BEGIN + at] = ox
        aimed[flight, place, BEGIN + at + 1] = oy
        aimed[flight, place, BEGIN + at + 2] = oz
        aimed[flight, place, AIM + at] = dx
        aimed[flight, place, AIM + at + 1] = dy
        aimed[flight, place, AIM + at + 2] = dz


@scalar
def aim_landmark(cameras, flight, fields, field, landmark, aimed):
    """Write a landmark's solids into aimed[flight], behind those of the landmarks before it."""
    place = np.int64(0)  # for a constant, Numba would compile what is called with it once more
    for other in range(landmark):
        kind = int(fields.landmarks[field, other, CLASS])
        place += fields.first_solid[kind + 1] - fields.first_solid[kind]
    kind = int(fields.landmarks[field, landmark, CLASS])
    for row in range(fields.first_solid[kind], fields.first_solid[kind + 1]):
        aim_solid(cameras, flight, fields, field, landmark, row, aimed, place)
        place += 1


@scalar
def gather_candidates(cameras, flight, fields, field, aimed, left, top, right, bottom, candidates, row):
    """List in candidates[row] the aimed solids a tile may see; returns their number.

    If they do not fit, returns minus the number of all solids in the field; each pixel then tests every one.
    """
    ox, oy, oz, ax, ay, az, width, tangent, secant = tile_cone(cameras, flight, left, top, right, bottom)
    landmarks = fields.landmarks
    count, end = 0, 0
    for landmark in range(fields.num_landmarks[field]):
        kind = int(landmarks[field, landmark, CLASS])
        begin, end = end, end + fields.first_solid[kind + 1] - fields.first_solid[kind]
        if not cone_sees(
            landmarks[field, landmark, X] - ox,
            landmarks[field, landmark, Y] - oy,
            landmarks[field, landmark, MIDDLE] - oz,
            ax, ay, az, width, tangent, secant, landmarks[field, landmark, REACH],
        ):  # fmt: skip
            continue
        for solid in range(begin, end):
            if cone_sees(
                aimed[flight, solid, BALL] - ox,
                aimed[flight, solid, BALL + 1] - oy,
                aimed[flight, solid, BALL + 2] - oz,
                ax, ay, az, width, tangent, secant, aimed[flight, solid, BALL + 3],
            ):  # fmt: skip
                if count < MAX_CANDIDATES:
                    candidates[row, count] = solid
                count += 1
    return count if count <= MAX_CANDIDATES else -end


@scalar
def to_byte(value):
    """A colour in [0, 1] as 0 to 255."""
    return int(min(max(value, ZERO), ONE) * F(255) + HALF)


@scalar
def paint_pixel(cameras, flight, column, row, fields, field, aimed, candidates, list_row, count, is_full, image):
    """Write one pixel: one ray through its centre, or 2x2 rays with shadows when `is_full`."""
    red, green, blue = ZERO, ZERO, ZERO
    num_samples, first, share = (4, QUARTER, QUARTER) if is_full else (1, HALF, ONE)
    for sample in range(num_samples):
        u, v = F(column) + first, F(row) + first
        u, v = u + HALF if sample & 1 else u, v + HALF if sample & 2 else v
        ox, oy, oz, dx, dy, dz, stretch = pixel_ray(cameras, flight, u, v)
        distance, surface, landmark = nearest_hit(
            ox, oy, oz, dx, dy, dz, stretch, u, v, aimed, flight, candidates, list_row, count
        )
        r, g, b = seen_colour(ox, oy, oz, dx, dy, dz, distance, surface, landmark, fields, field, is_full)
        red, green, blue = red + share * r, green + share * g, blue + share * b
    image[flight, row, column, 0] = to_byte(red)
    image[flight, row, column, 1] = to_byte(green)
    image[flight, row, column, 2] = to_byte(blue)


@scalar
def measure_pixel(cameras, flight, column, row, aimed, candidates, list_row, count, depth, seen):
    """Write one pixel's depth along its ray (0 for sky) and the landmark seen there (-1 for none)."""
    u, v = F(column) + HALF, F(row) + HALF
    ox, oy, oz, dx, dy, dz, stretch = pixel_ray(cameras, flight, u, v)
    distance, _, landmark = nearest_hit(
        ox, oy, oz, dx, dy, dz, stretch, u, v, aimed, flight, candidates, list_row, count
    )
    depth[flight, row, column] = distance if distance < F(1e8) else ZERO
    seen[flight, row, column] = landmark


@scalar
def point_camera(state, flight, lens, poses, cameras):
    """Write a flight's pose (6) and its camera row (18) from its state."""
    qw, qx = state[flight, QUATERNION], state[flight, QUATERNION + 1]
    qy, qz = state[flight, QUATERNION + 2], state[flight, QUATERNION + 3]
    for axis in range(3):
        poses[flight, axis] = state[flight, POSITION + axis]
        cameras[flight, ORIGIN + axis] = state[flight, POSITION + axis]
    poses[flight, 3] = math.atan2(2.0 * (qw * qx + qy * qz), 1.0 - 2.0 * (qx * qx + qy * qy))
    poses[flight, 4] = math.asin(min(max(2.0 * (qw * qy - qz * qx), -1.0), 1.0))
    poses[flight, 5] = heading(qw, qx, qy, qz)
    cos, sin = math.cos(lens.tilt), math.sin(lens.tilt)
    fx, fy, fz = rotate_to_world(qw, qx, qy, qz, cos, 0.0, -sin)
    dx, dy, dz = rotate_to_world(qw, qx, qy, qz, -sin, 0.0, -cos)
    rx, ry, rz = rotate_to_world(qw, qx, qy, qz, 0.0, -1.0, 0.0)
    u, v = 0.5 * lens.width / lens.focal_px, 0.5 * lens.height / lens.focal_px
    cameras[flight, AHEAD] = fx - u * rx - v * dx
    cameras[flight, AHEAD + 1] = fy - u * ry - v * dy
    cameras[flight, AHEAD + 2] = fz - u * rz - v * dz
    cameras[flight, AHEAD_U] = rx / lens.focal_px
    cameras[flight, AHEAD_U + 1] = ry / lens.focal_px
    cameras[flight, AHEAD_U + 2] = rz / lens.focal_px
    cameras[flight, AHEAD_V] = dx / lens.focal_px
    cameras[flight, AHEAD_V + 1] = dy / lens.focal_px
    cameras[flight, AHEAD_V + 2] = dz / lens.focal_px
