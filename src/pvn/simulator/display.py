"""Pictures for people: the fields that agents see, with more to look at.

The rays and colours are those of training pictures (`rays`, `shading`), and `scenery` adds what agents never see. The
loop is one of its own, so that the compiled code of training pictures does not change. On the CPU alone, as all
pictures for people are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pvn.compiling import is_compiled, kernel, num_cores, run_in_parallel, scalar
from pvn.geometry import Camera
from pvn.processes import process_pool
from pvn.simulator import cpu
from pvn.simulator.cameras import Array, from_above, on_drone
from pvn.simulator.fields import num_solids, pack
from pvn.simulator.rays import (
    CLASS,
    EAST,
    FAR,
    GROUND,
    HALF,
    MIDDLE,
    ONE,
    REACH,
    SKY,
    SUN_X,
    SUN_Y,
    SUN_Z,
    TWO,
    ZERO,
    F,
    X,
    Y,
    fence_distance,
    inside_field,
    is_shaded,
    nearest_hit,
    solid_distance,
    to_landmark,
)
from pvn.simulator.rendering import (
    AHEAD_U,
    MAX_CANDIDATES,
    ORIGIN_U,
    count_tiles,
    gather_candidates,
    num_tiles,
    pixel_ray,
    tile_bounds,
    to_byte,
)
from pvn.simulator.scenery import (
    contact_shadow,
    display_fence,
    display_post,
    display_sky,
    grass_light,
    ground_shadow,
    post_distance,
    surface_normal,
    tree_colour,
)
from pvn.simulator.shading import (
    HORIZON_BLUE,
    HORIZON_GREEN,
    HORIZON_RED,
    KERB,
    cloud_at,
    kerb_colour,
    solid_colour,
    wetness_at,
)
from pvn.world.layout import Layout

EDGE = F(0.06)
"""There is an edge in a pixel if its rays, or it and a neighbour, differ by more than this in red, green or blue, each
of which is 0 to 1."""

Pictures = npt.NDArray[np.uint8]


@scalar
def _mirrored(x, y, dx, dy, dz, fields, field):
    """Colour of what the water at a place mirrors along a ray that rises from it."""
    best, side = fence_distance(x, y, F(0.01), dx, dy, dz, F(200))
    # With a type, or else what is called with them is compiled for constants as well.
    hit, seen = np.int64(-1), np.int64(-1)
    for landmark in range(fields.num_landmarks[field]):
        ax, ay = fields.landmarks[field, landmark, X] - x, fields.landmarks[field, landmark, Y] - y
        az = fields.landmarks[field, landmark, MIDDLE]
        along = ax * dx + ay * dy + az * dz
        reach = fields.landmarks[field, landmark, REACH]
        if ax * ax + ay * ay + az * az - along * along > reach * reach:
            continue
        ox, oy, oz, rx, ry, rz = to_landmark(x, y, F(0.01), dx, dy, dz, fields.landmarks, field, landmark, ONE)
        kind = int(fields.landmarks[field, landmark, CLASS])
        for row in range(fields.first_solid[kind], fields.first_solid[kind + 1]):
            t = solid_distance(ox, oy, oz, rx, ry, rz, fields.solids, row)
            if t < best:
                best, hit, seen = t, row, landmark
    if hit >= 0:
        return solid_colour(x + best * dx, y + best * dy, best * dz, dx, dy, dz, fields, field, seen, hit, True)
    if side != SKY:
        return display_fence(
            side, (y + best * dy) if side >= EAST else (x + best * dx), best * dz, dx, dy, fields.noise
        )
    red, green, blue, t = tree_colour(x, y, ZERO, dx, dy, dz, FAR, fields.noise)
    if t < FAR:
        return red, green, blue
    return display_sky(dx, dy, dz, fields.noise)


@scalar
def _water(x, y, dx, dy, dz, distance, wet, fields, field):
    """Deep blue from above, a rippled mirror of the sky and what stands around it at a glance."""
    noise = fields.noise
    calm = F(0.16) / (ONE + distance * F(0.08))
    u, v = x * F(9), y * F(9)
    nx = calm * (cloud_at(noise, u + ONE, v) - cloud_at(noise, u - ONE, v))
    ny = calm * (cloud_at(noise, u, v + ONE) - cloud_at(noise, u, v - ONE))
    turn = TWO * (dx * nx + dy * ny + dz)
    rx, ry, rz = dx - turn * nx, dy - turn * ny, max(dz - turn, F(0.02))
    shrink = ONE / math.sqrt(rx * rx + ry * ry + rz * rz)
    red, green, blue = _mirrored(x, y, rx * shrink, ry * shrink, rz * shrink, fields, field)
    glance = ONE + dz
    share = F(0.07) + F(0.78) * glance * glance
    shallow = max(ONE - (wet - HALF) * F(2.6), ZERO)
    ripple = F(1.2) * (nx + ny)
    deep_red, deep_green = F(0.07) + F(0.16) * shallow + ripple, F(0.25) + F(0.17) * shallow + ripple
    deep_blue = F(0.46) + F(0.04) * shallow + ripple
    return (
        deep_red + (red - deep_red) * share,
        deep_green + (green - deep_green) * share,
        deep_blue + (blue - deep_blue) * share,
    )


@scalar
def _ground(x, y, dx, dy, dz, distance, footprint, is_lit, fields, field):
    """Grass, kerb, water or sandy shore, with shadows."""
    inside = inside_field(x, y)
    if -KERB < inside < KERB:
        return kerb_colour(x, y)  # the colours of the fences from above, which no shadow may hide
    shade = (ONE if is_lit else F(0.56)) * (ONE - F(0.62) * ground_shadow(x, y, fields, field))
    cold = ONE if is_lit else F(1.1)  # shadows are lit by the blue sky
    wet = wetness_at(fields.wetness, field, x, y) if inside > ZERO else ZERO
    if wet > HALF:
        red, green, blue = _water(x, y, dx, dy, dz, distance, wet, fields, field)
        shade = ONE - (ONE - shade) * F(0.45)
        return red * shade, green * shade, blue * shade
    light, yellow = grass_light(x, y, dx, dy, dz, footprint, fields.noise)
    if inside < ZERO:
        red, green, blue = F(0.44) + F(0.10) * yellow, F(0.49) + F(0.03) * yellow, F(0.25)
    else:
        red, green, blue = F(0.284) + F(0.10) * yellow, F(0.464) + F(0.04) * yellow, F(0.147)
    sand = min(max((wet - F(0.24)) * F(12), ZERO), ONE)
    if sand > ZERO:
        damp = ONE - F(0.32) * max(wet - F(0.38), ZERO) * F(8)
        red = red + (F(0.76) * damp - red) * sand
        green = green + (F(0.68) * damp - green) * sand
        blue = blue + (F(0.47) * damp - blue) * sand
        light = ONE + (light - ONE) * (ONE - F(0.75) * sand)
    light *= shade
    return red * light, green * light, blue * light * cold


@scalar
def _solid(x, y, z, dx, dy, dz, fields, field, landmark, row, is_lit):
    """A solid as agents see it, darker where it meets others, a little uneven."""
    red, green, blue = solid_colour(x, y, z, dx, dy, dz, fields, field, landmark, row, is_lit)
    nx, ny, nz = surface_normal(x, y, z, fields, field, landmark, row)
    hidden = contact_shadow(x, y, z, nx, ny, nz, fields, field, landmark)
    ground = max(ONE - z * F(1.4), ZERO) * (ONE - nz) * HALF  # the ground hides half of the sky
    light = (ONE - F(0.42) * hidden) * (ONE - F(0.3) * ground)
    light *= ONE + F(0.10) * (cloud_at(fields.noise, (x + z) * F(9), (y - z) * F(9)) - HALF)
    return red * light, green * light, blue * light


@scalar
def _shown_colour(ox, oy, oz, dx, dy, dz, distance, surface, landmark, spread, pixel, fields, field):
    """Colour of what a ray hits; a pixel is `pixel` wide, and wider by `spread` a metre."""
    post, side = post_distance(ox, oy, oz, dx, dy, dz, distance)
    if side != SKY:
        distance = post
    red, green, blue, trees = tree_colour(ox, oy, oz, dx, dy, dz, distance, fields.noise)
    if trees < distance:
        distance = trees
    elif surface == SKY and side == SKY:
        return display_sky(dx, dy, dz, fields.noise)
    else:
        x, y, z = ox + distance * dx, oy + distance * dy, oz + distance * dz
        lift = F(4e-3)
        lx, ly, lz = x + lift * SUN_X, y + lift * SUN_Y, z + lift * SUN_Z
        is_lit = True
        if distance < F(110):
            is_lit = not is_shaded(lx, ly, lz, fields, field)
        if is_lit and surface == GROUND:
            _, wall = fence_distance(lx, ly, lz, SUN_X, SUN_Y, SUN_Z, F(6))
            is_lit = wall == SKY
        if side != SKY:
            red, green, blue = display_post(side, x, y, z, dx, dy)
        elif surface >= 0:
            red, green, blue = _solid(x, y, z, dx, dy, dz, fields, field, landmark, surface, is_lit)
        elif surface == GROUND:
            # Of one of the two rays along each axis of a pixel.
            footprint = HALF * (pixel + distance * spread) / max(-dz, F(0.25))
            red, green, blue = _ground(x, y, dx, dy, dz, distance, footprint, is_lit, fields, field)
        else:
            red, green, blue = display_fence(surface, y if surface >= EAST else x, z, dx, dy, fields.noise)
            if not is_lit:
                red, green, blue = red * F(0.66), green * F(0.66), blue * F(0.7)
    haze = min(distance * distance * F(1.5e-5), F(0.85))
    return (
        red + (HORIZON_RED - red) * haze,
        green + (HORIZON_GREEN - green) * haze,
        blue + (HORIZON_BLUE - blue) * haze,
    )


@scalar
def _has_edge(colours, flight, row, column):
    """Whether a pixel's two rays, or their mean and that of a neighbour, differ; colours as in `_show_tiles`."""
    if colours[flight, row, column, 3] > EDGE:
        return True
    for side in range(4):
        i = row + (side == 0) - (side == 1)
        j = column + (side == 2) - (side == 3)
        if 0 <= i < colours.shape[1] and 0 <= j < colours.shape[2]:
            for colour in range(3):
                if abs(colours[flight, row, column, colour] - colours[flight, i, j, colour]) > EDGE:
                    return True
    return False


@kernel
def _show_tiles(first, last, cameras, fields, field_index, aimed, is_refining, colours, image):
    """Show some tiles in two passes over all of them, by the same loop, since compiling it takes many seconds.

    The first (not is_refining) traces two rays on a diagonal of each pixel, and fills colours (K, H, W, 4) float32:
    their mean red, green and blue, 0 to 1, and the largest difference between them. The second traces the two rays on
    the other diagonal where there is an edge, and fills image (K, H, W, 3) uint8.
    """
    height, width = image.shape[1], image.shape[2]
    tiles = num_tiles(width, height)
    candidates = np.empty((1, MAX_CANDIDATES), np.uint16)
    for item in range(first, last):
        flight, tile = item // tiles, item % tiles
        field = field_index[flight]
        left, top, right, bottom = tile_bounds(tile, width, height)
        count = gather_candidates(cameras, flight, fields, field, aimed, left, top, right, bottom, candidates, 0)
        pixel = math.sqrt(
            cameras[flight, ORIGIN_U] * cameras[flight, ORIGIN_U]
            + cameras[flight, ORIGIN_U + 1] * cameras[flight, ORIGIN_U + 1]
        )
        spread = math.sqrt(
            cameras[flight, AHEAD_U] * cameras[flight, AHEAD_U]
            + cameras[flight, AHEAD_U + 1] * cameras[flight, AHEAD_U + 1]
        )
        for row in range(top, bottom):
            for column in range(left, right):
                red, green, blue, difference = ZERO, ZERO, ZERO, ZERO
                is_traced = not is_refining or _has_edge(colours, flight, row, column)
                for ray in range(2 if is_traced else 0):
                    u = F(column) + F(0.25) + HALF * F(ray)
                    v = F(row) + F(0.25) + HALF * F(1 - ray if is_refining else ray)
                    ox, oy, oz, dx, dy, dz, stretch = pixel_ray(cameras, flight, u, v)
                    distance, surface, landmark = nearest_hit(
                        ox, oy, oz, dx, dy, dz, stretch, u, v, aimed, flight, candidates, 0, count
                    )
                    r, g, b = _shown_colour(
                        ox, oy, oz, dx, dy, dz, distance, surface, landmark, spread, pixel, fields, field
                    )
                    difference = max(abs(r - TWO * red), abs(g - TWO * green), abs(b - TWO * blue))
                    red, green, blue = red + HALF * r, green + HALF * g, blue + HALF * b
                if is_refining:
                    share = HALF if is_traced else ONE
                    image[flight, row, column, 0] = to_byte(share * (red + colours[flight, row, column, 0]))
                    image[flight, row, column, 1] = to_byte(share * (green + colours[flight, row, column, 1]))
                    image[flight, row, column, 2] = to_byte(share * (blue + colours[flight, row, column, 2]))
                else:
                    colours[flight, row, column, 0] = red
                    colours[flight, row, column, 1] = green
                    colours[flight, row, column, 2] = blue
                    colours[flight, row, column, 3] = difference


def _show(layouts: Sequence[Layout], index: Tensor, cameras: Sequence[Array], width: int, height: int) -> Pictures:
    """Pictures (K, H, W, 3) of layouts[index (K,)], each by its own camera (18,)."""
    image = np.empty((len(index), height, width, 3), np.uint8)
    if not len(index):
        return image
    rows, fields = torch.from_numpy(np.stack(cameras)), pack(layouts, is_display=True)
    aimed = cpu._aim(rows, fields, index, num_solids(layouts, is_display=True))
    tiles = len(index) * count_tiles(width, height)
    colours = np.empty((*image.shape[:3], 4), np.float32)
    for is_refining in (False, True):
        run_in_parallel(
            _show_tiles, tiles, cpu.GRAIN, rows.numpy(), fields, index.numpy(), aimed, is_refining, colours, image
        )
    return image


def compile_beside() -> None:
    """Compile what shows pictures, in a process of its own unless it is compiled already or there is only one core.

    It takes twenty seconds, and Numba compiles nothing else meanwhile in the same process.
    """
    if is_compiled(_show_tiles) or num_cores() == 1:
        return
    with process_pool(1) as pool:
        pool.submit(show_pictures, [Layout(())], [from_above(0.0, 0.0, 1.0, 8)], 8, 8).result()


def show_pictures(layouts: Sequence[Layout], cameras: Sequence[Array], width: int, height: int) -> Pictures:
    """Pictures for people (N, H, W, 3) uint8 of N layouts, each by its own camera (18,)."""
    return _show(layouts, torch.arange(len(layouts)), cameras, width, height)


def show_views(layout: Layout, poses_world: npt.NDArray[np.floating], camera: Camera) -> Pictures:
    """What people see of a layout from drones at poses (K, 6), field frame: pictures (K, H, W, 3) uint8."""
    index = torch.zeros(len(poses_world), dtype=torch.int64)
    cameras = [on_drone(pose, camera) for pose in poses_world]
    return _show([layout], index, cameras, camera.width, camera.height)
