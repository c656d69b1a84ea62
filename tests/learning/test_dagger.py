"""DAggerFM: who flies, how steps are labelled, what is remembered; and what PVN's second stage learns by it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
import torch

from pvn.learning.checkpoint import read_tensors
from pvn.learning.dagger import (
    DemonstratedVisitation,
    ExecutionLearner,
    ImitationLearner,
    Learner,
    Lesson,
    Mixture,
    collect,
    oracle_lessons,
    pack,
    prune,
    run_dagger,
    unpack,
)
from pvn.learning.losses import ImitateOracle, ImitationLosses
from pvn.learning.recipes import DaggerConfig, Stage1Config, Stage2Config
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.rollout.flight import fly
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.task import SUCCESS_M

BLIND = SimulatorConfig(quality="none")
ON_AND_ON = Average(speed=1.23456, num_steps=10**6)
FILE = "dagger.safetensors"


@dataclass(frozen=True)
class Straight(Learner):
    """Flies straight on, as a pilot says, and sees its poses."""

    network: torch.nn.Module = field(default_factory=lambda: torch.nn.Linear(3, 1))
    config: DaggerConfig = DaggerConfig(horizon=60)
    simulator: SimulatorConfig = BLIND
    pilot: Average = Average()
    name, needs_stage1, seed_offset = "DAggerFM", False, 0

    def policy(self, demonstrations):
        return self.pilot

    def observe(self, observation, memory):
        return observation.pose_world


def collected(learner, segments, flights, oracle_share, generator=None):
    generator = generator or torch.Generator().manual_seed(3)
    return collect(learner, segments, flights, oracle_share, generator=generator, simulate=simulator_for, device="cpu")


def tasks_of(segments):
    return [segment.task for segment in segments]


@pytest.mark.parametrize(("oracle_share", "flier"), [(1.0, "oracle"), (0.0, "learner")])
def test_with_a_share_of_one_the_oracle_flies_every_step_and_with_none_the_learner(oracle_share, flier, segments):
    """Whoever flies, the oracle says at every step what it would do there."""
    tasks, demonstrations = tasks_of(segments[:4]), [segment.demonstration for segment in segments[:4]]
    policies = {"oracle": Oracle(demonstrations), "learner": Average(speed=2.0, num_steps=9)}
    advised, asked, own_memory = [], [], [Oracle(demonstrations).begin(tasks, torch.device("cpu"))]

    def ask(step, observation, action, memory):
        advised.append(memory.wanted)
        wanted, own_memory[0] = policies["oracle"].act(observation, own_memory[0])
        asked.append(wanted)

    mixture = Mixture(policies["learner"], policies["oracle"], oracle_share, BLIND, torch.Generator().manual_seed(0))
    mixed = fly(simulator_for(tasks, config=BLIND), tasks, mixture, watch=ask)
    alone = fly(simulator_for(tasks, config=BLIND), tasks, policies[flier])
    assert torch.equal(mixed.action, alone.action) and torch.equal(mixed.pose_world, alone.pose_world)
    advised, asked = torch.stack(advised, 1), torch.stack(asked, 1)
    assert torch.allclose(advised * torch.tensor(BLIND.max_action), asked) and (advised.abs() <= 1).all()
    assert (mixed.action != asked).any() == (flier == "learner")


def test_with_a_share_between_some_steps_are_the_oracles_and_some_the_learners(segments):
    tasks, demonstrations = tasks_of(segments[:6]), [segment.demonstration for segment in segments[:6]]
    mixture = Mixture(ON_AND_ON, Oracle(demonstrations), 0.5, BLIND, torch.Generator().manual_seed(0))
    log = fly(simulator_for(tasks, config=BLIND), tasks, mixture, horizon=12)
    own = torch.arange(log.action.shape[1]) < log.num_steps[:, None]
    is_learner = torch.isclose(log.action[..., 0], torch.tensor(ON_AND_ON.speed))[own]
    assert 0.25 < is_learner.float().mean() < 0.75


@pytest.mark.parametrize("oracle_share", [1.0, 0.0])
def test_lessons_hold_what_the_learner_saw_and_what_the_oracle_would_have_done_there(oracle_share, segments):
    """A learner that flies straight on is told to turn, and where it has flown past the goal, to stop."""
    demonstrations = [segments[flight].demonstration for flight in (4, 2)]
    lessons = collected(Straight(pilot=ON_AND_ON), segments, [4, 2], oracle_share)
    assert [lesson.flight for lesson in lessons] == [4, 2]
    for demonstration, lesson in zip(demonstrations, lessons, strict=True):
        oracle = Oracle([demonstration], OracleConfig(), BLIND)
        memory = oracle.begin([demonstration.task], torch.device("cpu"))
        for seen, wanted in zip(lesson.seen, lesson.wanted, strict=True):
            action, memory = oracle.act(SimpleNamespace(pose_world=seen[None]), memory)
            assert torch.allclose(wanted * torch.tensor(BLIND.max_action), action[0], atol=1e-6)
        if oracle_share == 1.0:
            assert lesson.wanted[-1].tolist() == [0.0, 0.0, 1.0] and (lesson.wanted[:-1, 2] == 0).all()
        else:
            assert len(lesson.seen) == 60 and (lesson.wanted[:, 0] != ON_AND_ON.speed / BLIND.max_speed).all()


def test_where_the_oracle_flies_every_step_its_flights_are_the_demonstrations(segments, imitated_fully):
    for one, other in zip(
        collected(Straight(), segments, [1, 3], 1.0), oracle_lessons(imitated_fully, [1, 3]), strict=True
    ):
        assert one.flight == other.flight
        assert torch.equal(one.seen, other.seen) and torch.allclose(one.wanted, other.wanted)


@pytest.mark.parametrize("oracle_share", [1.0, 0.7])
def test_lessons_do_not_depend_on_when_other_flights_leave_the_batch(oracle_share, segments, monkeypatch):
    def lessons_of(left_at):
        monkeypatch.setattr("pvn.rollout.flight.SHRUNK_AT", left_at)
        counts, learner = [], Straight(pilot=Average(speed=1.5, num_steps=10**6))
        monkeypatch.setattr(
            Straight, "observe", lambda self, seen, memory: counts.append(len(seen.pose_world)) or seen.pose_world
        )
        return collected(learner, segments, list(range(8)), oracle_share), counts

    (early, shrinking), (never, whole) = lessons_of(0.99), lessons_of(0.0)
    assert set(whole) == {8} and shrinking[-1] < 4 and len({len(lesson.seen) for lesson in never}) > 3
    for one, other in zip(early, never, strict=True):
        assert one.flight == other.flight
        assert torch.equal(one.seen, other.seen) and torch.equal(one.wanted, other.wanted)


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


def test_the_memory_is_pruned_at_random_and_stays_in_order():
    lessons = lessons_of([1] * 30)
    left = [[lesson.flight for lesson in prune(lessons, 8, torch.Generator().manual_seed(seed))] for seed in (0, 0, 1)]
    assert left[0] == left[1] == sorted(left[0]) and len(left[0]) == 8
    assert left[2] != left[0]
    assert prune(lessons, 100, torch.Generator()) == lessons


@dataclass(frozen=True)
class Noting(Straight):
    """Notes what it is taught, and learns something that depends on everything that is drawn."""

    first: int = 3
    """Lessons to begin with, of flights -1, -2, ..."""
    studied: list = field(default_factory=list)
    """By iteration: flights of the lessons, and the rate."""
    killed_in: int | None = None
    loss: float = 0.5

    def begin(self, count, shown, fly_flights, generator):
        return [Lesson(-1 - place, torch.zeros(2, 6), torch.ones(2, 3)) for place in range(self.first)], {}

    def learn(self, lessons, shown, rate, generator):
        if len(self.studied) == self.killed_in:
            raise KeyboardInterrupt
        self.studied.append(([lesson.flight for lesson in lessons], rate))
        with torch.no_grad():
            self.network.weight += torch.rand(3, generator=generator) + torch.cat([one.wanted for one in lessons]).mean(
                0
            )
        return {"loss": self.loss + float(torch.rand(()))}  # as dropout would, it draws from torch's own generator


def test_the_memory_forgets_at_random_so_that_in_the_end_it_holds_flights_of_late_iterations(segments, tmp_path):
    """A lesson outlives an iteration with a probability of memory / (memory + new ones), whenever it was learned."""
    learner = Noting(config=DaggerConfig(num_iterations=25, num_environments=1, memory=8, horizon=3), first=8)
    run_dagger(learner, segments, tmp_path / FILE, simulator_for)
    memories = [[flight for flight in flights if flight < 0] for flights, _ in learner.studied]
    assert len(memories[0]) == 8 and 0 < len(memories[2]) < 8 and not memories[-1]
    environment = {flight: segment.environment for flight, segment in enumerate(segments)}
    assert len({environment[flight] for flight in learner.studied[-1][0]}) > 2, "of several iterations"


def test_the_oracles_share_falls_with_each_iteration_and_the_memory_keeps_its_size(segments, tmp_path, monkeypatch):
    shares, flown = [], []

    def note(learner, segments, flights, oracle_share, **where):
        shares.append(oracle_share)
        flown.append(flights)
        return [Lesson(flight, torch.zeros(2, 6), torch.zeros(2, 3)) for flight in flights]

    monkeypatch.setattr("pvn.learning.dagger.collect", note)
    learner = Noting(config=DaggerConfig(num_iterations=3, beta=0.5, num_environments=2, memory=4), first=9)
    run_dagger(learner, segments, tmp_path / FILE, simulator_for)
    assert shares == [0.5, 0.25, 0.125]
    sizes = [len(flights) for flights, _ in learner.studied]
    assert sizes == [4 + len(flights) for flights in flown], "four that are remembered, and the new ones"
    for flights in flown:
        environments = {segments[flight].environment for flight in flights}
        own = [number for number, segment in enumerate(segments) if segment.environment in environments]
        assert len(environments) == 2 and sorted(flights) == own, "all flights of two environments"
    assert flown[0] != flown[1], "drawn anew in each iteration"
    rates = [0.5 * (1 + math.cos(math.pi * done / 3)) for done in (0, 1, 2)]
    assert [rate for _, rate in learner.studied] == pytest.approx(rates), "falling to zero"


@pytest.mark.parametrize("last", [0, 2, 3])
def test_a_run_that_was_killed_resumes_with_its_memory_weights_and_draws(last, segments, tmp_path):
    """Killed in the iteration after the last one that it finished."""
    config = DaggerConfig(num_iterations=4, num_environments=2, memory=5, seed=7, save_every=1, horizon=3)

    def train(name, killed_in=None, **options):
        learner, seen = Noting(config=config, killed_in=killed_in), []
        torch.nn.init.zeros_(learner.network.weight)
        run_dagger(
            learner, segments, tmp_path / name, simulator_for, watch=lambda *progress: seen.append(progress), **options
        )
        return learner.network.weight.detach(), learner.studied, seen

    weight, studied, seen = train("whole")
    assert [progress[:3] for progress in seen] == [("DAggerFM", step, 5) for step in (1, 2, 3, 4)]
    assert all(metrics["flights"] == 5 for *_, metrics in seen), "as many as the memory holds"
    with pytest.raises(KeyboardInterrupt):
        train("killed", killed_in=last)
    found = train("killed", is_resumed=True)
    assert torch.equal(found[0], weight)
    assert found[1] == studied[last:] and found[2] == seen[last:]
    assert train("killed")[1] == studied, "a run that is not resumed begins anew"


@pytest.mark.parametrize(("loss", "weight"), [(math.nan, 0.0), (math.inf, 0.0), (1.0, math.nan)])
def test_a_run_whose_loss_or_weights_are_not_finite_ends_and_says_what_to_do(loss, weight, segments, tmp_path):
    learner = Noting(config=DaggerConfig(num_iterations=3, num_environments=1, horizon=2), loss=loss)
    torch.nn.init.constant_(learner.network.weight, weight)
    with pytest.raises(FloatingPointError) as error:
        run_dagger(learner, segments, tmp_path / FILE, simulator_for)
    for part in ("DAggerFM, iteration 1: the loss is", str(tmp_path / FILE), "--stage2.learning-rate"):
        assert part in str(error.value)


def test_every_iteration_of_every_seed_draws_numbers_of_its_own(segments, tmp_path, monkeypatch):
    draws = []
    monkeypatch.setattr("pvn.learning.dagger.collect", lambda *about, **where: [])

    def draw(self, lessons, shown, rate, generator):
        draws.append(float(torch.rand((), generator=generator)))
        return {"loss": 1.0}

    monkeypatch.setattr(Noting, "learn", draw)
    for seed, offset in ((0, 0), (1, 0), (2, 0), (0, 500), (1, 500)):
        monkeypatch.setattr(Noting, "seed_offset", offset)
        learner = Noting(config=DaggerConfig(num_iterations=3, seed=seed), first=1)
        run_dagger(learner, segments, tmp_path / FILE, simulator_for)
        assert not learner.network.training, "nothing is dropped any more"
    assert len(set(draws)) == len(draws) == 5 * 3


# PVN's second stage


CONFIG = Stage2Config(
    pretrain_flights=42, pretrain_epochs=20, num_iterations=10, num_environments=5, batch_size=32, save_every=4
)
BRIEF = Stage2Config(pretrain_flights=4, pretrain_epochs=1, num_iterations=0)


def fresh_pilot(**changes):
    torch.manual_seed(0)
    return ExecutionModel(ExecutionConfig(**changes))


def train_pilot(pilot, segments, config, folder, **options):
    run_dagger(ExecutionLearner(pilot, config), segments, folder / FILE, simulator_for, **options)
    return read_tensors(folder / FILE)


@pytest.mark.long
def test_stage_2_learns_to_fly_and_an_interrupted_run_resumes_to_the_bit(meadow, segments, copy_run_at, tmp_path):
    pilot, folder = fresh_pilot(), tmp_path / "whole"
    train_pilot(pilot, segments, CONFIG, folder, watch=copy_run_at(7, folder, tmp_path / "cut"))
    demonstrations = [segment.demonstration for segment in (*meadow["dev"], *meadow["test"])]
    tasks = [demonstration.task for demonstration in demonstrations]
    policy = DemonstratedVisitation(pilot, demonstrations, CONFIG.sigma_cells, SimulatorConfig())
    log = fly(simulator_for(tasks, config=BLIND), tasks, policy)
    distance = log.goal_distance([demonstration.goal for demonstration in demonstrations])
    success = log.has_stopped & (distance < SUCCESS_M)
    assert float(success.float().mean()) >= 0.85, "in fields it never trained in"
    again, steps = ExecutionModel(ExecutionConfig()), []
    train_pilot(
        again, segments, CONFIG, tmp_path / "cut", is_resumed=True, watch=lambda _, step, *rest: steps.append(step)
    )
    assert steps == list(range(5, 11)), "its last checkpoint is that of iteration 4"
    assert all(torch.equal(*pair) for pair in zip(pilot.parameters(), again.parameters(), strict=True))


@pytest.mark.long
def test_stage_2_imitates_the_oracle_of_its_recipe(segments, tmp_path):
    """One that flies slower the further it has to turn shows lower speeds on the same flights."""
    oracles = {"papers": OracleConfig(), "careful": OracleConfig(turns_on_the_spot=1.0)}
    speeds = {
        name: train_pilot(fresh_pilot(), segments, replace(BRIEF, pretrain_flights=8, oracle=oracle), tmp_path / name)
        for name, oracle in oracles.items()
    }
    careful, papers = (float(speeds[name]["wanted"][:, 0].mean()) for name in ("careful", "papers"))
    assert careful < 0.97 * papers


@pytest.mark.long
def test_without_iterations_stage_2_learns_from_oracle_flights_alone(segments, tmp_path):
    seen = []
    train_pilot(fresh_pilot(), segments, BRIEF, tmp_path, watch=lambda *progress: seen.append(progress))
    assert [(*progress[:3], progress[3]["flights"]) for progress in seen] == [("stage 2", 0, 1, 4.0)]


@pytest.mark.long
def test_the_oracle_flies_fewer_steps_in_each_iteration(segments, tmp_path):
    """With a pilot that stops as soon as it is its turn, and that never learns, a flight lasts until the oracle is not
    drawn: (1 - share^n) / (1 - share) steps on average, if the oracle's own takes n.
    """
    pilot, count, beta = fresh_pilot(), len(segments), 0.9
    with torch.no_grad():
        pilot.output.bias[2] = 1e6
    environments = len({segment.environment for segment in segments})
    config = Stage2Config(
        pretrain_flights=count, pretrain_epochs=1, num_iterations=6, beta=beta, num_environments=environments,
        memory=10**6, learning_rate=0.0, batch_size=10**6,
    )  # fmt: skip
    lengths = train_pilot(pilot, segments, config, tmp_path)["lengths"].double()
    oracles, *iterations = lengths.split(count)
    assert 12 < oracles.mean() < 20 and len(iterations) == 6
    for iteration, lengths in enumerate(iterations, start=1):
        share = beta**iteration
        expected = ((1 - share**oracles) / (1 - share)).mean()
        assert float(lengths.mean()) == pytest.approx(float(expected), rel=0.25), iteration


def test_a_nan_ends_the_run(segments, tmp_path):
    pilot = fresh_pilot()
    with torch.no_grad():
        pilot.output.weight[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match=r"stage 2, iteration 0: the loss is nan.*--stage2\.learning-rate"):
        train_pilot(pilot, segments, BRIEF, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_pass_with_everything_dropped_shrinks_the_weights_and_no_more(segments, tmp_path):
    """Three passes of one step each; a pilot that sees nothing while it learns has no gradient there."""
    pilot = fresh_pilot(dropout=1.0).eval()
    before = pilot.hidden.weight.detach().clone()
    config = replace(BRIEF, pretrain_epochs=3, batch_size=10**6, learning_rate=0.1, weight_decay=0.5)
    train_pilot(pilot, segments, config, tmp_path)
    assert torch.allclose(pilot.hidden.weight, before * (1 - 0.1 * 0.5) ** 3, atol=1e-7)
    assert not pilot.training, "it flies with everything in view"


def test_a_stop_that_weighs_nothing_is_not_learned(segments, tmp_path):
    pilot, fresh = fresh_pilot(), fresh_pilot()
    train_pilot(pilot, segments, replace(BRIEF, stop_weight=0.0, weight_decay=0.0), tmp_path)
    is_changed = (pilot.output.weight != fresh.output.weight).any(1)
    assert is_changed.tolist() == [True, True, False]


def test_stage_2_begins_with_flights_drawn_at_random_that_end_at_its_horizon(segments, tmp_path):
    begun = []
    for seed in (0, 1):
        lessons = train_pilot(
            fresh_pilot(), segments, replace(BRIEF, pretrain_flights=6, horizon=4, seed=seed), tmp_path
        )
        begun.append(sorted(lessons["flights"].tolist()))
        assert lessons["lengths"].tolist() == [4] * 6
    assert begun[0] != begun[1] and all(len(set(flights)) == 6 for flights in begun)


def test_in_its_own_flights_the_pilot_drops_nothing_of_what_it_sees(segments, tmp_path):
    """A pilot that never learns flies in training as it does afterwards."""
    few = segments[:3]
    tasks, demonstrations = tasks_of(few), [segment.demonstration for segment in few]
    config = replace(BRIEF, pretrain_flights=1, num_iterations=1, beta=1e-9, learning_rate=0.0, horizon=6)
    pilot, seen = fresh_pilot(), []
    pilot.output.bias.data = torch.tensor([0.5, 0.0, -100.0])  # it never stops
    lessons = unpack(train_pilot(pilot, few, config, tmp_path))[1:]
    policy = DemonstratedVisitation(pilot.eval(), demonstrations, config.sigma_cells, SimulatorConfig())
    fly(
        simulator_for(tasks, config=BLIND), tasks, policy, horizon=6,
        watch=lambda step, observation, action, memory: seen.append(memory.seen),
    )  # fmt: skip
    assert sorted(lesson.flight for lesson in lessons) == [0, 1, 2]
    for lesson in lessons:
        assert torch.allclose(lesson.seen, torch.stack(seen, 1)[lesson.flight, : len(lesson.seen)], atol=1e-5)


def test_a_pilot_shown_a_way_in_parts_goes_from_part_to_part_and_stops_in_the_last(segments):
    """The oracle flies; the pilot asks for a stop at every step, with 0.08, a little above the threshold of 0.07."""
    demonstrations = [segment.demonstration for segment in (segments[0], segments[2])]
    tasks = [demonstration.task for demonstration in demonstrations]
    pilot = ExecutionModel(ExecutionConfig(num_parts=3)).eval()
    torch.nn.init.zeros_(pilot.output.weight)
    pilot.output.bias.data = torch.tensor([0.5, 0.5, 0.08]).logit()
    learner = DemonstratedVisitation(pilot, demonstrations, 0.6, SimulatorConfig())
    progress, stops = [], []
    teacher = Mixture(learner, Oracle(demonstrations), 1.0, BLIND, torch.Generator())

    def note(step, observation, action, memory):
        progress.append(memory.learner.progress)
        stops.append(learner.act(observation, before[-1].learner)[0][:, 2])
        before.append(memory)

    before = [teacher.begin(tasks, torch.device("cpu"))]
    log = fly(simulator_for(tasks, config=BLIND), tasks, teacher, watch=note)
    progress, stops = torch.stack(progress, 1), torch.stack(stops, 1) > 0
    for flight, length in enumerate(log.num_steps.tolist()):
        parts = progress[flight, :length].argmax(-1).tolist()
        assert parts == sorted(parts) and set(parts) == {0, 1, 2}
        in_last_part = progress[flight, :length, -1]
        assert torch.equal(stops[flight, :length], in_last_part * 0.08 > 0.07) and stops[flight, length - 1]


# A baseline as a whole


STAGE1 = Stage1Config(
    frames_per_batch=8, frame_every=1, predict_every=1, swapped_share=0.0, turn_rad=0.0, losses=ImitationLosses()
)
DAGGER = DaggerConfig(
    num_iterations=3, num_environments=2, memory=4, horizon=4, save_every=1, learning_rate=3e-4
)  # fmt: skip


def train_chaplot(agent, segments, shown, folder, config=DAGGER, stage1=STAGE1, **options):
    objective = ImitateOracle(agent.model, agent.grid, ImitationLosses())
    learner = ImitationLearner(agent.model, config, shown.simulator.config, agent, objective, stage1)
    run_dagger(learner, segments, folder / FILE, simulator_for, shown=shown, **options)
    return read_tensors(folder / FILE)


@pytest.mark.long
def test_a_baselines_interrupted_run_resumes_to_the_bit_and_remembers_no_more_than_it_should(
    segments, fresh_agent, imitated_fully, copy_run_at, tmp_path
):
    whole, again, flights = fresh_agent("chaplot"), fresh_agent("chaplot"), []

    def watch(phase, step, num_steps, values):
        flights.append(values["flights"])
        copy_run_at(2, tmp_path / "whole", tmp_path / "cut")(phase, step, num_steps, values)

    train_chaplot(whole, segments[:4], imitated_fully, tmp_path / "whole", watch=watch)
    assert flights == [4.0] * 3
    train_chaplot(again, segments[:4], imitated_fully, tmp_path / "cut", is_resumed=True)
    assert all(torch.equal(*pair) for pair in zip(whole.model.parameters(), again.model.parameters(), strict=True))


@pytest.mark.long
@pytest.mark.parametrize(("beta", "flier"), [(1.0, "oracle"), (1e-9, "learner")])
def test_the_oracle_flies_the_share_of_steps_that_beta_says(
    beta, flier, segments, fresh_agent, imitated_fully, tmp_path
):
    """The learner stops as soon as it is its turn; with a beta of one it never is."""
    agent = fresh_agent("chaplot")
    with torch.no_grad():
        agent.model.output.bias[2] = 1e6
    environments = len({segment.environment for segment in segments[:4]})
    config = DaggerConfig(num_iterations=1, beta=beta, num_environments=environments, memory=100, learning_rate=0.0)
    written = train_chaplot(agent, segments[:4], imitated_fully, tmp_path, config)
    oracles, flown = written["lengths"].split(4)
    assert sorted(oracles.tolist()) == sorted(imitated_fully.first_frame.diff().tolist())
    assert sorted(flown.tolist()) == (sorted(oracles.tolist()) if flier == "oracle" else [1] * 4)


@pytest.mark.long
def test_the_rate_of_a_baseline_falls_to_zero_and_its_instruction_encoder_learns_faster(
    segments, fresh_agent, imitated_fully, tmp_path
):
    """An iteration is one step here, and a fresh Adam's first step is as long as the rate in every weight."""
    agent, steps = fresh_agent("chaplot"), []
    config = replace(DAGGER, num_iterations=4, num_environments=1, memory=1, horizon=1, learning_rate=1e-3)

    def weights():
        return {name: value.detach().clone() for name, value in agent.model.named_parameters()}

    def note(*progress):
        moved = {name: float((value - last[-1][name]).abs().max()) for name, value in weights().items()}
        encoder = max(value for name, value in moved.items() if name.startswith("instruction."))
        others = max(value for name, value in moved.items() if not name.startswith("instruction."))
        steps.append((encoder, others))
        last.append(weights())

    last, stage1 = [weights()], replace(STAGE1, frames_per_batch=10**6)
    train_chaplot(agent, segments[:4], imitated_fully, tmp_path, config, stage1, watch=note)
    shares = [0.5 * (1 + math.cos(math.pi * done)) for done in (0.0, 0.25, 0.5, 0.75)]
    assert [others for _, others in steps] == pytest.approx([1e-3 * share for share in shares], rel=0.02)
    assert [encoder for encoder, _ in steps] == pytest.approx([1.5e-3 * share for share in shares], rel=0.02)
