"""`pvn corpus`: make, extend, import and look at corpora."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, UseAppendAction, subcommand

from pvn.cli.options import LeftOut, SegmentNames, Split, print_json

LINES_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class CorpusMake:
    """Make the bundled corpus of generated and natural instructions, or a corpus from your own phrase banks."""

    out: Path
    """Folder for the corpus; it must not exist."""
    size: int = 27_965
    """Generated segments in all splits together, give or take one; by default 19,758 train, 4,135 dev and 4,072 test.
    Natural instructions are added: 7,000 train and 300 dev segments, or proportionally fewer for a smaller size."""
    seed: int = 0
    """The same seed gives the same corpus."""
    bank: UseAppendAction[tuple[tuple[Path, ...], ...]] = ()
    """Phrase bank files to use instead of the five bundled ones (docs/formats.md); may be repeated. Natural
    instructions are then left out."""
    without: LeftOut = ()
    """What to leave out: natural, the instructions that a language model wrote in assumed voices. The corpus then has
    exactly the given size."""
    narrated: int = 0
    """Add this many training segments with instructions by the narrator (docs/narrator.md)."""
    only: Split | None = None
    """Make only this split. With your own banks and no training split, every phrase counts as unseen."""
    noise: float = 0.04
    """Fraction of generated sentences with a slip: a dropped article or a typo. With 0 the banks' misspellings are
    corrected too. Natural instructions are never changed."""
    processes: int = 0
    """How many processes; 0 means one per core, or a single one for fewer than 1,000 segments."""

    def run(self) -> None:
        """Make the corpus, and print how many segments it has."""
        import time

        from pvn.cli.progress import progress_bar, working
        from pvn.corpus.meadow.banks import read_banks
        from pvn.corpus.meadow.generator import FULL_SIZE, make_meadow, pool_for, split_sizes
        from pvn.corpus.narrator.making import make_narrated
        from pvn.corpus.natural.bundled import natural_corpus
        from pvn.corpus.segments import SPLITS, Corpus, joined
        from pvn.corpus.store import check_new, write_corpus

        check_new(self.out)
        if self.processes < 0:
            raise ValueError(f"processes: got {self.processes}, expected 0 (one per core) or more")
        if self.narrated < 0:
            raise ValueError(f"narrated: got {self.narrated}, expected 0 or more segments")
        if self.narrated and self.only not in (None, "train"):
            raise ValueError(
                f"narrated: got {self.narrated} with --only {self.only}, expected them in a training split; leave one "
                "of the two out"
            )
        banks = read_banks([path for group in self.bank for path in group])
        only = SPLITS if self.only is None else (self.only,)
        began = time.perf_counter()
        with pool_for(max(self.size, self.narrated), self.processes) as pool:
            with progress_bar("segments", sum(split_sizes(self.size, only).values())) as advance_to:
                corpus = make_meadow(
                    banks,
                    size=self.size,
                    seed=self.seed,
                    noise=self.noise,
                    only=only,
                    is_all_unseen=bool(self.bank) and self.only in ("dev", "test"),
                    pool=pool,
                    watch=advance_to,
                )
            origin = {
                "seed": self.seed, "size": self.size, "noise": self.noise, "banks": [bank.author for bank in banks]
            }  # fmt: skip
            if not self.bank and "natural" not in self.without:
                with working("adding natural instructions"):
                    natural = natural_corpus(min(self.size / FULL_SIZE, 1.0), seed=self.seed, only=only)
                    corpus = joined((corpus, natural), corpus.name)
                origin["natural"] = {split: len(segments) for split, segments in natural.splits.items()}
            if self.narrated:
                with progress_bar("narrated segments", self.narrated) as advance_to:
                    train = make_narrated(self.narrated, seed=self.seed, noise=self.noise, pool=pool, watch=advance_to)
                corpus = joined((corpus, Corpus("narrated", {"train": train})), corpus.name)
                origin["narrated"] = self.narrated
        with working("writing the corpus"):
            write_corpus(corpus, self.out, origin)
        parts = ", ".join(f"{len(corpus[split]):,} {split}" for split in corpus.splits)
        print(f"{len(corpus):,} segments ({parts}) in {time.perf_counter() - began:.0f} s: {self.out}")


@dataclass(frozen=True, kw_only=True)
class CorpusStats:
    """Print a corpus's statistics beside LANI's."""

    folder: Positional[Path]
    """Folder of the corpus."""
    json: bool = False
    """Print one JSON object instead of tables."""

    def run(self) -> None:
        """Measure and print."""
        from pvn.cli.progress import working
        from pvn.corpus.statistics import measure_corpus
        from pvn.corpus.store import origin, read_corpus
        from pvn.viz.tables import print_corpus_report

        with working("reading and counting"):
            report = measure_corpus(read_corpus(self.folder)) | {"origin": origin(self.folder)}
        print_json(report) if self.json else print_corpus_report(report)


@dataclass(frozen=True, kw_only=True)
class CorpusShow:
    """Draw a segment of a corpus (field from above, path, instruction), or a sheet of several."""

    folder: Positional[Path]
    """Folder of the corpus."""
    segment: SegmentNames = ()
    """Which segments: environment and place in the paragraph, such as 12-3; by default random ones."""
    count: int = 1
    """How many random segments, if none are named."""
    seed: int = 0
    """Which random segments."""
    out: Path | None = None
    """File for the picture; by default in the folder pictures."""

    def run(self) -> None:
        """Draw the segments, and print their instructions."""
        import random

        from pvn.cli.progress import working
        from pvn.corpus.store import read_corpus
        from pvn.viz.saving import picture_path
        from pvn.viz.segment_pictures import draw_segment, draw_segments

        with working("reading the corpus"):
            corpus = read_corpus(self.folder)
        if not 1 <= self.count <= len(corpus):
            raise ValueError(f"count: got {self.count}, expected 1 to {len(corpus)}, the number of segments")
        ids = self.segment or random.Random(self.seed).sample([segment.id for segment in corpus], self.count)
        chosen = [corpus.segment(name) for name in ids]
        is_sheet = len(chosen) > 1
        name = f"segments_seed{self.seed}" if is_sheet and not self.segment else f"segment_{'_'.join(ids)}"
        out = picture_path(self.out or Path(f"pictures/{name}.png"))
        with working("drawing"):
            draw_segments(out, chosen) if is_sheet else draw_segment(out, chosen[0])
        for segment in chosen:
            print(f"{segment.id}: {segment.task.instruction}")
        print(f"picture: {out}")


@dataclass(frozen=True, kw_only=True)
class CorpusAlignments:
    """Print which words go with which landmark classes in the training split."""

    folder: Positional[Path]
    """Folder of the corpus."""
    json: bool = False
    """Print one JSON object instead of a table."""

    def run(self) -> None:
        """Count and print."""
        from pvn.cli.progress import working
        from pvn.corpus.alignment import align
        from pvn.corpus.store import read_corpus
        from pvn.corpus.vocabulary import Vocabulary
        from pvn.viz.tables import print_alignments

        with working("reading the corpus"):
            train = read_corpus(self.folder, ("train",)).splits.get("train")
        if train is None:
            raise ValueError(
                f"{self.folder}: has no training split, expected one to count words in; make the corpus without --only"
            )
        with working("counting"):
            vocabulary = Vocabulary.from_texts(segment.task.instruction for segment in train)
            alignment = align(train, vocabulary)
        print_json(alignment.to_json()) if self.json else print_alignments(alignment)


@dataclass(frozen=True, kw_only=True)
class CorpusImport:
    """Read LANI's files, in drif's or CIFF's layout, into a corpus."""

    path: Positional[Path]
    """The folder that LANI was unpacked into."""
    out: Path
    """Folder for the corpus; it must not exist."""
    max_offset: float = 5.0
    """Greatest distance of people's starts and stops from the path they were shown, metres; segments with greater ones
    are not used. What is usual in your files is printed."""
    goal: Literal["path", "person"] = "path"
    """Where a segment ends: path, at the path's point nearest to where the person stopped (drif); or person, exactly
    where the person stopped (CIFF)."""

    def run(self) -> None:
        """Import, and print what could not be used and why."""
        import numpy as np

        from pvn.cli.progress import progress_over, working
        from pvn.corpus.lani_import import import_lani
        from pvn.corpus.store import check_new, write_corpus

        check_new(self.out)
        found = import_lani(
            self.path,
            lambda records: progress_over("paragraphs", records),
            max_offset=self.max_offset,
            goal=self.goal,
        )
        names = [str(file) for file in found.files]
        refused = [f"{refusal.record}: {refusal.reason}" for refusal in found.refusals]
        repaired = [f"{repair.record}: {repair.reason}" for repair in found.repairs]
        origin = {
            "layout": found.layout,
            "files": names,
            "max_offset": self.max_offset,
            "goal": self.goal,
            "not used": refused,
            "repaired": repaired,
        }
        with working("writing the corpus"):
            write_corpus(found.corpus, self.out, origin)
        for what, lines in (("not used", refused), ("repaired", repaired)):
            for line in lines[:LINES_SHOWN]:
                print(f"{what}: {line}")
            if len(lines) > LINES_SHOWN:
                print(f"{what}: and {len(lines) - LINES_SHOWN:,} more, all in {self.out / 'corpus.json'}")
        for file in found.left_out:
            print(f"not read, another set of annotations of the same environments: {file}; name the file to import it")
        for kind, count in found.count_refusals():
            print(f"not used in total: {count:,} x {kind}")
        if len(found.offsets):
            median, most, nearly_all = np.quantile(found.offsets, (0.5, 0.9, 0.99)).tolist()
            print(
                f"people stopped {median:.2f} m from the path in the median, 90% within {most:.2f} m, 99% within "
                f"{nearly_all:.2f} m, all within {found.offsets.max():.2f} m (--max-offset {self.max_offset:g})"
            )
        parts = ", ".join(f"{len(found.corpus[split]):,} {split}" for split in found.corpus.splits)
        print(
            f"{found.layout} layout, {found.num_records:,} paragraphs in {', '.join(names)}\n"
            f"{len(found.corpus):,} segments ({parts}), {len(found.refusals):,} not used, "
            f"{len(found.repairs):,} repaired: {self.out}"
        )


@dataclass(frozen=True, kw_only=True)
class CorpusAdd:
    """Add your own instructions to a corpus: other words for its flights (.json), or new flights (.csv)."""

    folder: Positional[Path]
    """Folder of the corpus; it is not changed."""
    file: Positional[Path]
    """Your instructions: JSON, {"12-3": "go to the well"} with the ids of segments, or CSV with the columns field,
    start, path, text and, if you like, author and split (docs/formats.md)."""
    out: Path
    """Folder for the corpus with your instructions in it; it must not exist."""
    author: str | None = None
    """Who wrote the instructions, where the file does not say."""

    def run(self) -> None:
        """Read, check and add, and print how many segments were added."""
        import hashlib

        from pvn.cli.progress import working
        from pvn.corpus.natural.own import read_instructions
        from pvn.corpus.segments import joined
        from pvn.corpus.store import check_new, origin, read_corpus, write_corpus

        check_new(self.out)
        with working("reading the corpus") as say:
            corpus = read_corpus(self.folder)
            say("reading your instructions")
            added = read_instructions(self.file, corpus, author=self.author)
        # The checksum distinguishes corpora with different versions of the file.
        note = {
            "file": self.file.name,
            "sha256": hashlib.sha256(self.file.read_bytes()).hexdigest(),
            "segments": len(added),
        }
        before = origin(self.folder)
        with working("writing the corpus"):
            write_corpus(
                joined((corpus, added), corpus.name), self.out, {**before, "added": [*before.get("added", []), note]}
            )
        parts = ", ".join(f"{len(added[split]):,} {split}" for split in added.splits)
        ids = [segment.id for segment in added]
        print(f"{len(added):,} of your instructions ({parts}): {ids[0]} to {ids[-1]}")
        print(f"{len(corpus) + len(added):,} segments: {self.out}")


@dataclass(frozen=True, kw_only=True)
class CorpusNarrate:
    """Describe the flights of a field by what happens along them, in the narrator's words."""

    field: int = 0
    """Which field; the same number gives the same field and flights."""
    count: int = 3
    """How many descriptions of each flight."""
    flights: Literal["generator", "tours", "returns"] = "generator"
    """Which flights: the generator's manoeuvres, a LANI-like tour, or flights there and back."""

    def run(self) -> None:
        """Print descriptions of each flight, and whether all that they claim is true of it."""
        import numpy as np

        from pvn.corpus.narrator.checks import are_true
        from pvn.corpus.narrator.making import sample_flights
        from pvn.corpus.narrator.names import narrator_lexicon
        from pvn.corpus.narrator.narration import narrate

        if self.field < 0 or self.count < 1:
            raise ValueError(f"field and count: got {self.field} and {self.count}, expected at least 0 and 1")
        generator = np.random.default_rng(self.field)
        is_right: list[bool] = []
        for place, flight in enumerate(sample_flights(self.field, self.flights)):
            print(f"{place}: {flight.task.instruction}")
            for _ in range(self.count):
                found = narrate(flight, narrator_lexicon(), generator)
                print(f"   {'(nothing that says where to stop)' if found is None else f'{found.voice}: {found.text}'}")
                is_right += are_true((clause.event for clause in (found.clauses if found else ())), flight)
        print(f"{sum(is_right)} of {len(is_right)} clauses are true of their flights")


@dataclass(frozen=True, kw_only=True)
class CorpusVerb:
    """Make, extend, import and look at corpora."""

    what: (
        Annotated[CorpusMake, subcommand("make", prefix_name=False)]
        | Annotated[CorpusAdd, subcommand("add", prefix_name=False)]
        | Annotated[CorpusStats, subcommand("stats", prefix_name=False)]
        | Annotated[CorpusShow, subcommand("show", prefix_name=False)]
        | Annotated[CorpusAlignments, subcommand("alignments", prefix_name=False)]
        | Annotated[CorpusNarrate, subcommand("narrate", prefix_name=False)]
        | Annotated[CorpusImport, subcommand("import-lani", prefix_name=False)]
    )

    def run(self) -> None:
        """Run it."""
        self.what.run()
