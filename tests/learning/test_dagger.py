"""DAggerFM: who flies, what is remembered, and what is learned from it."""

from __future__ import annotations

import math

import pytest
import torch

from pvn.learning.dagger import DaggerConfig, Lesson, Mixture, action_losses, collect, pack, prune, run_dagger, unpack
from pvn.learning.imitation import oracle_lessons
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig

BLIND = SimulatorConfig(quality="none")


def pose_seen(observation, memory):
    return observation.pose_world


@pytest.mark.parametrize(("oracle_share", "flier"), [(1.0, "oracle"), (0.0, "learner")])
def test_with_a_share_of_one_the_oracle_flies_every_step_and_with_none_the_learner(oracle_share, flier, segments):
    demonstrations = [segment.demonstration for segment in segments[:4]]
    tasks = [demonstration.task for demonstration in demonstrations]
    policies = {"oracle": Oracle(demonstrations), "learner": Average(speed=2.0, num_steps=9)}
    advice = []

    def keep(step, observation, action, memory):
        advice.append(memory.wanted)

    mixture = Mixture(policies["learner"], policies["oracle"], oracle_share, BLIND, torch.Generator().manual_seed(0))
    mixed = fly(simulator_for(tasks, config=BLIND), tasks, mixture, watch=keep)
    alone = fly(simulator_for(tasks, config=BLIND), tasks, policies[flier])
    assert torch.equal(mixed.action, alone.action) and torch.equal(mixed.pose_world, alone.pose_world)
    # Whoever flies, the oracle says at every step what it would do: shares of the largest speed and yaw rate, and stop.
    wanted = torch.stack(advice, 1)
    assert wanted.shape == mixed.action.shape and (wanted.abs() <= 1).all()
    if flier == "oracle":
        own = torch.arange(wanted.shape[1]) < mixed.num_steps[:, None]
        assert torch.equal((wanted * torch.tensor(BLIND.max_action))[own], mixed.action[own])


def test_with_a_share_between_some_steps_are_the_oracles_and_some_the_learners(segments):
    demonstrations = [segment.demonstration for segment in segments[:6]]
    tasks = [demonstration.task for demonstration in demonstrations]
    average = Average(speed=1.23456, num_steps=10**6)
    mixture = Mixture(average, Oracle(demonstrations), 0.5, BLIND, torch.Generator().manual_seed(0))
    log = fly(simulator_for(tasks, config=BLIND), tasks, mixture, horizon=12)
    own = torch.arange(log.action.shape[1]) < log.num_steps[:, None]
    is_learner = torch.isclose(log.action[..., 0], torch.tensor(average.speed))[own]
    assert 0.25 < is_learner.float().mean() < 0.75


def test_what_is_collected_is_labelled_by_the_oracle(segments):
    lessons = collect(
        segments, [0, 1, 2], lambda demonstrations: Average(), pose_seen, oracle_share=1.0, horizon=60, simulator=BLIND,
        device="cpu", generator=torch.Generator(),
    )  # fmt: skip
    for lesson in lessons:
        assert len(lesson.seen) == len(lesson.wanted)
        assert lesson.wanted[-1].tolist() == [0.0, 0.0, 1.0], "the oracle flew, and stopped at the end"
        assert (lesson.wanted[:-1, 2] == 0).all() and (lesson.wanted[:-1, 0] >= 0.3 - 1e-6).all()


@pytest.mark.parametrize("oracle_share", [1.0, 0.7])
def test_lessons_do_not_depend_on_when_other_flights_leave_the_batch(oracle_share, segments, monkeypatch):
    def lessons_of(share):
        monkeypatch.setattr("pvn.rollout.flight.SHRUNK_AT", share)
        flights, counts = list(range(8)), []

        def pose_seen_by(observation, memory):
            counts.append(len(observation.pose_world))
            return observation.pose_world

        lessons = collect(
            segments, flights, lambda demonstrations: Average(speed=1.5, num_steps=10**6), pose_seen_by,
            oracle_share=oracle_share, horizon=60, simulator=BLIND, device="cpu",
            generator=torch.Generator().manual_seed(3),
        )  # fmt: skip
        return lessons, counts

    (early, shrinking), (never, whole) = lessons_of(0.99), lessons_of(0.0)
    assert set(whole) == {8} and shrinking[-1] < 4 and len({len(lesson.seen) for lesson in never}) > 3
    for one, other in zip(early, never, strict=True):
        assert one.flight == other.flight
        assert torch.equal(one.seen, other.seen) and torch.equal(one.wanted, other.wanted)


def test_the_learner_is_made_for_what_is_flown_remembers_what_it_keeps_and_ends_at_the_horizon(segments):
    made_for = []

    class Remembering(Average):
        """Remembers how many steps it has flown."""

        def begin(self, tasks, device):
            return 0

        def act(self, observation, memory):
            return torch.tensor([[1.0, 0.0, 0.0]]).expand(len(observation.pose_world), 3), memory + 1

    def make_learner(demonstrations):
        made_for.extend(demonstrations)
        return Remembering()

    lessons = collect(
        segments, [4, 2], make_learner, lambda observation, steps: torch.full((2, 1), float(steps)), oracle_share=0.0,
        horizon=5, simulator=BLIND, device="cpu", generator=torch.Generator(),
    )  # fmt: skip
    assert made_for == [segments[flight].demonstration for flight in (4, 2)]
    assert [lesson.flight for lesson in lessons] == [4, 2]
    assert all(lesson.seen.flatten().tolist() == [1.0, 2.0, 3.0, 4.0, 5.0] for lesson in lessons)


def test_where_the_oracle_flies_every_step_its_flights_are_the_demonstrations(segments, fresh_agent, imitated_fully):
    agent, simulator = fresh_agent("chaplot"), imitated_fully.simulator.config
    flown = collect(
        segments, [1, 3], lambda demonstrations: agent, pose_seen, oracle_share=1.0, horizon=80, simulator=simulator,
        device="cpu", generator=torch.Generator(),
    )  # fmt: skip
    for one, other in zip(flown, oracle_lessons(imitated_fully, [1, 3]), strict=True):
        assert one.flight == other.flight
        assert torch.equal(one.seen, other.seen) and torch.allclose(one.wanted, other.wanted)


def test_doing_as_the_oracle_would_costs_nothing():
    wanted = torch.tensor([[0.5, -0.2, 0.0], [1.0, 0.3, 0.0], [0.0, 0.0, 1.0]])
    output = torch.cat([wanted[:, :2], (wanted[:, 2:] * 2 - 1) * 20], -1)
    assert (action_losses(output, wanted, 0.8) < 1e-6).all()
    assert (action_losses(output + 0.1, wanted, 0.8) > 1e-3).all()


def test_the_action_loss_by_hand():
    """A third of: squared errors of speed and yaw rate, and 0.8 of the stop's cross-entropy; each step by itself."""
    output = torch.tensor([[0.5, 0.1, 0.7], [0.2, -0.4, -0.3]])
    wanted = torch.tensor([[0.7, 0.4, 0.0], [0.0, 0.0, 1.0]])
    first = 0.33 * (0.2**2 + 0.3**2 + 0.8 * math.log(1 + math.exp(0.7)))
    second = 0.33 * (0.2**2 + 0.4**2 + 0.8 * math.log(1 + math.exp(0.3)))
    assert action_losses(output, wanted, 0.8).tolist() == pytest.approx([first, second], rel=1e-5)


def lessons_of(lengths):
    generator = torch.Generator().manual_seed(0)
    return [
        Lesson(flight, torch.rand((length, 2, 5), generator=generator), torch.rand((length, 3), generator=generator))
        for flight, length in enumerate(lengths)
    ]


def test_lessons_that_were_packed_are_unpacked_as_they_were():
    lessons = lessons_of([4, 1, 7])
    for one, other in zip(lessons, unpack(pack(lessons)), strict=True):
        assert one.flight == other.flight
        assert torch.equal(one.seen, other.seen) and torch.equal(one.wanted, other.wanted)


def test_the_memory_is_pruned_at_random_and_keeps_its_order():
    lessons = lessons_of([1] * 30)
    kept = [[lesson.flight for lesson in prune(lessons, 8, torch.Generator().manual_seed(seed))] for seed in (0, 0, 1)]
    assert kept[0] == kept[1] == sorted(kept[0]) and len(kept[0]) == 8
    assert kept[2] != kept[0]
    assert prune(lessons, 100, torch.Generator()) == lessons


def test_the_oracles_share_falls_with_each_iteration_and_the_memory_keeps_its_size(segments, tmp_path):
    shares, flown, sizes = [], [], []

    def lessons(count):
        return [Lesson(flight, torch.zeros(2, 6), torch.zeros(2, 3)) for flight in range(count)]

    def fly_flights(flights, oracle_share, generator):
        shares.append(oracle_share)
        flown.append(flights)
        return lessons(len(flights))

    def train_one_pass(studied, iteration, generator):
        sizes.append(len(studied))
        return {"loss": 1.0}

    config = DaggerConfig(num_iterations=3, beta=0.5, num_environments=2, memory=4)
    run_dagger(
        torch.nn.Linear(1, 1), segments, config, tmp_path / "dagger.safetensors", name="DAggerFM",
        begin=lambda generator: (lessons(9), {}), fly_flights=fly_flights, train_one_pass=train_one_pass,
    )  # fmt: skip
    assert shares == [0.5, 0.25, 0.125]
    assert sizes == [4 + len(flights) for flights in flown], "four that are remembered, and the new ones"
    for flights in flown:
        environments = {segments[flight].environment for flight in flights}
        own = [number for number, segment in enumerate(segments) if segment.environment in environments]
        assert len(environments) == 2 and sorted(flights) == own, "all flights of two environments"
    assert flown[0] != flown[1], "drawn anew in each iteration"


@pytest.mark.parametrize("last", [0, 2, 3])
def test_a_run_that_was_killed_resumes_with_its_memory_weights_and_draws(last, segments, tmp_path):
    """Killed in the iteration after the last one that it finished."""
    config = DaggerConfig(num_iterations=4, num_environments=2, memory=5, seed=7, save_every=1)

    def train(name, killed_in=None, **options):
        model, took_part = torch.nn.Linear(3, 1), []
        torch.nn.init.zeros_(model.weight)

        def begin(generator):
            return lessons_of([1, 2, 3]), {}

        def fly_flights(flights, oracle_share, generator):
            drawn = torch.rand((1, 3), generator=generator)
            return [Lesson(flight, torch.full((2, 2, 5), float(flight)), drawn.expand(2, 3)) for flight in flights]

        def train_one_pass(studied, iteration, generator):
            if iteration == killed_in:
                raise KeyboardInterrupt
            took_part.append((iteration, [lesson.flight for lesson in studied]))
            with torch.no_grad():
                model.weight += torch.rand(3, generator=generator) + torch.cat([one.wanted for one in studied]).mean(0)
            return {"loss": float(torch.rand(()))}  # as dropout would, it draws from torch's own generator

        seen = []
        run_dagger(
            model, segments, config, tmp_path / name, name="DAggerFM", begin=begin, fly_flights=fly_flights,
            train_one_pass=train_one_pass, watch=lambda *told: seen.append(told), **options,
        )  # fmt: skip
        return model.weight.detach(), took_part, seen

    weight, took_part, seen = train("whole")
    assert [(step, num_steps) for step, num_steps, _ in seen] == [(step, 5) for step in (1, 2, 3, 4)]
    assert all(metrics["flights"] == 5 for _, _, metrics in seen), "as many as the memory holds"
    with pytest.raises(KeyboardInterrupt):
        train("killed", killed_in=last + 1)
    found = train("killed", is_resumed=True)
    assert torch.equal(found[0], weight)
    assert found[1] == took_part[last:] and found[2] == seen[last:]
    again = train("killed")
    assert again[1] == took_part, "a run that is not resumed begins anew"


@pytest.mark.parametrize(("loss", "weight"), [(math.nan, 0.0), (math.inf, 0.0), (1.0, math.nan)])
def test_a_run_whose_loss_or_weights_are_not_finite_ends_and_says_what_to_do(loss, weight, segments, tmp_path):
    model = torch.nn.Linear(3, 1)

    def train_one_pass(studied, iteration, generator):
        torch.nn.init.constant_(model.weight, weight)
        return {"loss": loss}

    path = tmp_path / "dagger.safetensors"
    with pytest.raises(FloatingPointError) as error:
        run_dagger(
            model, segments, DaggerConfig(num_iterations=3, num_environments=1), path, name="DAggerFM",
            begin=lambda generator: (lessons_of([2]), {}), fly_flights=lambda *given: lessons_of([2]),
            train_one_pass=train_one_pass,
        )  # fmt: skip
    for part in (f"DAggerFM, iteration 1: the loss is {loss}", str(path), "--dagger.learning-rate"):
        assert part in str(error.value)


def test_every_iteration_of_every_seed_draws_numbers_of_its_own_and_in_the_end_nothing_is_dropped(segments, tmp_path):
    draws = []

    def begin(generator):
        draws.append(float(torch.rand((), generator=generator)))
        return lessons_of([2]), {}

    def train_one_pass(studied, iteration, generator):
        return begin(generator)[1] | {"loss": 1.0}

    for seed, seed_offset in ((0, 0), (1, 0), (2, 0), (0, 500), (1, 500)):
        model = torch.nn.Linear(1, 1)
        run_dagger(
            model, segments, DaggerConfig(num_iterations=2, seed=seed), tmp_path / "dagger.safetensors",
            name="DAggerFM", begin=begin, fly_flights=lambda *given: [], train_one_pass=train_one_pass,
            seed_offset=seed_offset,
        )  # fmt: skip
        assert not model.training
    assert len(set(draws)) == len(draws) == 5 * 3
