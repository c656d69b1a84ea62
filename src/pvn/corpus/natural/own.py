"""Instructions of your own: other words for flights of a corpus (JSON), or new flights with their words (CSV).

docs/formats.md has both formats. A file is used as a whole or not at all; everything wrong with it is reported at once.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from pvn.corpus.meadow.generator import numbered_layout
from pvn.corpus.segments import SPLITS, Corpus, Segment, Split
from pvn.corpus.vocabulary import tokenise
from pvn.files import parse_json
from pvn.paths import Points, distances_along, path_length, points_along
from pvn.world.lani import read_layout
from pvn.world.layout import FIELD_SIZE, Landmark, Layout
from pvn.world.task import MAX_WORDS, Demonstration, Task

NEEDED, OPTIONAL = ("field", "start", "path", "text"), ("author", "split")
"""Columns of a CSV file."""
MAX_REPORTED = 20
"""Most problems that are reported."""
MAX_OFFSET = 2.0
"""Largest distance between start and first path point, metres."""
SPACING = 1.0
"""Largest distance between two points of a path, metres; where points are farther apart, others are put between."""
ENVIRONMENT_BLOCK = 1_000_000
"""Environment numbers are reserved in blocks: the first block is for generated fields, the second for the bundled
natural instructions; each file that is added gets the next free block."""

Value = TypeVar("Value")


@dataclass
class _Problems:
    """Collects what is wrong with a file, to report it all at once."""

    path: Path
    found: list[str] = field(default_factory=list)

    def note(self, where: str, what: object) -> None:
        """Add a problem."""
        self.found.append(f"{where}: {what}")

    def attempt(self, where: str, parse: Callable[[str], Value], text: str) -> Value | None:
        """The parsed text; None, and a problem, if it cannot be parsed."""
        try:
            return parse(text)
        except (ValueError, OSError) as error:
            self.note(where, error)
            return None

    def refuse(self) -> None:
        """Raise a ValueError with the problems, if there are any."""
        if not self.found:
            return
        count = "1 problem" if len(self.found) == 1 else f"{len(self.found):,} problems"
        more = len(self.found) - MAX_REPORTED
        lines = [*self.found[:MAX_REPORTED], *([f"and {more:,} more"] if more > 0 else [])]
        report = "".join(f"\n  {line}" for line in lines)
        raise ValueError(f"{self.path}: {count}, nothing was added; correct the file (docs/formats.md):{report}")


def _text(text: object) -> str:
    if not isinstance(text, str):
        raise ValueError(f"text: got {json.dumps(text):.60}, expected an instruction in quotes")
    words = text.split()
    if not tokenise(text):
        raise ValueError(f"text: got {text!r:.60}, expected an instruction in words")
    if len(words) > MAX_WORDS:
        raise ValueError(f"text: got {len(words)} words, expected at most {MAX_WORDS}; make it shorter")
    return " ".join(words)


def _numbers(text: str, name: str, shape: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        numbers = []
    if len(numbers) != len(shape.split()) or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name}: got {text.strip()!r:.60}, expected {shape}, numbers with a space between them")
    x, y = numbers[:2]
    if not (0 <= x <= FIELD_SIZE and 0 <= y <= FIELD_SIZE):
        raise ValueError(
            f"{name}: got ({x:g}, {y:g}), which is outside the field, expected x and y from 0 to {FIELD_SIZE:g} m"
        )
    return numbers


def _start(text: str) -> tuple[float, float, float]:
    """Start pose x, y, yaw (metres, radians), field frame."""
    x, y, degrees = _numbers(text, "start", "x y yaw_degrees")
    return x, y, math.radians(degrees)


def _path(text: str) -> Points:
    """Path (P, 2), field frame, metres."""
    points = np.array([_numbers(point, "path", "x y") for point in text.strip().strip(";").split(";")])
    if len(points) < 2 or path_length(points) == 0.0:
        raise ValueError(f"path: got {text.strip()!r:.60}, expected two or more places, such as '10 20; 12 25'")
    corners = distances_along(points)
    steps = [
        np.linspace(begin, end, max(math.ceil((end - begin) / SPACING), 1), endpoint=False)
        for begin, end in itertools.pairwise(corners.tolist())
        if end > begin
    ]
    return points_along(points, np.append(np.concatenate(steps), corners[-1]))


def _split(text: str) -> Split:
    for split in SPLITS:
        if text.strip() in ("", split):
            return split  # "" is train, the first
    raise ValueError(f"split: got {text.strip()!r:.60}, expected one of {', '.join(SPLITS)}")


def _read_field(text: str, folder: Path) -> Layout:
    """The layout of a numbered field, or in a file of the folder."""
    text = text.strip()
    if text.isdecimal():
        return numbered_layout(int(text))
    if not text or not (folder / text).is_file():
        raise ValueError(
            f"field: got {text!r:.60}, expected the number of a random field, or a LANI environment file in {folder}"
        )
    return read_layout(folder / text)


def _first_environment(corpus: Corpus) -> int:
    """The first number for new environments; those of the corpus are all lower."""
    highest = max((segment.environment for segment in corpus), default=0)
    return max(2, highest // ENVIRONMENT_BLOCK + 1) * ENVIRONMENT_BLOCK


def _reworded(path: Path, corpus: Corpus, author: str | None) -> dict[Split, list[Segment]]:
    """Segments of a corpus in the words of a JSON file."""
    source = path.read_text(encoding="utf-8-sig")
    content = parse_json(source, path, "correct the file")
    if not isinstance(content, dict) or not content:
        raise ValueError(f'{path}: expected an object of segments and texts, such as {{"12-3": "go to the well"}}')
    known = {segment.id: (split, segment) for split, part in corpus.splits.items() for segment in part}
    first, problems, seen = _first_environment(corpus), _Problems(path), set[str]()
    added: dict[Split, list[Segment]] = {split: [] for split in SPLITS}
    for key, value in json.loads(source, object_pairs_hook=tuple):  # a dictionary would hide that a key occurs twice
        where = f"{key!r:.40}"
        if key in seen:
            problems.note(where, "occurs twice, expected each segment once")
        seen.add(key)
        text = problems.attempt(where, _text, value)
        if key not in known:
            example = next(iter(known), "12-3")
            problems.note(where, f"no such segment in {corpus.name}, expected an id such as {example!r}")
        elif text is not None:
            split, segment = known[key]
            note = segment.annotation
            # Without the turn that may follow: whoever describes a flight is shown its path.
            demonstration = replace(segment.demonstration, task=replace(segment.task, instruction=text), turned_to=None)
            added[split].append(
                replace(
                    segment,
                    environment=first + segment.environment,
                    demonstration=demonstration,
                    annotation=note and replace(note, phrase="", is_seen=False, is_ambiguous=False),
                    source="natural",
                    author=author,
                )
            )
    problems.refuse()
    return added


@dataclass
class _Flights:
    """Reads the flights of a CSV file, row by row."""

    problems: _Problems
    first_environment: int
    homes: dict[tuple[Landmark, ...], Split]
    """The split of each field, by its landmarks."""
    layouts: dict[str, Layout] = field(default_factory=dict)
    """Fields by the text in the column, because making a numbered one takes time."""
    environments: dict[tuple[Landmark, ...], int] = field(default_factory=dict)
    num_places: Counter[int] = field(default_factory=Counter)

    def read(self, where: str, row: dict[str, str], author: str | None) -> tuple[Split, Segment] | None:
        """The segment of a row and its split; None, and problems, if something is wrong with it."""
        attempt = self.problems.attempt
        start, path = attempt(where, _start, row["start"]), attempt(where, _path, row["path"])
        text, split = attempt(where, _text, row["text"]), attempt(where, _split, row.get("split", ""))
        layout = attempt(where, self._layout, row["field"])
        if start is not None and path is not None and math.dist(start[:2], path[0]) > MAX_OFFSET:
            away = math.dist(start[:2], path[0])
            self.problems.note(where, f"path: begins {away:.1f} m from the start, expected at most {MAX_OFFSET:g} m")
        if layout is None or split is None:
            return None
        home = self.homes.setdefault(layout.landmarks, split)
        if home != split:
            what = f"field {row['field'].strip()} is in {home} already"
            self.problems.note(where, f"split: got {split}, but {what}; fields seen in training must not be scored")
        if start is None or path is None or text is None:
            return None
        environment = self.environments.setdefault(layout.landmarks, self.first_environment + len(self.environments))
        place = self.num_places[environment]
        self.num_places[environment] += 1
        demonstration = Demonstration(Task(layout, start, text), path)
        name = row.get("author", "").strip() or author
        return split, Segment(environment, place, demonstration, source="natural", author=name)

    def _layout(self, name: str) -> Layout:
        if name not in self.layouts:
            self.layouts[name] = _read_field(name, self.problems.path.parent)
        return self.layouts[name]


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file, including the header, each with the line it begins on."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader, begin = csv.reader(file, strict=True), 1
        try:
            for cells in reader:
                yield begin, cells
                begin = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {begin}: not valid CSV ({error}); correct the row that begins there: perhaps a quote is "
                "not closed"
            ) from None


def _rows(path: Path, problems: _Problems) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a CSV file as dictionaries, each with the line it begins on."""
    records = _records(path)
    header = [name.strip() for name in next(records, (1, []))[1]]
    missing = [name for name in NEEDED if name not in header]
    strange = [name for name in header if name not in NEEDED + OPTIONAL or header.count(name) > 1]
    if missing or strange:
        got = f"misses {', '.join(missing)}" if missing else f"has {strange[0]!r}"
        raise ValueError(
            f"{path}, line 1: the header {got}, expected the columns {', '.join(NEEDED)} and, if you like, "
            f"{' and '.join(OPTIONAL)}, each once"
        )
    for begin, cells in records:
        where = f"line {begin}"
        if cells and len(cells) != len(header):
            problems.note(where, f"got {len(cells)} cells, expected {len(header)}, one for each column")
        elif cells:
            yield where, dict(zip(header, cells, strict=True))


def _new_flights(path: Path, corpus: Corpus, author: str | None) -> dict[Split, list[Segment]]:
    """Segments with the flights and words of a CSV file."""
    problems = _Problems(path)
    homes = {segment.task.layout.landmarks: split for split, part in corpus.splits.items() for segment in part}
    flights = _Flights(problems, _first_environment(corpus), homes)
    added: dict[Split, list[Segment]] = {split: [] for split in SPLITS}
    has_rows = False
    for where, row in _rows(path, problems):
        has_rows = True
        found = flights.read(where, row, author)
        if found is not None:
            added[found[0]].append(found[1])
    problems.refuse()
    if not has_rows:
        raise ValueError(f"{path}: got no rows, expected one for each flight below the header")
    return added


def read_instructions(path: Path | str, corpus: Corpus, *, author: str | None = None) -> Corpus:
    """The segments that a file of instructions adds to a corpus, numbered so that they can be joined with it.

    A JSON file has other words for flights of the corpus, a CSV file has new flights. author: who wrote them, where the
    file does not say. Raises a ValueError that lists everything wrong with the file.
    """
    path = Path(path)
    if path.suffix.lower() not in (".json", ".csv"):
        raise ValueError(f"{path}: got a file that ends in {path.suffix or 'nothing'}, expected .json or .csv")
    try:
        added = (_reworded if path.suffix.lower() == ".json" else _new_flights)(path, corpus, author or None)
    except (FileNotFoundError, IsADirectoryError):
        raise FileNotFoundError(f"no file {path}; expected instructions as .json or .csv (docs/formats.md)") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error}); save it as UTF-8") from None
    # Segments of a field stay together, as in every corpus, even if their lines are apart.
    order = {
        split: tuple(sorted(segments, key=lambda one: (one.environment, one.place)))
        for split, segments in added.items()
        if segments
    }
    return Corpus(path.stem, order)
