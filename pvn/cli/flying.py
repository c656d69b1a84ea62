"""Verbs that fly and show: `pvn fly`, `pvn show`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, subcommand

from pvn.cli.options import Device
from pvn.cli.serving import fly_over_airsim

if TYPE_CHECKING:
    from pvn.learning.agent import Agent

Pilot = Literal["pvn", "oracle", "stop", "average"]


MOST_WORDS = 100


def _check_words(instruction: str, agent: Agent) -> None:
    """Refuse what no pilot could follow; say which words the agent does not know."""
    from pvn.corpus.vocabulary import tokenise

    words = tokenise(instruction)
    if not words:
        raise ValueError(
            'instruction: got no words, expected a sentence such as "go past the barrel and stop at the well"'
        )
    if len(words) > MOST_WORDS:
        raise ValueError(f"instruction: got {len(words)} words, expected at most {MOST_WORDS}; say it in fewer")
    unknown = agent.vocabulary.unknown_words(instruction)
    if unknown:
        print(f"words the agent has never read, and will not heed: {', '.join(dict.fromkeys(unknown))}")


def _pilot(name: Pilot, weights: Path | None, device: str) -> Any:
    """The pilot of that name."""
    from pvn.corpus.oracle import Oracle
    from pvn.corpus.pilots import Average, Stop
    from pvn.learning.agent import load_agent, shipped_agent

    match name:
        case "pvn":
            return shipped_agent(device) if weights is None else load_agent(weights, device)
        case "oracle":
            return Oracle()
        case "stop":
            return Stop()
        case _:
            return Average()


@dataclass(frozen=True, kw_only=True)
class Fly:
    """Fly instructions through a random field, one of your own or five of the field's, and draw every flight."""

    instruction: Positional[str | None] = None
    """What to do, in your words: "go past the barrel on the left and stop at the phone booth"."""
    seed: int = 0
    """Which field and paragraph; the same seed gives the same flights."""
    pilot: Pilot = "pvn"
    """Who flies: pvn is the trained agent, oracle follows the demonstrated path, stop stays, average flies on."""
    weights: Path | None = None
    """An agent you trained (agent.safetensors) instead of the one in the package."""
    device: Device = "cpu"
    """Where to simulate."""
    quality: Literal["fast", "full"] = "full"
    """How the drone sees: full, as the agent was trained, has smooth edges and shadows; fast is four times faster."""
    out: Path = Path("pictures")
    """Folder for the pictures."""
    simulator: str | None = None
    """Fly your instruction in another world instead: airsim://HOST:PORT, an AirSim server (docs/airsim.md)."""
    stepped: bool = False
    """Pause that world while the agent thinks, so that slow machines see the same flight."""

    def run(self) -> None:
        """Fly, draw, and say what happened."""
        from dataclasses import replace

        from rich.console import Console
        from rich.progress import track

        from pvn.app.figures import draw_flight, fly_with_frames
        from pvn.app.tables import print_flights
        from pvn.corpus.meadow import sample_paragraph
        from pvn.model.pvn import PVN
        from pvn.simulator.simulator import SimulatorConfig

        policy = _pilot(self.pilot, self.weights, self.device)
        if self.instruction is not None:
            if self.pilot != "pvn":
                raise ValueError(f"pilot: got {self.pilot!r}, expected pvn: the others do not read instructions")
            _check_words(self.instruction, policy)
        if self.simulator is not None:
            fly_over_airsim(self.simulator, self.instruction, policy, self.out, is_stepped=self.stepped)
            return
        console = Console()
        with console.status("compiling (the first time only) and flying"):
            tasks = [segment.task for segment in sample_paragraph(self.seed)]
            if self.instruction is not None:
                tasks = [replace(tasks[0], instruction=" ".join(self.instruction.split()))]
            config = SimulatorConfig(quality=self.quality)
            if isinstance(policy, PVN):
                config = replace(config, camera=policy.visitation.config.camera)
            log, frames = fly_with_frames(tasks, policy, device=self.device, config=config)
        paths = [self.out / f"flight_seed{self.seed}_{index + 1}.png" for index in range(len(tasks))]
        is_shown = self.instruction is None
        for index in track(range(len(tasks)), "drawing", console=console):
            draw_flight(paths[index], tasks[index], log, frames, index, has_goal=is_shown)
        print_flights(f"{self.pilot} in field {self.seed}", tasks, log, has_goals=is_shown)
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
