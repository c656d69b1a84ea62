"""The command line: one frozen dataclass for each verb, which holds its options, their help and their defaults.

Nothing heavy is imported before a verb runs, so help appears at once.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro
from tyro.conf import DisallowNone, FlagCreatePairsOff, OmitArgPrefixes, OmitSubcommandPrefixes, configure, subcommand

from pvn.cli.connect import Connect
from pvn.cli.corpus import CorpusVerb
from pvn.cli.demo import Demo
from pvn.cli.evaluate import Evaluate
from pvn.cli.figure import FigureVerb
from pvn.cli.fly import Fly
from pvn.cli.reproduce import Reproduce
from pvn.cli.serve import Serve
from pvn.cli.show import Show
from pvn.cli.train import Train, train

Verb = (
    Annotated[Fly, subcommand("fly", prefix_name=False)]
    | Annotated[Demo, subcommand("demo", prefix_name=False)]
    | Annotated[Show, subcommand("show", prefix_name=False)]
    | Annotated[FigureVerb, subcommand("figure", prefix_name=False)]
    | Annotated[CorpusVerb, subcommand("corpus", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Evaluate, subcommand("evaluate", prefix_name=False)]
    | Annotated[Reproduce, subcommand("reproduce", prefix_name=False)]
    | Annotated[Connect, subcommand("connect", prefix_name=False)]
    | Annotated[Serve, subcommand("serve", prefix_name=False)]
)


def _version() -> str:
    """One line with the versions that a bug report needs."""
    import platform
    from importlib.metadata import version

    import pvn

    return (
        f"pvn {pvn.__version__} (Python {platform.python_version()}, torch {version('torch')}, {platform.platform()})"
    )


def _run(arguments: Sequence[str]) -> None:
    """Parse the command line and run its verb."""
    if list(arguments) == ["--version"]:
        print(_version())
        return
    if arguments and arguments[0] == "train":  # its options depend on the agent and the preset
        train(list(arguments[1:]))
        return
    parse: Any = tyro.cli  # mypy does not take a union of verbs for a type
    verb = parse(
        configure(OmitArgPrefixes, OmitSubcommandPrefixes, FlagCreatePairsOff, DisallowNone)(Verb),  # type: ignore[type-var]
        prog="pvn",
        description="Fly a quadcopter by language. `pvn --version` prints the version.",
        args=arguments,
    )
    verb.run()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb; an error that the user can fix is one line, without a traceback."""
    # Otherwise Python looks through all objects several times on its way out: half a second, once torch is imported.
    atexit.unregister(gc.freeze)  # once, however often this is called
    atexit.register(gc.freeze)
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
    except BrokenPipeError:  # the reader of the output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except (ValueError, OSError) as error:
        print(f"pvn: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("pvn: interrupted; every file is either complete or absent", file=sys.stderr)
        raise SystemExit(130) from None
