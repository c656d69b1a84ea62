"""An agent on disk: weights as safetensors, and beside them a JSON file from which the agent is rebuilt."""

from __future__ import annotations

from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.learning.checkpoint import load_weights, read_json, read_tensors, write_json, write_tensors
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel

VERSION = 1


def save_agent(agent: PVN, path: Path, origin: dict[str, Any]) -> None:
    """Write `path` (.safetensors) and the JSON beside it; `origin` says how the agent came about."""
    write_tensors(
        path,
        {f"visitation.{name}": value for name, value in agent.visitation.state_dict().items()}
        | {f"execution.{name}": value for name, value in agent.execution.state_dict().items()},
    )
    content = {
        "version": VERSION,
        "visitation": asdict(agent.visitation.config),
        "execution": asdict(agent.execution.config),
        "plan_every": agent.plan_every,
        "origin": origin,
        "vocabulary": agent.vocabulary.to_json(),
    }
    write_json(path.with_suffix(".json"), content)


def load_agent(path: Path | str, device: str | torch.device = "cpu") -> PVN:
    """The agent whose weights are in `path`."""
    path = Path(path)
    content, tensors = read_json(path.with_suffix(".json")), read_tensors(path)
    if content.get("version") != VERSION:
        raise ValueError(f"{path}: got version {content.get('version')!r}, expected {VERSION}; train the agent again")
    try:
        seen, flown = dict(content["visitation"]), dict(content["execution"])
        grid, camera = MapGrid(**seen.pop("grid")), Camera(**seen.pop("camera"))
        visitation = VisitationModel(VisitationConfig(**seen, grid=grid, camera=camera))
        execution = ExecutionModel(ExecutionConfig(**(flown | {"grid": MapGrid(**flown["grid"])})))
        vocabulary, plan_every = Vocabulary.from_json(content["vocabulary"]), int(content["plan_every"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path.with_suffix('.json')}: not the description of an agent ({error})") from None
    for prefix, module in (("visitation.", visitation), ("execution.", execution)):
        part = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        load_weights(module, part, path)
    return PVN(visitation.to(device), execution.to(device), vocabulary, plan_every=plan_every)


def shipped_agent(device: str | torch.device = "cpu") -> PVN:
    """The trained agent in the package."""
    with resources.as_file(resources.files("pvn") / "weights") as folder:
        return load_agent(folder / "pvn.safetensors", device)
