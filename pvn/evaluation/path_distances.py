"""How far two point sequences are from each other: warping, transport, coverage. Scalar code compiled by Numba."""

from __future__ import annotations

import math

import numba
import numpy as np


@numba.njit(cache=True)
def warping_cost(points, others):
    """The smallest sum of distances over all warpings of points (N, 2) onto others (M, 2), metres.

    A warping pairs first with first and last with last, and moves on by one in either sequence or in both.
    """
    row = np.full(len(others), np.inf)
    for i in range(len(points)):
        diagonal = np.inf if i else 0.0  # the cost of (i - 1, j - 1)
        left = np.inf  # the cost of (i, j - 1)
        for j in range(len(others)):
            distance = math.hypot(points[i, 0] - others[j, 0], points[i, 1] - others[j, 1])
            above = row[j]
            left = distance + min(diagonal, min(above, left))
            diagonal = above
            row[j] = left
    return row[-1]


@numba.njit(cache=True)
def nearest_distances(points, others):
    """For each of points (N, 2) the distance (N,) to the nearest of others (M, 2), metres."""
    nearest = np.empty(len(points))
    for i in range(len(points)):
        best = np.inf
        for j in range(len(others)):
            best = min(best, math.hypot(points[i, 0] - others[j, 0], points[i, 1] - others[j, 1]))
        nearest[i] = best
    return nearest


@numba.njit(cache=True)
def transport_cost(points, others):
    """The smallest mean distance over all ways to pair points (N, 2) with others (N, 2) one to one, metres.

    With equal masses on both sides an optimal transport is such a pairing (Birkhoff), so this is the exact earth
    mover's distance. The pairing is grown one point at a time along shortest augmenting paths, with prices that
    keep every reduced cost at zero or above (Jonker and Volgenant 1987).
    """
    count = len(points)
    cost = np.empty((count, count))
    for i in range(count):
        for j in range(count):
            cost[i, j] = math.hypot(points[i, 0] - others[j, 0], points[i, 1] - others[j, 1])
    # Row and column 0 stand for "not paired yet"; points and others count from 1.
    price, other_price = np.zeros(count + 1), np.zeros(count + 1)
    partner, previous = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    for i in range(1, count + 1):
        partner[0], column = i, 0
        slack, is_done = np.full(count + 1, np.inf), np.zeros(count + 1, np.bool_)
        while partner[column] != 0:
            is_done[column] = True
            row, step, following = partner[column], np.inf, 0
            for j in range(1, count + 1):
                if is_done[j]:
                    continue
                reduced = cost[row - 1, j - 1] - price[row] - other_price[j]
                if reduced < slack[j]:
                    slack[j], previous[j] = reduced, column
                if slack[j] < step:
                    step, following = slack[j], j
            for j in range(count + 1):
                if is_done[j]:
                    price[partner[j]] += step
                    other_price[j] -= step
                else:
                    slack[j] -= step
            column = following
        while column != 0:
            partner[column] = partner[previous[column]]
            column = previous[column]
    total = 0.0
    for j in range(1, count + 1):
        total += cost[partner[j] - 1, j - 1]
    return total / count
