"""Presets and the table of systems: every system trains by the preset's recipe, but for what its row changes."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

import pvn
from pvn.corpus.training_corpus import FOLDER
from pvn.learning import presets
from pvn.learning.imitation import ImitationRecipe
from pvn.learning.presets import (
    LITERAL,
    literal,
    paper,
    paper_imitation,
    quick,
    recipe_for,
    smoke,
    smoke_imitation,
    train,
    train_system,
    with_changes,
)
from pvn.learning.training import Recipe
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
    ("gsmn", "paper"): {"dagger.learning_rate": 1e-3},
    ("gsmn", "smoke"): {"dagger.learning_rate": 1e-3},
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


@pytest.mark.parametrize(("name", "preset"), DIFFERENCES)
def test_a_system_changes_in_the_presets_recipe_what_its_row_says_and_nothing_else(name, preset):
    recipe = recipe_for(SYSTEMS[name], preset)
    bases = (paper(), paper_imitation()) if preset == "paper" else (smoke(), smoke_imitation())
    base = next(base for base in bases if type(base) is type(recipe))
    was, now = flat(asdict(base)), flat(asdict(recipe))
    assert was.keys() == now.keys()
    assert {field: value for field, value in now.items() if value != was[field]} == DIFFERENCES[name, preset]


def test_every_system_with_weights_of_its_own_has_a_recipe_and_no_other_has():
    assert {name for name, _ in DIFFERENCES} == set(TRAINED)
    for name, system in SYSTEMS.items():
        if name in TRAINED:
            kind = Recipe if system.training == "two stages" else ImitationRecipe
            assert isinstance(recipe_for(system, "paper"), kind)
        else:
            with pytest.raises(ValueError, match=f"agent: got {name}, which is not trained, expected one that is"):
                recipe_for(system, "paper")


def test_the_plus_preset_reads_more_and_other_text_and_is_not_for_baselines():
    base, recipe = flat(asdict(paper())), flat(asdict(recipe_for(SYSTEMS["pvn"], "plus")))
    changed = {field for field, value in recipe.items() if value != base[field]}
    text = {"size", "has_natural", "narrated", "turns", "natural_repeats", "mirrors_natural", "circle_repeats"}
    assert changed == {"name", "stage1.num_epochs", "stage1.word_steps"} | {f"text.{field}" for field in text}
    with pytest.raises(ValueError, match="preset: got plus for gsmn, expected paper, quick, literal or smoke"):
        recipe_for(SYSTEMS["gsmn"], "plus")


def test_the_literal_preset_takes_back_every_change_of_ours_and_nothing_else():
    base, recipe = flat(asdict(paper())), flat(asdict(literal()))
    fields = [field for part in LITERAL.values() for field in part]
    twice = {field for field in fields if fields.count(field) > 1}
    assert twice == {"stage1.stray_share"}, "two flights stray together, and need not at all"
    assert with_changes(paper(), LITERAL["small batches"]).stage1.stray_share ** 2 == pytest.approx(0.5)
    with pytest.raises(ValueError, match="stray_share: got 0.5 with one flight in a batch"):
        with_changes(paper(), {"stage1.flights_per_batch": 1})
    assert {field for field, value in recipe.items() if value != base[field]} == {"name", *fields}
    # The paper's appendix C: Adam, 0.001, 1e-6, and the mean over classes in appendix A.
    stage1, stage2 = literal().stage1, literal().stage2
    assert (stage1.flights_per_batch, stage1.optimizer, stage1.learning_rate, stage1.weight_decay) == (
        2, "Adam", 1e-3, 1e-6,
    )  # fmt: skip
    assert (stage2.optimizer, stage2.learning_rate, stage2.weight_decay, stage2.num_iterations) == (
        "Adam", 1e-3, 1e-6, 100,
    )  # fmt: skip
    assert stage1.losses.averages_mentioned and stage1.turn_rad == 0.5 and stage1.stray_share == 0
    # What the paper says of training is about PVN.
    assert recipe_for(SYSTEMS["gsmn"], "literal") == replace(recipe_for(SYSTEMS["gsmn"], "paper"), name="literal")


def test_the_quick_preset_is_half_the_steps_of_paper_and_baselines_see_as_many_pictures():
    def passes(recipe: Recipe) -> float:
        """How often every picture of a flight is used, or those beside it instead."""
        return recipe.stage1.num_epochs / recipe.stage1.frame_every

    base, recipe = flat(asdict(paper())), flat(asdict(recipe_for(SYSTEMS["pvn"], "quick")))
    changed = {field: value for field, value in recipe.items() if value != base[field]}
    assert changed == {
        "name": "quick", "stage1.num_epochs": 27, "stage1.frame_every": 3, "stage1.losses.averages_mentioned": True,
    }  # fmt: skip
    assert passes(quick()) < passes(paper()) / 2
    for name in ("gsmn", "chaplot"):
        assert recipe_for(SYSTEMS[name], "quick").imitation.num_epochs == passes(quick())
        assert recipe_for(SYSTEMS[name], "paper").imitation.num_epochs == passes(paper())


def test_systems_that_take_the_first_stage_of_another_train_it_alike():
    for name in TRAINED:
        system = SYSTEMS[name]
        if system.stage1_of is not None:
            own, taken = (recipe_for(SYSTEMS[some], "paper") for some in (name, system.stage1_of))
            assert replace(own, stage2=taken.stage2, execution=taken.execution) == taken


def test_presets_are_what_they_say():
    paper, smoke = presets.paper(), presets.smoke()
    assert paper.stage2.num_iterations == 100 and paper.stage2.beta == 0.92 and paper.stage2.memory == 600
    assert paper.execution.stop_threshold == 0.07 and paper.plan_every == 6 and paper.stage1.weight_decay == 1e-6
    losses = paper.stage1.losses
    assert (losses.landmark_weight, losses.grounded_weight, losses.mentioned_weight) == (1.0, 1.0, 0.25)
    assert smoke.stage1.num_epochs < paper.stage1.num_epochs


def test_a_recipe_is_changed_by_dotted_names_and_unknown_ones_are_refused():
    changed = with_changes(paper(), {"stage1.losses.sigma_cells": 1.0, "plan_every": 3})
    assert changed.stage1.losses.sigma_cells == 1.0 and changed.plan_every == 3
    assert with_changes(changed, {"stage1.losses.sigma_cells": 0.6, "plan_every": 6}) == paper()
    for name in ("stage3.num_epochs", "stage1.num_epoch", "plan_every.num_epochs"):
        with pytest.raises(ValueError, match="recipe: got a change of .* which has no such field"):
            with_changes(paper(), {name: 1})


def test_a_seed_is_that_of_all_of_a_training():
    for recipe in (paper(), paper_imitation()):
        seeds = {name: value for name, value in flat(asdict(recipe.with_seed(7))).items() if name.endswith("seed")}
        assert len(seeds) == 2 and set(seeds.values()) == {7}


def test_training_is_public():
    assert pvn.train is presets.train


def test_the_baselines_are_given_theirs(tmp_path):
    with pytest.raises(ValueError, match="corpus: got none for preset paper, expected one"):
        train_system(None, SYSTEMS["gsmn"], paper_imitation(), tmp_path)


def test_a_device_that_does_not_exist_is_refused_before_a_corpus_is_made(tmp_path):
    with pytest.raises(ValueError, match='device: got \'gpu\', expected "cpu" or "cuda"'):
        train(None, tmp_path, agent="pvn", preset="smoke", device="gpu")
    assert not (tmp_path / FOLDER).exists()
