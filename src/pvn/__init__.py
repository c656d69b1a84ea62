"""PVN: fly a quadcopter by language, with position-visitation prediction.

    import pvn

    agent = pvn.load_agent("pvn-plus")
    corpus = pvn.read_corpus("corpus")
    tasks = [segment.task for segment in corpus["dev"][:4]]
    log = pvn.fly(pvn.simulator_for(tasks), tasks, agent)

The names below are the public API. Each is imported when it is first used, which keeps `import pvn` quick.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pvn.corpus.meadow.generator import sample_paragraph as sample_paragraph
    from pvn.corpus.store import read_corpus as read_corpus
    from pvn.evaluation.evaluate import evaluate as evaluate
    from pvn.evaluation.outcome import describe_flights as describe_flights
    from pvn.rollout.flight import fly as fly
    from pvn.rollout.oracle import Oracle as Oracle
    from pvn.simulator.simulator import Simulator as Simulator
    from pvn.simulator.simulator import simulator_for as simulator_for
    from pvn.systems import load_agent as load_agent
    from pvn.training import train as train
    from pvn.world.layout import sample_layout as sample_layout
    from pvn.world.task import Demonstration as Demonstration
    from pvn.world.task import Task as Task

__version__ = "0.2.0"

_HOMES = {
    "Simulator": "pvn.simulator.simulator",
    "sample_layout": "pvn.world.layout",
    "Task": "pvn.world.task",
    "Demonstration": "pvn.world.task",
    "simulator_for": "pvn.simulator.simulator",
    "fly": "pvn.rollout.flight",
    "describe_flights": "pvn.evaluation.outcome",
    "Oracle": "pvn.rollout.oracle",
    "load_agent": "pvn.systems",
    "sample_paragraph": "pvn.corpus.meadow.generator",
    "read_corpus": "pvn.corpus.store",
    "train": "pvn.training",
    "evaluate": "pvn.evaluation.evaluate",
}
"""Where each name of the public API is defined."""

__all__ = [  # noqa: RUF022  # in the order in which they are met
    "Simulator",
    "sample_layout",
    "Task",
    "Demonstration",
    "simulator_for",
    "fly",
    "describe_flights",
    "Oracle",
    "load_agent",
    "sample_paragraph",
    "read_corpus",
    "train",
    "evaluate",
]


def __getattr__(name: str) -> Any:
    """A name of the public API, imported now."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pvn' has no attribute {name!r}; its public names are {', '.join(_HOMES)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])


# Importing pvn is what makes gymnasium.make("pvn/Field-v0") work. Only names are registered here; the
# environment itself is imported when it is made, and training machines may lack Gymnasium.
with suppress(ImportError):
    from gymnasium.envs.registration import register

    register(
        id="pvn/Field-v0",
        entry_point="pvn.simulator.environment:FieldEnv",
        vector_entry_point="pvn.simulator.environment:FieldVectorEnv",
    )
