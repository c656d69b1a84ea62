"""Writing figures to files, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # pictures go to files; there may be no display

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from pvn.files import replacing

DOTS_PER_INCH = 110
PAPER_DOTS_PER_INCH = 300
PNG_LEVEL = 2
"""Compression, 0 to 9: 3.5 times as fast as Pillow's default of 6, for files a tenth larger."""
SUFFIXES = (".png", ".jpg", ".pdf", ".svg")
PAPER_SUFFIXES = ("", ".pdf", ".png")


def _lay_out(figure: Figure, dots_per_inch: int) -> None:
    """Compute the layout once; Matplotlib would do so again for each file."""
    for axis in figure.axes:
        if not axis.axison:
            axis.set(xticks=[], yticks=[])  # invisible, but they would be laid out like any others
    figure.set_dpi(dots_per_inch)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def _write(figure: Figure, path: Path, dots_per_inch: int) -> None:
    with replacing(path) as partial:
        if path.suffix == ".png":  # without the transparency, a quarter less to compress
            canvas: Any = FigureCanvasAgg(figure)
            canvas.draw()
            picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
            picture.save(partial, "PNG", compress_level=PNG_LEVEL, dpi=(dots_per_inch, dots_per_inch))
        else:
            figure.savefig(partial, dpi=dots_per_inch)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure to `path` and close it."""
    _lay_out(figure, DOTS_PER_INCH)
    _write(figure, path, DOTS_PER_INCH)
    plt.close(figure)


def save_for_paper(figure: Figure, path: Path) -> None:
    """Write a figure both as a vector PDF with embedded fonts and as a PNG, and close it."""
    _lay_out(figure, PAPER_DOTS_PER_INCH)
    # Journals refuse matplotlib's own Type 3 fonts; TrueType can also be searched, copied and edited.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        for file in paper_paths(path):
            _write(figure, file, PAPER_DOTS_PER_INCH)
    plt.close(figure)


def paper_paths(path: Path) -> tuple[Path, Path]:
    """The PDF and the PNG of a figure, whether path names one of them or has no suffix."""
    if path.suffix not in PAPER_SUFFIXES:
        raise ValueError(
            f"figure: got {path}, expected a name that ends in .pdf or .png, or has no ending; both files are written"
        )
    return path.with_suffix(".pdf"), path.with_suffix(".png")


def picture_path(path: Path) -> Path:
    """The path, if its suffix is that of a picture; otherwise a ValueError."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"picture: got {path}, expected a name that ends in {', '.join(SUFFIXES)}")
    return path
