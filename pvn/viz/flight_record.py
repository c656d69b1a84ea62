"""A flight with all that its pilot saw, mapped, predicted and did: what recordings, figures and the demo show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pvn.evaluation.systems import System
from pvn.geometry import Camera, MapGrid
from pvn.model.gsmn import GSMNMemory
from pvn.model.pvn import PVNMemory
from pvn.rollout.flight import FlightLog, fly, simulator_for
from pvn.simulator.simulator import STOP, Observation
from pvn.world.task import HORIZON, SUCCESS_M, Task

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Maps:
    """What a pilot has on its maps, in the frame of the flight's start pose, S x S cells; on the host."""

    grid: MapGrid
    semantic: Floats
    """(3, S, S): the first three channels of the semantic map."""
    is_known: npt.NDArray[np.bool_]
    """(S, S): cells that were ever in view."""
    grounding: Floats
    """(3, S, S): how the instruction's words light up on the map."""
    probability: Floats | None
    """(2, S, S): trajectory's and goal's distribution, of a pilot that predicts them; each sums to one."""


@dataclass(frozen=True)
class Moment:
    """One step: what was there before it, and what was done."""

    step: int
    image: npt.NDArray[np.uint8]
    """(H, W, 3): what the drone sees."""
    pose_world: Floats
    """(6,), field frame."""
    velocity_world: Floats
    """(3,), field frame, m/s."""
    action: Floats
    """(3,): forward speed (m/s), yaw rate (rad/s), stop."""
    stop_chance: float | None
    """The pilot's own, 0 to 1; None for a pilot that has none."""
    is_planned: bool
    """Whether a prediction was made at this step."""
    maps: Maps | None
    """None for a pilot that has no maps."""


@dataclass(frozen=True)
class Recorded:
    """One flight to its end."""

    system: str
    task: Task
    has_goal: bool
    """Whether the task's path was demonstrated; not for an instruction that someone typed."""
    moments: tuple[Moment, ...]
    log: FlightLog
    """Of the one flight (B = 1), on the host."""
    step_seconds: float
    camera: Camera = Camera()
    """Of the drone."""
    stop_threshold: float | None = None
    """The pilot stops where its own chance to stop is above this; None for a pilot that has none."""

    @property
    def distance(self) -> float | None:
        """Metres from the goal at the end, if there is one."""
        return float(self.log.goal_distance([self.task])[0]) if self.has_goal else None

    @property
    def has_stopped(self) -> bool:
        """Whether the pilot itself said stop."""
        return bool(self.log.has_stopped[0])

    @property
    def is_success(self) -> bool | None:
        """Whether it stopped near the goal, if there is one."""
        return None if self.distance is None else self.has_stopped and self.distance < SUCCESS_M

    @property
    def flown_world(self) -> Floats:
        """(T + 1, 6): poses, field frame."""
        return self.log.pose_world[0].cpu().numpy()


def _host(value: Tensor) -> Any:
    return value.float().cpu().numpy()


def _maps(memory: Any, grid: MapGrid, row: int) -> Maps | None:
    """What is on the maps of one flight after a step."""
    if isinstance(memory, PVNMemory) and memory.visitation is not None:
        grounding, probability = memory.visitation.grounding_map[row], _host(memory.visitation.probability[row])
    elif isinstance(memory, GSMNMemory) and memory.decision is not None:
        grounding, probability = memory.decision.grounding_map[row], None
    else:
        return None
    semantic, is_known = memory.semantic.value[row], memory.semantic.is_known[row]
    size = grid.size
    return Maps(
        grid=grid,
        semantic=_host(semantic[:, :3].T.reshape(3, size, size)),
        is_known=is_known.view(size, size).cpu().numpy(),
        grounding=_host(grounding),
        probability=probability,
    )


def _stop_threshold(policy: Any) -> float | None:
    """The chance above which a pilot stops; None for one that goes by something else, as an ideal second stage does."""
    deciding = getattr(policy, "execution", getattr(policy, "model", None))
    return None if deciding is None else deciding.config.stop_threshold


def fly_and_record(
    system: System,
    task: Task,
    *,
    has_goal: bool = True,
    device: str = "cpu",
    horizon: int = HORIZON,
    watch: Callable[[Moment], None] = lambda moment: None,
) -> Recorded:
    """Fly one task and keep everything. watch(moment) is called before each step; what it raises ends the flight."""
    agent = getattr(system.policy, "agent", system.policy)  # PVN with an ideal second stage has one inside
    model = getattr(agent, "visitation", getattr(agent, "model", None))
    grid = getattr(getattr(model, "config", None), "grid", MapGrid())
    plan_every = getattr(agent, "plan_every", 1)
    stop_threshold = _stop_threshold(system.policy)
    moments: list[Moment] = []

    def keep(step: int, observation: Observation, action: Tensor, memory: Any) -> None:
        output = getattr(memory, "output", None)
        if isinstance(memory, GSMNMemory) and memory.decision is not None:
            output = memory.decision.output
        moment = Moment(
            step=step,
            image=observation.image[0].cpu().numpy().copy(),
            pose_world=_host(observation.pose_world[0]),
            velocity_world=_host(observation.velocity_world[0]),
            action=_host(action[0]),
            stop_chance=None if stop_threshold is None or output is None else float(torch.sigmoid(output[0, STOP])),
            is_planned=step % plan_every == 0,
            maps=_maps(memory, grid, 0),
        )
        moments.append(moment)
        watch(moment)

    simulator = simulator_for([task], device=device, config=system.config)
    log = fly(simulator, [task], system.policy, horizon=horizon, watch=keep)
    log = FlightLog(**{name: value.cpu() for name, value in vars(log).items()})
    return Recorded(
        system=system.name,
        task=task,
        has_goal=has_goal,
        moments=tuple(moments),
        log=log,
        step_seconds=system.config.step_seconds,
        camera=system.config.camera,
        stop_threshold=stop_threshold,
    )
