"""Every colour with a meaning, the same in figures, films, recordings and the demo, and safe for colour-blind people.

`tests/viz/test_palette.py` checks that colours shown together differ enough for every kind of colour vision.
"""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

FLOWN, DEMONSTRATED, START, GOAL = "#56b4e9", "#ffffff", "#f0e442", "#e08a00"
"""Paths, and where they begin and end."""
PREDICTED_TRAJECTORY = "#bf30ff"
"""Stands out from grass, lakes, paths and marks for every kind of colour vision. One man in twelve confuses the paper's
red and green."""
PREDICTED_GOAL = GOAL
PREDICTION_COLOURS = (PREDICTED_TRAJECTORY, PREDICTED_GOAL)
PREDICTION_LABELS = ("predicted trajectory", "predicted goal")
"""By channel of the visitation distributions, TRAJECTORY and GOAL of pvn.model.visitation."""
DRONE = "#ffffff"
OUTLINE = "#000000"
"""Edge of lines, dots and letters, so that they stand out on any ground."""
REACHED, MISSED = "#009e73", "#d55e00"
"""Outcomes of flights, always beside a word that says the same."""
TOUCHED = "#ff4488"
"""Ring around a landmark that was flown through or brushed. MISSED would be too similar to GOAL."""
STOP_PROBABILITY, SPEED, YAW_RATE = "#d55e00", "#0072b2", "#cc79a7"
"""Curves over a flight, on white."""
MAP_COMPONENTS = np.array([[0.84, 0.37, 0.0], [0.0, 0.3, 0.85], [0.16, 0.33, 0.15]])
"""(3, 3): red, green and blue of a map's three components; their sum is white."""
FIRST_PREDICTION, LAST_PREDICTION = "#0072b2", "#d55e00"
SYSTEM_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Lines of systems in one plot (Okabe and Ito 2008)."""
NOTE = "#555555"
"""Minor text on white."""

FILM_BACKGROUND, FILM_PANEL, FILM_LINES = "#16191d", "#20242a", "#343a42"
FILM_TEXT, FILM_NOTE = "#eeeeee", "#969ca4"
FILM_STOP_PROBABILITY, FILM_SPEED = "#e67828", "#56b4e9"
FILM_REACHED, FILM_MISSED = "#7cfc8a", "#ffb000"
"""Brighter, for the dark background of films."""


def rgb_bytes(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of a colour, 0 to 255."""
    red, green, blue = (round(255 * part) for part in to_rgb(colour))
    return red, green, blue
