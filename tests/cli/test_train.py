"""`pvn train`: recipes as options, runs that resume, and agents that fly."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow
from pvn.corpus.store import identity, write_corpus
from pvn.systems import SYSTEMS

STAGE1 = "--stage1.num-epochs 1 --stage1.word-steps 2 --stage1.measured-flights 2"
STAGE2 = "--stage2.num-iterations 1 --stage2.pretrain-flights 4 --stage2.num-environments 1"
IMITATION = f"{STAGE1} --stage2.num-iterations 1 --stage2.num-environments 1 --stage2.memory 4"


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A corpus of a dozen segments, on which a recipe cut short takes seconds. Do not change it."""
    folder = tmp_path_factory.mktemp("stored") / "tiny"
    corpus = make_meadow(bundled_banks(), size=20)
    write_corpus(replace(corpus, splits={**corpus.splits, "train": corpus["train"][:6]}), folder)
    return folder


@pytest.fixture
def tiny(tiny_folder, in_an_empty_folder):
    Path("tiny").symlink_to(tiny_folder)
    return tiny_folder


def read(path):
    return json.loads(Path(path).read_text())


def test_help_shows_the_recipe_of_the_preset_and_of_the_agent(help_text):
    text = help_text("pvn train --preset smoke")
    assert "--stage1.num-epochs INT Passes over the training segments. (default: 6)" in text
    assert "(default: 40)" in help_text("pvn train"), "the paper preset's epochs"
    assert "--stage1.losses.landmark-weight FLOAT" in text
    no_aux = help_text("pvn train --agent pvn-no-aux")
    assert re.search(r"--stage1.losses.landmark-weight FLOAT [^)]*\([^)]*\)[^)]*\(default: 0.0\)", no_aux)
    gsmn = help_text("pvn train --agent gsmn")
    assert "--stage2.beta FLOAT" in gsmn and "--stage1.losses.auxiliary-weight FLOAT" in gsmn
    for part in ("--sizes.", "--execution.", "--stage1.losses.landmark-weight", "--stage2.pretrain-flights"):
        assert part in text and part not in gsmn, "a baseline is shown no options of PVN's"


@pytest.mark.long
def test_a_run_without_a_corpus_makes_its_own_and_resumes_with_it(in_an_empty_folder, run, refused):
    options = f"--agent pvn-plus --preset smoke --text.size 20 --text.narrated 2 --stage 2 {STAGE2}"
    run(f"pvn train --out run {options}")
    made = identity(Path("run/corpus"))
    assert read("run/run.json")["corpus"] is None and read("run/training.json")["segments"] == 14 + 2
    run(f"pvn train --out run {options} --resume")
    assert identity(Path("run/corpus")) == made
    assert "text.narrated: got 3, but the run in run was begun with 2" in refused(
        f"pvn train --out run {options.replace('narrated 2', 'narrated 3')} --resume"
    )


@pytest.mark.long
def test_overrides_reach_the_training_and_are_written_down(tiny, run):
    options = f"--agent pvn-no-goal --preset smoke --seed 3 --stage 2 {STAGE2} --stage2.beta 0.9"
    run(f"pvn train --corpus tiny --out run {options}")
    written = read("run/run.json")
    base = SYSTEMS["pvn-no-goal"].recipe("smoke").with_seed(3)
    assert (written["agent"], written["preset"], written["corpus"]) == ("pvn-no-goal", "smoke", identity(tiny))
    assert written["overrides"] == {
        "stage2.num_iterations": 1,
        "stage2.pretrain_flights": 4,
        "stage2.num_environments": 1,
        "stage2.beta": 0.9,
    }
    recipe = written["recipe"]
    assert recipe["stage1"] == json.loads(json.dumps(asdict(base.stage1))) and recipe["stage1"]["seed"] == 3
    assert recipe["stage2"]["beta"] == 0.9 and recipe["stage2"]["seed"] == 3
    assert recipe["execution"]["uses_goal"] is False and read("run/training.json")["recipe"] == recipe


@pytest.mark.long
@pytest.mark.parametrize(("agent", "options"), [("pvn", f"{STAGE1} {STAGE2}"), ("gsmn", IMITATION)])
def test_what_was_trained_resumes_and_flies(agent, options, tiny, printed, refused):
    command = f"pvn train --agent {agent} --preset smoke --corpus tiny --out run --device cpu --min-count 1 {options}"
    assert "agent: run/agent.safetensors" in printed(command)
    assert "already holds a training run; resume it with --resume" in refused(command)
    before = Path("run/agent.safetensors").read_bytes()
    printed(f"{command} --resume")
    assert Path("run/agent.safetensors").read_bytes() == before, "there was nothing left to train"
    (row,) = json.loads(
        printed("pvn evaluate --agent run/agent.safetensors --corpus tiny --split train --limit 1 --json")
    )
    assert row["system"] == "run"


@pytest.mark.long
def test_the_first_stage_of_another_run_is_taken(tiny, run):
    run(f"pvn train --preset smoke --corpus tiny --out first --stage 1 {STAGE1}")
    run(f"pvn train --agent pvn-no-dagger --preset smoke --corpus tiny --out second --stage1-from first {STAGE2}")
    assert Path("second/stage1.safetensors").read_bytes() == Path("first/stage1.safetensors").read_bytes()
    assert Path("second/agent.safetensors").exists()


@pytest.fixture(scope="session")
def other_folder(tmp_path_factory):
    """Another corpus. Do not change it."""
    folder = tmp_path_factory.mktemp("stored") / "other"
    write_corpus(make_meadow(bundled_banks(), size=20, seed=2), folder, {"seed": 2})
    return folder


@pytest.fixture
def begun(tiny, other_folder):
    """A run that was begun, and what it was begun with; and another corpus."""
    Path("run").mkdir()
    recipe = json.loads(json.dumps(asdict(SYSTEMS["pvn"].recipe("smoke"))))
    content = {
        "version": 1,
        "agent": "pvn",
        "preset": "smoke",
        "corpus": identity(tiny),
        "recipe": recipe,
        "overrides": {},
    }
    Path("run/run.json").write_text(json.dumps(content))
    Path("other").symlink_to(other_folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--agent pvn-no-dagger --resume", "agent: got pvn-no-dagger, but the run in run was begun with 'pvn'"),
        ("--preset paper --resume", "preset: got paper, but the run in run was begun with 'smoke'"),
        ("--corpus other --resume", "corpus: got other, but the run in run was begun with another one"),
        ("--stage2.beta 0.5 --resume", "stage2.beta: got 0.5, but the run in run was begun with 0.92; resume it with"),
        ("--seed 4 --resume", "stage1.seed: got 4, but the run in run was begun with 0"),
        ("--agent pvn-no-aux --stage1-from elsewhere", "expected it only for pvn, pvn-no-goal, pvn-no-dagger"),
        ("--stage 1 --stage1-from elsewhere", "stage: got 1 with --stage1-from"),
        ("--stage1-from elsewhere --stage1.num-epochs 2", "stage1.num_epochs: got 2 with --stage1-from"),
        ("--agent gsmn --resume", "agent: got gsmn, but the run in run was begun with 'pvn'"),
        ("--execution.grid.size 32", "execution.grid: both stages share one grid; set it with --grid.size"),
        ("--corpus nowhere", "no corpus in nowhere"),
    ],
)
def test_what_does_not_belong_together_is_refused(options, message, begun, refused):
    given = f"--corpus tiny --preset smoke --out run {options}"
    for name in ("corpus", "preset"):  # the last one counts, and no option is given twice
        if f"--{name} " in options:
            given = re.sub(rf"--{name} \S+ ", "", given, count=1)
    assert message in refused(f"pvn train {given}")


def test_a_run_begun_by_another_version_is_not_resumed(begun, refused):
    content = read("run/run.json")
    del content["version"]
    Path("run/run.json").write_text(json.dumps(content))
    message = refused("pvn train --preset smoke --corpus tiny --out run --resume")
    assert "run/run.json: got version None, expected 1; train from the start" in message


@pytest.mark.parametrize("agent", ["pvn", "gsmn"])
def test_help_says_something_about_every_field_of_the_recipe(agent, help_text):
    text = help_text(f"pvn train --agent {agent}")
    bare = re.findall(r"(--[\w.-]+)(?:, --[\w.-]+)?(?: (?:\{None\}\|)?[A-Z]+)? \(default", text)
    assert bare == []
