"""The model: what lies where on the maps, what depends on what, and what learns from what."""

import math
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from pvn.corpus.alignment import Alignment
from pvn.corpus.vocabulary import PADDING, Vocabulary
from pvn.geometry import Camera, MapGrid, ground_homography, project, to_map
from pvn.learning.demonstrations import demonstrate, select, take_batch
from pvn.learning.losses import LossConfig, objective, stage1_losses
from pvn.learning.stage2 import Mixture, Stage2Config, action_loss
from pvn.learning.targets import target_distributions
from pvn.model.accumulation import NEAREST, accumulate
from pvn.model.execution import ExecutionConfig, ExecutionModel, crop_around
from pvn.model.instruction import InstructionEncoder, pad_tokens
from pvn.model.mapping import Frames, in_chunks
from pvn.model.pvn import PVN, pose_in_map, to_action
from pvn.model.resnet import CHANNELS, STRIDE, ResNet
from pvn.model.visitation import GOAL, TRAJECTORY, Visitation, VisitationConfig, VisitationModel
from pvn.simulator.simulator import Simulator, SimulatorConfig
from pvn.world.landmarks import LANDMARK_CLASSES
from pvn.world.layout import Landmark, Layout
from pvn.world.task import sample_tour

CAMERA, GRID = Camera(), MapGrid()
FEATURES = (CAMERA.height // STRIDE, CAMERA.width // STRIDE)
LEAK = 0.2
TASKS = sample_tour(3)[:3]
SENTENCES = [task.instruction for task in TASKS]
VOCABULARY = Vocabulary.from_texts(SENTENCES, min_count=1, dictionary=())
SIMULATOR = SimulatorConfig(quality="fast")


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


# The map: features on the ground.


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
def test_maps_and_gradients_are_the_same_on_cuda():
    case = a_case_of_accumulation(channels=32)
    weight = torch.randn((6, len(case.places), 32), generator=seeded(9))
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


def test_feature_j_looks_at_pixel_4_j():
    """The gradient of a feature, over pictures of noise, is centred there."""
    torch.manual_seed(0)
    image = torch.rand((48, CAMERA.height, CAMERA.width, 3), generator=seeded()) * 255
    image.requires_grad_()
    row, column = 9, 16
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
    simulator = Simulator([Layout(()), Layout((mark,))], 1, config=SIMULATOR)
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


# Stage 1.


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    model = VisitationModel(VisitationConfig(num_words=len(VOCABULARY))).eval()
    # The language kernels begin almost equal for all words; here they shall differ.
    torch.nn.init.normal_(model.grounding.weight)
    return model


@pytest.fixture(scope="module")
def batch():
    """The oracle's flights over three tasks, a prediction every sixth frame; every noun's last word names its class."""
    nouns = [kind.noun.split()[-1] for kind in LANDMARK_CLASSES.values()]
    words = tuple((noun,) if noun in VOCABULARY.terms else () for noun in nouns)
    alignment = Alignment(VOCABULARY, words, tuple((1.0,) * len(own) for own in words))
    demonstrations = demonstrate(TASKS, VOCABULARY, alignment, config=SIMULATOR)
    return take_batch(demonstrations, select(demonstrations, torch.arange(3)))


def only(frames, flight):
    """One flight of some, by itself."""
    own = slice(int(frames.first_frame[flight]), int(frames.first_frame[flight + 1]))
    row = frames.row[own]
    row = torch.where(row >= 0, (row >= 0).cumsum(0) - 1, -1)
    return Frames(
        frames.image[own], frames.pose_world[own], frames.origin[flight : flight + 1],
        torch.tensor([0, len(row)]), row, torch.zeros(int((row >= 0).sum()), dtype=torch.int64),
    )  # fmt: skip


def records_agree(one, other, atol=1e-4):
    return all(
        torch.allclose(getattr(one, field.name).float(), getattr(other, field.name).float(), atol=atol)
        for field in fields(one)
    )


def num_parameters(*modules):
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def test_parameters_are_as_many_as_in_the_authors_code():
    """But for two things: the vocabulary is our own; stage 2 has no inputs that are always 0 and no unused output."""
    model = VisitationModel(VisitationConfig(num_words=2080))
    counted = [num_parameters(part) for part in (model.resnet, model.instruction.lstm, model.grounding, model.lingunet)]
    assert counted == [111_872, 6_240, 2_976, 785_606]
    assert num_parameters(model) - num_parameters(model.heads) == 948_294
    execution, without = num_parameters(ExecutionModel(ExecutionConfig())), 8 * 32 + 8 * 4 + (288 + 32 + 1)
    assert execution == 10_211 == 10_820 - without


@torch.no_grad()
def test_a_prediction_is_a_record_of_all_maps_and_two_distributions(model, batch):
    got = model(batch.frames, batch.tokens)
    count, size = len(batch.frames.flight), GRID.size
    assert count > 3
    assert got.semantic_map.shape == (count, CHANNELS, size, size)
    assert got.grounding_map.shape == (count, 3, size, size)
    assert got.is_known.shape == (count, size, size)
    assert got.embedding.shape == (count, 30)
    assert got.probability.shape == (count, 2, size, size)
    assert got.probability.min() >= 0
    assert torch.allclose(got.probability.sum((2, 3)), torch.ones(count, 2), atol=1e-4)


@torch.no_grad()
def test_flights_in_a_batch_are_the_flights_alone(model, batch):
    """So neighbours change nothing, nor do the paddings of shorter sentences."""
    together = model(batch.frames, batch.tokens)
    lengths = (batch.tokens != PADDING).sum(1)
    assert len(lengths.unique()) > 1 and len(batch.frames.first_frame.diff().unique()) > 1
    for flight in range(3):
        alone = model(only(batch.frames, flight), batch.tokens[flight : flight + 1, : lengths[flight]])
        own = batch.frames.flight == flight
        assert records_agree(alone, Visitation(*(getattr(together, field.name)[own] for field in fields(together))))


@torch.no_grad()
def test_a_flight_seen_in_two_parts_is_the_flight_seen_at_once(model, batch):
    whole = only(batch.frames, 0)
    count = len(whole.image)
    last = torch.arange(count) // (count - 1) - 1  # -1 but for the last frame
    whole = replace(whole, row=last, flight=torch.tensor([0]))
    begun = model.begin(1)
    at_once = model.see(whole, begun)
    memory = begun
    for own in (slice(0, 5), slice(5, count)):
        row = torch.full_like(last[own], -1)
        row[-1] = 0
        part = replace(
            whole, image=whole.image[own], pose_world=whole.pose_world[own], row=row,
            first_frame=torch.tensor([0, len(row)]),
        )  # fmt: skip
        memory = model.see(part, memory)
    assert records_agree(memory, at_once)
    assert not begun.value.any() and not begun.is_known.any(), "memory that goes in is not written to"


@torch.no_grad()
def test_cells_are_zero_until_they_are_in_view(model, batch):
    got = model(batch.frames, batch.tokens)
    for query, frame in enumerate((batch.frames.row >= 0).nonzero()[:, 0].tolist()):
        flight = batch.frames.flight[query]
        seen_so_far = torch.zeros(GRID.size**2, dtype=torch.bool)
        ground = on_the_ground(GRID.places(), batch.frames.origin[flight])
        for earlier in range(batch.frames.first_frame[flight], frame + 1):
            pixel, depth = project(ground[None], batch.frames.pose_world[earlier : earlier + 1], CAMERA)
            inside = (pixel > 0) & (pixel < torch.tensor([CAMERA.width, CAMERA.height]))
            seen_so_far |= (inside.all(-1) & (depth > NEAREST))[0]
        assert torch.equal(got.is_known[query].flatten(), seen_so_far)
        semantic, grounding = got.semantic_map[query].flatten(1), got.grounding_map[query].flatten(1)
        assert not semantic[:, ~seen_so_far].any() and not grounding[:, ~seen_so_far].any()
        assert semantic[:, seen_so_far].any(0).all()
        assert 0.02 < seen_so_far.float().mean() < 0.9


@torch.no_grad()
def test_turning_the_start_pose_left_turns_the_maps_right(model, batch):
    before = model(batch.frames, batch.tokens)
    turned = replace(batch.frames, origin=batch.frames.origin + torch.tensor([0.0, 0.0, math.pi / 2]))
    after = model(turned, batch.tokens)
    # With rows downwards rot90(-1) is a quarter clockwise: what was ahead is now to the right.
    assert torch.equal(after.is_known, before.is_known.rot90(-1, (1, 2)))
    assert torch.allclose(after.semantic_map, before.semantic_map.rot90(-1, (2, 3)), atol=1e-3)
    assert torch.allclose(after.grounding_map, before.grounding_map.rot90(-1, (2, 3)), atol=1e-3)
    assert not torch.equal(after.is_known, before.is_known)


@torch.no_grad()
def test_a_flight_moved_and_turned_as_a_whole_makes_the_same_maps(model, batch):
    before = model(batch.frames, batch.tokens)
    angle, shift = 0.7, torch.tensor([3.0, -8.0])

    def moved(pose):
        ground = to_map(pose[:, None, :2], torch.tensor([0.0, 0.0, -angle]).expand(len(pose), 3))[:, 0] + shift
        return torch.cat([ground, pose[:, 2:-1], pose[:, -1:] + angle], -1)

    frames = replace(batch.frames, pose_world=moved(batch.frames.pose_world), origin=moved(batch.frames.origin))
    after = model(frames, batch.tokens)
    # A cell on the very edge of a picture may be rounded in or out of it.
    is_same = (after.semantic_map - before.semantic_map).abs().amax(1) < 0.01
    assert is_same.float().mean() > 0.999


@torch.no_grad()
def test_words_change_what_is_predicted_and_not_what_was_seen(model, batch):
    frames = only(batch.frames, 0)
    one, other = (model(frames, tokens[None]) for tokens in batch.tokens[:2])
    assert torch.equal(one.semantic_map, other.semantic_map)
    assert (one.grounding_map - other.grounding_map).abs().max() > 1e-3
    assert (one.log_probability - other.log_probability).abs().max() > 1e-2


@torch.no_grad()
def test_words_reach_the_prediction_without_the_grounding_map_too(batch):
    torch.manual_seed(0)
    model = VisitationModel(VisitationConfig(num_words=len(VOCABULARY)))
    torch.nn.init.zeros_(model.grounding.weight)
    one, other = (model(only(batch.frames, 0), tokens[None]) for tokens in batch.tokens[:2])
    assert torch.equal(one.grounding_map, other.grounding_map)
    assert (one.log_probability - other.log_probability).abs().max() > 1e-2


@torch.no_grad()
def test_lingunet_itself_depends_on_the_embeddings_direction_alone(model):
    value = torch.randn((2, 3 + CHANNELS, GRID.size, GRID.size), generator=seeded())
    embedding = torch.randn((2, 30), generator=seeded(1))
    scores = model.lingunet(value, embedding)
    assert torch.allclose(model.lingunet(value, 3 * embedding), scores, atol=1e-4)
    assert (model.lingunet(value, embedding.flip(0)) - scores).abs().max() > 0.05
    assert (model.lingunet(value.flip(0), embedding) - scores).abs().max() > 0.05


@torch.no_grad()
def test_a_sentence_is_its_words_in_their_order_and_not_its_padding():
    encoder = InstructionEncoder(10, 20, 30)
    short, long, swapped = [5, 3], [4, 5, 6, 7, 8], [3, 5]
    together = encoder(pad_tokens([short, long, swapped]))
    assert pad_tokens([short, long, swapped]).tolist() == [[5, 3, 0, 0, 0], long, [3, 5, 0, 0, 0]]
    for row, sentence in zip(together, (short, long, swapped), strict=True):
        assert torch.allclose(row, encoder(torch.tensor([sentence]))[0], atol=1e-6)
    assert (together[0] - together[2]).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_work_cut_into_chunks_gives_what_it_gives_all_at_once(model, size):
    value = torch.randn((5, 3 + CHANNELS, GRID.size, GRID.size), generator=seeded())
    embedding = torch.randn((5, 30), generator=seeded(1))
    sizes = []

    def network(*part):
        sizes.append(len(part[0]))
        return model.lingunet(*part)

    got = in_chunks(network, size, value, embedding)
    assert set(sizes) == {size}
    assert torch.allclose(got, model.lingunet(value, embedding), atol=1e-4)


# Stage 2.


def centre_of(maps):
    """Row and column (B, 2) of the centres of mass of maps (B, S, S)."""
    place = torch.arange(maps.shape[-1]).to(maps)
    mass = maps.sum((1, 2))
    return torch.stack([(maps.sum(2) * place).sum(1) / mass, (maps.sum(1) * place).sum(1) / mass], -1)


def test_the_crop_puts_the_goal_where_the_drone_would_see_it():
    """Columns run ahead of the drone and rows to its right, wherever it is and however it is turned."""
    config = ExecutionConfig()
    pose = uniform([-20.0, -20.0, -math.pi], [20.0, 20.0, math.pi], 40)
    own = uniform([-6.0, -6.0], [6.0, 6.0], 40, seed=1)  # ahead and to the left, metres
    own[:10] = torch.tensor([6.0, 0.0])
    forward = torch.stack([pose[:, 2].cos(), pose[:, 2].sin()], -1)
    left = torch.stack([-pose[:, 2].sin(), pose[:, 2].cos()], -1)
    goal = pose[:, :2] + own[:, :1] * forward + own[:, 1:] * left
    target = target_distributions(goal[:, None], torch.ones(40, dtype=torch.int64), GRID, 0.6)
    cropped = crop_around(target, pose, config)
    assert cropped.shape == (40, 2, 12, 12)
    centre = centre_of(cropped[:, GOAL])
    assert torch.allclose(centre[:10], torch.tensor([5.5, 5.5 + 6.0 / GRID.cell]), atol=0.1)
    assert torch.allclose(centre, MapGrid(size=12, cell=GRID.cell).cells(own), atol=0.1)


def test_at_the_start_the_crop_is_the_middle_of_the_maps():
    probability = torch.rand((2, 2, GRID.size, GRID.size), generator=seeded())
    cropped = crop_around(probability, torch.zeros(2, 3), ExecutionConfig())
    assert torch.allclose(cropped, probability[:, :, 26:38, 26:38], atol=1e-5)


def test_beyond_the_map_there_is_nothing_to_see():
    probability = torch.ones(1, 2, GRID.size, GRID.size)
    assert not crop_around(probability, torch.tensor([[70.0, 0.0, 1.0]]), ExecutionConfig()).any()


def test_a_pose_in_the_map_is_how_far_ahead_and_left_of_the_start_and_how_turned():
    origin = torch.tensor([[10.0, 20.0, math.pi / 2], [10.0, 20.0, 3.0]])
    pose = torch.tensor([[9.0, 24.0, 5.0, 0.1, 0.2, math.pi], [10.0, 20.0, 5.0, 0.0, 0.0, -3.0]])
    expected = torch.tensor([[4.0, 1.0, math.pi / 2], [0.0, 0.0, 2 * math.pi - 6]])
    assert torch.allclose(pose_in_map(pose, origin), expected, atol=1e-5)


def test_actions_are_clamped_and_a_chance_above_kappa_stops():
    config = SimulatorConfig()
    kappa = ExecutionConfig().stop_threshold
    assert kappa == 0.07
    below, above = (math.log(chance / (1 - chance)) for chance in (kappa - 0.001, kappa + 0.001))
    output = torch.tensor([
        [0.5, -0.25, below], [2.0, 3.0, below], [-1.0, -3.0, below], [0.5, 0.5, above],
    ])  # fmt: skip
    speed, turn = config.max_speed, config.max_yaw_rate
    expected = torch.tensor([
        [0.5 * speed, -0.25 * turn, 0.0], [speed, turn, 0.0], [0.0, -turn, 0.0], [0.0, 0.0, 1.0],
    ])  # fmt: skip
    assert torch.allclose(to_action(output, kappa, config), expected)


@torch.no_grad()
def test_a_pilot_without_goals_looks_at_the_trajectory_alone():
    cropped = torch.rand((3, 2, 12, 12), generator=seeded())
    changed = {}
    for uses_goal in (True, False):
        pilot = ExecutionModel(ExecutionConfig(uses_goal=uses_goal)).eval()
        for channel in (TRAJECTORY, GOAL):
            other = cropped.clone()
            other[:, channel] = 0
            changed[uses_goal, channel] = not torch.equal(pilot(cropped), pilot(other))
    assert changed == {(True, TRAJECTORY): True, (True, GOAL): True, (False, TRAJECTORY): True, (False, GOAL): False}


# What stage 1 is to predict.


def a_path(origin):
    """A path that bends, in the map frames of poses (B, 3)."""
    path = torch.tensor([[20.0, 20.0], [22.0, 20.5], [24.0, 22.0], [25.0, 24.0], [25.5, 27.0], [25.5, 27.0]])
    return to_map(path.expand(len(origin), -1, -1), origin), torch.full((len(origin),), 5)


def test_targets_are_distributions_with_the_goal_at_its_cell():
    path, num_points = a_path(start_poses(8))
    target = target_distributions(path, num_points, GRID, 0.6)
    assert torch.allclose(target.sum((2, 3)), torch.ones(8, 2))
    for flight in range(8):
        row, column = GRID.cells(path[flight, 4]).round().int().tolist()
        assert divmod(int(target[flight, GOAL].argmax()), GRID.size) == (row, column)
        for point in path[flight, :5]:
            row, column = GRID.cells(point).round().int().tolist()
            assert target[flight, TRAJECTORY, row, column] > 0.02
    assert torch.allclose(centre_of(target[:, GOAL]), GRID.cells(path[:, 4]), atol=0.02)
    assert torch.allclose(centre_of(target[:, TRAJECTORY]), GRID.cells(path[:, :5]).mean(1), atol=0.02)


def test_turning_the_frame_left_turns_the_targets_right():
    origin = start_poses(8)
    before, after = (
        target_distributions(*a_path(origin + torch.tensor([0.0, 0.0, turn])), GRID, 0.6) for turn in (0, math.pi / 2)
    )
    assert torch.allclose(after, before.rot90(-1, (2, 3)), atol=1e-4)


# What learns from what.


@pytest.fixture(scope="module")
def agent(model):
    torch.manual_seed(1)
    return PVN(model, ExecutionModel(ExecutionConfig()), VOCABULARY, simulator=SIMULATOR)


@pytest.fixture(scope="module")
def flown(agent):
    """Observations, actions and memories of 13 steps of three flights; the steps flown are given, the agent watches."""
    simulator = Simulator([TASKS[0].layout], 3, config=SIMULATOR)
    observation = simulator.reset(torch.tensor([task.start for task in TASKS]))
    memory = agent.begin(TASKS, torch.device("cpu"))
    steps = []
    for step in range(13):
        before = memory
        action, memory = agent.act(observation, before)
        steps.append(SimpleNamespace(observation=observation, before=before, action=action, after=memory))
        observation = simulator.step(torch.tensor([[2.0, 0.5, 0.0], [3.0, -0.2 * step, 0.0], [1.0, 0.0, 0.0]]))
    return steps


def has_gradient(parameter):
    return parameter.grad is not None and bool(parameter.grad.abs().max() > 1e-7)


def test_stage_1_learns_in_every_parameter_and_stage_2_not_at_all_from_its_losses(batch):
    torch.manual_seed(0)
    model, execution = VisitationModel(VisitationConfig(num_words=len(VOCABULARY))), ExecutionModel(ExecutionConfig())
    losses = stage1_losses(model(batch.frames, batch.tokens), batch, model.heads, GRID, LossConfig())
    assert losses.num_visible > 0 and batch.mentioned.any()
    objective(losses, LossConfig(), losses.num_predictions, losses.num_visible).backward()
    idle = {name for name, parameter in model.named_parameters() if not has_gradient(parameter)}
    assert idle <= {"lingunet.last.bias"}, "a softmax does not feel what is added to all its inputs"
    assert all(parameter.grad is None for parameter in execution.parameters())
    said = batch.tokens.unique()
    learns = model.instruction.words.weight.grad.abs().amax(1) > 0
    assert learns.nonzero()[:, 0].tolist() == said[said != PADDING].tolist()


def test_stage_2_learns_in_every_parameter_from_true_distributions_and_stage_1_not_at_all(agent, flown):
    pilot = agent.execution
    mixture = Mixture(pilot, 0.5, Stage2Config(), SIMULATOR, seeded())
    _, memory = mixture.act(flown[0].observation, mixture.begin(TASKS, torch.device("cpu")))
    action_loss(pilot(memory.cropped), memory.wanted, 0.8).backward()
    assert all(has_gradient(parameter) for parameter in pilot.parameters())
    assert all(parameter.grad is None for parameter in agent.visitation.parameters())
    assert not flown[0].after.output.requires_grad, "nothing is learned in flight"


# The agent.


def test_the_agent_maps_at_every_step_and_predicts_at_every_sixth(flown):
    planned = [step for step, now in enumerate(flown) if now.after.visitation is not now.before.visitation]
    assert planned == [0, 6, 12]
    for now in flown[1:]:
        assert not torch.equal(now.after.semantic.value, now.before.semantic.value)
        assert (now.after.semantic.is_known >= now.before.semantic.is_known).all()


def test_the_agent_keeps_nothing_between_calls(agent, flown):
    for now in (flown[0], flown[5], flown[12]):
        action, memory = agent.act(now.observation, now.before)
        assert torch.equal(action, now.action) and torch.equal(memory.output, now.after.output)
        assert torch.equal(memory.semantic.value, now.after.semantic.value)


def test_a_flight_of_the_agent_in_a_batch_is_the_flight_alone(agent, flown):
    memory = agent.begin(TASKS[1:2], torch.device("cpu"))
    for now in flown[:8]:
        own = replace(now.observation, **{name: value[1:2] for name, value in vars(now.observation).items()})
        _, memory = agent.act(own, memory)
        assert torch.allclose(memory.output, now.after.output[1:2], atol=1e-4)


@torch.no_grad()
def test_the_agents_maps_are_those_of_its_whole_flight_seen_at_once(agent, flown):
    """In training a flight is one batch of frames; in flight the map grows by one frame at a time."""
    num_steps = len(flown)
    row = torch.full((3, num_steps), -1)
    row[:, -1] = torch.arange(3)
    frames = Frames(
        torch.stack([now.observation.image for now in flown], 1).flatten(0, 1),
        torch.stack([now.observation.pose_world for now in flown], 1).flatten(0, 1),
        torch.tensor([task.start for task in TASKS]),
        torch.arange(4) * num_steps, row.flatten(), torch.arange(3),
    )  # fmt: skip
    at_once = agent.visitation(frames, pad_tokens([VOCABULARY.encode(sentence) for sentence in SENTENCES]))
    assert records_agree(at_once, flown[-1].after.visitation)


def test_the_agent_flies_by_the_last_prediction_as_it_lies_around_the_drone_now(agent, flown):
    now = flown[4]
    pose = pose_in_map(now.observation.pose_world, torch.tensor([task.start for task in TASKS]))
    with torch.no_grad():
        cropped = crop_around(flown[0].after.visitation.probability, pose, agent.execution.config)
        output = agent.execution(cropped)
    assert torch.allclose(now.after.output, output, atol=1e-6)
    assert torch.allclose(now.action, to_action(output, 0.07, SIMULATOR), atol=1e-5)
    assert not torch.allclose(now.after.output, flown[0].after.output, atol=1e-6)
