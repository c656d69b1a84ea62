"""The report beside the paper's table."""

from dataclasses import replace

import pytest

from pvn.viz.illustrations import Illustration
from pvn.viz.results_page import Provenance, describe_machine, write_report

PROVENANCE = Provenance(
    preset="smoke",
    corpus="the bundled corpus",
    commands=("pvn corpus make --out corpus",),
    seeds={"corpus": 7},
    seconds={"corpus": 75, "train pvn": 9.6},
    machines={"box": ["corpus", "train pvn"]},
    num_training=19_758,
)


def by_name(*summaries, seed=0):
    return {f"seed{seed}/" * (seed > 0) + f"{one.system}_{one.split}": one for one in summaries}


@pytest.fixture
def report(with_rate, tmp_path):
    """Writes a report on some results, and reads it."""

    def write(results, *illustrations):
        write_report(tmp_path / "report.md", results, PROVENANCE, illustrations)
        return (tmp_path / "report.md").read_text(encoding="utf-8")

    return write


def reaching(summary, *fields):
    """The same system with other flights: whether each flight of each field reached its goal."""
    rate = 100 * sum(map(sum, fields)) / sum(map(len, fields))
    overall = replace(summary.overall, sr=replace(summary.overall.sr, value=rate))
    return replace(summary, overall=overall, successes=dict(enumerate(fields)))


def test_results_stand_beside_the_papers_in_its_order(report, with_rate):
    rows = (("pvn", "dev", 50, 54), ("pvn", "test", 40, 44), ("stop", "test", 45, 49))
    text = report(by_name(*(with_rate(*row) for row in rows)))
    assert "| pvn | test | 5 | 42.0 (40.0 to 44.0) | 41.21 |" in text
    assert text.index("| stop | test |") < text.index("| pvn | test |") < text.index("| pvn | dev |")


def test_differences_are_paired_over_fields_and_runs(report, with_rate):
    yes, half, no = (True, True), (True, False), (False, False)
    pvn, no_aux = with_rate("pvn", "dev", 0, 0), with_rate("pvn-no-aux", "dev", 0, 0)
    first = by_name(reaching(pvn, *[yes] * 9), reaching(no_aux, *[half] * 9))
    second = by_name(reaching(pvn, *[half] * 9), reaching(no_aux, *[no] * 9), seed=1)
    true = {"pvn_true-distributions_dev": with_rate("pvn_true-distributions", "dev", 97, 99)}
    text = report({**first, **second, **true})
    assert "| pvn |  |  | 98.0 (97.0 to 99.0) |" in text
    assert "| pvn-no-aux | -9.7 | -50.0 (-50.0 to -50.0) |  |" in text
    assert "| pvn | pvn-no-aux | dev | +9.7 | +50.0 (+50.0 to +50.0) | yes |" in text
    assert "Of 1 orders 1 hold, 0 are undecided, 0 are reversed." in text
    assert "over fields and over up to 2 training runs of a system." in text and "unpaired" not in text
    assert "| pvn | dev | 75.0 (50.0 to 100.0) | 100.0 | 50.0 |" in text.split("## Several training runs")[1]


def test_systems_that_flew_other_flights_are_not_paired(report, with_rate):
    pvn, no_aux = (with_rate(name, "dev", 40, 44) for name in ("pvn", "pvn-no-aux"))
    text = report(by_name(reaching(pvn, *[(True,)] * 9), reaching(no_aux, *[(False,)] * 8)))
    assert "| pvn-no-aux | -9.7 | -100.0 (unpaired) |" in text
    assert "Where it says unpaired, the two did not fly the same flights." in text


def test_the_report_says_how_its_results_were_obtained(report, with_rate, tmp_path):
    figure = Illustration("A figure", tmp_path / "figures" / "one.png", "What it shows.")
    text = report(by_name(with_rate("pvn", "test", 40, 44)), figure)
    for part in (
        "pvn corpus make --out corpus", "corpus 7", "| corpus | 1 min 15 s |", "| train pvn | 10 s |",
        "| total | 1 min 25 s |", "* box\n", "19,758 training segments", "nothing was flown on LANI's data",
        "## A figure\n\n![A figure](figures/one.png)\n\nWhat it shows.",
        "No two systems that the paper tells apart were flown.",
    ):  # fmt: skip
        assert part in text, part
    assert "torch" in describe_machine() and "\n" not in describe_machine()
