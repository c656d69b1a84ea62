"""How fast the agent is, flying and learning, and where the time goes: `pvn bench agent`."""

from __future__ import annotations

import copy
import functools
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from pvn.corpus.alignment import align
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow, sample_paragraph
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import ground_homography, pose_in_map
from pvn.learning.agent import load_agent
from pvn.learning.demonstrations import Demonstrations, demonstrate, select, take_batch
from pvn.learning.optimisation import batch_limits, draw_batches, make_optimizer, own_stream, precision, record_selected
from pvn.learning.stage1 import Stage1Config, stage1_step
from pvn.model.accumulation import accumulate
from pvn.model.execution import look_around
from pvn.model.mapping import one_frame_each
from pvn.model.pvn import PVN
from pvn.model.resnet import CHANNELS, STRIDE
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.rollout.flight import one_thread, simulator_for

Watch = Callable[[str], None]
H200_FLOPS, H200_BYTES = 989e12, 4.8e12
"""What an H200 can do in a second: bf16 operations on its tensor cores, bytes to and from its memory (data sheet)."""


def _median_ms(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Milliseconds of one call: the median of several on a CPU, the mean of several in a row on a GPU."""
    for _ in range(3 if device.type == "cuda" else 1):
        work()
    if device.type == "cuda":
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begin.record()  # type: ignore[no-untyped-call]
        for _ in range(repeats):
            work()
        end.record()  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / repeats  # type: ignore[no-untyped-call]
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return 1e3 * statistics.median(times)


def _recorded(work: Callable[[], object], device: torch.device) -> Callable[[], object]:
    """The work as part of a recorded step, in which a GPU does not wait for the host; on a CPU the work itself."""
    if device.type != "cuda":
        return work
    for _ in range(3):  # compiles, and makes the allocations that are made once
        work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        work()
    return graph.replay


@one_thread()
@torch.inference_mode()
def measure_policy(name: str, device: str, repeats: int = 40, watch: Watch = lambda what: None) -> dict[str, float]:
    """Milliseconds of one step of an agent, a single flight, and of its parts, with one thread as in `fly`.

    watch: called with each part's name.
    """
    agent, task = load_agent(name, device), sample_paragraph(0)[0].task
    if not isinstance(agent, PVN):
        raise ValueError(f"agent: got {name}, expected one with PVN's two stages, such as pvn")
    simulator = simulator_for([task], device=device)
    observation = simulator.reset(torch.tensor([task.start], dtype=torch.float64))
    begun = agent.begin([task], simulator.device)
    _, memory = agent.act(observation, begun)
    assert memory.visitation is not None
    model, visitation = agent.visitation, memory.visitation
    frames = one_frame_each(observation.image, observation.pose_world, memory.origin)
    seen = model.update_map(frames, memory.semantic)
    pose = pose_in_map(observation.pose_world, memory.origin)
    around = look_around(visitation.parts, memory.progress, pose, agent.execution.config)
    # The first step plans; the one after it only maps.
    works: dict[str, Callable[[], object]] = {
        "planning_step": lambda: agent.act(observation, begun),
        "mapping_step": lambda: agent.act(observation, memory),
        "encoder": lambda: model.resnet(observation.image),
        "encoder_and_projection": lambda: model.update_map(frames, memory.semantic),
        "grounding_and_lingunet": lambda: model.predict(seen, memory.instructions),
        "stage_2": lambda: agent.execution(around),
        "reading_the_instruction": lambda: agent.begin([task], simulator.device),
        "picture": lambda: simulator.render(observation.pose_world, simulator.field_index),
    }
    times = {}
    for part, work in works.items():
        watch(f"flying, {part.replace('_', ' ')}")
        times[f"{part}_ms"] = _median_ms(work, simulator.device, repeats)
    return times


def _model_and_data(num_segments: int, config: Stage1Config, device: str) -> tuple[VisitationModel, Demonstrations]:
    corpus = make_meadow(bundled_banks(), size=num_segments, seed=0)
    vocabulary = Vocabulary.from_texts(segment.task.instruction for segment in corpus["train"])
    alignment = align(corpus["train"], vocabulary)
    training = [segment.demonstration for segment in corpus["train"]]
    demonstrations = demonstrate(training, vocabulary, alignment, frame_every=config.frame_every, device=device)
    model = VisitationModel(VisitationConfig(num_words=len(vocabulary))).to(device)
    if device == "cuda":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        limits = batch_limits(demonstrations, config.frames_per_batch)
        model.compile_for(limits.frames, limits.predictions)
    return model.train(), demonstrations


def _lower_bounds(module: nn.Module, *values: Tensor) -> dict[str, float]:
    """Lower bounds for forward and backward of a network on an H200, milliseconds: by arithmetic, and by memory.

    Memory: forward, each convolution reads what goes in and writes what comes out; backward, it reads both again, the
    gradient in place of the latter, and writes the gradient of the former. All in bf16, and nothing else, as if norms
    and activations were free.
    """
    sizes: list[int] = []
    module = copy.deepcopy(module)  # a copy is not compiled
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
            layer.register_forward_hook(lambda _, put, result: sizes.append(3 * put[0].numel() + 2 * result.numel()))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*values)
    return {
        "arithmetic_ms": 1e3 * 3 * counter.get_total_flops() / H200_FLOPS,
        "memory_ms": 1e3 * 2 * sum(sizes) / H200_BYTES,
    }


def measure_learning(
    device: str, repeats: int = 20, num_segments: int = 400, watch: Watch = lambda what: None
) -> dict[str, Any]:
    """Milliseconds of one step of stage 1, of its parts forward and backward, and lower bounds for an H200.

    watch: called with what is measured next.
    """
    watch("learning, flights to learn from")
    config = Stage1Config() if device == "cuda" else Stage1Config(frames_per_batch=32)
    model, demonstrations = _model_and_data(num_segments if device == "cuda" else 40, config, device)
    repeats, to = (repeats if device == "cuda" else 3), torch.device(device)
    optimizer = make_optimizer(model, config.learning_rate, config.instruction_rate, config.weight_decay, to)
    limits = batch_limits(demonstrations, config.frames_per_batch)
    flights = draw_batches(demonstrations, limits, torch.Generator().manual_seed(0))[0]
    selection = select(demonstrations, flights, sizes=limits)
    batch = take_batch(demonstrations, selection)
    image = batch.frames.image
    features = torch.randn((len(image), image.shape[1] // STRIDE, image.shape[2] // STRIDE, CHANNELS), device=to)
    features.requires_grad_()
    origin = batch.frames.origin[selection.parts().frame_flight]
    homography = ground_homography(batch.frames.pose_world, origin, model.config.camera)
    homography[:, :2] /= STRIDE
    empty = model.begin(limits.flights)
    # In the layout that the training step uses; another one would be compiled again.
    joined, size = model.lingunet.num_in, model.config.grid.size
    maps = torch.randn((limits.predictions, size, size, joined), device=to).permute(0, 3, 1, 2).requires_grad_()
    with precision(to):
        embedding = model.instruction(batch.tokens).embedding[batch.frames.flight].detach().requires_grad_()

    def project() -> Tensor:
        return accumulate(
            features, homography.flatten(1).float(), batch.frames.first_frame, batch.frames.row,
            limits.predictions, model.places, model.config.leak, empty.value, empty.is_known,
        )[0]  # fmt: skip

    def forward_and_backward(forward: Callable[[], Tensor]) -> None:
        with precision(to):
            result = forward()
        torch.autograd.backward(result, torch.ones_like(result))

    step = functools.partial(stage1_step, model, optimizer, demonstrations, config)
    works: dict[str, Callable[[], object]] = {
        "rendering": lambda: take_batch(demonstrations, selection),
        "encoder": lambda: forward_and_backward(lambda: model.resnet(image)),
        "projection": lambda: forward_and_backward(project),
        "lingunet": lambda: forward_and_backward(lambda: model.lingunet(maps, embedding)),
    }
    report: dict[str, Any] = {"frames": limits.frames, "flights": limits.flights, "predictions": limits.predictions}
    with own_stream() if device == "cuda" else nullcontext():
        watch("learning, whole step" + (" (compiling takes a minute)" if device == "cuda" else ""))
        report["step_launched_ms"] = _median_ms(lambda: step(selection), to, repeats)
        report["parts_ms"] = {}
        for part, work in works.items():
            watch(f"learning, {part}")
            report["parts_ms"][part] = _median_ms(_recorded(work, to), to, repeats)
        if device == "cuda":
            recorded = record_selected(step, selection)
            report["step_ms"] = _median_ms(lambda: recorded(selection), to, repeats)
    if device == "cuda":
        report["peak_gpu_gib"] = torch.cuda.max_memory_allocated() / 2**30
        with precision(to):
            report["least_ms"] = {
                "encoder": _lower_bounds(model.resnet, image),
                "lingunet": _lower_bounds(model.lingunet, maps, embedding),
            }
    return report


def measure_agent(name: str, device: str, watch: Watch = lambda what: None) -> dict[str, Any]:
    """Times of an agent's flight, and of the paper's agent's learning. watch: called with what is measured next."""
    return {
        "agent": name,
        "device": device,
        "threads": torch.get_num_threads(),
        "policy": measure_policy(name, device, watch=watch),
        "learning": measure_learning(device, watch=watch),
    }
