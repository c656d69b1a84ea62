"""One training from top to bottom, the same for every system: `fit`, and below it each of its phases in order.

What differs between systems is passed in: the objective of stage 1 (losses.py) is to predict visitation distributions
or to imitate actions, and DAggerFM (dagger.py) trains PVN's second stage or a baseline as a whole.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from pvn.corpus.alignment import align
from pvn.corpus.segments import Corpus, Segment
from pvn.corpus.vocabulary import Vocabulary
from pvn.files import AGENT_FILE
from pvn.learning import parallel
from pvn.learning.augmentation import AugmentedFlights, draw_augmentation
from pvn.learning.checkpoint import (
    load_training,
    load_weights,
    read_tensors,
    save_agent,
    save_training,
    write_json,
    write_tensors,
)
from pvn.learning.dagger import Learner, run_dagger, uncompiled
from pvn.learning.demonstrations import (
    ONLY_PADDING,
    Demonstrations,
    Selection,
    Sizes,
    batch_limits,
    demonstrate,
    draw_batches,
    padded_sizes,
    select,
    take_batch,
)
from pvn.learning.descent import (
    OnProgress,
    clip_gradients,
    diverged,
    ignore_progress,
    is_finite,
    make_optimizer,
    model_optimizer,
    over_processes,
    own_stream,
    recorded,
    set_rate,
    take_step,
)
from pvn.learning.fast_start import FastStart, compiled_sizes
from pvn.learning.losses import Objective, Sums
from pvn.learning.recipes import Recipe, Stage1Config
from pvn.model.agent import Agent, place_on, placed
from pvn.model.mapping import InstructedModel
from pvn.rollout.flight import one_thread
from pvn.rollout.policy import MakeSimulator
from pvn.simulator.interface import SimulatorConfig

Stage = Literal["1", "2", "all"]
STAGE1, STAGE2 = "stage1.safetensors", "stage2.safetensors"
"""In a run's folder: the weights of each stage."""
CHECKPOINTS = {"1": "stage1_training.safetensors", "2": "stage2_training.safetensors"}
"""In a run's folder: the last checkpoint of each stage."""
WORD_FLIGHTS = 64
"""Flights in a step in which only the instruction encoder is trained."""


@dataclass(frozen=True)
class Trainee:
    """An agent, and what it learns in each stage."""

    agent: Agent
    objective: Objective
    """Of its networks in stage 1."""
    learner: Learner
    """What DAggerFM trains in stage 2."""


def fit(
    begin: Callable[[Vocabulary], Trainee],
    corpus: Corpus,
    epoch: Sequence[Segment],
    recipe: Recipe,
    folder: Path,
    simulate: MakeSimulator,
    *,
    stage: Stage = "all",
    device: torch.device = torch.device("cpu"),
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
    start: FastStart = FastStart(),
) -> Agent:
    """Train an agent; checkpoints and weights go to `folder`, and the agent once both stages are trained.

    begin: makes an untrained agent for a vocabulary. epoch: the segments that stage 1 reads in an epoch: the training
    split, in its order, and perhaps more after it. simulate: makes the simulators. start: what goes on in other
    processes meanwhile.
    """
    segments, first, second = corpus["train"], folder / STAGE1, folder / STAGE2
    spent = dict[str, Any]()

    # The words of the training split, and the landmark classes that they are aligned with.
    vocabulary = Vocabulary.from_texts((one.task.instruction for one in segments), min_count=recipe.min_count)
    alignment = align(segments, vocabulary)

    # An untrained agent. If another process can train its second stage meanwhile, that begins here.
    torch.manual_seed(recipe.stage1.seed)
    trainee = begin(vocabulary)
    objective, learner = trainee.objective, trainee.learner
    place_on(device, objective.model)
    can_begin = stage == "all" and not learner.needs_stage1
    beside = start.submit(train_stage2, learner, segments, folder, simulate, is_resumed) if can_begin else None

    def fly_oracle(some: Sequence[Segment], frame_every: int) -> Demonstrations:
        return demonstrate(
            [one.demonstration for one in some], vocabulary, alignment, simulate,
            predict_every=recipe.stage1.predict_every, frame_every=frame_every, device=device,
            config=SimulatorConfig(camera=recipe.camera), oracle=recipe.stage1.oracle, overhead_px=recipe.overhead_px,
        )  # fmt: skip

    # Stage 1: the oracle flies the training segments and some of the dev split; gradient descent on its flights.
    shown = None
    if stage != "2" or learner.needs_stage1:
        began = time.perf_counter()
        shown = fly_oracle(epoch, recipe.stage1.frame_every)
        spent["demonstrations_s"] = time.perf_counter() - began
    if stage != "2":
        assert shown is not None
        dev = corpus.splits.get("dev", ())[: recipe.stage1.measured_flights]
        dev_set = fly_oracle(dev, 1) if dev else None
        spent |= train_stage1(objective, shown, dev_set, recipe, folder, is_resumed, watch, start)
    elif first.exists() or learner.needs_stage1:
        load_weights(objective.model, read_tensors(first), first)

    # Stage 2: DAggerFM. Of several processes, the first trains it alone.
    if parallel.rank() > 0:
        return trainee.agent
    if beside is not None:
        spent["stage2_s"] = beside.result()
    elif stage != "1":
        given = shown if learner.needs_stage1 else None
        spent["stage2_s"] = train_stage2(learner, segments, folder, simulate, is_resumed, given, watch)
    has_second = second.exists() and (stage != "1" or not learner.needs_stage1)
    if has_second:
        load_weights(learner.network, read_tensors(second), second)

    # The agent, and how it was made.
    origin = {"recipe": asdict(recipe), "corpus": corpus.name, "segments": len(segments), **spent}
    write_json(folder / "training.json", origin)
    agent = uncompiled(trainee.agent)
    if first.exists() and has_second:
        save_agent(agent, folder / AGENT_FILE, origin)
    return placed(device, agent)


def train_stage1(
    objective: Objective,
    shown: Demonstrations,
    dev_set: Demonstrations | None,
    recipe: Recipe,
    folder: Path,
    is_resumed: bool,
    watch: OnProgress,
    start: FastStart,
) -> dict[str, Any]:
    """Train an objective's model on demonstrations and write it; how long each phase took, and the losses on dev."""
    config, model, device, began = recipe.stage1, objective.model, shown.device, time.perf_counter()
    path, spent = folder / CHECKPOINTS["1"], dict[str, Any]()
    objective.train()
    if model.heads is not None:
        nn.init.constant_(model.heads.mentioned.bias, config.mentioned_log_odds)
        if not (is_resumed and path.exists()):
            learn_words(model, shown, config, watch)
    spent["words_s"] = time.perf_counter() - began
    began = time.perf_counter()
    if device.type == "cuda":
        # While other processes compile the networks, this one compiles what draws pictures and lays them on the map.
        _try_step(objective, shown)
        model.compile_for(*compiled_sizes(recipe))
        start.wait_until_compiled()
    descend(objective, shown, dev_set, config, path, is_resumed=is_resumed, watch=watch)
    spent["stage1_s"] = time.perf_counter() - began
    if dev_set is not None:
        spent["dev"] = measure(objective, dev_set, config.frames_per_batch)
    if parallel.rank() == 0:
        write_tensors(folder / STAGE1, model.state_dict())
    return spent | peak_memory(device)


def _try_step(objective: Objective, shown: Demonstrations) -> None:
    """Go forward and backward over one flight; the gradients are not used.

    A function of its own, so that nothing of its graph is left: torch would remember the stream on which it was made,
    and no step could be recorded on another one.
    """
    sums = objective(take_batch(shown, select(shown, torch.zeros(1, dtype=torch.int64))))
    torch.autograd.backward(objective.loss(sums, sums))


def learn_words(model: InstructedModel, shown: Demonstrations, config: Stage1Config, watch: OnProgress) -> None:
    """Train only the instruction encoder, to tell which classes an instruction mentions.

    This is quick, because it needs no pictures. Without it, the model first learns to guess goals from the map alone.
    Every process takes the same steps.
    """
    assert model.heads is not None
    heads, device = model.heads, shown.device
    learned = [*model.instruction.parameters(), *heads.mentioned.parameters()]
    optimizer = make_optimizer(config.optimizer, [(learned, config.word_learning_rate)], config.weight_decay)

    def take_words(_: None, rows: Tensor) -> Tensor:
        mentioned = heads.mentioned(model.instruction(shown.tokens[rows]).embedding)
        loss = functional.binary_cross_entropy_with_logits(mentioned, shown.mentioned[rows].float())
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        clip_gradients(learned, config.max_gradient_norm)
        optimizer.step()
        return loss.detach() * mentioned.shape[1]

    generator = torch.Generator().manual_seed(config.seed)
    with own_stream(device):
        take = recorded(take_words) if device.type == "cuda" else take_words
        for step in range(config.word_steps):
            rows = torch.randint(len(shown), (WORD_FLIGHTS,), generator=generator)
            set_rate(optimizer, config.rate_share(step, config.word_steps))
            loss = take(None, rows.to(device))
            if step % 100 == 0 or step == config.word_steps - 1:
                watch("words", step, config.word_steps, {"loss": float(loss)})
    optimizer.zero_grad(set_to_none=True)  # a recorded step has its gradients in memory of its own


def draw_selection(
    shown: Demonstrations,
    config: Stage1Config,
    step: int,
    flights: Tensor,
    compiled: Sizes | None = None,
    own: slice = slice(None),
) -> Selection:
    """A step's flights (B,) with random rotations, swapped paths, heights and augmentation; padded on a GPU.

    compiled: sizes for which the network is compiled. own: this process's part of the flights; what is drawn does not
    depend on it.
    """
    generator = torch.Generator().manual_seed(config.seed * 1_000_003 + 500_000 + step)
    turn = torch.randn(len(flights), generator=generator) * config.turn_rad
    is_swapped = torch.rand(len(flights), generator=generator) < config.swapped_share
    posed_as = flights.clone()
    posed_as[is_swapped] = flights[is_swapped].roll(1)
    rise = (2 * torch.rand(len(flights), generator=generator) - 1) * config.height_spread
    augmented = draw_augmentation(config.augmentation, len(flights), generator)
    if augmented is not None:
        augmented = replace(augmented, draws=augmented.draws[own])
    flights, turn, posed_as, rise = (values[own] for values in (flights, turn, posed_as, rise))
    sizes = None if len(flights) else ONLY_PADDING  # the last batch of an epoch may have fewer flights than processes
    if compiled is not None:
        sizes = padded_sizes(shown, posed_as, compiled)
    return select(shown, flights, turn, posed_as, sizes, rise, augmented)


def descend(
    objective: Objective,
    shown: Demonstrations,
    dev_set: Demonstrations | None,
    config: Stage1Config,
    path: Path,
    *,
    is_resumed: bool = False,
    watch: OnProgress = ignore_progress,
) -> None:
    """Train an objective's model by gradient descent on demonstrations; checkpoints go to `path`.

    Every step depends only on the seed and its number, so a resumed run takes the same steps. Of several processes,
    each takes every n-th flight of the same batches.
    """
    model, device, name = objective.model, shown.device, objective.name
    is_cuda, rank = device.type == "cuda", parallel.rank()
    optimizer = model_optimizer(
        model, config.optimizer, config.learning_rate, config.instruction_rate, config.weight_decay
    )
    done = load_training(path, model, optimizer) if is_resumed and path.exists() else 0
    limits = batch_limits(shown, config.frames_per_batch, config.flights_per_batch)
    epochs = [torch.Generator().manual_seed(config.seed * 1_000_003 + epoch) for epoch in range(config.num_epochs)]
    batches = [flights for epoch in epochs for flights in draw_batches(shown, limits, epoch)]
    num_steps, measured, own = len(batches), dict[str, float](), slice(rank, None, parallel.num_processes())
    compiled = None
    if is_cuda:
        at_once = model.frames_at_once or limits.frames, model.maps_at_once or limits.predictions
        compiled = replace(limits, frames=at_once[0], predictions=at_once[1])
    objective.train()
    with own_stream(device):
        together = over_processes(objective)

        def take_selected(sizes: Sizes, numbers: Tensor, turn: Tensor, rise: Tensor, *draws: Tensor) -> Sums:
            augmented = AugmentedFlights(config.augmentation, draws[0]) if draws else None
            batch = take_batch(shown, Selection(numbers, turn, rise, sizes, augmented))
            return take_step(objective, optimizer, batch, config.max_gradient_norm, together)

        take = recorded(take_selected) if is_cuda else take_selected
        for step in range(done, num_steps):
            selection = draw_selection(shown, config, step, batches[step], compiled, own)
            set_rate(optimizer, config.rate_share(step, num_steps))
            torch.manual_seed(config.seed * 1_000_003 + 500_000 + step)  # for dropout and other random operations
            sums = take(selection.sizes, *selection.tensors())
            if dev_set is not None and (step + 1) % config.measure_every == 0:
                found = measure(objective, dev_set, config.frames_per_batch)
                measured = {f"dev_{what}": value for what, value in found.items()}
            is_saved = (step + 1) % config.save_every == 0 or step == num_steps - 1
            if step % 20 == 0 or is_saved:
                loss = float(objective.loss(sums, sums))
                if not math.isfinite(loss):
                    raise diverged(f"{name}, step {step}", f"the loss is {loss}", path, "stage1.learning-rate")
                watch(name, step, num_steps, {"loss": loss, **objective.means(sums), **measured})
            if is_saved and not is_finite(model):
                raise diverged(f"{name}, step {step}", "a weight is not finite", path, "stage1.learning-rate")
            if is_saved and rank == 0:
                save_training(path, model, optimizer, step + 1)
    objective.eval()


def measure(objective: Objective, shown: Demonstrations, frames_per_batch: int) -> dict[str, float]:
    """Mean losses on demonstrations that are not trained on, without rotations, swapped paths and dropout.

    In training mode and with gradients, though they are not used: otherwise compiled code would be compiled again.
    """
    was_training = objective.training
    objective.train()
    for module in objective.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    limits = batch_limits(shown, frames_per_batch)
    torch.manual_seed(0)
    parts = []
    for flights in draw_batches(shown, limits, torch.Generator().manual_seed(0)):
        sums = objective(take_batch(shown, select(shown, flights)))
        parts.append({name: value.detach() for name, value in sums.items()})
    objective.train(was_training)
    return objective.means({name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]})


def train_stage2(
    learner: Learner,
    segments: Sequence[Segment],
    folder: Path,
    simulate: MakeSimulator,
    is_resumed: bool,
    shown: Demonstrations | None = None,
    watch: OnProgress = ignore_progress,
) -> float:
    """Train a learner by DAggerFM and write its network; how many seconds it took.

    shown: the oracle's flights over the segments, in order, for a learner that goes on from stage 1. Without them it
    is a small network on the host, to which a second thread is no help, and whose sums should not depend on the number
    of cores.
    """
    began = time.perf_counter()
    device = torch.device("cpu") if shown is None else shown.device
    with one_thread() if shown is None else nullcontext():
        run_dagger(
            learner, segments, folder / CHECKPOINTS["2"], simulate,
            shown=shown, device=device, is_resumed=is_resumed, watch=watch,
        )  # fmt: skip
    write_tensors(folder / STAGE2, learner.network.state_dict())
    return time.perf_counter() - began


def peak_memory(device: torch.device) -> dict[str, float]:
    """Peak memory of this process so far, GiB: on the host (except on Windows), and on the GPU if used."""
    peak = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 2**10  # macOS counts bytes, Linux KiB
        peak["peak_host_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    if device.type == "cuda":
        peak["peak_gpu_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
    return peak
