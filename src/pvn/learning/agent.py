"""An agent on disk: weights as safetensors, and beside them a JSON file from which the agent is rebuilt."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from pvn.corpus.vocabulary import Vocabulary
from pvn.files import json_digest, replacing
from pvn.learning.checkpoint import load_weights, read_json, read_tensors, tensor_bytes, write_json
from pvn.model.agent import Agent
from pvn.model.mapping import TRAINING_ONLY
from pvn.systems import SYSTEMS, TRAINED
from pvn.world.landmarks import LANDMARK_NAMES

VERSION = 1


LARGEST_SETTING = 4096
"""Settings that are not sizes of the weights, such as the camera's pixels, may have at least this value."""
DESCRIPTION_DIGEST = "description_sha256"
"""Key of the checksum of everything else in an agent's JSON file."""
OWN_KEYS = {"version", "system", "landmark_classes", "sha256", "origin", "vocabulary", DESCRIPTION_DIGEST}
"""What an agent's JSON file may have beside what the agent says of itself; earlier ones have less."""


def _digest(weights: bytes) -> str:
    """A checksum that detects weights that were truncated or changed, or that belong to another JSON file."""
    return hashlib.sha256(weights).hexdigest()


def save_agent(agent: Agent, path: Path, origin: dict[str, Any]) -> None:
    """Write `path` (.safetensors) and the JSON beside it; `origin` records how the agent was made.

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
        "version": VERSION,
        **agent.describe(),
        "landmark_classes": list(LANDMARK_NAMES),
        "sha256": _digest(weights),
        "origin": origin,
        "vocabulary": agent.vocabulary.to_json(),
    }
    # As it is read back, where pairs are lists.
    content = json.loads(json.dumps(content))
    # Neither replaces an older one unless there is room for both. The weights last: where they are, the agent is
    # complete.
    with replacing(path) as partial:
        partial.write_bytes(weights)
        write_json(
            path.with_suffix(".json"), {**content, DESCRIPTION_DIGEST: json_digest(content, without=DESCRIPTION_DIGEST)}
        )


def shipped_weights(name: str) -> Path | None:
    """The weights of a system in the package; None if it has none there."""
    path = Path(str(resources.files("pvn") / "weights" / f"{name}.safetensors"))
    return path if path.exists() else None


def shipped_names() -> list[str]:
    """The systems whose weights are in the package."""
    return [name for name in SYSTEMS if shipped_weights(name) is not None]


def _find(agent: Path | str) -> Path:
    shipped = shipped_weights(agent) if isinstance(agent, str) and agent in SYSTEMS else None
    if shipped is not None:
        return shipped
    if isinstance(agent, str) and not agent.endswith(".safetensors"):
        raise ValueError(
            f"agent: got {agent!r}, expected {', '.join(shipped_names())}, whose weights are in the package, or the "
            "path of an agent.safetensors"
        )
    return Path(agent)


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


@torch.inference_mode(mode=False)  # of weights made in inference mode, nobody could tell whether they have changed
def load_agent(agent: Path | str, device: str | torch.device = "cpu") -> Agent:
    """The agent in a file (.safetensors), or the package's of that name: "pvn-plus", "pvn", "gsmn", "chaplot"."""
    from pvn.simulator.simulator import checked_device

    path, device = _find(agent), checked_device(device)
    described = path.with_suffix(".json")
    content, tensors = read_json(described), read_tensors(path)
    if content.get("version") != VERSION:
        raise ValueError(f"{described}: got version {content.get('version')!r}, expected {VERSION}; train it again")
    digest = _digest(path.read_bytes())
    if content.get("sha256", digest) != digest:  # the first agents have none
        raise ValueError(
            f"{path}: not the weights that {described.name} was written for, or changed since; copy both files again, "
            "or train again"
        )
    described_digest = json_digest(content, without=DESCRIPTION_DIGEST)
    if content.get(DESCRIPTION_DIGEST, described_digest) != described_digest:  # earlier agents have none
        raise ValueError(f"{described}: changed since it was written; copy both files again, or train again")
    system = content.get("system", "pvn")  # the first agents do not name it
    agent_class = SYSTEMS[system].agent_class if isinstance(system, str) and system in SYSTEMS else None
    if agent_class is None:
        raise ValueError(
            f"{described}: got system {system!r}, expected one of {', '.join(TRAINED)}; load it with the "
            "version of pvn that wrote it"
        )
    try:
        _check_sizes(content, max(LARGEST_SETTING, *(max(value.shape, default=0) for value in tensors.values())))
        loaded = agent_class().rebuild(content, Vocabulary.from_json(content["vocabulary"]))
        unknown = sorted(set(content) - OWN_KEYS - set(loaded.describe()))
        if unknown:  # perhaps the name of the checksum, damaged
            raise ValueError(f"got an unknown name, {unknown[0]!r}")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise ValueError(
            f"{described}: not the description of the agent in {path.name} ({error}); copy both files again, or train "
            "again"
        ) from None
    for part, network in loaded.networks.items():
        own = {name.removeprefix(f"{part}."): value for name, value in tensors.items() if name.startswith(f"{part}.")}
        load_weights(network, own, path, optional=TRAINING_ONLY)
        network.to(device)
        if device.type == "cuda":
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return loaded
