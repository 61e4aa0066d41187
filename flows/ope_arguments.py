"""The options of `hindcast ope`; imports nothing heavy."""

import argparse
from collections.abc import Callable


def add_ope_arguments(
    parser: argparse.ArgumentParser,
    *,
    positive: Callable[[str], int],
    not_negative: Callable[[str], int],
) -> None:
    """Everything but the dataset and --out."""
    parser.add_argument(
        "--policy", dest="policies", action="extend", nargs="+", default=[], metavar="POLICY",
        help="names of policies or folders of checkpoints (default: the recipe's policies)",
    )  # fmt: skip
    parser.add_argument(
        "--split", default="validation", help="whose episodes are weighted (default validation)"
    )
    parser.add_argument(
        "--epsilon", type=float, metavar="E",
        help="exploration of the evaluated policies (default: the log's own rules')",
    )  # fmt: skip
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="T",
        help="softmax temperature of their scores (default 0: the best score)",
    )  # fmt: skip
    parser.add_argument(
        "--estimators", nargs="+", metavar="NAME", help="some of those above (default: all)"
    )
    parser.add_argument(
        "--propensities", choices=("mixture", "logged"), default="mixture",
        help="of the mixture of a window's behaviours (default), or of the one that decided",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=positive, default=100_000, metavar="N",
        help="decisions to read of a split, whole windows (default 100000)",
    )  # fmt: skip
    parser.add_argument(
        "--fqe-steps", type=positive, default=1500, metavar="N",
        help="gradient steps of fitted Q evaluation per policy (default 1500)",
    )  # fmt: skip
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S", help="of all draws")
    parser.add_argument("--no-truth", action="store_true", help="do not simulate the policies")
