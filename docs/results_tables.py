"""All tables of the stored results as one page, results_tables.md: `make docs` writes it, tests compare pages with it.

    python docs/results_tables.py

The results are in docs/results: for each family of experiments a file of summaries by name (pvn.evaluation.summary).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from pvn.evaluation.comparison import TABLE, difference_of
from pvn.evaluation.intervals import Estimate
from pvn.evaluation.summary import Group, Summary, read_summaries
from pvn.systems import SYSTEMS
from pvn.viz.results_page import points, result_sections, table

DOCS = Path(__file__).parent
SEEDS = ("", "seed1/", "seed2/")
LENGTHS = {"1-8": "1 to 8", "9-12": "9 to 12", "13-16": "13 to 16", "17-22": "17 to 22", "23+": "23 and more"}
RECIPES = (
    "paper", "literal", "literal-in-large-batches", "plain-Adam", "one-learning-rate", "mean-over-classes",
    "no-words-first", "even-odds", "no-strays", "every-picture", "equal-action-losses", "all-oracle-flights",
    "three-taken-back", "three-in-half-the-epochs", "mean-in-half-the-epochs", "mean-and-Adam-in-half-the-epochs",
    "quick",
)  # fmt: skip
PARTS = (
    "pvn-plus", "without-natural-text", "without-narrator", "without-more-data", "without-ordered-way",
    "without-attention", "without-encoder",
)  # fmt: skip
TEXTS = ("pvn-plus", "without-mirrored-text", "without-dropped-words", "with-other-names", "with-random-looks")
SPLITS = {"dev_natural": "natural dev", "dev_phrases": "dev in phrases", "test_phrases": "test in phrases"}


@cache
def stored(family: str) -> Mapping[str, Summary]:
    """The results of a family of experiments, by name."""
    return read_summaries(DOCS / "results" / f"{family}.json.xz")


def paired(first: Summary, second: Summary) -> Estimate:
    """How much more often the first succeeds than the second on the same flights, in points."""
    interval = difference_of({0: first}, {0: second}).interval
    assert interval is not None
    return interval


def execution_alone() -> list[str]:
    """How the second stages of PVN and of PVN without a goal distribution do by the demonstrated distributions."""
    rows = []
    for name in ("pvn", "pvn-no-goal"):
        groups = stored("table")[f"{name}_true-distributions_dev"].by_bearing.values()
        rows.append([f"{name}, SR %", *(str(group.sr) for group in groups)])
        rows.append([f"{name}, stopped within two steps %", *(str(group.early_stops) for group in groups)])
    heading = stored("table")["pvn_dev"].by_bearing.items()
    return table(("dev, true distributions", *(f"{name} ({group.flights:,})" for name, group in heading)), rows)


def close_orders() -> list[str]:
    """Paired differences by seed where an order of the paper's is undecided."""
    rows = [
        [name, *(str(paired(*(stored("table")[f"{seed}{one}_dev"] for one in pair))) for seed in SEEDS)]
        for name, pair in {
            "ideal Act against PVN": ("pvn-ideal-act", "pvn"),
            "ideal Act against the doubled yaw rate": ("pvn-ideal-act", "pvn-double-yaw-rate"),
            "half the height against no goal": ("pvn-half-height", "pvn-no-goal"),
        }.items()
    ]
    return table(("points, paired", "seed 0", "seed 1", "seed 2"), rows)


def other_conditions() -> list[str]:
    """What ideal Act and half the height give where training or flights were changed."""
    own, changed = stored("table"), stored("variants")

    def rows(pairs: Mapping[str, tuple[Summary, Summary]]) -> list[list[str]]:
        return [
            [name, *(str(one.overall.sr) for one in pair), str(paired(*pair[::-1]))] for name, pair in pairs.items()
        ]

    acts = {
        "as in the table": (own["pvn_dev"], own["pvn-ideal-act_dev"]),
        "targets of a third of a cell for stage 2": (changed["narrow-targets_dev"], own["pvn-ideal-act_dev"]),
        "commands one step late": (changed["paper_delay1_dev"], changed["paper_delay1_ideal-act_dev"]),
        "a weaker stage 1, of 8 epochs": (changed["short-stage-1_dev"], changed["short-stage-1_ideal-act_dev"]),
    }
    heights = {
        "as in the table": (own["pvn_dev"], own["pvn-half-height_dev"]),
        "pictures from varied heights": (
            changed["varied-heights_dev"], changed["varied-heights_altitude2.5_dev"],
        ),
    }  # fmt: skip
    return [
        *table(("dev, SR %", "trained second stage", "ideal Act", "points, paired"), rows(acts)),
        *table(("dev, SR %", "at 5 m", "at 2.5 m", "points, paired"), rows(heights)),
    ]


def recipes() -> list[str]:
    """The paper's agent with changes to its recipe taken back."""
    base, rows = stored("variants")["paper_dev"], []
    for name in RECIPES:
        summary = stored("variants")[f"{name}_dev"]
        found = difference_of({0: summary}, {0: base})
        rows.append([name, str(summary.overall.sr), str(summary.unseen and summary.unseen.sr), points(found)])
    rows[0][-1] = ""
    return table(("variant", "dev, SR %", "unseen phrases, SR %", "points, paired"), rows)


def quick() -> list[str]:
    """The table by the preset `quick` beside the one by `paper`."""
    rows = []
    for name, split in TABLE:
        if SYSTEMS[name].run is not None:
            pair = [stored(family)[f"{name}_{split}"] for family in ("quick", "table")]
            found = difference_of({0: pair[0]}, {0: pair[1]})
            rows.append([name, split, *(str(one.overall.sr) for one in pair), points(found)])
    return table(("system", "split", "SR %, `quick`", "SR %, `paper`, seed 0", "points, paired"), rows)


def renderers() -> list[str]:
    """Flights with pictures by other renderers."""
    rows = []
    for agent in ("pvn", "random-looks", "pvn-plus"):
        flights = {
            name: stored("looks")[f"{agent}{suffix}_dev_500"]
            for name, suffix in (("ours", ""), ("MuJoCo", "_mujoco"), ("PyBullet", "_pybullet"))
        }
        for name, summary in flights.items():
            whole, lost = summary.overall, "" if name == "ours" else str(paired(summary, flights["ours"]))
            figures = (f"{whole.ndtw.value:.2f}", f"{whole.mean_distance.value:.1f}")
            rows.append([agent, name, str(whole.flights), str(whole.sr), lost, *figures])
    return table(("agent", "pictures", "flights", "SR %", "points", "nDTW", "mean m"), rows)


def machines() -> list[str]:
    """The same flights on two machines."""
    rows = []
    for agent in ("pvn", "pvn-plus"):
        arm, x86 = (stored("looks")[f"{machine}/{agent}_dev_200"] for machine in ("arm", "x86"))
        pairs = [
            pair for field, flights in arm.successes.items() for pair in zip(flights, x86.successes[field], strict=True)
        ]
        row = [f"`{agent}`", *(f"{one.overall.sr.value:.1f}" for one in (arm, x86)), str(sum(a != b for a, b in pairs))]
        row += [f"{one.overall.ndtw.value:.4f}" for one in (arm, x86)]
        rows.append([*row, *(f"{one.overall.mean_distance.value:.2f}" for one in (arm, x86))])
    headings = ("agent", "SR %, ARM", "x86-64", "flights that differ", "nDTW, ARM", "x86-64", "mean m, ARM", "x86-64")
    return table(headings, rows)


def reached(rows: Sequence[tuple[str, str, Summary]]) -> list[str]:
    """What agents reach: agent, what they flew, and results."""
    lines = []
    for agent, what, summary in rows:
        whole, circles = summary.overall, summary.circles.get("full")
        rates = ["" if group is None else str(group.sr) for group in (whole, summary.seen, summary.unseen)]
        scores = [f"{score.value:.3f}" for score in (whole.ndtw, whole.sdtw)]
        full = "" if circles is None else f"{circles.flown_and_reached:.0f}"
        lines.append([agent, f"{whole.flights:,}, {what}", *rates, *scores, full])
    return table(
        ("agent", "flights", "SR %", "seen phrases", "unseen phrases", "nDTW", "SDTW", "full circles, %"), lines
    )


def plus_reaches() -> list[str]:
    """pvn-plus and pvn on every split, by length and manoeuvre, circles, facing, returns and paragraphs."""
    plus, own = stored("plus"), stored("table")
    natural, dev = plus["shipped/pvn-plus_dev_natural"], plus["shipped/pvn-plus_dev_phrases"]
    rows = [("pvn-plus", name, plus[f"shipped/pvn-plus_{key}"]) for key, name in SPLITS.items()]
    by_pvn = (plus["shipped/pvn_dev_natural"], own["pvn_dev"], own["pvn_test"])
    rows += [("pvn", name, one) for name, one in zip(SPLITS.values(), by_pvn, strict=True)]

    def by_manoeuvre(agent: str, summary: Summary) -> list[list[str]]:
        groups: Sequence[Group] = list(summary.by_manoeuvre.values())
        return [
            [f"{title}, {agent}", *(f"{getattr(group, name).value:.{decimals}f}" for group in groups)]
            for title, name, decimals in (("SR %", "sr", 1), ("nDTW", "ndtw", 2), ("SDTW", "sdtw", 2))
        ]

    circles = [
        [
            agent,
            *(
                cell
                for one in summary.circles.values()
                for cell in (f"{one.median_swept:.0f}", f"{one.flown_and_reached:.0f}")
            ),
        ]
        for agent, summary in (("pvn", own["pvn_dev"]), ("pvn-plus", dev))
    ]
    facing = [
        [
            f"{name}{ending}",
            f"{one.flights:,}",
            f"{one.median_off:.0f}",
            f"{one.faced:.1f}",
            f"{one.faced_and_reached:.1f}",
        ]
        for key, name in (*SPLITS.items(), ("turns", "turns alone"))
        for end, one in plus[f"shipped/pvn-plus_{key}"].facing.items()
        for ending in [{"turned": ", ends in a turn", "ahead": ", others"}[end] if key.endswith("phrases") else ""]
    ]
    returns = [
        [name, str(whole.sr), f"{whole.ndtw.value:.2f}", f"{whole.sdtw.value:.2f}"]
        for name in ("pvn", "pvn-plus")
        for whole in [plus[f"shipped/{name}_returns"].overall]
    ]
    paragraphs = [
        [name, *map(str, (found.brought_to_end, found.completed, found.sr, summary.overall.sr))]
        for name in ("pvn", "pvn-plus", "oracle")
        for summary in [plus[f"paragraphs/{name}_dev_phrases_402"]]
        if (found := summary.paragraphs) is not None
    ]
    amounts = [f"{amount} ({one.flights}), {what}" for amount, one in dev.circles.items() for what in ("degrees", "%")]
    return [
        *reached(rows),
        *table(
            ("SR %, natural dev", *(LENGTHS[name] for name in natural.by_length)),
            [
                ["flights", *(str(group.flights) for group in natural.by_length.values())],
                *(
                    [name, *(f"{group.sr.value:.1f}" for group in one.by_length.values())]
                    for name, one in (("pvn", by_pvn[0]), ("pvn-plus", natural))
                ),
            ],
        ),
        *table(
            ("dev", *(f"{name} ({group.flights:,})" for name, group in dev.by_manoeuvre.items())),
            [*by_manoeuvre("pvn", own["pvn_dev"]), *by_manoeuvre("pvn-plus", dev)],
        ),
        *table(("dev", *amounts), circles),
        *table(
            ("pvn-plus", "flights", "median off, degrees", "faces the right way, %", "and reached its goal, %"),
            facing,
        ),
        *table(("past something and back", "SR %", "nDTW", "SDTW"), returns),
        *table(
            ("84 paragraphs", "brought to the end, %", "completed in a row, %", "SR % in turn", "SR % one by one"),
            paragraphs,
        ),
    ]  # fmt: skip


def plus_variants(folder: str, names: Sequence[str]) -> list[str]:
    """Variants of pvn-plus in one experiment."""
    rows = []
    for name in names:
        natural, dev = (stored("plus")[f"{folder}/{split}/{name}"] for split in ("natural", "dev"))
        rates = (str(natural.overall.sr), str(dev.overall.sr), f"{dev.overall.ndtw.value:.3f}")
        rows.append([name, *rates, f"{dev.circles['full'].flown_and_reached:.0f}"])
    return table(("variant", "natural dev, SR %", "dev, SR %", "dev, nDTW", "full circles, %"), rows)


def voices() -> list[str]:
    """An agent trained without three of the voices, over their instructions."""
    found = stored("plus")["six-epochs/voices/without-three-voices"].by_length
    rows = [
        ["flights", *(str(group.flights) for group in found.values())],
        ["SR %", *(f"{group.sr.value:.1f}" for group in found.values())],
    ]
    return table(("words", *(LENGTHS[name] for name in found)), rows)


def page() -> str:
    """All tables."""
    plus = stored("plus")
    eight = [("pvn-plus", name, plus[f"eight-minutes/pvn-plus_{key}"]) for key, name in SPLITS.items()]
    splits = {"natural": "natural dev", "dev": "dev in phrases", "test": "test in phrases"}
    bearing = [
        (name, what, plus[f"five-epochs/{split}/{name}"])
        for name in ("pvn-plus", "without-bearing")
        for split, what in splits.items()
    ]
    sections = {
        "Execution alone": execution_alone(),
        "Orders that are undecided, by seed": close_orders(),
        "Ideal Act and half the height in other conditions": other_conditions(),
        "Changes to the paper's recipe, taken back": recipes(),
        "The preset quick beside paper": quick(),
        "Pictures by other renderers": renderers(),
        "The same flights on two machines": machines(),
        "What pvn-plus reaches": plus_reaches(),
        "Voices that pvn-plus has never read": voices(),
        "What the parts of pvn-plus give": plus_variants("two-epochs", PARTS),
        "What changed text and pictures give": plus_variants("augmentation", TEXTS),
        "What the bearing gives": reached(bearing),
        "pvn-plus from nothing in eight minutes": reached(eight),
    }
    lines = [
        "# All tables",
        "",
        "Made from the files in `docs/results` when the site is built; [results](results.md) says what they mean. "
        "Points are paired differences over the same flights. Development (dev) figures are a little too good: choices "
        "were made on that split. `pvn` read 19,758 training segments, `pvn-plus` 149,790.",
        "",
        "## Systems",
        "",
        *result_sections(stored("table")),
        *(line for title, own in sections.items() for line in (f"## {title}", "", *own)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page."""
    (DOCS / "results_tables.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
