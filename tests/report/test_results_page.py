"""The report beside the paper's table, its figures, and the reproduction that leads to it."""

import json
import math
import os
import shlex
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from torch.utils.tensorboard import SummaryWriter

from pvn.cli import main
from pvn.cli.reproducing import Reproduce
from pvn.corpus.meadow.generator import sample_paragraph
from pvn.evaluation.flights import flights_of
from pvn.evaluation.intervals import Figure
from pvn.evaluation.metrics import measure
from pvn.evaluation.paper import ANALYSED, COMPARED, GAP, PAPER, TABLE, compare_orderings, run_of
from pvn.evaluation.summary import Summary, summarise
from pvn.evaluation.systems import make_system
from pvn.geometry import MapGrid
from pvn.report.curves import draw_learning, draw_success_by_radius, read_curves
from pvn.report.illustrations import illustrate_flights
from pvn.report.results_page import Provenance, StepTime, describe_machine, write_report
from pvn.rollout.flight import fly, simulator_for
from pvn.viz.paper_figures import REACH, SIZE_PX, lay_over_field

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def segments():
    return sample_paragraph(seed=3)


@pytest.fixture(scope="module")
def flown(segments):
    """A made-up summary: flights that went as shown."""
    paths = [segment.task.path for segment in segments]
    metrics = measure(paths, [True] * len(paths), [segment.task for segment in segments])
    return summarise("oracle", "test", metrics, segments)


def made_up(flown, system, split, low, high, environments=50):
    rate = Figure((low + high) / 2, low, high)
    return replace(
        flown, system=system, split=split, overall=replace(flown.overall, sr=rate, environments=environments)
    )


PROVENANCE = Provenance(
    preset="smoke",
    corpus="the corpus in the box",
    commands=("pvn corpus make --out corpus",),
    seeds={"corpus": 7},
    times={"corpus": StepTime(75, "box")},
)


def test_the_papers_table_is_as_printed():
    assert len(PAPER) == 15 and PAPER["pvn", "test"].sr == 41.21 and PAPER["pvn-full-observation", "dev"].sr == 60.59
    assert round(PAPER["pvn", "test"].sr - PAPER["gsmn", "test"].sr, 2) == 16.85  # as in its abstract
    assert len(TABLE) == 2 * len(COMPARED) + len(ANALYSED) == 20
    assert [run_of(name) for name in ("stop", "gsmn", "pvn-half-height", "pvn-no-aux")] == [
        None, "gsmn", "pvn", "pvn-no-aux",
    ]  # fmt: skip


def test_a_summary_is_read_back_as_it_was_written(flown):
    again = Summary.from_json(json.loads(json.dumps(flown.to_json())))
    assert again == flown


def test_orderings_hold_only_where_intervals_are_apart(flown):
    found = compare_orderings(
        [
            made_up(flown, "pvn", "test", 40, 44),
            made_up(flown, "gsmn", "test", 43, 47),
            made_up(flown, "chaplot", "test", 30, 35),
            made_up(flown, "average", "test", 36, 39),
            made_up(flown, "pvn", "dev", 10, 12),
            made_up(flown, "stop", "dev", 1, 2),
        ]
    )
    told = {(ordering.better, ordering.worse): ordering for ordering in found}
    assert all(ordering.paper_gap > GAP and ordering.split == "test" for ordering in found)
    assert told["pvn", "gsmn"].verdict == "too close to tell" and math.isclose(told["pvn", "gsmn"].gap, -3)
    assert told["pvn", "chaplot"].verdict == "holds" and told["chaplot", "average"].verdict == "reversed"
    assert told["gsmn", "chaplot"].verdict == "holds" and len(found) == 6
    alone = [made_up(flown, name, "test", at, at, environments=1) for name, at in (("pvn", 50), ("stop", 5))]
    assert [ordering.verdict for ordering in compare_orderings(alone)] == ["too close to tell"]


def test_the_report_tells_results_orderings_and_where_they_come_from(flown, tmp_path):
    summaries = [
        made_up(flown, "pvn", "dev", 50, 54),
        made_up(flown, "pvn", "test", 40, 44),
        made_up(flown, "stop", "test", 45, 49),
        made_up(flown, "pvn-no-aux", "dev", 30, 34),
    ]
    write_report(tmp_path / "report.md", summaries, PROVENANCE)
    text = (tmp_path / "report.md").read_text()
    assert "| pvn | test | 5 | 42.0 (40.0 to 44.0) | 41.21 |" in text
    assert text.index("| stop | test |") < text.index("| pvn | test |") < text.index("| pvn | dev |")
    assert "Of 2 orders 1 hold, 0 are too close to tell, 1 are reversed." in text
    assert "| pvn | stop | test | +35.5 | -5.0 | **reversed** |" in text
    assert "| pvn | pvn-no-aux | dev | +9.7 | +20.0 | yes |" in text
    assert "pvn corpus make --out corpus" in text and "corpus 7" in text and "1 min 15 s" in text and "* box" in text
    assert "torch" in describe_machine()


def test_a_map_lies_over_the_field_where_it_belongs():
    grid = MapGrid()
    maps = torch.zeros(1, grid.size, grid.size)
    row, column = grid.cells(torch.tensor([10.0, 5.0])).round().int().tolist()  # ahead of the start, and to its left
    maps[0, row, column] = 1
    laid = lay_over_field(maps, (20.0, 10.0, math.pi / 2), grid)[..., 0]  # looking north: north and west of it
    y, x = np.unravel_index(laid.argmax(), laid.shape)
    metre = (REACH[1] - REACH[0]) / SIZE_PX
    at = REACH[0] + (x + 0.5) * metre, REACH[1] - (y + 0.5) * metre
    assert math.dist(at, (15, 20)) < 1.6


def test_the_reports_evolution_and_gallery_are_drawn(segments, tmp_path):
    system = make_system("pvn")
    tasks = [segment.task for segment in segments]
    flights = flights_of(fly(simulator_for(tasks, config=system.config), tasks, system.policy))
    for illustration in illustrate_flights(tmp_path, segments, flights, system):
        assert illustration.path.with_suffix(".pdf").name in illustration.caption
        assert illustration.path.with_suffix(".pdf").exists() and imread(illustration.path).std() > 0.1


def test_curves_are_read_from_logs_and_drawn(flown, tmp_path):
    for steps in (range(0, 60), range(40, 100)):  # the second goes on from a checkpoint before the first's end
        writer = SummaryWriter(str(tmp_path / "logs"), filename_suffix=f".{steps.start}")
        for step in steps:
            writer.add_scalar("stage1/loss", steps.start + 1 / (1 + step), step)
        writer.close()
    curve = read_curves(tmp_path / "logs")["stage1/loss"]
    assert curve[:, 0].tolist() == list(range(100)) and curve[50, 1] > 40 > curve[39, 1]
    draw_learning(tmp_path / "learning.png", {"pvn": {"stage1/loss": curve}}, COMPARED)
    draw_success_by_radius(tmp_path / "radius.png", [flown, made_up(flown, "pvn", "dev", 1, 2)], COMPARED)
    assert (tmp_path / "learning.png").exists() and (tmp_path / "radius.png").exists()


def test_a_reproduction_is_resumed_and_does_nothing_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = "reproduce --out made --preset smoke --size 60 --limit 9 --systems"
    main(shlex.split(f"{command} stop oracle"))
    assert "finished" not in capsys.readouterr().out
    flights = Path("made/results/stop_test_9.safetensors")
    written = {
        path: path.stat().st_mtime_ns for path in (*Path("made/results").iterdir(), Path("made/corpus/corpus.json"))
    }
    first = json.loads(Path("made/times.json").read_text())
    # As if it had been killed in between: one summary is missing, one system was never asked for.
    Path("made/results/oracle_test_9.json").unlink()
    main(shlex.split(f"{command} average oracle"))
    out = capsys.readouterr().out
    assert out.count("finished before") == 2 and "oracle test: begins" in out and "average dev: begins" in out
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--systems pvn-no-axu", "did you mean pvn-no-aux"),
        ("--limit 0", "limit: got 0"),
        ("--preset paper --systems stop", "reproduction with preset smoke"),
        ("--preset smoke --systems stop --size 61", "made with size 60"),
        ("--preset smoke --corpus made/corpus --size 60", "size: got 60 with --corpus"),
        ("--preset smoke --corpus made/corpus", "made/corpus: has no segments in split train"),
        ("--preset smoke --size 60 --systems stop --out elsewhere", "elsewhere: holds a reproduction with another"),
    ],
)
def test_a_reproduction_says_what_is_wrong(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("made/corpus").mkdir(parents=True)
    Path("made/times.json").write_text(json.dumps({"preset": "smoke", "steps": {}}))
    manifest = {"version": 1, "name": "meadow", "origin": {"size": 60}, "parts": []}
    Path("made/corpus/corpus.json").write_text(json.dumps(manifest))
    shutil.copytree("made", "elsewhere")
    Path("elsewhere/times.json").write_text(json.dumps({"preset": "smoke", "corpus": "of old", "steps": {}}))
    given = options if "--preset" in options else f"--preset smoke --size 60 {options}"
    with pytest.raises(SystemExit):
        main(shlex.split(f"reproduce {given}" + ("" if "--out" in given else " --out made")))
    assert message in capsys.readouterr().err


def test_an_agent_that_was_trained_anew_flies_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "reproduce --out made --preset smoke --size 60 --limit 2 --systems pvn-ideal-act"
    weights = ROOT / "pvn" / "weights"
    Path("made/runs/pvn").mkdir(parents=True)
    for suffix in (".json", ".safetensors"):
        shutil.copy(weights / f"pvn{suffix}", Path("made/runs/pvn") / f"agent{suffix}")
    main(shlex.split(command))
    first = Path("made/results/pvn-ideal-act_dev_2.json").stat().st_mtime_ns
    description = json.loads(Path("made/runs/pvn/agent.json").read_text())
    Path("made/runs/pvn/agent.json").write_text(json.dumps(description | {"plan_every": 3}))
    os.utime("made/runs/pvn/agent.safetensors")  # as if it had been trained since
    main(shlex.split(command))
    assert Path("made/results/pvn-ideal-act_dev_2.json").stat().st_mtime_ns > first


def test_two_processes_in_one_folder_wait_for_each_other(tmp_path, capsys):
    first, second = Reproduce(out=tmp_path), Reproduce(out=tmp_path)
    order = []

    def other():
        with second._alone("train pvn"):
            order.append("second")

    with first._alone("train pvn"):
        thread = threading.Thread(target=other)
        thread.start()
        with second._alone("train gsmn"):  # something else need not wait
            order.append("something else")
        thread.join(0.5)
        order.append("first")
    thread.join(20)
    assert order == ["something else", "first", "second"]
    assert "train pvn: another process is at it" in capsys.readouterr().out


def test_the_script_is_the_recipe_of_the_verb():
    lines = (ROOT / "runs/reproduce.sh").read_text().splitlines()
    commands = Reproduce(out=Path("reproduction"), device="cuda").commands()
    assert tuple(line for line in lines if line.startswith("pvn ")) == commands


def test_the_published_results_say_what_their_files_say(tmp_path):
    folder = ROOT / "docs" / "results"
    files = [folder / f"{name}_{split}.json" for name, split in TABLE]
    summaries = [Summary.from_json(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    write_report(tmp_path / "report.md", summaries, PROVENANCE)
    computed, _, _ = (tmp_path / "report.md").read_text(encoding="utf-8").partition("## How these came about")
    published = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in computed.splitlines() if line.startswith("|")]
    assert len(rows) > 100
    assert [row for row in rows if row not in published] == []
    counted = next(line for line in computed.splitlines() if line.startswith("Pairs of systems"))
    assert counted in published
