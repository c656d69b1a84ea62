"""Verbs that fly and show: `pvn fly`, `pvn show`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import subcommand

from pvn.cli.options import Device

Pilot = Literal["oracle", "stop", "average"]


@dataclass(frozen=True, kw_only=True)
class Fly:
    """Fly a tour through a random field and draw every flight."""

    seed: int = 0
    """Which field and paragraph; the same seed gives the same flights."""
    pilot: Pilot = "oracle"
    """Who flies: oracle follows the demonstrated path, stop stays, average flies straight on."""
    device: Device = "cpu"
    """Where to simulate."""
    quality: Literal["fast", "full"] = "full"
    """How the drone sees: full has smooth edges and shadows, fast is four times faster."""
    out: Path = Path("pictures")
    """Folder for the pictures."""

    def run(self) -> None:
        """Fly, draw, and say what happened."""
        from rich.console import Console
        from rich.progress import track
        from rich.table import Table

        from pvn.app.figures import draw_flight, fly_with_frames
        from pvn.corpus.meadow import sample_paragraph
        from pvn.corpus.oracle import Oracle
        from pvn.corpus.pilots import Average, Stop
        from pvn.simulator.simulator import SimulatorConfig
        from pvn.world.task import SUCCESS_M

        console = Console()
        with console.status("compiling (the first time only) and flying"):
            tasks = [segment.task for segment in sample_paragraph(self.seed)]
            policy = {"oracle": Oracle, "stop": Stop, "average": Average}[self.pilot]()
            config = SimulatorConfig(quality=self.quality)
            log, frames = fly_with_frames(tasks, policy, device=self.device, config=config)
        paths = [self.out / f"flight_seed{self.seed}_{index + 1}.png" for index in range(len(tasks))]
        for index in track(range(len(tasks)), "drawing", console=console):
            draw_flight(paths[index], tasks[index], log, frames, index)
        distance, flown = log.goal_distance(tasks), log.distance_flown()
        table = Table(title=f"{self.pilot} in field {self.seed}")
        for heading in ("", "instruction", "steps", "flown", "ends"):
            table.add_column(heading, justify="right" if heading in ("", "steps", "flown") else "left")
        for index, task in enumerate(tasks):
            verdict = "success" if log.has_stopped[index] and distance[index] < SUCCESS_M else "failure"
            table.add_row(
                str(index + 1),
                task.instruction,
                str(int(log.num_steps[index])),
                f"{float(flown[index]):.1f} m",
                f"{float(distance[index]):.1f} m from the goal: {verdict}",
            )
        console.print(table)
        for path in paths:
            print(f"picture: {path}")


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Draw the contact sheet of all 63 landmark classes, from the front and from above."""

    out: Path = Path("pictures/catalogue.png")
    """File for the picture."""
    names: tuple[str, ...] = ()
    """Only these classes."""

    def run(self) -> None:
        """Draw, and say where."""
        from pvn.app.catalogue import draw_catalogue
        from pvn.app.saving import picture_path
        from pvn.world.landmarks import LANDMARK_NAMES

        draw_catalogue(picture_path(self.out), self.names or LANDMARK_NAMES)
        print(f"landmark classes: {self.out}")


@dataclass(frozen=True, kw_only=True)
class Field:
    """Draw a field from above, and what a drone sees on an oracle flight through it."""

    seed: int = 0
    """Which random field, and which flights through it."""
    file: Path | None = None
    """Draw the field in this LANI environment file (random_config_N.json) instead of a random one."""
    out: Path | None = None
    """File for the picture; by default in the folder pictures."""
    save: Path | None = None
    """Also write the field as a LANI environment file (random_config_N.json)."""

    def run(self) -> None:
        """Draw, and say where."""
        from pvn.app.figures import draw_flight, fly_with_frames
        from pvn.app.saving import picture_path
        from pvn.corpus.meadow import sample_paragraph
        from pvn.corpus.oracle import Oracle
        from pvn.world.lani import read_layout, write_layout

        layout = None if self.file is None else read_layout(self.file)
        name = f"field_seed{self.seed}" if self.file is None else self.file.stem
        out = picture_path(self.out or Path(f"pictures/{name}.png"))
        tasks = [segment.task for segment in sample_paragraph(self.seed, layout)]
        task = max(tasks, key=lambda task: len(task.path))
        log, frames = fly_with_frames([task], Oracle())
        draw_flight(out, task, log, frames, 0)
        print(f"{name}, {len(task.layout.landmarks)} landmarks: {out}")
        if self.save is not None:
            write_layout(task.layout, self.save)
            print(f"environment file: {self.save}")


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw pictures of the world."""

    what: (
        Annotated[Catalogue, subcommand("catalogue", prefix_name=False)]
        | Annotated[Field, subcommand("field", prefix_name=False)]
    )

    def run(self) -> None:
        """Draw it."""
        self.what.run()
