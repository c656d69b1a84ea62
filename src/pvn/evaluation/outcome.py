"""How flights ended, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pvn.corpus.typed_instruction import words_note
from pvn.model.agent import Agent
from pvn.rollout.flight import FlightLog
from pvn.world.surroundings import describe_place
from pvn.world.task import Task

STAYED_WITHIN, TURNED_FROM = 1.0, 20.0
"""A flight shorter than the first, metres, that turns by at least the second, degrees, has only turned."""


def count_steps(num_steps: int) -> str:
    """A number of steps in words: "1 step", "12 steps"."""
    return f"{num_steps} step" if num_steps == 1 else f"{num_steps} steps"


def outcome(distance: float | None, num_steps: int, has_stopped: bool, place: str = "") -> str:
    """How a flight ended, in words. distance: from its goal, metres; place: where, for a flight without a goal."""
    where = place if distance is None else f"{distance:.1f} m from the goal"
    if not has_stopped:
        return f"never stopped in {count_steps(num_steps)}" + (f"; {where}" if where else "")
    parts = ["stopped", where, f"after {count_steps(num_steps)}"]
    if where.startswith("with "):  # reads better last: "stopped after 12 steps with nothing within 10 m"
        parts = [parts[0], parts[2], where]
    return " ".join(filter(None, parts))


def end_place(log: FlightLog, flight: int, task: Task) -> str:
    """Where a flight ended: "4 m from the gorilla"; a flight that only turned, "facing 90 degrees further left"."""
    turned = math.degrees(math.remainder(float(log.pose_world[flight, -1, 5]) - task.start[2], 2 * math.pi))
    has_stayed = bool(log.has_stopped[flight]) and float(log.select(flight).distance_flown()) < STAYED_WITHIN
    if has_stayed and abs(turned) >= TURNED_FROM:
        return f"facing {abs(turned):.0f} degrees further {'left' if turned > 0 else 'right'}"
    return describe_place(task.layout, log.pose_world[flight, -1, [0, 1, 5]].tolist())


def describe_flights(
    log: FlightLog,
    tasks: Sequence[Task],
    agent: Agent | None = None,
    *,
    goals: Sequence[tuple[float, float] | None] | None = None,
) -> list[str]:
    """How each flight of a log ended, in words: "stopped 4 m from the gorilla after 17 steps".

    goals: where each should have ended (x, y), field frame, metres; if there is one, the text gives the distance to it
    instead of what is near. agent: who flew; the text then names words that the agent does not know, or reads as
    others.
    """
    described = []
    for flight, task in enumerate(tasks):
        goal = None if goals is None else goals[flight]
        distance = None if goal is None else math.dist(log.end_world[flight].tolist(), goal)
        has_stopped, num_steps = bool(log.has_stopped[flight]), int(log.num_steps[flight])
        words = outcome(distance, num_steps, has_stopped, end_place(log, flight, task))
        note = "" if agent is None else words_note(task.instruction, agent.vocabulary)
        described.append(f"{words}; {note}" if note else words)
    return described
