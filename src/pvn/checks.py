"""Limits of settings: a value that makes no sense is refused when a configuration is made, not in mid-training."""

from __future__ import annotations

import math


def check_limits(config: object, names: str, least: float, most: float = math.inf) -> None:
    """Refuse values of fields, named in one string, that are not from `least` to `most`; None is left alone."""
    for name in names.split():
        value = getattr(config, name)
        if value is not None and not least <= value <= most:
            expected = f"at least {least:g}" if most == math.inf else f"{least:g} to {most:g}"
            raise ValueError(f"{name}: got {value}, expected {expected}")
