"""Reading an agent: its weights, a safetensors file, and the JSON file beside it from which it is rebuilt."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load

from pvn.corpus.vocabulary import Vocabulary
from pvn.files import json_digest
from pvn.learning.checkpoint import ADVICE, AGENT_VERSION, DESCRIPTION_DIGEST, load_weights, read_json
from pvn.model.agent import Agent, place_on
from pvn.model.mapping import TRAINING_ONLY

LARGEST_SETTING = 4096
"""Settings that are not sizes of the weights, such as the camera's pixels, may have at least this value."""
KEYS = {"version", "system", "landmark_classes", "sha256", "origin", "vocabulary", DESCRIPTION_DIGEST}
"""What every agent's JSON file has, beside what agents of its kind say of themselves."""


def _check_sizes(described: object, largest: int, name: str = "") -> None:
    """Refuse whole numbers in a description that are larger than any size in the weights: a network of such a size
    could ask for terabytes before it is found not to fit them.
    """
    if isinstance(described, Mapping):
        for key, value in described.items():
            if key not in ("vocabulary", "origin"):
                _check_sizes(value, largest, key)
    elif isinstance(described, int) and abs(described) > largest:
        raise ValueError(f"{name}: got {described}, expected a size that the weights have, at most {largest}")


@torch.inference_mode(mode=False)  # torch counts no changes to weights that were created in inference mode
def read_agent(
    path: Path, class_of: Callable[[object], type[Agent]], device: torch.device = torch.device("cpu")
) -> Agent:
    """The agent in a file (.safetensors). class_of: the class of a system's agent; a ValueError for an unknown one."""
    described = path.with_suffix(".json")
    content = read_json(described)
    try:
        weights = path.read_bytes()
        tensors = load(weights)
    except FileNotFoundError:
        raise FileNotFoundError(f"no file {path}; train first, or copy it there") from None
    except SafetensorError as error:
        raise ValueError(f"{path}: not a file of tensors ({error}); {ADVICE}") from None
    if content.get("version") != AGENT_VERSION:
        raise ValueError(
            f"{described}: got version {content.get('version')!r}, expected {AGENT_VERSION}; train it again"
        )
    missing = sorted(KEYS - content.keys())
    if missing:
        raise ValueError(f"{described}: not the description of an agent, it has no {missing[0]}; copy it again")
    if content["sha256"] != hashlib.sha256(weights).hexdigest():
        raise ValueError(
            f"{path}: not the weights that {described.name} was written for, or changed since; copy both files again, "
            "or train again"
        )
    if content[DESCRIPTION_DIGEST] != json_digest(content, without=DESCRIPTION_DIGEST):
        raise ValueError(f"{described}: changed since it was written; copy both files again, or train again")
    try:
        _check_sizes(content, max(LARGEST_SETTING, *(max(value.shape, default=0) for value in tensors.values())))
        loaded = class_of(content["system"]).rebuild(content, Vocabulary.from_json(content["vocabulary"]))
        unknown = sorted(content.keys() - KEYS - loaded.describe().keys())
        if unknown:
            raise ValueError(f"got an unknown name, {unknown[0]!r}")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise ValueError(
            f"{described}: not the description of the agent in {path.name} ({error}); copy both files again, or train "
            "again"
        ) from None
    for part, network in loaded.networks.items():
        own = {name.removeprefix(f"{part}."): value for name, value in tensors.items() if name.startswith(f"{part}.")}
        load_weights(network, own, path, optional=TRAINING_ONLY)
        place_on(device, network)
    return loaded
