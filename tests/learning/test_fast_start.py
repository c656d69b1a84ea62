"""What is compiled before there is a corpus is what training runs, and stage 2 can be trained by another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch._dynamo.utils import counters

from pvn.geometry import MapGrid
from pvn.learning.checkpoint import read_tensors
from pvn.learning.dagger import ExecutionLearner
from pvn.learning.demonstrations import batch_limits, demonstrate, take_batch
from pvn.learning.descent import model_optimizer, take_step
from pvn.learning.fast_start import FastStart, compiled_sizes, fast_start, try_part
from pvn.learning.fit import STAGE2, draw_selection, measure, train_stage2
from pvn.learning.recipes import Recipe, Stage1Config, Stage2Config, with_changes
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.processes import process_pool
from pvn.simulator.simulator import simulator_for
from pvn.systems import SYSTEMS


def sizes_for(**changes):
    return compiled_sizes(Recipe(name="some", stage1=Stage1Config(frames_per_batch=96, **changes)))


def test_code_is_compiled_for_sizes_that_batches_of_a_corpus_fit(segments, vocabulary, alignment):
    """A prediction every sixth step, and a picture every second, fourth or twelfth: one for every third, or each."""
    assert sizes_for() == (96, 42) and sizes_for(frame_every=4)[1] == 42 and sizes_for(frame_every=12)[1] == 96
    shown = demonstrate([one.demonstration for one in segments], vocabulary, alignment, simulator_for, frame_every=2)
    limits = batch_limits(shown, 96)
    assert limits.frames == 96 and 32 < limits.predictions <= 42
    # A view from above shows everything at once. Of batches of few flights only the usual size is known.
    from_above = Recipe(name="above", stage1=Stage1Config(frames_per_batch=96), overhead_px=16)
    assert compiled_sizes(from_above) == (96, 96)
    assert sizes_for(flights_per_batch=2, frame_every=1) == (48, 11) and sizes_for(flights_per_batch=50)[0] == 96


@pytest.mark.long
@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="needs torch 2.6")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("name", ["pvn", "pvn-plus"])
def test_what_is_compiled_for_made_up_values_is_not_compiled_again_in_training(name, vocabulary, shown):
    """Otherwise a process that compiles ahead would compile something else. Compiled code depends on layouts, too."""
    changes = {"grid": MapGrid(), "camera": shown.simulator.config.camera, "stage1.frames_per_batch": 24}
    recipe = with_changes(SYSTEMS[name].recipe("smoke"), changes | {"stage1.frame_every": 3})
    objective = SYSTEMS[name].begin(recipe, vocabulary).objective.train()
    model = objective.model.to(memory_format=torch.channels_last)
    model.compile_for(*compiled_sizes(recipe))
    limits = replace(batch_limits(shown, 24), frames=model.frames_at_once, predictions=model.maps_at_once)
    optimizer = model_optimizer(model, "AdamW", 1e-3, 1.0, 0.0)
    torch._dynamo.reset()
    counters.clear()
    with torch.compiler.set_stance("default", force_backend="eager"):  # traces, and leaves the C++ compiler alone
        for part in model.compiled_parts():
            try_part(model, part)
        num_compiled = counters["frames"]["ok"]
        assert num_compiled >= len(model.compiled_parts()) == 3
        for step in range(2):
            selection = draw_selection(shown, recipe.stage1, step, torch.tensor([step, 2]), limits)
            take_step(objective, optimizer, take_batch(shown, selection), 5.0)
        assert counters["frames"]["ok"] == num_compiled
        measure(objective, shown, 24)  # in batches that are not padded to these sizes
        assert counters["frames"]["ok"] == num_compiled


@pytest.mark.parametrize("name", ["gsmn", "chaplot"])
def test_parts_of_the_baselines_run_on_made_up_values_too(name, vocabulary):
    recipe = SYSTEMS[name].recipe("smoke")
    model = SYSTEMS[name].begin(recipe, vocabulary).objective.model
    model.frames_at_once = 2
    for part in model.compiled_parts():
        try_part(model, part)
        assert any(parameter.grad is not None for parameter in model.compiled_parts()[part].parameters())


@pytest.mark.long
def test_another_process_trains_the_same_stage_2(segments, tmp_path):
    config = Stage2Config(pretrain_flights=4, pretrain_epochs=1, num_iterations=1, num_environments=1)
    torch.manual_seed(0)
    learner = ExecutionLearner(ExecutionModel(ExecutionConfig()), config)
    with process_pool(1) as pool:
        start = FastStart(worker=pool)
        assert start.submit(train_stage2, learner, segments, tmp_path / "beside", simulator_for, False).result() > 0
    train_stage2(learner, segments, tmp_path, simulator_for, False)
    written, own = (read_tensors(folder / STAGE2) for folder in (tmp_path / "beside", tmp_path))
    assert written.keys() == own.keys() and all(torch.equal(value, written[name]) for name, value in own.items())


def pickled_format():
    return pickle.dumps(torch.channels_last)


def test_another_process_finds_compiled_code_by_the_same_hash():
    """Torch hashes what it pickles; without a name of its own, a memory format has another one in each process."""
    assert pickle.loads(pickled_format()) is torch.channels_last
    with process_pool(1) as pool:
        assert pool.submit(pickle.dumps, torch.channels_last).result() == pickled_format()


def test_on_a_cpu_nothing_goes_on_in_other_processes():
    with fast_start(partial(pytest.fail, "no model is needed"), Recipe(name="some"), torch.device("cpu")) as start:
        assert start == FastStart() and start.submit(pytest.fail, None) is None
        start.wait_until_compiled()


COMPILE = """
import sys
from pathlib import Path

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.geometry import Camera, MapGrid
from pvn.learning.recipes import with_changes
from pvn.systems import SYSTEMS
from pvn.training import train_system
from torch._dynamo.utils import counters

if __name__ == "__main__":
    changes = {"stage1.num_epochs": 1, "stage1.word_steps": 0, "stage1.frames_per_batch": 128, "stage1.frame_every": 2}
    changes |= {"grid": MapGrid(), "camera": Camera()}
    recipe = with_changes(SYSTEMS[sys.argv[2]].recipe("smoke"), changes)
    corpus = make_meadow(bundled_banks(), size=80, seed=0)
    train_system(corpus, SYSTEMS[sys.argv[2]], recipe, Path(sys.argv[1]), stage="1", device="cuda")
    found = counters["inductor"]
    print(found["fxgraph_cache_hit"], found["fxgraph_cache_miss"])
"""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("name", ["pvn-plus", "pvn-full-observation"])
def test_what_other_processes_compiled_is_not_compiled_again(name, tmp_path):
    """The halves of the image encoder, and LingUNet, each forward and backward, from processes without a corpus."""
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "compiled")}
    (tmp_path / "compile.py").write_text(COMPILE, encoding="utf-8")
    command = [sys.executable, str(tmp_path / "compile.py"), str(tmp_path / "run"), name]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[-2:] == ["6", "0"]
