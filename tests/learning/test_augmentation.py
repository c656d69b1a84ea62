"""Picture augmentation: what each part changes in training pictures, and what none of them changes."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from pvn.geometry import Camera
from pvn.learning.augmentation import NUM_DRAWS, Augmentation, AugmentedFlights
from pvn.learning.demonstrations import select, take_batch
from pvn.learning.fit import draw_selection
from pvn.learning.recipes import Stage1Config, paper, plus, with_changes
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import Simulator
from pvn.world.layout import MAX_LANDMARKS, sample_layout

ALL = Augmentation(
    sun=0.3, sky=1.0, ground=0.3, colours=0.2, contrast=0.3, blur_px=0.8, tilt=0.05, height=0.5, late=0.5
)
FLIGHTS = torch.arange(6)


def batch_of(shown, draw=1.0, **parts):
    """All flights along their own paths, all of their draws being `draw`."""
    config = Augmentation(**parts)
    drawn = None if config.is_off else AugmentedFlights(config, torch.full((len(FLIGHTS), NUM_DRAWS), draw))
    return take_batch(shown, select(shown, FLIGHTS, augmented=drawn))


@pytest.fixture(scope="module")
def plain(shown):
    return batch_of(shown)


@pytest.fixture(scope="module")
def surfaces(shown, plain):
    """Which pixels show ground, and which sky."""
    flight = plain.frames.of_flights(FLIGHTS)
    return shown.simulator.ground_and_sky_at(plain.frames.pose_world, shown.field[flight])


def test_without_augmentation_pictures_are_what_the_drones_saw(shown, plain):
    config = Stage1Config()
    assert config.augmentation.is_off and paper().stage1.augmentation.is_off and plus().stage1.augmentation.is_off
    selection = draw_selection(shown, config, 3, FLIGHTS)
    assert selection.augmented is None
    # Drawn last, they change nothing else that is drawn.
    augmented = draw_selection(shown, replace(config, augmentation=ALL), 3, FLIGHTS)
    assert augmented.augmented is not None and augmented.augmented.draws.shape == (6, NUM_DRAWS)
    for name in ("numbers", "turn", "rise"):
        assert torch.equal(getattr(selection, name), getattr(augmented, name))
    flight = plain.frames.of_flights(FLIGHTS)
    assert torch.equal(plain.frames.image, shown.simulator.render(plain.frames.pose_world, shown.field[flight]))


def test_every_flight_and_every_step_has_draws_of_its_own(shown):
    config = Stage1Config(augmentation=ALL)
    first, again, later = (draw_selection(shown, config, step, FLIGHTS).augmented.draws for step in (3, 3, 4))
    assert torch.equal(first, again) and not torch.equal(first, later)
    assert len({tuple(row) for row in first.tolist()}) == 6
    many = torch.cat([draw_selection(shown, config, step, FLIGHTS).augmented.draws for step in range(60)])
    assert many.min() >= 0 and many.max() <= 1 and ((many.mean(0) - 0.5).abs() < 0.08).all()


@pytest.mark.parametrize("part", sorted(vars(ALL)))
def test_each_part_changes_pictures_and_no_label(shown, plain, part):
    batch = batch_of(shown, **{part: getattr(ALL, part)})
    assert not torch.equal(batch.frames.image, plain.frames.image)
    for name in ("pose_world", "origin", "first_frame", "row", "flight"):
        assert torch.equal(getattr(batch.frames, name), getattr(plain.frames, name)), name
    for name in ("tokens", "path_map", "num_points", "landmark_map", "landmark_class", "action", "mentioned"):
        assert torch.equal(getattr(batch, name), getattr(plain, name)), name


def test_light_and_contrast_are_scaled_by_what_is_drawn(shown, plain):
    before = plain.frames.image.float()
    for draw, gain in ((0.0, 0.7), (0.5, 1.0), (1.0, 1.3)):
        seen = batch_of(shown, draw, sun=0.3).frames.image.float()
        assert (seen - (before * gain).clamp(max=255)).abs().max() <= 0.51
        seen = batch_of(shown, draw, contrast=0.3).frames.image.float()
        mean = before.mean((1, 2, 3), keepdim=True)
        assert (seen - (mean + (before - mean) * gain).clamp(0, 255)).abs().max() <= 0.51


def test_colours_without_saturation_are_grey_and_the_balance_shifts_them(shown):
    drawn = AugmentedFlights(Augmentation(colours=0.9), torch.full((1, NUM_DRAWS), 0.5))
    picture = torch.tensor([200, 100, 50], dtype=torch.uint8).expand(1, 4, 4, 3)
    flight = torch.zeros(1, dtype=torch.int64)
    assert torch.equal(drawn.repaint(picture, flight, None), picture), "in the middle, nothing changes"
    drawn.draws[0, 11] = 0.0
    red, green, blue = drawn.repaint(picture, flight, None)[0, 0, 0].tolist()
    assert red - blue == pytest.approx(0.1 * 150, abs=1) and red > green > blue, "a tenth of the saturation is left"
    drawn.draws[0, 11], drawn.draws[0, 8] = 0.5, 0.0
    assert drawn.repaint(picture, flight, None)[0, 0, 0].tolist() == [20, 100, 50], "a tenth of the red is left"


def test_sky_and_ground_are_painted_and_landmarks_are_not(shown, plain, surfaces):
    is_ground, is_sky = surfaces
    flight = plain.frames.of_flights(FLIGHTS)
    landmarks = shown.simulator.landmarks_at(plain.frames.pose_world, shown.field[flight])
    assert not (is_ground & is_sky).any() and not ((is_ground | is_sky) & (landmarks >= 0)).any()
    for part, where in (("sky", is_sky), ("ground", is_ground)):
        changed = (batch_of(shown, **{part: 0.9}).frames.image != plain.frames.image).any(-1)
        assert where.any() and not (changed & ~where).any()
        assert (changed & where).sum() > 0.95 * where.sum()
    painted = batch_of(shown, sky=1.0).frames.image
    assert (painted[is_sky] == 255).all(), "a sky of the drawn colour alone"


def test_what_is_no_sky_lies_on_the_ground_where_its_ray_meets_it():
    camera = Camera(width=64, height=36)
    simulator = Simulator([sample_layout(3)], 1, config=SimulatorConfig(camera=camera))
    pose = torch.tensor([[25.0, 25.0, 5.0, 0.0, 0.0, 1.0]])
    level = math.radians(15)
    is_ground, is_sky = simulator.ground_and_sky_at(pose, torch.tensor([0]), torch.tensor([-level]))
    rows = torch.arange(36)
    assert not is_sky[0, rows > 18].any(), "a level camera sees no sky below the middle of the picture"
    assert not is_ground[0, rows < 18].any(), "and no ground above it"


def test_a_blur_keeps_the_mean_and_smooths_what_is_sharp(shown, plain):
    before, after = plain.frames.image.float(), batch_of(shown, blur_px=1.5).frames.image.float()
    inside = (slice(None), slice(4, -4), slice(4, -4))
    assert (before[inside].mean((1, 2)) - after[inside].mean((1, 2))).abs().max() < 6
    assert after.diff(dim=2).abs().mean() < 0.5 * before.diff(dim=2).abs().mean()
    drawn = AugmentedFlights(Augmentation(blur_px=2.0), torch.full((1, NUM_DRAWS), 0.5))
    dot = torch.zeros((1, 31, 31, 3), dtype=torch.uint8)
    dot[0, 10:21, 15] = 255
    row = drawn.repaint(dot, torch.zeros(1, dtype=torch.int64), None)[0, 15, :, 0].float()
    assert row[16] / row[15] == pytest.approx(math.exp(-0.5), abs=0.05), "a Gaussian of one pixel"


@pytest.mark.parametrize("draw", [0.0, 1.0])
def test_tilt_and_height_move_the_camera_and_the_agent_is_not_told(shown, plain, draw):
    simulator, pose = shown.simulator, plain.frames.pose_world
    field = shown.field[plain.frames.of_flights(FLIGHTS)]
    # For a level drone the camera's tilt is the drone's pitch.
    level = torch.cat([pose[:, :3], torch.zeros_like(pose[:, 3:5]), pose[:, 5:]], -1)
    pitched = level.clone()
    pitched[:, 4] += 0.05
    assert torch.equal(
        simulator.render(level, field, torch.full((len(level),), 0.05)), simulator.render(pitched, field)
    )
    batch = batch_of(shown, draw, height=0.5)
    raised = pose + torch.tensor([0, 0, 2 * draw - 1, 0, 0, 0]) * 0.5
    assert torch.equal(batch.frames.image, simulator.render(raised, field))
    assert torch.equal(batch.frames.pose_world, pose)


def test_late_pictures_were_taken_where_the_drone_was_before(shown, plain):
    frames = batch_of(shown, late=1.0).frames
    first = frames.first_frame.tolist()
    for begin, end in itertools.pairwise(first):
        assert torch.equal(frames.image[begin], plain.frames.image[begin]), "before the first there is none"
        difference = frames.image[begin + 1 : end].int() - plain.frames.image[begin : end - 1].int()
        assert (difference != 0).float().mean() < 0.01, "all of a frame late, but for rounding"
    assert torch.equal(frames.pose_world, plain.frames.pose_world)


def test_a_landmark_counts_as_visible_where_it_is_in_the_picture_that_was_taken(shown, plain):
    pose, field = plain.frames.pose_world[plain.frames.row >= 0], shown.field[plain.frames.flight]
    higher = pose + torch.tensor([0.0, 0.0, 4.0, 0.0, 0.0, 0.0])
    for parts, taken, tilt in (({"tilt": 0.5}, pose, 0.5), ({"height": 4.0}, higher, 0.0)):
        ids = shown.simulator.landmarks_at(taken, field, torch.full((len(pose),), tilt))
        expected = torch.stack([(ids == landmark).sum((1, 2)) >= 6 for landmark in range(MAX_LANDMARKS)], 1)
        seen = batch_of(shown, **parts).is_visible
        assert torch.equal(seen, expected) and not torch.equal(seen, plain.is_visible)


def test_augmentation_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"augmentation\.late: got 1\.5, expected 0, which changes nothing, to 1"):
        Augmentation(late=1.5)
    with pytest.raises(ValueError, match="augmentation: got some for views from above"):
        with_changes(paper(), {"overhead_px": 64, "stage1.augmentation.sun": 0.2})
