"""Stage 1 compiled for a GPU by processes of their own, while its training is prepared."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress

import torch

from pvn.corpus.vocabulary import Vocabulary
from pvn.learning import parallel
from pvn.learning.stage1 import planned_sizes, try_part
from pvn.learning.training import COMPILER, Recipe, untrained
from pvn.model.visitation import CompiledPart, compiled_parts

COMPILER_PROCESSES = "torch._inductor.async_compile"
"""The part of torch's compiler that starts processes."""


def _compile_stage1(recipe: Recipe, device: str, part: CompiledPart) -> None:
    """Compile a part of stage 1. Torch keeps the compiled code for other processes."""
    # Torch starts processes that make machine code with its first graph, and makes that code one kernel after the other
    # until they are there. Some releases do not have the function that starts them; then nothing is started early.
    with suppress(ImportError):
        getattr(importlib.import_module(COMPILER_PROCESSES), "maybe_warm_pool", lambda: None)()
    no_words = Vocabulary(terms=(), counts=(), merged={}, sound=frozenset())
    model, _ = untrained(recipe, no_words)
    model.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    model.compile_for(*planned_sizes(recipe.stage1, recipe.overhead_px is not None), (part,))
    try_part(model, part)


def _prepare(device: str | torch.device) -> None:
    """Do for a GPU what takes seconds and does not depend on the training."""
    torch.zeros((), device=device)  # the first tensor, for which CUDA sets everything up
    importlib.import_module(COMPILER)


@contextmanager
def compiled_beside(recipe: Recipe, device: str | torch.device) -> Iterator[Sequence[Future[None]]]:
    """Stage 1 compiled for a GPU by processes of their own, one for each costly part, while this one makes what it is
    to be trained on.

    The results are there once everything is compiled; there are none where nothing is compiled ahead: on a CPU, by
    several processes, and where batches are counted in flights, so that their sizes depend on the corpus.
    """
    from pvn.processes import process_pool

    is_useful = torch.device(device).type == "cuda" and recipe.stage1.flights_per_batch is None
    if not is_useful or parallel.num_processes() > 1:
        yield ()
        return
    # This takes seconds, in which this process waits for others if there is a corpus to be made.
    threading.Thread(target=_prepare, args=(device,), daemon=True).start()
    with ExitStack() as pools:
        compiled = []
        for part in compiled_parts(recipe.grid):
            pool = pools.enter_context(process_pool(1))
            compiled.append(pool.submit(_compile_stage1, recipe, str(device), part))
            pool.shutdown(wait=False)  # the process ends with its work: waiting for more, it would keep its GPU memory
        yield compiled
