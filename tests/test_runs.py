"""The scripts in runs/: their variants are recipes, and they need no package that training does not need."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from pvn.evaluation.pairing import difference_of
from pvn.evaluation.summary import Summary
from pvn.learning.presets import LITERAL, literal, paper, quick, with_changes
from pvn.systems import FlightChanges

RUNS = Path(__file__).parents[1] / "runs"
LOAD = """
import runpy, sys
for name in ("tyro", "gymnasium", "viser", "rich"):
    sys.modules[name] = None  # as if it were not installed
for script in sys.argv[1:]:
    runpy.run_path(script)
"""


def test_variants_are_the_papers_recipe_with_one_thing_changed():
    variants = runpy.run_path(str(RUNS / "variants.py"))["VARIANTS"]
    recipes = {name: with_changes(paper(), variant.changes) for name, variant in variants.items()}
    assert recipes["paper"] == paper()
    assert with_changes(recipes["literal"], {"name": "literal"}) == literal()
    assert with_changes(recipes["quick"], {"name": "quick"}) == quick()
    assert {name.replace(" ", "-") for name in LITERAL} < recipes.keys()
    changed = {name for name, recipe in recipes.items() if recipe != paper()}
    assert recipes.keys() - changed == {"paper", "late-commands"}
    # Where only the second stage differs, the first is not trained again.
    borrowing = {name for name in changed if not variants[name].has_own_stage1}
    assert borrowing == {"equal-action-losses", "all-oracle-flights", "narrow-targets"}
    with_ideal_act = {
        name for name, variant in variants.items() if any(flights.has_ideal_act for flights in variant.flights)
    }
    assert with_ideal_act == {"paper", "narrow-targets", "short-stage-1", "late-commands"}
    assert FlightChanges(altitude=2.5) in variants["varied-heights"].flights


@pytest.mark.long
def test_the_results_page_tells_what_our_changes_give():
    results = RUNS.parent / "docs" / "results" / "variants"
    table = runpy.run_path(str(RUNS / "variants.py"))["table_of"](results)
    text = (results.parents[1] / "results.md").read_text(encoding="utf-8")
    section = text.split("### What our changes")[1].split("\n## ")[0]
    assert len(table.splitlines()) == 2 + 17 and table in section
    assert table.count("| no-strays | 52.5 ") == 1 and "(-19.1 to -15.9) |" in table
    gains = {cells[1].strip(): cells[4].split()[0] for cells in (line.split("|") for line in table.splitlines()[3:])}
    for name, told in (
        ("mean-over-classes", "instead of their mean {} points"),
        ("plain-Adam", "clipped gradients with AdamW {}"),
        ("no-words-first", "and words first {}."),
    ):
        assert told.format(gains[name].removeprefix("+")) in section
    for name, told in (
        ("literal-in-large-batches", "All nine together are worth {} points"),
        ("literal", "All ten together are worth {} points"),
        ("three-taken-back", "together they lose {} points"),
        ("three-in-half-the-epochs", "and with half the epochs {}."),
    ):
        assert told.format(gains[name].removeprefix("-")) in section
    alone = sum(float(gains[name.replace(" ", "-")]) for name in LITERAL if name != "small batches")
    assert f"one by one they add up to {-alone:.1f}." in section
    literal_flown, in_large_batches = (
        Summary.from_json(json.loads((results / f"{name}_dev.json").read_text(encoding="utf-8")))
        for name in ("literal", "literal-in-large-batches")
    )
    batches = difference_of({0: literal_flown}, {0: in_large_batches}).interval
    assert f"small batches give {batches.value:.1f} points ({batches.low:.1f} to {batches.high:.1f}, paired)" in section
    rates = {cells[1].strip(): cells[2].split()[0] for cells in (line.split("|") for line in table.splitlines()[2:])}
    assert (
        f"20 epochs of every second picture reach {rates['mean-in-half-the-epochs']}%, with plain Adam "
        f"{rates['mean-and-Adam-in-half-the-epochs']}, and 27 epochs of every third picture {rates['quick']}" in section
    )
    assert f"The learning rates are worth {gains['one-learning-rate'].removeprefix('-')} points" in section
    assert f"that starts from their log-odds {gains['even-odds'].removeprefix('-')}." in section
    for name in ("ideal-act", "altitude2.5"):
        rate = Summary.from_json(
            json.loads((results / f"paper_{name}_dev.json").read_text(encoding="utf-8"))
        ).overall.sr
        assert f"{rate.value:.1f}% ({rate.low:.1f} to {rate.high:.1f})" in section


def test_nothing_grows_faster_than_in_proportion_to_its_size():
    growth = runpy.run_path(str(RUNS / "growth.py"))
    rows = [{"size": size, "seconds": 3.0 * size**2, "megabytes": 100.0} for size in (1, 10, 40)]
    assert growth["exponent"](rows, "seconds") == pytest.approx(2) and growth["exponent"](rows, "megabytes") == 0
    found = json.loads((RUNS.parent / "docs" / "results" / "growth.json").read_text(encoding="utf-8"))
    assert found.keys() == growth["WORK"].keys() == growth["TITLES"].keys() == growth["sizes_of"](3).keys()
    powers = [growth["exponent"](rows, "seconds") for rows in found.values()]
    assert f"powers of {min(powers):.2f} to {max(powers):.2f};" in (RUNS.parent / "docs" / "benchmarks.md").read_text()
    assert max(powers) < 1.2 and max(growth["exponent"](rows, "megabytes") for rows in found.values()) < 1


@pytest.mark.slow
def test_growth_is_measured_and_drawn(tmp_path):
    command = [sys.executable, str(RUNS / "growth.py"), "--out", str(tmp_path), "--most", "0.1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "growth.png").stat().st_size > 10_000 and ended.stdout.count("grow with the power") == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["growth.json", "growth.png"]


@pytest.mark.parametrize("folder", ["two-epochs", "augmentation"])
def test_the_results_page_has_the_table_of_the_variants_that_were_run(folder):
    plus = runpy.run_path(str(RUNS / "plus.py"))
    table = plus["table_of"](RUNS.parent / "docs" / "results" / "plus" / folder)
    assert len(table.splitlines()) > 4 and table in (RUNS.parent / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_results_page_tells_what_changed_text_and_pictures_give():
    folder = RUNS.parent / "docs" / "results" / "plus" / "augmentation"
    plus = runpy.run_path(str(RUNS / "plus.py"))
    text = (RUNS.parent / "docs" / "results.md").read_text(encoding="utf-8")
    for split, variant, sign, told in (
        ("natural", "without-mirrored-text", -1, "gives {} points on natural dev ({} to {})"),
        ("dev", "without-mirrored-text", -1, "nothing on phrases, {} ({} to {})"),
        ("natural", "without-dropped-words", -1, "change natural dev by {} points ({} to {})"),
        ("dev", "without-dropped-words", 1, "cost {} on phrases ({} to {})"),
        ("natural", "with-other-names", 1, "change natural dev by {} points ({} to {})"),
        ("dev", "with-other-names", 1, "and phrases by {} ({} to {})"),
        ("dev", "with-random-looks", -1, "cost {} points on phrases ({} to {})"),
        ("natural", "with-random-looks", 1, "change natural dev by {} ({} to {})"),
    ):
        whole, other = (plus["summary_of"](folder, name, split) for name in ("pvn-plus", variant))
        gain = difference_of({0: other}, {0: whole}).interval
        low, high = sorted((sign * gain.low, sign * gain.high))
        assert told.format(*(f"{value + 0.0:.1f}" for value in (sign * gain.value, low, high))) in text


@pytest.mark.long
def test_the_results_page_tells_what_ideal_act_gains_in_other_conditions():
    results = RUNS.parent / "docs" / "results"

    def read(stem: str) -> Summary:
        return Summary.from_json(json.loads((results / f"{stem}.json").read_text(encoding="utf-8")))

    ideal, text = read("pvn-ideal-act_dev"), (results.parent / "results.md").read_text(encoding="utf-8")
    for name, trained, ideal_act in (
        ("as in the table above", read("pvn_dev"), ideal),
        ("targets of a third of a cell for stage 2", read("variants/narrow-targets_dev"), ideal),  # a stage 1 alone
        (
            "commands one step late",
            read("variants/paper_delay1_dev"),
            read("variants/paper_delay1_ideal-act_dev"),
        ),
        (
            "a weaker stage 1, of 8 epochs",
            read("variants/short-stage-1_dev"),
            read("variants/short-stage-1_ideal-act_dev"),
        ),
    ):
        gain = difference_of({0: ideal_act}, {0: trained}).interval
        points = f"{gain.value:.1f} ({gain.low:.1f} to {gain.high:.1f})".replace("-0.0 (", "0.0 (")
        assert f"| {name} | {trained.overall.sr} | {ideal_act.overall.sr} | {points} |" in text


@pytest.mark.long
def test_the_results_page_tells_what_pictures_from_varied_heights_give():
    results = RUNS.parent / "docs" / "results"

    def read(stem: str) -> Summary:
        return Summary.from_json(json.loads((results / f"{stem}.json").read_text(encoding="utf-8")))

    def points(first: Summary, second: Summary) -> str:
        gain = difference_of({0: first}, {0: second}).interval
        return f"{gain.value:.1f} ({gain.low:.1f} to {gain.high:.1f})"

    text = " ".join((results.parent / "results.md").read_text(encoding="utf-8").split())
    varied, half = read("variants/varied-heights_dev"), read("variants/varied-heights_altitude2.5_dev")
    for name, full, low in (
        ("as in the table above", read("pvn_dev"), read("pvn-half-height_dev")),
        ("pictures from varied heights", varied, half),
    ):
        assert f"| {name} | {full.overall.sr} | {low.overall.sr} | {points(low, full)} |" in text
    aux, goal = (
        points(half, read(f"{name}_dev")).replace(" (", " points (", 1) for name in ("pvn-no-aux", "pvn-no-goal")
    )
    assert f"it is {aux} ahead of no aux and {goal.replace(' points', '')} ahead of no goal" in text
    gains = [points(varied, read(f"{seed}pvn_dev")) for seed in ("", "seed1/", "seed2/")]
    first = gains[0].replace(" (", " points (", 1)
    assert f"it is {first} ahead of PVN with seed 0, {gains[1]} with seed 1 and {gains[2]} with seed 2" in text


def test_the_results_page_tells_how_the_training_of_gsmn_came_out_when_it_was_repeated():
    results = RUNS.parent / "docs" / "results"
    text = (results.parent / "results.md").read_text(encoding="utf-8")
    rates = []
    for stem in ("variants/gsmn-again_dev", "gsmn_dev"):
        rate = Summary.from_json(json.loads((results / f"{stem}.json").read_text(encoding="utf-8"))).overall.sr
        rates.append(f"{rate.value:.1f}% ({rate.low:.1f} to {rate.high:.1f})")
    assert f"whose agent reaches {rates[0]} of dev, the one in the tables {rates[1]}" in text


def test_the_results_page_tells_how_voices_that_were_never_read_are_followed():
    folder = RUNS.parent / "docs" / "results" / "plus" / "six-epochs"
    plus = runpy.run_path(str(RUNS / "plus.py"))
    voices, natural, dev = (
        plus["summary_of"](folder, "without-three-voices", split) for split in ("voices", "natural", "dev")
    )
    by_length = [f"{group.sr.value:.1f}" for group in voices.by_length.values()]
    text = (RUNS.parent / "docs" / "results.md").read_text(encoding="utf-8")
    for row in (
        f"| flights | {' | '.join(str(group.flights) for group in voices.by_length.values())} |",
        f"| SR % | {' | '.join(by_length)} |",
    ):
        assert row in text
    for summary in (voices, natural, dev):
        rate = summary.overall.sr
        assert f"{rate.value:.1f}% ({rate.low:.1f} to {rate.high:.1f})" in text
    assert f"{dev.seen.sr.value:.1f}% of those in phrases that training may use, {dev.unseen.sr.value:.1f}%" in text


def test_the_results_page_has_what_was_trained_in_eight_minutes():
    folder = RUNS.parent / "docs" / "results" / "plus" / "eight-minutes"

    def read(what: str) -> Summary:
        return Summary.from_json(json.loads((folder / f"own-pvn-plus_{what}.json").read_text(encoding="utf-8")))

    text = (RUNS.parent / "docs" / "results.md").read_text(encoding="utf-8")
    for what, name in (
        ("dev_natural", "natural dev"),
        ("dev_phrases", "dev in phrases"),
        ("test_phrases", "test in phrases"),
    ):
        summary = read(what)
        whole, circles = summary.overall, summary.circles["full"].flown_and_reached
        rates = " | ".join("" if group is None else str(group.sr) for group in (whole, summary.seen, summary.unseen))
        row = f"| {rates} | {whole.ndtw.value:.3f} | {whole.sdtw.value:.3f} | {circles:.0f} |"
        assert f"| {whole.flights:,}, {name} {row}" in text
    dev, to_end = read("dev_phrases"), read("dev_phrases").paragraphs.brought_to_end
    assert f"{to_end.value:.1f}% ({to_end.low:.1f} to {to_end.high:.1f}) of the 887 paragraphs" in text
    assert f"reaches {read('returns').overall.sr.value:.1f}% of 300 flights" in text
    assert f"faces the right way after {dev.facing['turned'].faced:.1f}% of the turns in dev" in text


@pytest.mark.parametrize("name", ["pvn-plus", "without-bearing"])
def test_the_results_page_tells_what_the_bearing_gives(name):
    folder = RUNS.parent / "docs" / "results" / "plus" / "five-epochs"
    plus = runpy.run_path(str(RUNS / "plus.py"))
    text = (RUNS.parent / "docs" / "results.md").read_text(encoding="utf-8")
    for split in ("dev", "test"):
        summary = plus["summary_of"](folder, name, split)
        whole, circles = summary.overall, summary.circles["full"].flown_and_reached
        rates = " | ".join(str(group.sr) for group in (whole, summary.seen, summary.unseen))
        row = f"| {rates} | {whole.ndtw.value:.3f} | {whole.sdtw.value:.3f} | {circles:.0f} |"
        assert f"| {name}, {whole.flights:,}, {split} in phrases {row}" in text


def test_the_results_page_has_what_the_shipped_agent_reached():
    """Every split that it flew: the whole table of the agent that flies by default, and its circles by amount."""
    docs = RUNS.parent / "docs"

    def read(what: str) -> Summary:
        path = docs / "results" / "plus" / "shipped" / f"pvn-plus_{what}.json"
        return Summary.from_json(json.loads(path.read_text(encoding="utf-8")))

    text = (docs / "results.md").read_text(encoding="utf-8")
    natural, dev, test = (read(what) for what in ("dev_natural", "dev_phrases", "test_phrases"))
    for summary, name in ((natural, "natural dev"), (dev, "dev in phrases"), (test, "test in phrases")):
        whole, circles = summary.overall, summary.circles["full"].flown_and_reached
        rates = " | ".join("" if group is None else str(group.sr) for group in (whole, summary.seen, summary.unseen))
        row = f"| {rates} | {whole.ndtw.value:.3f} | {whole.sdtw.value:.3f} | {circles:.0f} |"
        assert f"| pvn-plus | {whole.flights:,}, {name} {row}" in text
    assert f"| pvn-plus | {' | '.join(f'{group.sr.value:.1f}' for group in natural.by_length.values())} |" in text
    for name, measure, decimals in (("SR %", "sr", 1), ("nDTW", "ndtw", 2), ("SDTW", "sdtw", 2)):
        cells = (f"{getattr(group, measure).value:.{decimals}f}" for group in dev.by_manoeuvre.values())
        assert f"| {name}, pvn-plus | {' | '.join(cells)} |" in text
    swept = (f"{amount.median_swept:.0f} | {amount.flown_and_reached:.0f}" for amount in dev.circles.values())
    assert f"| pvn-plus | {' | '.join(swept)} |" in text


def test_the_results_page_tells_how_flights_past_something_and_back_are_followed():
    docs = RUNS.parent / "docs"
    text = (docs / "results.md").read_text(encoding="utf-8")
    for name in ("pvn", "pvn-plus"):
        content = json.loads((docs / "results" / "plus" / "shipped" / f"{name}_returns.json").read_text("utf-8"))
        whole = Summary.from_json(content).overall
        assert whole.flights == runpy.run_path(str(RUNS / "plus.py"))["NUM_RETURNS"]
        assert f"| {name} | {whole.sr} | {whole.ndtw.value:.2f} | {whole.sdtw.value:.2f} |" in text


def test_the_results_page_tells_which_way_flights_face():
    docs = RUNS.parent / "docs"
    text = (docs / "results.md").read_text(encoding="utf-8")
    for what, name, end in (
        ("dev_phrases", "dev in phrases, ends in a turn", "turned"),
        ("dev_phrases", "dev in phrases, others", "ahead"),
        ("test_phrases", "test in phrases, ends in a turn", "turned"),
        ("test_phrases", "test in phrases, others", "ahead"),
        ("dev_natural", "natural dev", "ahead"),
        ("turns", "turns alone", "turned"),
    ):
        content = json.loads((docs / "results" / "plus" / "shipped" / f"pvn-plus_{what}.json").read_text("utf-8"))
        found = Summary.from_json(content)
        end_of = found.facing[end]
        figures = f"{end_of.median_off:.0f} | {end_of.faced:.1f} | {end_of.faced_and_reached:.1f}"
        assert f"| {name} | {end_of.flights:,} | {figures} |" in text
    assert f"{found.overall.sr.value:.1f}% ({found.overall.sr.low:.1f} to {found.overall.sr.high:.1f}) of these" in text


@pytest.mark.parametrize("name", ["pvn", "pvn-plus", "oracle"])
def test_the_results_page_tells_how_many_paragraphs_are_brought_to_the_end(name):
    docs = RUNS.parent / "docs"
    path = docs / "results" / "plus" / "paragraphs" / f"{name}_dev_phrases_402.json"
    summary = Summary.from_json(json.loads(path.read_text(encoding="utf-8")))
    found = summary.paragraphs
    rates = " | ".join(map(str, (found.brought_to_end, found.completed, found.sr, summary.overall.sr)))
    text = (docs / "results.md").read_text(encoding="utf-8")
    assert f"| {name} | {rates} |" in text
    assert f"The first {found.paragraphs} paragraphs of dev in phrases, {found.instructions} instructions" in text


@pytest.mark.long
def test_training_machines_need_no_viewer_and_no_command_line():
    scripts = sorted(set(RUNS.glob("*.py")) - {RUNS / "airsim_scripts.py"})  # which trains nothing
    assert len(scripts) == 5
    subprocess.run([sys.executable, "-c", LOAD, *scripts], cwd=RUNS.parent, check=True)
