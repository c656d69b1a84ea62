"""Checkpoints: tensors as safetensors, with a JSON file to rebuild the model; written atomically."""

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
from pvn.files import replacing

CHECKSUM = "sha256"
"""Name of the checksum in a file's metadata."""
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
    """Write tensors by name, with a checksum."""
    own = _on_host(tensors)
    with replacing(path) as partial:
        partial.write_bytes(save(own, metadata={CHECKSUM: _checksum(own)}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, on the host; if it has a checksum, as earlier versions' have not, they agree with it."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}; train first, or copy it there") from None
    except SafetensorError as error:
        raise ValueError(f"{path}: not a file of tensors ({error}); {ADVICE}") from None
    metadata.pop("format", None)  # what other programs write
    unknown = sorted(metadata.keys() - {CHECKSUM})
    if unknown:  # perhaps the name of the checksum, damaged
        raise ValueError(f"{path}: got metadata named {unknown[0]!r}, expected {CHECKSUM!r} alone; {ADVICE}")
    if metadata and metadata[CHECKSUM] != _checksum(tensors):
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
    """Load all tensors into a module, except those whose names begin with an optional prefix."""
    try:
        kept = {name: value for name, value in module.state_dict().items() if optional and name.startswith(optional)}
        given = {name: value for name, value in tensors.items() if not (optional and name.startswith(optional))}
        module.load_state_dict(given | kept)
    except RuntimeError as error:
        described = path.with_suffix(".json").name
        raise ValueError(
            f"{path}: does not fit the model ({error}); {described} beside it belongs to other weights"
        ) from None


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: list[str]) -> dict[str, Tensor]:
    """The optimizer's running averages by parameter name."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    tensors = {}
    for name, parameter in zip(names, parameters, strict=True):
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = torch.as_tensor(value)
    return tensors


def load_optimizer(optimizer: torch.optim.Optimizer, names: list[str], tensors: Mapping[str, Tensor]) -> None:
    """Restore the optimizer's running averages, saved by `optimizer_tensors`."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for name, parameter in zip(names, parameters, strict=True):
        step = tensors[f"step.{name}"]
        # Files know no memory format; a fused optimizer needs that of the parameter, which on a GPU is channels last.
        averages = {
            key: torch.empty_like(parameter, requires_grad=False).copy_(tensors[f"{key}.{name}"])
            for key in ("exp_avg", "exp_avg_sq")
        }
        optimizer.state[parameter] = {
            "step": step.to(parameter.device) if optimizer.defaults.get("fused") else step,
            **averages,
        }
