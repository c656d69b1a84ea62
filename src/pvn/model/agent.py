"""An agent: a policy that reads its instruction and flies by a camera, and that can show its maps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, get_args, get_type_hints

from torch import Tensor, nn

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.rollout.policy import Policy


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


class Agent(Policy, Protocol):
    """A policy that reads its instruction and flies by a camera."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The words it knows."""

    @property
    def camera(self) -> Camera:
        """The camera it was trained with."""

    @property
    def grid(self) -> MapGrid | None:
        """The cells of its maps; None for an agent without maps."""

    @property
    def plan_every(self) -> int:
        """Steps between its predictions; 1 for an agent that decides at every step."""

    @property
    def stop_threshold(self) -> float | None:
        """It stops when its stop probability exceeds this; None for an agent that decides differently."""

    def maps(self, memory: Any) -> AgentMaps | None:
        """Its maps; None for an agent without maps, and before the first step."""

    def stop_probability(self, memory: Any) -> Tensor | None:
        """Probability (B,), at the last step, that this is the place to stop; None if it estimates none."""


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


class LearnedAgent(Agent, Protocol):
    """An agent made of networks, which can be written to a file and rebuilt from it."""

    @property
    def networks(self) -> Mapping[str, nn.Module]:
        """Its networks, by the names they have in an agent's file."""

    def describe(self) -> dict[str, Any]:
        """Sizes and settings as JSON: what `rebuild` needs, apart from weights and vocabulary."""

    @classmethod
    def rebuild(cls, description: Mapping[str, Any], vocabulary: Vocabulary) -> Self:
        """An untrained agent of the described sizes."""
