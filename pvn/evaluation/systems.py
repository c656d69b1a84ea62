"""The systems of the results table: who flies, and in what simulator."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pvn.corpus.segments import Segment
from pvn.corpus.vocabulary import tokenise
from pvn.learning.agent import load_agent
from pvn.learning.checkpoint import read_json
from pvn.model.pvn import PVN, IdealAct
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.rollout.trivial_pilots import Average, Stop
from pvn.simulator.simulator import SimulatorConfig

TRIVIAL = ("stop", "average", "oracle")
ABLATIONS = ("pvn-no-aux", "pvn-no-goal", "pvn-no-dagger", "pvn-no-instruction", "pvn-full-observation")
TRAINED = ("pvn", "gsmn", "chaplot", *ABLATIONS)
"""Those that have weights of their own."""
SAME_STAGE1 = ("pvn-no-goal", "pvn-no-dagger")
"""Those that differ from PVN in the second stage alone, and take its first."""
CHANGED = ("pvn-ideal-act", "pvn-half-height", "pvn-double-yaw-rate")
"""PVN's weights with an ideal second stage, or in a world that is not as it was trained in (paper)."""
SYSTEMS = (*TRIVIAL, *TRAINED, *CHANGED)
FORESEEING = ("pvn", *ABLATIONS, *(name for name in CHANGED if name != "pvn-ideal-act"))
"""Those that fly by what they predict."""

MOST_UNKNOWN = 0.2
"""Share of unknown words above which an agent and a corpus do not belong together."""


@dataclass(frozen=True)
class System:
    """Someone who flies."""

    name: str
    policy: Any
    config: SimulatorConfig
    mark: str
    """Changes with whatever changes its flights."""


def average_pilot(segments: Sequence[Segment], most: int = 2000) -> Average:
    """AVERAGE, with the oracle's mean speed and number of steps on training segments."""
    tasks = [segment.task for segment in segments[:most]]
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, Oracle())
    seconds = SimulatorConfig().step_seconds
    speed = float((log.distance_flown() / (log.num_steps * seconds)).mean())
    return Average(speed=speed, num_steps=round(float(log.num_steps.float().mean())))


def _weights(name: str, runs: Path | None) -> Path:
    """Where the weights of a system are: in a folder of runs, else in the package.

    A folder of other systems' runs leaves this one to the package; one without any run is taken for a mistake.
    """
    own = None if runs is None else runs / name / "agent.safetensors"
    if own is not None and own.exists():
        return own
    with resources.as_file(resources.files("pvn") / "weights" / f"{name}.safetensors") as path:
        if path.exists():
            if runs is not None and not any(runs.glob("*/agent.safetensors")):
                raise ValueError(
                    f"runs: got {runs}, which holds no runs, expected a folder for each, such as {own}; write it with "
                    f"`pvn train --system {name} --out {runs / name}`, or name an agent by its own file: "
                    "`pvn fly --weights`, `pvn figure --system` and `pvn evaluate` take an agent.safetensors"
                )
            return path
    looked = f"{own} or the package" if own is not None else "the package; name a folder of runs with --runs"
    raise FileNotFoundError(f"{name}: no weights in {looked}; train it with `pvn train --system {name}`")


def _learned(name: str, path: Path, device: str) -> System:
    agent = load_agent(path, device)
    model = agent.visitation if isinstance(agent, PVN) else agent.model
    # Not where they come from: the same weights, trained or copied again, make the same flights.
    described = {what: value for what, value in read_json(path.with_suffix(".json")).items() if what != "origin"}
    mark = hashlib.sha256(path.read_bytes() + json.dumps(described, sort_keys=True).encode()).hexdigest()
    return System(name, agent, SimulatorConfig(camera=model.config.camera), mark)


def _changed(name: str, system: System) -> System:
    """The system where the world is another."""
    config = system.config
    match name:
        case "pvn-ideal-act":
            system = replace(system, policy=IdealAct(system.policy))
        case "pvn-half-height":
            config = replace(system.config, altitude=system.config.altitude / 2)
        case _:
            # Both believe in the same greatest rate, so each command turns twice as fast.
            config = replace(system.config, max_yaw_rate=system.config.max_yaw_rate * 2)
            agent = system.policy
            policy = PVN(
                agent.visitation, agent.execution, agent.vocabulary, plan_every=agent.plan_every, simulator=config
            )
            system = replace(system, policy=policy)
    return replace(system, name=name, config=config, mark=f"{name} {system.mark}")


def make_system(
    name: str, *, runs: Path | None = None, training: Sequence[Segment] = (), device: str = "cpu"
) -> System:
    """The system of a name, or the agent in a file. training: the segments that AVERAGE is the average of."""
    blind = SimulatorConfig(quality="none")
    match name:
        case "stop":
            return System(name, Stop(), blind, name)
        case "oracle":
            return System(name, Oracle(), blind, name)
        case "average":
            pilot = average_pilot(training) if training else Average()
            return System(name, pilot, blind, str(pilot))
        case _ if name in CHANGED:
            return _changed(name, _learned("pvn", _weights("pvn", runs), device))
        case _ if name in TRAINED:
            return _learned(name, _weights(name, runs), device)
        case _ if name.endswith(".safetensors"):
            folder = Path(name).parent.name or "agent"
            return _learned(f"own-{folder}" if folder in SYSTEMS else folder, Path(name), device)
        case _:
            near = difflib.get_close_matches(name, SYSTEMS, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(
                f"system: got {name!r}, expected one of {', '.join(SYSTEMS)} or an agent's .safetensors{meant}"
            )


def check_words(system: System, segments: Sequence[Segment]) -> None:
    """Refuse an agent that does not know the corpus's words."""
    vocabulary = getattr(system.policy, "vocabulary", None)
    if vocabulary is None:
        return
    texts = [segment.task.instruction for segment in segments]
    count = sum(len(tokenise(text)) for text in texts)
    unknown = sum(len(vocabulary.unknown_words(text)) for text in texts)
    if unknown > MOST_UNKNOWN * count:
        raise ValueError(
            f"{system.name}: does not know {100 * unknown / count:.0f}% of the corpus's words, expected at most "
            f"{100 * MOST_UNKNOWN:.0f}%; evaluate it on the corpus it was trained for, or train it on this one"
        )


def check_different(systems: Sequence[System]) -> None:
    """Refuse systems of one name: their results would be one file."""
    names = [system.name for system in systems]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"systems: got two that are called {name}, expected different names; weights are called by their "
                "folder: rename one, or leave one out"
            )


def check_predicts(systems: Sequence[System]) -> None:
    """Refuse systems that predict no visitation distributions."""
    for system in systems:
        if not isinstance(system.policy, PVN):
            raise ValueError(
                f"{system.name}: predicts no visitation distributions, expected a PVN; leave out --bound, or name "
                f"only {', '.join(FORESEEING)} or the weights of a PVN"
            )
