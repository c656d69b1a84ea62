"""Options that several verbs share, each with one name, one type and one error message."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec

from pvn.systems import AGENT_FILE, SYSTEMS, TRAINED

Device = Literal["cpu", "cuda"]
Look = Literal["own", "mujoco", "pybullet"]
SPLITS = ("train", "dev", "test")
SOURCES = ("phrases", "natural", "narrated", "lani")


def _known(text: str, names: Sequence[str], others: str = "") -> str:
    """The text, if it is a known name; otherwise a ValueError that suggests the nearest. others: what else would do."""
    if text in names:
        return text
    near = difflib.get_close_matches(text, names, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"got {text!r}, expected one of {', '.join(names)}{others}{hint}")


def _agent(text: str) -> str:
    """The name of a system, or the path of an agent's file, which must exist."""
    path = Path(text)
    if text not in SYSTEMS and path.suffix == ".safetensors":
        if not path.is_file():
            raise ValueError(f"got {text}, but there is no such file; expected an agent written by `pvn train`")
        return text
    if text not in SYSTEMS and (path / AGENT_FILE).is_file():
        raise ValueError(f"got the folder {text}, expected the file of the agent in it: {path / AGENT_FILE}")
    return _known(text, tuple(SYSTEMS), " or an agent's .safetensors file")


def _field(text: str) -> int | Path:
    """The number of a random field, or the path of a LANI environment file, which must exist."""
    try:
        number = int(text)
    except ValueError:
        if not Path(text).is_file():
            raise ValueError(
                f"got {text}, but there is no such file; expected the number of a random field, or a LANI environment "
                "file (random_config_N.json)"
            ) from None
        return Path(text)
    if number < 0:
        raise ValueError(f"got {number}, expected 0 or more, or a LANI environment file (random_config_N.json)")
    return number


def _option(metavar: str, parse: Callable[[str], Any]) -> PrimitiveConstructorSpec[Any]:
    """An option of one word, which `parse` turns into its value or refuses with a ValueError."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: parse(words[0]),
        is_instance=lambda value: value is not None,
        str_from_instance=lambda value: [str(value)],
    )


def _several(metavar: str, parse: Callable[[str], Any]) -> PrimitiveConstructorSpec[Any]:
    """An option of several words, each of which `parse` turns into a value or refuses."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{metavar} [...]",
        instance_from_str=lambda words: tuple(map(parse, words)),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda value: list(map(str, value)),
    )


_SYSTEM_NAMES = f"{{{','.join(SYSTEMS)}}}"
_PAPER_SYSTEMS = tuple(name for name, system in SYSTEMS.items() if system.paper)


Split = Annotated[Literal["train", "dev", "test"], _option("{train,dev,test}", lambda text: _known(text, SPLITS))]
Source = Annotated[
    Literal["phrases", "natural", "narrated", "lani"],
    _option(f"{{{','.join(SOURCES)}}}", lambda text: _known(text, SOURCES)),
]
LeftOut = Annotated[tuple[Literal["natural"], ...], _several("{natural}", lambda text: _known(text, ("natural",)))]
"""What the bundled corpus is made without."""
AgentName = Annotated[str, _option(f"{_SYSTEM_NAMES}|FILE", _agent)]
"""Who flies: a system, or an agent's .safetensors file."""
AgentNames = Annotated[tuple[str, ...], _several(f"{_SYSTEM_NAMES}|FILE", _agent)]
"""Who flies, where several may."""
TrainedName = Annotated[str, _option(f"{{{','.join(TRAINED)}}}", lambda text: _known(text, TRAINED))]
"""A system that is trained."""
PaperSystemNames = Annotated[
    tuple[str, ...], _several(f"{{{','.join(_PAPER_SYSTEMS)}}}", lambda text: _known(text, _PAPER_SYSTEMS))
]
"""Systems of the results table."""
SegmentNames = Annotated[tuple[str, ...], arg(metavar="ID [ID ...]")]
"""Which segments: numbers in a tour, or ids in a corpus."""
FieldName = Annotated[int | Path, _option("NUMBER|FILE", _field)]
"""Where: a random field by its number, or the field in a LANI environment file."""


def print_json(report: object) -> None:
    """One JSON object on standard output."""
    print(json.dumps(report, indent=2))


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Wraps imports that need an extra; where it is not installed, the error says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "pvn":  # our own fault, not a missing extra
            raise
        raise ValueError(f'{error.name} is not installed; install it with: pip install "pvn-drone[{extra}]"') from None
