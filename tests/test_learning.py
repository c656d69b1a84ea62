"""Learning: both stages learn, and a killed run goes on as if nothing had happened."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from pvn.cli import main
from pvn.corpus.alignment import align
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.store import identity, write_corpus
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import to_map
from pvn.learning import presets, stage1
from pvn.learning.agent import load_agent, save_agent
from pvn.learning.demonstrations import NOTHING, Sizes, batch_limits, demonstrate, draw_batches, select, take_batch
from pvn.learning.losses import LossConfig, objective, stage1_losses
from pvn.learning.stage1 import Stage1Config, train_stage1
from pvn.learning.stage2 import Mixture, Stage2Config, action_loss, collect, train_stage2
from pvn.learning.training import train
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig
from pvn.world.task import SUCCESS_M

QUICK = Stage1Config(num_epochs=3, frames_per_batch=30, frame_every=3, learning_rate=1e-3, save_every=2)


@pytest.fixture(scope="module")
def corpus():
    return make_meadow(bundled_banks(), size=60, seed=2)


@pytest.fixture(scope="module")
def vocabulary(corpus):
    return Vocabulary.from_texts((segment.task.instruction for segment in corpus["train"]), min_count=1)


@pytest.fixture(scope="module")
def shown(corpus, vocabulary):
    tasks = [segment.task for segment in corpus["train"][:9]]
    return demonstrate(tasks, vocabulary, align(corpus["train"], vocabulary), frame_every=3)


def fresh_model(vocabulary):
    torch.manual_seed(0)
    return VisitationModel(VisitationConfig(num_words=len(vocabulary)))


def test_demonstrations_are_the_oracles_flights_and_their_pictures_what_it_saw(corpus, vocabulary, shown):
    tasks = [segment.task for segment in corpus["train"][:9]]
    whole = demonstrate(tasks, vocabulary, align(corpus["train"], vocabulary))
    for flight, task in enumerate(tasks):
        poses = whole.pose_world[whole.first_frame[flight] : whole.first_frame[flight + 1]]
        thinned = shown.pose_world[shown.first_frame[flight] : shown.first_frame[flight + 1]]
        assert torch.equal(poses[::3], thinned)
        assert torch.allclose(poses[0, [0, 1, 5]], torch.tensor(task.start).float(), atol=1e-5)
        assert torch.allclose(whole.path_world[flight, -1], torch.tensor(task.goal).float())
    batch = take_batch(whole, select(whole, torch.tensor([3])))
    simulator = simulator_for([tasks[3]])
    first = simulator.reset(torch.tensor([tasks[3].start], dtype=torch.float64)).image
    assert torch.equal(batch.frames.image[:1], first)
    assert (batch.frames.row >= 0).nonzero().flatten().tolist() == list(range(0, len(batch.frames.row), 6))


def test_landmarks_count_as_visible_only_where_they_are_in_the_picture(shown):
    batch = take_batch(shown, select(shown, torch.arange(5)))
    is_planned, frames = batch.frames.row >= 0, batch.frames
    ids = shown.simulator.landmarks_at(frames.pose_world[is_planned], shown.field[:5][frames.flight])
    for row, picture in zip(batch.is_visible, ids, strict=True):
        counts = np.bincount(picture[picture >= 0].numpy(), minlength=32)
        assert row.tolist() == (counts >= 6).tolist()


def test_every_flight_is_in_one_batch_of_an_epoch_and_every_batch_fits(shown):
    limits = batch_limits(shown, 20)
    batches = draw_batches(shown, limits, torch.Generator().manual_seed(0))
    assert sorted(torch.cat(batches).tolist()) == list(range(len(shown)))
    assert len(batches) > 2
    for flights in batches:
        assert select(shown, flights, sizes=limits).sizes == limits
    again = draw_batches(shown, limits, torch.Generator().manual_seed(1))
    assert torch.cat(batches).tolist() != torch.cat(again).tolist()


def test_a_batch_that_is_filled_up_has_the_same_losses(vocabulary, shown):
    model, config = fresh_model(vocabulary).eval(), LossConfig()
    flights, turn = torch.tensor([4, 0, 2]), torch.tensor([0.3, -0.2, 0.0])
    exact = select(shown, flights, turn)
    sizes = Sizes(exact.sizes.frames + 5, exact.sizes.flights + 3, exact.sizes.predictions + 4)

    def losses(selection):
        batch = take_batch(shown, selection)
        return stage1_losses(model(batch.frames, batch.tokens), batch, model.heads, model.config.grid, config)

    with torch.no_grad():
        own, filled = losses(exact), losses(select(shown, flights, turn, sizes=sizes))
    for name, value in vars(own).items():
        assert float(getattr(filled, name)) == pytest.approx(float(value), rel=1e-4), name


def test_a_process_that_is_left_without_flights_adds_nothing(vocabulary, shown):
    model, none = fresh_model(vocabulary), torch.zeros(0, dtype=torch.int64)
    batch = take_batch(shown, select(shown, none, torch.zeros(0), none, NOTHING))
    losses = stage1_losses(model(batch.frames, batch.tokens), batch, model.heads, model.config.grid, LossConfig())
    assert all(float(value.detach()) == 0 for value in vars(losses).values())
    # The other processes have five predictions.
    objective(losses, LossConfig(), torch.tensor(5), torch.tensor(5)).backward()
    assert all(bool((parameter.grad == 0).all()) for parameter in model.parameters())


def test_a_flight_can_make_another_ones_movements_from_its_own_start(shown):
    flights, moves = torch.tensor([0, 1]), torch.tensor([1, 0])
    own, swapped = (take_batch(shown, select(shown, flights, None, made)) for made in (None, moves))
    first, lengths = swapped.frames.first_frame, own.frames.first_frame.diff()
    assert first.diff().tolist() == lengths.flip(0).tolist()
    for flight in (0, 1):
        begin = own.frames.first_frame[flight]
        assert torch.allclose(swapped.frames.pose_world[first[flight]], own.frames.pose_world[begin], atol=1e-4)
        # Said, meant and wanted is still what it was.
        assert torch.equal(swapped.tokens[flight], own.tokens[flight])
        assert torch.equal(swapped.path_map[flight], own.path_map[flight])
    # As far forward and aside as the other flight went, seen from where it began, unless the field's edge is nearer.
    moved = swapped.frames.pose_world[first[0] : first[1]]
    model = own.frames.pose_world[own.frames.first_frame[1] :]
    is_inside = ((moved[:, :2] > 0) & (moved[:, :2] < 50)).all(-1)
    here, there = (
        to_map(poses[None, :, :2], start[None])
        for poses, start in ((moved, own.frames.origin[0]), (model, own.frames.origin[1]))
    )
    assert is_inside.sum() > 2
    assert torch.allclose(here[0, is_inside], there[0, is_inside], atol=1e-3)


def test_losses_of_parts_add_up_to_the_loss_of_the_whole(vocabulary, shown):
    model, config = fresh_model(vocabulary).eval(), LossConfig()

    def losses(flights):
        batch = take_batch(shown, select(shown, torch.tensor(flights)))
        with torch.no_grad():
            return stage1_losses(model(batch.frames, batch.tokens), batch, model.heads, model.config.grid, config)

    whole, parts = losses([0, 1, 2, 3]), [losses([0, 2]), losses([1, 3])]
    counts = whole.num_predictions, whole.num_visible
    together = sum(objective(part, config, *counts) for part in parts)
    assert float(together) == pytest.approx(float(objective(whole, config, *counts)), rel=1e-4)


def recorded(model, shown, config, folder, **options):
    """Train; the losses by step."""
    steps = {}
    train_stage1(
        model, shown, config, folder, watch=lambda step, num, figures: steps.update({step: figures["loss"]}), **options
    )
    return steps


def test_stage_1_learns_and_a_run_that_was_cut_short_goes_on_exactly(vocabulary, shown, tmp_path):
    longer = replace(QUICK, num_epochs=7, save_every=4)
    whole_model = fresh_model(vocabulary)
    whole = recorded(whole_model, shown, longer, tmp_path / "whole")
    assert whole[max(whole)] < 0.75 * whole[0]

    class Killed(Exception):
        pass

    def kill(step, num_steps, figures):
        if step >= 11:
            raise Killed

    model = fresh_model(vocabulary)
    with pytest.raises(Killed):
        train_stage1(model, shown, longer, tmp_path / "cut", watch=kill)
    resumed = recorded(fresh_model(vocabulary), shown, longer, tmp_path / "cut", is_resumed=True)
    assert 7 <= min(resumed) <= 12 and max(resumed) == max(whole)
    for step, loss in resumed.items():
        assert loss == whole[step], "bit for bit"


def test_a_loss_that_is_no_number_ends_the_run_and_keeps_the_last_good_checkpoint(vocabulary, shown, tmp_path):
    model = fresh_model(vocabulary)

    def spoil(step, num_steps, figures):
        if step == 3:
            with torch.no_grad():
                model.resnet.first.weight[0, 0, 0, 0] = float("nan")

    with pytest.raises(FloatingPointError, match=r"step 3: a weight is not finite; the last good checkpoint is"):
        train_stage1(model, shown, QUICK, tmp_path, watch=spoil)
    with pytest.raises(FloatingPointError, match=r"stage 1, step 0: the loss is nan"):
        train_stage1(model, shown, QUICK, tmp_path / "other")
    resumed = recorded(fresh_model(vocabulary), shown, QUICK, tmp_path, is_resumed=True)
    assert min(resumed) <= 5 and all(np.isfinite(list(resumed.values())))


def test_stage_2_learns_to_fly_by_the_true_distributions(corpus, tmp_path):
    config = Stage2Config(pretrain_flights=42, pretrain_epochs=30, num_iterations=20, num_environments=9, batch_size=32)
    torch.manual_seed(0)
    pilot = ExecutionModel(ExecutionConfig())
    losses = []
    train_stage2(
        pilot, corpus["train"], config, tmp_path, watch=lambda step, num, figures: losses.append(figures["loss"])
    )
    tasks = [segment.task for segment in (*corpus["dev"], *corpus["test"])]
    policy = Mixture(pilot, 0.0, config, SimulatorConfig(), torch.Generator())
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, policy)
    success = log.has_stopped & (log.goal_distance(tasks) < SUCCESS_M)
    assert float(success.float().mean()) >= 0.85, "in fields it never trained in"
    # Cut short after its checkpoint at ten iterations, it goes on to the same weights.
    torch.manual_seed(0)
    cut = ExecutionModel(ExecutionConfig())

    class Killed(Exception):
        pass

    def kill(step, num_steps, figures):
        if step == 13:
            raise Killed

    with pytest.raises(Killed):
        train_stage2(cut, corpus["train"], config, tmp_path / "cut", watch=kill)
    again, steps = ExecutionModel(ExecutionConfig()), []
    train_stage2(
        again,
        corpus["train"],
        config,
        tmp_path / "cut",
        is_resumed=True,
        watch=lambda step, num, figures: steps.append(step),
    )
    assert steps == list(range(11, 21))
    assert all(torch.equal(one, other) for one, other in zip(pilot.parameters(), again.parameters(), strict=True))


def test_what_is_collected_is_labelled_by_the_oracle(corpus):
    torch.manual_seed(0)
    config = Stage2Config()
    policy = Mixture(ExecutionModel(ExecutionConfig()), 1.0, config, SimulatorConfig(), torch.Generator())
    lessons = collect(corpus["dev"][:3], policy, 60, "cpu")
    for lesson in lessons:
        assert lesson.wanted[-1].tolist() == [0.0, 0.0, 1.0], "the oracle flew, and stopped at the end"
        assert (lesson.wanted[:-1, 2] == 0).all() and (lesson.wanted[:-1, 0] >= 0.3 - 1e-6).all()
    perfect = torch.cat([lesson.wanted for lesson in lessons])
    logits = torch.cat([perfect[:, :2], (perfect[:, 2:] * 2 - 1) * 20], -1)
    assert float(action_loss(logits, perfect, 0.8)) < 1e-6


def test_an_agent_is_read_back_and_flies_the_same(corpus, vocabulary, tmp_path):
    torch.manual_seed(1)
    agent = PVN(fresh_model(vocabulary), ExecutionModel(ExecutionConfig()), vocabulary, plan_every=4)
    save_agent(agent, tmp_path / "agent.safetensors", {"note": "untrained"})
    again = load_agent(tmp_path / "agent.safetensors")
    assert again.plan_every == 4 and again.vocabulary.terms == vocabulary.terms
    tasks = [segment.task for segment in corpus["dev"][:2]]
    logs = [fly(simulator_for(tasks), tasks, pilot, horizon=5) for pilot in (agent, again)]
    assert torch.equal(logs[0].pose_world, logs[1].pose_world)


def test_where_an_agents_weights_are_it_is_whole(vocabulary, tmp_path, monkeypatch):
    agent = PVN(fresh_model(vocabulary), ExecutionModel(ExecutionConfig()), vocabulary)

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("pvn.learning.agent.write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        save_agent(agent, tmp_path / "agent.safetensors", {})
    assert not (tmp_path / "agent.safetensors").exists()


def test_broken_agents_say_what_is_wrong(vocabulary, tmp_path):
    path = tmp_path / "agent.safetensors"
    with pytest.raises(FileNotFoundError, match="train first"):
        load_agent(path)
    agent = PVN(fresh_model(vocabulary), ExecutionModel(ExecutionConfig()), vocabulary)
    save_agent(agent, path, {})
    content = json.loads((tmp_path / "agent.json").read_text())
    (tmp_path / "agent.json").write_text(json.dumps(content | {"version": 7}))
    with pytest.raises(ValueError, match="got version 7, expected 1"):
        load_agent(path)
    (tmp_path / "agent.json").write_text(json.dumps(content | {"visitation": content["visitation"] | {"num_words": 5}}))
    with pytest.raises(ValueError, match="does not fit the model"):
        load_agent(path)
    (tmp_path / "agent.json").write_text(json.dumps({"version": 1}))
    with pytest.raises(ValueError, match="not the description of an agent"):
        load_agent(path)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ValueError, match="corrupt"):
        load_agent(path)


TRAIN = """
import sys, json, torch
from dataclasses import replace
from pathlib import Path
from pvn.learning import presets
from pvn.corpus.store import read_corpus
from pvn.learning import parallel
from pvn.learning.training import train
torch.set_num_threads(1)
parallel.join_others("cpu")
recipe = presets.smoke()
recipe = replace(recipe, stage1=replace(recipe.stage1, num_epochs=4, word_steps=50, frames_per_batch=60, frame_every=3,
                                        learning_rate=1e-4, save_every=3))
folder = Path(sys.argv[2])
def watch(what, step, num_steps, figures):
    if parallel.rank() == 0 and what == "stage 1":
        with (folder / "losses.jsonl").open("a") as file:
            print(json.dumps([step, figures["loss"]]), file=file, flush=True)
train(read_corpus(sys.argv[1], ("train",)), recipe, folder, stage="1", is_resumed="resume" in sys.argv, watch=watch)
"""


def losses_in(folder):
    lines = (folder / "losses.jsonl").read_text().splitlines()
    return {step: loss for step, loss in map(json.loads, lines)}


@pytest.fixture(scope="module")
def small_corpus(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpora") / "small"
    write_corpus(replace(corpus, splits={"train": corpus["train"][:14]}), folder)
    return folder


@pytest.fixture(scope="module")
def uninterrupted(small_corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    subprocess.run([sys.executable, "-c", TRAIN, small_corpus, folder], check=True, timeout=120)
    return losses_in(folder)


def test_a_killed_run_resumes_with_the_same_losses(small_corpus, uninterrupted, tmp_path):
    run = subprocess.Popen([sys.executable, "-c", TRAIN, small_corpus, tmp_path])
    deadline = time.monotonic() + 60
    while not (tmp_path / "stage1_training.safetensors").exists():
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    subprocess.run([sys.executable, "-c", TRAIN, small_corpus, tmp_path, "resume"], check=True, timeout=120)
    assert losses_in(tmp_path) == uninterrupted


def test_two_processes_take_the_same_steps_as_one(small_corpus, uninterrupted, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29517", script]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*command, small_corpus, tmp_path], check=True, timeout=180, env=environment, capture_output=True)
    together = losses_in(tmp_path)
    assert together.keys() == uninterrupted.keys()
    assert together[0] == pytest.approx(uninterrupted[0], rel=1e-6)
    for step, loss in together.items():
        # Sums in another order; Adam's first steps follow the sign of a gradient, however small it is.
        assert loss == pytest.approx(uninterrupted[step], rel=1e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_recorded_step_learns_as_a_launched_one_does(corpus, vocabulary, tmp_path, monkeypatch):
    tasks = [segment.task for segment in corpus["train"]]
    shown = demonstrate(tasks, vocabulary, align(corpus["train"], vocabulary), frame_every=3, device="cuda")
    curves = []
    for steps_before in (2, 10**9):
        monkeypatch.setattr(stage1, "STEPS_BEFORE_RECORDING", steps_before)
        model = fresh_model(vocabulary).to("cuda")
        curves.append(recorded(model, shown, replace(QUICK, num_epochs=6), tmp_path))
    assert len(curves[0]) > 10
    for step, loss in curves[0].items():
        assert loss == pytest.approx(curves[1][step], rel=5e-2)


KILLED = """
import os, signal, sys
from pvn.cli import main
from pvn.learning import parallel
add_up, steps = parallel.sum_gradients, []
def sum_gradients(parameters):
    steps.append(1)
    if len(steps) == 3 and parallel.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    add_up(parameters)
parallel.sum_gradients = sum_gradients
main(sys.argv[1:])
"""


def test_a_killed_process_ends_the_others_with_a_message_and_the_run_resumes(small_corpus, tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29519"]
    train = ["train", "--preset", "smoke", "--stage", "1", "--corpus", small_corpus, "--out", tmp_path / "run"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    killed = subprocess.run([*start, script, *train], env=environment, capture_output=True, text=True, timeout=240)
    assert killed.returncode != 0
    assert "start all of them again with --resume" in killed.stderr
    subprocess.run(
        [*start, "-m", "pvn.cli", *train, "--resume"], env=environment, check=True, timeout=240, capture_output=True
    )
    assert (tmp_path / "run" / "stage1.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--system pvn-no-dagger --resume", "was begun with 'pvn'; go on with that"),
        ("--preset paper --resume", "was begun with 'smoke'"),
        ("--corpus {other} --resume", "was begun with another one"),
        ("--system pvn-no-aux --stage1 elsewhere", "expected it for pvn, pvn-no-goal, pvn-no-dagger alone"),
        ("--stage 1 --stage1 elsewhere", "stage: got 1 with --stage1"),
    ],
)
def test_a_run_is_gone_on_with_as_what_it_was_begun(options, message, small_corpus, corpus, tmp_path, capsys):
    (tmp_path / "run.json").write_text(
        json.dumps({"system": "pvn", "preset": "smoke", "corpus": identity(small_corpus)})
    )
    write_corpus(corpus, tmp_path / "other", {"seed": 2})
    given = f"--corpus {small_corpus} --preset smoke {options}".format(other=tmp_path / "other")
    with pytest.raises(SystemExit):
        main(["train", "--out", str(tmp_path), *given.split()])
    assert message in capsys.readouterr().err


def test_presets_are_what_they_say():
    paper, smoke = presets.paper(), presets.smoke()
    assert paper.stage2.num_iterations == 100 and paper.stage2.beta == 0.92 and paper.stage2.memory == 600
    assert paper.execution.stop_threshold == 0.07 and paper.plan_every == 6 and paper.stage1.weight_decay == 1e-6
    assert paper.stage1.losses.mentioned_weight == 0.25
    assert smoke.stage1.num_epochs < paper.stage1.num_epochs


@pytest.mark.slow
def test_smoke_learns_within_five_minutes_and_beats_flying_straight_on(tmp_path):
    corpus = make_meadow(bundled_banks(), size=3000, seed=0)
    begin = time.monotonic()
    agent = train(corpus, presets.smoke(), tmp_path)
    assert time.monotonic() - begin < 300
    tasks = [segment.task for split in ("dev", "test") for segment in corpus[split]]
    config = SimulatorConfig(camera=agent.visitation.config.camera)
    wins = {}
    for pilot in (agent, Average()):
        log = fly(simulator_for(tasks, config=config), tasks, pilot, horizon=50)
        wins[type(pilot).__name__] = int(((log.goal_distance(tasks) < SUCCESS_M) & log.has_stopped).sum())
    assert wins["PVN"] > 1.1 * wins["Average"], wins
