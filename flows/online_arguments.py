"""What `hindcast train-online` takes besides a recipe. Imports nothing heavy."""

from argparse import ArgumentParser
from collections.abc import Callable

from pipeline.storage.location import location


def add_online_arguments(
    parser: ArgumentParser, *, positive: Callable[[str], int], not_negative: Callable[[str], int]
) -> None:
    """Agent, how long, from where."""
    parser.add_argument(
        "--agent", metavar="NAME", help="one of the agents above (default: the recipe's)"
    )
    parser.add_argument(
        "--iterations", type=positive, metavar="N",
        help="batches of trajectories (default: the recipe's)",
    )  # fmt: skip
    parser.add_argument("--seed", type=not_negative, metavar="S", help="of all draws (default 0)")
    parser.add_argument(
        "--seeds", type=not_negative, nargs="+", metavar="S",
        help="train once with each of these seeds, into DIR/runs",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="start", type=location, metavar="CHECKPOINT",
        help="folder of a checkpoint to go on from, of behaviour_cloning or of the same agent, say",
    )  # fmt: skip
    parser.add_argument(
        "--imitate", type=location, metavar="DATASET",
        help="folder of a dataset whose best behaviours the agent imitates before it plays",
    )  # fmt: skip
    parser.add_argument(
        "--imitate-steps", type=positive, metavar="N",
        help="gradient steps, or generations, of that (default: the recipe's, or 2000)",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda"),
        help="auto (default) is a GPU where there is one; episodes are played on the CPU",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint-every", type=positive, metavar="N",
        help="keep a checkpoint every N iterations below DIR/checkpoints",
    )  # fmt: skip
