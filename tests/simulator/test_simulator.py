"""The batched simulator: deterministic, flights independent of each other, bad input refused untouched."""

import math
import multiprocessing
import os

import numpy as np
import pytest
import torch

from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import Simulator
from pvn.world.layout import Landmark, Layout, sample_layout

LAYOUTS = [sample_layout(seed) for seed in range(3)]
ACTIONS = [[3.0, 0.5, 0.0], [1.0, -1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.7, 0.0], [3.0, 0.0, 1.0]]
STARTS = torch.tensor([[10.0, 10.0, 0.0], [20.0, 30.0, 1.0], [40.0, 25.0, 2.0], [25.0, 25.0, -1.0], [5.0, 45.0, 3.0]])
FIELDS = [0, 1, 2, 0, 1]


def flown(flights, steps=3, **options):
    """Observations of the given flights, flown together."""
    simulator = Simulator(LAYOUTS, len(flights), field_index=[FIELDS[i] for i in flights], **options)
    seen = [simulator.reset(STARTS[flights])]
    seen += [simulator.step(torch.tensor(ACTIONS)[flights]) for _ in range(steps)]
    return seen


def same(a, b):
    return torch.equal(a.image, b.image) and torch.equal(a.pose_world, b.pose_world)


def test_the_same_flights_give_the_same_bits():
    assert all(same(a, b) for a, b in zip(flown([0, 1, 2, 3, 4]), flown([0, 1, 2, 3, 4]), strict=True))


def test_a_batch_of_flights_equals_each_flown_alone():
    together = flown([0, 1, 2, 3, 4])
    for flight in range(5):
        for whole, alone in zip(together, flown([flight]), strict=True):
            assert torch.equal(whole.image[flight], alone.image[0])
            assert torch.equal(whole.pose_world[flight], alone.pose_world[0])


def test_a_masked_reset_leaves_the_other_flights_alone():
    simulator = Simulator(LAYOUTS, 3, field_index=[0, 1, 2])
    simulator.reset(STARTS[:3])
    before = simulator.step(torch.tensor(ACTIONS[:3]))
    mask = torch.tensor([False, True, False])
    nowhere = torch.full((3, 3), math.nan)
    nowhere[1] = torch.tensor([30.0, 30.0, 0.5])
    after = simulator.reset(nowhere, field_index=torch.tensor([0, 0, 0]), mask=mask)
    assert simulator.field_index.tolist() == [0, 0, 2]
    assert torch.allclose(after.pose_world[1], torch.tensor([30.0, 30.0, 5.0, 0.0, 0.0, 0.5]), atol=1e-6)
    for flight in (0, 2):
        assert torch.equal(before.image[flight], after.image[flight])
        assert torch.equal(before.pose_world[flight], after.pose_world[flight])


def test_a_replaced_field_is_seen_by_the_flights_in_it():
    simulator = Simulator([Layout(()), Layout(())], 2, field_index=[0, 1])
    start = torch.tensor([[15.0, 25.0, 0.0]] * 2)
    before = simulator.reset(start)
    simulator.replace_field(1, Layout((Landmark("Apple", 25.0, 25.0, 4.0),)))
    after = simulator.observe()
    assert torch.equal(before.image[0], after.image[0])
    assert not torch.equal(before.image[1], after.image[1])


def test_the_three_qualities_fly_the_same_and_draw_differently():
    ends = {quality: flown([0, 1], config=SimulatorConfig(quality=quality))[-1] for quality in ("none", "fast", "full")}
    assert torch.equal(ends["none"].pose_world, ends["full"].pose_world)
    assert torch.equal(ends["fast"].pose_world, ends["full"].pose_world)
    assert ends["none"].image.max() == 0
    assert not torch.equal(ends["fast"].image, ends["full"].image)


def test_a_landmark_class_that_is_added_changes_no_picture_and_is_drawn_itself(a_new_class):
    before = flown([0, 1, 2, 3, 4])
    with a_new_class():
        assert all(same(one, other) for one, other in zip(before, flown([0, 1, 2, 3, 4]), strict=True))
        twins = [Layout((Landmark(name, 25.0, 25.0, 4.0),)) for name in ("Aardvark", "Barrel")]
        images = Simulator(twins, 2, field_index=[0, 1]).reset(torch.tensor([[15.0, 25.0, 0.0]] * 2)).image
        assert torch.equal(images[0], images[1]), "it has the solids of a barrel"


def test_a_renderer_shares_the_fields_and_nothing_else():
    simulator = Simulator(LAYOUTS, 3, field_index=[2, 1, 2], config=SimulatorConfig(quality="none"))
    before = simulator.reset(torch.tensor([[15.0, 25.0, 0.0]] * 3)).pose_world
    renderer, alone = simulator.renderer(SimulatorConfig()), Simulator(LAYOUTS, 1)
    pose, field = before[:1].float(), torch.tensor([2])
    assert torch.equal(renderer.render(pose, field), alone.render(pose, field))
    renderer.step(torch.tensor([[3.0, 1.0, 0.0]]))
    assert torch.equal(simulator.observe().pose_world, before) and simulator.field_index.tolist() == [2, 1, 2]


def test_top_down_views_show_each_flights_own_field():
    simulator = Simulator(LAYOUTS, 3, field_index=[2, 1, 2])
    views = simulator.top_down(128)
    assert views.shape == (3, 128, 128, 3) and views.dtype == torch.uint8
    assert torch.equal(views[0], views[2]) and not torch.equal(views[0], views[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.step(torch.zeros(4, 3)), r"action: got \(4, 3\), expected a tensor of shape \(2, 3\)"),
        (lambda s: s.step(torch.zeros(2, 2)), "action: got"),
        (lambda s: s.step([[0, 0, 0]] * 2), "action: got list"),
        (lambda s: s.step(torch.tensor([[0.0, 0, 0], [1.0, math.nan, 0]])), "action: got .* for flight 1.*finite"),
        (lambda s: s.step(torch.tensor([[math.inf, 0, 0], [1.0, 0, 0]])), "action: got .* for flight 0.*finite"),
        (lambda s: s.reset(torch.zeros(3)), "start: got"),
        (lambda s: s.reset(torch.zeros(5, 3)), "start|mask"),
        (lambda s: s.reset(torch.tensor([[0.0, 0, math.nan]] * 2)), "start: got .* for flight 0.*finite"),
        (lambda s: s.reset(torch.zeros(2, 3), field_index=torch.tensor([0, 3])), "field_index.*expected 0 to 2"),
        (lambda s: s.reset(torch.zeros(2, 3), field_index=torch.tensor([0])), "field_index: got shape"),
        (lambda s: s.reset(torch.zeros(2, 3), mask=torch.ones(3, dtype=torch.bool)), "mask: got"),
        (lambda s: s.reset(torch.zeros(2, 3), mask=torch.ones(2)), "mask: got torch.float32"),
        (lambda s: s.reset(torch.zeros(2, 3), mask=[True]), "mask: got"),
        (lambda s: s.reset(torch.zeros(2, 3), field_index=[0]), "field_index: got shape"),
        (lambda s: s.reset(torch.tensor([[25.0, 25, 0], [1000.0, 0, 0]])), "start: got x, y .* for flight 1"),
        (lambda s: s.replace_field(5, LAYOUTS[0]), "index: got 5, expected 0 to 2"),
    ],
)
def test_bad_input_is_refused_and_nothing_moves(call, message):
    simulator = Simulator(LAYOUTS, 2)
    simulator.reset(STARTS[:2])
    before = simulator.observe()
    with pytest.raises(ValueError, match=message):
        call(simulator)
    assert same(before, simulator.observe())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Simulator([], 1), "layouts: got none"),
        (lambda: Simulator(LAYOUTS, 0), "num_flights: got 0"),
        (lambda: Simulator(LAYOUTS, 2, field_index=[0, 7]), "field_index"),
        (lambda: Simulator(LAYOUTS, 1, device="mps"), 'expected "cpu" or "cuda"'),
        (lambda: Simulator(LAYOUTS, 1, device="gpu"), 'expected "cpu" or "cuda"'),
        (lambda: Simulator(LAYOUTS, 1, device="cuda:3"), "CUDA_VISIBLE_DEVICES"),
        (lambda: Simulator(LAYOUTS[0], 1), "expected a list"),
        (lambda: SimulatorConfig(altitude=0.01), "altitude: got 0.01 m, expected 0.1 to 100 m"),
        (lambda: SimulatorConfig(altitude=-1.0), "altitude: got -1.0, expected a positive number"),
        (lambda: SimulatorConfig(max_speed=math.nan), "max_speed"),
        (lambda: SimulatorConfig(quality="best"), "quality: got 'best'"),
    ],
)
def test_impossible_simulators_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_asking_for_an_absent_gpu_says_what_to_do():
    with pytest.raises(ValueError, match=r'torch sees no CUDA GPU here; use device="cpu", or install'):
        Simulator(LAYOUTS, 1, device="cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("quality", ["fast", "full"])
def test_cpu_and_cuda_agree(quality):
    config = SimulatorConfig(quality=quality)
    for cpu, cuda in zip(
        flown([0, 1, 2, 3, 4], config=config), flown([0, 1, 2, 3, 4], config=config, device="cuda"), strict=True
    ):
        difference = (cpu.image.int() - cuda.image.cpu().int()).abs().amax(-1)
        assert (difference > 8).float().mean() < 0.01
        assert torch.allclose(cpu.pose_world, cuda.pose_world.cpu(), atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_depth_views_from_above_and_replaced_fields_agree_on_cuda():
    found = []
    for device in ("cpu", "cuda"):
        simulator = Simulator(LAYOUTS, 3, field_index=[0, 1, 2], device=device)
        simulator.replace_field(1, LAYOUTS[2])
        simulator.reset(STARTS[:3].to(device))
        simulator.reset(STARTS[2:].to(device), mask=torch.tensor([False, True, True], device=device))
        depth, seen = simulator.depth_and_landmarks()
        found.append((depth.cpu(), seen.cpu(), simulator.top_down(128).cpu()))
    (depth, seen, above), (other_depth, other_seen, other_above) = found
    assert (seen != other_seen).float().mean() < 0.001
    assert ((depth - other_depth).abs() > 0.01).float().mean() < 0.001
    assert ((above.int() - other_above.int()).abs().amax(-1) > 8).float().mean() < 0.01


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_the_same_flights_give_the_same_bits_on_cuda():
    runs = [flown([0, 1, 2, 3, 4], device="cuda") for _ in range(2)]
    assert all(same(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.long
def test_several_threads_may_each_fly_a_simulator_at_once():
    from concurrent.futures import ThreadPoolExecutor

    expected = flown([0, 1, 2])[-1]
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(lambda _: flown([0, 1, 2])[-1], range(8)))
    assert all(same(expected, end) for end in ends)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_can_fly_too():
    expected = flown([0, 1, 2])[-1]
    context = multiprocessing.get_context("fork")
    reader, writer = context.Pipe()
    child = context.Process(target=lambda: writer.send(flown([0, 1, 2])[-1].image.numpy()))
    child.start()
    assert reader.poll(60), "the child hangs"
    assert np.array_equal(reader.recv(), expected.image.numpy())
    child.join()


def test_observations_are_not_changed_by_later_steps():
    simulator = Simulator(LAYOUTS, 1)
    first = simulator.reset(STARTS[:1])
    kept = first.image.clone(), first.pose_world.clone()
    simulator.step(torch.tensor([[3.0, 1.0, 0.0]]))
    assert torch.equal(first.image, kept[0]) and torch.equal(first.pose_world, kept[1])
    assert np.isfinite(first.velocity_world.numpy()).all()
