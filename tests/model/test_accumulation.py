"""The map: features of pictures, laid on the ground below them and accumulated over a flight."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from pvn.geometry import Camera, MapGrid, ground_homography, project, to_map
from pvn.model.accumulation import NEAREST, accumulate
from pvn.model.resnet import STRIDE, ResNet
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import Simulator
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout

CAMERA, GRID = Camera(), MapGrid()
FEATURES = (CAMERA.height // STRIDE, CAMERA.width // STRIDE)
LEAK = 0.2


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(low, high, count, seed=0):
    """Rows (count, N) between two bounds (N,)."""
    low, high = torch.tensor(low), torch.tensor(high)
    return low + (high - low) * torch.rand((count, len(low)), generator=seeded(seed))


def flying_poses(count, seed=0):
    """Poses (count, 6) in the middle of the field, at about 5 m, tilted by up to 20 degrees."""
    return uniform([15.0, 15.0, 4.0, -0.35, -0.35, -math.pi], [35.0, 35.0, 6.0, 0.35, 0.35, math.pi], count, seed)


def start_poses(count, seed=0):
    return uniform([5.0, 5.0, -math.pi], [45.0, 45.0, math.pi], count, seed)


def feature_homographies(pose_world, origin):
    """Ground points of the map frame to columns and rows of features, (K, 9)."""
    homography = ground_homography(pose_world, origin.expand(len(pose_world), 3), CAMERA)
    homography[:, :2] /= STRIDE
    return homography.flatten(1).float()


def a_case_of_accumulation(seed=0, channels=5):
    """Three flights of 4, 1 and 6 frames over a coarse map, some of whose cells are remembered from before."""
    grid = MapGrid(size=24, cell=3.0)
    first = torch.tensor([0, 4, 5, 11])
    pose, origin = flying_poses(11, seed), start_poses(3, seed)
    is_known = torch.rand((3, grid.size**2), generator=seeded(seed)) < 0.3
    memory = torch.randn((3, grid.size**2, channels), generator=seeded(seed + 1)) * is_known[..., None]
    return SimpleNamespace(
        features=torch.randn((11, *FEATURES, channels), generator=seeded(seed + 2)),
        pose=pose,
        origin=origin,
        homographies=feature_homographies(pose, origin.repeat_interleave(first.diff(), 0)),
        first=first,
        rows=torch.tensor([0, -1, 1, -1, 2, 3, -1, -1, 4, -1, 5]),
        places=grid.places(),
        memory=memory,
        is_known=is_known,
    )


def accumulated(case, features):
    return accumulate(
        features, case.homographies, case.first, case.rows, 6, case.places, LEAK, case.memory, case.is_known
    )


def on_the_ground(places_map, origin):
    """Points (P, 3), field frame, of ground points (P, 2) of the map frame of one pose (3,)."""
    forward = torch.stack([origin[2].cos(), origin[2].sin()])
    left = torch.stack([-origin[2].sin(), origin[2].cos()])
    flat = origin[:2] + places_map[:, :1] * forward + places_map[:, 1:] * left
    return torch.cat([flat, torch.zeros_like(flat[:, :1])], -1)


def slowly_accumulated(case, features):
    """The same maps, frame by frame: every cell projected into the picture, features sampled by torch."""
    maps, known_maps = [], []
    height, width = FEATURES
    for flight, origin in enumerate(case.origin):
        state, is_known = case.memory[flight], case.is_known[flight]
        ground = on_the_ground(case.places, origin)
        for frame in range(case.first[flight], case.first[flight + 1]):
            pixel, depth = project(ground[None], case.pose[frame : frame + 1], CAMERA)
            u, v = pixel[0].unbind(-1)
            is_seen = (depth[0] > NEAREST) & (u > 0) & (u < CAMERA.width) & (v > 0) & (v < CAMERA.height)
            # Feature j is the middle of pixel 4 j; grid_sample wants -1 at the first feature and 1 at the last.
            place = torch.stack([(u - 0.5) / STRIDE / (width - 1), (v - 0.5) / STRIDE / (height - 1)], -1) * 2 - 1
            picture = features[frame].permute(2, 0, 1)[None]
            sight = functional.grid_sample(picture, place[None, None], padding_mode="border", align_corners=True)
            rate = torch.where(is_known, LEAK, 1.0)[:, None]
            state = torch.where(is_seen[:, None], (1 - rate) * state + rate * sight[0, :, 0].T, state)
            is_known = is_known | is_seen
            if case.rows[frame] >= 0:
                maps.append(state)
                known_maps.append(is_known)
    return torch.stack(maps), torch.stack(known_maps)


@pytest.mark.parametrize("seed", range(3))
def test_accumulation_and_its_gradient_equal_a_slow_reference(seed):
    case = a_case_of_accumulation(seed)
    features = case.features.requires_grad_()
    (maps, is_known), (slow, slow_known) = accumulated(case, features), slowly_accumulated(case, features)
    assert torch.equal(is_known, slow_known)
    assert 0.35 < is_known.float().mean() < 0.95
    assert torch.allclose(maps, slow, atol=1e-4)
    weight = torch.randn(maps.shape, generator=seeded(9))
    gradient, slow_gradient = (torch.autograd.grad((value * weight).sum(), features)[0] for value in (maps, slow))
    assert slow_gradient.abs().max() > 0.5
    assert torch.allclose(gradient, slow_gradient, atol=1e-3)


def test_maps_are_linear_in_the_features_so_one_step_of_any_size_shows_the_gradient():
    case = a_case_of_accumulation()
    features = case.features.requires_grad_()
    weight = torch.randn((6, len(case.places), 5), generator=seeded(1))
    (gradient,) = torch.autograd.grad((accumulated(case, features)[0] * weight).sum(), features)
    step = torch.randn(features.shape, generator=seeded(2))
    change = (accumulated(case, features + step)[0] - accumulated(case, features)[0]).detach()
    assert float((change * weight).sum()) == pytest.approx(float((gradient * step).sum()), rel=1e-3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("channels", [5, 32, 40])
def test_maps_and_gradients_are_the_same_on_cuda(channels):
    """There a warp's 32 lanes share the channels."""
    case = a_case_of_accumulation(channels=channels)
    weight = torch.randn((6, len(case.places), channels), generator=seeded(9))
    results = []
    for device in ("cpu", "cuda"):
        there = SimpleNamespace(**{name: value.to(device) for name, value in vars(case).items()})
        features = there.features.requires_grad_()
        maps, is_known = accumulated(there, features)
        (gradient,) = torch.autograd.grad((maps * weight.to(device)).sum(), features)
        results.append([value.detach().cpu() for value in (maps, gradient, is_known.float())])
    for host, device in zip(*results, strict=True):
        assert torch.allclose(host, device, atol=2e-4)


def test_the_first_sight_is_copied_and_later_ones_are_blended_in_by_a_fifth():
    pose = torch.tensor([[25.0, 25.0, 5.0, 0.0, 0.0, 0.0]]).repeat(3, 1)
    features = torch.tensor([1.0, 2.0, 3.0])[:, None, None, None].expand(3, *FEATURES, 1).contiguous()
    ahead, behind = [10.0, 0.0], [-10.0, 0.0]
    maps, is_known = accumulate(
        features, feature_homographies(pose, torch.tensor([[25.0, 25.0, 0.0]])), torch.tensor([0, 3]), torch.arange(3),
        3, torch.tensor([ahead, behind]), LEAK, torch.zeros((1, 2, 1)), torch.zeros((1, 2), dtype=torch.bool),
    )  # fmt: skip
    assert maps[:, 0, 0].tolist() == pytest.approx([1.0, 0.8 * 1 + 0.2 * 2, 0.8 * 1.2 + 0.2 * 3])
    assert maps[:, 1, 0].tolist() == [0.0, 0.0, 0.0]
    assert is_known.tolist() == [[True, False]] * 3


@pytest.mark.long
def test_feature_j_looks_at_pixel_4_j():
    """The gradient of a feature, over pictures of noise, is centred there."""
    torch.manual_seed(0)
    image = torch.rand((48, 44, 44, 3), generator=seeded()) * 255
    image.requires_grad_()
    row, column = 5, 5
    gradient = 0
    for _ in range(3):
        feature = ResNet()(image)[:, :, row, column]
        gradient = gradient + torch.autograd.grad(feature.square().sum(), image)[0].square().sum((0, 3))
    reach = 12
    near = gradient[
        STRIDE * row - reach : STRIDE * row + reach + 1, STRIDE * column - reach : STRIDE * column + reach + 1
    ]
    off = torch.arange(-reach, reach + 1.0)
    share = near / near.sum()
    assert near.sum() > 0.5 * gradient.sum()
    assert float((share.sum(1) * off).sum()) == pytest.approx(0, abs=0.25)
    assert float((share.sum(0) * off).sum()) == pytest.approx(0, abs=0.25)


@pytest.mark.parametrize("name", ["RedFlowers", "FireHydrant", "Pumpkin"])
def test_what_a_landmark_adds_to_pictures_lands_on_its_cell(name):
    """Colours in place of features: 20 tilted views from all around, one field with the landmark and one without.

    Only low landmarks do this: the map takes all it sees for flat ground, so tall ones also lie behind themselves.
    """
    x, y = 22.3, 29.6
    num_views = 20
    mark = Landmark(name, x, y, LANDMARK_CLASSES[name].radius)
    simulator = Simulator([Layout(()), Layout((mark,))], 1, config=SimulatorConfig(quality="fast"))
    unit = torch.rand((num_views, 5), generator=seeded())
    bearing = 2 * math.pi * torch.randperm(num_views, generator=seeded()) / num_views
    away = 6 + 6 * unit[:, 0]
    pose = torch.stack([
        x + away * bearing.cos(), y + away * bearing.sin(), 4 + 2 * unit[:, 1],
        0.4 * (unit[:, 2] - 0.5), 0.3 * (unit[:, 3] - 0.3), bearing + math.pi + 0.6 * (unit[:, 4] - 0.5),
    ], -1)  # fmt: skip
    field = torch.ones(num_views, dtype=torch.int64)
    added = (simulator.render(pose, field).float() - simulator.render(pose, 0 * field).float()).abs().sum(-1)
    features = functional.avg_pool2d(added[:, None], 3, STRIDE, 1).permute(0, 2, 3, 1).contiguous()
    for origin in start_poses(4):
        maps, _ = accumulate(
            features, feature_homographies(pose, origin), torch.tensor([0, num_views]),
            torch.arange(num_views) // (num_views - 1) - 1, 1, GRID.places(), LEAK,
            torch.zeros((1, GRID.size**2, 1)), torch.zeros((1, GRID.size**2), dtype=torch.bool),
        )  # fmt: skip
        peak = int(maps[0, :, 0].argmax())
        cell = GRID.cells(to_map(torch.tensor([[[x, y]]]), origin[None]))[0, 0]
        assert math.dist(cell.tolist(), divmod(peak, GRID.size)) < 1
