"""Processes that work beside this one."""

import functools
import operator
import os
import pickle

import pytest

from pvn.processes import Shared, process_pool


class Weighed:
    """Counts how often it is pickled."""

    times = 0

    def __getstate__(self):
        type(self).times += 1
        return {"name": "weighed"}


def identity_of(shared, _):
    return os.getpid(), id(shared.value)


def test_what_jobs_share_is_pickled_once_and_unpickled_once():
    shared = Shared(Weighed())
    first, second = (pickle.loads(pickle.dumps(functools.partial(operator.add, shared))) for _ in range(2))
    assert Weighed.times == 1
    assert first.args[0].value is second.args[0].value and vars(first.args[0].value) == {"name": "weighed"}
    other = pickle.loads(pickle.dumps(Shared({"name": "another"})))
    assert other.value == {"name": "another"}


@pytest.mark.long
def test_all_jobs_of_a_process_see_the_same_value():
    with process_pool(1) as pool:
        seen = set(pool.map(functools.partial(identity_of, Shared(list(range(1000)))), range(5)))
    assert len(seen) == 1 and os.getpid() not in {process for process, _ in seen}
