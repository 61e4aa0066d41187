"""The command line as argparse sees it. Imports nothing heavy: --help must be instant."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from flows.whole_numbers import not_negative as _not_negative
from flows.whole_numbers import positive as _positive
from pipeline.errors import InputError, did_you_mean, unknown_name
from pipeline.exports import EXPORTS
from pipeline.storage.location import location
from policies.offline import AGENTS
from policies.online import ONLINE_AGENTS

DESCRIPTION: Final = """\
Learn cluster schedulers from history: from a trace to a dataset of decisions, to trained agents,
to a report that says whether they beat the rules that you have."""

EPILOG: Final = """\
example:
  hindcast run binpack-synthetic-v1 --out demo

Folders may be URLs: s3://bucket/demo, gs://, az://. Every command goes on where it was interrupted
when it is given again. Results go to stdout,
progress to stderr. Exit codes: 0 done, 1 a check failed, 2 unusable input, 130 interrupted."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are InputErrors, and which wants options in full."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print with a usage."""
        raise InputError(f"{message} (see `{self.prog} --help`)")


@dataclass(frozen=True)
class Command:
    """A subcommand: one line of help, an example, and what it takes."""

    summary: str
    example: str
    add: Callable[[Parser], None]
    details: str = ""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command line, with `command`; InputError where it is not valid."""
    parser = _parser()
    given = next((word for word in argv if not word.startswith("-")), None)
    if given is not None and given not in COMMANDS:
        raise unknown_name("command", given, COMMANDS)
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        options = [o for a in _subparser(arguments.command)._actions for o in a.option_strings]  # noqa: SLF001
        hint = f"; {did_you_mean(unknown[0], options)}" if unknown[0].startswith("-") else ""
        raise InputError(f"{arguments.command}: unexpected argument {unknown[0]!r}{hint}")
    return arguments


def _parser() -> Parser:
    parser = Parser(prog="hindcast", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.summary, **_texts(command))
        _fill(sub, command)
    return parser


def _subparser(name: str) -> Parser:
    parser = Parser(prog=f"hindcast {name}", **_texts(COMMANDS[name]))
    _fill(parser, COMMANDS[name])
    return parser


def _texts(command: Command) -> dict[str, Any]:
    description = f"{command.summary[0].upper()}{command.summary[1:]}."
    if command.details:
        description += f"\n\n{command.details}"
    return {"description": description, "epilog": f"example:\n  {command.example}"}


def _fill(parser: Parser, command: Command) -> None:
    command.add(parser)
    parser.add_argument(
        "--json", action="store_true", help="print results as JSON lines instead of text"
    )


def _add_direct(parser: Parser) -> None:
    parser.add_argument(
        "--direct", action="store_true",
        help="do the same without Prefect: starts seconds sooner, keeps no run history",
    )  # fmt: skip


def _add_out(parser: Parser, what: str) -> None:
    parser.add_argument("--out", type=location, required=True, metavar="DIR", help=what)


def _add_recipe(parser: Parser) -> None:
    parser.add_argument(
        "recipe", metavar="RECIPE", help="path of a recipe.toml, or id of a known recipe"
    )
    parser.add_argument(
        "--set", dest="overrides", action="append", default=[], metavar="SECTION.KEY=VALUE",
        help="replace a value of the recipe (TOML); may be repeated; enters the recipe's digest",
    )  # fmt: skip


def _add_workers(parser: Parser) -> None:
    parser.add_argument(
        "--workers", type=_positive, default=1, metavar="N",
        help="threads that run episodes (default 1); results do not depend on it",
    )  # fmt: skip


def _traces(_parser: Parser) -> None:
    """`traces` takes nothing."""


def _ingest(parser: Parser) -> None:
    parser.add_argument("trace_format", metavar="FORMAT", help="a format that `traces` lists")
    parser.add_argument(
        "path", type=location, metavar="PATH", help="file or folder of the raw trace"
    )
    _add_out(parser, "folder for the workload (Parquet and manifest.json)")
    _add_direct(parser)


def _build(parser: Parser) -> None:
    _add_recipe(parser)
    _add_out(parser, "folder for the dataset")
    parser.add_argument(
        "--append", action="store_true",
        help="add the recipe's episodes to the finished dataset in DIR, as new parts",
    )  # fmt: skip
    _add_workers(parser)
    _add_direct(parser)


def _verify(parser: Parser) -> None:
    parser.add_argument("dataset", type=location, metavar="DIR", help="folder of a dataset")


def _train(parser: Parser) -> None:
    parser.add_argument("dataset", type=location, metavar="DIR", help="folder of a dataset")
    parser.add_argument("--agent", metavar="NAME", help="one of the agents above")
    parser.add_argument(
        "--steps", type=_positive, metavar="N", help="gradient steps (default 2000)"
    )
    parser.add_argument("--seed", type=_not_negative, metavar="S", help="of all draws (default 0)")
    parser.add_argument(
        "--seeds", type=_not_negative, nargs="+", metavar="S",
        help="train once with each of these seeds, into DIR/runs",
    )  # fmt: skip
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="KEY=VALUE",
        help="replace a setting of the agent (TOML), network.hidden=[64] say; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--sweep", type=location, metavar="FILE",
        help="a sweep.toml: agents, seeds, and settings to try; every training that is finished "
        "in DIR/runs is left as it is",
    )  # fmt: skip
    parser.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda"),
        help="auto (default) is a GPU where there is one",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint-every", type=_positive, metavar="N",
        help="keep a checkpoint every N steps below DIR/checkpoints",
    )  # fmt: skip
    parser.add_argument(
        "--tensorboard", metavar="DIR", help="write curves for TensorBoard there, too"
    )
    _add_out(parser, "folder for the checkpoint; the best one on validation is in its best/")
    _add_direct(parser)


def _train_online(parser: Parser) -> None:
    from flows.online_arguments import add_online_arguments

    _add_recipe(parser)
    add_online_arguments(parser, positive=_positive, not_negative=_not_negative)
    _add_out(parser, "folder for the checkpoint; the best one on validation is in its best/")
    _add_workers(parser)
    _add_direct(parser)


def _evaluate(parser: Parser) -> None:
    _add_recipe(parser)
    parser.add_argument(
        "--policy", dest="policies", action="extend", nargs="+", default=[], metavar="POLICY",
        help="names of policies or folders of checkpoints (FOLDER@1 draws its choices, as in "
        "training; on multicluster FOLDER@RULE leaves the choice of the application to a rule, on "
        "binpack FOLDER@rollout looks ahead, as does rollout with the rules); "
        "may be repeated; by default the policies that the recipe names",
    )  # fmt: skip
    parser.add_argument(
        "--split", default="test", help="train, validation, test or all (default test)"
    )
    _add_out(parser, "folder for scores.parquet and evaluation.json")
    _add_workers(parser)
    _add_direct(parser)


def _report(parser: Parser) -> None:
    parser.add_argument(
        "folders", type=location, nargs="+", metavar="DIR",
        help="folders of evaluations, or of runs; their datasets and training curves are shown too",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=location, required=True, metavar="REPORT.HTML",
        help="the page, named report.html, or its folder; summary files are written beside it",
    )  # fmt: skip
    parser.add_argument(
        "--metrics", nargs="+", default=[], metavar="OUTCOME",
        help="outcomes that stand in results.csv beside the headline; all are in the report",
    )  # fmt: skip
    _add_direct(parser)


def _run(parser: Parser) -> None:
    _add_recipe(parser)
    _add_out(parser, "folder for dataset/, agents/, evaluation/ and report.html")
    _add_workers(parser)
    _add_direct(parser)


def _study(parser: Parser) -> None:
    from flows.study_arguments import add_study_arguments

    _run(parser)
    add_study_arguments(parser, positive=_positive, not_negative=_not_negative)


def _export(parser: Parser) -> None:
    parser.add_argument("dataset", type=location, metavar="DIR", help="folder of a dataset")
    parser.add_argument("--to", required=True, metavar="FORMAT", help="one of the formats above")
    parser.add_argument(
        "--out", type=location, required=True, metavar="PATH",
        help="the new folder, or the new file where the format is one",
    )  # fmt: skip
    parser.add_argument(
        "--candidates", type=_positive, metavar="K",
        help="candidates of every decision, for formats that pad (default: as many as the largest "
        "has); of more, the chosen one and K - 1 drawn at random are kept",
    )  # fmt: skip


def _ope(parser: Parser) -> None:
    from flows.ope_arguments import add_ope_arguments

    parser.add_argument("dataset", type=location, metavar="DIR", help="folder of a dataset")
    parser.add_argument(
        "--out", type=location, metavar="DIR", help="folder for estimates.parquet and ope.json"
    )
    add_ope_arguments(parser, positive=_positive, not_negative=_not_negative)


def _calibrate(parser: Parser) -> None:
    parser.add_argument("scenario", metavar="SCENARIO", help="deferrable or multicluster")
    parser.add_argument(
        "--episodes", type=_positive, metavar="N", help="episodes per row (default: the spec's)"
    )
    parser.add_argument(
        "--seed", type=_not_negative, default=0, metavar="S", help="of all draws (default 0)"
    )


def _list(parser: Parser) -> None:
    parser.add_argument(
        "folders", type=location, nargs="*", default=[Path()], metavar="DIR",
        help="folders to look through (default: this one)",
    )  # fmt: skip
    parser.add_argument(
        "--recipes", action="store_true", help="list the recipes that come with Hindcast instead"
    )


def _show(parser: Parser) -> None:
    parser.add_argument("folder", type=location, metavar="DIR", help="folder that `list` lists")


def _diff(parser: Parser) -> None:
    parser.add_argument("a", type=location, metavar="A", help="folder of a dataset")
    parser.add_argument("b", type=location, metavar="B", help="folder of another")


COMMANDS: Final[Mapping[str, Command]] = {
    "traces": Command(
        "list the known trace formats: where to get them, on which terms, how to cite them",
        "hindcast traces",
        _traces,
    ),
    "ingest": Command(
        "turn a raw trace into a workload, and count what was left out",
        "hindcast ingest alibaba2017 traces/batch_task.csv --out workloads/alibaba",
        _ingest,
    ),
    "build": Command(
        "build the dataset of a recipe",
        "hindcast build binpack-synthetic-v1 --out datasets/demo --workers 2",
        _build,
        "An interrupted build goes on where it stopped and ends in the same bytes. With --append\n"
        "the recipe may have other behaviours, episodes and windows than what is there, but must\n"
        "be of the same problem; what is there is not touched.",
    ),
    "verify": Command(
        "recompute every claim of a dataset's manifest",
        "hindcast verify datasets/demo",
        _verify,
        "Exits with 1 and the reason on the first claim that does not hold.",
    ),
    "train": Command(
        "train an offline agent on a dataset",
        "hindcast train datasets/demo --agent trajectory_preference --steps 1500 --out agents/tp",
        _train,
        "agents:\n" + "\n".join(f"  {a.name:<22}{a.description}" for a in AGENTS.values()),
    ),
    "train-online": Command(
        "train an online agent: it plays the train windows of a recipe",
        "hindcast train-online slots-deeprm-online --out agents/deeprm --workers 2",
        _train_online,
        "Its settings are those of the recipe's [online.settings]; replace one with\n"
        "--set online.settings.sampling.trajectories=20, say.\n\n"
        "agents:\n" + "\n".join(f"  {a.name:<22}{a.description}" for a in ONLINE_AGENTS.values()),
    ),
    "evaluate": Command(
        "score policies and checkpoints on windows of a recipe",
        "hindcast evaluate binpack-synthetic-v1 --policy tetris agents/tp --out evaluations/demo",
        _evaluate,
    ),
    "report": Command(
        "write one HTML page about evaluations",
        "hindcast report evaluations/demo --out report.html",
        _report,
        "The last line of the output is the path of the page.",
    ),
    "ope": Command(
        "estimate from a dataset what policies would earn, beside what they earn in the simulator",
        "hindcast ope demo/dataset --policy tetris agents/tp --out demo/ope",
        _ope,
        "estimators: is snis pdis snpdis (importance sampling), dm (fitted Q), dr wdr (both),\n"
        "mwl (marginal weights), paired_is paired_snis tempered (inside a window).\n"
        "Estimates with a ! come with warnings; with --out a call goes on where it stopped.",
    ),
    "calibrate": Command(
        "print a scenario's calibration table beside the paper's numbers",
        "hindcast calibrate multicluster --episodes 50",
        _calibrate,
        "Where a published system's settings are not told, ours were fitted; this shows how well.",
    ),
    "export": Command(
        "write a dataset in the format of another tool",
        "hindcast export demo/dataset --to huggingface --out demo/huggingface",
        _export,
        "formats:\n" + "\n".join(f"  {e.name:<14}{e.description}" for e in EXPORTS.values()),
    ),
    "list": Command(
        "list the datasets, evaluations, checkpoints and runs below folders",
        "hindcast list demo",
        _list,
        "Sizes, digests and levels; what is damaged is listed with the reason.",
    ),
    "show": Command(
        "show a dataset, or what else `list` lists, in detail",
        "hindcast show demo/dataset",
        _show,
    ),
    "diff": Command(
        "say what differs between two datasets, from the recipe to the bytes",
        "hindcast diff demo/dataset other/dataset",
        _diff,
        "Exits with 1 where anything differs.",
    ),
    "study": Command(
        "train agents on several logs of one problem: what does their quality change?",
        "hindcast study slots-deeprm-v1 --agents cql --vary windows --values 20 200 --out study",
        _study,
    ),
    "run": Command(
        "do all of it: build, verify, train, evaluate, report",
        "hindcast run binpack-synthetic-v1 --out demo --workers 2",
        _run,
        "Given again it goes on where it stopped. The last line is the path of the report.",
    ),
}


def print_help() -> str:
    """The help text of `hindcast`."""
    return _parser().format_help()
