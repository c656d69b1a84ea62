"""What all agents share: networks, the words they know, a camera, and a map that one flight leaves to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, TypeVar, get_args, get_type_hints

import torch
from torch import Tensor, nn

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.model.cpu_inference import forget_sessions
from pvn.model.instruction import pad_tokens
from pvn.model.mapping import CarriedMap, InstructedModel, MappingModel, carry_maps, copy_map
from pvn.simulator.interface import STOP, Observation, SimulatorConfig
from pvn.world.task import Task


@dataclass(frozen=True)
class AgentMaps:
    """The maps of B flights, in the frames of their start poses."""

    semantic_map: Tensor
    """(B, 32, S, S): accumulated features of the ground."""
    is_known: Tensor
    """(B, S, S) bool: cells that were ever in view."""
    grounding_map: Tensor
    """(B, N, S, S): how strongly the instruction's words respond to the map."""
    probability: Tensor | None
    """(B, 2, S, S): trajectory and goal distribution, each sums to one; None for an agent that predicts neither."""


class Agent:
    """A policy made of networks, which reads its instruction and flies by a camera."""

    system: str
    """What its file calls it."""
    memory_has_rows = True
    plan_every = 1
    """Steps between its predictions; 1: it decides at every step."""
    least_words = 1
    """Shorter sentences are padded to this length."""

    def __init__(
        self,
        model: InstructedModel,
        vocabulary: Vocabulary,
        simulator: SimulatorConfig,
        stop_threshold: float | None,
    ) -> None:
        """model: the network that sees the pictures and reads the instructions.

        stop_threshold: the agent stops when its stop probability exceeds this; None: it stops otherwise.
        """
        forget_sessions(model)
        self.model, self.vocabulary, self.simulator = model.eval(), vocabulary, simulator
        self.stop_threshold = stop_threshold

    @property
    def camera(self) -> Camera:
        """The camera it was trained with."""
        return self.model.config.camera

    @property
    def grid(self) -> MapGrid | None:
        """The cells of its maps; None for an agent without maps."""
        return self.model.config.grid if isinstance(self.model, MappingModel) else None

    def tokens(self, tasks: Sequence[Task], device: torch.device) -> Tensor:
        """The instructions as word ids (B, N)."""
        encoded = [self.vocabulary.encode(task.instruction) for task in tasks]
        return pad_tokens(encoded, least=self.least_words).to(device)

    def begin(self, tasks: Sequence[Task], device: torch.device) -> Any:
        """Encode the instructions; the map is empty."""
        raise NotImplementedError

    def act(self, observation: Observation, memory: Any) -> tuple[Tensor, Any]:
        """Actions (B, 3), m/s, rad/s and stop, and the memory for the next step."""
        raise NotImplementedError

    def carry(self, memory: Any, flight: int) -> CarriedMap | None:
        """The map of one flight; None for an agent without maps."""
        return None if self.grid is None else copy_map(memory.origin, memory.semantic, flight)

    @torch.inference_mode()
    def begin_with(self, carried: Sequence[Any], tasks: Sequence[Task], device: torch.device) -> Any:
        """Encode the instructions; the maps are those of earlier flights, in the frames of the new start poses."""
        memory = self.begin(tasks, device)
        if not isinstance(self.model, MappingModel):
            return memory
        maps = carry_maps(carried, memory.origin, self.model.places, self.model.config.grid)
        return replace(memory, semantic=maps)

    def maps(self, memory: Any) -> AgentMaps | None:
        """Its maps; None for an agent without maps, and before the first step."""
        return None

    def stop_probability(self, memory: Any) -> Tensor | None:
        """Probability (B,), at the last step, that this is the place to stop; None if it estimates none."""
        return None if memory.output is None else memory.output[:, STOP].sigmoid()

    @property
    def networks(self) -> Mapping[str, nn.Module]:
        """Its networks, by the names they have in an agent's file."""
        return {"model": self.model}

    def describe(self) -> dict[str, Any]:
        """Sizes and settings as JSON: what `rebuild` needs, apart from weights and vocabulary."""
        return {"system": self.system, "model": asdict(self.model.config)}

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """An untrained agent of the described sizes."""
        raise NotImplementedError


Config = TypeVar("Config")


def _fits(value: object, hint: Any) -> bool:
    """Whether a value of JSON is of an annotated type; whole numbers count as float, true and false as neither."""
    options = get_args(hint) or (hint,)
    if type(value) is int:
        return int in options or float in options
    return type(value) in options


def config_from_json(kind: type[Config], content: Mapping[str, Any]) -> Config:
    """A configuration from the JSON of its fields, grid and camera included."""
    hints, nested = get_type_hints(kind), {"grid": MapGrid, "camera": Camera}
    values = {
        name: config_from_json(nested[name], value) if name in nested else value for name, value in content.items()
    }
    for name, value in values.items():
        if name in hints and not _fits(value, hints[name]):
            raise TypeError(
                f"{name}: got {str(value)[:60]!r}, expected {getattr(hints[name], '__name__', hints[name])}"
            )
    return kind(**values)


def placed(device: torch.device, agent: Agent) -> Agent:
    """The agent, all of whose networks are on a device."""
    for network in agent.networks.values():
        place_on(device, network)
    return agent


def place_on(device: torch.device, network: nn.Module) -> None:
    """Move a network to a device, with the memory layout that suits a GPU's convolutions: channels last."""
    network.to(device)
    if device.type == "cuda":
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
