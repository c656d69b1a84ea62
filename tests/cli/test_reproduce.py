"""`pvn reproduce`: steps, what is finished, and the script with the same commands."""

import io
import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from pvn.cli import reproduce
from pvn.cli.reproduce import Reproduce
from pvn.cli.reproduction_folder import ReproductionFolder
from pvn.corpus.store import identity, read_corpus
from pvn.evaluation.paper import TABLE
from pvn.learning.agent import shipped_weights
from pvn.learning.presets import smoke
from pvn.systems import SYSTEMS

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_a_reproduction_is_resumed_and_does_nothing_twice(printed):
    command = "pvn reproduce --out made --preset smoke --size 60 --limit 9 --agent"
    assert "finished" not in printed(f"{command} stop oracle")
    assert {segment.source for segment in read_corpus("made/corpus")} == {"phrases"}, "the table is about phrases"
    flights = Path("made/results/stop_test_9.safetensors")
    written = {
        path: path.stat().st_mtime_ns for path in (*Path("made/results").iterdir(), Path("made/corpus/corpus.json"))
    }
    first = json.loads(Path("made/times.json").read_text())
    # As if it had been killed in between: one summary is missing, one system was never asked for.
    Path("made/results/oracle_test_9.json").unlink()
    text = printed(f"{command} average oracle")
    assert text.count("already finished") == 2
    assert "evaluate oracle test: starts" in text and "evaluate average dev: starts" in text
    kept = [path for path in written if path.name != "oracle_test_9.json"]
    assert all(path.stat().st_mtime_ns == written[path] for path in kept) and flights in kept
    times = json.loads(Path("made/times.json").read_text())["steps"]
    assert times["corpus"] == first["steps"]["corpus"] and times["evaluate average dev"]["seconds"] >= 0
    assert times["evaluate oracle test"]["seconds"] >= first["steps"]["evaluate oracle test"]["seconds"]
    report = Path("made/report.md").read_text()
    assert all(
        f"| {name} | {split} | 9 |" in report for name in ("stop", "average", "oracle") for split in ("dev", "test")
    )
    assert Path("made/figures/success_by_radius.png").exists()


@pytest.mark.long
@pytest.mark.parametrize("name", ["pvn-ideal-act", "pvn-height-0.7"])  # the dot does not begin a suffix
def test_an_agent_flies_once_and_again_after_it_was_trained_again(name, printed):
    command = f"pvn reproduce --out made --preset smoke --size 60 --limit 2 --agent {name}"
    Path("made/runs/pvn").mkdir(parents=True)
    for suffix in (".json", ".safetensors"):
        shutil.copy(shipped_weights("pvn").with_suffix(suffix), Path("made/runs/pvn") / f"agent{suffix}")
    assert f"evaluate {name} dev: starts" in printed(command)
    assert f"| {name} | dev | 2 |" in Path("made/report.md").read_text()
    first = Path(f"made/results/{name}_dev_2.json").stat().st_mtime_ns
    assert f"evaluate {name} dev: already finished" in printed(command)
    description = json.loads(Path("made/runs/pvn/agent.json").read_text())
    del description["description_sha256"]
    Path("made/runs/pvn/agent.json").write_text(json.dumps(description | {"plan_every": 3}))
    os.utime("made/runs/pvn/agent.safetensors")  # as if it had been trained since
    assert f"evaluate {name} dev: starts" in printed(command)
    assert Path(f"made/results/{name}_dev_2.json").stat().st_mtime_ns > first


@pytest.mark.long
def test_runs_of_another_recipe_are_not_mixed_with_those_that_are_left_to_train(run, refused):
    """As when the recipe has changed between two versions, or between two seeds."""
    run("pvn corpus make --size 60 --without natural --out made/corpus")
    command = "pvn reproduce --out made --preset smoke --size 60 --limit 2 --seeds 2 --agent pvn"
    finished = Path("made/runs/pvn")
    finished.mkdir(parents=True)
    for suffix in (".json", ".safetensors"):
        shutil.copy(shipped_weights("pvn").with_suffix(suffix), finished / f"agent{suffix}")
    begun = {"agent": "pvn", "preset": "smoke", "corpus": identity(Path("made/corpus"))}
    recipe = json.loads(json.dumps(asdict(smoke())))
    recipe["stage2"]["pretrain_flights"] = 7
    (finished / "run.json").write_text(json.dumps(begun | {"recipe": recipe}))
    message = refused(command)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--limit 0", "limit: got 0"),
        ("--seeds 0", "seeds: got 0, expected at least 1"),
        ("--preset paper --agent stop", "reproduction with preset smoke"),
        ("--preset smoke --agent stop --size 61", "made with size 60"),
        ("--preset smoke --corpus made/corpus --size 60", "size: got 60 with --corpus"),
        ("--preset smoke --corpus made/corpus", "made/corpus: has no segments in split train"),
        ("--preset smoke --size 60 --agent stop --out elsewhere", "elsewhere: holds a reproduction with another"),
        ("--preset smoke --size 60 --agent stop --out natural", "natural/corpus: has natural instructions, expected"),
    ],
)
def test_what_does_not_belong_together_is_refused(options, message, refused):
    Path("made/corpus").mkdir(parents=True)
    Path("made/times.json").write_text(json.dumps({"preset": "smoke", "steps": {}}))
    manifest = {"version": 1, "name": "meadow", "origin": {"size": 60}, "parts": []}
    Path("made/corpus/corpus.json").write_text(json.dumps(manifest))
    shutil.copytree("made", "elsewhere")
    shutil.copytree("made", "natural")
    more = manifest | {"origin": {"size": 60, "natural": {"train": 15, "dev": 1}}}
    Path("natural/corpus/corpus.json").write_text(json.dumps(more))
    Path("elsewhere/times.json").write_text(json.dumps({"preset": "smoke", "corpus": "of old", "steps": {}}))
    given = options if "--preset" in options else f"--preset smoke --size 60 {options}"
    assert message in refused(f"pvn reproduce {given}" + ("" if "--out" in given else " --out made"))


def test_runs_come_from_the_table_and_lenders_of_a_first_stage_come_first():
    steps = [step.name for step in Reproduce(out=Path("made"), agent=("pvn-no-goal",)).steps()]
    flown = ["evaluate pvn-no-goal dev", "evaluate pvn-no-goal dev by true distributions"]
    assert steps == ["train pvn", "train pvn-no-goal", *flown]
    commands = Reproduce(out=Path("made"), agent=("pvn-half-height", "pvn-no-dagger")).commands()
    assert [line.split()[3] for line in commands if " train " in line] == ["pvn", "pvn-no-dagger"]
    assert commands[2].endswith("--stage1-from made/runs/pvn")


def test_results_of_further_seeds_are_found_in_folders_of_their_own(tmp_path):
    folder = ReproductionFolder(out=tmp_path, corpus=tmp_path / "corpus", preset="smoke", limit=None)
    for name in ("seed2", "seed10", "seeds"):
        (tmp_path / name / "results").mkdir(parents=True)
    (tmp_path / "seed2" / "results" / "pvn_dev.json").write_text("{}")
    further = folder.further_seeds()
    assert set(further) == {2, 10} and further[2].corpus == folder.corpus
    assert further[2].has_results("pvn", "dev") and not further[10].has_results("pvn", "dev")
    assert not folder.has_results("pvn", "dev")


def test_further_seeds_train_and_fly_what_is_close_to_each_other_in_folders_of_their_own():
    once, thrice = (Reproduce(out=Path("made"), seeds=seeds) for seeds in (1, 3))
    steps = [step.name for step in thrice.steps()]
    assert steps[: len(list(once.steps()))] == [step.name for step in once.steps()]
    more = [name.removesuffix(", seed 2") for name in steps if name.endswith(", seed 2")]
    assert [name for name in more if name.startswith("train")] == [
        f"train {name}" for name in ("pvn", "pvn-no-aux", "pvn-no-goal", "pvn-no-dagger")
    ]
    assert {"evaluate pvn test", "evaluate pvn dev", "evaluate pvn-no-aux dev", "evaluate pvn-ideal-act dev"} <= {*more}
    assert not {"evaluate gsmn dev", "evaluate oracle dev", "evaluate pvn-no-instruction dev"} & {*more}
    trained = [line for line in thrice.commands() if " train " in line and "--seed 1" in line]
    assert trained[2].endswith(
        "--out made/seed1/runs/pvn-no-goal --device cpu --seed 1 --stage1-from made/seed1/runs/pvn"
    )
    assert thrice.commands()[-1].endswith("--seeds 3") and len(once.commands()) < len(thrice.commands())


@pytest.mark.long
def test_results_of_several_seeds_are_kept_apart_and_reported_together(printed):
    command = "pvn reproduce --out made --preset smoke --size 60 --limit 2 --agent pvn-double-yaw-rate --seeds 2"
    for folder in (Path("made/runs/pvn"), Path("made/seed1/runs/pvn")):
        folder.mkdir(parents=True)
        for suffix in (".json", ".safetensors"):
            shutil.copy(shipped_weights("pvn").with_suffix(suffix), folder / f"agent{suffix}")
    assert "evaluate pvn-double-yaw-rate dev, seed 1: starts" in printed(command)
    results = [Path(folder) / "results/pvn-double-yaw-rate_dev_2.json" for folder in ("made", "made/seed1")]
    first, second = (json.loads(path.read_text())["sr"]["value"] for path in results)
    assert first == second, "the same weights fly the same flights"
    report = Path("made/report.md").read_text()
    assert f"| pvn-double-yaw-rate | dev | {first:.1f} (" in report.split("## Several training runs")[1]
    assert printed(command).count("already finished") == 6


def test_two_processes_in_one_folder_wait_for_each_other(tmp_path, capsys):
    first, second = (
        ReproductionFolder(out=tmp_path, corpus=tmp_path / "corpus", preset="smoke", limit=None) for _ in range(2)
    )
    order, is_waiting = [], threading.Event()

    def other():
        is_waiting.set()
        with second.locked("train pvn"):
            order.append("second")

    with first.locked("train pvn"):
        thread = threading.Thread(target=other)
        thread.start()
        is_waiting.wait()
        with second.locked("train gsmn"):  # something else need not wait
            order.append("something else")
        order.append("first")
    thread.join()
    assert order == ["something else", "first", "second"]


class _Printed(io.StringIO):
    """What is printed, by any thread; `says` waits for a text."""

    def says(self, text):
        deadline = time.monotonic() + 60
        while text not in self.getvalue():
            assert time.monotonic() < deadline, f"{text!r} was not printed; only {self.getvalue()!r} was"
            time.sleep(0.01)


def test_a_process_that_waits_says_so(tmp_path, monkeypatch):
    folder = ReproductionFolder(out=tmp_path, corpus=tmp_path / "corpus", preset="smoke", limit=None)
    # Not capsys: emptying its buffer while another thread prints can lose what is printed.
    printed = _Printed()
    monkeypatch.setattr(sys, "stdout", printed)

    def other():
        with folder.locked("train pvn"):
            pass

    thread = threading.Thread(target=other)
    with folder.locked("train pvn"):
        thread.start()
        printed.says("train pvn: waiting for another process")
    thread.join()


def test_a_step_is_ready_once_what_it_needs_of_others_is_there(tmp_path):
    reproduction = Reproduce(out=tmp_path, agent=("stop", "pvn", "pvn-no-goal"))
    steps = {step.name: step for step in reproduction.steps()}

    def ready():
        return {name for name, step in steps.items() if step.is_ready()}

    def make(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    first = {"train pvn", "evaluate stop dev", "evaluate stop test"}
    assert ready() == first
    make(reproduction.folder.agent("pvn"))
    of_pvn = {"evaluate pvn dev", "evaluate pvn test", "evaluate pvn dev by true distributions"}
    assert ready() == first | of_pvn | {"train pvn-no-goal"}
    make(reproduction.folder.summary("pvn", "dev"))
    assert ready() == first | of_pvn | {"train pvn-no-goal", "evaluate predictions"}
    make(reproduction.folder.agent("pvn-no-goal"))
    assert ready() == steps.keys()


@pytest.mark.long
def test_a_step_that_another_process_works_on_is_left_to_it_while_others_are_taken(run, monkeypatch):
    run("pvn corpus make --size 60 --without natural --out made/corpus")
    printed = _Printed()
    monkeypatch.setattr(sys, "stdout", printed)
    reproduction = Reproduce(out=Path("made"), preset="smoke", size=60, limit=2, agent=("stop", "pvn-ideal-act"))
    thread, folder = threading.Thread(target=reproduction.take_steps), reproduction.folder
    with folder.locked("evaluate stop test"), folder.locked("train pvn"):
        thread.start()
        printed.says("train pvn: waiting for another process")
        assert [path.stem for path in Path("made/results").glob("*.json")] == ["stop_dev_2"]
        folder.agent("pvn").parent.mkdir(parents=True)
        for suffix in (".json", ".safetensors"):
            shutil.copy(shipped_weights("pvn").with_suffix(suffix), folder.agent("pvn").with_suffix(suffix))
    thread.join()
    # One step was finished by the other process, one was not, and one needed what was finished.
    assert "train pvn: already finished" in printed.getvalue()
    assert "evaluate stop test: starts" in printed.getvalue() and Path("made/results/stop_test_2.json").exists()
    assert "evaluate pvn-ideal-act dev: starts" in printed.getvalue()


def _wait_for(path, text):
    deadline = time.monotonic() + 60
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, f"{text!r} is not in {path}"
        time.sleep(0.01)


@pytest.fixture
def awake(monkeypatch):
    """Set when this process may look again for a step to take; until then its helper may take what is free."""
    awake = threading.Event()
    monkeypatch.setattr(reproduce, "time", SimpleNamespace(sleep=lambda seconds: awake.wait(60)))
    return awake


@pytest.mark.long
def test_several_processes_share_the_steps_and_each_is_taken_once(run, monkeypatch, awake):
    alone = Reproduce(out=Path("alone"), preset="smoke", size=60, limit=9, agent=("stop", "average", "oracle"))
    alone.run()
    printed = _Printed()
    monkeypatch.setattr(sys, "stdout", printed)
    together = replace(alone, out=Path("made"), jobs=2)
    steps = [step.name for step in alone.steps()]
    thread = threading.Thread(target=together.run)
    with ExitStack() as later:
        with ExitStack() as locks:  # nothing is left to take until both processes are there
            for number, step in enumerate(steps):
                (locks if number < 3 else later).enter_context(together.folder.locked(step))
            thread.start()
            printed.says("waiting for another process")
            _wait_for(log := Path("made/logs/job1.log"), "waiting for another process")
        _wait_for(log, ": starts")
        awake.set()
    thread.join()
    taken = [
        {line for line in text.splitlines() if line.endswith(": starts") and "corpus" not in line}
        for text in (printed.getvalue(), log.read_text())
    ]
    assert all(taken) and taken[0].isdisjoint(taken[1])
    assert taken[0] | taken[1] == {f"{step}: starts" for step in steps}
    for path in Path("alone/results").glob("*.json"):
        assert (Path("made/results") / path.name).read_bytes() == path.read_bytes()
    report = Path("made/report.md").read_text()
    assert "--agent stop average oracle --size 60 --limit 9 --jobs 2" in report and "average | test | 9 |" in report


@pytest.mark.long
def test_the_steps_of_a_process_that_fails_are_taken_over(run, monkeypatch, awake):
    run("pvn corpus make --size 60 --without natural --out made/corpus")
    printed = _Printed()
    monkeypatch.setattr(sys, "stdout", printed)
    agents = ("stop", "average", "oracle")
    reproduction = Reproduce(out=Path("made"), preset="smoke", size=60, limit=9, agent=agents, jobs=2)
    thread, log = threading.Thread(target=reproduction.run), Path("made/logs/job1.log")
    with ExitStack() as locks:
        for step in reproduction.steps():
            locks.enter_context(reproduction.folder.locked(step.name))
        thread.start()
        _wait_for(log, "waiting for another process")
    _wait_for(log, ": starts")
    (helper,) = multiprocessing.active_children()
    helper.kill()
    awake.set()
    thread.join()
    assert "job1.log: the process that writes here failed; its steps were taken over" in printed.getvalue()
    assert len(list(Path("made/results").glob("*.json"))) == 6 and Path("made/report.md").exists()


def test_flights_of_an_agent_that_is_trained_again_elsewhere_are_not_taken_for_finished(tmp_path):
    """As when an agent is deleted to be trained again, its results are still there, and two processes set to work."""
    reproduction = Reproduce(out=tmp_path, agent=("pvn",))
    folder, steps = reproduction.folder, {step.name: step for step in reproduction.steps()}
    for path in (folder.summary("pvn", "dev"), *folder.prediction_files("pvn", "dev")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [name for name, step in steps.items() if step.is_ready()] == ["train pvn"]
    assert steps["evaluate predictions"].is_finished(), "and it can be asked without an agent"


@pytest.mark.long
def test_nothing_waits_for_what_nobody_works_on(refused):
    Path("made/runs/pvn").mkdir(parents=True)
    for suffix in (".json", ".safetensors"):
        shutil.copy(shipped_weights("pvn").with_suffix(suffix), Path("made/runs/pvn") / f"agent{suffix}")
    tomorrow = time.time() + 86400
    os.utime("made/runs/pvn/agent.safetensors", (tomorrow, tomorrow))  # so its flights always seem to be older
    text = refused("pvn reproduce --out made --preset smoke --size 60 --limit 2 --agent pvn")
    assert "evaluate predictions: what it needs is not in made" in text and "give the same command again" in text


def test_when_steps_ran_is_noted_unless_an_earlier_version_did_not(tmp_path):
    folder = ReproductionFolder(out=tmp_path, corpus=tmp_path / "corpus", preset="smoke", limit=None)
    folder.times.write_text(json.dumps({"preset": "smoke", "steps": {"old": {"seconds": 5.0, "machine": "box"}}}))
    for name in ("old", "new", "new"):
        with folder.timed(name, "cpu"):
            time.sleep(0.06)
    old, new = (json.loads(folder.times.read_text())["steps"][name] for name in ("old", "new"))
    assert old["seconds"] >= 5.0 and "spans" not in old
    assert [ended > began for began, ended in new["spans"]] == [True, True] and new["seconds"] >= 0.1


def test_the_script_is_the_recipe_of_the_verb():
    lines = (ROOT / "runs/reproduce.sh").read_text().splitlines()
    commands = Reproduce(out=Path("reproduction"), device="cuda").commands()
    assert tuple(line for line in lines if line.startswith("pvn ")) == commands
