"""CPU inference by ONNX Runtime: what torch computes, from the weights as they are now."""

from __future__ import annotations

import copy
import sys
from contextlib import contextmanager

import pytest
import torch

from pvn.model import cpu_inference
from pvn.model.cpu_inference import encode_on_cpu, forget_sessions, score_on_cpu
from pvn.model.lingunet import LingUNet
from pvn.model.resnet import ResNet
from pvn.simulator.interface import SimulatorConfig
from pvn.simulator.simulator import simulator_for
from pvn.systems import load_agent

EMBEDDING = 30


def seeded():
    return torch.Generator().manual_seed(0)


def with_biases(network):
    """The network with biases that are not zero, which would hide that they are left out."""
    torch.manual_seed(0)
    for parameter in network.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter)
    return network


def some_pictures(height=72, width=128):
    """Two of many colours and one of few."""
    images = torch.randint(0, 256, (3, height, width, 3), dtype=torch.uint8, generator=seeded())
    images[1] = images[1] // 64 * 64
    return images


def some_maps(num_in=35, height=64, width=64):
    maps = torch.randn((3, num_in, height, width), generator=seeded()) * 3 + 20
    return maps, torch.randn((3, EMBEDDING), generator=seeded())


def in_batches_and_alone(compute, *values):
    """The result for a batch, the same as for one after the other."""
    with torch.no_grad():
        together = compute(*values)
        alone = [compute(*(value[number : number + 1] for value in values)) for number in range(len(values[0]))]
    assert torch.equal(together, torch.cat(alone))
    return together


@pytest.mark.parametrize(("height", "width"), [(72, 128), (33, 130), (16, 16)])
@pytest.mark.parametrize("is_quick", [False, True])
def test_the_image_encoder_computes_what_torch_does(is_quick, height, width):
    network, images = with_biases(ResNet(is_quick)), some_pictures(height, width)
    expected = network(images).detach()
    found = in_batches_and_alone(lambda image: encode_on_cpu(network, image), images)
    assert (found - expected).abs().max() < 1e-4 * expected.abs().max()


# With maps of 32 cells, the smallest ones have a single cell.
@pytest.mark.parametrize(("height", "width"), [(64, 64), (32, 32), (64, 96)])
@pytest.mark.parametrize(("num_in", "num_out"), [(35, 2), (76, 8)])
def test_lingunet_computes_what_torch_does(num_in, num_out, height, width):
    network, values = with_biases(LingUNet(num_in, EMBEDDING, num_out)), some_maps(num_in, height, width)
    exact = copy.deepcopy(network).double()(*(value.double() for value in values)).detach()
    found = in_batches_and_alone(lambda *both: score_on_cpu(network, *both), *values)
    # A norm over four cells that are nearly equal makes much of rounding; torch is as far off.
    assert (found - exact).abs().max() < 2e-4 * exact.abs().max()


@pytest.fixture
def without_onnx_runtime(monkeypatch):
    """`with without_onnx_runtime():` it is not installed, as on a machine for training."""

    @contextmanager
    def missing():
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "onnxruntime", None)
            cpu_inference._runtime.cache_clear()
            yield
        cpu_inference._runtime.cache_clear()

    return missing


@pytest.mark.long
@pytest.mark.parametrize("name", ["pvn", "pvn-plus", "gsmn"])
def test_a_shipped_agent_flies_the_same_by_torch_within_a_thousandth_of_a_score(name, paragraph, without_onnx_runtime):
    agent, tasks = load_agent(name), [segment.task for segment in paragraph[:3]]
    by_torch, cpu = copy.deepcopy(agent), torch.device("cpu")
    simulator = simulator_for(tasks, config=SimulatorConfig(camera=agent.camera))
    observation = simulator.reset(torch.tensor([task.start for task in tasks], dtype=torch.float64))
    memory, other = agent.begin(tasks, cpu), by_torch.begin(tasks, cpu)
    for _ in range(4):
        action, memory = agent.act(observation, memory)
        with without_onnx_runtime():
            _, other = by_torch.act(observation, other)
        assert 0 < (memory.semantic.value - other.semantic.value).abs().max() < 1e-4
        if name == "gsmn":
            found, expected = memory.decision.output, other.decision.output
        else:
            found, expected = memory.visitation.log_parts, other.visitation.log_parts
        assert (found - expected).abs().max() < 1e-3
        observation = simulator.step(action)


def test_a_picture_of_one_colour_has_features():
    """Its deviation is exactly 0. Later norms make much of rounding, so torch's features may differ."""
    black = torch.zeros((1, 72, 128, 3), dtype=torch.uint8)
    with torch.no_grad():
        assert encode_on_cpu(with_biases(ResNet()), black).isfinite().all()


@pytest.mark.parametrize("images", [some_pictures().float(), some_pictures()[:0]], ids=["float", "none"])
def test_other_pictures_are_left_to_torch(images):
    with torch.no_grad():
        assert encode_on_cpu(ResNet(), images) is None


def test_where_gradients_are_needed_torch_computes_them():
    assert encode_on_cpu(ResNet(), some_pictures()) is None
    assert score_on_cpu(LingUNet(35, EMBEDDING), *some_maps()) is None


def test_an_agent_that_was_loaded_in_inference_mode_still_flies_by_onnx_runtime():
    with torch.inference_mode():
        assert encode_on_cpu(load_agent("pvn").visitation.resnet, some_pictures()) is not None
        # Of weights made here, torch does not count changes.
        assert encode_on_cpu(ResNet(), some_pictures()) is None


def change_in_place(network, layer):
    layer.weight.mul_(2)


def change_a_bias(network, layer):
    layer.bias.add_(1)


def load_others(network, layer):
    network.load_state_dict({name: value.flip(0) for name, value in network.state_dict().items()})


def replace_data(network, layer):
    layer.weight.data = 2 * layer.weight.data


def replace_the_weight(network, layer):
    layer.weight = torch.nn.Parameter(2 * layer.weight)


def go_and_return(network, layer):
    network.double().float()
    change_in_place(network, layer)


def take_a_step_with_a_fused_optimizer(network, layer):
    """Of which torch keeps no count."""
    with torch.enable_grad():
        (layer.weight * -layer.weight.detach()).sum().backward()
    torch.optim.SGD([layer.weight], lr=1.0, fused=True).step()
    forget_sessions(network)


@pytest.mark.parametrize("number", [0, -1])
@pytest.mark.parametrize(
    "change",
    [
        change_in_place, change_a_bias, load_others, replace_data, replace_the_weight, go_and_return,
        take_a_step_with_a_fused_optimizer,
    ],
)  # fmt: skip
def test_a_network_whose_weights_have_changed_computes_by_the_new_ones(change, number):
    network, images = with_biases(ResNet(is_quick=True)), some_pictures()
    layers = [module for module in network.modules() if isinstance(module, torch.nn.Conv2d)]
    with torch.no_grad():
        before, copied = encode_on_cpu(network, images), copy.deepcopy(network)
        change(network, layers[number])
        after = encode_on_cpu(network, images)
        assert torch.allclose(after, network(images), atol=1e-3) and not torch.allclose(after, before, atol=1e-2)
        assert torch.equal(encode_on_cpu(copied, images), before), "a copy has weights and a session of its own"


def test_several_threads_compute_what_one_does():
    network, images, found = ResNet(), some_pictures(), []
    num_threads = torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            with torch.no_grad():
                found.append(encode_on_cpu(network, images))
    finally:
        torch.set_num_threads(num_threads)
    assert torch.equal(*found)
