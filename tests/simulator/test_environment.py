"""The Gymnasium environment, single and vectorised."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import pvn  # noqa: F401  (importing it registers the environment)
from pvn.simulator.environment import FieldVectorEnv
from pvn.simulator.interface import SimulatorConfig
from pvn.world.routes import sample_tour

DEMONSTRATIONS = sample_tour(1)
TASKS = [demonstration.task for demonstration in DEMONSTRATIONS]
GO, HALT = np.array([2.0, 0.0, 0.0], np.float32), np.array([0.0, 0.0, 1.0], np.float32)


@pytest.fixture(scope="module")
def environment():
    return gymnasium.make("pvn/Field-v0", demonstrations=DEMONSTRATIONS, quality="fast", horizon=6)


def many(num_envs=3, **options):
    options = {"demonstrations": DEMONSTRATIONS, "quality": "fast", "horizon": 6} | options
    return gymnasium.make_vec("pvn/Field-v0", num_envs, "vector_entry_point", **options)


@pytest.mark.filterwarnings("ignore:.*normalized space.*")  # metres and radians are what people command
def test_gymnasiums_own_checker_is_satisfied(environment):
    check_env(environment.unwrapped)


def test_observation_is_image_pose_and_instruction(environment):
    observation, info = environment.reset(seed=3)
    assert observation["image"].shape == (72, 128, 3) and observation["image"].dtype == np.uint8
    assert observation["pose"].shape == (6,)
    assert observation["instruction"] in {task.instruction for task in TASKS}
    assert info["goal_distance"] > 0


def test_spaces_have_the_limits_that_the_docstring_states(environment):
    action, pose = environment.action_space, environment.observation_space["pose"]
    assert action.low.tolist() == pytest.approx([0, -1.0472, 0], abs=1e-4)
    assert action.high.tolist() == pytest.approx([3, 1.0472, 1], abs=1e-4)
    assert pose.low.tolist() == pytest.approx([-10, -10, 0, -np.pi, -np.pi, -np.pi], abs=1e-4)
    assert pose.high.tolist() == pytest.approx([60, 60, 100, np.pi, np.pi, np.pi], abs=1e-4)


def test_rendering_shows_what_the_drone_saw_last():
    environment = gymnasium.make("pvn/Field-v0", demonstrations=DEMONSTRATIONS, quality="fast", render_mode="rgb_array")
    observation, _ = environment.reset(seed=3)
    assert np.array_equal(environment.render(), observation["image"])
    observation = environment.step(GO)[0]
    assert np.array_equal(environment.render(), observation["image"])


def test_stopping_terminates_and_the_horizon_truncates(environment):
    environment.reset(seed=0)
    assert environment.step(HALT)[2:4] == (True, False)
    environment.reset(seed=0)
    ends = [environment.step(GO)[2:4] for _ in range(6)]
    assert ends == [(False, False)] * 5 + [(False, True)]


def test_reward_is_progress_and_a_stop_near_the_goal_pays():
    x, y = DEMONSTRATIONS[0].goal
    near = replace(DEMONSTRATIONS[0], task=replace(TASKS[0], start=(x - 3.0, y, 0.0)))
    environment = gymnasium.make("pvn/Field-v0", demonstrations=[near], quality="none")
    _, info = environment.reset(seed=0)
    assert info["goal_distance"] == pytest.approx(3.0, abs=1e-4)
    _, reward, _, _, info = environment.step(GO)
    assert reward == pytest.approx(3.0 - info["goal_distance"], abs=1e-4)
    _, reward, terminated, _, info = environment.step(HALT)
    assert terminated and info["is_success"] and 4 < reward < 7


def test_a_stop_far_from_the_goal_costs():
    longest = max(DEMONSTRATIONS, key=lambda demonstration: len(demonstration.path))
    environment = gymnasium.make("pvn/Field-v0", demonstrations=[longest], quality="none")
    _, info = environment.reset(seed=0)
    assert info["goal_distance"] > 5
    _, reward, _, _, info = environment.step(HALT)
    assert not info["is_success"] and reward == pytest.approx(-5, abs=0.1)


def test_each_flight_has_its_own_seed():
    poses = [many().reset(seed=seed)[0]["pose"] for seed in ([1, 2, 3], [1, 9, 3], 1)]
    assert np.array_equal(poses[0][[0, 2]], poses[1][[0, 2]])
    assert np.array_equal(poses[0], poses[2]), "one seed is the first of consecutive ones"
    with pytest.raises(ValueError, match="seed: got 2 seeds, expected 3"):
        many().reset(seed=[1, 2])


def test_a_reset_mask_starts_only_those_episodes():
    environments = many()
    environments.reset(seed=0)
    before = environments.step(np.stack([GO] * 3))[0]["pose"]
    after = environments.reset(options={"reset_mask": np.array([False, True, False])})[0]["pose"]
    assert np.array_equal(before[[0, 2]], after[[0, 2]]) and not np.array_equal(before[1], after[1])
    with pytest.raises(ValueError, match="reset_mask"):
        environments.reset(options={"reset_mask": np.array([True])})


def test_instructions_may_hold_any_letter():
    other = replace(DEMONSTRATIONS[0], task=replace(TASKS[0], instruction="zum Café"))
    environment = gymnasium.make("pvn/Field-v0", demonstrations=[other], quality="none")
    observation, _ = environment.reset(seed=0)
    assert environment.observation_space.contains(observation)


def test_the_vector_environment_is_one_batched_simulator():
    environments = many()
    assert isinstance(environments.unwrapped, FieldVectorEnv)
    assert environments.unwrapped.simulator.num_flights == 3
    observation, _ = environments.reset(seed=0)
    assert environments.observation_space.contains(observation)
    assert environments.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP


def test_the_step_after_an_episode_starts_the_next_and_ignores_its_action():
    environments = many()
    environments.reset(seed=0)
    _, _, terminated, _, _ = environments.step(np.stack([GO, HALT, GO]))
    assert terminated.tolist() == [False, True, False]
    observation, reward, terminated, truncated, _ = environments.step(np.stack([GO, HALT, GO]))
    assert not terminated.any() and not truncated.any() and reward[1] == 0
    starts = np.array([task.start for task in TASKS])
    place = observation["pose"][1, [0, 1, 5]]
    gap = np.abs(np.angle(np.exp(1j * (starts[:, 2] - place[2])))) + np.hypot(*(starts[:, :2] - place[:2]).T)
    assert gap.min() < 1e-3, "the flight hovers at the start of a task"


def test_the_same_seed_and_actions_give_the_same_episodes():
    runs = []
    for _ in range(2):
        environments = many()
        environments.reset(seed=11)
        environments.action_space.seed(4)
        runs.append([environments.step(environments.action_space.sample()) for _ in range(8)])
    for (a, reward, *_), (b, other, *_) in zip(*runs, strict=True):
        assert np.array_equal(a["image"], b["image"]) and np.array_equal(reward, other)
        assert a["instruction"] == b["instruction"]


def test_single_and_vector_environments_fly_alike(environment):
    single, _ = environment.reset(seed=5)
    batch, _ = many(num_envs=1).reset(seed=5)
    assert np.array_equal(single["image"], batch["image"][0])


def test_the_quality_of_a_config_is_kept():
    blind = FieldVectorEnv(1, demonstrations=DEMONSTRATIONS, config=SimulatorConfig(quality="none"))
    assert blind.reset(seed=0)[0]["image"].max() == 0


def test_no_demonstrations_are_refused():
    with pytest.raises(ValueError, match="demonstrations: got none"):
        FieldVectorEnv(1, demonstrations=[])
    with pytest.raises(ValueError, match="demonstrations: got none and num_tours 0"):
        FieldVectorEnv(1, num_tours=0)


def test_without_demonstrations_episodes_are_random_tours():
    environment = FieldVectorEnv(2, num_tours=2, quality="none")
    assert [task.instruction for task in environment.tasks] == [
        demonstration.task.instruction for seed in (0, 1) for demonstration in sample_tour(seed)
    ]


def test_a_horizon_of_nothing_is_refused():
    with pytest.raises(ValueError, match="horizon: got 0"):
        FieldVectorEnv(1, demonstrations=DEMONSTRATIONS, horizon=0)
