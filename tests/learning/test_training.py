"""From a corpus to an agent: every system trains and flies; runs survive being killed, in one process or in two."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import pytest
import torch
from safetensors.torch import load_file

import pvn
from pvn.corpus.segments import Corpus
from pvn.learning.checkpoint import read_tensors
from pvn.learning.fit import CHECKPOINTS, STAGE1, STAGE2, fit
from pvn.learning.recipes import with_changes
from pvn.model.visitation import VisitationModel
from pvn.rollout.flight import fly
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.systems import AGENT_FILE, SYSTEMS, TRAINED, load_agent
from pvn.training import FOLDER, own_corpus, train, train_system
from pvn.world.task import SUCCESS_M

TIMEOUT = 600
"""Seconds after which a run that should take some is ended; not a claim about speed."""
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
FACTS = (
    "names landmarks", "tells what is meant", "tells what is mentioned", "reads", "sees the goal", "flies by itself",
    "sees from above",
)  # fmt: skip
"""What a training may have or not; PVN has all but the last."""
DIFFERENCES = {
    "pvn": set(),
    "pvn-no-aux": {"names landmarks", "tells what is meant", "tells what is mentioned"},
    "pvn-no-goal": {"sees the goal"},
    "pvn-no-dagger": {"flies by itself"},
    "pvn-no-instruction": {"tells what is meant", "tells what is mentioned", "reads"},
    "pvn-full-observation": {"sees from above"},
    "pvn-plus": set(),
}
"""In which of the facts a system differs from PVN."""
SMALL = {"stage1.num_epochs": 1, "stage1.frames_per_batch": 8, "stage1.measured_flights": 3}


def facts_of(agent, folder, num_iterations, tasks):
    """Which of the FACTS are true of a PVN, and of the run and its iterations of stage 2 that it comes from."""
    torch.manual_seed(0)
    before = VisitationModel(agent.visitation.config).state_dict()
    after, lessons = read_tensors(folder / STAGE1), read_tensors(folder / CHECKPOINTS["2"])
    is_changed = {name: not torch.equal(before[name], after[name]) for name in after}
    embeddings = agent.begin(tasks, torch.device("cpu")).instructions.embedding
    assert len({task.instruction for task in tasks}) == len(tasks)
    # Of the crops around the drone the goal's is the last.
    crops = lessons["seen"][:, : agent.execution.num_cropped].unflatten(1, (-1, agent.execution.config.crop**2))
    values = (
        is_changed["heads.landmark.weight"], is_changed["heads.grounded.weight"], is_changed["heads.mentioned.weight"],
        not torch.allclose(embeddings[:1], embeddings), bool((crops[:, -1] != 0).any()), num_iterations > 1,
        agent.visitation.config.overhead_px is not None,
    )  # fmt: skip
    return dict(zip(FACTS, values, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINED)
def test_every_system_trains_and_flies(name, meadow, tmp_path):
    system = SYSTEMS[name]
    recipe = system.recipe("smoke")
    changes = {
        "stage1.word_steps": min(recipe.stage1.word_steps, 2),
        "stage2.num_iterations": min(recipe.stage2.num_iterations, 1),
        **({"stage2.pretrain_flights": 6} if system.flies_by_distributions else {"stage2.memory": 4, "min_count": 1}),
    }
    recipe = with_changes(recipe, SMALL | changes)
    small = replace(meadow, splits={"train": meadow["train"][:8], "dev": meadow["dev"][:3]})
    watched = []
    trained = train_system(small, system, recipe, tmp_path, watch=lambda phase, *progress: watched.append(phase))
    agent = load_agent(tmp_path / AGENT_FILE)
    tasks = [segment.task for segment in meadow["dev"][:2]]
    config = SimulatorConfig(camera=recipe.camera)
    logs = [fly(simulator_for(tasks, config=config), tasks, pilot, horizon=3) for pilot in (trained, agent)]
    assert logs[0].pose_world.isfinite().all() and torch.equal(logs[0].pose_world, logs[1].pose_world)
    # What is needed for training alone is in the checkpoint of the stage, and not in the agent.
    heads = {key.split(".")[1] for key in read_tensors(tmp_path / STAGE1) if key.startswith("heads.")}
    assert not any(".heads." in key for key in load_file(tmp_path / AGENT_FILE))
    written = json.loads((tmp_path / "training.json").read_text())
    assert written["recipe"]["stage1"]["measured_flights"] == 3 and written["segments"] == 8
    if system.flies_by_distributions:
        assert heads == {"landmark", "grounded", "mentioned"} and "goal" in written["dev"]
        usual = {fact: fact != "sees from above" for fact in FACTS}
        facts = facts_of(trained, tmp_path, num_iterations=watched.count("stage 2"), tasks=tasks)
        assert {fact for fact in FACTS if facts[fact] != usual[fact]} == DIFFERENCES[name]
    else:
        assert heads == ({"landmark", "grounded", "mentioned", "goal"} if name == "gsmn" else set())
        assert {"imitation", "DAggerFM"} <= set(watched) and "action" in written["dev"]


BRIEF = {
    "stage1.num_epochs": 1, "stage1.word_steps": 1, "stage1.frames_per_batch": 40, "stage2.num_iterations": 1,
    "stage2.num_environments": 1, "stage2.horizon": 3, "min_count": 1,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", ["pvn-no-goal", "gsmn"])
def test_stages_that_are_trained_one_after_the_other_make_the_same_agent_as_both_at_once(name, meadow, tmp_path):
    small = replace(meadow, splits={"train": meadow["train"][:4]})
    recipe = with_changes(SYSTEMS[name].recipe("smoke"), BRIEF)
    for folder, stages in ((tmp_path / "at once", ["all"]), (tmp_path / "apart", ["1", "2"])):
        folder.mkdir()
        for stage in stages:
            assert not (folder / AGENT_FILE).exists()
            train_system(small, SYSTEMS[name], recipe, folder, stage=stage)
    once, apart = (load_file(tmp_path / run / AGENT_FILE) for run in ("at once", "apart"))
    assert once.keys() == apart.keys() and all(torch.equal(value, apart[key]) for key, value in once.items())


def test_a_baseline_has_no_second_stage_without_its_first(meadow, tmp_path):
    small = replace(meadow, splits={"train": meadow["train"][:2]})
    with pytest.raises(FileNotFoundError, match=r"no file .*stage1\.safetensors; train first"):
        recipe = with_changes(SYSTEMS["chaplot"].recipe("smoke"), BRIEF)
        train_system(small, SYSTEMS["chaplot"], recipe, tmp_path, stage="2")


def test_stage_2_has_one_thread_whatever_the_machine_has(segments, tmp_path):
    """Its weights would otherwise depend on the number of cores."""
    recipe = with_changes(
        SYSTEMS["pvn"].recipe("smoke"), {"stage2.pretrain_flights": 2, "stage2.num_iterations": 0}
    )  # fmt: skip
    seen, watch = [], lambda *_: seen.append(torch.get_num_threads())
    torch.set_num_threads(2)
    try:
        train_system(
            Corpus("few", {"train": tuple(segments)}), SYSTEMS["pvn"], recipe, tmp_path, stage="2", watch=watch
        )
        assert seen and set(seen) == {1} and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert read_tensors(tmp_path / STAGE2)


def test_the_oracle_of_the_recipe_flies_what_an_epoch_reads_and_the_first_of_dev(meadow, tmp_path, monkeypatch):
    class Seen(Exception):
        """That is all this test wants to know."""

    asked = []

    def note(demonstrations, *_, oracle, frame_every, predict_every, **__):
        asked.append((len(demonstrations), oracle.max_left, frame_every, predict_every))
        if len(asked) % 2 == 0:
            raise Seen
        return demonstrations

    monkeypatch.setattr("pvn.learning.fit.demonstrate", note)
    for name, max_left in (("pvn", None), ("pvn-plus", 6.0)):
        system, recipe = SYSTEMS[name], with_changes(SYSTEMS[name].recipe("smoke"), {"stage1.measured_flights": 5})
        epoch = [*meadow["train"], *meadow["train"][:3]]
        with pytest.raises(Seen):
            fit(partial(system.begin, recipe), meadow, epoch, recipe, tmp_path, simulator_for, stage="1")
        assert asked[-2:] == [(len(epoch), max_left, 12, 6), (5, max_left, 1, 6)]


@pytest.mark.long
def test_a_run_without_a_corpus_makes_its_own_once(tmp_path):
    text = SYSTEMS["pvn"].recipe("smoke").text
    made = own_corpus(replace(text, size=20, narrated=1), tmp_path)
    before = (tmp_path / FOLDER / "corpus.json").stat().st_mtime_ns
    again = own_corpus(replace(text, size=20, narrated=1), tmp_path)
    assert [one.task.instruction for one in again["train"]] == [one.task.instruction for one in made["train"]]
    assert (tmp_path / FOLDER / "corpus.json").stat().st_mtime_ns == before, "a resumed run reads it"


def test_a_device_that_does_not_exist_is_refused_before_a_corpus_is_made(tmp_path):
    with pytest.raises(ValueError, match='device: got \'gpu\', expected "cpu" or "cuda"'):
        train(None, tmp_path, agent="pvn", preset="smoke", device="gpu")
    assert not (tmp_path / FOLDER).exists()


TRAIN = """
import sys, json, torch
from pathlib import Path
from pvn.learning import parallel
from pvn.learning.recipes import with_changes
from pvn.systems import SYSTEMS
from pvn.training import train_system
corpus, folder, name, *words = sys.argv[1:]
parallel.join_others("cpu")
recipe = with_changes(SYSTEMS[name].recipe("smoke"), {
    "stage1.num_epochs": 3, "stage1.word_steps": 4, "stage1.frames_per_batch": 20, "stage1.frame_every": 12,
    "stage1.learning_rate": 2e-5, "stage1.save_every": 2, "stage1.measure_every": 2, "stage1.measured_flights": 2,
})
folder = Path(folder)
def watch(phase, step, num_steps, values):
    if parallel.rank() == 0 and phase in ("stage 1", "imitation"):
        with (folder / "losses.jsonl").open("a") as file:
            print(json.dumps([step, values["loss"]]), file=file, flush=True)
train_system(Path(corpus), SYSTEMS[name], recipe, folder, stage="1", is_resumed="resume" in words, watch=watch)
"""


def train_here(*arguments):
    """Run TRAIN in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["", *map(str, arguments)])
        exec(TRAIN, {})


def losses_in(folder):
    lines = (folder / "losses.jsonl").read_text().splitlines()
    return {step: loss for step, loss in map(json.loads, lines)}


@pytest.fixture(scope="module")
def uninterrupted(small_corpus, tmp_path_factory):
    """The folder of a run of stage 1 that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    train_here(small_corpus, folder, "pvn")
    return folder


@pytest.mark.long
def test_a_killed_run_resumes_to_the_bit(small_corpus, uninterrupted, tmp_path):
    run = subprocess.Popen([sys.executable, "-c", TRAIN, small_corpus, tmp_path, "pvn"], env=ONE_THREAD)
    deadline = time.monotonic() + TIMEOUT
    while not (tmp_path / CHECKPOINTS["1"]).exists():
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    train_here(small_corpus, tmp_path, "pvn", "resume")
    assert losses_in(tmp_path) == losses_in(uninterrupted)
    whole, resumed = (read_tensors(folder / STAGE1) for folder in (uninterrupted, tmp_path))
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)


KILLED = """
import os, signal, sys
from pvn.cli import main
from pvn.learning import fit, parallel
take_step, steps = fit.take_step, []
def take_or_die(*about):
    steps.append(1)
    if len(steps) == 4 and parallel.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return take_step(*about)
fit.take_step = take_or_die
main(sys.argv[1:])
"""
OPTIONS = (
    "--preset smoke --stage 1 --stage1.num-epochs 3 --stage1.word-steps 4 --stage1.frames-per-batch 20 "
    "--stage1.frame-every 12 --stage1.learning-rate 2e-5 --stage1.save-every 2 --stage1.measure-every 2 "
    "--stage1.measured-flights 2"
)
"""TRAIN's recipe."""


def assert_nearly_the_same(together, alone):
    for step, loss in together.items():
        # Sums in another order; Adam's first steps follow the sign of a gradient, however small it is.
        assert loss == pytest.approx(alone[step], rel=1e-3)


@pytest.mark.long
def test_two_processes_take_the_same_steps_as_one_even_if_one_of_them_is_killed(
    small_corpus, uninterrupted, run_in_two_processes, tmp_path
):
    killed = tmp_path / "killed.py"
    killed.write_text(KILLED)
    options = {"env": ONE_THREAD, "capture_output": True, "text": True, "timeout": TIMEOUT}
    command = ["train", *OPTIONS.split(), "--corpus", small_corpus, "--out", tmp_path]
    two = [sys.executable, *"-m torch.distributed.run --nproc-per-node 2 --standalone".split()]
    ended = subprocess.run([*two, killed, *command], **options)
    assert ended.returncode != 0 and "start all of them again with --resume" in ended.stderr
    run_in_two_processes(TRAIN, small_corpus, tmp_path, "pvn", "resume")
    alone, together = losses_in(uninterrupted), losses_in(tmp_path)
    assert together.keys() == {step for step in alone if step >= 2}, "a checkpoint was written after two steps"
    assert_nearly_the_same(together, alone)
    alone, together = (json.loads((run / "training.json").read_text())["dev"] for run in (uninterrupted, tmp_path))
    assert together == pytest.approx(alone, rel=1e-3)


@pytest.mark.long
def test_two_processes_train_a_baseline_as_one_does(small_corpus, run_in_two_processes, tmp_path):
    for run in ("alone", "together"):
        (tmp_path / run).mkdir()
    train_here(small_corpus, tmp_path / "alone", "chaplot")
    run_in_two_processes(TRAIN, small_corpus, tmp_path / "together", "chaplot")
    alone, together = losses_in(tmp_path / "alone"), losses_in(tmp_path / "together")
    assert together.keys() == alone.keys()
    assert_nearly_the_same(together, alone)


@pytest.mark.slow
def test_smoke_beats_flying_straight_on(tmp_path):
    from pvn.corpus.meadow.banks import bundled_banks
    from pvn.corpus.meadow.generator import make_meadow

    corpus = make_meadow(bundled_banks(), size=3000, seed=0)
    agent = pvn.train(corpus, tmp_path, preset="smoke")
    demonstrations = [segment.demonstration for split in ("dev", "test") for segment in corpus[split]]
    tasks = [demonstration.task for demonstration in demonstrations]
    wins = {}
    for pilot in (agent, Average()):
        log = fly(simulator_for(tasks, config=SimulatorConfig(camera=agent.camera)), tasks, pilot, horizon=50)
        distance = log.goal_distance([demonstration.goal for demonstration in demonstrations])
        wins[type(pilot).__name__] = int(((distance < SUCCESS_M) & log.has_stopped).sum())
    assert wins["PVN"] > 1.1 * wins["Average"], wins


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn", "pvn-plus", "gsmn"])
def test_small_maps_are_trained_on_a_gpu(name, meadow, tmp_path):
    """LingUNet's smallest maps have one cell there, and compiled code would stop."""
    recipe = with_changes(SYSTEMS[name].recipe("smoke"), SMALL | {"stage1.word_steps": 2, "stage1.num_epochs": 1})
    small = replace(meadow, splits={"train": meadow["train"][:40], "dev": meadow["dev"][:3]})
    train_system(small, SYSTEMS[name], recipe, tmp_path, stage="1", device="cuda")
    assert all(bool(value.isfinite().all()) for value in read_tensors(tmp_path / STAGE1).values())
