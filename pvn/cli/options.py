"""What several verbs share."""

from __future__ import annotations

import json
from typing import Literal

Device = Literal["cpu", "cuda"]


def print_json(report: object) -> None:
    """One JSON object on standard output."""
    print(json.dumps(report, indent=2))
