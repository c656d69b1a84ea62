"""Pilots: a system, or an agent from a file, ready to fly, with the simulator settings it flies in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pvn.corpus.segments import Segment
from pvn.corpus.vocabulary import tokenise
from pvn.learning.agent import DESCRIPTION_DIGEST, load_agent, shipped_weights
from pvn.learning.checkpoint import read_json
from pvn.learning.stage2 import DemonstratedVisitation, Stage2Config
from pvn.model.agent import Agent
from pvn.model.pvn import PVN, IdealAct
from pvn.rollout.delayed import Delayed
from pvn.rollout.flight import fly, simulator_for
from pvn.rollout.oracle import Oracle
from pvn.rollout.policy import Policy
from pvn.rollout.trivial_pilots import Average, Stop
from pvn.simulator.interface import SimulatorConfig
from pvn.systems import AGENT_FILE, SYSTEMS, FlightChanges, System, find_system
from pvn.world.task import Demonstration

MAX_UNKNOWN = 0.2
"""Share of unknown words above which an agent and a corpus do not belong together."""


@dataclass(frozen=True)
class Pilot:
    """An agent, the oracle or a trivial pilot, ready to fly."""

    name: str
    """Name under which results are reported and stored."""
    policy: Policy | None
    """None if it is made for the demonstrations that are flown."""
    agent: Agent | None
    """The agent that the policy is, or whose actions it delays; None for a pilot that reads no instructions."""
    config: SimulatorConfig
    """Simulator settings of its flights."""
    fingerprint: str
    """Identifies everything that its flights depend on."""
    make_policy: Callable[[Sequence[Demonstration]], Policy] = Oracle
    """Makes the policy for some demonstrations, where it needs them: the oracle, or stage 2 by true distributions."""
    sigma_cells: float = Stage2Config().sigma_cells
    """Width of the Gaussians in the distributions that its second stage was trained with, in cells."""

    def policy_for(self, demonstrations: Sequence[Demonstration] = ()) -> Policy:
        """The policy for flights over demonstrations."""
        return self.make_policy(demonstrations) if self.policy is None else self.policy


def average_pilot(segments: Sequence[Segment], limit: int = 2000) -> Average:
    """The average pilot, with the oracle's mean speed and number of steps on training segments."""
    demonstrations = [segment.demonstration for segment in segments[:limit]]
    tasks = [demonstration.task for demonstration in demonstrations]
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, Oracle(demonstrations))
    seconds = SimulatorConfig().step_seconds
    speed = float((log.distance_flown() / (log.num_steps * seconds)).mean())
    return Average(speed=speed, num_steps=round(float(log.num_steps.float().mean())))


def _weights(name: str, runs: Path | None) -> Path:
    """The weights of a system: in a folder of runs, otherwise in the package.

    A folder with the runs of other systems leaves this one to the package; one without any run is taken for a mistake.
    """
    own = None if runs is None else runs / name / AGENT_FILE
    if own is not None and own.exists():
        return own
    shipped = shipped_weights(name)
    if shipped is None:
        searched = f"{own} or the package" if own is not None else "the package; name a folder of runs with --runs"
        raise FileNotFoundError(f"{name}: no weights in {searched}; train it with `pvn train --agent {name}`")
    if runs is not None and not any(runs.glob(f"*/{AGENT_FILE}")):
        raise ValueError(
            f"runs: got {runs}, which holds no runs, expected a folder for each, such as {own}; write it with "
            f"`pvn train --agent {name} --out {runs / name}`, or name an agent's own file with --agent"
        )
    return shipped


def _learned_pilot(name: str, path: Path, changes: FlightChanges, device: str, system: System | None) -> Pilot:
    agent = load_agent(path, device)
    if system is not None and system.agent_class is not None and not isinstance(agent, system.agent_class()):
        raise ValueError(
            f"{path}: holds an agent of class {type(agent).__name__}, expected {system.agent_class().__name__} for "
            f"{name}; name the file with --agent to fly it as what it is"
        )
    description = read_json(path.with_suffix(".json"))
    # Without the origin: the same weights make the same flights, however they were trained or copied.
    origin = description.pop("origin", None) or {}
    description.pop(DESCRIPTION_DIGEST, None)
    fingerprint = hashlib.sha256(path.read_bytes() + json.dumps(description, sort_keys=True).encode()).hexdigest()
    pilot = Pilot(name, agent, agent, SimulatorConfig(camera=agent.camera), fingerprint)
    trained = origin.get("recipe", {}).get("stage2", {})
    pilot = replace(pilot, sigma_cells=trained.get("sigma_cells", pilot.sigma_cells))
    return pilot if changes == FlightChanges() else change_flights(pilot, changes)


def change_flights(pilot: Pilot, changes: FlightChanges) -> Pilot:
    """A pilot whose flights differ from those it was trained for."""
    config, agent, policy, fingerprint = pilot.config, pilot.agent, pilot.policy, f"{changes} {pilot.fingerprint}"
    delay_steps = changes.delay_steps
    if isinstance(policy, Delayed):
        delay_steps, policy = policy.num_steps + delay_steps, policy.policy
    config = replace(
        config,
        altitude=config.altitude if changes.altitude is None else changes.altitude,
        max_yaw_rate=config.max_yaw_rate * changes.yaw_factor,
        look=config.look if changes.look == "own" else changes.look,
    )
    if changes.look != "own":
        fingerprint = f"look {changes.look} {fingerprint}"
    if changes.has_true_distributions and (changes.has_ideal_act or not isinstance(agent, PVN)):
        raise ValueError(
            f"{pilot.name}: got true distributions to fly by, but has no learned second stage; "
            "expected a PVN, one of its ablations with a learned second stage, or the file of a PVN; leave them out"
        )
    if changes != FlightChanges(altitude=changes.altitude, delay_steps=changes.delay_steps, look=changes.look):
        if not isinstance(agent, PVN):
            raise ValueError(
                f"{pilot.name}: got a changed yaw rate, stop threshold, look threshold, prediction interval or second "
                "stage, expected such changes for a PVN alone; leave them out"
            )
        # The agent's commands are shares of the same largest yaw rate, so each of them turns the drone faster.
        agent = agent.changed(
            simulator=replace(agent.simulator, max_yaw_rate=config.max_yaw_rate),
            stop_threshold=changes.stop_threshold,
            plan_every=changes.plan_every,
            look_threshold=changes.look_threshold,
        )
        if changes.look_threshold is not None:
            fingerprint = f"look threshold {changes.look_threshold} {fingerprint}"
        if changes.has_true_distributions:
            pilot = replace(pilot, make_policy=_by_true_distributions(agent, pilot.sigma_cells))
            fingerprint = f"true distributions of {pilot.sigma_cells:g} cells {fingerprint}"
            config, agent, policy = replace(config, quality="none"), None, None
        else:
            agent = policy = IdealAct(agent) if changes.has_ideal_act else agent
    if delay_steps:
        policy, fingerprint = _delayed(pilot.name, policy, delay_steps), f"delay {delay_steps} {fingerprint}"
    return replace(pilot, policy=policy, agent=agent, config=config, fingerprint=fingerprint)


def _delayed(name: str, policy: Policy | None, num_steps: int) -> Delayed:
    """The policy of a pilot, late."""
    if policy is None:
        raise ValueError(f"{name}: got a delay, expected none for the oracle or true distributions; leave it out")
    return Delayed(policy, num_steps)


def _by_true_distributions(
    agent: PVN, sigma_cells: float
) -> Callable[[Sequence[Demonstration]], DemonstratedVisitation]:
    """Makes, for some demonstrations, an agent's second stage with their distributions in place of predicted ones."""

    def make_policy(demonstrations: Sequence[Demonstration]) -> DemonstratedVisitation:
        return DemonstratedVisitation(
            agent.execution, demonstrations, sigma_cells, agent.simulator, agent.stop_threshold
        )

    return make_policy


def load_pilot(
    name: str,
    *,
    runs: Path | None = None,
    training: Sequence[Segment] = (),
    changes: FlightChanges | None = None,
    device: str = "cpu",
) -> Pilot:
    """The pilot of a system, or of an agent's file (.safetensors), which is named after its folder.

    runs: a folder of training runs whose agents fly instead of the shipped ones. training: segments whose
    mean the average pilot flies. changes: to its flights, in addition to those of the system.
    """
    if name.endswith(".safetensors"):
        folder = Path(name).resolve().parent.name
        called = f"own-{folder}" if folder in SYSTEMS else folder
        return _learned_pilot(called, Path(name), changes or FlightChanges(), device, None)
    system = find_system(name)
    if system.run is not None:
        pilot = _learned_pilot(name, _weights(system.run, runs), system.flight_changes, device, system)
        return pilot if changes is None or changes == FlightChanges() else change_flights(pilot, changes)
    blind = SimulatorConfig(quality="none")
    match name:
        case "oracle":
            pilot = Pilot(name, None, None, blind, name)
        case "stop":
            pilot = Pilot(name, Stop(), None, blind, name)
        case _:
            average = average_pilot(training) if training else Average()
            pilot = Pilot(name, average, None, blind, str(average))
    return pilot if changes is None or changes == FlightChanges() else change_flights(pilot, changes)


def check_words(pilot: Pilot, segments: Sequence[Segment]) -> None:
    """Refuse an agent that does not know the corpus's words."""
    if pilot.agent is None:
        return
    texts = [segment.task.instruction for segment in segments]
    count = sum(len(tokenise(text)) for text in texts)
    unknown = sum(len(pilot.agent.vocabulary.unknown_words(text)) for text in texts)
    if unknown > MAX_UNKNOWN * count:
        raise ValueError(
            f"{pilot.name}: does not know {100 * unknown / count:.0f}% of the corpus's words, expected at most "
            f"{100 * MAX_UNKNOWN:.0f}%; evaluate it on the corpus it was trained for, or train it on this one"
        )


def check_different(pilots: Sequence[Pilot]) -> None:
    """Refuse pilots with the same name: they would write to the same file."""
    names = [pilot.name for pilot in pilots]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"agent: got two that are called {name}, expected different names; an agent's file is called by its "
                "folder: rename one, or leave one out"
            )


def predicting_agent(pilot: Pilot) -> PVN:
    """The pilot's PVN; refused if it predicts no visitation distributions, or does not fly by them."""
    if not isinstance(pilot.agent, PVN):
        raise ValueError(
            f"{pilot.name}: predicts no visitation distributions, expected a PVN, one of its ablations, or the file of "
            "a PVN"
        )
    return pilot.agent
