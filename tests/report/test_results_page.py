"""The report beside the paper's table."""

import json
from pathlib import Path

import pytest

from pvn.evaluation.paper import TABLE
from pvn.evaluation.summary import Summary
from pvn.report.illustrations import Illustration
from pvn.report.results_page import Provenance, StepTime, describe_machine, write_report

ROOT = Path(__file__).parent.parent.parent
PROVENANCE = Provenance(
    preset="smoke",
    corpus="the bundled corpus",
    commands=("pvn corpus make --out corpus",),
    seeds={"corpus": 7},
    times={"corpus": StepTime(75, "box")},
)


@pytest.fixture
def report(with_rate, tmp_path):
    """A report on four results, with one figure."""
    summaries = [
        with_rate("pvn", "dev", 50, 54),
        with_rate("pvn", "test", 40, 44),
        with_rate("stop", "test", 45, 49),
        with_rate("pvn-no-aux", "dev", 30, 34),
    ]
    figure = Illustration("A figure", tmp_path / "figures" / "one.png", "What it shows.")
    write_report(tmp_path / "report.md", summaries, PROVENANCE, [figure])
    return (tmp_path / "report.md").read_text(encoding="utf-8")


def test_results_stand_beside_the_papers_in_its_order(report):
    assert "| pvn | test | 5 | 42.0 (40.0 to 44.0) | 41.21 |" in report
    assert report.index("| stop | test |") < report.index("| pvn | test |") < report.index("| pvn | dev |")


def test_orders_that_hold_and_orders_that_are_reversed_are_counted(report):
    assert "Of 2 orders 1 hold, 0 are too close to tell, 1 are reversed." in report
    assert "| pvn | stop | test | +35.5 | -5.0 | **reversed** |" in report
    assert "| pvn | pvn-no-aux | dev | +9.7 | +20.0 | yes |" in report


def test_the_report_says_how_its_results_were_obtained(report):
    for part in ("pvn corpus make --out corpus", "corpus 7", "| corpus | 1 min 15 s |", "* box"):
        assert part in report
    assert "torch" in describe_machine() and "\n" not in describe_machine()


def test_figures_are_named_relative_to_the_report(report):
    assert "## A figure\n\n![A figure](figures/one.png)\n\nWhat it shows." in report


def test_results_of_one_system_have_no_orders(with_rate, tmp_path):
    write_report(tmp_path / "report.md", [with_rate("pvn", "test", 40, 44)], PROVENANCE)
    assert "No two systems that the paper tells apart were flown." in (tmp_path / "report.md").read_text()


def test_the_published_results_say_what_their_files_say(tmp_path):
    folder = ROOT / "docs" / "results"
    files = [folder / f"{name}_{split}.json" for name, split in TABLE]
    summaries = [Summary.from_json(json.loads(path.read_text(encoding="utf-8"))) for path in files]
    write_report(tmp_path / "report.md", summaries, PROVENANCE)
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    computed, _, _ = report.partition("## How these results were obtained")
    published = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in computed.splitlines() if line.startswith("|")]
    assert len(rows) > 100
    assert [row for row in rows if row not in published] == []
    counted = next(line for line in computed.splitlines() if line.startswith("Pairs of systems"))
    assert counted in published
