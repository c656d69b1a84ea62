"""CPU inference by ONNX Runtime for the two large networks, the image encoder and LingUNet.

For networks as small as ours it takes less than half of torch's time. A session is made from the weights in memory when
a network first runs without gradients. That takes 20 to 60 ms, and no second file can disagree with the weights.
torch.onnx.export would need the onnx package and more than a second; here the few operators are written directly.
Where ONNX Runtime is not installed, torch runs the networks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from pvn.compiling import run_in_parallel
from pvn.model.lingunet import CHANNELS, LingUNet
from pvn.model.resnet import CHANNELS as IMAGE_CHANNELS
from pvn.model.resnet import DEVIATION_EPSILON, ResNet

IR_VERSION, OPERATOR_SET = 8, 17
"""Versions of the ONNX format, from 2022, that every supported ONNX Runtime reads."""
FLOAT, UINT8, INT64, DOUBLE = 1, 2, 7, 11
"""ONNX's codes for types of values."""
TYPES = {torch.float32: FLOAT, torch.int64: INT64}
INT, INTS = 2, 7
"""ONNX's codes for types of attributes."""


def _message(*fields: tuple[int, int | str | bytes]) -> bytes:
    """A protobuf message with these fields, each a field number and a value; integers must not be negative."""

    def varint(number: int) -> bytes:
        return bytes([number & 127 | 128]) + varint(number >> 7) if number > 127 else bytes([number])

    message = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            message += varint(number << 3) + varint(value)
        else:
            content = value.encode() if isinstance(value, str) else value
            message += varint(number << 3 | 2) + varint(len(content)) + content
    return bytes(message)


class Graph:
    """An ONNX model under construction, in which values have names. Field numbers are from ONNX's onnx.proto."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.constants: list[bytes] = []

    def constant(self, values: Tensor) -> str:
        """Add a constant; returns its name."""
        name, values = f"constant_{len(self.constants)}", values.detach().contiguous()
        shape = [(1, size) for size in values.shape]
        self.constants.append(_message(*shape, (2, TYPES[values.dtype]), (8, name), (9, values.numpy().tobytes())))
        return name

    def node(self, operator: str, *inputs: str, **attributes: int | Sequence[int]) -> str:
        """Add an operator; returns the name of its result."""
        name = f"value_{len(self.nodes)}"
        fields: list[tuple[int, str | bytes]] = [*((1, one) for one in inputs), (2, name), (4, operator)]
        for key, value in attributes.items():
            if isinstance(value, int):
                fields.append((5, _message((1, key), (3, value), (20, INT))))
            else:
                fields.append((5, _message((1, key), *((8, item) for item in value), (20, INTS))))
        self.nodes.append(_message(*fields))
        return name

    def convolution(self, value: str, layer: nn.Conv2d | nn.ConvTranspose2d) -> str:
        """Add one of torch's layers; transposed ones have 3x3 filters."""
        assert layer.bias is not None
        operator, weight, pads = "Conv", layer.weight, layer.padding * 2
        attributes: dict[str, Any] = {"strides": layer.stride, "pads": pads}
        if isinstance(layer, nn.ConvTranspose2d):
            if layer.stride == (1, 1):  # a convolution with the filters turned round, which is faster
                weight = weight.flip(2, 3).transpose(0, 1)
            else:
                operator, attributes["output_padding"] = "ConvTranspose", layer.output_padding
        return self.node(operator, value, self.constant(weight), self.constant(layer.bias), **attributes)

    def rectified(self, value: str) -> str:
        """Add a leaky rectifier; ONNX's default slope is torch's."""
        return self.node("LeakyRelu", value)

    def normed(self, value: str, num_channels: int) -> str:
        """Add an instance norm; ONNX's default epsilon is torch's."""
        scale, shift = self.constant(torch.ones(num_channels)), self.constant(torch.zeros(num_channels))
        return self.node("InstanceNormalization", value, scale, shift)

    def model(self, inputs: Mapping[str, tuple[int, Sequence[int | str]]], output: str) -> bytes:
        """The finished model. inputs: type and shape by name; a size that may vary is given as a name."""

        def declared(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
            sizes = _message(*((1, _message((2 if isinstance(size, str) else 1, size))) for size in shape))
            return _message((1, name), (2, _message((1, _message((1, kind), (2, sizes))))))

        graph = _message(
            *((1, node) for node in self.nodes),
            (2, "network"),
            *((5, constant) for constant in self.constants),
            *((11, declared(name, *described)) for name, described in inputs.items()),
            (12, _message((1, output), (2, _message((1, _message((1, FLOAT))))))),
        )
        return _message((1, IR_VERSION), (7, graph), (8, _message((2, OPERATOR_SET))))


def resnet_model(network: ResNet) -> bytes:
    """The image encoder for one picture (1, H, W, 3); its features have channels last too."""
    graph = Graph()
    image = graph.node("Transpose", graph.node("Cast", "image", to=FLOAT), perm=(0, 3, 1, 2))
    # In double precision, so that in a picture of one colour nothing is off the mean.
    mean = graph.node("ReduceMean", graph.node("Cast", image, to=DOUBLE), axes=(1, 2, 3))
    off = graph.node("Sub", image, graph.node("Cast", mean, to=FLOAT))
    variance = graph.node("ReduceMean", graph.node("Mul", off, off), axes=(1, 2, 3))
    epsilon = graph.constant(torch.tensor(DEVIATION_EPSILON))
    value = graph.node("Div", off, graph.node("Add", graph.node("Sqrt", variance), epsilon))
    value = graph.convolution(value, network.first)
    blocks: Any = network.blocks
    for block in blocks:
        change = value
        for layer in (block.first, block.second):
            change = graph.rectified(graph.convolution(graph.normed(change, IMAGE_CHANNELS), layer))
        if block.stride is not None:
            value = graph.node(
                "AveragePool", value, kernel_shape=(3, 3), strides=(block.stride,) * 2, pads=(1,) * 4,
                count_include_pad=1,
            )  # fmt: skip
        value = graph.node("Add", value, change)
    features = graph.node("Transpose", graph.normed(value, IMAGE_CHANNELS), perm=(0, 2, 3, 1))
    return graph.model({"image": (UINT8, (1, "height", "width", 3))}, features)


def lingunet_model(network: LingUNet) -> bytes:
    """LingUNet for one map (1, S, S, num_in) and one instruction; its scores have channels first."""
    graph, passed = Graph(), list[str]()
    value, unit = graph.node("Transpose", "map", perm=(0, 3, 1, 2)), graph.node("LpNormalization", "embedding")
    downs, kernels, ups = (cast(Any, parts) for parts in (network.downs, network.kernels, network.ups))

    def through(block: Any, value: str) -> str:
        return graph.rectified(graph.convolution(graph.rectified(graph.convolution(value, block.first)), block.second))

    for level, (down, kernel, num_out) in enumerate(zip(downs, kernels, network.filter_sizes, strict=True)):
        value, is_last = through(down, value), level == len(downs) - 1
        made = graph.node("Gemm", unit, graph.constant(kernel.weight), graph.constant(kernel.bias), transB=1)
        shape = graph.constant(torch.tensor([num_out, CHANNELS, 1, 1]))
        filters = graph.node("Reshape", graph.node("LpNormalization", made), shape)
        value = value if is_last else graph.normed(value, CHANNELS)
        filtered = graph.node("Conv", value, filters)
        passed.append(filtered if is_last else graph.normed(filtered, num_out))
    value = passed.pop()
    for level, up in enumerate(ups):
        value = through(up, value if level == 0 else graph.node("Concat", passed.pop(), value, axis=1))
        value = value if level == 0 else graph.normed(value, up.second.out_channels)
    scores = graph.convolution(graph.node("Concat", passed.pop(), value, axis=1), network.last)
    inputs = {
        "map": (FLOAT, (1, "height", "width", network.num_in)),
        "embedding": (FLOAT, (1, kernels[0].in_features)),
    }
    return graph.model(inputs, scores)


@functools.cache
def _runtime() -> Any:
    """The package onnxruntime; None where it is not installed, as on some machines for training."""
    try:
        import onnxruntime
    except ImportError:
        return None
    onnxruntime.set_default_logger_severity(3)  # errors only; it warns about machines without a GPU
    return onnxruntime


@dataclass(frozen=True)
class _Weight:
    """A weight that a session was made from."""

    owner: dict[str, nn.Parameter | None]
    """The parameters of its layer."""
    name: str
    value: Tensor
    """A view of the weight, which keeps its memory, so that no other tensor can get its address."""
    version: int
    """How often the weight had been written to, as torch counts."""

    def is_unchanged(self) -> bool:
        """Whether the layer still has this weight, and nothing was written to it."""
        now = self.owner[self.name]
        return now is not None and now.data_ptr() == self.value.data_ptr() and now._version == self.version


@dataclass(frozen=True)
class _Session:
    """A session of ONNX Runtime, and the weights that it was made from."""

    run: Callable[[None, dict[str, npt.NDArray[Any]]], list[npt.NDArray[np.float32]]]
    inputs: tuple[str, ...]
    weights: tuple[_Weight, ...]


_sessions: WeakKeyDictionary[nn.Module, _Session] = WeakKeyDictionary()


def forget_sessions(network: nn.Module) -> None:
    """Make new sessions for a network and its parts the next time they run.

    Needed after changes that torch does not count: through `weight.data`, or by a fused optimizer.
    """
    for module in network.modules():
        _sessions.pop(module, None)


def _session(network: ResNet | LingUNet) -> _Session | None:
    """The session for a network's current weights; None where there can be none."""
    found = _sessions.get(network)
    if found is not None and all(weight.is_unchanged() for weight in found.weights):
        return found
    parameters = tuple(network.parameters())
    # Torch does not count changes of tensors that were made in inference mode.
    if any(one.dtype != torch.float32 or one.is_inference() for one in parameters) or _runtime() is None:
        return None
    options = _runtime().SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = resnet_model(network) if isinstance(network, ResNet) else lingunet_model(network)
    session = _runtime().InferenceSession(model, options, providers=["CPUExecutionProvider"])
    weights = (
        _Weight(layer._parameters, name, value.detach(), value._version)
        for layer in network.modules()
        for name, value in layer.named_parameters(recurse=False)
    )
    made = _Session(session.run, tuple(value.name for value in session.get_inputs()), tuple(weights))
    _sessions[network] = made
    return made


def _run(network: ResNet | LingUNet, *values: Tensor) -> Tensor | None:
    """The network's result for values (K, ...); None where torch must compute it.

    The values are passed one at a time, which is faster than a batch and gives the same result whatever the batch; on
    several cores if torch may use several.
    """
    dtype, count = torch.uint8 if isinstance(network, ResNet) else torch.float32, len(values[0])
    is_suitable = all(value.device.type == "cpu" and value.dtype == dtype and len(value) == count for value in values)
    if torch.is_grad_enabled() or torch.compiler.is_compiling() or not is_suitable or not count:
        return None
    session = _session(network)
    if session is None:
        return None
    arrays = [value.contiguous().numpy() for value in values]
    results: list[Any] = [None] * count

    def run(first: int, last: int) -> None:
        for number in range(first, last):
            own = (array[number : number + 1] for array in arrays)
            (results[number],) = session.run(None, dict(zip(session.inputs, own, strict=True)))

    if torch.get_num_threads() == 1:
        run(0, count)
    else:
        run_in_parallel(run, count, 1)
    return torch.from_numpy(results[0] if count == 1 else np.concatenate(results))


def encode_on_cpu(network: ResNet, image: Tensor) -> Tensor | None:
    """Features (K, 32, H / 4, W / 4) of pictures (K, H, W, 3) uint8, channels last in memory.

    None where torch must compute them: with gradients, on a GPU, in other precisions, and without ONNX Runtime.
    """
    features = _run(network, image)
    return None if features is None else features.permute(0, 3, 1, 2)


def score_on_cpu(network: LingUNet, maps: Tensor, embedding: Tensor) -> Tensor | None:
    """Scores (Q, num_out, S, S) of maps (Q, num_in, S, S) and embeddings (Q, E); None where torch must compute them."""
    return _run(network, maps.permute(0, 2, 3, 1), embedding)
