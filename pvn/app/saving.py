"""Writing pictures, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # pictures go to files; there may be no display

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

DOTS_PER_INCH = 110


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to `path` and close it; folders are made, and a kill leaves no half picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        figure.savefig(partial, dpi=DOTS_PER_INCH)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
        plt.close(figure)
