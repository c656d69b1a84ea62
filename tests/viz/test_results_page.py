"""The report beside the paper's table."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pvn.evaluation.pairing import difference_of
from pvn.evaluation.paper import TABLE
from pvn.evaluation.summary import Summary
from pvn.systems import SYSTEMS, TRUE_DISTRIBUTIONS
from pvn.viz.illustrations import Illustration
from pvn.viz.results_page import Provenance, describe_machine, write_report
from pvn.viz.schedule import StepTime

ROOT = Path(__file__).parent.parent.parent
PROVENANCE = Provenance(
    preset="smoke",
    corpus="the bundled corpus",
    commands=("pvn corpus make --out corpus",),
    seeds={"corpus": 7},
    times={"corpus": StepTime(75, "box")},
)


def test_steps_beside_each_other_take_less_time_than_they_add_up_to(with_rate, tmp_path):
    def rows(*steps):
        times = {f"step {number}": step for number, step in enumerate(steps)}
        write_report(tmp_path / "report.md", [with_rate("pvn", "dev", 50, 54)], replace(PROVENANCE, times=times))
        table = (tmp_path / "report.md").read_text().split("| wall time |")[1].split("\n\n")[0]
        return [line for line in table.splitlines() if line.startswith(("| total", "| elapsed"))]

    one_by_one = StepTime(60.4, "box", [[0, 60.4]]), StepTime(30.4, "box", [[60.3, 90.7], [90.7, 90.71]])
    assert rows(*one_by_one) == ["| total | 1 min 31 s |"], "what is rounded does not run side by side"
    # The second began while the first ran, and ran again within it; the third came a minute after both.
    meanwhile = (
        StepTime(60, "box", [[0, 60]]),
        StepTime(50, "box", [[20, 30], [50, 90]]),
        StepTime(5, "box", [[150, 155]]),
    )
    assert rows(*meanwhile) == ["| total | 1 min 55 s |", "| elapsed (some steps ran side by side) | 1 min 35 s |"]
    # Where a step does not say when it ran, as those of earlier versions, neither does the table.
    assert rows(*meanwhile, StepTime(5, "box")) == ["| total | 2 min 00 s |"]


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
    assert "Of 2 orders 1 hold, 0 are undecided, 1 are reversed." in report
    assert "| pvn | stop | test | +35.5 | -5.0 (unpaired) | **reversed** |" in report
    assert "| pvn | pvn-no-aux | dev | +9.7 | +20.0 (unpaired) | yes |" in report
    assert "Where it says unpaired, the successes of single flights are not stored" in report
    assert "paired differences over the same flights" not in report, "there are none"


def test_ablations_stand_beside_pvn_with_paired_differences(with_rate, tmp_path):
    successes = {
        name: {field: (True, field < at) for field in range(9)} for name, at in (("pvn", 8), ("pvn-no-aux", 5))
    }
    runs = [replace(with_rate(name, "dev", 0, 99), successes=own) for name, own in successes.items()]
    true = {"pvn": with_rate("pvn_true-distributions", "dev", 97, 99)}
    path = tmp_path / "report.md"
    write_report(path, runs, PROVENANCE, further_seeds={1: runs}, by_true_distributions=true)
    report = path.read_text(encoding="utf-8")
    assert "| pvn |  |  | 98.0 (97.0 to 99.0) |" in report
    found = re.search(r"\| pvn-no-aux \| -9.7 \| -16.7 \((-[0-9.]+) to ([-+][0-9.]+)\) \|  \|", report)
    assert found is not None and float(found[1]) < -16.7 < float(found[2]) <= 0
    assert "over fields and over up to 2 training runs of a system." in report and "unpaired" not in report


def test_the_report_says_how_its_results_were_obtained(report):
    for part in ("pvn corpus make --out corpus", "corpus 7", "| corpus | 1 min 15 s |", "* box"):
        assert part in report
    assert "torch" in describe_machine() and "\n" not in describe_machine()


def test_figures_are_named_relative_to_the_report(report):
    assert "## A figure\n\n![A figure](figures/one.png)\n\nWhat it shows." in report


def test_results_of_one_system_have_no_orders(with_rate, tmp_path):
    write_report(tmp_path / "report.md", [with_rate("pvn", "test", 40, 44)], PROVENANCE)
    assert "No two systems that the paper tells apart were flown." in (tmp_path / "report.md").read_text()


@pytest.mark.long
def test_the_published_results_say_what_their_files_say(tmp_path):
    folder = ROOT / "docs" / "results"

    def read(stem):
        return Summary.from_json(json.loads((folder / f"{stem}.json").read_text(encoding="utf-8")))

    further = [int(own.name.removeprefix("seed")) for own in sorted(folder.glob("seed*"))]

    def has(stem):
        return (folder / f"{stem}.json").exists()

    def runs(name):
        stems = {0: f"{name}_dev", **{seed: f"seed{seed}/{name}_dev" for seed in further}}
        return {seed: read(stem) for seed, stem in stems.items() if has(stem)}

    summaries = [read(f"{name}_{split}") for name, split in TABLE if has(f"{name}_{split}")]
    true = {name: f"{name}{TRUE_DISTRIBUTIONS}_dev" for name in SYSTEMS}
    by_true_distributions = {name: read(stem) for name, stem in true.items() if has(stem)}
    assert len(summaries) >= 20 and {"pvn", "pvn-no-goal"} <= set(by_true_distributions)
    further_seeds = {
        seed: [read(f"seed{seed}/{name}_{split}") for name, split in TABLE if has(f"seed{seed}/{name}_{split}")]
        for seed in further
    }
    write_report(
        tmp_path / "report.md", summaries, PROVENANCE,
        further_seeds=further_seeds, by_true_distributions=by_true_distributions,
    )  # fmt: skip
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    computed, _, _ = report.partition("## How these results were obtained")
    published = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in computed.splitlines() if line.startswith("|")]
    assert len(rows) > 100
    assert [row for row in rows if row not in published] == []
    for name in ("pvn", "pvn-no-goal"):
        groups = by_true_distributions[name].by_bearing.values()
        for what, rates in (
            ("SR %", [g.sr for g in groups]),
            ("stopped within two steps %", [g.early_stops for g in groups]),
        ):
            assert f"| {name}, {what} | {' | '.join(map(str, rates))} |" in published
    for better, worse, told in (
        ("pvn-ideal-act", "pvn-no-dagger", "ideal Act is {} points ({} to {}) ahead of the row `pvn-no-dagger`"),
        ("pvn-height-0.7", "pvn-no-aux", "it is {} points ({} to {}) ahead of no aux"),
        ("pvn-height-0.7", "pvn-no-goal", "and {} ({} to {}) ahead of no goal"),
        ("pvn", "pvn-height-0.7", "it costs {} points ({} to {})"),
        ("pvn", "pvn-no-dagger", "{} points fewer than PVN ({} to {})"),
        ("pvn_true-distributions", "pvn-no-goal_true-distributions", "{} points fewer ({} to {}, paired)"),
    ):
        gain = difference_of(runs(better), runs(worse)).interval
        assert told.format(*(f"{value:.1f}" for value in (gain.value, gain.low, gain.high))) in "\n".join(published)
    for name, better, worse in (
        ("ideal Act against PVN", "pvn-ideal-act", "pvn"),
        ("ideal Act against the doubled yaw rate", "pvn-ideal-act", "pvn-double-yaw-rate"),
        ("half the height against no goal", "pvn-half-height", "pvn-no-goal"),
    ):
        ours, theirs = runs(better), runs(worse)
        gains = [str(difference_of({seed: ours[seed]}, {seed: theirs[seed]}).interval) for seed in (0, *further)]
        assert f"| {name} | {' | '.join(gains).replace('-0.0', '0.0')} |" in published
    quick = read("variants/no-dagger_yaw2_seed2_dev")
    gain = difference_of({2: runs("pvn-ideal-act")[2]}, {2: quick}).interval
    assert (
        f"no DAgger reaches {runs('pvn-no-dagger')[2].overall.sr.value:.1f}%, with the doubled yaw rate "
        f"{quick.overall.sr.value:.1f}%, and ideal Act {gain.value:.1f} points ({gain.low:.1f} to {gain.high:.1f}) more"
    ) in "\n".join(published)
    for beginning in ("Pairs of systems", "Development split."):
        assert next(line for line in computed.splitlines() if line.startswith(beginning)) in published


def test_the_published_results_say_how_flights_that_begin_with_a_turn_end():
    def group(stem, bearing):
        content = json.loads((ROOT / "docs" / "results" / f"{stem}_dev.json").read_text(encoding="utf-8"))
        return Summary.from_json(content).by_bearing[bearing]

    def told(rate):
        return f"{rate.value:.1f}% ({rate.low:.1f} to {rate.high:.1f})"

    published = " ".join((ROOT / "docs" / "results.md").read_text(encoding="utf-8").split())
    quick, slow, quick_1, slow_1 = (
        f"{group(stem, 'behind').sr.value:.1f}%"
        for stem in ("pvn-double-yaw-rate", "pvn", "seed1/pvn-double-yaw-rate", "seed1/pvn")
    )
    side, behind = (told(group("seed1/pvn-no-goal", bearing).early_stops) for bearing in ("side", "behind"))
    side_2, behind_2 = (f"{group('seed2/pvn-no-goal', where).early_stops.value:.1f}%" for where in ("side", "behind"))
    no_goal_2, no_aux_2 = (told(group(f"seed2/{name}", "ahead").sr) for name in ("pvn-no-goal", "pvn-no-aux"))
    no_goal, no_aux = (told(group(f"seed1/{name}", "ahead").sr) for name in ("pvn-no-goal", "pvn-no-aux"))
    for sentence in (
        f"it reaches {quick} where PVN reaches {slow}, and {quick_1} instead of {slow_1} with seed 1",
        f"stops within two steps in {side} of the flights whose path leads to the side and in {behind} of those",
        f"where it leads ahead, no goal reaches {no_goal} and no aux {no_aux}",
        f"With seed 2 it stops within two steps in {side_2} and {behind_2}, and where the path leads ahead it reaches "
        f"{no_goal_2}, no aux {no_aux_2}.",
    ):
        assert sentence in published
