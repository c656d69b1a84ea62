"""Files of a training: tensors as safetensors with a checksum, checkpoints, and agents; all written atomically."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from pvn import files
from pvn.files import json_digest, replacing
from pvn.learning.descent import instruction_first
from pvn.model.agent import Agent
from pvn.model.mapping import TRAINING_ONLY, InstructedModel
from pvn.world.landmarks import LANDMARK_NAMES

CHECKSUM = "sha256, version 1"
"""Name of the checksum in the metadata of files of tensors, with their version. The order of two names would be random.
"""
AGENT_VERSION = 1
DESCRIPTION_DIGEST = "description_sha256"
"""Key of the checksum of everything else in an agent's JSON file."""
ADVICE = "it is corrupt, train again or copy it again"


def _on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors by name as the content of a file."""
    return save(_on_host(tensors))


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    """Of names, types, shapes and values of tensors on the host."""
    digest = hashlib.sha256()
    for name, value in sorted(tensors.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors by name, with the version of the format and a checksum."""
    own = _on_host(tensors)
    with replacing(path) as partial:
        partial.write_bytes(save(own, metadata={CHECKSUM: _checksum(own)}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors that `write_tensors` wrote to a file, on the host."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}; train first, or copy it there") from None
    except SafetensorError as error:
        raise ValueError(f"{path}: not a file of tensors ({error}); {ADVICE}") from None
    if metadata.keys() != {CHECKSUM}:
        raise ValueError(
            f"{path}: not written by this version of pvn, or damaged: got the metadata {str(metadata)[:80]}, expected "
            f"{CHECKSUM!r}; make it again by the command that wrote it"
        )
    if metadata[CHECKSUM] != _checksum(tensors):
        raise ValueError(f"{path}: its tensors do not agree with its checksum; {ADVICE}")
    return tensors


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        content = files.read_json(path, "train again or copy it again")
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}; train first, or copy it there") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: got a JSON {type(content).__name__}, expected an object")
    return content


def load_weights(
    module: nn.Module, tensors: Mapping[str, Tensor], path: Path, *, optional: tuple[str, ...] = ()
) -> None:
    """Load tensors into a module; weights whose names begin with an optional prefix stay as they are."""
    try:
        own = {name: value for name, value in module.state_dict().items() if optional and name.startswith(optional)}
        given = {name: value for name, value in tensors.items() if not (optional and name.startswith(optional))}
        module.load_state_dict(given | own)
    except RuntimeError as error:
        described = path.with_suffix(".json").name
        raise ValueError(
            f"{path}: does not fit the model ({error}); {described} beside it belongs to other weights"
        ) from None


def _parameter_names(model: InstructedModel) -> list[str]:
    """Names of the parameters in the order of `model_optimizer`."""
    return [name for group in instruction_first(model) for name in group]


def save_training(path: Path, model: InstructedModel, optimizer: torch.optim.Optimizer, done: int) -> None:
    """Write a checkpoint after `done` steps: weights, and the running averages of a `model_optimizer`."""
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for name, parameter in zip(_parameter_names(model), parameters, strict=True):
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = torch.as_tensor(value)
    write_tensors(path, tensors | {"done": torch.tensor(done)})


def load_training(path: Path, model: InstructedModel, optimizer: torch.optim.Optimizer) -> int:
    """Restore a checkpoint of `save_training`; the number of steps done."""
    tensors = read_tensors(path)
    load_weights(model, {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}, path)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for name, parameter in zip(_parameter_names(model), parameters, strict=True):
        step = tensors[f"step.{name}"]
        # Files have no memory format; a fused optimizer needs the parameter's, which on a GPU is channels last.
        averages = {
            key: torch.empty_like(parameter, requires_grad=False).copy_(tensors[f"{key}.{name}"])
            for key in ("exp_avg", "exp_avg_sq")
        }
        optimizer.state[parameter] = {
            "step": step.to(parameter.device) if optimizer.defaults.get("fused") else step,
            **averages,
        }
    return int(tensors["done"])


def save_agent(agent: Agent, path: Path, origin: dict[str, Any]) -> None:
    """Write `path` (.safetensors) and the JSON beside it, which `load_agent` reads; origin: how the agent was made.

    Weights that are used only in training are left out.
    """
    tensors = {
        f"{part}.{name}": value
        for part, network in agent.networks.items()
        for name, value in network.state_dict().items()
        if not name.startswith(TRAINING_ONLY)
    }
    weights = tensor_bytes(tensors)
    content = {
        "version": AGENT_VERSION,
        **agent.describe(),
        "landmark_classes": list(LANDMARK_NAMES),
        "sha256": hashlib.sha256(weights).hexdigest(),
        "origin": origin,
        "vocabulary": agent.vocabulary.to_json(),
    }
    # As it is read back, where pairs are lists.
    content = json.loads(json.dumps(content))
    # Neither replaces an older file unless there is room for both. The weights come last: where they are, the agent is
    # complete.
    with replacing(path) as partial:
        partial.write_bytes(weights)
        digest = json_digest(content, without=DESCRIPTION_DIGEST)
        write_json(path.with_suffix(".json"), {**content, DESCRIPTION_DIGEST: digest})
