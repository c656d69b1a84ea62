"""The ray tracer: every pixel shows what geometry says it must."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.compiling import from_python, kernel
from pvn.geometry import Camera, ground_points, pixel_rays, project
from pvn.simulator import cpu
from pvn.simulator.cameras import from_above, looking_at, on_drone, take_pictures
from pvn.simulator.fields import num_solids, pack, wetness_of
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.rays import (
    CLASS,
    FAR,
    NUM_AIMED_COLUMNS,
    SUN_X,
    SUN_Y,
    SUN_Z,
    box_distance,
    ellipsoid_distance,
    frustum_distance,
)
from pvn.simulator.rendering import aim_landmark, measure_pixel, paint_pixel
from pvn.simulator.simulator import Simulator
from pvn.world.landmarks import LANDMARK_CLASSES, LANDMARK_NAMES
from pvn.world.layout import Landmark, Layout, sample_layout
from pvn.world.solids import bounding_sphere

F = np.float32
EMPTY = Layout(())


def starts(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    unit = torch.rand((count, 3), generator=generator)
    return unit * torch.tensor([40.0, 40.0, 6.28]) + torch.tensor([5.0, 5.0, -3.14])


def first_inside(is_inside, origin, direction, reach=12.0, count=24001):
    """Brute force: the first of many points along the ray that is inside."""
    t = np.linspace(0, reach, count)
    inside = is_inside(*(origin[:, None] + direction[:, None] * t))
    return t[inside.argmax()] if inside.any() else math.inf


SHAPES = {
    "ellipsoid": (lambda x, y, z: x * x + y * y + z * z <= 1, ellipsoid_distance, ()),
    "box": (lambda x, y, z: np.maximum(np.maximum(abs(x), abs(y)), abs(z)) <= 1, box_distance, ()),
    "cylinder": (lambda x, y, z: (abs(z) <= 1) & (x * x + y * y <= 1), frustum_distance, (F(1.0),)),
    "cone": (
        lambda x, y, z: (abs(z) <= 1) & (x * x + y * y <= (0.5 - 0.5 * z) ** 2),
        from_python(frustum_distance),
        (F(0.0),),
    ),
    "flared": (
        lambda x, y, z: (abs(z) <= 1) & (x * x + y * y <= (1.25 + 0.25 * z) ** 2),
        from_python(frustum_distance),
        (F(1.5),),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_rays_enter_unit_solids_where_brute_force_says(shape):
    is_inside, distance, extra = SHAPES[shape]
    distance = from_python(distance)
    generator = np.random.default_rng(0)
    num_hits = 0
    for _ in range(60):
        origin = generator.normal(size=3)
        origin *= 5 / np.linalg.norm(origin)
        direction = generator.uniform(-1, 1, 3) - origin
        direction /= np.linalg.norm(direction)
        expected = first_inside(is_inside, origin, direction)
        got = distance(*origin.astype(F), *direction.astype(F), *extra)
        num_hits += math.isfinite(expected)
        if math.isfinite(expected):
            assert got == pytest.approx(expected, abs=2e-3)
        else:
            # Brute force steps over an edge that is only grazed; the ray tracer may see it.
            assert got == FAR or not is_inside(*(origin + direction * (got + 2e-3)))
    assert num_hits > 30


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_solids_far_behind_a_ray_are_missed(shape):
    _, distance, extra = SHAPES[shape]
    distance = from_python(distance)
    generator = np.random.default_rng(1)
    for _ in range(50):
        away = generator.normal(size=3)
        away /= np.linalg.norm(away)
        assert distance(*(generator.uniform(10, 300) * away).astype(F), *away.astype(F), *extra) == FAR


@pytest.mark.parametrize("name", LANDMARK_NAMES)
def test_no_shadow_is_larger_than_the_thing_that_casts_it(name):
    """Every point in shadow lies on a line to the sun that passes within the landmark's bounding sphere."""
    kind = LANDMARK_CLASSES[name]
    layout = Layout((Landmark(name, 25.0, 25.0, kind.radius, 0.7),))
    middle, reach = bounding_sphere(kind.solids)
    lit, seen = (take_pictures([one], [from_above(5, 5, 40, 200)], 200, 200)[0].astype(int) for one in (EMPTY, layout))
    is_changed = np.abs(lit - seen).max(axis=-1) > 12
    row, column = np.nonzero(is_changed)
    place = np.stack([5 + 0.2 * (column + 0.5), 45 - 0.2 * (row + 0.5), np.zeros(len(row))], -1)
    sun = np.array([SUN_X, SUN_Y, SUN_Z])
    offset = np.array([25.0, 25.0, middle]) - place
    across = np.linalg.norm(offset - (offset @ sun)[:, None] * sun, axis=-1)
    above = np.hypot(*(place[:, :2] - 25.0).T)
    assert len(row) > 100
    assert (np.minimum(across, above) <= reach + 0.3).all()


@pytest.mark.parametrize("shape", ["ellipsoid", "box", "cylinder"])
def test_a_ray_from_inside_sees_out(shape):
    _, distance, extra = SHAPES[shape]
    distance = from_python(distance)
    assert distance(F(0.1), F(0.2), F(0.1), F(0.6), F(0.0), F(0.8), *extra) == FAR


def test_depth_of_empty_ground_is_the_distance_geometry_computes():
    simulator = Simulator([EMPTY], 6, config=SimulatorConfig(quality="none"))
    simulator.reset(torch.tensor([[25.0, 25.0, yaw] for yaw in range(6)]))
    observation = simulator.step(torch.tensor([[3.0, 0.9, 0.0]] * 6))  # tilted by now
    assert observation.pose_world[:, 3:5].abs().max() > 0.1
    depth, seen = simulator.depth_and_landmarks()
    camera = simulator.config.camera
    v, u = torch.meshgrid(torch.arange(camera.height) + 0.5, torch.arange(camera.width) + 0.5, indexing="ij")
    pixels = torch.stack([u, v], -1).reshape(1, -1, 2).expand(6, -1, -1)
    ground = ground_points(pixels, observation.pose_world, camera)
    distance = torch.cat([ground, torch.zeros_like(ground[..., :1])], -1) - observation.pose_world[:, None, :3]
    expected = distance.norm(dim=-1).reshape(depth.shape)
    inside = ((ground > 0) & (ground < 50)).all(-1).reshape(depth.shape)
    assert inside.float().mean() > 0.3
    assert torch.allclose(depth[inside], expected[inside], rtol=1e-3)
    assert (seen == -1).all()


def test_sky_has_no_depth_and_the_horizon_is_where_the_camera_puts_it():
    simulator = Simulator([EMPTY], 1, config=SimulatorConfig(quality="none"))
    pose = simulator.reset(torch.tensor([[25.0, 25.0, 0.3]])).pose_world
    depth, _ = simulator.depth_and_landmarks()
    rows = torch.arange(72) + 0.5
    up = pixel_rays(torch.stack([torch.full_like(rows, 64.5), rows], -1)[None], pose, Camera())[0, :, 2]
    assert torch.equal(depth[0, :, 64] == 0, up >= 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_landmark_is_seen_at_the_pixel_its_centre_projects_to(seed):
    place = Landmark("Barrel2", 25.0, 25.0, 3.75)
    simulator = Simulator([Layout((Landmark("Box", 40, 40, 4), place))], 1, config=SimulatorConfig(quality="none"))
    angle = seed * 1.7
    start = (25 - 11 * math.cos(angle), 25 - 11 * math.sin(angle), angle + 0.2 * (seed - 1.5))
    pose = simulator.reset(torch.tensor([start])).pose_world
    _, seen = simulator.depth_and_landmarks()
    pixel, _ = project(torch.tensor([[[25.0, 25.0, 1.5]]]), pose, simulator.config.camera)
    u, v = pixel[0, 0].int().tolist()
    assert seen[0, v, u] == 1, "it is the second landmark of the layout"


def test_the_nearer_of_two_landmarks_hides_the_other():
    layout = Layout((Landmark("PhoneBox", 20.0, 25.0, 3.75), Landmark("TrafficCone", 30.0, 25.0, 3.75)))
    simulator = Simulator([layout], 1, config=SimulatorConfig(quality="none"))
    simulator.reset(torch.tensor([[10.0, 25.0, 0.0]]))
    _, seen = simulator.depth_and_landmarks()
    assert (seen == 0).sum() > 200
    assert (seen == 1).sum() < 0.05 * (seen == 0).sum()


@kernel
def trace_without_tiles(cameras, flight, fields, field, aimed, every, depth, seen):
    """Depth and landmark of every third pixel in both directions, with every solid tested for each."""
    for landmark in range(fields.num_landmarks[field]):
        aim_landmark(cameras, flight, fields, field, landmark, aimed)
    for row in range(0, depth.shape[1], 3):
        for column in range(0, depth.shape[2], 3):
            measure_pixel(cameras, flight, column, row, aimed, every, 0, every.shape[1], depth, seen)


@pytest.mark.long
def test_tiles_see_the_same_as_a_tile_as_large_as_the_picture():
    """Leaving solids out of a tile's list must never change a pixel."""
    simulator = Simulator([sample_layout(seed) for seed in range(4)], 12, field_index=[i % 4 for i in range(12)])
    simulator.reset(starts(12))
    depth, seen = simulator.depth_and_landmarks()
    for flight in range(12):
        fields, aimed = simulator._traced, np.zeros((12, simulator._num_solids, NUM_AIMED_COLUMNS), F)
        cameras, field = simulator._cameras.numpy(), int(simulator.field_index[flight])
        total = sum(
            fields.first_solid[int(row[CLASS]) + 1] - fields.first_solid[int(row[CLASS])]
            for row in fields.landmarks[field, : fields.num_landmarks[field]]
        )
        every = np.arange(total, dtype=np.uint16)[None]
        brute_depth, brute_seen = np.zeros((12, 72, 128), F), np.zeros((12, 72, 128), np.int16)
        trace_without_tiles(cameras, flight, fields, field, aimed, every, brute_depth, brute_seen)
        assert np.array_equal(brute_seen[flight, ::3, ::3], seen[flight, ::3, ::3].numpy())
        # Compiled separately, so the last bit may differ.
        assert np.allclose(brute_depth[flight, ::3, ::3], depth[flight, ::3, ::3].numpy(), rtol=1e-4)


@kernel
def paint_one_by_one(cameras, fields, field_index, aimed, is_full, image):
    """Every pixel by itself, as on a GPU; any solid may be seen."""
    unused = np.empty((1, 1), np.uint16)
    for flight in range(len(cameras)):
        field = field_index[flight]
        for row in range(image.shape[1]):
            for column in range(image.shape[2]):
                paint_pixel(
                    cameras, flight, column, row, fields, field, aimed, unused, 0, -aimed.shape[1], is_full, image
                )


@pytest.mark.long
@pytest.mark.parametrize("view", ["drone", "low", "above"])
def test_rays_side_by_side_see_what_each_sees_by_itself(view):
    """Two fields of the same landmarks, one of them full of things that hide and shade each other."""
    names = ["Coach", "Tank", "Pickup", "GiantPalm", "Mushroom", "Palm3", "Boat", "Jet"]
    marks = [Landmark(names[i % 8], 4 + 6 * (i // 5), 3 + 10.5 * (i % 5), 5.0, 0.7 * i) for i in range(32)]
    layouts = [Layout(tuple(marks), sample_layout(3).lake), Layout(tuple(marks[::-1]))]
    camera = Camera(width=61, height=35)  # the last tiles of a row and of a column are cut off
    poses = [[1.0, 1.0, 0.8], [30.0, 24.0, 3.9], [60.0, 40.0, 2.4], [12.0, 49.0, -1.2]]
    if view == "above":
        rows = np.stack([from_above(-1.0, -1.0, 52.0, 61)] * 4)
    else:
        height, tilt = (5.0, 0.0) if view == "drone" else (0.7, -0.3)
        rows = np.stack([on_drone(np.array([x, y, height, 0.05, tilt, yaw]), camera) for x, y, yaw in poses])
    fields, index, count = pack(layouts), np.array([0, 1, 0, 1]), num_solids(layouts)
    aimed = cpu._aim(torch.from_numpy(rows), fields, torch.from_numpy(index), count)
    for is_full in (False, True):
        found = torch.empty((4, 35, 61, 3), dtype=torch.uint8)
        cpu.paint(torch.from_numpy(rows), fields, torch.from_numpy(index), count, is_full, found)
        alone = np.empty((4, 35, 61, 3), np.uint8)
        paint_one_by_one(rows, fields, index, aimed, is_full, alone)
        off = np.abs(found.numpy().astype(int) - alone).max(-1)
        assert (off > 0).mean() < 0.003 and (off > 2).mean() < 0.001, "but for rounding at edges"
        assert alone.std() > 20


def test_a_crowd_looks_the_same_in_whatever_order_it_is_listed():
    """More solids behind one tile than its list holds must not make any vanish."""
    names = ["Coach", "Tank", "Pickup", "GiantPalm", "Mushroom", "Palm3", "Boat", "Jet"]
    crowd = [Landmark(names[i % 8], 4 + 6 * (i // 5), 3 + 10.5 * (i % 5), 5.0) for i in range(32)]
    small = SimulatorConfig(quality="none", camera=Camera(width=32, height=18))
    seen = []
    for order in (crowd, crowd[::-1]):
        simulator = Simulator([Layout(tuple(order))], 8, config=small)
        simulator.reset(torch.tensor([[1.0, 1.0 + 6 * i, 0.05 * i] for i in range(8)]))
        seen.append(simulator.depth_and_landmarks()[0])
    assert torch.allclose(seen[0], seen[1], rtol=1e-4)


def mean_colour(picture, x, y, size_px=300):
    """Colour around a place of the field in a picture of all of it from above, 1 m of margin."""
    scale = size_px / 52
    u, v = int((x + 1) * scale), int((51 - y) * scale)
    return picture[v - 1 : v + 2, u - 1 : u + 2].reshape(-1, 3).mean(axis=0)


def test_from_above_north_is_up_and_each_fence_has_its_colour():
    picture = take_pictures([EMPTY], [from_above(-1, -1, 52, 300)], 300, 300)[0]
    north, south = mean_colour(picture, 25, 50), mean_colour(picture, 25, 0)
    east, west = mean_colour(picture, 50, 25), mean_colour(picture, 0, 25)
    assert north.argmax() == 2 and north[2] > 1.5 * north[0]
    assert south.min() > 150
    assert east.argmax() == 0 and east[0] > 2 * east[1]
    assert west[0] > 150 and west[1] > 120 and west[2] < 80
    assert mean_colour(picture, 25, 25).argmax() == 1, "the middle is grass"


@pytest.mark.parametrize(("yaw", "channel"), [(math.pi / 2, 2), (0.0, 0)], ids=["blue north", "red east"])
def test_flying_towards_a_fence_fills_the_view_with_its_colour(yaw, channel):
    simulator = Simulator([EMPTY], 1)
    start = (25.0, 40.0, yaw) if yaw else (40.0, 25.0, yaw)
    image = simulator.reset(torch.tensor([start])).image[0].float()
    band = image[38:47, 40:88].reshape(-1, 3).mean(0)  # ten metres away, 15 to 27 degrees below the horizon
    assert band.argmax() == channel


def test_a_low_drone_sees_the_fence_rise_above_the_horizon():
    low = SimulatorConfig(quality="none", altitude=1.0, camera=Camera(tilt=0.0))
    simulator = Simulator([EMPTY], 1, config=low)
    pose = simulator.reset(torch.tensor([[45.0, 25.3, 0.0]])).pose_world
    depth, _ = simulator.depth_and_landmarks()
    rays = pixel_rays(torch.tensor([[[64.5, 30.5], [64.5, 5.5]]]), pose, low.camera)[0]
    assert (rays[:, 2] > 0).all()
    assert depth[0, 30, 64] == pytest.approx(5 / float(rays[0, 0]), rel=1e-3), "the fence, five metres away"
    assert depth[0, 5, 64] == 0, "sky above its pickets"


def test_a_lake_is_blue_and_lies_where_the_layout_says():
    lake = np.zeros((100, 100), bool)
    lake[20:40, 60:80] = True  # x 10 to 20 m, y 30 to 40 m
    picture = take_pictures([Layout((), lake)], [from_above(-1, -1, 52, 300)], 300, 300)[0]
    assert mean_colour(picture, 15, 35).argmax() == 2
    assert mean_colour(picture, 35, 15).argmax() == 1


def test_the_shore_of_a_lake_is_smoothed_over_two_cells():
    lakes = np.zeros((2, 9, 9), bool)
    lakes[0, 4, 3], lakes[1] = True, True
    share = np.array([1, 2, 3, 2, 1]) / 9
    alone, everywhere = wetness_of(lakes)
    assert np.array_equal(alone[2:7, 1:6], np.round(255 * np.outer(share, share)))
    assert alone.sum() == alone[2:7, 1:6].sum()
    assert everywhere[4, 4] == 255 and everywhere[0, 4] == round(255 * 6 / 9)  # beyond the field it is dry


def test_landmarks_cast_shadows_away_from_the_sun_at_full_quality_only():
    layout = Layout((Landmark("PhoneBox", 25.0, 25.0, 3.75),))
    camera = looking_at((35.0, 28.0, 9.0), (27.5, 28.0, 0.0), 96, 96)
    lit = take_pictures([EMPTY], [camera], 96, 96)[0].astype(float)
    shaded = take_pictures([layout], [camera], 96, 96)[0].astype(float)
    # The sun stands in the south-west: the shadow falls on the grass north-east of the box.
    assert shaded[44:52, 44:52].mean() < 0.75 * lit[44:52, 44:52].mean()
    images = []
    for quality in ("fast", "full"):
        simulator = Simulator([layout], 1, config=SimulatorConfig(quality=quality))
        images.append(simulator.reset(torch.tensor([[36.0, 36.0, -2.36]])).image.float())
    assert images[1].mean() < images[0].mean()


def test_full_quality_smooths_edges():
    images = {}
    for quality in ("fast", "full"):
        simulator = Simulator([sample_layout(1)], 1, config=SimulatorConfig(quality=quality))
        images[quality] = simulator.reset(torch.tensor([[10.0, 10.0, 0.8]])).image[0].float()
    jumps = {name: image.diff(dim=1).abs().mean().item() for name, image in images.items()}
    assert jumps["full"] < 0.8 * jumps["fast"]


def test_a_larger_camera_sees_the_same_field():
    layout = sample_layout(2)
    small = Simulator([layout], 1)
    wide = replace(small.config, camera=Camera(width=256, height=144))
    large = Simulator([layout], 1, config=wide)
    start = torch.tensor([[12.0, 30.0, -0.7]])
    a, b = small.reset(start).image[0].float(), large.reset(start).image[0].float()
    assert b.shape == (144, 256, 3)
    shrunk = b.reshape(72, 2, 128, 2, 3).mean(dim=(1, 3))
    assert (a - shrunk).abs().mean() < 6
