"""The table by the preset `quick`: what the results page says about it is what its files say."""

import json
from pathlib import Path

import pytest

from pvn.evaluation.pairing import difference_of
from pvn.evaluation.paper import TABLE, compare_orderings
from pvn.evaluation.summary import Summary
from pvn.systems import SYSTEMS

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def section():
    page = (RESULTS.parent / "results.md").read_text(encoding="utf-8")
    return page.split("### The whole table in sixteen minutes")[1].split("\n## ")[0]


def read(path):
    return Summary.from_json(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def pairs():
    """Results by `quick` and by `paper`, of every row."""
    folders = RESULTS / "quick", RESULTS
    return {row: tuple(read(folder / f"{'_'.join(row)}.json") for folder in folders) for row in TABLE}


@pytest.mark.long
def test_the_page_has_every_row_that_is_trained_with_its_paired_difference(section, pairs):
    lines = [line for line in section.splitlines() if line.startswith(("| pvn", "| gsmn", "| chaplot"))]
    expected = []
    for (name, split), (quick, paper) in pairs.items():
        if SYSTEMS[name].run is None:
            assert quick.overall.sr == paper.overall.sr and quick.overall.mean_distance == paper.overall.mean_distance
            continue
        rates = " | ".join(f"{found.overall.sr.value:.1f} {found.overall.sr.bracket()}" for found in (quick, paper))
        points = difference_of({0: quick}, {0: paper}).interval
        expected.append(
            f"| {name} | {split} | {rates} | {points.value:+.1f} ({points.low:+.1f} to {points.high:+.1f}) |"
        )
    assert lines == expected


@pytest.mark.long
def test_what_the_page_says_about_rows_and_orders_is_so(section, pairs):
    points = {row: difference_of({0: quick}, {0: paper}).interval for row, (quick, paper) in pairs.items()}
    lost, chaplot_dev, chaplot_test, gained = (
        f"{abs(points[row].value):.1f}"
        for row in (("pvn-no-aux", "dev"), ("chaplot", "dev"), ("chaplot", "test"), ("pvn-full-observation", "dev"))
    )
    assert f"without auxiliary losses is {lost} points lower; Chaplot" in section
    assert f"is {chaplot_dev} lower on dev and {chaplot_test} on test" in section
    assert f"the field seen from above is {gained} higher" in section
    beyond_chance = {row[0] for row, found in points.items() if found.low > 0 or found.high < 0}
    assert beyond_chance == {"pvn-no-aux", "chaplot", "pvn-full-observation"}
    orders = compare_orderings({0: [quick for quick, _ in pairs.values()]})
    failing = [order for order in orders if order.verdict != "holds"]
    assert f"Of the {len(orders)} orders {len(orders) - len(failing)} hold" in section
    reversed_here = [(order.first, order.second) for order in failing if order.verdict == "reversed"]
    assert reversed_here == [("pvn-no-goal", "pvn-no-aux")]
    assert f"{len(failing) - len(reversed_here)} are undecided" in section
    page = (RESULTS.parent / "results.md").read_text(encoding="utf-8")
    above = page.split("## Orders of the paper's table")[1].split("### ")[0]
    for order in failing:
        (line,) = [line for line in above.splitlines() if line.startswith(f"| {order.first} | {order.second} |")]
        assert line.endswith(("| undecided |", "| **reversed** |"))


def test_the_page_says_how_long_it_took(section):
    steps = json.loads((RESULTS / "quick" / "times.json").read_text(encoding="utf-8"))["steps"]
    began, ended = zip(*(span for spent in steps.values() for span in spent["spans"]), strict=True)
    seconds = max(ended) - min(began)
    assert f"It took {seconds // 60:.0f} min {seconds % 60:.0f} s from the first step to the last" in section
    assert len({spent["machine"] for spent in steps.values()}) == 1
    assert {name: len(spent["spans"]) for name, spent in steps.items() if len(spent["spans"]) > 1} == {
        "evaluate pvn-height-0.7 dev": 3
    }
