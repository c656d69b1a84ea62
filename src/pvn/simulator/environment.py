"""The field as a Gymnasium environment, for one flight or vectorised; an episode is one instruction.

    import gymnasium, pvn
    environment = gymnasium.make("pvn/Field-v0")
    environments = gymnasium.make_vec("pvn/Field-v0", num_envs=64)

Observation, a `Dict`:
    "image": Box(0, 255, (72, 128, 3), uint8), what the camera sees, red green blue; the size is `config.camera`'s.
    "pose": Box (6,) float32, field frame: x, y (-10 to 60 m), z (0 to 100 m), roll, pitch, yaw (-pi to pi).
    "instruction": Text, the same in every step of an episode.
Action, a Box (3,) float32, held for one step of half a second:
    forward speed (0 to 3 m/s), yaw rate (-1.05 to 1.05 rad/s, left is positive), stop (0 to 1; above 0.5 is stop).
Reward:
    every step: the metres by which the drone came closer to the goal, negative if it moved away;
    the step that stops: 5 more if it ends less than 5 m from the goal, 5 less if it does not.
End: stopping terminates an episode, `horizon` steps without stopping truncate it.
Info: "goal_distance" (metres along the ground) and "is_success" (whether this step stopped within 5 m of the goal).

`FieldVectorEnv` has the options. A vectorised environment puts B, the number of flights, in front of every shape;
instructions are then a tuple of B texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from string import printable
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from pvn.simulator.interface import STOP, Quality, SimulatorConfig
from pvn.simulator.quadcopter import EAST_LIMIT, HIGHEST, WEST_LIMIT
from pvn.simulator.simulator import Simulator
from pvn.world.routes import sample_tour
from pvn.world.task import HORIZON, SUCCESS_M, Demonstration, Task, distinct_layouts

STOP_REWARD = 5.0
"""Added for stopping within SUCCESS_M of the goal, subtracted for stopping elsewhere."""

Array = npt.NDArray[Any]


def _observation_space(config: SimulatorConfig, tasks: Sequence[Task]) -> spaces.Dict:
    shape = (config.camera.height, config.camera.width, 3)
    low = np.array([WEST_LIMIT, WEST_LIMIT, 0, -math.pi, -math.pi, -math.pi], np.float32)
    letters = set(printable).union(*(task.instruction for task in tasks))
    high = np.array([EAST_LIMIT, EAST_LIMIT, HIGHEST, math.pi, math.pi, math.pi], np.float32)
    return spaces.Dict(
        {
            "image": spaces.Box(0, 255, shape, np.uint8),
            "pose": spaces.Box(np.nextafter(low, -np.inf), np.nextafter(high, np.inf)),
            "instruction": spaces.Text(max_length=2000, min_length=0, charset=frozenset(letters)),
        }
    )


def _action_space(config: SimulatorConfig) -> spaces.Box:
    low = np.array([0, -config.max_yaw_rate, 0], np.float32)
    return spaces.Box(low, np.array(config.max_action, np.float32))


class FieldVectorEnv(gymnasium.vector.VectorEnv):  # type: ignore[type-arg]
    """Many flights in one batched simulator.

    Its autoreset mode is NEXT_STEP: the step after a flight's last one ignores that flight's action and returns reward
    0 and the first observation of its next episode.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2, "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        *,
        demonstrations: Sequence[Demonstration] | None = None,
        num_tours: int = 16,
        horizon: int = HORIZON,
        device: str = "cpu",
        quality: Quality | None = None,
        config: SimulatorConfig = SimulatorConfig(),
        render_mode: str | None = None,
    ) -> None:
        """Episodes are drawn at random from demonstrations, with replacement.

        Args:
            num_envs: Number of flights, B.
            demonstrations: What episodes are drawn from: tasks with their goals. None: `num_tours` random tours.
            num_tours: Number of random tours, of about five instructions each; ignored if demonstrations are given.
            horizon: Steps after which an episode that has not stopped is truncated.
            device: "cpu", or "cuda" to simulate on a GPU; observations are NumPy arrays either way.
            quality: "full", "fast" or "none", the quality of pictures (see `SimulatorConfig`); None takes the config's.
            config: Camera, altitude, limits of the actions, length of a step.
            render_mode: "rgb_array" or None; `render` returns what the drones saw last.
        """
        if horizon < 1:
            raise ValueError(f"horizon: got {horizon}, expected at least 1 step")
        if (demonstrations is None and num_tours < 1) or (demonstrations is not None and not demonstrations):
            raise ValueError(
                f"demonstrations: got none and num_tours {num_tours}, expected at least one demonstration or tour"
            )
        if demonstrations is None:
            demonstrations = [each for seed in range(num_tours) for each in sample_tour(seed)]
        self.tasks = [demonstration.task for demonstration in demonstrations]
        self.num_envs, self.horizon, self.render_mode = num_envs, horizon, render_mode
        config = config if quality is None else replace(config, quality=quality)
        layouts, fields = distinct_layouts(self.tasks)
        self.simulator = Simulator(layouts, num_envs, device=device, config=config)
        self._starts = torch.tensor([task.start for task in self.tasks], dtype=torch.float64)
        self._goals = np.array([demonstration.goal for demonstration in demonstrations], np.float32)
        self._fields = torch.tensor(fields)
        self.single_observation_space = _observation_space(config, self.tasks)
        self.single_action_space = _action_space(config)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators = [np.random.default_rng() for _ in range(num_envs)]
        self._chosen = np.zeros(num_envs, np.int64)
        self._steps = np.zeros(num_envs, np.int64)
        self._has_ended = np.zeros(num_envs, bool)
        self._distance = np.zeros(num_envs, np.float32)
        self._image: Array = np.zeros((num_envs, config.camera.height, config.camera.width, 3), np.uint8)

    def _begin_episodes(self, mask: Array) -> None:
        for flight in np.flatnonzero(mask):
            self._chosen[flight] = self._generators[flight].integers(len(self.tasks))
        self._steps[mask] = 0
        self._has_ended[mask] = False
        self.simulator.place(self._starts[self._chosen], self._fields[self._chosen], torch.from_numpy(mask))

    def _observe(self) -> dict[str, Any]:
        observation = self.simulator.observe()
        self._image = np.ascontiguousarray(observation.image.cpu().numpy())  # black pictures are one byte, repeated
        pose = observation.pose_world.cpu().numpy()
        self._distance = np.hypot(*(pose[:, :2] - self._goals[self._chosen]).T).astype(np.float32)
        instruction = tuple(self.tasks[index].instruction for index in self._chosen)
        return {"image": self._image, "pose": pose, "instruction": instruction}

    def _info(self, is_success: Array) -> dict[str, Any]:
        return {"goal_distance": self._distance.copy(), "is_success": is_success}

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start a new episode in every flight, or only where options["reset_mask"] (B,) bool is true.

        The seed decides which demonstrations are drawn; nothing else is random. As in Gymnasium's vector environments,
        an integer seed gives flight i that seed plus i.
        """
        if isinstance(seed, int):
            seed = [seed + flight for flight in range(self.num_envs)]
        if seed is not None:
            if len(seed) != self.num_envs:
                raise ValueError(f"seed: got {len(seed)} seeds, expected {self.num_envs}, one for each flight")
            self._generators = [np.random.default_rng(each) for each in seed]
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, bool)))
        if mask.shape != (self.num_envs,) or mask.dtype != bool:
            raise ValueError(f"reset_mask: got {mask.dtype} of shape {mask.shape}, expected bool of ({self.num_envs},)")
        self._begin_episodes(mask)
        return self._observe(), self._info(np.zeros(self.num_envs, bool))

    def step(self, actions: Array) -> tuple[dict[str, Any], Array, Array, Array, dict[str, Any]]:
        """One step of every flight; those whose episode ended in the previous step start a new one instead."""
        restarted, before = self._has_ended.copy(), self._distance
        actions = np.where(restarted[:, None], np.float32(0), np.asarray(actions, np.float32))
        self.simulator.advance(torch.from_numpy(actions))
        self._steps += 1
        if restarted.any():
            self._begin_episodes(restarted)
        observation = self._observe()
        has_stopped = (actions[:, STOP] > 0.5) & ~restarted
        is_late = (self._steps >= self.horizon) & ~has_stopped & ~restarted
        is_success = has_stopped & (self._distance < SUCCESS_M)
        reward = before - self._distance + STOP_REWARD * (2.0 * is_success - has_stopped)
        reward = np.where(restarted, 0.0, reward)
        self._has_ended = has_stopped | is_late
        return observation, reward, has_stopped, is_late, self._info(is_success)

    def render(self) -> Any:
        """What each drone saw last: one picture (H, W, 3) uint8 per flight."""
        return tuple(self._image)


class FieldEnv(gymnasium.Env):  # type: ignore[type-arg]
    """One flight: a vectorised environment with a batch of one."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}

    def __init__(self, *, render_mode: str | None = None, **options: Any) -> None:
        """Takes the options of `FieldVectorEnv`, except `num_envs`."""
        self._flights = FieldVectorEnv(1, render_mode=render_mode, **options)
        self.render_mode = render_mode
        self.observation_space = self._flights.single_observation_space
        self.action_space = self._flights.single_action_space

    def _first(self, values: dict[str, Any]) -> dict[str, Any]:
        return {name: value[0] for name, value in values.items()}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start a new episode."""
        super().reset(seed=seed)
        observation, info = self._flights.reset(seed=seed)
        return self._first(observation), self._first(info)

    def step(self, action: Array) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """One step of half a second."""
        batch = np.asarray(action, np.float32)[None]
        observation, reward, has_stopped, is_late, info = self._flights.step(batch)
        return (
            self._first(observation),
            float(reward[0]),
            bool(has_stopped[0]),
            bool(is_late[0]),
            self._first(info),
        )

    def render(self) -> Any:
        """What the drone saw last (H, W, 3) uint8."""
        return self._flights.render()[0]
