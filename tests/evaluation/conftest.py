"""Results and paths that tests of the evaluation share."""

from dataclasses import replace

import numpy as np
import pytest

from pvn.evaluation.intervals import Estimate
from pvn.evaluation.metrics import measure_flights
from pvn.evaluation.summary import summarise


@pytest.fixture(scope="session")
def with_successes(paragraph):
    """Makes the results of a system whose flights (fields, flights in a field) reached their goals or not."""
    demonstrations = [segment.demonstration for segment in paragraph]
    paths = [demonstration.path for demonstration in demonstrations]
    summary = summarise("pvn", "dev", measure_flights(paths, [True] * len(paths), demonstrations), paragraph)

    def make(reached, system="pvn", split="dev"):
        reached = np.asarray(reached, bool)
        rate = 100 * float(reached.mean())
        successes = {field: tuple(flights) for field, flights in enumerate(reached.tolist())}
        overall = replace(summary.overall, sr=Estimate(rate, 0.0, 100.0), environments=len(reached))
        return replace(summary, system=system, split=split, overall=overall, successes=successes)

    return make
