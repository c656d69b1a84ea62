"""`pvn show`: pictures of landmarks and fields, and films of flights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import subcommand

from pvn.cli.file_names import unused_path
from pvn.cli.options import AgentName, Device, FieldName
from pvn.cli.tasks import describe_start, pick_segments, tour_segments, tour_stem
from pvn.systems import DEFAULT_AGENT


@dataclass(frozen=True, kw_only=True)
class ShowCatalogue:
    """Draw the contact sheet of all 63 landmark classes, from the front and from above."""

    out: Path = Path("pictures/catalogue.png")
    """File for the picture."""
    names: tuple[str, ...] = ()
    """Only these classes."""

    def run(self) -> None:
        """Draw the sheet."""
        from pvn.cli.progress import working
        from pvn.viz.catalogue import draw_catalogue
        from pvn.viz.saving import picture_path
        from pvn.world.landmarks import LANDMARK_NAMES

        path, names = picture_path(self.out), self.names or LANDMARK_NAMES
        with working(f"drawing {len(names)} landmark classes"):
            draw_catalogue(path, names)
        print(f"landmark classes: {self.out}")


@dataclass(frozen=True, kw_only=True)
class ShowField:
    """Draw a field from above, and what a drone sees as the oracle flies through it."""

    field: FieldName = 0
    """Which field: the number of a random one, or a LANI environment file (random_config_N.json)."""
    seed: int | None = None
    """Which tour through the field; by default a random field's own, or tour 0 of a field from a file."""
    segment: str = "1"
    """Which segment of the tour is flown, from 1; an instruction of your own (pvn fly) starts where the first does."""
    out: Path | None = None
    """File for the picture; by default in the folder pictures."""
    export: Path | None = None
    """Also write the field as a LANI environment file (random_config_N.json)."""

    def run(self) -> None:
        """Fly a segment of the tour and draw it."""
        from pvn.cli.progress import working

        with working("loading"):
            from pvn.rollout.oracle import Oracle
            from pvn.viz.flight_pictures import draw_flight
            from pvn.viz.flight_record import fly_with_first_pictures
            from pvn.viz.saving import picture_path
            from pvn.world.lani import write_layout

        stem = tour_stem(self.field, self.seed)
        name = stem if self.segment == "1" else f"{stem}_segment{self.segment}"
        out = picture_path(self.out or Path(f"pictures/{name}.png"))
        (chosen,) = pick_segments(tour_segments(self.field, self.seed), [self.segment])
        task = chosen.task
        assert chosen.demonstration is not None
        with working("flying (and compiling, the first time only)") as say:
            log, first_pictures = fly_with_first_pictures([task], Oracle([chosen.demonstration]))
            say("drawing")
            draw_flight(out, task, log, first_pictures, 0, demonstrated=chosen.demonstrated)
        print(f"{stem}, {len(task.layout.landmarks)} landmarks, {describe_start(task.start)}\npicture: {out}")
        if self.export is not None:
            write_layout(task.layout, self.export)
            print(f"environment file: {self.export}")


@dataclass(frozen=True, kw_only=True)
class ShowFlight:
    """Show one flight as a film (.mp4, .webp, .gif), as a Rerun recording (.rrd) or on one page (.png)."""

    field: FieldName = 0
    """Where to fly: the number of a random field, or a LANI environment file (random_config_N.json)."""
    seed: int | None = None
    """Which tour through the field; by default a random field's own, or tour 0 of a field from a file."""
    segment: str = "1"
    """Which segment of the tour, from 1."""
    agent: AgentName = DEFAULT_AGENT
    """Who flies: a system's name, or the file of an agent you trained."""
    runs: Path | None = None
    """Folder of training runs whose agents fly instead of the shipped ones."""
    device: Device = "cpu"
    """Where to simulate."""
    out: Path | None = None
    """File to write; its ending decides what. By default a film in the folder pictures."""

    def run(self) -> None:
        """Fly, write, and print how it ended."""
        from pvn.cli.progress import working

        with working("loading"):
            from pvn.evaluation.pilots import load_pilot
            from pvn.viz.flight_files import flight_path, write_flight
            from pvn.viz.flight_record import fly_to_show

        unnamed = Path(f"pictures/{tour_stem(self.field, self.seed)}_{self.segment}.mp4")
        out = flight_path(self.out or unused_path(unnamed))
        (chosen,) = pick_segments(tour_segments(self.field, self.seed), [self.segment])
        pilot = load_pilot(self.agent, runs=self.runs, device=self.device)
        with working("flying (and compiling, the first time only)") as say:
            record = fly_to_show(pilot, chosen.task, demonstrated=chosen.demonstrated, device=self.device)
            say(f"writing {out.name}")
            write_flight(record, out)
        print(f"“{record.task.instruction}”: {record.outcome}: {out}")


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw landmarks and fields, and make films of flights."""

    what: (
        Annotated[ShowCatalogue, subcommand("catalogue", prefix_name=False)]
        | Annotated[ShowField, subcommand("field", prefix_name=False)]
        | Annotated[ShowFlight, subcommand("flight", prefix_name=False)]
    )

    def run(self) -> None:
        """Run the chosen verb."""
        self.what.run()
