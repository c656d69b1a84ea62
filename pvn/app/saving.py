"""Writing pictures, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # pictures go to files; there may be no display

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from pvn.world.files import replacing

DOTS_PER_INCH = 110
SUFFIXES = (".png", ".jpg", ".pdf", ".svg")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to `path` and close it."""
    with replacing(path) as partial:
        figure.savefig(partial, dpi=DOTS_PER_INCH)
    plt.close(figure)


def picture_path(path: Path) -> Path:
    """The path, if it ends as a picture does."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"picture: got {path}, expected a name that ends in {', '.join(SUFFIXES)}")
    return path
