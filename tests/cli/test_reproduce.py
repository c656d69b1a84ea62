"""`pvn reproduce`: its steps, what is finished, and the script with the same commands."""

import json
import os
import shlex
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from pvn.cli.reproduce import Reproduce
from pvn.corpus.store import VERSION, identity, read_corpus
from pvn.evaluation.comparison import TABLE
from pvn.evaluation.summary import read_summaries
from pvn.files import json_digest
from pvn.learning.recipes import smoke
from pvn.systems import SYSTEMS, shipped_weights

ROOT = Path(__file__).parents[2]
FAKE_PVN = """#!/bin/sh
[ "$1" = reproduce ] || echo "$@" >> "$LOG"
"""


def put_agent(folder):
    """The shipped PVN as a finished run has it."""
    folder.mkdir(parents=True)
    for suffix in (".json", ".safetensors"):
        shutil.copy(shipped_weights("pvn").with_suffix(suffix), folder / f"agent{suffix}")


@pytest.mark.long
def test_a_reproduction_is_resumed_and_does_nothing_twice(printed):
    command = "pvn reproduce --out made --preset smoke --size 60 --limit 9 --agent"
    assert "finished" not in printed(f"{command} stop oracle")
    assert {segment.source for segment in read_corpus("made/corpus")} == {"phrases"}, "the table is about phrases"
    written = {
        path: path.stat().st_mtime_ns for path in (*Path("made/results").iterdir(), Path("made/corpus/corpus.json"))
    }
    first = json.loads(Path("made/times/corpus.json").read_text())
    # As if it had been killed in between: one summary is missing, one system was never asked for.
    Path("made/results/oracle_test_9.json").unlink()
    Path("made/times/.evaluate_oracle_test.host.7.partial.json").write_text("{")
    text = printed(f"{command} average oracle")
    assert text.count("already finished") == 2
    assert "evaluate oracle test: starts" in text and "evaluate average dev: starts" in text
    same = [path for path in written if path.name != "oracle_test_9.json"]
    assert all(path.stat().st_mtime_ns == written[path] for path in same)
    assert Path("made/results/stop_test_9.safetensors") in same
    assert json.loads(Path("made/times/corpus.json").read_text()) == first
    report = Path("made/report.md").read_text()
    names = [(name, split) for name in ("stop", "average", "oracle") for split in ("dev", "test")]
    assert all(f"| {name} | {split} | 9 |" in report for name, split in names)
    assert Path("made/figures/success_by_radius.png").exists()
    results = read_summaries(Path("made/results.json.xz"))
    assert sorted(results) == sorted("_".join(row) for row in names)


@pytest.mark.long
@pytest.mark.parametrize("name", ["pvn-ideal-act", "pvn-height-0.7"])  # the dot does not begin a suffix
def test_an_agent_flies_once_and_again_after_it_was_trained_again(name, printed):
    command = f"pvn reproduce --out made --preset smoke --size 60 --limit 2 --agent {name}"
    put_agent(Path("made/runs/pvn"))
    assert f"evaluate {name} dev: starts" in printed(command)
    assert f"| {name} | dev | 2 |" in Path("made/report.md").read_text()
    first = Path(f"made/results/{name}_dev_2.json").stat().st_mtime_ns
    assert f"evaluate {name} dev: already finished" in printed(command)
    description = json.loads(Path("made/runs/pvn/agent.json").read_text())
    description["plan_every"] = 3
    description["description_sha256"] = json_digest(description, without="description_sha256")
    Path("made/runs/pvn/agent.json").write_text(json.dumps(description))
    os.utime("made/runs/pvn/agent.safetensors")  # as if it had been trained since
    assert f"evaluate {name} dev: starts" in printed(command)
    assert Path(f"made/results/{name}_dev_2.json").stat().st_mtime_ns > first


@pytest.mark.long
def test_runs_of_another_recipe_are_not_mixed_with_those_that_are_left_to_train(run, refused):
    """As when the recipe has changed between two versions, or between two seeds."""
    run("pvn corpus make --size 60 --without natural --out made/corpus")
    put_agent(Path("made/runs/pvn"))
    begun = {"version": 1, "agent": "pvn", "preset": "smoke", "corpus": identity(Path("made/corpus"))}
    recipe = json.loads(json.dumps(asdict(smoke())))
    recipe["stage2"]["pretrain_flights"] = 7
    Path("made/runs/pvn/run.json").write_text(json.dumps(begun | {"recipe": recipe}))
    message = refused("pvn reproduce --out made --preset smoke --size 60 --limit 2 --seeds 2 --agent pvn")
    assert "stage2.pretrain_flights: got 300, but the run in made/runs/pvn was begun with 7" in message
    assert not Path("made/seed1").exists()


@pytest.mark.slow
def test_the_smoke_reproduction_makes_the_whole_table(printed):
    text = printed("pvn reproduce --out made --preset smoke --size 600 --limit 2 --device cpu")
    rows = {name: SYSTEMS[name].run for name, _ in TABLE}
    assert all(f"train {name}: starts" in text for name in set(rows.values()) - {None})
    assert "evaluate predictions: starts" in text and "evaluate pvn-no-goal dev by true distributions: starts" in text
    report = Path("made/report.md").read_text()
    assert all(f"| {name} | dev | 2 |" in report for name in rows)


def write_manifest(folder, origin):
    """A corpus without any segment."""
    content = {"version": VERSION, "name": "meadow", "origin": origin, "parts": []}
    content["sha256"] = json_digest(content, without="sha256")
    Path(folder, "corpus", "corpus.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--limit 0", "limit: got 0"),
        ("--seeds 0", "seeds: got 0, expected at least 1"),
        ("--preset paper --agent stop", "reproduction with preset smoke"),
        ("--preset smoke --agent stop --size 61", "made with size 60, expected size 61"),
        ("--preset smoke --corpus made/corpus --size 60", "size: got 60 with --corpus"),
        ("--preset smoke --corpus made/corpus", "made/corpus: has no segments in split train"),
        ("--preset smoke --size 60 --agent stop --out elsewhere", "elsewhere: holds a reproduction with another"),
        ("--preset smoke --size 60 --agent stop --out natural", "made with size 60 and natural instructions"),
    ],
)
def test_what_does_not_belong_together_is_refused(options, message, refused):
    Path("made/corpus").mkdir(parents=True)
    Path("made/reproduction.json").write_text(json.dumps({"preset": "smoke"}))
    write_manifest("made", {"size": 60})
    for name in ("elsewhere", "natural"):
        shutil.copytree("made", name)
    write_manifest("natural", {"size": 60, "natural": {"train": 15, "dev": 1}})
    Path("elsewhere/reproduction.json").write_text(json.dumps({"preset": "smoke", "corpus": "another"}))
    given = options if "--preset" in options else f"--preset smoke --size 60 {options}"
    assert message in refused(f"pvn reproduce {given}" + ("" if "--out" in given else " --out made"))


def test_runs_come_from_the_table_and_lenders_of_a_first_stage_come_first():
    steps = [step.name for step in Reproduce(out=Path("made"), agent=("pvn-no-goal",)).steps()]
    flights = ["evaluate pvn-no-goal dev", "evaluate pvn-no-goal dev by true distributions"]
    assert steps == ["corpus", "train pvn", "train pvn-no-goal", *flights]
    commands = Reproduce(out=Path("made"), agent=("pvn-half-height", "pvn-no-dagger")).commands()
    trainings = [line for line in commands if " train " in line]
    assert len(trainings) == 2 and "--stage1-from made/runs/pvn" in trainings[1]


def test_further_seeds_train_and_fly_what_is_close_to_each_other_in_folders_of_their_own():
    once, thrice = (list(Reproduce(out=Path("made"), seeds=seeds).steps()) for seeds in (1, 3))
    assert {step.name for step in once} < {step.name for step in thrice}
    more = [step for step in thrice if step.name.endswith(", seed 2")]
    assert [step.name.split()[1].strip(",") for step in more if step.name.startswith("train")] == [
        "pvn", "pvn-no-aux", "pvn-no-goal", "pvn-no-dagger",
    ]  # fmt: skip
    results = {step.result for step in more}
    assert {"seed2/pvn_test", "seed2/pvn_dev", "seed2/pvn-no-aux_dev", "seed2/pvn-ideal-act_dev"} <= results
    assert not {"seed2/gsmn_dev", "seed2/oracle_dev", "seed2/pvn-no-instruction_dev"} & results
    assert all(step.output.is_relative_to("made/seed2") and getattr(step.verb, "seed", 2) == 2 for step in more)


@pytest.mark.long
def test_results_of_several_seeds_are_reported_together(printed):
    command = "pvn reproduce --out made --preset smoke --size 60 --limit 2 --agent pvn-double-yaw-rate"
    for folder in ("made/runs/pvn", "made/seed1/runs/pvn"):
        put_agent(Path(folder))
    assert "evaluate pvn-double-yaw-rate dev, seed 1: starts" in printed(f"{command} --seeds 2")
    results = read_summaries(Path("made/results.json.xz"))
    first, second = (results[f"{folder}pvn-double-yaw-rate_dev"] for folder in ("", "seed1/"))
    assert first == second, "the same weights fly the same flights"
    printed(command)  # the report has all seeds that are there
    rate = first.overall.sr.value
    report = Path("made/report.md").read_text()
    assert f"| pvn-double-yaw-rate | dev | {rate:.1f} (" in report.split("## Several training runs")[1]


def words_of(command):
    """A command's options with their values, in any order."""
    name, *options = shlex.join(shlex.split(command)).split(" --")
    return (name.removeprefix("pvn "), *sorted(options))


def test_the_script_has_the_commands_of_the_verb(tmp_path):
    pvn, log = tmp_path / "pvn", tmp_path / "log"
    pvn.write_text(FAKE_PVN)
    pvn.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(log), "JOBS": "3"}
    environment |= {"PRESET": "quick", "OUT": "made"}
    subprocess.run(["bash", ROOT / "runs" / "reproduce.sh"], env=environment, check=True)
    commands = Reproduce(out=Path("made"), preset="quick", device="cuda").commands()[:-1]
    defaults = {"split dev", "size 27965", "agent pvn"}
    script, verb = (
        sorted((words[0], *(word for word in words[1:] if word not in defaults)) for words in map(words_of, lines))
        for lines in (log.read_text().splitlines(), commands)
    )
    assert script == verb
