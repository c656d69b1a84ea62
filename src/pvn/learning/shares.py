"""Shares of a training corpus: what each of several processes knows of the flights of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from pvn.corpus.mirroring import MIRRORED_ENVIRONMENT
from pvn.corpus.segments import Segment
from pvn.corpus.shares import CorpusShare
from pvn.learning import parallel
from pvn.learning.demonstrations import Demonstrations


def order_of(read: Sequence[Segment], share: CorpusShare) -> Tensor:
    """Numbers (M,), rising, of what this process reads among what all processes read, in the order of a single one.

    read: the `training_segments` of the share: each segment once, then mirror images, then what is repeated.
    """
    own = zip(share.corpus["train"], share.places["train"].tolist(), strict=True)
    place_of = {(segment.environment, segment.place): place for segment, place in own}
    times, numbers = Counter[tuple[int, int]](), []
    for segment in read:
        key = segment.environment, segment.place
        is_twin = key not in place_of
        place = place_of[key[0] - MIRRORED_ENVIRONMENT, key[1]] if is_twin else place_of[key]
        numbers.append((2 * times[key] + is_twin) * share.num_segments["train"] + place)
        times[key] += 1
    if numbers != sorted(set(numbers)):
        raise ValueError(
            f"environment: got numbers that are those of others' mirror images, to which {MIRRORED_ENVIRONMENT:,} is "
            f"added; expected numbers below {MIRRORED_ENVIRONMENT:,}, or one process, without torchrun"
        )
    return torch.tensor(numbers)


def with_others(own: Demonstrations, order: Tensor) -> Demonstrations:
    """This process's demonstrations among those of all processes, of which it learns how they were flown.

    order (M,) int64, on the host, rising: numbers by which the flights of all processes are sorted.
    """
    flown = (order, own.first_frame.diff(), own.is_planned, own.pose_world.cpu(), own.action.cpu(), own.origin.cpu())
    orders, lengths, *tables = (torch.cat(values) for values in zip(*parallel.gathered(flown), strict=True))
    first = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    flights = orders.argsort()
    moved = torch.cat([torch.zeros(1, dtype=torch.int64), lengths[flights].cumsum(0)])
    # From frames in the order of processes to frames in the order of flights.
    frames = (first[flights] - moved[:-1]).repeat_interleave(lengths[flights]) + torch.arange(len(tables[0]))
    is_planned, pose, action, origin = tables
    return replace(
        own,
        pose_world=pose[frames].to(own.device),
        action=action[frames].to(own.device),
        is_planned=is_planned[frames],
        first_frame=moved,
        origin=origin[flights].to(own.device),
        is_own=torch.isin(orders[flights], order),
    )
