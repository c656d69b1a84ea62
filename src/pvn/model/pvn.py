"""PVN, the agent: it updates its map at every step, predicts every few steps, and follows its last prediction."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import MapGrid, pose_in_map, wrap_angle
from pvn.model.agent import Agent, AgentMaps, config_from_json
from pvn.model.execution import (
    ExecutionConfig,
    ExecutionModel,
    begin_progress,
    look_around,
    to_action,
    update_progress,
)
from pvn.model.instruction import EncodedInstructions
from pvn.model.mapping import CarriedMap, SemanticMemory, one_frame_each
from pvn.model.visitation import (
    GOAL,
    OVERHEAD_MARGIN,
    Visitation,
    VisitationConfig,
    VisitationModel,
    end_headings,
    stays_at_start,
)
from pvn.simulator.interface import STOP, Observation, SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.world.task import TURNED_WITHIN, Task

LOOKED_FOR_BEYOND = 6.0
"""A goal closer to the start than this, metres, is not looked for."""
LEAST_WORDS = 16
"""Shorter sentences are padded to this length: where cells attend to words, torch's softmax over rows that are shorter
than a CPU's vectors takes five times as long."""
TURNS_FROM = 0.6
"""Angle between where a drone that has arrived faces and where it should, radians, from which it turns."""


@dataclass(frozen=True)
class PVNMemory:
    """What B flights remember between steps."""

    origin: Tensor
    """Start poses (B, 3), x, y, yaw, field frame."""
    instructions: EncodedInstructions
    """The B instructions."""
    semantic: SemanticMemory
    visitation: Visitation | None
    """The last prediction; None before the first step."""
    progress: Tensor
    """Probabilities (B, P) of being in each part of the way."""
    look: Tensor
    """(B,): the side to which a flight turns on the spot to look around, 1 left or -1 right; 0 once it flies."""
    steps_turned: Tensor
    """(B,) int64: for how many steps a drone that has arrived has turned to face where it should."""
    output: Tensor | None
    """Stage 2's last output (B, 3)."""
    step: int


class PVN(Agent):
    """A trained stage 1 and a trained stage 2."""

    system, least_words = "pvn", LEAST_WORDS

    def __init__(
        self,
        visitation: VisitationModel,
        execution: ExecutionModel,
        vocabulary: Vocabulary,
        *,
        plan_every: int = 6,
        stop_threshold: float | None = None,
        look_threshold: float | None = None,
        simulator: SimulatorConfig = SimulatorConfig(),
    ) -> None:
        """plan_every: steps between predictions (paper: T_d). Thresholds: those of the second stage if not given."""
        config = execution.config
        super().__init__(
            visitation, vocabulary, simulator, config.stop_threshold if stop_threshold is None else stop_threshold
        )
        self.visitation, self.execution, self.plan_every = visitation, execution.eval(), plan_every
        self.look_threshold = config.look_threshold if look_threshold is None else look_threshold

    @property
    def grid(self) -> MapGrid:
        """The cells of its maps."""
        return self.visitation.config.grid

    @property
    def quarter_turn(self) -> int:
        """Steps that a turn by 90 degrees on the spot takes."""
        return math.ceil(math.pi / 2 / (self.simulator.max_yaw_rate * self.simulator.step_seconds) - 1e-6)

    def changed(
        self,
        *,
        simulator: SimulatorConfig | None = None,
        stop_threshold: float | None = None,
        plan_every: int | None = None,
        look_threshold: float | None = None,
    ) -> Self:
        """The same networks with other flight settings; those not given are unchanged."""
        other = copy.copy(self)
        settings = {
            "simulator": simulator, "stop_threshold": stop_threshold, "plan_every": plan_every,
            "look_threshold": look_threshold,
        }  # fmt: skip
        vars(other).update({name: value for name, value in settings.items() if value is not None})
        return other

    @torch.inference_mode()
    def begin(self, tasks: Sequence[Task], device: torch.device) -> PVNMemory:
        """Encode the instructions; the map is empty, or complete for an agent that sees the field from above."""
        origin = torch.tensor([task.start for task in tasks], dtype=torch.float32, device=device)
        semantic, across = self.visitation.begin(len(tasks)), self.visitation.config.overhead_px
        if across is not None:
            image = simulator_for(tasks, device=device).top_down(across, OVERHEAD_MARGIN)
            still = torch.zeros((len(tasks), 6), device=device)  # a view from above has no pose
            semantic = self.visitation.update_map(one_frame_each(image, still, origin), semantic)
        return PVNMemory(
            origin=origin,
            instructions=self.visitation.encode(self.tokens(tasks, device)),
            semantic=semantic,
            visitation=None,
            progress=begin_progress(len(tasks), self.execution.config.num_parts, device),
            look=torch.zeros(len(tasks), device=device),
            steps_turned=torch.zeros(len(tasks), dtype=torch.int64, device=device),
            output=None,
            step=0,
        )

    @torch.inference_mode()
    def begin_with(self, carried: Sequence[CarriedMap], tasks: Sequence[Task], device: torch.device) -> PVNMemory:
        """As every agent, unless it sees the field from above: its map is complete."""
        has_view = self.visitation.config.overhead_px is not None
        return self.begin(tasks, device) if has_view else super().begin_with(carried, tasks, device)

    @torch.inference_mode()
    def act(self, observation: Observation, memory: PVNMemory) -> tuple[Tensor, PVNMemory]:
        """Update the map, predict if it is time, and look around or follow the last prediction."""
        if self.visitation.config.overhead_px is None:
            frames = one_frame_each(observation.image, observation.pose_world, memory.origin)
            memory = replace(memory, semantic=self.visitation.update_map(frames, memory.semantic))
        visitation, look = self._predict(memory)
        before = replace(memory, look=look)
        action, memory = self._follow(visitation, pose_in_map(observation.pose_world, memory.origin), before)
        if self.look_threshold < 1:  # otherwise no flight ever looks around
            is_looking = look[:, None] != 0
            yaw_rate = math.pi / 2 / (self.quarter_turn * self.simulator.step_seconds)
            turn = torch.stack([torch.zeros_like(look), look * yaw_rate, torch.zeros_like(look)], -1)
            action = torch.where(is_looking, turn, action)
            turned = torch.where(is_looking[:, 0], before.steps_turned, memory.steps_turned)
            progress = torch.where(is_looking, before.progress, memory.progress)
            memory = replace(memory, steps_turned=turned, progress=progress)
        return action, replace(memory, visitation=visitation, step=memory.step + 1)

    def _follow(self, visitation: Visitation, pose_map: Tensor, memory: PVNMemory) -> tuple[Tensor, PVNMemory]:
        """Follow a prediction, from poses (B, 3) in the map frames, or turn at its goal."""
        assert self.stop_threshold is not None
        parts, config = visitation.parts, self.execution.config
        progress = update_progress(memory.progress, parts[:, :-1], pose_map, config.grid)
        output = self.execution(look_around(parts, progress, pose_map, config))
        action = to_action(output, self.stop_threshold, self.simulator, config.min_speed, progress[:, -1])
        action, turned = self._turn_at_goal(action, visitation, pose_map, memory)
        return action, replace(memory, output=output, progress=progress, steps_turned=turned)

    def _predict(self, memory: PVNMemory) -> tuple[Visitation, Tensor]:
        """The prediction to follow, and the side (B,) to look to; both are new if it is time.

        A drone that looks around predicts after each quarter turn, three at most: its camera, which sees a quarter of
        the surroundings, has then seen all of them.
        """
        step, threshold = memory.step, self.look_threshold
        is_looking = memory.look != 0
        is_checked = threshold < 1 and step % self.quarter_turn == 0 and (step == 0 or bool(is_looking.any()))
        is_due = memory.visitation is None or step % self.plan_every == 0
        if not (is_due or is_checked):
            assert memory.visitation is not None
            return memory.visitation, memory.look
        visitation = self.visitation.predict(memory.semantic, memory.instructions)
        if memory.visitation is not None and not is_due:
            visitation = memory.visitation.replaced(is_looking, visitation)
        if not is_checked:
            return visitation, memory.look
        # The ground close to the drone is out of view wherever it looks; circles end there.
        unseen = visitation.unseen_goal.flatten(1) * (self.visitation.places.norm(dim=1) > LOOKED_FOR_BEYOND)
        is_unsure = unseen.sum(1) > threshold
        if step == 0:
            on_left = unseen @ (self.visitation.places[:, 1] > 0).to(unseen)
            look = torch.where(on_left > 0.5 * unseen.sum(1), 1.0, -1.0)
            return visitation, look * is_unsure
        return visitation, memory.look * (is_unsure & (step < 3 * self.quarter_turn))

    def _turn_at_goal(
        self, action: Tensor, visitation: Visitation, pose_map: Tensor, memory: PVNMemory
    ) -> tuple[Tensor, Tensor]:
        """Actions (B, 3) that turn on the spot before they stop, and for how many steps (B,) drones have turned.

        A drone that has arrived turns until it faces where it should, or for as many steps as a full turn takes. What
        it sees on the way may change the prediction, and with it the heading; so it stops only by a new prediction.
        """
        turned = memory.steps_turned
        if visitation.log_faced is None:
            return action, turned
        has_arrived = (turned > 0) | (action[:, STOP] > 0.5)
        if memory.step == 0:  # stage 2 needs many steps to notice that a way which leads nowhere is at its end
            has_arrived = has_arrived | stays_at_start(visitation, self.visitation.places)
        if not bool(has_arrived.any()):  # nearly always; the rest takes a millisecond
            return action, turned
        heading = end_headings(visitation, self.visitation.places, self.grid.cell)
        left = wrap_angle(heading - pose_map[:, 2])
        is_off = left.abs() > torch.where(turned > 0, TURNED_WITHIN, TURNS_FROM)
        is_outdated = (turned > 0) & (memory.step % self.plan_every != 0)
        is_turning = has_arrived & (is_off | is_outdated) & (turned < 4 * self.quarter_turn)
        none = torch.zeros_like(left)
        turn = torch.stack([none, self.simulator.yaw_rate_by(left), none], -1)
        stop = torch.stack([none, none, none + 1], -1)
        ending = torch.where(is_turning[:, None], turn, stop)
        return torch.where(has_arrived[:, None], ending, action), turned + is_turning

    def maps(self, memory: PVNMemory) -> AgentMaps | None:
        """The map as it is now, and the last prediction."""
        if memory.visitation is None:
            return None
        size = self.grid.size
        return AgentMaps(
            semantic_map=self.visitation.semantic_map(memory.semantic),
            is_known=memory.semantic.is_known.view(-1, size, size),
            grounding_map=memory.visitation.maps.grounding_map,
            probability=memory.visitation.probability,
        )

    def stop_probability(self, memory: PVNMemory) -> Tensor | None:
        """(B,): stage 2's at the last step, as far as the last part of the way is reached."""
        stop = super().stop_probability(memory)
        return None if stop is None else stop * memory.progress[:, -1]

    @property
    def networks(self) -> dict[str, nn.Module]:
        """Both stages."""
        return {"visitation": self.visitation, "execution": self.execution}

    def describe(self) -> dict[str, Any]:
        """Sizes of both stages, and how often it predicts."""
        return {
            "system": self.system,
            "visitation": asdict(self.visitation.config),
            "execution": asdict(self.execution.config),
            "plan_every": self.plan_every,
        }

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """An untrained PVN of the described sizes."""
        visitation = VisitationModel(config_from_json(VisitationConfig, description["visitation"]))
        execution = ExecutionModel(config_from_json(ExecutionConfig, description["execution"]))
        return cls(visitation, execution, vocabulary, plan_every=int(description["plan_every"]))


STOP_WITHIN = 0.5
"""The ideal second stage stops this far before the goal, metres, and a braking distance of 0.1 s at full speed."""


class IdealAct(PVN):
    """PVN with an ideal second stage: it flies straight to the most likely goal and stops there (paper: ideal Act).

    It does not turn at the goal.
    """

    def __init__(self, agent: PVN) -> None:
        super().__init__(
            agent.visitation, agent.execution, agent.vocabulary, plan_every=agent.plan_every,
            look_threshold=agent.look_threshold, simulator=agent.simulator,
        )  # fmt: skip
        self.stop_threshold = None

    def _follow(self, visitation: Visitation, pose_map: Tensor, memory: PVNMemory) -> tuple[Tensor, PVNMemory]:
        """Turn to the most likely goal and fly there."""
        goal = self.visitation.places[visitation.log_probability[:, GOAL].flatten(1).argmax(1)]
        off = goal - pose_map[:, :2]
        distance = off.norm(dim=-1)
        bearing = wrap_angle(torch.atan2(off[:, 1], off[:, 0]) - pose_map[:, 2])
        stop = distance < STOP_WITHIN + self.simulator.max_speed * 0.1
        turn = self.simulator.yaw_rate_by(bearing)
        # Slower in curves and near the goal, so as not to overshoot.
        speed = (distance / self.simulator.step_seconds / 2).clamp(max=self.simulator.max_speed)
        speed = speed * bearing.cos().clamp(min=0.0)
        return torch.stack([speed * ~stop, turn * ~stop, stop.to(speed)], -1), memory
