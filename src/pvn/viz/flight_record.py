"""A flight with everything its pilot saw, mapped, predicted and did, for recordings, figures and the demo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from pvn.evaluation.outcome import end_place, outcome
from pvn.evaluation.pilots import Pilot
from pvn.geometry import Camera, MapGrid
from pvn.model.agent import Agent
from pvn.paths import Points, wrap_radians
from pvn.rollout.flight import FlightLog, fly
from pvn.rollout.paragraph import Carried, fly_on, next_starts
from pvn.rollout.policy import Policy
from pvn.simulator.interface import Observation, SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.task import HORIZON, SUCCESS_M, Demonstration, Task

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Maps:
    """An agent's maps, S x S cells, in the map frame of the flight's start pose."""

    grid: MapGrid
    semantic: Floats
    """(3, S, S): the first three channels of the semantic map."""
    is_known: npt.NDArray[np.bool_]
    """(S, S): cells that were ever in view."""
    grounding: Floats
    """(3, S, S): how strongly the instruction's words respond to the map."""
    probability: Floats | None
    """(2, S, S): trajectory and goal distribution, each with sum 1; None for an agent that predicts neither."""


@dataclass(frozen=True)
class Moment:
    """One step: what was seen, and what was done."""

    step: int
    image: npt.NDArray[np.uint8]
    """(H, W, 3): the pilot's own picture."""
    pose_world: Floats
    """(6,), field frame."""
    velocity_world: Floats
    """(3,), field frame, m/s."""
    action: Floats
    """(3,): forward speed (m/s), yaw rate (rad/s), stop."""
    stop_probability: float | None
    """The pilot's estimate, 0 to 1; None for a pilot that makes none."""
    is_planned: bool
    """Whether a prediction was made at this step."""
    maps: Maps | None
    """None for a pilot without maps."""

    @property
    def has_prediction(self) -> bool:
        """Whether there are distributions to draw."""
        return self.maps is not None and self.maps.probability is not None


@dataclass(frozen=True)
class FlightRecord:
    """One flight from start to end."""

    pilot: str
    """The pilot's name."""
    task: Task
    demonstrated: Points | None
    """The demonstrated path (P, 2), field frame; None for a typed instruction."""
    moments: tuple[Moment, ...]
    log: FlightLog
    """This one flight (B = 1), on the CPU."""
    step_seconds: float
    camera: Camera = Camera()
    stop_threshold: float | None = None
    """The pilot stops when its stop probability exceeds this; None if it decides differently."""
    carried: Carried = None
    """What the pilot keeps for a flight that continues this one."""

    @property
    def goal(self) -> tuple[float, float] | None:
        """The end of the demonstrated path (x, y), field frame, if there is one."""
        return path_end(self.demonstrated)

    @property
    def distance(self) -> float | None:
        """Metres from the goal at the end, if there is a goal."""
        return None if self.goal is None else float(self.log.goal_distance([self.goal])[0])

    @property
    def has_stopped(self) -> bool:
        """Whether the pilot itself stopped."""
        return bool(self.log.has_stopped[0])

    @property
    def is_success(self) -> bool | None:
        """Whether it stopped near the goal; None without a goal."""
        return None if self.distance is None else self.has_stopped and self.distance < SUCCESS_M

    @property
    def flown_world(self) -> Floats:
        """(T + 1, 6): poses, field frame."""
        return self.log.pose_world[0].cpu().numpy()

    @property
    def speeds(self) -> Floats:
        """(T + 1,): speed over the ground before each step and after the last, m/s."""
        return np.hypot(*self.log.velocity_world[0, :, :2].numpy().T).astype(np.float32)

    @property
    def outcome(self) -> str:
        """How the flight ended, in words."""
        return outcome(self.distance, len(self.moments), self.has_stopped, end_place(self.log, 0, self.task))


def path_end(path: Points | None) -> tuple[float, float] | None:
    """The last point (x, y) of a path (P, 2), if there is a path."""
    return None if path is None else (float(path[-1, 0]), float(path[-1, 1]))


def predicted_moments(record: FlightRecord) -> list[Moment]:
    """The moments at which the pilot predicted distributions; a ValueError if there are none."""
    found = [moment for moment in record.moments if moment.is_planned and moment.has_prediction]
    if not found:
        raise ValueError(
            f"{record.pilot}: predicts no visitation distributions, expected a PVN; name pvn, one of its ablations or "
            "the file of a PVN"
        )
    return found


def spread_evenly(moments: Sequence[Moment], max_count: int) -> list[Moment]:
    """At most `max_count` moments, evenly spread, including the first and the last."""
    places = np.linspace(0, len(moments) - 1, min(len(moments), max_count)).round().astype(int)
    return [moments[place] for place in np.unique(places)]


def interpolate_pose(before: Floats, after: Floats, fraction: float) -> Floats:
    """The pose (6,) at a fraction, 0 to 1, of the way between two; angles turn the short way."""
    change = after - before
    change[3:] = wrap_radians(change[3:])
    return before + fraction * change


def _to_host(value: Tensor) -> Any:
    return value.float().cpu().numpy()


def _maps_of(agent: Agent, memory: Any) -> Maps | None:
    """The maps of a single flight after a step."""
    found, grid = agent.maps(memory), agent.grid
    if found is None or grid is None:
        return None
    return Maps(
        grid=grid,
        semantic=_to_host(found.semantic_map[0, :3]),
        is_known=found.is_known[0].cpu().numpy(),
        grounding=_to_host(found.grounding_map[0, :3]),
        probability=None if found.probability is None else _to_host(found.probability[0]),
    )


def fly_and_record(
    pilot: Pilot,
    task: Task,
    *,
    demonstrated: Points | None = None,
    carried: Carried = None,
    device: str = "cpu",
    horizon: int = HORIZON,
    watch: Callable[[Moment], None] = lambda moment: None,
) -> FlightRecord:
    """Fly one task and record everything.

    demonstrated: the task's demonstrated path (P, 2), if there is one; only the oracle follows it. carried: what the
    pilot carries over from the flight that this one continues. watch(moment) is called before each step; an exception
    that it raises ends the flight.
    """
    agent, moments = pilot.agent, list[Moment]()
    policy = pilot.policy_for([] if demonstrated is None else [Demonstration(task, demonstrated)])

    def keep(step: int, observation: Observation, action: Tensor, memory: Any) -> None:
        probability = None if agent is None else agent.stop_probability(memory)
        moment = Moment(
            step=step,
            image=observation.image[0].cpu().numpy().copy(),
            pose_world=_to_host(observation.pose_world[0]),
            velocity_world=_to_host(observation.velocity_world[0]),
            action=_to_host(action[0]),
            stop_probability=None if probability is None else float(probability[0]),
            is_planned=agent is not None and step % agent.plan_every == 0,
            maps=None if agent is None else _maps_of(agent, memory),
        )
        moments.append(moment)
        watch(moment)

    simulator = simulator_for([task], device=device, config=pilot.config)
    log, carried = fly_on(simulator, [task], policy, carried, horizon=horizon, watch=keep)
    return FlightRecord(
        pilot=pilot.name,
        task=task,
        demonstrated=demonstrated,
        moments=tuple(moments),
        log=FlightLog(**{name: value.cpu() for name, value in vars(log).items()}),
        step_seconds=pilot.config.step_seconds,
        camera=pilot.config.camera,
        stop_threshold=None if agent is None else agent.stop_threshold,
        carried=carried,
    )


def fly_next(
    pilot: Pilot,
    record: FlightRecord,
    instruction: str,
    *,
    device: str = "cpu",
    horizon: int = HORIZON,
) -> FlightRecord:
    """Fly another instruction from where a flight of the same pilot ended, with what the pilot carries over."""
    (start,) = next_starts(record.log)
    task = replace(record.task, start=start, instruction=instruction)
    return fly_and_record(pilot, task, carried=record.carried, device=device, horizon=horizon)


def fly_to_show(pilot: Pilot, task: Task, *, demonstrated: Points | None = None, device: str = "cpu") -> FlightRecord:
    """Fly a task and record it with pictures, even if the pilot does not use its camera; see `fly_and_record`."""
    if pilot.config.quality == "none":
        pilot = replace(pilot, config=replace(pilot.config, quality="full"))
    return fly_and_record(pilot, task, demonstrated=demonstrated, device=device)


def fly_paragraph_to_show(
    pilot: Pilot, task: Task, instructions: Sequence[str], *, device: str = "cpu"
) -> list[FlightRecord]:
    """Fly a task and then further instructions, each from where the last flight ended; a record of each flight."""
    records = [fly_to_show(pilot, task, device=device)]
    for instruction in instructions:
        records.append(fly_next(pilot, records[-1], instruction, device=device))
    return records


@dataclass(frozen=True, eq=False)
class FirstPictures:
    """The agents' own first pictures of several flights."""

    images: npt.NDArray[np.uint8]
    """(B, H, W, 3)."""
    camera: Camera = Camera()


def fly_with_first_pictures(
    tasks: Sequence[Task],
    policy: Policy,
    *,
    device: str = "cpu",
    config: SimulatorConfig = SimulatorConfig(),
) -> tuple[FlightLog, FirstPictures]:
    """Fly the tasks; returns the log and the first picture that each drone saw."""
    first: list[Tensor] = []

    def keep(step: int, observation: Observation, action: Tensor, memory: Any) -> None:
        if step == 0:
            first.append(observation.image.cpu())

    simulator = simulator_for(tasks, device=device, config=config)
    log = fly(simulator, tasks, policy, watch=keep, watches_all=False)
    return log, FirstPictures(first[0].numpy(), config.camera)
