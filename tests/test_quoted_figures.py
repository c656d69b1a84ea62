"""Figures that the pages quote, each checked against the command, program or file that it comes from.

Where one no longer holds, the failure shows the sentence to mend and the figures that belong there. Figures of
`pvn-plus` change with its weights. Times, and what takes minutes or a GPU, are not checked here.
"""

import contextlib
import io
import json
import math
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import pvn
from pvn.app.demo.flight_setup import MAX_FLIGHTS
from pvn.app.demo.limits import MAX_REQUESTS, REQUEST_SECONDS
from pvn.cli import main
from pvn.cli.demo import Demo
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import FULL_SIZE, NOISE, plan_split, split_sizes
from pvn.corpus.narrator.making import make_narrated
from pvn.corpus.natural.bundled import natural_segments
from pvn.evaluation.summary import read_summaries
from pvn.geometry import Camera
from pvn.simulator.interface import SimulatorConfig
from pvn.viz.film import FRAMES_PER_STEP
from pvn.world.landmarks import LANDMARK_NAMES
from pvn.world.task import MAX_CHARACTERS, MAX_WORDS

ROOT = Path(__file__).parent.parent
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True)
class Quote:
    """A sentence with figures, and where they come from."""

    page: str
    sentence: str
    """The sentence, with # for each figure; line breaks do not matter."""
    source: str
    """What prints the figures: a command, a program or a file."""
    figures: Callable[[], list[float]]
    """The figures as they are now."""
    is_slow: bool = False

    def quoted(self) -> tuple[str, list[str]]:
        """The sentence as it stands on the page, and its figures."""
        pattern = r"\s+".join(re.escape(word).replace(r"\#", f"({NUMBER.pattern})") for word in self.sentence.split())
        found = re.findall(f"({pattern})", (ROOT / self.page).read_text(encoding="utf-8"))
        assert len(found) == 1, f"{self.page}: got {len(found)} sentences like {self.sentence!r}, expected one"
        sentence, *figures = found[0] if isinstance(found[0], tuple) else found
        return " ".join(sentence.split()), figures


def as_written(value, like):
    """A value with as many decimals, and with commas, as the figure beside it."""
    decimals = len(like.partition(".")[2])
    return f"{value:,.{decimals}f}" if "," in like or value >= 10_000 else f"{value:.{decimals}f}"


def printed(command):
    """What a command prints."""
    with contextlib.redirect_stdout(io.StringIO()) as screen:
        main(shlex.split(command)[1:])
    return screen.getvalue()


def numbers_after(pattern, text):
    """The figures in the first place where a text is like a pattern."""
    found = re.search(pattern, text)
    assert found, f"nothing like {pattern!r} is printed any more; mend the page and this test: {text}"
    return [float(figure.replace(",", "")) for figure in found.groups()]


def program(page, number):
    """What one of a page's programs prints."""
    text = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)[number]
    with contextlib.redirect_stdout(io.StringIO()) as screen:
        exec(compile(text, page, "exec"), {"__name__": "__main__"})
    return screen.getvalue()


def flown(page, number):
    return numbers_after(r"stopped (\d+) m from the gorilla after (\d+) steps", program(page, number))


def results(name, family="table"):
    return read_summaries(ROOT / "docs" / "results" / f"{family}.json.xz")[name]


def shipped(name):
    return results(f"shipped/{name}", "plus")


def rates(*names):
    return [results(name).overall.sr.value for name in names]


def with_interval(estimate):
    return [estimate.value, estimate.low, estimate.high]


def split_rates(part):
    """Success on the test split, with intervals for PVN and pvn-plus; part: "overall", or "unseen" phrases."""
    summaries = (shipped("pvn-plus_test_phrases"), *map(results, ("pvn_test", "gsmn_test", "chaplot_test")))
    ours, paper, gsmn, chaplot = (getattr(summary, part).sr for summary in summaries)
    return [*with_interval(ours), *with_interval(paper), gsmn.value, chaplot.value]


def natural_row(agent):
    """Success of an agent on natural instructions, with its interval."""
    return with_interval(shipped(f"{agent}_dev_natural").overall.sr)


def film_steps():
    text = printed("pvn show flight --field 5 --segment 2 --agent pvn --out flight.png")
    (steps,) = numbers_after(r"after (\d+) step", text)
    return [steps, steps * FRAMES_PER_STEP + 1]


def oracle_figures():
    command = [sys.executable, ROOT / "benchmarks" / "oracle.py"]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [report["segments"], *report["here"].values()]


def natural_counts():
    segments = natural_segments()
    authors = [len({segment.author for segment in segments[split]}) for split in ("train", "dev")]
    assert authors[1] == 1
    return [sum(map(len, segments.values())), len(segments["train"]), authors[0], len(segments["dev"])]


def full_size():
    return sum(split_sizes(FULL_SIZE).values())


def camera():
    eye = Camera()
    return [eye.width, eye.height, math.degrees(eye.horizontal_view)]


def limits():
    config = SimulatorConfig()
    return [config.max_speed, math.degrees(config.max_yaw_rate)]


QUOTES = [
    Quote(
        "README.md",
        "| test: # instructions in unseen fields | #% (# to #) | #% (# to #) | #% | #% | | its 30% in phrases that no "
        "training uses | #% (# to #) | #% (# to #) | #% | #% | | development: 300 instructions in a voice never read | "
        "#% (# to #) | #% (# to #) | | |",
        "docs/results",
        lambda: [
            results("pvn_test").overall.flights,
            *(figure for part in ("overall", "unseen") for figure in split_rates(part)),
            *natural_row("pvn-plus"),
            *natural_row("pvn"),
        ],
    ),
    Quote(
        "docs/index.md",
        "`pvn-plus`, which flies by default, reaches #% of the goals of # test instructions, #% with phrases that no "
        "training uses; our implementation of the paper's agent, trained on a seventh of the segments, reaches #% "
        "and #%",
        "docs/results",
        lambda: [
            shipped("pvn-plus_test_phrases").overall.sr.value,
            results("pvn_test").overall.flights,
            shipped("pvn-plus_test_phrases").unseen.sr.value,
            *rates("pvn_test"),
            results("pvn_test").unseen.sr.value,
        ],
    ),
    *(
        Quote(page, sentence, "the counts of `pvn corpus make`", lambda: [full_size() + natural_counts()[0]])
        for page, sentence in (
            ("README.md", "instructions and flights; # without --size"),
            ("docs/commands.md", "a small one; without --size # segments in a minute"),
        )
    ),
    Quote("docs/commands.md", "all # landmark classes", "`pvn show catalogue`", lambda: [len(LANDMARK_NAMES)]),
    Quote(
        "docs/commands.md",
        '`pvn fly "go to the gorilla" --field 3` says "stopped # m from the gorilla"',
        '`pvn fly "go to the gorilla" --field 3`',
        lambda: numbers_after(r"stopped (\d+) m from the gorilla", printed('pvn fly "go to the gorilla" --field 3')),
    ),
    *(
        Quote(page, '"stopped # m from the gorilla after # steps", and the other', "the program", figures)
        for page, figures in (
            ("README.md", lambda: flown("README.md", 0)),
            ("docs/python.md", lambda: flown("docs/python.md", 1)),
        )
    ),
    Quote(
        "docs/recordings.md",
        "`pvn show flight --field 5 --segment 2 --agent pvn --out flight.SUFFIX`, # steps, # frames;",
        "`pvn show flight --field 5 --segment 2 --agent pvn`",
        film_steps,
    ),
    Quote(
        "docs/recordings.md",
        "(# for PVN, # for GSMN and Chaplot;",
        "`stop_threshold` of the shipped agents",
        lambda: [pvn.load_agent("pvn").stop_threshold, pvn.load_agent("gsmn").stop_threshold],
    ),
    Quote(
        "docs/recordings.md",
        "a flight of 100 steps has #.",
        "`plan_every` of the shipped agent",
        lambda: [-(-100 // pvn.load_agent("pvn").plan_every)],
    ),
    Quote(
        "docs/corpus.md",
        "as close to LANI as possible: # instructions in # fields.",
        "the plan of `pvn corpus make`",
        lambda: [full_size(), sum(len(plan_split(*split, 0, 0.3)) for split in split_sizes(FULL_SIZE).items())],
    ),
    Quote(
        "docs/corpus.md",
        "Its sentences come from # phrases,",
        "the bundled phrase banks",
        lambda: [sum(len(bank.phrases) for bank in bundled_banks())],
    ),
    Quote(
        "docs/corpus.md",
        "# flights of the corpus (seed 0) have a second instruction that follows no list of manoeuvres: # training "
        "segments in # voices, # dev segments in another",
        "the bundled natural instructions",
        natural_counts,
    ),
    Quote("docs/corpus.md", "`--noise #`, the default, gives one sentence", "`NOISE`", lambda: [NOISE]),
    Quote(
        "docs/corpus.md",
        "The vocabulary then has # ids,",
        "the vocabulary of the shipped agent",
        lambda: [len(pvn.load_agent("pvn").vocabulary)],
    ),
    Quote(
        "docs/benchmarks.md",
        "`make bench BENCH=oracle`: # segments of random routes in random fields, drawn by LANI's rules. | figure | "
        "here | paper | |---|---|---| "
        "| mean steps | # | 18 | | metres per step | # | 0.88 | | mean final distance, m | # | "
        "1.38 | | median final distance, m | # | 1.29 | | within 5 m | #% | 100% | | mean start to goal, m | # | 15.8 "
        "| | median start to goal, m | # | 14.8 |",
        "benchmarks/oracle.py",
        oracle_figures,
        is_slow=True,
    ),
    Quote(
        "docs/demo.md",
        "At most # visitors are admitted at the same time (`--visitors`), and # fly (`--flights`);",
        "`pvn demo --help`",
        lambda: [Demo().visitors, Demo().flights],
    ),
    Quote(
        "docs/demo.md",
        "Each visitor has # requests in # seconds, and instructions of up to # words and # characters.",
        "`RateLimit` and `Task`",
        lambda: [MAX_REQUESTS, REQUEST_SECONDS, MAX_WORDS, MAX_CHARACTERS],
    ),
    Quote(
        "docs/demo.md",
        "start, landmarks, agent and up to # instructions:",
        "`write_link`",
        lambda: [MAX_FLIGHTS],
    ),
    Quote("docs/conventions.md", "# x # pixels, # degrees across.", "`Camera`", camera),
    Quote(
        "docs/conventions.md",
        "| forward speed | 0 to # m/s, along the heading at each moment | clamped | | yaw rate | +-# degrees/s,",
        "`SimulatorConfig`",
        limits,
    ),
    Quote(
        "docs/conventions.md", "The altitude is held at # m.", "`SimulatorConfig`", lambda: [SimulatorConfig().altitude]
    ),
]


def marked(quote):
    marks = [pytest.mark.slow if quote.is_slow else pytest.mark.long]
    return pytest.param(quote, marks=marks, id=f"{quote.page}: {quote.sentence[:40]}")


@pytest.mark.parametrize("quote", list(map(marked, QUOTES)))
def test_a_page_quotes_what_is_printed(quote, undrawn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    sentence, quoted = quote.quoted()
    found = [as_written(value, like) for value, like in zip(quote.figures(), quoted, strict=True)]
    assert quoted == found, (
        f'{quote.page}: mend the sentence "{sentence}": it has {", ".join(quoted)}, but {quote.source} gives '
        f"{', '.join(found)}"
    )


@pytest.mark.slow
def test_the_narrators_page_quotes_what_it_tells():
    """Six of two hundred."""
    quoted = re.findall(r"^- \*(.*)\*$", (ROOT / "docs" / "narrator.md").read_text(), re.MULTILINE)
    texts = [segment.task.instruction for segment in make_narrated(200, seed=12)]
    wrong = [text for text in quoted if text not in texts]
    assert len(quoted) == 6 and not wrong, f"docs/narrator.md: mend {wrong}; six of them now: {texts[::33][:6]}"


def test_a_figure_that_no_longer_holds_is_named_with_the_sentence_to_mend(tmp_path, monkeypatch):
    wrong = replace(QUOTES[-1], figures=lambda: [6.0])
    with pytest.raises(AssertionError, match=r'mend the sentence "The altitude is held at 5 m\.".* gives 6'):
        test_a_page_quotes_what_is_printed(wrong, None, tmp_path, monkeypatch)
