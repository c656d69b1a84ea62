"""What tests of corpora share."""

import numpy as np
import pytest


def _is_same_segment(one, other):
    return (
        one.id == other.id
        and one.annotation == other.annotation
        and (one.source, one.author) == (other.source, other.author)
        and one.task.layout == other.task.layout
        and one.task.start == other.task.start
        and one.task.instruction == other.task.instruction
        and np.array_equal(one.demonstration.path, other.demonstration.path)
        and one.demonstration.turned_to == other.demonstration.turned_to
    )


@pytest.fixture(scope="session")
def are_same():
    """Whether two sequences of segments, or two corpora, are the same to the bit."""

    def compare(one, other):
        is_split_alike = list(getattr(one, "splits", ())) == list(getattr(other, "splits", ()))
        return is_split_alike and len(one) == len(other) and all(map(_is_same_segment, one, other))

    return compare
