"""What a GPU's training does at the same time in other processes: compiling its networks, and training stage 2.

Compiling takes longer than making a corpus and flying the oracle over it, and stage 2 needs no GPU. Both together save
more than half of the time from nothing to an agent (docs/benchmarks.md).
"""

from __future__ import annotations

import copy
import copyreg
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from pvn.learning import parallel
from pvn.learning.losses import precision
from pvn.learning.recipes import Recipe
from pvn.model.agent import place_on
from pvn.model.mapping import InstructedModel
from pvn.processes import process_pool

SPARE_PREDICTIONS = 1.3
"""Predictions in a step, as a multiple of those in long flights: every flight begins with one, so that short flights
have more."""
SPARE_FRAMES = 1.25
"""Pictures in a process's part of a step, as a multiple of an equal part: flights differ in length."""
USUAL_STEPS = 24
"""Steps of a flight for which there is room where batches are counted in flights; nine in ten are no longer."""


def _memory_format(name: str) -> torch.memory_format:
    """The memory format whose text is torch.channels_last, say."""
    return getattr(torch, name.removeprefix("torch."))  # type: ignore[no-any-return]


# Torch finds compiled code by a hash of pickled tensor metadata. Python pickles a memory format as an attribute of
# whichever module imported torch first, and that differs between processes; so nothing would be found.
copyreg.pickle(torch.memory_format, lambda value: (_memory_format, (str(value),)))  # type: ignore[arg-type, return-value]


@dataclass(frozen=True)
class FastStart:
    """What goes on in other processes."""

    compiled: Sequence[Future[None]] = ()
    """Done when the parts of the network are compiled."""
    worker: Executor | None = None
    """A process for what needs no GPU; None if everything is done by this process, one thing after the other."""

    def submit(self, work: Callable[..., float], learner: object, *arguments: object) -> Future[float] | None:
        """Have work(learner, *arguments) done by the other process, if there is one; None if there is none."""
        if self.worker is None:
            return None
        # A copy, because torch shares the tensors that it sends to another process.
        return self.worker.submit(work, copy.deepcopy(learner), *arguments)

    def wait_until_compiled(self) -> None:
        """Wait. If something is wrong with the code, it is wrong in this process too, and reported by it."""
        for part in self.compiled:
            part.exception()


def compiled_sizes(recipe: Recipe) -> tuple[int, int]:
    """Pictures and predictions in a step for which networks are compiled; most batches fit.

    They depend on the recipe alone, so that the code can be compiled before there is a corpus.
    """
    config, count = recipe.stage1, parallel.num_processes()
    frames = config.frames_per_batch
    if config.flights_per_batch is not None:
        frames = min(frames, config.flights_per_batch * math.ceil(USUAL_STEPS / config.frame_every))
    if count > 1:
        frames = math.ceil(SPARE_FRAMES * frames / count)
    if recipe.overhead_px is not None:  # one picture a flight, and a prediction after each
        return frames, frames
    in_long_flights = frames * config.frame_every / math.lcm(config.frame_every, config.predict_every)
    return frames, min(math.ceil(SPARE_PREDICTIONS * in_long_flights), frames)


def _compile_part(make_model: Callable[[], InstructedModel], recipe: Recipe, device: str, part: str) -> None:
    """Compile one part of a network; torch keeps the code on disk for other processes."""
    model = make_model().train()
    place_on(torch.device(device), model)
    model.compile_for(*compiled_sizes(recipe), only=part)
    try_part(model, part)


def try_part(model: InstructedModel, part: str) -> None:
    """Run a compiled part forward and backward on made-up values of the shapes and types of a training step."""
    with precision(next(model.parameters()).device):
        result = model.run_part(part)
    torch.autograd.backward(result, torch.ones_like(result))


@contextmanager
def fast_start(make_model: Callable[[], InstructedModel], recipe: Recipe, device: torch.device) -> Iterator[FastStart]:
    """Compile a network's parts for a GPU, each in a process of its own, and have a process ready for stage 2.

    On a CPU, and in several processes that train together, nothing is done ahead.
    """
    if device.type != "cuda" or parallel.num_processes() > 1:
        yield FastStart()
        return
    with ExitStack() as pools:
        compiled = []
        for part in make_model().compiled_parts():
            pool = pools.enter_context(process_pool(1))
            compiled.append(pool.submit(_compile_part, make_model, recipe, str(device), part))
            pool.shutdown(wait=False)  # the process ends with its work, and frees its GPU memory
        yield FastStart(compiled, pools.enter_context(process_pool(1)))
