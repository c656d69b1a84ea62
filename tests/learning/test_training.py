"""From a corpus to an agent: every ablation trains and flies; runs survive being killed, in one process or in two."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch

import pvn
from pvn.geometry import MapGrid
from pvn.learning.agent import load_agent
from pvn.learning.checkpoint import read_tensors
from pvn.learning.compiled_ahead import _compile_stage1
from pvn.learning.presets import recipe_for, train_system, with_changes
from pvn.model.visitation import VisitationModel
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.trivial_pilots import Average
from pvn.simulator.interface import SimulatorConfig
from pvn.systems import SYSTEMS, TRAINED
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
SMALL = {
    "stage1.num_epochs": 1, "stage1.frames_per_batch": 8, "stage1.measured_flights": 3, "stage2.pretrain_flights": 6,
}  # fmt: skip


def facts_of(agent, folder, num_iterations, tasks):
    """Which of the FACTS are true of a PVN, and of the run and its iterations of stage 2 that it comes from."""
    torch.manual_seed(0)
    before = VisitationModel(agent.visitation.config).state_dict()
    after, lessons = read_tensors(folder / "stage1.safetensors"), read_tensors(folder / "stage2_training.safetensors")
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
@pytest.mark.parametrize("name", [name for name in TRAINED if SYSTEMS[name].training == "two stages"])
def test_every_ablation_trains_and_flies(name, meadow, tmp_path):
    system = SYSTEMS[name]
    recipe = recipe_for(system, "smoke")
    at_most = {
        "stage1.word_steps": min(recipe.stage1.word_steps, 2),
        "stage2.num_iterations": min(recipe.stage2.num_iterations, 1),
    }
    recipe = with_changes(recipe, SMALL | at_most)
    small = replace(meadow, splits={"train": meadow["train"][:8], "dev": meadow["dev"][:3]})
    watched = []
    trained = train_system(small, system, recipe, tmp_path, watch=lambda stage, *progress: watched.append(stage))
    agent = load_agent(tmp_path / "agent.safetensors")
    tasks = [segment.task for segment in meadow["dev"][:2]]
    config = SimulatorConfig(camera=recipe.camera)
    logs = [fly(simulator_for(tasks, config=config), tasks, pilot, horizon=3) for pilot in (trained, agent)]
    assert logs[0].pose_world.isfinite().all() and torch.equal(logs[0].pose_world, logs[1].pose_world)
    # What is needed for training alone is in the checkpoint of the stage, and not in the agent.
    heads = {name for name in read_tensors(tmp_path / "stage1.safetensors") if name.startswith("heads.")}
    assert len(heads) == 6 and not any(".heads." in name for name in read_tensors(tmp_path / "agent.safetensors"))
    pvns = {fact: fact != "sees from above" for fact in FACTS}
    facts = facts_of(trained, tmp_path, num_iterations=watched.count("stage 2"), tasks=tasks)
    assert {fact for fact in FACTS if facts[fact] != pvns[fact]} == DIFFERENCES[name]


TRAIN = """
import sys, json, torch
from pathlib import Path
from pvn.learning import parallel
from pvn.learning.presets import recipe_for, train_system, with_changes
from pvn.systems import SYSTEMS
parallel.join_others("cpu")
recipe = with_changes(recipe_for(SYSTEMS["pvn"], "smoke"), {
    "stage1.num_epochs": 3, "stage1.word_steps": 4, "stage1.frames_per_batch": 20, "stage1.frame_every": 12,
    "stage1.learning_rate": 2e-5, "stage1.save_every": 2, "stage1.measure_every": 2,
})
folder = Path(sys.argv[2])
def watch(stage, step, num_steps, values):
    if parallel.rank() == 0 and stage == "stage 1":
        with (folder / "losses.jsonl").open("a") as file:
            print(json.dumps([step, values["loss"]]), file=file, flush=True)
train_system(Path(sys.argv[1]), SYSTEMS["pvn"], recipe, folder, stage="1", is_resumed="resume" in sys.argv, watch=watch)
"""


def train_here(*arguments):
    """Run TRAIN in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["", *arguments])
        exec(TRAIN, {})


def losses_in(folder):
    lines = (folder / "losses.jsonl").read_text().splitlines()
    return {step: loss for step, loss in map(json.loads, lines)}


@pytest.fixture(scope="module")
def uninterrupted(small_corpus, tmp_path_factory):
    """The folder of a run of stage 1 that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    train_here(small_corpus, folder)
    return folder


@pytest.mark.long
def test_a_killed_run_resumes_to_the_bit(small_corpus, uninterrupted, tmp_path):
    run = subprocess.Popen([sys.executable, "-c", TRAIN, small_corpus, tmp_path], env=ONE_THREAD)
    deadline = time.monotonic() + TIMEOUT
    while not (tmp_path / "stage1_training.safetensors").exists():
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    train_here(small_corpus, tmp_path, "resume")
    assert losses_in(tmp_path) == losses_in(uninterrupted)
    whole, resumed = (read_tensors(folder / "stage1.safetensors") for folder in (uninterrupted, tmp_path))
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[name], resumed[name]) for name in whole)


KILLED = """
import os, signal, sys
from pvn.cli import main
from pvn.learning import parallel, stage1
take_step, steps = stage1.stage1_step, []
def stage1_step(*about):
    steps.append(1)
    if len(steps) == 4 and parallel.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return take_step(*about)
stage1.stage1_step = stage1_step
main(sys.argv[1:])
"""
OPTIONS = (
    "--preset smoke --stage 1 --stage1.num-epochs 3 --stage1.word-steps 4 --stage1.frames-per-batch 20 "
    "--stage1.frame-every 12 --stage1.learning-rate 2e-5 --stage1.save-every 2 --stage1.measure-every 2"
)
"""TRAIN's recipe."""


@pytest.mark.long
def test_two_processes_take_the_same_steps_as_one_even_if_one_of_them_is_killed(
    small_corpus, uninterrupted, run_in_two_processes, tmp_path
):
    killed = tmp_path / "killed.py"
    killed.write_text(KILLED)
    options = {"env": ONE_THREAD, "capture_output": True, "text": True, "timeout": TIMEOUT}
    train = ["train", *OPTIONS.split(), "--corpus", small_corpus, "--out", tmp_path]
    two = [sys.executable, *"-m torch.distributed.run --nproc-per-node 2 --standalone".split()]
    ended = subprocess.run([*two, killed, *train], **options)
    assert ended.returncode != 0 and "start all of them again with --resume" in ended.stderr
    run_in_two_processes(TRAIN, small_corpus, tmp_path, "resume")
    alone, together = losses_in(uninterrupted), losses_in(tmp_path)
    assert together.keys() == {step for step in alone if step >= 2}, "a checkpoint was written after two steps"
    for step, loss in together.items():
        # Sums in another order; Adam's first steps follow the sign of a gradient, however small it is.
        assert loss == pytest.approx(alone[step], rel=1e-3)
    alone, together = (json.loads((run / "training.json").read_text())["dev"] for run in (uninterrupted, tmp_path))
    assert together == pytest.approx(alone, rel=1e-3), "one of the processes has no flights of the dev split"


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


def test_the_pictures_of_stage_1_are_from_the_flights_of_its_own_oracle(meadow, tmp_path, monkeypatch):
    class Seen(Exception):
        """That is all this test wants to know."""

    def note(*_, oracle, **__):
        raise Seen(oracle.max_left)

    monkeypatch.setattr("pvn.learning.training.demonstrate", note)
    for name, max_left in (("pvn", None), ("pvn-plus", 6.0)):
        with pytest.raises(Seen) as seen:
            train_system(meadow, SYSTEMS[name], recipe_for(SYSTEMS[name], "smoke"), tmp_path, stage="1")
        assert seen.value.args == (max_left,)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("name", "predictions"), [("pvn", 14), ("pvn-full-observation", 32)])
def test_parts_are_compiled_ahead_for_as_many_predictions_as_training_makes(name, predictions, monkeypatch):
    """A prediction for every third of 32 pictures, and some to spare; with views from above, one for each."""
    sizes = []
    monkeypatch.setattr(
        "pvn.learning.compiled_ahead.try_part",
        lambda model, part: sizes.append((part, model.frames_at_once, model.maps_at_once)),
    )
    changes = {"grid": MapGrid(), "stage1.frames_per_batch": 32, "stage1.frame_every": 2}
    recipe = with_changes(recipe_for(SYSTEMS[name], "smoke"), changes)
    for part in ("shrinking", "LingUNet"):
        _compile_stage1(recipe, "cpu", part)
    assert sizes == [("shrinking", 32, None), ("LingUNet", None, predictions)]


COMPILE = """
import sys
from pathlib import Path

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.geometry import Camera, MapGrid
from pvn.learning.presets import recipe_for, train_system, with_changes
from pvn.model.accumulation import _cuda_kernels
from pvn.systems import SYSTEMS
from torch._dynamo.utils import counters

if __name__ == "__main__":
    changes = {"stage1.num_epochs": 1, "stage1.word_steps": 0, "stage1.frames_per_batch": 128, "stage1.frame_every": 2}
    changes |= {"grid": MapGrid(), "camera": Camera()}
    recipe = with_changes(recipe_for(SYSTEMS[sys.argv[2]], "smoke"), changes)
    corpus = make_meadow(bundled_banks(), size=80, seed=0)
    train_system(corpus, SYSTEMS[sys.argv[2]], recipe, Path(sys.argv[1]), stage="1", device="cuda")
    found = counters["inductor"]
    versions = [len(passed.signatures) for passed in _cuda_kernels()]
    print(found["fxgraph_cache_hit"], found["fxgraph_cache_miss"], *versions)
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn-plus", "pvn-full-observation"])
def test_what_was_compiled_beside_is_not_compiled_again(name, tmp_path):
    """The halves of the image encoder, and LingUNet, each forward and backward, from processes without a corpus.

    Nor are the passes over the map, which were compiled for made-up values.
    """
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    (tmp_path / "compile.py").write_text(COMPILE, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "compile.py"), str(tmp_path / "run"), name]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert ended.returncode == 0, ended.stderr
    hits, misses, *versions = map(int, ended.stdout.split()[-4:])
    assert (hits, misses) == (6, 0) and versions == [1, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn", "pvn-plus"])
def test_small_maps_are_trained_on_a_gpu(name, meadow, tmp_path):
    """LingUNet's smallest maps have one cell there, and compiled code would stop."""
    recipe = with_changes(recipe_for(SYSTEMS[name], "smoke"), SMALL | {"stage1.word_steps": 2})
    small = replace(meadow, splits={"train": meadow["train"][:40], "dev": meadow["dev"][:3]})
    train_system(small, SYSTEMS[name], recipe, tmp_path, stage="1", device="cuda")
    assert all(bool(value.isfinite().all()) for value in read_tensors(tmp_path / "stage1.safetensors").values())
