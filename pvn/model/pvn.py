"""The agent: maps every step, predicts every few steps, and flies by what it predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import to_map, wrap_angle
from pvn.model.execution import ExecutionModel, crop_around
from pvn.model.instruction import pad_tokens
from pvn.model.mapping import SemanticMemory, one_frame_each
from pvn.model.visitation import GOAL, OVERHEAD_MARGIN, Visitation, VisitationModel
from pvn.rollout.flight import simulator_for
from pvn.simulator.simulator import Observation, SimulatorConfig
from pvn.world.task import Task


def pose_in_map(pose_world: Tensor, origin: Tensor) -> Tensor:
    """Poses (B, 3), x, y, yaw, in the map frames of origins (B, 3), of poses (B, 6), field frame."""
    place = to_map(pose_world[:, None, :2], origin)[:, 0]
    return torch.cat([place, wrap_angle(pose_world[:, 5:] - origin[:, 2:])], -1)


def to_action(output: Tensor, stop_threshold: float, simulator: SimulatorConfig) -> Tensor:
    """Actions (B, 3), m/s, rad/s and stop, from stage 2's output (B, 3)."""
    speed = output[:, 0].clamp(0, 1) * simulator.max_speed
    turn = output[:, 1].clamp(-1, 1) * simulator.max_yaw_rate
    stop = output[:, 2].sigmoid() > stop_threshold
    return torch.stack([speed * ~stop, turn * ~stop, stop.to(speed)], -1)


@dataclass(frozen=True)
class PVNMemory:
    """What B flights remember between steps."""

    origin: Tensor
    """Start poses (B, 3), x, y, yaw, field frame."""
    embedding: Tensor
    """Of the instructions (B, E)."""
    semantic: SemanticMemory
    visitation: Visitation | None
    """The last prediction; None before the first step."""
    output: Tensor | None
    """Stage 2's last output (B, 3)."""
    step: int


class PVN:
    """A policy made of a trained stage 1 and a trained stage 2."""

    def __init__(
        self,
        visitation: VisitationModel,
        execution: ExecutionModel,
        vocabulary: Vocabulary,
        *,
        plan_every: int = 6,
        simulator: SimulatorConfig = SimulatorConfig(),
    ) -> None:
        """plan_every: steps between predictions (paper: T_d)."""
        self.visitation, self.execution, self.vocabulary = visitation.eval(), execution.eval(), vocabulary
        self.plan_every, self.simulator = plan_every, simulator

    @torch.inference_mode()
    def begin(self, tasks: Sequence[Task], device: torch.device) -> PVNMemory:
        """Read the instructions; nothing is seen yet, or all of it by an agent that is shown the field from above."""
        tokens = pad_tokens([self.vocabulary.encode(task.instruction) for task in tasks]).to(device)
        origin = torch.tensor([task.start for task in tasks], dtype=torch.float32, device=device)
        semantic, across = self.visitation.begin(len(tasks)), self.visitation.config.overhead_px
        if across is not None:
            image = simulator_for(tasks, device=device).top_down(across, OVERHEAD_MARGIN)
            still = torch.zeros((len(tasks), 6), device=device)  # a view from above is from no pose
            semantic = self.visitation.see(one_frame_each(image, still, origin), semantic)
        return PVNMemory(
            origin=origin,
            embedding=self.visitation.read(tokens),
            semantic=semantic,
            visitation=None,
            output=None,
            step=0,
        )

    @torch.inference_mode()
    def act(self, observation: Observation, memory: PVNMemory) -> tuple[Tensor, PVNMemory]:
        """Map what is seen, predict if it is time, and follow the last prediction."""
        semantic, visitation = memory.semantic, memory.visitation
        if self.visitation.config.overhead_px is None:
            frames = one_frame_each(observation.image, observation.pose_world, memory.origin)
            semantic = self.visitation.see(frames, semantic)
        if visitation is None or memory.step % self.plan_every == 0:
            visitation = self.visitation.predict(semantic, memory.embedding)
        pose = pose_in_map(observation.pose_world, memory.origin)
        output = self.execution(crop_around(visitation.probability, pose, self.execution.config))
        action = to_action(output, self.execution.config.stop_threshold, self.simulator)
        memory = replace(memory, semantic=semantic, visitation=visitation, output=output, step=memory.step + 1)
        return action, memory


STOP_WITHIN = 0.5
"""Metres from where it is going at which an ideal pilot says stop; braking takes it on a little."""


class IdealAct:
    """PVN whose second stage is ideal: it flies straight to the most likely goal and stops there (paper: ideal Act)."""

    def __init__(self, agent: PVN) -> None:
        self.agent, self.vocabulary = agent, agent.vocabulary

    def begin(self, tasks: Sequence[Task], device: torch.device) -> PVNMemory:
        """As PVN begins."""
        return self.agent.begin(tasks, device)

    @torch.inference_mode()
    def act(self, observation: Observation, memory: PVNMemory) -> tuple[Tensor, PVNMemory]:
        """Map and predict as PVN does; turn to the most likely goal and fly there."""
        _, memory = self.agent.act(observation, memory)
        assert memory.visitation is not None
        model, simulator = self.agent.visitation, self.agent.simulator
        goal = model.places[memory.visitation.log_probability[:, GOAL].flatten(1).argmax(1)]
        pose = pose_in_map(observation.pose_world, memory.origin)
        off = goal - pose[:, :2]
        distance = off.norm(dim=-1)
        bearing = wrap_angle(torch.atan2(off[:, 1], off[:, 0]) - pose[:, 2])
        stop = distance < STOP_WITHIN + simulator.max_speed * 0.1
        turn = (bearing / simulator.step_seconds).clamp(-simulator.max_yaw_rate, simulator.max_yaw_rate)
        # It slows down to turn, and before the goal, so as not to fly over it.
        speed = (distance / simulator.step_seconds / 2).clamp(max=simulator.max_speed) * bearing.cos().clamp(min=0.0)
        return torch.stack([speed * ~stop, turn * ~stop, stop.to(speed)], -1), memory
