"""The two large networks: the same results and gradients in a batch, on a GPU, and compiled, as alone on a CPU."""

from __future__ import annotations

import pytest
import torch

from pvn.model.lingunet import LingUNet
from pvn.model.resnet import ResNet, average_pool, in_device_layout, normalised

HAS_GPU = torch.cuda.is_available()


def results_and_gradients(network, inputs, device, *, is_compiled=False):
    """The network's results, and the gradients of its weights for random gradients of the results."""
    network = network.to(device)
    if device == "cuda":
        network.to(memory_format=torch.channels_last)
    if is_compiled:
        network.compile(dynamic=False)
    result = network(*(value.to(device) for value in inputs))
    direction = torch.randn(result.shape, generator=torch.Generator().manual_seed(1)).to(result)
    torch.autograd.backward(result, direction)
    return [result.detach().cpu(), *(parameter.grad.cpu() for parameter in network.parameters())]


def make(name):
    """A network with weights that are always the same, and inputs for it."""
    torch.manual_seed(0)
    if name == "lingunet":
        # In 64 bits: it is down to 2x2 cells, and one rectifier there that is rounded to the other side changes a lot.
        return LingUNet(35, 30).double(), (torch.randn(3, 35, 64, 64).double(), torch.randn(3, 30).double())
    network = ResNet(is_quick=name == "quick encoder")
    for parameter in network.parameters():
        if parameter.dim() == 1:  # biases begin at zero, which would hide a wrong gradient of the rectifiers
            torch.nn.init.normal_(parameter, std=0.1)
    return network, (torch.randint(0, 256, (3, 72, 128, 3), dtype=torch.uint8),)


@pytest.mark.long
@pytest.mark.parametrize("name", ["encoder", "quick encoder", "lingunet"])
@pytest.mark.parametrize(
    ("device", "is_compiled"),
    [
        ("cpu", False),
        pytest.param("cuda", False, marks=pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA GPU")),
        pytest.param("cuda", True, marks=pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA GPU")),
    ],
)
def test_results_and_gradients_are_those_of_a_single_picture_on_a_cpu(name, device, is_compiled):
    network, inputs = make(name)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # factors of ten bits, otherwise
        found = results_and_gradients(network, inputs, device, is_compiled=is_compiled)
    network, inputs = make(name)
    expected = torch.cat([network(*(value[None, number] for value in inputs)) for number in range(3)])
    direction = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(expected)
    torch.autograd.backward(expected, direction)
    tolerance = 1e-3
    if expected.dtype == torch.float64:
        tolerance = 1e-5 if is_compiled else 1e-9  # compiled code has constants of 32 bits
    expected = expected.detach()
    assert torch.allclose(found[0], expected, atol=tolerance * float(expected.abs().max()))
    for one, other in zip(found[1:], [parameter.grad for parameter in network.parameters()], strict=True):
        assert (one - other).norm() < tolerance * other.norm()


@pytest.mark.parametrize("size", [(72, 128), (300, 300)])
def test_pictures_have_mean_0_and_deviation_1_unless_they_have_one_colour(size):
    image = torch.randint(0, 256, (2, *size, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    value = normalised(image).double().flatten(1)
    assert value.mean(1).abs().max() < 1e-6 and (value.std(1, correction=0) - 1).abs().max() < 1e-6
    assert not normalised(torch.full_like(image, 77)).any()


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA GPU"))]
)
@pytest.mark.parametrize(
    ("stride", "num_windows"),
    [
        (1, [[4, 6, 6, 4], [6, 9, 9, 6], [6, 9, 9, 6], [4, 6, 6, 4]]),
        (2, [[1, 2, 1, 1], [2, 4, 2, 2], [1, 2, 1, 1], [1, 2, 1, 1]]),
    ],
)
def test_a_pooled_value_counts_a_ninth_in_every_window_that_has_it(device, stride, num_windows):
    value = in_device_layout(torch.arange(32.0, device=device).view(1, 2, 4, 4)).requires_grad_()
    pooled = average_pool(value, stride)
    assert pooled[0, 0, 0, 0].item() == pytest.approx((0 + 1 + 4 + 5) / 9)
    pooled.sum().backward()
    for channel in value.grad.cpu()[0]:
        assert torch.allclose(channel, torch.tensor(num_windows) / 9)
