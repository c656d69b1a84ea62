"""Verbs that fly and show: `pvn fly`, `pvn show`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, subcommand

from pvn.cli.options import Device
from pvn.cli.serving import fly_over_airsim

if TYPE_CHECKING:
    from pvn.geometry import Camera
    from pvn.learning.agent import Agent
    from pvn.rollout.flight import FlightLog
    from pvn.simulator.simulator import SimulatorConfig
    from pvn.world.task import Task

Pilot = Literal["pvn", "gsmn", "chaplot", "oracle", "stop", "average"]


MOST_WORDS = 100
_OURS = ("seed", "segment", "corpus", "file", "start", "device", "quality", "save")
"""Options of flights in our own world, on the device where it is simulated."""
_KINDS = {".png": "picture", ".mp4": "film", ".rrd": "recording"}


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
    from pvn.evaluation.systems import make_system
    from pvn.learning.agent import load_agent
    from pvn.rollout.oracle import Oracle
    from pvn.rollout.trivial_pilots import Average, Stop

    match name:
        case "pvn" | "gsmn" | "chaplot":
            return make_system(name, device=device).policy if weights is None else load_agent(weights, device)
        case "oracle":
            return Oracle()
        case "stop":
            return Stop()
        case _:
            return Average()


def _camera(policy: Any) -> Camera:
    """The camera that a pilot was trained with; the usual one for a pilot that was not."""
    from pvn.geometry import Camera

    model = getattr(policy, "visitation", getattr(policy, "model", None))
    return Camera() if model is None else model.config.camera


@dataclass(frozen=True, kw_only=True)
class Fly:
    """Fly instructions through a random field, one of your own or five of the field's, and draw every flight."""

    instruction: Positional[str | None] = None
    """What to do, in your words: "go past the barrel on the left and stop at the phone booth"."""
    seed: int = 0
    """Which field and paragraph; the same seed gives the same flights."""
    segment: str | None = None
    """Only this one of the five, 1 to 5; with a corpus, the one with this id (12-3)."""
    corpus: Path | None = None
    """Fly a segment of this corpus."""
    file: Path | None = None
    """Fly in the field of this LANI environment file (random_config_N.json) instead of a random one."""
    start: tuple[float, float, float] | None = None
    """Start your instruction here: x, y (metres), yaw (radians)."""
    pilot: Pilot = "pvn"
    """Who flies: pvn is the trained agent, gsmn and chaplot are its rivals, oracle follows the demonstrated path, stop
    stays, average flies on."""
    weights: Path | None = None
    """An agent you trained (agent.safetensors) instead of the one in the package."""
    device: Device = "cpu"
    """Where to simulate."""
    quality: Literal["fast", "full"] = "full"
    """How the drone sees: full, as the agent was trained, has smooth edges and shadows; fast is four times faster."""
    out: Path = Path("pictures")
    """Folder for the pictures."""
    save: Path | None = None
    """Folder for a recording (.rrd), a film (.mp4) and a summary figure (.png) of every flight, instead of pictures."""
    simulator: str | None = None
    """Fly your instruction in another world instead: airsim://HOST:PORT, an AirSim server (docs/airsim.md)."""
    stepped: bool = False
    """Pause that world while the agent thinks, so that slow machines see the same flight."""

    def _check_world(self) -> None:
        """Refuse options that would be ignored in the world that was chosen."""
        if self.simulator is None:
            if self.stepped:
                raise ValueError("stepped: got no other world to pause, expected --simulator airsim://HOST:PORT")
            return
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name in _OURS and value != option.default:
                raise ValueError(
                    f"{option.name}: got {value!r} beside --simulator, whose world has its own field, start and "
                    f"pictures, and sends them to the CPU; leave --{option.name} out, or --simulator"
                )

    def _check(self) -> None:
        self._check_world()
        if self.instruction is not None and self.pilot not in ("pvn", "gsmn", "chaplot"):
            raise ValueError(
                f"pilot: got {self.pilot!r}, expected pvn, gsmn or chaplot: the others do not read instructions"
            )
        if self.corpus is not None and (self.segment is None or self.file is not None):
            raise ValueError("corpus: got no segment, or a file beside it; expected --segment 12-3, and no --file")
        if self.start is not None and self.instruction is None:
            raise ValueError("start: got no instruction to go with it, expected one in quotes")
        if self.save is not None and self.save.exists() and not self.save.is_dir():
            raise ValueError(f"save: got {self.save}, which is a file, expected a folder")

    def _tasks(self) -> list[Task]:
        """What to fly."""
        from dataclasses import replace

        import numpy as np

        from pvn.corpus.meadow.generator import sample_paragraph
        from pvn.corpus.store import read_corpus
        from pvn.world.lani import read_layout
        from pvn.world.task import Task

        layout = None if self.file is None else read_layout(self.file)
        words = None if self.instruction is None else " ".join(self.instruction.split())
        if layout is not None and self.start is not None and words is not None:
            # Someone's own arrangement may be one through which no tour leads.
            return [Task(layout, self.start, np.array([self.start[:2]] * 2), words)]
        if self.corpus is not None:
            tasks = [read_corpus(self.corpus).segment(str(self.segment)).task]
        else:
            tasks = [segment.task for segment in sample_paragraph(self.seed, layout)]
            if self.segment is not None:
                if self.segment not in map(str, range(1, len(tasks) + 1)):
                    raise ValueError(f"segment: got {self.segment!r}, expected 1 to {len(tasks)}")
                tasks = [tasks[int(self.segment) - 1]]
        if words is not None:
            tasks = [replace(tasks[0], instruction=words, start=self.start or tasks[0].start)]
        return tasks

    def run(self) -> None:
        """Fly, draw, and say what happened."""
        from pvn.evaluation.systems import System
        from pvn.report.tables import print_flights
        from pvn.simulator.simulator import SimulatorConfig

        self._check()
        policy = _pilot(self.pilot, self.weights, self.device)
        if self.instruction is not None:
            _check_words(self.instruction, policy)
        config = SimulatorConfig(quality=self.quality, camera=_camera(policy))
        if self.simulator is not None:
            system = System(self.pilot, policy, config, self.pilot)
            fly_over_airsim(self.simulator, self.instruction, system, self.out, is_stepped=self.stepped)
            return
        tasks = self._tasks()
        log, paths = (self._draw if self.save is None else self._record)(policy, config, tasks)
        title = f"{self.pilot} in {self._where}"
        print_flights(title, tasks, log, has_goals=self.instruction is None, labels=self._labels(tasks))
        for path in paths:
            print(f"{_KINDS[path.suffix]}: {path}")

    @property
    def _where(self) -> str:
        """The field, or the segment of a corpus, that is flown."""
        if self.corpus is not None:
            return f"{self.corpus}, segment {self.segment}"
        return f"field {self.seed}" if self.file is None else str(self.file)

    def _labels(self, tasks: list[Task]) -> list[str]:
        """What each flight is called: the segment that was asked for, or its number in the paragraph."""
        return [str(number) for number in range(1, len(tasks) + 1)] if self.segment is None else [self.segment]

    def _name(self, label: str) -> str:
        """Of the files of a flight."""
        if self.corpus is not None:
            return f"{self.corpus.resolve().name}_{label}"
        return f"{'flight' if self.file is None else self.file.stem}_seed{self.seed}_{label}"

    def _draw(self, policy: Any, config: SimulatorConfig, tasks: list[Task]) -> tuple[FlightLog, list[Path]]:
        """Fly all at once, and draw each."""
        from rich.console import Console
        from rich.progress import track

        from pvn.viz.flight_picture import draw_flight, fly_with_frames

        console = Console()
        with console.status("compiling (the first time only) and flying"):
            log, frames = fly_with_frames(tasks, policy, device=self.device, config=config)
        paths = [self.out / f"{self._name(label)}.png" for label in self._labels(tasks)]
        for index in track(range(len(tasks)), "drawing", console=console):
            draw_flight(paths[index], tasks[index], log, frames, index, has_goal=self.instruction is None)
        return log, paths

    def _record(self, policy: Any, config: SimulatorConfig, tasks: list[Task]) -> tuple[FlightLog, list[Path]]:
        """Fly one by one, and write recording, film and summary of each."""
        from pvn.cli.progress import progress_over
        from pvn.evaluation.systems import System
        from pvn.rollout.flight import join_logs
        from pvn.viz.flight_files import fly_to_show, missing, save_flight

        assert self.save is not None
        for line in missing().values():
            print(line)
        logs, paths = [], []
        for label, task in zip(self._labels(tasks), progress_over("flying and recording", tasks), strict=True):
            system = System(self.pilot, policy, config, self.pilot)
            recorded = fly_to_show(system, task, has_goal=self.instruction is None, device=self.device)
            paths += save_flight(recorded, self.save / self._name(label))
            logs.append(recorded.log)
        return join_logs(logs), paths


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Draw the contact sheet of all 63 landmark classes, from the front and from above."""

    out: Path = Path("pictures/catalogue.png")
    """File for the picture."""
    names: tuple[str, ...] = ()
    """Only these classes."""

    def run(self) -> None:
        """Draw, and say where."""
        from pvn.viz.catalogue import draw_catalogue
        from pvn.viz.saving import picture_path
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
        from pvn.corpus.meadow.generator import sample_paragraph
        from pvn.rollout.oracle import Oracle
        from pvn.viz.flight_picture import draw_flight, fly_with_frames
        from pvn.viz.saving import picture_path
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
class Flight:
    """Show one flight as a film (.mp4, .webp, .gif), as a Rerun recording (.rrd) or on one page (.png)."""

    seed: int = 0
    """Which random field and paragraph."""
    number: int = 1
    """Which of the paragraph's instructions, from 1."""
    system: str = "pvn"
    """Who flies: pvn, gsmn, chaplot, oracle, any other that `pvn evaluate` knows, or an agent's .safetensors."""
    out: Path | None = None
    """File to write; its ending says what. By default a film in the folder pictures."""

    def run(self) -> None:
        """Fly, write, and say how it went."""
        from pvn.corpus.meadow.generator import sample_paragraph
        from pvn.evaluation.systems import make_system
        from pvn.viz.flight_files import flight_path, fly_to_show, write_flight
        from pvn.viz.flight_picture import outcome

        out = flight_path(self.out or Path(f"pictures/flight_seed{self.seed}_{self.number}.mp4"))
        tasks = [segment.task for segment in sample_paragraph(self.seed)]
        if not 1 <= self.number <= len(tasks):
            raise ValueError(f"number: got {self.number}, expected 1 to {len(tasks)}, as many as field {self.seed} has")
        recorded = fly_to_show(make_system(self.system), tasks[self.number - 1])
        write_flight(recorded, out)
        ending = outcome(recorded.distance, len(recorded.moments), recorded.has_stopped)
        print(f"“{recorded.task.instruction}”: {ending}: {out}")


@dataclass(frozen=True, kw_only=True)
class Show:
    """Draw pictures of the world, and films of flights."""

    what: (
        Annotated[Catalogue, subcommand("catalogue", prefix_name=False)]
        | Annotated[Field, subcommand("field", prefix_name=False)]
        | Annotated[Flight, subcommand("flight", prefix_name=False)]
    )

    def run(self) -> None:
        """Draw it."""
        self.what.run()
