"""An agent on disk: weights as safetensors, and beside them a JSON file from which the agent is rebuilt."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pvn.corpus.vocabulary import Vocabulary
from pvn.geometry import Camera, MapGrid
from pvn.learning.checkpoint import load_weights, read_json, read_tensors, tensor_bytes, write_bytes, write_json
from pvn.model.chaplot import Chaplot, ChaplotConfig, ChaplotModel
from pvn.model.execution import ExecutionConfig, ExecutionModel
from pvn.model.gsmn import GSMN, GSMNConfig, GSMNModel
from pvn.model.pvn import PVN
from pvn.model.visitation import VisitationConfig, VisitationModel
from pvn.simulator.simulator import checked_device

VERSION = 1

Agent = PVN | GSMN | Chaplot


def _parts(agent: Agent) -> dict[str, nn.Module]:
    """Its networks, by the names they have in the files."""
    if isinstance(agent, PVN):
        return {"visitation": agent.visitation, "execution": agent.execution}
    return {"model": agent.model}


def _description(agent: Agent) -> dict[str, Any]:
    """What rebuilds an agent, beside its weights and its vocabulary."""
    match agent:
        case PVN():
            return {
                "system": "pvn",
                "visitation": asdict(agent.visitation.config),
                "execution": asdict(agent.execution.config),
                "plan_every": agent.plan_every,
            }
        case GSMN():
            return {"system": "gsmn", "model": asdict(agent.model.config)}
        case Chaplot():
            return {"system": "chaplot", "model": asdict(agent.model.config)}


def _digest(weights: bytes) -> str:
    """A file that was cut short or changed, or that is beside another's JSON, has another one."""
    return hashlib.sha256(weights).hexdigest()


def save_agent(agent: Agent, path: Path, origin: dict[str, Any]) -> None:
    """Write `path` (.safetensors) and the JSON beside it; `origin` says how the agent came about."""
    tensors = {
        f"{part}.{name}": value for part, module in _parts(agent).items() for name, value in module.state_dict().items()
    }
    weights = tensor_bytes(tensors)
    content = {
        "version": VERSION,
        **_description(agent),
        "sha256": _digest(weights),
        "origin": origin,
        "vocabulary": agent.vocabulary.to_json(),
    }
    # The weights last: where they are, the agent is whole.
    write_json(path.with_suffix(".json"), content)
    write_bytes(path, weights)


def _sizes(content: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration's fields, grid and camera as what they were."""
    kinds = {"grid": MapGrid, "camera": Camera}
    return {name: kinds[name](**value) if name in kinds else value for name, value in content.items()}


def _rebuilt(content: Mapping[str, Any], system: str) -> Agent:
    """An agent with the weights that networks begin with."""
    vocabulary = Vocabulary.from_json(content["vocabulary"])
    match system:
        case "gsmn":
            return GSMN(GSMNModel(GSMNConfig(**_sizes(content["model"]))), vocabulary)
        case "chaplot":
            return Chaplot(ChaplotModel(ChaplotConfig(**_sizes(content["model"]))), vocabulary)
        case _:
            visitation = VisitationModel(VisitationConfig(**_sizes(content["visitation"])))
            execution = ExecutionModel(ExecutionConfig(**_sizes(content["execution"])))
            return PVN(visitation, execution, vocabulary, plan_every=int(content["plan_every"]))


def load_agent(path: Path | str, device: str | torch.device = "cpu") -> Agent:
    """The agent whose weights are in `path`."""
    path, device = Path(path), checked_device(device)
    content, tensors = read_json(path.with_suffix(".json")), read_tensors(path)
    if content.get("version") != VERSION:
        raise ValueError(f"{path}: got version {content.get('version')!r}, expected {VERSION}; train the agent again")
    digest = _digest(path.read_bytes())
    if content.get("sha256", digest) != digest:  # the first agents have none
        raise ValueError(
            f"{path}: not the weights that {path.with_suffix('.json').name} was written for, or changed since; "
            "copy both files again, or train again"
        )
    system = content.get("system", "pvn")  # the first agents do not say it
    if system not in ("pvn", "gsmn", "chaplot"):
        raise ValueError(f"{path.with_suffix('.json')}: got system {system!r}, expected pvn, gsmn or chaplot")
    try:
        agent = _rebuilt(content, system)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.with_suffix('.json')}: not the description of an agent ({error})") from None
    for part, module in _parts(agent).items():
        own = {name.removeprefix(f"{part}."): value for name, value in tensors.items() if name.startswith(f"{part}.")}
        load_weights(module, own, path)
        module.to(device)
    return agent


def shipped_agent(device: str | torch.device = "cpu") -> PVN:
    """The trained agent in the package."""
    with resources.as_file(resources.files("pvn") / "weights") as folder:
        agent = load_agent(folder / "pvn.safetensors", device)
    assert isinstance(agent, PVN), agent
    return agent
