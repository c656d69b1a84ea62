"""Stage 2 learns to fly by the demonstrated distributions."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from pvn.corpus.segments import Corpus
from pvn.corpus.store import write_corpus
from pvn.learning.checkpoint import read_tensors
from pvn.learning.dagger import Mixture, unpack
from pvn.learning.presets import smoke
from pvn.learning.stage2 import CHECKPOINT, DemonstratedVisitation, Stage2Config, train_stage2
from pvn.learning.training import STAGE2, stage2_beside, train_pvn
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle, OracleConfig
from pvn.simulator.interface import SimulatorConfig
from pvn.world.task import SUCCESS_M

CONFIG = Stage2Config(
    pretrain_flights=42, pretrain_epochs=20, num_iterations=10, num_environments=5, batch_size=32, save_every=4
)


def fresh_pilot():
    torch.manual_seed(0)
    return ExecutionModel(ExecutionConfig())


@pytest.mark.long
def test_stage_2_learns_to_fly_and_an_interrupted_run_resumes_to_the_bit(meadow, segments, copy_run_at, tmp_path):
    pilot, folder = fresh_pilot(), tmp_path / "whole"
    train_stage2(pilot, segments, CONFIG, folder, watch=copy_run_at(7, folder, tmp_path / "cut"))
    demonstrations = [segment.demonstration for segment in (*meadow["dev"], *meadow["test"])]
    tasks = [demonstration.task for demonstration in demonstrations]
    policy = DemonstratedVisitation(pilot, demonstrations, CONFIG.sigma_cells, SimulatorConfig())
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, policy)
    distance = log.goal_distance([demonstration.goal for demonstration in demonstrations])
    success = log.has_stopped & (distance < SUCCESS_M)
    assert float(success.float().mean()) >= 0.85, "in fields it never trained in"
    again, steps = ExecutionModel(ExecutionConfig()), []
    train_stage2(
        again, segments, CONFIG, tmp_path / "cut", is_resumed=True, watch=lambda step, num, values: steps.append(step)
    )
    assert steps == list(range(5, 11)), "its last checkpoint is that of iteration 4"
    assert all(torch.equal(*pair) for pair in zip(pilot.parameters(), again.parameters(), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("are_read_there", [False, True])
def test_a_process_of_its_own_trains_the_same_stage_2(are_read_there, segments, tmp_path):
    """As with a GPU, where it trains while the GPU is busy with stage 1; it is sent the segments, or reads them."""
    config = Stage2Config(pretrain_flights=4, pretrain_epochs=1, num_iterations=1, num_environments=1)
    pilot, folder = fresh_pilot(), tmp_path / "beside"
    write_corpus(Corpus("few", {"train": tuple(segments)}), tmp_path / "corpus")
    given = tmp_path / "corpus" if are_read_there else segments
    with stage2_beside(pilot, given, config, folder, is_resumed=False) as beside:
        assert beside.result() > 0
    train_stage2(pilot, segments, config, tmp_path)
    written = read_tensors(folder / STAGE2)
    assert written.keys() == pilot.state_dict().keys()
    assert all(torch.equal(value, written[name]) for name, value in pilot.state_dict().items())


def test_stage_2_has_one_thread_whatever_the_machine_has(segments, tmp_path):
    """Its weights would otherwise depend on the number of cores."""
    config = Stage2Config(pretrain_flights=2, pretrain_epochs=1, num_iterations=0)
    corpus, seen = Corpus("few", {"train": tuple(segments)}), []
    torch.set_num_threads(2)
    try:
        train_pvn(
            corpus, replace(smoke(), stage2=config), tmp_path, stage="2",
            watch=lambda *_: seen.append(torch.get_num_threads()),
        )  # fmt: skip
        assert seen and set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


@pytest.mark.long
def test_stage_2_imitates_the_oracle_of_its_recipe(segments, tmp_path):
    """One that flies slower the further it has to turn shows lower speeds on the same flights."""
    speeds = {}
    for name, oracle in {"papers": OracleConfig(), "careful": OracleConfig(turns_on_the_spot=1.0)}.items():
        config = Stage2Config(pretrain_flights=8, pretrain_epochs=1, num_iterations=0, oracle=oracle)
        train_stage2(fresh_pilot(), segments, config, tmp_path / name)
        speeds[name] = float(read_tensors(tmp_path / name / CHECKPOINT)["wanted"][:, 0].mean())
    assert speeds["careful"] < 0.97 * speeds["papers"]


@pytest.mark.long
def test_without_iterations_stage_2_learns_from_oracle_flights_alone(segments, tmp_path):
    config = Stage2Config(pretrain_flights=4, pretrain_epochs=1, num_iterations=0)
    pilot, seen = fresh_pilot(), []
    train_stage2(
        pilot, segments, config, tmp_path, watch=lambda step, num, values: seen.append((step, num, values["flights"]))
    )
    assert seen == [(0, 1, 4.0)]


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
    train_stage2(pilot, segments, config, tmp_path)
    oracles, *iterations = read_tensors(tmp_path / CHECKPOINT)["lengths"].double().split(count)
    assert 12 < oracles.mean() < 20 and len(iterations) == 6
    for iteration, lengths in enumerate(iterations, start=1):
        share = beta**iteration
        expected = ((1 - share**oracles) / (1 - share)).mean()
        assert float(lengths.mean()) == pytest.approx(float(expected), rel=0.25), iteration


@pytest.mark.long
def test_stage_2_remembers_as_many_flights_as_its_recipe_says(segments, tmp_path):
    config = Stage2Config(pretrain_flights=9, pretrain_epochs=1, num_iterations=2, num_environments=1, memory=5)
    seen = []
    train_stage2(fresh_pilot(), segments, config, tmp_path, watch=lambda *progress: seen.append(progress[2]["flights"]))
    assert seen == [5.0] * 3 and len(read_tensors(tmp_path / CHECKPOINT)["lengths"]) == 5


def test_a_nan_ends_the_run(segments, tmp_path):
    pilot = fresh_pilot()
    with torch.no_grad():
        pilot.output.weight[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match=r"stage 2, iteration 0: the loss is nan.*--stage2\.learning-rate"):
        train_stage2(pilot, segments, Stage2Config(pretrain_flights=2, num_iterations=0), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_pass_with_everything_dropped_shrinks_the_weights_and_no_more(segments, tmp_path):
    """Three passes of one step each; a pilot that sees nothing while it learns has no gradient there."""
    torch.manual_seed(0)
    pilot = ExecutionModel(ExecutionConfig(dropout=1.0)).eval()
    before = pilot.hidden.weight.detach().clone()
    config = Stage2Config(
        pretrain_flights=2, pretrain_epochs=3, num_iterations=0, batch_size=10**6, learning_rate=0.1, weight_decay=0.5
    )
    train_stage2(pilot, segments, config, tmp_path)
    assert torch.allclose(pilot.hidden.weight, before * (1 - 0.1 * 0.5) ** 3, atol=1e-7)
    assert not pilot.training, "it flies with everything in view"


def test_a_stop_that_weighs_nothing_is_not_learned(segments, tmp_path):
    pilot, fresh = fresh_pilot(), fresh_pilot()
    config = Stage2Config(pretrain_flights=2, pretrain_epochs=1, num_iterations=0, stop_weight=0.0, weight_decay=0.0)
    train_stage2(pilot, segments, config, tmp_path)
    is_changed = (pilot.output.weight != fresh.output.weight).any(1)
    assert is_changed.tolist() == [True, True, False]


def test_stage_2_begins_with_flights_drawn_at_random_that_end_at_its_horizon(segments, tmp_path):
    begun = []
    for seed in (0, 1):
        config = Stage2Config(pretrain_flights=6, pretrain_epochs=1, num_iterations=0, horizon=4, seed=seed)
        train_stage2(fresh_pilot(), segments, config, tmp_path)
        lessons = read_tensors(tmp_path / CHECKPOINT)
        begun.append(sorted(lessons["flights"].tolist()))
        assert lessons["lengths"].tolist() == [4] * 6
    assert begun[0] != begun[1] and all(len(set(flights)) == 6 for flights in begun)


def test_in_its_own_flights_the_pilot_drops_nothing_of_what_it_sees(segments, tmp_path):
    """A pilot that never learns flies in training as it does afterwards."""
    few = segments[:3]
    demonstrations = [segment.demonstration for segment in few]
    tasks = [demonstration.task for demonstration in demonstrations]
    config = Stage2Config(
        pretrain_flights=1, pretrain_epochs=1, num_iterations=1, beta=1e-9, learning_rate=0.0, horizon=6
    )
    pilot, seen = fresh_pilot(), []
    pilot.output.bias.data = torch.tensor([0.5, 0.0, -100.0])  # it never stops
    train_stage2(pilot, few, config, tmp_path)
    lessons = unpack(read_tensors(tmp_path / CHECKPOINT))[1:]
    policy = DemonstratedVisitation(pilot.eval(), demonstrations, config.sigma_cells, SimulatorConfig())
    fly(
        simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, policy, horizon=6,
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
    simulator, progress, stops = SimulatorConfig(quality="none"), [], []
    teacher = Mixture(learner, Oracle(demonstrations), 1.0, simulator, torch.Generator())

    def keep(step, observation, action, memory):
        progress.append(memory.learner.progress)
        stops.append(learner.act(observation, before[-1].learner)[0][:, 2])
        before.append(memory)

    before = [teacher.begin(tasks, torch.device("cpu"))]
    log = fly(simulator_for(tasks, config=simulator), tasks, teacher, watch=keep)
    progress, stops = torch.stack(progress, 1), torch.stack(stops, 1) > 0
    for flight, length in enumerate(log.num_steps.tolist()):
        parts = progress[flight, :length].argmax(-1).tolist()
        assert parts == sorted(parts) and set(parts) == {0, 1, 2}
        in_last_part = progress[flight, :length, -1]
        assert torch.equal(stops[flight, :length], in_last_part * 0.08 > 0.07) and stops[flight, length - 1]
