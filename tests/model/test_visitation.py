"""Stage 1: what lies where on its maps, and what its predictions depend on."""

import copy
import math
from dataclasses import replace

import pytest
import torch

from pvn.corpus.vocabulary import PADDING
from pvn.geometry import Camera, MapGrid, overhead_homography, project, to_map
from pvn.learning.losses import PredictVisitation, VisitationLosses
from pvn.model.accumulation import NEAREST
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.mapping import Frames, GroundedMaps, ground, in_chunks, one_frame_each
from pvn.model.resnet import CHANNELS, ResNet
from pvn.model.visitation import (
    GOAL,
    TRAJECTORY,
    Visitation,
    VisitationConfig,
    VisitationModel,
    bearings,
    bearings_of,
)
from pvn.simulator.simulator import simulator_for

CAMERA, GRID = Camera(), MapGrid()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def only(frames, flight):
    """One flight of some, by itself."""
    own = slice(int(frames.first_frame[flight]), int(frames.first_frame[flight + 1]))
    row = frames.row[own]
    row = torch.where(row >= 0, (row >= 0).cumsum(0) - 1, -1)
    return Frames(
        frames.image[own], frames.pose_world[own], frames.origin[flight : flight + 1], torch.tensor([0, len(row)]),
        row, torch.zeros(int((row >= 0).sum()), dtype=torch.int64), longest=len(row),
    )  # fmt: skip


def parts_of(visitation):
    """All tensors of predictions by name."""
    return {**vars(visitation.maps), "log_probability": visitation.log_probability}


def all_close(parts, others, atol=1e-4):
    """Whether two records of tensors, by name, agree."""
    assert parts.keys() == others.keys()
    return all(torch.allclose(parts[name].float(), others[name].float(), atol=atol) for name in parts)


def on_the_ground(places_map, origin):
    """Points (P, 3), field frame, of ground points (P, 2) of the map frame of one pose (3,)."""
    forward = torch.stack([origin[2].cos(), origin[2].sin()])
    left = torch.stack([-origin[2].sin(), origin[2].cos()])
    flat = origin[:2] + places_map[:, :1] * forward + places_map[:, 1:] * left
    return torch.cat([flat, torch.zeros_like(flat[:, :1])], -1)


@pytest.fixture(scope="module")
def predicted(model, batch):
    """What the model predicts for the whole batch. Do not change it."""
    with torch.no_grad():
        return model(batch.frames, batch.tokens)


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


@pytest.mark.long
@torch.no_grad()
def test_a_prediction_is_a_record_of_all_maps_and_two_distributions(batch, predicted):
    got = predicted
    count, size = len(batch.frames.flight), GRID.size
    assert count > 3
    assert got.maps.semantic_map.shape == (count, CHANNELS, size, size)
    assert got.maps.grounding_map.shape == (count, 3, size, size)
    assert got.maps.is_known.shape == (count, size, size)
    assert got.maps.embedding.shape == (count, 30)
    assert got.probability.shape == (count, 2, size, size)
    assert got.probability.min() >= 0
    assert torch.allclose(got.probability.sum((2, 3)), torch.ones(count, 2), atol=1e-4)


@pytest.mark.long
@torch.no_grad()
def test_flights_in_a_batch_are_the_flights_alone(model, batch, predicted):
    """So neighbours change nothing, nor do the paddings of shorter sentences."""
    together = parts_of(predicted)
    lengths = (batch.tokens != PADDING).sum(1)
    assert len(lengths.unique()) > 1 and len(batch.frames.first_frame.diff().unique()) > 1
    for flight in range(3):
        alone = model(only(batch.frames, flight), batch.tokens[flight : flight + 1, : lengths[flight]])
        own = batch.frames.flight == flight
        assert all_close(parts_of(alone), {name: value[own] for name, value in together.items()})


@pytest.mark.long
@torch.no_grad()
def test_a_flight_seen_in_two_parts_is_the_flight_seen_at_once(model, batch):
    whole = only(batch.frames, 0)
    count = len(whole.image)
    last = torch.arange(count) // (count - 1) - 1  # -1 but for the last frame
    whole = replace(whole, row=last, flight=torch.tensor([0]))
    begun = model.begin(1)
    at_once = model.update_map(whole, begun)
    memory = begun
    for own in (slice(0, 5), slice(5, count)):
        row = torch.full_like(last[own], -1)
        row[-1] = 0
        part = replace(
            whole, image=whole.image[own], pose_world=whole.pose_world[own], row=row,
            first_frame=torch.tensor([0, len(row)]),
        )  # fmt: skip
        memory = model.update_map(part, memory)
    assert all_close(vars(memory), vars(at_once))
    assert not begun.value.any() and not begun.is_known.any(), "the memory that is passed in is not written to"


@pytest.mark.long
@torch.no_grad()
def test_cells_are_zero_until_they_are_in_view(batch, predicted):
    got = predicted.maps
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


@pytest.mark.long
@torch.no_grad()
def test_turning_the_start_pose_left_turns_the_maps_right(model, batch, predicted):
    before = predicted.maps
    turned = replace(batch.frames, origin=batch.frames.origin + torch.tensor([0.0, 0.0, math.pi / 2]))
    after = model(turned, batch.tokens).maps
    # With rows downwards rot90(-1) is a quarter clockwise: what was ahead is now to the right.
    assert torch.equal(after.is_known, before.is_known.rot90(-1, (1, 2)))
    assert torch.allclose(after.semantic_map, before.semantic_map.rot90(-1, (2, 3)), atol=1e-3)
    assert torch.allclose(after.grounding_map, before.grounding_map.rot90(-1, (2, 3)), atol=1e-3)
    assert not torch.equal(after.is_known, before.is_known)


@pytest.mark.long
@torch.no_grad()
def test_a_flight_moved_and_turned_as_a_whole_makes_the_same_maps(model, batch, predicted):
    before = predicted.maps
    angle, shift = 0.7, torch.tensor([3.0, -8.0])

    def moved(pose):
        ground = to_map(pose[:, None, :2], torch.tensor([0.0, 0.0, -angle]).expand(len(pose), 3))[:, 0] + shift
        return torch.cat([ground, pose[:, 2:-1], pose[:, -1:] + angle], -1)

    frames = replace(batch.frames, pose_world=moved(batch.frames.pose_world), origin=moved(batch.frames.origin))
    after = model(frames, batch.tokens).maps
    # A cell on the very edge of a picture may be rounded in or out of it.
    is_same = (after.semantic_map - before.semantic_map).abs().amax(1) < 0.01
    assert is_same.float().mean() > 0.999


@pytest.mark.long
@torch.no_grad()
def test_words_change_what_is_predicted_and_not_what_was_seen(model, batch):
    frames = only(batch.frames, 0)
    one, other = (model(frames, tokens[None]) for tokens in batch.tokens[:2])
    assert torch.equal(one.maps.semantic_map, other.maps.semantic_map)
    assert (one.maps.grounding_map - other.maps.grounding_map).abs().max() > 1e-3
    assert (one.log_probability - other.log_probability).abs().max() > 1e-2


@pytest.mark.long
@torch.no_grad()
def test_words_reach_the_prediction_without_the_grounding_map_too(batch, vocabulary):
    torch.manual_seed(0)
    model = VisitationModel(VisitationConfig(num_words=len(vocabulary)))
    torch.nn.init.zeros_(model.grounding.weight)
    one, other = (model(only(batch.frames, 0), tokens[None]) for tokens in batch.tokens[:2])
    assert torch.equal(one.maps.grounding_map, other.maps.grounding_map)
    assert (one.log_probability - other.log_probability).abs().max() > 1e-2


def test_a_model_that_does_not_use_the_instruction_encodes_every_sentence_alike():
    deaf = VisitationModel(VisitationConfig(num_words=10, uses_instruction=False))
    hearing = VisitationModel(VisitationConfig(num_words=10))
    sentences = torch.tensor([[3, 4, 5], [6, 7, 0]])
    one, other = deaf.encode(sentences).embedding
    assert torch.equal(one, other)
    one, other = hearing.encode(sentences).embedding
    assert not torch.equal(one, other)


@torch.no_grad()
def test_lingunet_itself_depends_on_the_embeddings_direction_alone(model):
    value = torch.randn((2, 3 + CHANNELS, GRID.size, GRID.size), generator=seeded())
    embedding = torch.randn((2, 30), generator=seeded(1))
    scores = model.lingunet(value, embedding)
    assert torch.allclose(model.lingunet(value, 3 * embedding), scores, atol=1e-4)
    assert (model.lingunet(value, embedding.flip(0)) - scores).abs().max() > 0.05
    assert (model.lingunet(value.flip(0), embedding) - scores).abs().max() > 0.05


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


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.long
def test_each_part_can_be_compiled_alone_and_lingunet_not_at_all_for_small_maps():
    def compiled(grid, only=None):
        model = VisitationModel(VisitationConfig(num_words=9, grid=grid))
        model.compile_for(5, 3, only)  # nothing is compiled before it is called
        assert (model.frames_at_once, model.maps_at_once) == (5, 3)
        modules = (*model.resnet.halves, model.lingunet)
        return tuple(part._compiled_call_impl is not None for part in modules)

    assert compiled(MapGrid()) == (True, True, True)
    assert compiled(MapGrid(), "shrinking") == (True, False, False)
    assert compiled(MapGrid(), "refining") == (False, True, False)
    assert compiled(MapGrid(), "LingUNet") == (False, False, True)
    assert compiled(MapGrid(size=32, cell=50 / 16)) == (True, True, False)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("is_quick", [False, True])
def test_a_copy_of_the_image_encoder_is_not_compiled_and_has_weights_of_its_own(is_quick):
    network = ResNet(is_quick)
    for half in network.halves:
        half.compile()
    image = torch.randint(0, 256, (2, 16, 24, 3), generator=seeded(), dtype=torch.uint8)
    again = copy.deepcopy(network)
    assert all(half._compiled_call_impl is None for half in again.halves)
    assert network.state_dict().keys() == again.state_dict().keys() and "blocks.4.second.bias" in again.state_dict()
    before = again(image)
    for layer in (again.first, again.blocks[-1].second):  # in either half
        kept, unchanged = layer.weight.clone(), [weight.clone() for weight in network.parameters()]
        layer.weight.normal_(generator=seeded())
        assert not torch.allclose(again(image), before), "its halves have its own weights"
        assert all(map(torch.equal, network.parameters(), unchanged)), "and the other network's stay"
        layer.weight.copy_(kept)
    assert torch.equal(again(image), before)


def test_a_ground_point_is_where_it_belongs_in_a_view_from_above():
    origin = torch.tensor([[10.0, 20.0, 0.5]])
    point_map = torch.tensor([3.0, -2.0, 1.0])
    east = 10.0 + 3.0 * torch.tensor(0.5).cos() + 2.0 * torch.tensor(0.5).sin()
    north = 20.0 + 3.0 * torch.tensor(0.5).sin() - 2.0 * torch.tensor(0.5).cos()
    column, row, depth = overhead_homography(origin, side=50.0, margin=1.0, size_px=104)[0] @ point_map
    assert depth == 1.0
    assert column == pytest.approx(float(2 * (east + 1)), abs=1e-4)
    assert row == pytest.approx(float(2 * (51 - north)), abs=1e-4)


def test_a_model_that_is_shown_the_field_from_above_knows_all_of_it_and_nothing_else(tasks):
    model = VisitationModel(VisitationConfig(num_words=10, overhead_px=64)).eval()
    image = simulator_for(tasks).top_down(64, 1.0)
    origin = torch.tensor([task.start for task in tasks])
    memory = model.update_map(one_frame_each(image, torch.zeros((len(tasks), 6)), origin), model.begin(len(tasks)))
    for is_known, (x, y, yaw) in zip(memory.is_known, origin, strict=True):
        east = x + model.places[:, 0] * yaw.cos() - model.places[:, 1] * yaw.sin()
        north = y + model.places[:, 0] * yaw.sin() + model.places[:, 1] * yaw.cos()
        is_inside = (east > -1) & (east < 51) & (north > -1) & (north < 51)
        assert torch.equal(is_known, is_inside)


def has_gradient(parameter):
    return parameter.grad is not None and bool(parameter.grad.abs().max() > 1e-7)


@pytest.mark.long
def test_stage_1_learns_in_every_parameter_and_stage_2_not_at_all_from_its_losses(batch, vocabulary):
    torch.manual_seed(0)
    model, execution = VisitationModel(VisitationConfig(num_words=len(vocabulary))), ExecutionModel(ExecutionConfig())
    objective = PredictVisitation(model, VisitationLosses())
    sums = objective(batch)
    assert sums["num_visible"] > 0 and batch.mentioned.any()
    objective.loss(sums, sums).backward()
    idle = {name for name, parameter in model.named_parameters() if not has_gradient(parameter)}
    assert idle <= {"lingunet.last.bias"}, "a softmax does not feel what is added to all its inputs"
    assert all(parameter.grad is None for parameter in execution.parameters())
    said = batch.tokens.unique()
    learns = model.instruction.words.weight.grad.abs().amax(1) > 0
    assert learns.nonzero()[:, 0].tolist() == said[said != PADDING].tolist()


def test_bearings_say_where_a_cell_lies_from_the_start():
    bearing, cells = bearings(GRID.places()), GRID.cells(torch.tensor([[30.0, 0.0], [0.0, 30.0], [-30.0, -30.0]]))
    ahead, left, behind_right = (bearing[:, round(float(row)), round(float(column))] for row, column in cells)
    half = 2**-0.5
    for found, expected in ((ahead, (1, 0)), (left, (0, 1)), (behind_right, (-half, -half))):
        assert torch.allclose(found[:2], torch.tensor(expected, dtype=torch.float32), atol=0.04)
    assert bearing[2, 31:33, 31:33].max() < 0.1 and bearing[2, 0, 0] > 0.95


def test_bearings_are_those_the_drone_sees_however_its_map_is_turned():
    """Training turns map frames; what is ahead of the drone, and what is left of it, is so in any of them."""
    point, turn = torch.tensor([12.0, 20.0]), 0.6
    inside_turned = to_map(point.view(1, 1, 2), torch.tensor([[0.0, 0.0, turn]]))[0, 0]
    found = []
    for place, heading in ((point, 0.0), (inside_turned, -turn)):
        row, column = GRID.cells(place[None])[0].round().int().tolist()
        found.append(bearings_of(bearings(GRID.places()), torch.tensor([heading]))[0, :, row, column])
    assert torch.allclose(*found, atol=0.04)
    assert found[0][1] > found[0][0] > 0.3, "ahead, and further to the left"


@pytest.mark.long
def test_a_prediction_may_know_the_bearings(batch):
    torch.manual_seed(0)
    config = VisitationConfig(num_words=12, knows_unseen=True)
    without = VisitationModel(config)
    model = VisitationModel(replace(config, knows_bearing=True)).eval()
    assert model.lingunet.num_in == without.lingunet.num_in + 3
    tokens = batch.tokens.clamp(max=11)
    with torch.no_grad():
        before = model(batch.frames, tokens).log_parts
        model.bearing.zero_()
        after = model(batch.frames, tokens).log_parts
        assert not torch.allclose(before, after, atol=1e-3), "they reach the network"
        model.bearing.copy_(bearings(model.places))
        turned = model(replace(batch.frames, heading=torch.full((len(tokens),), 0.6)), tokens).log_parts
        assert not torch.allclose(before, turned, atol=1e-3), "as the drones face"


def test_the_grounding_by_hand():
    """Filters of features between 0 and 1, of length 1 together; negative responses are kept as a hundredth."""
    value, kernel = torch.randn((2, 5, 32), generator=seeded()), torch.randn((2, 3 * 32), generator=seeded(1))
    filters = (1 / (1 + (-kernel).exp())).view(2, 3, 32)
    filters = filters / filters.square().sum((1, 2), keepdim=True).sqrt()
    response = torch.einsum("qsc,qnc->qsn", value, filters)
    assert (response < 0).any() and (response > 0).any()
    assert torch.allclose(ground(value, kernel), torch.where(response < 0, 0.01 * response, response), atol=1e-6)


@torch.no_grad()
def test_before_training_a_class_is_mentioned_as_rarely_as_in_the_corpus(model):
    """An instruction mentions 2.8 classes."""
    assert float(model.heads.mentioned.bias.sigmoid().sum()) == pytest.approx(2.8, rel=0.1)


def test_the_trajectory_is_the_mean_of_its_parts():
    log_parts = torch.randn((2, 4, 9), generator=seeded()).log_softmax(-1).view(2, 4, 3, 3)
    maps = GroundedMaps(*(torch.zeros(1) for _ in range(4)))
    whole, parts = Visitation(maps, log_parts).probability, log_parts.exp()
    assert torch.allclose(whole[:, TRAJECTORY], parts[:, :3].mean(1))
    assert torch.allclose(whole[:, GOAL], parts[:, 3])
