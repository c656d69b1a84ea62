"""The decisions of a model that is trained by imitation and predicts no distributions."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pvn.model.mapping import GroundedMaps


@dataclass(frozen=True)
class Decision:
    """Q decisions, and the maps of a model that has maps."""

    output: Tensor
    """(Q, 3): forward speed and yaw rate as shares of their maxima, and log-odds of stop."""
    maps: GroundedMaps | None = None
    goal_map: Tensor | None = None
    """(Q, C, S, S): where the goal filters respond, in the drones' own frames."""
