"""The command line: one frozen dataclass for each verb, which is its options, its help and its defaults at once.

Nothing heavy is imported before a verb runs, so that help is there at once.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, configure, subcommand

from pvn.cli.benches import Bench
from pvn.cli.corpora import Corpus
from pvn.cli.demonstrating import Demo
from pvn.cli.drawing import Figure
from pvn.cli.evaluating import Evaluate
from pvn.cli.flying import Fly, Show
from pvn.cli.reproducing import Reproduce
from pvn.cli.serving import Serve
from pvn.cli.training import Train

Verb = (
    Annotated[Fly, subcommand("fly", prefix_name=False)]
    | Annotated[Demo, subcommand("demo", prefix_name=False)]
    | Annotated[Show, subcommand("show", prefix_name=False)]
    | Annotated[Figure, subcommand("figure", prefix_name=False)]
    | Annotated[Corpus, subcommand("corpus", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Evaluate, subcommand("evaluate", prefix_name=False)]
    | Annotated[Reproduce, subcommand("reproduce", prefix_name=False)]
    | Annotated[Serve, subcommand("serve", prefix_name=False)]
    | Annotated[Bench, subcommand("bench", prefix_name=False)]
)


def main(arguments: list[str] | None = None) -> None:
    """Run the verb on the command line; what a user can mend is said in one line, without a traceback."""
    parse: Any = tyro.cli  # a union of verbs is no type to mypy
    verb = parse(
        configure(OmitArgPrefixes, OmitSubcommandPrefixes)(Verb),  # type: ignore[type-var]
        prog="pvn",
        description="Fly a quadcopter by language.",
        args=arguments,
    )
    try:
        verb.run()
    except (ValueError, OSError) as error:
        print(f"pvn: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("pvn: interrupted; files are written whole or not at all", file=sys.stderr)
        raise SystemExit(130) from None
