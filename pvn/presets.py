"""Complete recipes: the paper's, and a small one that shows within minutes that everything works."""

from __future__ import annotations

from pvn.learning.imitation import ImitationConfig
from pvn.learning.stage1 import Stage1Config
from pvn.learning.stage2 import Stage2Config
from pvn.learning.training import Recipe


def paper() -> Recipe:
    """The paper's agent: its losses, its DAggerFM, its sizes; batched for speed."""
    return Recipe(name="paper")


def smoke() -> Recipe:
    """A few minutes on two CPU cores, on a few hundred segments; beats the trivial baselines, and that is all."""
    return Recipe(
        name="smoke",
        stage1=Stage1Config(num_epochs=8, frames_per_batch=96, frame_every=3, learning_rate=2e-3, save_every=50),
        stage2=Stage2Config(pretrain_flights=200, num_iterations=15),
        min_count=2,
    )


def paper_baseline() -> ImitationConfig:
    """GSMN's and Chaplot's training: PVN's segments, as many pictures as PVN sees, and its DAggerFM."""
    return ImitationConfig()


def smoke_baseline() -> ImitationConfig:
    """The same beside the smoke recipe."""
    return ImitationConfig(
        num_epochs=3,
        word_steps=300,
        frames_per_batch=96,
        num_iterations=5,
        num_environments=3,
        memory=30,
        save_every=50,
    )
