"""The pages tell how agents fly with pictures of other renderers, and on other machines."""

import json
from pathlib import Path

from pvn.evaluation.pairing import difference_of
from pvn.evaluation.summary import Summary

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = {"ours": "", "MuJoCo": "_mujoco", "PyBullet": "_pybullet"}


def read(folder, stem):
    return Summary.from_json(json.loads((folder / f"{stem}.json").read_text(encoding="utf-8")))


def table_of(folder):
    """Agents and looks in Markdown: success, its paired difference from our own look, nDTW, metres to the goal."""
    lines = [
        "| agent | pictures | flights | SR % | points | nDTW | mean m |",
        "| :-- | :-- | --: | --: | --: | --: | --: |",
    ]
    for agent in ("pvn", "random-looks", "pvn-plus"):
        flown = {name: read(folder, f"{agent}{suffix}_dev_500") for name, suffix in SHOWN.items()}
        for name, summary in flown.items():
            points = "" if name == "ours" else str(difference_of({0: summary}, {0: flown["ours"]}).interval)
            whole = summary.overall
            figures = f"{whole.ndtw.value:.2f} | {whole.mean_distance.value:.1f}"
            lines.append(f"| {agent} | {name} | {whole.flights} | {whole.sr} | {points} | {figures} |")
    return "\n".join(lines)


def test_the_results_page_has_the_flights_with_other_looks():
    assert table_of(DOCS / "results" / "looks") in (DOCS / "results.md").read_text(encoding="utf-8")


def test_the_results_page_tells_what_random_looks_cost_and_gain():
    page, looks = (DOCS / "results.md").read_text(encoding="utf-8"), DOCS / "results" / "looks"
    variants = DOCS / "results" / "variants"
    trained, base = read(variants, "random-looks_dev"), read(variants, "paper_dev")
    cost = difference_of({0: trained}, {0: base}).interval
    rate = trained.overall.sr
    assert f"{rate.value:.1f}% of all 4,135 dev flights ({rate.low:.1f} to {rate.high:.1f})" in page
    assert f"reaches {base.overall.sr.value:.1f}, paired {cost}".replace(" (", " points (") in page
    for name, sign, told in (("MuJoCo", 1, "more than `pvn` with MuJoCo"), ("PyBullet", -1, "fewer with PyBullet")):
        stems = (f"{agent}{SHOWN[name]}_dev_500" for agent in ("random-looks", "pvn"))
        gain = difference_of(*({0: read(looks, stem)} for stem in stems)).interval
        points = f"{sign * gain.value:.1f}" + (" points " if sign > 0 else " ")
        assert f"{points}{told} ({gain.low:.1f} to {gain.high:.1f})" in page


def test_the_page_about_reliability_compares_flights_on_two_machines():
    page = (DOCS / "reliability.md").read_text(encoding="utf-8")
    for agent in ("pvn", "pvn-plus"):
        arm, x86 = (read(DOCS / "results" / folder, f"{agent}_dev_200") for folder in ("looks", "machines"))
        pairs = [
            pair for field in arm.successes for pair in zip(arm.successes[field], x86.successes[field], strict=True)
        ]
        assert len(pairs) == 200
        figures = [f"{summary.overall.sr.value:.1f}" for summary in (arm, x86)] + [
            str(sum(one != other for one, other in pairs))
        ]
        figures += [f"{summary.overall.ndtw.value:.4f}" for summary in (arm, x86)]
        figures += [f"{summary.overall.mean_distance.value:.2f}" for summary in (arm, x86)]
        assert f"| `{agent}` | " + " | ".join(figures) + " |" in page
