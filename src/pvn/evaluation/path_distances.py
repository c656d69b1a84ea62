"""How alike two paths are: warping, transport, coverage. Compiled scalar code."""

from __future__ import annotations

import math

import numpy as np

from pvn.compiling import compiled


@compiled
def travelled_along(path):
    """Distance (P,) from the first of a path's points (P, 2) to each of them along the path, metres."""
    travelled = np.zeros(len(path))
    for i in range(1, len(path)):
        travelled[i] = travelled[i - 1] + math.hypot(path[i, 0] - path[i - 1, 0], path[i, 1] - path[i - 1, 1])
    return travelled


@compiled
def points_at(path, travelled, distances):
    """Points (N, 2) at ascending distances (N,) along a path (P, 2); travelled (P,): the distances of its points."""
    points, leg = np.empty((len(distances), 2)), 0
    for i in range(len(distances)):
        while leg < len(path) - 2 and travelled[leg + 1] < distances[i]:
            leg += 1
        following = min(leg + 1, len(path) - 1)
        length = travelled[following] - travelled[leg]
        share = min((distances[i] - travelled[leg]) / length, 1.0) if length > 0 else 0.0
        for axis in range(2):
            points[i, axis] = path[leg, axis] + share * (path[following, axis] - path[leg, axis])
    return points


@compiled
def evenly_spaced(path, travelled, spacing):
    """The path (P, 2) as points (N, 2), evenly spaced and at most `spacing` apart, both ends included."""
    # A length that rounding has pushed past a whole number of spacings must not add a point.
    count = max(math.ceil(travelled[-1] / spacing - 1e-6), 0)
    return points_at(path, travelled, travelled[-1] * np.arange(count + 1) / max(count, 1))


@compiled
def spread_masses(path, travelled, count):
    """Places (count, 2) of equal masses spread evenly along a path (P, 2), each in the middle of its part."""
    return points_at(path, travelled, travelled[-1] * (np.arange(count) + 0.5) / count)


@compiled
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


@compiled
def nearest_distances(points, others):
    """For each of points (N, 2) the distance (N,) to the nearest of others (M, 2), metres."""
    nearest = np.empty(len(points))
    for i in range(len(points)):
        best = np.inf
        for j in range(len(others)):
            best = min(best, math.hypot(points[i, 0] - others[j, 0], points[i, 1] - others[j, 1]))
        nearest[i] = best
    return nearest


@compiled
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


@compiled
def likeness(points, reference, radius):
    """Normalised warping (nDTW) of two evenly spaced paths (N, 2) and (M, 2), 0 to 1."""
    return math.exp(-warping_cost(points, reference) / (len(reference) * radius))


@compiled
def length_weighted_coverage(points, length, reference, reference_length, radius):
    """Coverage weighted by length (CLS) of evenly spaced paths (N, 2) and (M, 2) of these lengths, 0 to 1."""
    coverage = 0.0
    for distance in nearest_distances(reference, points):
        coverage += math.exp(-distance / radius)
    coverage /= len(reference)
    expected = coverage * reference_length
    off = abs(expected - length)
    return coverage * (expected / (expected + off)) if off > 0 else coverage


@compiled
def transport_score(start, masses, cost, still):
    """How much closer, 0 to 1, a flight came to the masses (N, 2) than a drone that stayed at its start (2,).

    cost: the flight's own transport cost, metres. If the masses do not leave the start by more than `still`, it is 1
    or 0.
    """
    unmoved = 0.0
    for i in range(len(masses)):
        unmoved += math.hypot(masses[i, 0] - start[0], masses[i, 1] - start[1])
    unmoved /= len(masses)
    if unmoved < still:
        return 1.0 if cost < still else 0.0
    return max(0.0, 1.0 - cost / unmoved)


@compiled
def count_entries(points, discs):
    """How often a path (N, 2) enters one of the discs (D, 3), centre and radius; its first point enters none."""
    count = 0
    for disc in range(len(discs)):
        was_inside = True
        for i in range(len(points)):
            away = math.hypot(points[i, 0] - discs[disc, 0], points[i, 1] - discs[disc, 1])
            is_inside = away < discs[disc, 2]
            count += is_inside and not was_inside
            was_inside = is_inside
    return count


@compiled
def compare_flights(
    begin, end, flown, first_flown, wanted, first_wanted, discs, first_disc, spacing, num_masses, radius, still, scores
):
    """Compare flights `begin` to `end` with what was demonstrated, and write into scores (B, 8).

    Flight i flew flown[first_flown[i] : first_flown[i + 1]] and should have flown wanted[first_wanted[i] : ...], whose
    last point is its goal, among discs[first_disc[i] : ...]. scores: lengths of both paths; the least distance from
    the goal; nDTW, CLS, earth mover's distance and its score; entries into discs.
    """
    for i in range(begin, end):
        path, model = flown[first_flown[i] : first_flown[i + 1]], wanted[first_wanted[i] : first_wanted[i + 1]]
        along, model_along = travelled_along(path), travelled_along(model)
        points, reference = evenly_spaced(path, along, spacing), evenly_spaced(model, model_along, spacing)
        masses = spread_masses(model, model_along, num_masses)
        cost = transport_cost(spread_masses(path, along, num_masses), masses)
        scores[i, 0], scores[i, 1] = along[-1], model_along[-1]
        scores[i, 2] = nearest_distances(model[-1:], points)[0]
        scores[i, 3] = likeness(points, reference, radius)
        scores[i, 4] = length_weighted_coverage(points, along[-1], reference, model_along[-1], radius)
        scores[i, 5], scores[i, 6] = cost, transport_score(path[0], masses, cost, still)
        scores[i, 7] = count_entries(points, discs[first_disc[i] : first_disc[i + 1]])
