"""Arguments of `hindcast study`. Imports nothing heavy."""

import argparse
from collections.abc import Callable
from typing import Any


def add_study_arguments(
    parser: argparse.ArgumentParser,
    positive: Callable[[str], int],
    not_negative: Callable[[str], int],
) -> None:
    """What is varied, and who is trained on it."""
    parser.add_argument("--agents", nargs="+", required=True, metavar="NAME", help="who is trained")
    parser.add_argument(
        "--vary", required=True, choices=("level", "windows", "epsilon"),
        help="level of the behaviours, number of train windows, or epsilon of all behaviours",
    )  # fmt: skip
    parser.add_argument(
        "--values", nargs="+", default=[], metavar="VALUE",
        help="one point each: 6 24, 0 0.2, random mixed (default: all levels that there are)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=not_negative, nargs="+", default=[0], metavar="S", help="of the trainings"
    )
    parser.add_argument(
        "--steps", type=positive, metavar="N", help="gradient steps (default: the recipe's)"
    )


def study_parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parameters of the flow that these arguments give."""
    return {
        "agents": tuple(arguments.agents),
        "vary": arguments.vary,
        "values": tuple(arguments.values),
        "seeds": tuple(arguments.seeds),
        "steps": arguments.steps,
        "workers": arguments.workers,
        "command": arguments.line,
    }
