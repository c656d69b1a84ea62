"""Recipes and the table of systems: every system trains by the preset's recipe, but for what its row changes."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

import pvn
from pvn import training
from pvn.learning.losses import ImitationLosses
from pvn.learning.recipes import LITERAL, Recipe, Stage1Config, imitation, literal, paper, quick, smoke, with_changes
from pvn.systems import SYSTEMS, TRAINED

NO_WORDS = {"stage1.losses.grounded_weight": 0.0, "stage1.losses.mentioned_weight": 0.0, "stage1.word_steps": 0}
PLUS = {
    "sizes.word_size": 64, "sizes.num_slots": 6, "sizes.embedding_size": 192,
    "sizes.grounding_channels": 8, "sizes.attention_channels": 32, "sizes.num_parts": 6, "sizes.knows_unseen": True,
    "sizes.knows_bearing": True, "sizes.has_quick_encoder": True, "stage1.oracle.max_left": 6.0,
    "sizes.predicts_facing": True, "stage1.oracle.turns_at_end": True,
    "stage2.oracle.max_left": 6.0, "stage2.oracle.turns_on_the_spot": 3.14, "stage2.oracle.lookahead": 5.0,
    "execution.min_speed": 0.15, "execution.look_threshold": 0.5, "plan_every": 3,
}  # fmt: skip
DIFFERENCES = {
    ("pvn", "paper"): {},
    ("pvn", "smoke"): {},
    ("pvn-no-aux", "paper"): {**NO_WORDS, "stage1.losses.landmark_weight": 0.0},
    ("pvn-no-aux", "smoke"): {**NO_WORDS, "stage1.losses.landmark_weight": 0.0},
    ("pvn-no-goal", "paper"): {"execution.uses_goal": False},
    ("pvn-no-goal", "smoke"): {"execution.uses_goal": False},
    # The same oracle flights: what is missing is DAggerFM alone.
    ("pvn-no-dagger", "paper"): {"stage2.num_iterations": 0},
    ("pvn-no-dagger", "smoke"): {"stage2.num_iterations": 0},
    ("pvn-no-instruction", "paper"): {**NO_WORDS, "uses_instruction": False},
    ("pvn-no-instruction", "smoke"): {**NO_WORDS, "uses_instruction": False},
    # One picture a flight, from above, where there were about eight.
    ("pvn-full-observation", "paper"): {"stage1.frames_per_batch": 64, "overhead_px": 256},
    ("pvn-full-observation", "smoke"): {"stage1.frames_per_batch": 8, "overhead_px": 128},
    ("gsmn", "paper"): {"stage2.learning_rate": 1e-3},
    ("gsmn", "smoke"): {"stage2.learning_rate": 1e-3},
    ("chaplot", "paper"): {},
    ("chaplot", "smoke"): {"camera.width": 96, "camera.height": 54},
    ("pvn-plus", "paper"): PLUS,
    ("pvn-plus", "smoke"): PLUS,
}


def flat(content, prefix=""):
    """Fields of a recipe by dotted name."""
    values = {}
    for name, value in content.items():
        values |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return values


BASES = {"paper": (paper(), imitation("paper")), "smoke": (smoke(), imitation("smoke"))}


@pytest.mark.parametrize(("name", "preset"), DIFFERENCES)
def test_a_system_changes_in_the_presets_recipe_what_its_row_says_and_nothing_else(name, preset):
    recipe = SYSTEMS[name].recipe(preset)
    was, now = flat(asdict(BASES[preset][isinstance(recipe.stage1.losses, ImitationLosses)])), flat(asdict(recipe))
    assert was.keys() == now.keys()
    assert {field: value for field, value in now.items() if value != was[field]} == DIFFERENCES[name, preset]


def test_every_system_with_weights_of_its_own_has_a_recipe_and_no_other_has():
    assert {name for name, _ in DIFFERENCES} == set(TRAINED)
    for name, system in SYSTEMS.items():
        if name not in TRAINED:
            with pytest.raises(ValueError, match=f"agent: got {name}, which is not trained, expected one that is"):
                system.recipe("paper")


def test_the_plus_preset_reads_more_and_other_text_and_is_not_for_baselines():
    base, recipe = flat(asdict(paper())), flat(asdict(SYSTEMS["pvn"].recipe("plus")))
    changed = {field for field, value in recipe.items() if value != base[field]}
    text = {"size", "has_natural", "narrated", "turns", "natural_repeats", "mirrors_natural", "circle_repeats"}
    assert changed == {"name", "stage1.num_epochs", "stage1.word_steps"} | {f"text.{field}" for field in text}
    with pytest.raises(ValueError, match="preset: got plus for a baseline, expected paper, quick, literal or smoke"):
        SYSTEMS["gsmn"].recipe("plus")


def test_the_literal_preset_takes_back_every_change_of_ours_and_nothing_else():
    base, recipe = flat(asdict(paper())), flat(asdict(literal()))
    fields = [field for part in LITERAL.values() for field in part]
    twice = {field for field in fields if fields.count(field) > 1}
    assert twice == {"stage1.swapped_share"}, "of two flights both paths are swapped, or none is"
    assert with_changes(paper(), LITERAL["small batches"]).stage1.swapped_share ** 2 == pytest.approx(0.5)
    assert {field for field, value in recipe.items() if value != base[field]} == {"name", *fields}
    # The paper's appendix C: Adam, 0.001, 1e-6, and the mean over classes in appendix A.
    stage1, stage2 = literal().stage1, literal().stage2
    assert (stage1.flights_per_batch, stage1.optimizer, stage1.learning_rate, stage1.weight_decay) == (
        2, "Adam", 1e-3, 1e-6,
    )  # fmt: skip
    assert (stage2.optimizer, stage2.learning_rate, stage2.weight_decay, stage2.num_iterations) == (
        "Adam", 1e-3, 1e-6, 100,
    )  # fmt: skip
    assert stage1.losses.averages_mentioned and stage1.turn_rad == 0.5 and stage1.swapped_share == 0
    # What the paper says of training is about PVN.
    assert SYSTEMS["gsmn"].recipe("literal") == replace(SYSTEMS["gsmn"].recipe("paper"), name="literal")


def test_the_quick_preset_is_half_the_steps_of_paper_and_baselines_see_as_many_pictures_as_pvn():
    def passes(recipe: Recipe) -> float:
        """How often every picture of a flight is used, or those beside it instead."""
        return recipe.stage1.num_epochs / recipe.stage1.frame_every

    base, recipe = flat(asdict(paper())), flat(asdict(SYSTEMS["pvn"].recipe("quick")))
    changed = {field: value for field, value in recipe.items() if value != base[field]}
    assert changed == {
        "name": "quick", "stage1.num_epochs": 27, "stage1.frame_every": 3, "stage1.losses.averages_mentioned": True,
    }  # fmt: skip
    assert passes(quick()) < passes(paper()) / 2
    for name in ("gsmn", "chaplot"):
        for preset in ("quick", "paper", "literal"):
            assert passes(SYSTEMS[name].recipe(preset)) == passes(SYSTEMS["pvn"].recipe(preset))


def test_systems_that_take_the_first_stage_of_another_train_it_alike():
    for name in TRAINED:
        system = SYSTEMS[name]
        if system.stage1_of is not None:
            own, taken = (SYSTEMS[some].recipe("paper") for some in (name, system.stage1_of))
            assert replace(own, stage2=taken.stage2, execution=taken.execution) == taken


def test_the_paper_preset_is_the_papers_where_it_says_so():
    recipe = paper()
    assert recipe.stage2.num_iterations == 100 and recipe.stage2.beta == 0.92 and recipe.stage2.memory == 600
    assert recipe.execution.stop_threshold == 0.07 and recipe.plan_every == 6 and recipe.stage1.weight_decay == 1e-6
    weights = recipe.stage1.losses
    assert (weights.landmark_weight, weights.grounded_weight, weights.mentioned_weight) == (1.0, 1.0, 0.25)


def test_a_recipe_is_changed_by_dotted_names_and_unknown_ones_are_refused():
    changed = with_changes(paper(), {"stage1.losses.sigma_cells": 1.0, "plan_every": 3})
    assert changed.stage1.losses.sigma_cells == 1.0 and changed.plan_every == 3
    assert with_changes(changed, {"stage1.losses.sigma_cells": 0.6, "plan_every": 6}) == paper()
    for name in ("stage3.num_epochs", "stage1.num_epoch", "plan_every.num_epochs"):
        with pytest.raises(ValueError, match="recipe: got a change of .* which has no such field"):
            with_changes(paper(), {name: 1})


def test_a_seed_is_that_of_all_of_a_training():
    for recipe in (paper(), imitation("paper")):
        seeds = {name: value for name, value in flat(asdict(recipe.with_seed(7))).items() if name.endswith("seed")}
        assert len(seeds) == 2 and set(seeds.values()) == {7}


def test_training_is_public():
    assert pvn.train is training.train


@pytest.mark.parametrize(
    ("base", "name", "value", "expected"),
    [
        (paper(), "stage1.num_epochs", 0, "expected at least 1"),
        (paper(), "stage1.frame_every", 0, "expected at least 1"),
        (paper(), "stage1.learning_rate", math.nan, "expected at least 0"),
        (paper(), "stage1.max_gradient_norm", -1.0, "expected at least 0"),
        (paper(), "stage1.swapped_share", 1.5, "expected 0 to 1"),
        (paper(), "stage1.height_spread", 4.5, "expected 0 to 4 metres"),
        (paper(), "stage1.losses.sigma_cells", 0.0, "expected at least 0.01"),
        (paper(), "stage1.augmentation.late", 1.5, "expected 0, which changes nothing, to 1"),
        (paper(), "stage2.pretrain_epochs", 0, "expected at least 1"),
        (paper(), "stage2.beta", -0.1, "expected 0 to 1"),
        (paper(), "text.narrated", -1, "expected at least 0"),
        (paper(), "sizes.num_parts", 0, "expected at least 1"),
        (paper(), "execution.stop_threshold", -0.5, "expected 0 to 1"),
        (paper(), "plan_every", 0, "expected at least 1"),
        (imitation("paper"), "stage2.num_environments", 0, "expected at least 1"),
        (imitation("paper"), "stage1.swapped_share", 0.5, "the oracle's actions would be wrong"),
        (imitation("paper"), "stage1.predict_every", 6, "every picture is followed by a decision"),
    ],
)
def test_a_recipe_names_what_is_out_of_its_limits(base, name, value, expected):
    with pytest.raises(ValueError, match=rf"^(augmentation\.)?{name.split('.')[-1]}: got {value}.*{expected}"):
        with_changes(base, {name: value})


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match=r"swapped_share: got 0\.5 with one flight in a batch"):
        Stage1Config(flights_per_batch=1)
    with pytest.raises(ValueError, match="augmentation: got some for views from above"):
        with_changes(paper(), {"overhead_px": 64, "stage1.augmentation.sun": 0.2})
    with pytest.raises(ValueError, match="uses_instruction, overhead_px and plan_every are PVN's"):
        replace(imitation("paper"), plan_every=3)
    left_out = with_changes(paper(), {"stage1.flights_per_batch": None, "stage1.max_gradient_norm": None}).stage1
    assert left_out.flights_per_batch is None and left_out.max_gradient_norm is None
