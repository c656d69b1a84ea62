"""Pilots: systems and agents, ready to fly, with the simulator settings they fly in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pvn.corpus.segments import Segment
from pvn.corpus.vocabulary import tokenise
from pvn.learning.checkpoint import read_json, tensor_bytes
from pvn.learning.dagger import DemonstratedVisitation
from pvn.learning.recipes import Stage2Config
from pvn.model.agent import Agent
from pvn.model.mapping import TRAINING_ONLY
from pvn.model.pvn import PVN, IdealAct
from pvn.rollout.flight import fly
from pvn.rollout.oracle import Oracle
from pvn.rollout.policy import Policy
from pvn.rollout.trivial_pilots import Average, Stop
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.looks.photographer import OtherRenderer
from pvn.simulator.simulator import simulator_for
from pvn.systems import AGENT_FILE, SYSTEMS, TRUE_DISTRIBUTIONS, FlightChanges, find_system, load_agent, shipped_weights
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
    """The agent that the policy is; None for a pilot that reads no instructions."""
    config: SimulatorConfig
    """The simulator's settings in its flights."""
    fingerprint: str
    """Identifies everything that its flights depend on."""
    make_policy: Callable[[Sequence[Demonstration]], Policy] = Oracle
    """Makes a policy that needs to see demonstrations: the oracle, or stage 2 by true distributions."""
    sigma_cells: float = Stage2Config().sigma_cells
    """Width of the Gaussians in the distributions that its second stage was trained with, in cells."""

    def policy_for(self, demonstrations: Sequence[Demonstration] = ()) -> Policy:
        """The policy for flights over demonstrations."""
        return self.make_policy(demonstrations) if self.policy is None else self.policy


AgentLike = str | Path | Agent | Pilot
"""Who flies: the name of a system, an agent's .safetensors file, a loaded agent, or a pilot."""


def average_policy(segments: Sequence[Segment], limit: int = 2000) -> Average:
    """The average pilot, with the oracle's mean speed and number of steps on training segments."""
    demonstrations = [segment.demonstration for segment in segments[:limit]]
    tasks = [demonstration.task for demonstration in demonstrations]
    log = fly(simulator_for(tasks, config=SimulatorConfig(quality="none")), tasks, Oracle(demonstrations))
    seconds = SimulatorConfig().step_seconds
    speed = float((log.distance_flown() / (log.num_steps * seconds)).mean())
    return Average(speed=speed, num_steps=round(float(log.num_steps.float().mean())))


def _weights(name: str, runs: Path | None) -> Path:
    """The weights of a system, from a folder of runs or else from the package.

    A folder may hold runs of other systems only; a folder without any run is taken for a mistake.
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


def _fingerprint(agent: Agent) -> str:
    """Identifies an agent's weights, words and settings, wherever they came from."""
    digest = hashlib.sha256(json.dumps(agent.describe(), sort_keys=True, default=str).encode())
    digest.update(json.dumps(agent.vocabulary.to_json(), sort_keys=True).encode())
    if isinstance(agent, PVN):  # these may have been changed since it was made
        digest.update(f"{agent.stop_threshold} {agent.look_threshold} {agent.plan_every} {agent.simulator}".encode())
    for name, network in agent.networks.items():
        # A loaded agent does not have the weights that only training needs.
        weights = {key: value for key, value in network.state_dict().items() if not key.startswith(TRAINING_ONLY)}
        digest.update(name.encode() + tensor_bytes(weights))
    return digest.hexdigest()


def _pilot_of_agent(agent: Agent, name: str) -> Pilot:
    return Pilot(name, agent, agent, SimulatorConfig(camera=agent.camera), _fingerprint(agent))


def _pilot_of_file(path: Path, name: str, device: str) -> Pilot:
    pilot = _pilot_of_agent(load_agent(path, device), name)
    recipe = (read_json(path.with_suffix(".json")).get("origin") or {}).get("recipe", {})
    return replace(pilot, sigma_cells=recipe.get("stage2", {}).get("sigma_cells", pilot.sigma_cells))


def _pilot_of_system(name: str, runs: Path | None, training: Sequence[Segment], device: str) -> Pilot:
    system = find_system(name)
    if system.run is not None and system.agent_class is not None:
        path, agent_class = _weights(system.run, runs), system.agent_class()
        pilot = _pilot_of_file(path, name, device)
        if not isinstance(pilot.agent, agent_class):
            raise ValueError(
                f"{path}: holds an agent of class {type(pilot.agent).__name__}, expected {agent_class.__name__} for "
                f"{name}; name the file with --agent to fly it as what it is"
            )
        return change_flights(pilot, system.flight_changes)
    blind, average = SimulatorConfig(quality="none"), average_policy(training) if training else Average()
    policy = {"oracle": None, "stop": Stop(), "average": average}[name]
    return Pilot(name, policy, None, blind, f"{average}" if name == "average" else name)


def change_flights(pilot: Pilot, changes: FlightChanges) -> Pilot:
    """A pilot whose flights differ from those it was trained for."""
    if changes == FlightChanges():
        return pilot
    config = replace(
        pilot.config,
        altitude=pilot.config.altitude if changes.altitude is None else changes.altitude,
        max_yaw_rate=pilot.config.max_yaw_rate * changes.yaw_factor,
        photographer=pilot.config.photographer if changes.look == "own" else OtherRenderer(changes.look),
    )
    pilot = replace(pilot, config=config, fingerprint=f"{changes} {pilot.sigma_cells:g} {pilot.fingerprint}")
    if changes == FlightChanges(altitude=changes.altitude, look=changes.look):
        return pilot
    if not isinstance(pilot.agent, PVN) or isinstance(pilot.agent, IdealAct):
        raise ValueError(
            f"{pilot.name}: got a changed yaw rate, stop threshold, look threshold, prediction interval or second "
            "stage, expected such changes only for a PVN with its own second stage; leave them out"
        )
    # Commands are fractions of the largest yaw rate, so each of them now turns the drone faster.
    agent = pilot.agent.changed(
        simulator=replace(pilot.agent.simulator, max_yaw_rate=config.max_yaw_rate),
        stop_threshold=changes.stop_threshold,
        plan_every=changes.plan_every,
        look_threshold=changes.look_threshold,
    )
    if changes.has_true_distributions:
        return replace(
            pilot, policy=None, agent=None, config=replace(config, quality="none"),
            make_policy=lambda demonstrations: DemonstratedVisitation(
                agent.execution, demonstrations, pilot.sigma_cells, agent.simulator, agent.stop_threshold
            ),
        )  # fmt: skip
    flies = IdealAct(agent) if changes.has_ideal_act else agent
    return replace(pilot, policy=flies, agent=flies)


def _changes_suffix(changes: FlightChanges) -> str:
    """Suffix of a pilot's name for changed flights, so that their results have other files: "_yaw2_stop0.3"."""
    parts = {
        "altitude": changes.altitude,
        "yaw": None if changes.yaw_factor == 1.0 else changes.yaw_factor,
        "stop": changes.stop_threshold,
        "plan": changes.plan_every,
        "look": changes.look_threshold,
    }
    named = "".join(f"_{name}{value:g}" for name, value in parts.items() if value is not None)
    named += "_ideal-act" if changes.has_ideal_act else ""
    named += "" if changes.look == "own" else f"_{changes.look}"
    return f"{named}{TRUE_DISTRIBUTIONS}" if changes.has_true_distributions else named


def load_pilot(
    agent: AgentLike,
    *,
    runs: Path | None = None,
    training: Sequence[Segment] = (),
    changes: FlightChanges = FlightChanges(),
    device: str = "cpu",
) -> Pilot:
    """The pilot of a system, of an agent's file (.safetensors), which is called by its folder, or of a loaded agent.

    runs: a folder of training runs whose agents fly instead of the shipped ones. training: segments whose mean the
    average pilot flies. changes: to its flights, in addition to the system's own changes; its name then says so.
    """
    if isinstance(agent, Pilot):
        pilot = agent
    elif not isinstance(agent, str | Path):
        pilot = _pilot_of_agent(agent, f"own-{type(agent).__name__.lower()}")
    elif str(agent).endswith(".safetensors"):
        folder = Path(agent).resolve().parent.name
        pilot = _pilot_of_file(Path(agent), f"own-{folder}" if folder in SYSTEMS else folder, device)
    else:
        pilot = _pilot_of_system(str(agent), runs, training, device)
    return replace(change_flights(pilot, changes), name=pilot.name + _changes_suffix(changes))


def check_pilots(pilots: Sequence[Pilot], segments: Sequence[Segment]) -> None:
    """Refuse agents that do not know the corpus's words, and pilots of one name: they would write to the same file."""
    names = [pilot.name for pilot in pilots]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(
                f"agent: got two that are called {name}, expected different names; an agent's file is called by its "
                "folder: rename one, or leave one out"
            )
    texts = [segment.task.instruction for segment in segments]
    count = sum(len(tokenise(text)) for text in texts)
    for pilot in pilots:
        unknown = sum(len(pilot.agent.vocabulary.unknown_words(text)) for text in texts) if pilot.agent else 0
        if unknown > MAX_UNKNOWN * count:
            raise ValueError(
                f"{pilot.name}: does not know {100 * unknown / count:.0f}% of the corpus's words, expected at most "
                f"{100 * MAX_UNKNOWN:.0f}%; evaluate it on the corpus it was trained for, or train it on this one"
            )


def predicting_agent(pilot: Pilot) -> PVN:
    """The pilot's PVN; refused if it predicts no visitation distributions, or does not fly by them."""
    if not isinstance(pilot.agent, PVN) or isinstance(pilot.agent, IdealAct):
        raise ValueError(
            f"{pilot.name}: predicts no visitation distributions, expected a PVN, one of its ablations, or the file of "
            "a PVN"
        )
    return pilot.agent
