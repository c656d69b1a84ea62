"""Gradients of several processes are summed while the backward pass goes on."""

import pytest
import torch
from torch import distributed, nn

from pvn.learning import parallel
from pvn.learning.optimisation import own_stream, record


@pytest.fixture
def alone():
    """A group of one process, to see what it sends."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2))


def test_messages_hold_all_parameters_once_the_last_first():
    parameters = list(network().parameters())
    messages = parallel.in_messages(parameters, message_bytes=100)
    assert [one for message in messages for one in message] == parameters[::-1]
    assert [sum(4 * one.numel() for one in message) for message in messages] == [8 + 64 + 32, 256, 32 + 128]
    assert len(parallel.in_messages(parameters, message_bytes=2**30)) == 1


def test_gradients_travel_before_those_of_the_first_layer_are_there(alone, monkeypatch):
    model, sent = network(), []
    all_reduce = distributed.all_reduce

    def note(values, **options):
        sent.append((len(values), [one.grad is not None for one in model.parameters()]))
        return all_reduce(values, **options)

    monkeypatch.setattr(distributed, "all_reduce", note)
    with parallel.summed_gradients(model.parameters(), message_bytes=1):
        model(torch.ones(3, 4)).sum().backward()
    assert [count for count, _ in sent] == [2, 16, 8, 64, 8, 32]
    assert not any(sent[1][1][:4]) and not any(sent[3][1][:2]) and all(sent[-1][1])


def test_messages_are_sent_in_one_order_whichever_is_complete_first(alone, monkeypatch):
    late, early, sent = nn.Linear(4, 1), nn.Linear(1, 3), []
    all_reduce = distributed.all_reduce
    monkeypatch.setattr(
        distributed, "all_reduce", lambda values, **o: sent.append(len(values)) or all_reduce(values, **o)
    )
    # Registered first, but used last, so that its gradients are there first.
    with parallel.summed_gradients([*early.parameters(), *late.parameters()], message_bytes=1):
        early(late(torch.ones(2, 4))).sum().backward()
    assert sent == [1, 4, 3, 3]


def test_sums_are_the_gradients_of_a_single_process(alone):
    model, other = network(), network()
    with parallel.summed_gradients(model.parameters(), message_bytes=40):
        model(torch.ones(3, 4)).sum().backward()
    other(torch.ones(3, 4)).sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("message_bytes", [1, 100, 2**30])
def test_what_has_no_gradient_still_has_none(alone, message_bytes):
    model, unused = network(), nn.Parameter(torch.ones(3))
    with parallel.summed_gradients([unused, *model.parameters(), nn.Parameter(torch.ones(3))], message_bytes):
        model(torch.ones(3, 4)).sum().backward()
    assert unused.grad is None and all(one.grad is not None for one in model.parameters())


def test_a_pass_that_fails_leaves_nothing_behind(alone):
    model = network()
    with pytest.raises(ZeroDivisionError), parallel.summed_gradients(model.parameters()):
        raise ZeroDivisionError
    model(torch.ones(3, 4)).sum().backward()
    assert not any(one._post_accumulate_grad_hooks for one in model.parameters())


SUM = """
import torch
from torch import nn
from pvn.learning import parallel
parallel.join_others("cpu")
model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
for one in model.parameters():
    nn.init.constant_(one, 0.5)
for message_bytes in (1, 20, 2**20):
    model.zero_grad()
    with parallel.summed_gradients(model.parameters(), message_bytes):
        (model(torch.ones(1, 2)) * (1 + 9 * parallel.rank())).sum().backward()
    gradients = [one.grad.flatten().tolist() for one in model.parameters()]
    # One process has once, the other ten times the gradient: 0.5 through the second layer, 1.5 into it.
    assert gradients == [[5.5] * 6, [5.5] * 3, [16.5] * 3, [11.0]], gradients
"""


@pytest.mark.long
def test_two_processes_have_the_sums_of_both(run_in_two_processes):
    run_in_two_processes(SUM)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_sums_that_stay_on_gpus_are_part_of_a_recorded_step():
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        assert parallel.can_be_recorded()
        model, values = network().cuda(), torch.ones(3, 4, device="cuda")

        def take_step():
            model.zero_grad(set_to_none=True)
            with parallel.summed_gradients(model.parameters(), message_bytes=100):
                model(values).square().sum().backward()
            return [one.grad for one in model.parameters()]

        with own_stream():
            for _ in range(3):
                take_step()
            replay = record(take_step, [values])
            others = torch.full((3, 4), 0.5)
            summed = [gradient.cpu() for gradient in replay([others])]
    finally:
        distributed.destroy_process_group()
    alone = network()
    alone(others).square().sum().backward()
    for gradient, one in zip(summed, alone.parameters(), strict=True):
        torch.testing.assert_close(gradient, one.grad, rtol=1e-2, atol=1e-3)


def test_what_goes_through_the_host_is_not_recorded(alone):
    assert not parallel.can_be_recorded()
