"""Networks in flight on a CPU, where they are compiled code of our own: what torch makes, and the same in any batch."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import pytest
import torch

from pvn.learning.agent import load_agent
from pvn.model import cpu_networks
from pvn.model.layers import in_device_layout, ready_to_fly
from pvn.model.lingunet import LingUNet
from pvn.model.resnet import ResNet, normalised

COMPILED = ("pass_resnet", "pass_lingunet")
EMBEDDING = 30


def calls_of(monkeypatch):
    """The names of our compiled functions, as they are called from now on."""
    calls = []

    def spied(name, function):
        return lambda *arguments: calls.append(name) or function(*arguments)

    for name in COMPILED:
        monkeypatch.setattr(cpu_networks, name, spied(name, getattr(cpu_networks, name)))
    return calls


def seeded():
    return torch.Generator().manual_seed(0)


def with_biases(network):
    """The network with biases that are not zero, which would hide that they are left out."""
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    return network


def some_pictures(height, width):
    """One of many colours, one of few, and one that is turned in memory."""
    images = torch.randint(0, 256, (3, height, width, 3), dtype=torch.uint8, generator=seeded())
    images[1] = images[1] // 64 * 64
    return images


def some_maps(num_channels, height, width):
    maps = torch.randn((3, num_channels, height, width), generator=seeded()) * 3 + 20
    return in_device_layout(maps.requires_grad_()).detach()


def some_embeddings():
    return torch.randn((3, EMBEDDING), generator=seeded())


def exact_features(network, images):
    """In 64 bits, by torch."""
    network = copy.deepcopy(network).double()
    value = network.first(normalised(images).double())
    for block in network.blocks:
        value = block(value)
    return torch.nn.functional.instance_norm(value)


def check_flown(flown, exact, alone, most, usual):
    """Compare a network in flight with torch in 64 bits, and a batch with one after the other."""
    off = (flown - exact).abs() / exact.abs().max()
    assert flown.shape == exact.shape and off.max() < most and off.mean() < usual
    assert flown.is_contiguous(memory_format=torch.channels_last), "its channels are last again"
    assert torch.equal(flown, torch.cat(alone))


# Maps that are whole tiles and whole strips of results, and such that are neither.
@pytest.mark.parametrize(("height", "width"), [(72, 128), (64, 64), (33, 130), (35, 61)])
@pytest.mark.parametrize("is_quick", [False, True])
def test_the_image_encoder_in_flight_is_torchs(is_quick, height, width, monkeypatch):
    network, images = with_biases(ResNet(is_quick)), some_pictures(height, width)
    exact = exact_features(network, images).detach()
    with torch.no_grad():
        calls = calls_of(monkeypatch)
        flown, alone = network(images), [network(image[None]) for image in images]
        turned = network(images.transpose(1, 2).contiguous().transpose(1, 2))
    assert calls == ["pass_resnet"] * 5
    check_flown(flown, exact, alone, most=2e-5, usual=1e-6)
    assert torch.equal(flown, turned), "also pictures that do not lie in memory row by row"


# Channels that are whole vectors and such that are not; with maps of 32 cells, the smallest have a single one.
@pytest.mark.parametrize("size", [32, 64, 96])
@pytest.mark.parametrize(("num_in", "num_out"), [(35, 2), (48, 3), (76, 4), (3, 5)])
def test_lingunet_in_flight_is_torchs(num_in, num_out, size, monkeypatch):
    network = with_biases(LingUNet(num_in, EMBEDDING, num_out))
    value, embedding = some_maps(num_in, size, size), some_embeddings()
    exact = copy.deepcopy(network).double()(value.double(), embedding.double()).detach()
    with torch.no_grad():
        calls = calls_of(monkeypatch)
        flown, filters = network(value, embedding), network.filters(embedding)
        alone = [network(one[None], None, its[None]) for one, its in zip(value, filters, strict=True)]
    assert calls == ["pass_lingunet"] * 4
    # A norm over four cells that are nearly equal makes much of rounding; torch's own are as far off.
    check_flown(flown, exact, alone, most=2e-4, usual=5e-6)


@pytest.mark.parametrize("images", [some_pictures(16, 16), some_pictures(72, 128).float()], ids=["small", "float"])
def test_other_pictures_are_left_to_torch(images, monkeypatch):
    """Very small ones fill no vectors."""
    network = with_biases(ResNet())
    exact = exact_features(network, images)
    with torch.no_grad():
        calls = calls_of(monkeypatch)
        assert (network(images) - exact).abs().max() < 1e-4 * exact.abs().max()
    assert not calls


def test_maps_that_are_not_square_are_left_to_torch(monkeypatch):
    with torch.no_grad():
        calls = calls_of(monkeypatch)
        assert LingUNet(35, EMBEDDING)(some_maps(35, 32, 64), some_embeddings()).shape == (3, 2, 32, 64)
    assert not calls


@pytest.mark.parametrize(
    ("network", "arguments"),
    [
        (ResNet(), [torch.zeros((1, 72, 128, 4), dtype=torch.uint8)]),
        (LingUNet(35, EMBEDDING), [some_maps(36, 64, 64), some_embeddings()]),
    ],
    ids=["pictures", "maps"],
)
def test_other_channels_than_the_networks_are_refused(network, arguments):
    with torch.no_grad(), pytest.raises(RuntimeError, match="channels"):
        network(*arguments)


def test_a_network_flies_by_pictures_of_any_size_one_after_the_other():
    network, sizes = with_biases(ResNet()), [(72, 128), (16, 16), (36, 64), (72, 128)]
    with torch.no_grad():
        for images in (some_pictures(*size) for size in sizes):
            exact = exact_features(network, images)
            assert (network(images) - exact).abs().max() < 1e-4 * exact.abs().max()


@pytest.mark.parametrize(("height", "width"), [(72, 128), (108, 192), (33, 130)])
def test_pictures_of_one_colour_have_features(height, width):
    """Their deviation is exactly 0: rounding could make it the root of less than that."""
    network, colour = with_biases(ResNet(is_quick=True)), torch.arange(0, 256, 15, dtype=torch.uint8)
    images = colour[:, None, None, None].repeat(1, height, width, 3)
    exact = exact_features(network, images[:1])
    with torch.no_grad():
        features = network(images)
    assert torch.equal(features, features[:1].expand_as(features)), "the same, whatever the colour"
    assert (features[:1] - exact).abs().max() < 1e-3 * exact.abs().max()


def test_an_agent_that_is_loaded_in_inference_mode_flies_by_compiled_code(monkeypatch):
    calls = calls_of(monkeypatch)
    with torch.inference_mode():
        model = load_agent("pvn").visitation
        model.resnet(torch.zeros((1, 72, 128, 3), dtype=torch.uint8))
        model.lingunet(some_maps(model.lingunet.num_in, 64, 64), torch.randn((3, model.config.embedding_size)))
    assert calls == ["pass_resnet", "pass_lingunet"]


def test_weights_that_were_made_in_inference_mode_are_left_to_torch(monkeypatch):
    """Of them, torch does not count changes."""
    calls = calls_of(monkeypatch)
    with torch.inference_mode():
        ResNet()(some_pictures(72, 128))
    assert not calls


def test_filters_that_were_made_before_give_the_same_scores():
    torch.manual_seed(0)
    network, value, embedding = LingUNet(35, EMBEDDING), some_maps(35, 64, 64), some_embeddings()
    with torch.no_grad():
        scores = network(value, embedding)
        assert torch.equal(network(value, 0 * embedding, network.filters(embedding)), scores)
        assert not torch.equal(network(value, embedding, network.filters(embedding.flip(0))), scores)


def test_maps_that_share_an_instruction_are_left_to_torch(monkeypatch):
    network, value, embedding = LingUNet(35, EMBEDDING), some_maps(35, 32, 32), some_embeddings()[:1]
    with torch.no_grad():
        each = network(value, embedding.expand(3, -1))
        calls = calls_of(monkeypatch)
        assert (network(value, embedding) - each).abs().max() < 1e-4 * each.abs().max()
    assert not calls


def change_in_place(network, layer):
    layer.weight.mul_(2)


def change_a_bias(network, layer):
    layer.bias.add_(1)


def load_others(network, layer):
    network.load_state_dict({name: 2 * value for name, value in network.state_dict().items()})


def replace_data(network, layer):
    layer.weight.data = 2 * layer.weight.data


def replace_weights(network, layer):
    layer.weight = torch.nn.Parameter(2 * layer.weight)


def go_and_return(network, layer):
    network.double().float()
    change_in_place(network, layer)


def step_with_fused_optimizer(network, layer):
    """Of which torch keeps no count."""
    with torch.enable_grad():
        (layer.weight * -layer.weight.detach()).sum().backward()
    torch.optim.SGD([layer.weight], lr=1.0, fused=True).step()
    ready_to_fly(network)


@pytest.mark.parametrize("number", [0, 3, -1])
@pytest.mark.parametrize(
    "change",
    [
        change_in_place, change_a_bias, load_others, replace_data, replace_weights, go_and_return,
        step_with_fused_optimizer,
    ],
)  # fmt: skip
def test_weights_that_have_changed_are_flown_by(change, number):
    network, images = ready_to_fly(with_biases(ResNet(is_quick=True))), some_pictures(72, 128)
    with torch.no_grad():
        before = network(images)
        change(network, network.convolutions[number])
        after = network(images)
        # A copy has not flown, and makes filters of its own.
        assert torch.equal(after, copy.deepcopy(network)(images)) and not torch.equal(after, before)


def test_lingunets_last_weights_too_are_flown_by_when_they_have_changed():
    network = with_biases(LingUNet(35, EMBEDDING))
    value, embedding = some_maps(35, 64, 64), some_embeddings()
    with torch.no_grad():
        before = network(value, embedding)
        network.last.weight.mul_(2)
        network.last.bias.mul_(2)
        assert torch.allclose(network(value, embedding), 2 * before, rtol=1e-4, atol=1e-4)


def test_a_copy_of_a_network_that_has_flown_has_weights_of_its_own():
    network, images = with_biases(ResNet()), some_pictures(72, 128)
    with torch.no_grad():
        before = network(images)
        other = copy.deepcopy(network)
        for parameter in other.parameters():
            parameter.zero_()
        assert not other(images).any() and torch.equal(network(images), before)


NARROW = """
import sys, pytest
from pvn.model import cpu_vectors

assert (cpu_vectors.STRIP, cpu_vectors.LANES) == (4, 16)
sys.exit(pytest.main(["-p", "no:xdist", "-v", *sys.argv[1:]]))
"""


@pytest.mark.long
def test_networks_in_flight_are_torchs_on_processors_with_small_registers_too(tmp_path):
    """The tests above once more, in the machine code of such a processor, which all others of its family can run."""
    environment = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", NARROW, __file__, "-k", "in_flight_is_torchs"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 passed" in done.stdout


def test_several_threads_fly_as_one_does():
    network, images, found = ResNet(), some_pictures(72, 128), []
    num_threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            with torch.no_grad():
                found.append(network(images))
    finally:
        torch.set_num_threads(num_threads)
    assert torch.equal(*found)
