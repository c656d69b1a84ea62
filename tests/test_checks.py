"""Settings that make no sense are refused when a recipe is made."""

import math

import pytest

from pvn.learning.presets import paper, paper_imitation, with_changes


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("stage1.num_epochs", 0, "at least 1"),
        ("stage1.measure_every", 0, "at least 1"),
        ("stage1.frame_every", 0, "at least 1"),
        ("stage1.learning_rate", math.nan, "at least 0"),
        ("stage1.max_gradient_norm", -1.0, "at least 0"),
        ("stage1.stray_share", 1.5, "0 to 1"),
        ("stage1.losses.sigma_cells", 0.0, "at least 0.01"),
        ("stage2.pretrain_epochs", 0, "at least 1"),
        ("stage2.batch_size", -3, "at least 1"),
        ("stage2.memory", 0, "at least 1"),
        ("stage2.beta", -0.1, "0 to 1"),
        ("text.size", 0, "at least 1"),
        ("text.narrated", -1, "at least 0"),
        ("sizes.num_parts", 0, "at least 1"),
        ("sizes.embedding_size", 0, "at least 1"),
        ("sizes.word_dropout", 2.0, "0 to 1"),
        ("execution.crop", 0, "at least 1"),
        ("execution.stop_threshold", -0.5, "0 to 1"),
        ("plan_every", 0, "at least 1"),
    ],
)
def test_a_recipe_names_what_is_out_of_its_limits(name, value, expected):
    with pytest.raises(ValueError, match=rf"^{name.split('.')[-1]}: got {value}, expected {expected}$"):
        with_changes(paper(), {name: value})


def test_a_baselines_recipe_has_limits_too():
    with pytest.raises(ValueError, match="^num_environments: got 0, expected at least 1$"):
        with_changes(paper_imitation(), {"dagger.num_environments": 0})
    with pytest.raises(ValueError, match="^word_steps: got -1, expected at least 0$"):
        with_changes(paper_imitation(), {"imitation.word_steps": -1})


def test_what_may_be_left_out_has_no_limits():
    recipe = with_changes(paper(), {"stage1.flights_per_batch": None, "stage1.max_gradient_norm": None})
    assert recipe.stage1.flights_per_batch is None and recipe.stage1.max_gradient_norm is None
