"""Training of PVN on a corpus: vocabulary, alignment, both stages, and the files that are written."""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import operator
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from pvn.checks import check_limits
from pvn.corpus.alignment import align_counted, count_events
from pvn.corpus.segments import Corpus, Segment
from pvn.corpus.shares import CorpusShare, share_of
from pvn.corpus.training_text import TrainingTextConfig, training_segments
from pvn.corpus.vocabulary import Vocabulary, count_words
from pvn.geometry import Camera, MapGrid
from pvn.learning import parallel
from pvn.learning.checkpoint import load_weights, read_tensors, write_json, write_tensors
from pvn.learning.demonstrations import Demonstrations, demonstrate, select, take_batch
from pvn.learning.optimisation import (
    OnProgress,
    OnStageProgress,
    ignore_progress,
    ignore_stage_progress,
    peak_memory,
    stage_progress,
)
from pvn.learning.stage1 import (
    CHECKPOINT,
    Stage1Config,
    compiled_sizes,
    learn_words,
    measure_stage1,
    train_stage1,
)
from pvn.learning.stage2 import Stage2Config, train_stage2
from pvn.model import accumulation
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.visitation import (
    VisitationConfig,
    VisitationModel,
    VisitationSizes,
)
from pvn.rollout.flight import one_thread
from pvn.simulator.interface import SimulatorConfig

if TYPE_CHECKING:
    from pvn.model.pvn import PVN

Stage = Literal["1", "2", "all"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything PVN's training depends on, apart from the corpus; the defaults are the paper preset's."""

    name: str
    """Name of the preset; for information only."""
    stage1: Stage1Config = Stage1Config()
    stage2: Stage2Config = Stage2Config()
    text: TrainingTextConfig = TrainingTextConfig()
    sizes: VisitationSizes = VisitationSizes()
    execution: ExecutionConfig = ExecutionConfig()
    grid: MapGrid = MapGrid()
    camera: Camera = Camera()
    uses_instruction: bool = True
    """Whether the instruction is used; if not, this is the paper's "no u"."""
    overhead_px: int | None = None
    """Edge of the view from above that replaces the camera's images, pixels; None: the camera's images."""
    plan_every: int = 6
    """Steps between predictions in flight (paper: T_d)."""
    min_count: int = 10
    """A word outside the dictionary is a term if it occurs at least this often (authors' code)."""

    def __post_init__(self) -> None:
        check_limits(self, "plan_every min_count overhead_px", 1)
        if self.overhead_px is not None and not self.stage1.looks.is_off:
            raise ValueError(
                "looks: got random looks for views from above, expected them for the camera's pictures alone; leave "
                "out --stage1.looks"
            )

    def with_seed(self, seed: int) -> Recipe:
        """The same recipe with another seed throughout."""
        return replace(self, stage1=replace(self.stage1, seed=seed), stage2=replace(self.stage2, seed=seed))


COMPILER = "torch._inductor.compile_fx"
"""Torch's compiler, as a module."""
STAGE1, STAGE2 = "stage1.safetensors", "stage2.safetensors"
"""Weights of the stages, in a run's folder."""


def untrained(recipe: Recipe, vocabulary: Vocabulary) -> tuple[VisitationModel, ExecutionModel]:
    """Both stages as training begins."""
    torch.manual_seed(recipe.stage1.seed)
    model = VisitationModel(
        VisitationConfig(
            num_words=len(vocabulary), grid=recipe.grid, camera=recipe.camera,
            uses_instruction=recipe.uses_instruction, overhead_px=recipe.overhead_px, **asdict(recipe.sizes),
        )
    )  # fmt: skip
    torch.nn.init.constant_(model.heads.mentioned.bias, recipe.stage1.mentioned_log_odds)
    return model, ExecutionModel(replace(recipe.execution, grid=recipe.grid, num_parts=recipe.sizes.num_parts))


def _train_stage1(
    model: VisitationModel,
    share: CorpusShare,
    vocabulary: Vocabulary,
    recipe: Recipe,
    folder: Path,
    device: torch.device,
    is_resumed: bool,
    watch: OnStageProgress,
    compiled: Sequence[Future[None]] = (),
) -> dict[str, Any]:
    """Train stage 1; how long each phase took, and how well it predicts on the dev split.

    compiled: as in `train_pvn`.
    """
    config, began = recipe.stage1, time.perf_counter()
    events = parallel.gathered(count_events(share.corpus["train"], vocabulary))
    alignment = align_counted(functools.reduce(operator.add, events), vocabulary)

    def fly_oracle(segments: Sequence[Segment], frame_every: int) -> Demonstrations:
        return demonstrate(
            [segment.demonstration for segment in segments], vocabulary, alignment,
            plan_every=config.predict_every, frame_every=frame_every, device=device,
            config=SimulatorConfig(camera=recipe.camera), oracle=config.oracle, overhead_px=recipe.overhead_px,
        )  # fmt: skip

    read = training_segments(share.corpus["train"], recipe.text)
    train_set = fly_oracle(read, config.frame_every)
    if parallel.num_processes() > 1:
        from pvn.learning.shares import order_of, with_others

        train_set = with_others(train_set, order_of(read, share))
    has_dev = share.num_segments.get("dev", 0) > 0  # in all processes, though not each may have some of it
    dev = share.among_first("dev", config.measured_flights)
    dev_set = fly_oracle(dev, 1) if dev else None
    spent = {"demonstrations_s": time.perf_counter() - began}
    model.to(device)
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        importlib.import_module(COMPILER)  # waits for the thread that imports it, if there is one
        model.compile_for(*compiled_sizes(train_set, config))
    began = time.perf_counter()
    if not (is_resumed and (folder / CHECKPOINT).exists()):
        learn_words(model, train_set, config, watch=stage_progress(watch, "words"))
    spent["words_s"] = time.perf_counter() - began
    began = time.perf_counter()
    if compiled:  # meanwhile, compile what draws the pictures, and what lays their features on the map
        take_batch(train_set, select(train_set, torch.zeros(1, dtype=torch.int64)))
        accumulation.compile_for(device)
    for process in compiled:
        process.exception()  # waits; if something is wrong with the code, it is wrong here too, and said here
    measure = functools.partial(measure_stage1, model, dev_set, config) if has_dev else None
    train_stage1(
        model, train_set, config, folder, measure=measure, is_resumed=is_resumed, watch=stage_progress(watch, "stage 1")
    )
    spent["stage1_s"] = time.perf_counter() - began
    metrics: dict[str, Any] = dict(spent)
    if measure is not None:
        metrics["dev"] = measure()
    metrics |= peak_memory(device)
    return metrics


def _train_stage2(
    execution: ExecutionModel,
    segments: Sequence[Segment] | Path,
    config: Stage2Config,
    folder: Path,
    is_resumed: bool,
    watch: OnProgress = ignore_progress,
) -> float:
    """Train stage 2 and write it, both on the host; how many seconds it took.

    segments: of the training split, or the folder of a corpus, whose training split is read.
    Its networks are so small that more threads only wait for each other; and sums that do not depend on the number of
    cores give the same weights everywhere.
    """
    began = time.perf_counter()
    if isinstance(segments, Path):
        from pvn.corpus.store import read_corpus

        segments = read_corpus(segments, ("train",))["train"]
    with one_thread():
        train_stage2(execution, segments, config, folder, is_resumed=is_resumed, watch=watch)
    write_tensors(folder / STAGE2, execution.state_dict())
    return time.perf_counter() - began


@contextmanager
def _left_alone() -> Iterator[None]:
    """What is in memory is not searched for garbage, which takes a while if a corpus is there."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def stage2_beside(
    execution: ExecutionModel,
    segments: Sequence[Segment] | Path,
    config: Stage2Config,
    folder: Path,
    is_resumed: bool,
) -> Iterator[Future[float]]:
    """Stage 2, which needs no GPU and nothing of stage 1, trained and written by a process of its own.

    segments: as in `_train_stage2`; given their folder, the process reads them itself, and this one need not send them.
    The result is how many seconds it took. Leaving the context waits for it.
    """
    from pvn.processes import process_pool

    with process_pool(1) as pool:
        # A copy, because torch shares the tensors that it sends to another process.
        yield pool.submit(_train_stage2, copy.deepcopy(execution), segments, config, folder, is_resumed)


def _share_of(corpus: Corpus | Path, index: int, count: int) -> CorpusShare:
    """One of `count` shares of the training and dev splits."""
    from pvn.corpus.shares import read_share

    if isinstance(corpus, Corpus):
        return share_of(corpus, index, count)
    return read_share(corpus, ("train", "dev"), index, count)


def train_pvn(
    corpus: Corpus | Path,
    recipe: Recipe,
    folder: Path,
    *,
    stage: Stage = "all",
    device: str | torch.device = "cpu",
    is_resumed: bool = False,
    watch: OnStageProgress = ignore_stage_progress,
    compiled: Sequence[Future[None]] = (),
) -> PVN:
    """Train PVN on the training split; checkpoints and weights go to `folder`, and the agent once both stages exist.

    corpus: in memory, or its folder. Of a folder, each of several processes reads its share, and the process that
    trains stage 2 all of the training split. compiled: what `compiled_beside` gives, to be waited for before stage 1 is
    compiled here.
    """
    from pvn.learning.agent import save_agent
    from pvn.model.pvn import PVN
    from pvn.simulator.simulator import checked_device
    from pvn.systems import AGENT_FILE

    device = checked_device(device)  # now, and not after stage 2 has been trained beside a stage 1 that cannot be
    num_processes = parallel.num_processes()
    share = _share_of(corpus, parallel.rank(), num_processes)
    if not all(parallel.gathered(len(share.corpus["train"]) > 0)):
        raise ValueError(
            f"processes: got {num_processes}, but the training split has fewer environments; start fewer processes"
        )
    counts = count_words(segment.task.instruction for segment in share.corpus["train"])
    vocabulary = Vocabulary.from_counts(sum(parallel.gathered(counts), Counter()), min_count=recipe.min_count)
    model, execution = untrained(recipe, vocabulary)
    metrics: dict[str, Any] = {}
    first, second = folder / STAGE1, folder / STAGE2
    # With a GPU, the host has nothing else to do during stage 1.
    is_beside = stage == "all" and device.type == "cuda" and num_processes == 1
    lessons = (recipe.stage2, folder, is_resumed)
    segments = corpus if isinstance(corpus, Path) else corpus["train"]
    with _left_alone(), stage2_beside(execution, segments, *lessons) if is_beside else nullcontext() as beside:
        if stage in ("1", "all"):
            metrics |= _train_stage1(model, share, vocabulary, recipe, folder, device, is_resumed, watch, compiled)
            if parallel.rank() == 0:
                write_tensors(first, model.state_dict())
        if beside is not None:
            metrics["stage2_s"] = beside.result()
    if stage in ("2", "all") and not is_beside and parallel.rank() == 0:
        # This process alone trains it, on segments of all shares.
        segments = share.corpus["train"] if num_processes == 1 else segments
        metrics["stage2_s"] = _train_stage2(execution, segments, *lessons, watch=stage_progress(watch, "stage 2"))
    if stage == "2" and first.exists():
        load_weights(model, read_tensors(first), first)
    if (stage == "1" or is_beside) and second.exists():
        load_weights(execution, read_tensors(second), second)
    agent = PVN(model.to(device), execution.to(device), vocabulary, plan_every=recipe.plan_every)
    if parallel.rank() == 0:
        origin = {
            "recipe": asdict(recipe),
            "corpus": share.corpus.name,
            "segments": share.num_segments["train"],
            **metrics,
        }
        write_json(folder / "training.json", origin)
        if first.exists() and second.exists():  # an agent with only one trained stage would fly badly
            save_agent(agent, folder / AGENT_FILE, origin)
    return agent
