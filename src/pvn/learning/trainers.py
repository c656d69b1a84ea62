"""The two ways in which systems are trained: PVN predicts visitation distributions, the baselines imitate actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from pvn.corpus.vocabulary import Vocabulary
from pvn.learning.dagger import ExecutionLearner, ImitationLearner
from pvn.learning.fit import Trainee
from pvn.learning.losses import ImitateOracle, ImitationLosses, PredictVisitation, VisitationLosses
from pvn.learning.recipes import Recipe, Stage2Config, imitation, prediction
from pvn.model.execution import ExecutionModel
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.simulator.interface import SimulatorConfig


@dataclass(frozen=True)
class Trainer:
    """How systems of one kind are trained."""

    recipe: Callable[[str], Recipe]
    """The recipe of a preset."""
    begin: Callable[[Any, Recipe, Vocabulary], Trainee]
    """Makes an untrained agent of a class, and what it learns."""


def begin_prediction(agent_class: Any, recipe: Recipe, vocabulary: Vocabulary) -> Trainee:
    """PVN: one network predicts where to fly, another one flies by the prediction."""
    assert recipe.sizes is not None and recipe.execution is not None
    model = VisitationModel(
        VisitationConfig(
            num_words=len(vocabulary), grid=recipe.grid, camera=recipe.camera,
            uses_instruction=recipe.uses_instruction, overhead_px=recipe.overhead_px, **asdict(recipe.sizes),
        )
    )  # fmt: skip
    execution = ExecutionModel(replace(recipe.execution, grid=recipe.grid, num_parts=recipe.sizes.num_parts))
    agent = agent_class(model, execution, vocabulary, plan_every=recipe.plan_every)
    objective = PredictVisitation(model, cast(VisitationLosses, recipe.stage1.losses))
    return Trainee(agent, objective, ExecutionLearner(execution, cast(Stage2Config, recipe.stage2)))


def begin_imitation(agent_class: Any, recipe: Recipe, vocabulary: Vocabulary) -> Trainee:
    """A baseline: one network decides at every step, and is trained as a whole in both stages."""
    agent = agent_class.untrained(vocabulary, grid=recipe.grid, camera=recipe.camera)
    objective = ImitateOracle(agent.model, recipe.grid, cast(ImitationLosses, recipe.stage1.losses))
    simulator = SimulatorConfig(camera=recipe.camera)
    return Trainee(
        agent, objective, ImitationLearner(agent.model, recipe.stage2, simulator, agent, objective, recipe.stage1)
    )


PREDICTION = Trainer(prediction, begin_prediction)
IMITATION = Trainer(imitation, begin_imitation)
