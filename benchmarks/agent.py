"""Milliseconds of a step of an agent's flight and of a training step of stage 1, and where the time goes.

python benchmarks/agent.py --agent pvn
python benchmarks/agent.py --agent pvn-plus --device cuda
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import tyro
from timing import median_ms, print_report
from torch import Tensor

from pvn.corpus.alignment import align
from pvn.corpus.meadow.banks import bundled_banks
from pvn.corpus.meadow.generator import make_meadow, sample_paragraph
from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import pose_in_map
from pvn.learning.demonstrations import Selection, Sizes, batch_limits, demonstrate, draw_batches, select, take_batch
from pvn.learning.descent import STEPS_BEFORE_RECORDING, model_optimizer, own_stream, recorded, take_step
from pvn.learning.losses import PredictVisitation, VisitationLosses, precision
from pvn.learning.recipes import Stage1Config
from pvn.model.execution import look_around
from pvn.model.mapping import one_frame_each
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.rollout.flight import one_thread
from pvn.simulator.simulator import simulator_for
from pvn.systems import load_agent

Works = dict[str, Callable[[], object]]


@one_thread()
@torch.inference_mode()
def measure_flight(name: str, device: str, repeats: int) -> dict[str, float]:
    """One step of a single flight, and its parts, with one thread as in `pvn.fly`."""
    agent, task = load_agent(name, device), sample_paragraph(0)[0].task
    if not isinstance(agent, PVN):
        raise ValueError(f"agent: got {name}, expected one with PVN's two stages, such as pvn")
    simulator = simulator_for([task], device=device)
    observation = simulator.reset(torch.tensor([task.start], dtype=torch.float64))
    begun = agent.begin([task], simulator.device)
    _, memory = agent.act(observation, begun)
    assert memory.visitation is not None
    model = agent.visitation
    frames = one_frame_each(observation.image, observation.pose_world, memory.origin)
    seen = model.update_map(frames, memory.semantic)
    pose = pose_in_map(observation.pose_world, memory.origin)
    around = look_around(memory.visitation.parts, memory.progress, pose, agent.execution.config)
    works: Works = {
        "step_that_predicts": lambda: agent.act(observation, begun),
        "step_that_maps": lambda: agent.act(observation, memory),
        "image_encoder_and_projection": lambda: model.update_map(frames, memory.semantic),
        "grounding_and_lingunet": lambda: model.predict(seen, memory.instructions),
        "stage_2": lambda: agent.execution(around),
        "instruction": lambda: agent.begin([task], simulator.device),
        "picture": lambda: simulator.render(observation.pose_world, simulator.field_index),
    }
    return {part: median_ms(work, device, repeats) for part, work in works.items()}


def measure_training(device: str, repeats: int, segments: int) -> dict[str, Any]:
    """One step of stage 1, and its parts forward and backward."""
    is_cuda = device == "cuda"
    config = Stage1Config() if is_cuda else Stage1Config(frames_per_batch=32)
    corpus = make_meadow(bundled_banks(), size=segments, seed=0)["train"]
    vocabulary = Vocabulary.from_texts(segment.task.instruction for segment in corpus)
    demonstrations = demonstrate(
        [segment.demonstration for segment in corpus], vocabulary, align(corpus, vocabulary),
        simulator_for, frame_every=config.frame_every, device=device,
    )  # fmt: skip
    model = VisitationModel(VisitationConfig(num_words=len(vocabulary))).to(device).train()
    limits, to = batch_limits(demonstrations, config.frames_per_batch), torch.device(device)
    if is_cuda:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model.compile_for(limits.frames, limits.predictions)
    objective = PredictVisitation(model, VisitationLosses())
    optimizer = model_optimizer(model, "AdamW", config.learning_rate, config.instruction_rate, config.weight_decay)
    flights = draw_batches(demonstrations, limits, torch.Generator().manual_seed(0))[0]
    selection = select(demonstrations, flights, sizes=limits)
    batch = take_batch(demonstrations, selection)
    size = model.config.grid.size
    maps = torch.randn((limits.predictions, size, size, model.lingunet.num_in), device=to)
    maps = maps.permute(0, 3, 1, 2).requires_grad_()  # laid out as in training: another layout would compile anew
    with precision(to):
        embedding = model.instruction(batch.tokens).embedding[batch.frames.flight].detach().requires_grad_()

    def forward_and_backward(forward: Callable[[], torch.Tensor]) -> None:
        with precision(to):
            result = forward()
        torch.autograd.backward(result, torch.ones_like(result))

    def step(sizes: Sizes, numbers: Tensor, turn: Tensor, rise: Tensor) -> object:
        taken = take_batch(demonstrations, Selection(numbers, turn, rise, sizes))
        return take_step(objective, optimizer, taken, config.max_gradient_norm)

    chosen = selection.sizes, *selection.tensors()
    works: Works = {
        "step": lambda: step(*chosen),
        "pictures": lambda: take_batch(demonstrations, selection),
        "image_encoder": lambda: forward_and_backward(lambda: model.resnet(batch.frames.image)),
        "lingunet": lambda: forward_and_backward(lambda: model.lingunet(maps, embedding)),
    }
    report: dict[str, Any] = {"frames": limits.frames, "predictions": limits.predictions}
    if not is_cuda:
        return report | {part: median_ms(work, device, repeats) for part, work in works.items()}
    with own_stream(to):
        report |= {part: median_ms(work, device, repeats) for part, work in works.items()}
        replayed = recorded(step)
        for _ in range(STEPS_BEFORE_RECORDING + 1):
            replayed(*chosen)
        report["recorded_step"] = median_ms(lambda: replayed(*chosen), device, repeats)
    return report | {"peak_gpu_gib": torch.cuda.max_memory_allocated() / 2**30}


def main(agent: str = "pvn-plus", device: str = "cpu", repeats: int = 40, segments: int = 40) -> None:
    """Measure an agent in flight, and the training of the paper's agent on a corpus of so many segments."""
    print_report({
        "agent": agent,
        "device": device,
        "flight_ms": measure_flight(agent, device, repeats),
        "training_ms": measure_training(device, min(repeats, 20 if device == "cuda" else 3), segments),
    })  # fmt: skip


if __name__ == "__main__":
    tyro.cli(main)
