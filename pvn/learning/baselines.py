"""From a corpus to a learned baseline: vocabulary, alignment, words, imitation, DAggerFM, and what is written then."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch

from pvn.corpus.alignment import align
from pvn.corpus.segments import Corpus, Split
from pvn.corpus.vocabulary import Vocabulary
from pvn.learning.agent import save_agent
from pvn.learning.checkpoint import write_json
from pvn.learning.dagger import train_dagger, uncompiled
from pvn.learning.demonstrations import Demonstrations, batch_limits, demonstrate
from pvn.learning.imitation import CHECKPOINT, ImitationConfig, imitate, measure_imitation
from pvn.learning.optimisation import peak_memory
from pvn.learning.stage1 import Stage1Config, learn_words
from pvn.learning.training import Watch
from pvn.model.chaplot import Chaplot, ChaplotConfig, ChaplotModel
from pvn.model.gsmn import GSMN, GSMNConfig, GSMNModel
from pvn.simulator.simulator import SimulatorConfig

Baseline = Literal["gsmn", "chaplot"]


def fresh_baseline(system: Baseline, vocabulary: Vocabulary, config: ImitationConfig) -> GSMN | Chaplot:
    """A baseline that has learned nothing."""
    torch.manual_seed(config.seed)
    match system:
        case "gsmn":
            sizes = GSMNConfig(num_words=len(vocabulary), grid=config.grid, camera=config.camera)
            return GSMN(GSMNModel(sizes), vocabulary)
        case "chaplot":
            return Chaplot(ChaplotModel(ChaplotConfig(num_words=len(vocabulary), camera=config.camera)), vocabulary)


def train_baseline(
    corpus: Corpus,
    system: Baseline,
    config: ImitationConfig,
    folder: Path,
    *,
    device: str | torch.device = "cpu",
    is_resumed: bool = False,
    watch: Watch = lambda what, step, num_steps, figures: None,
) -> GSMN | Chaplot:
    """Train on the training split; checkpoints and the agent go to `folder`."""
    device, began = torch.device(device), time.perf_counter()
    segments = corpus["train"]
    texts = (segment.task.instruction for segment in segments)
    vocabulary = Vocabulary.from_texts(texts, min_count=config.min_count)
    alignment = align(segments, vocabulary)

    def show(split: Split, count: int | None) -> Demonstrations:
        tasks = [segment.task for segment in corpus[split]][:count]
        simulator = SimulatorConfig(camera=config.camera)
        return demonstrate(tasks, vocabulary, alignment, plan_every=1, device=device, config=simulator)

    def watched(what: str) -> Callable[[int, int, dict[str, float]], None]:
        return lambda step, num_steps, figures: watch(what, step, num_steps, figures)

    shown = show("train", None)
    held = show("dev", config.measured_flights) if "dev" in corpus.splits else None
    figures: dict[str, Any] = {"demonstrations_s": time.perf_counter() - began}
    agent = fresh_baseline(system, vocabulary, config)
    model = agent.model.to(device)
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        model.compile_for(batch_limits(shown, config.frames_per_batch).frames)
    began = time.perf_counter()
    if isinstance(model, GSMNModel) and not (is_resumed and (folder / CHECKPOINT).exists()):
        words = Stage1Config(word_steps=config.word_steps, seed=config.seed)
        model.train()  # making the policy has put it to flying
        learn_words(model, shown, words, watch=watched("words"))
    imitate(model, shown, config, folder, held=held, is_resumed=is_resumed, watch=watched("imitation"))
    figures["imitation_s"] = time.perf_counter() - began
    began = time.perf_counter()
    train_dagger(agent, segments, shown, config, folder, is_resumed=is_resumed, watch=watched("DAggerFM"))
    figures["dagger_s"] = time.perf_counter() - began
    if held is not None:
        figures["dev"] = measure_imitation(model, held, config)
    figures |= peak_memory(device)
    agent = uncompiled(agent)
    origin = {
        "recipe": asdict(config),
        "corpus": corpus.name,
        "segments": len(segments),
        **figures,
    }
    write_json(folder / "training.json", origin)
    save_agent(agent, folder / "agent.safetensors", origin)
    return agent
