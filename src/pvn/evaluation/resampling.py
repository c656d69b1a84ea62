"""Sums and medians of resampled units, for bootstrap intervals. Scalar code compiled by Numba.

Plain loops in a fixed order: the same draws give the same bits on any machine, which a matrix product does not promise.
"""

from __future__ import annotations

import numpy as np

from pvn.compiling import compiled


@compiled
def resampled_sums(drawn, sums):
    """Sums (R, K) over the units that each resample (R, U) drew, of the units' own sums (U, K)."""
    totals = np.zeros((len(drawn), sums.shape[1]))
    for resample in range(len(drawn)):
        for unit in drawn[resample]:
            for column in range(sums.shape[1]):
                totals[resample, column] += sums[unit, column]
    return totals


@compiled
def resampled_medians(drawn, first, ranks, ordered):
    """Medians (R,) over all flights of the units that each resample (R, U) drew.

    ordered: the flights' values (B,), ascending; ranks: their places in it (B,), the flights of unit u at
    first[u] to first[u + 1]. Counting how often each place was drawn is quicker than sorting every resample.
    """
    medians = np.empty(len(drawn))
    times = np.empty(len(ordered), np.int64)
    for resample in range(len(drawn)):
        times[:] = 0
        size = 0
        for unit in drawn[resample]:
            size += first[unit + 1] - first[unit]
            for flight in range(first[unit], first[unit + 1]):
                times[ranks[flight]] += 1
        place, passed = 0, times[0]
        while passed <= (size - 1) // 2:
            place += 1
            passed += times[place]
        lower = ordered[place]
        while passed <= size // 2:
            place += 1
            passed += times[place]
        medians[resample] = (lower + ordered[place]) / 2
    return medians
