"""Layers in flight on a CPU, where they are compiled code of our own: what torch makes, and the same in any batch."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest
import torch

from pvn.learning.agent import load_agent
from pvn.model import cpu_layers
from pvn.model.layers import (
    Doubling,
    RectifiedConvolution,
    RectifiedTransposed,
    in_device_layout,
    ready_to_fly,
)
from pvn.model.lingunet import LingUNet
from pvn.model.resnet import Block, ResNet, normalised

COMPILED = ("convolve_maps", "double_maps", "pass_block", "convolve_pictures")


def calls_of(monkeypatch):
    """The names of our compiled functions, as they are called from now on."""
    calls = []

    def spied(name, function):
        return lambda *arguments: calls.append(name) or function(*arguments)

    for name in COMPILED:
        monkeypatch.setattr(cpu_layers, name, spied(name, getattr(cpu_layers, name)))
    return calls


def some_maps(num_channels, height, width):
    return torch.randn((3, num_channels, height, width), generator=torch.Generator().manual_seed(0)) * 3 + 20


def with_biases(layer):
    """The layer with biases that are not zero, which would hide that they are left out."""
    for parameter in layer.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    return layer


def check_flown(layer, value, monkeypatch):
    """Compare a layer in flight with torch's in 64 bits; the compiled functions that were called for a batch."""
    exact = copy.deepcopy(layer).double()(value.double())
    size = float(exact.detach().abs().max())
    with torch.no_grad(), monkeypatch.context() as context:
        value = in_device_layout(value)
        calls = calls_of(context)
        flown = ready_to_fly(layer)(value)
        called = tuple(calls)
        alone = torch.cat([layer(in_device_layout(one[None])) for one in value])
    assert flown.shape == exact.shape and (flown - exact).abs().max() < 1e-5 * size
    assert flown.is_contiguous(memory_format=torch.channels_last), "its channels are last again"
    if called:
        assert torch.equal(flown, alone)
    return called


# Maps that are whole tiles and whole strips of results, neither of them, and only just enough for one strip.
@pytest.mark.parametrize(("height", "width"), [(16, 32), (9, 35), (7, 22), (5, 16)])
@pytest.mark.parametrize("stride", [None, 1, 2])
@pytest.mark.parametrize("num_channels", [32, 48])
def test_a_block_in_flight_is_torchs(num_channels, stride, height, width, monkeypatch):
    torch.manual_seed(0)
    block = with_biases(Block(stride, num_channels))
    assert check_flown(block, some_maps(num_channels, height, width), monkeypatch) == ("pass_block",)


# Channels that are whole vectors and such that are not.
@pytest.mark.parametrize(("num_in", "num_out"), [(32, 32), (35, 48), (72, 128), (3, 16)])
@pytest.mark.parametrize("kind", [RectifiedConvolution, RectifiedTransposed])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (9, 14)])
def test_a_rectified_convolution_in_flight_is_torchs(kind, num_in, num_out, height, width, monkeypatch):
    torch.manual_seed(0)
    layer = with_biases(kind(num_in, num_out))
    assert check_flown(layer, some_maps(num_in, height, width), monkeypatch) == ("convolve_maps",)


@pytest.mark.parametrize("num_out", [2, 3, 8])
@pytest.mark.parametrize("size", [8, 13])
def test_a_doubling_in_flight_is_torchs(num_out, size, monkeypatch):
    torch.manual_seed(0)
    layer = with_biases(Doubling(20, num_out))
    assert check_flown(layer, some_maps(20, size, size), monkeypatch) == ("double_maps",)


@pytest.mark.parametrize(
    ("layer", "size"),
    [
        (Block(2, 5), 16),  # channels that fill no vector, as GSMN's
        (Block(None, 32), 4),  # one tile
        (RectifiedTransposed(32, 48), 2),
        (RectifiedConvolution(32, 35), 16),
        (Doubling(32, 2), 3),
    ],
    ids=str,
)
def test_what_fills_no_vectors_is_left_to_torch(layer, size, monkeypatch):
    num_in = next(layer.parameters()).shape[0 if isinstance(layer, Doubling | RectifiedTransposed) else 1]
    assert check_flown(layer, some_maps(num_in, size, size), monkeypatch) == ()


def test_maps_of_any_size_fly_through_a_layer_one_after_the_other(monkeypatch):
    torch.manual_seed(0)
    layer = with_biases(RectifiedConvolution(32, 32))
    called = [check_flown(layer, some_maps(32, size, size), monkeypatch) for size in (16, 2, 24, 16)]
    assert called == [("convolve_maps",), (), ("convolve_maps",), ("convolve_maps",)]


def test_maps_with_other_channels_than_the_layers_are_refused():
    with torch.no_grad(), pytest.raises(RuntimeError, match="channels"):
        RectifiedConvolution(32, 32)(in_device_layout(torch.randn(1, 16, 16, 16)))


@pytest.mark.parametrize("is_quick", [False, True])
@pytest.mark.parametrize(("height", "width"), [(72, 128), (33, 17)])
def test_a_picture_in_flight_is_torchs(is_quick, height, width, monkeypatch):
    """Also one that does not lie in memory row by row."""
    torch.manual_seed(0)
    network = with_biases(ResNet(is_quick))
    image = torch.randint(0, 256, (4, height, width, 3), dtype=torch.uint8)
    image[1], image[2] = 77, 3
    image[2, 5, 5, 1] = 4
    turned = image.transpose(1, 2).contiguous().transpose(1, 2)
    exact = copy.deepcopy(network.first).double()(normalised(image).double())
    with torch.no_grad():
        calls = calls_of(monkeypatch)
        found = [network.halves[0]._begun(each) for each in (image, turned)]
    assert calls == ["convolve_pictures"] * 2 and torch.equal(*found)
    assert (found[0] - exact).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize(("height", "width"), [(72, 128), (108, 192), (33, 17)])
def test_pictures_of_one_colour_have_features(height, width):
    """Their deviation is exactly 0: rounding could make it the root of less than that."""
    network, colour = ResNet(is_quick=True), torch.arange(0, 256, 5, dtype=torch.uint8)
    image = colour[:, None, None, None].repeat(1, height, width, 3)
    with torch.no_grad():
        features = network.halves[0]._begun(image)
    assert torch.equal(features, network.first.bias.view(-1, 1, 1).expand_as(features))


def test_pictures_of_other_types_are_left_to_torch(monkeypatch):
    network, image = ResNet(), torch.randint(0, 256, (1, 72, 128, 3), dtype=torch.uint8)
    with torch.no_grad():
        flown, calls = network(image), calls_of(monkeypatch)
        other = network(image.float())
    assert "convolve_pictures" not in calls and torch.allclose(flown, other, atol=1e-3)


def test_the_size_that_torch_is_asked_for_is_the_size():
    with torch.no_grad():
        value = in_device_layout(some_maps(32, 16, 16))
        assert Doubling(32, 2)(value, [31, 31]).shape[2:] == (31, 31)


def test_both_large_networks_fly_by_compiled_code(monkeypatch):
    """With the paper's pictures and maps; of LingUNet, what is not made from very small maps."""
    calls = calls_of(monkeypatch)
    with torch.no_grad():
        ResNet()(torch.zeros((1, 72, 128, 3), dtype=torch.uint8))
        assert calls == ["convolve_pictures", *["pass_block"] * 6]
        calls.clear()
        LingUNet(35, 30)(torch.zeros((1, 35, 64, 64)), torch.zeros((1, 30)))
    assert calls.count("double_maps") == 1 and calls.count("convolve_maps") >= 3


def test_an_agent_that_is_loaded_in_inference_mode_flies_by_compiled_code(monkeypatch):
    calls = calls_of(monkeypatch)
    with torch.inference_mode():
        load_agent("pvn").visitation.resnet(torch.zeros((1, 72, 128, 3), dtype=torch.uint8))
    assert calls.count("pass_block") == 6


def test_weights_that_were_made_in_inference_mode_are_left_to_torch(monkeypatch):
    """Of them, torch does not count changes."""
    calls, value = calls_of(monkeypatch), in_device_layout(some_maps(32, 16, 16).detach())
    with torch.inference_mode():
        assert RectifiedConvolution(32, 32)(in_device_layout(value)).shape == value.shape
    assert not calls


def test_filters_that_were_made_before_give_the_same_scores():
    torch.manual_seed(0)
    network, value, embedding = LingUNet(35, 30), some_maps(35, 64, 64), torch.randn(3, 30)
    with torch.no_grad():
        scores = network(value, embedding)
        assert torch.equal(network(value, 0 * embedding, network.filters(embedding)), scores)
        assert not torch.equal(network(value, embedding, network.filters(embedding.flip(0))), scores)


def change_in_place(layer):
    layer.weight.mul_(2)


def load_others(layer):
    layer.load_state_dict({name: 2 * value for name, value in layer.state_dict().items()})


def replace_data(layer):
    layer.weight.data = 2 * layer.weight.data


def go_and_return(layer):
    layer.double().float()
    change_in_place(layer)


def step_with_fused_optimizer(layer):
    """Of which torch keeps no count."""
    with torch.enable_grad():
        (layer.weight * -layer.weight.detach()).sum().backward()
    torch.optim.SGD([layer.weight], lr=1.0, fused=True).step()
    ready_to_fly(layer)


@pytest.mark.parametrize(
    "change", [change_in_place, load_others, replace_data, go_and_return, step_with_fused_optimizer]
)
def test_weights_that_have_changed_are_flown_by(change):
    torch.manual_seed(0)
    layer, value = ready_to_fly(RectifiedConvolution(32, 32)), in_device_layout(some_maps(32, 16, 16))
    torch.nn.init.zeros_(layer.bias)
    with torch.no_grad():
        value = in_device_layout(value)
        before = layer(value)
        change(layer)
        assert (layer(value) - 2 * before).abs().max() < 1e-4 * before.abs().max()


def test_a_copy_of_a_layer_that_has_flown_has_weights_of_its_own():
    layer, value = RectifiedConvolution(32, 32), some_maps(32, 16, 16)
    with torch.no_grad():
        value = in_device_layout(value)
        before = layer(value)
        other = copy.deepcopy(layer)
        other.weight.zero_()
        other.bias.zero_()
        assert not other(value).any() and torch.equal(layer(value), before)


NARROW = """
import sys, pytest
from pvn.model import cpu_vectors

assert (cpu_vectors.STRIP, cpu_vectors.LANES) == (4, 16)
sys.exit(pytest.main(["-p", "no:xdist", "-v", *sys.argv[1:]]))
"""


@pytest.mark.long
def test_layers_in_flight_are_torchs_on_processors_with_small_registers_too(tmp_path):
    """The tests above once more, in the machine code of such a processor, which all others of its family can run."""
    environment = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", NARROW, __file__, "-k", "in_flight_is_torchs"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "50 passed" in done.stdout


def test_several_threads_fly_as_one_does():
    block, num_threads, found = Block(2), torch.get_num_threads(), []
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            with torch.no_grad():
                found.append(block(in_device_layout(some_maps(32, 16, 16))))
    finally:
        torch.set_num_threads(num_threads)
    assert torch.equal(*found)
