"""The results page tells how agents fly with pictures of other renderers."""

import json
from pathlib import Path

from pvn.evaluation.pairing import difference_of
from pvn.evaluation.summary import Summary

DOCS = Path(__file__).parents[2] / "docs"
SHOWN = {"ours": "", "MuJoCo": "_mujoco", "PyBullet": "_pybullet"}


def table_of(folder):
    """Agents and looks in Markdown: success, its paired difference from our own look, nDTW, metres to the goal."""
    lines = [
        "| agent | pictures | flights | SR % | points | nDTW | mean m |",
        "| :-- | :-- | --: | --: | --: | --: | --: |",
    ]
    for agent in ("pvn", "pvn-plus"):
        flown = {
            name: Summary.from_json(json.loads((folder / f"{agent}{suffix}_dev_200.json").read_text(encoding="utf-8")))
            for name, suffix in SHOWN.items()
        }
        for name, summary in flown.items():
            points = "" if name == "ours" else str(difference_of({0: summary}, {0: flown["ours"]}).interval)
            whole = summary.overall
            figures = f"{whole.ndtw.value:.2f} | {whole.mean_distance.value:.1f}"
            lines.append(f"| {agent} | {name} | {whole.flights} | {whole.sr} | {points} | {figures} |")
    return "\n".join(lines)


def test_the_results_page_has_the_flights_with_other_looks():
    assert table_of(DOCS / "results" / "looks") in (DOCS / "results.md").read_text(encoding="utf-8")
