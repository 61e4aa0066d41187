"""Command line parsers, made from the fields of request dataclasses.

    dataset: Folder = argument("folder of a dataset")   a positional argument
    steps: Count = option("gradient steps", default=1)  --steps N
    command: str = hidden("the command line", "")       no argument, a parameter of Prefect's flow

The type of a field determines how a word is converted to a value, and its limits. The text of a
field is shown by --help, followed by the default, and as a sentence beside the parameter in the
forms of Prefect's server. This module imports nothing heavy, so that --help is instant.
"""

import argparse
import json
import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, field, fields
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NoReturn, TypeAlias, Union, get_args, get_origin

from hindcast.flows import commands
from hindcast.pipeline.errors import InputError, did_you_mean
from hindcast.pipeline.storage.location import location

DESCRIPTION: Final = """\
Learn cluster schedulers from history: from a trace to a dataset of decisions, to trained agents,
to a report that shows whether they beat the rules that you use."""

EPILOG: Final = """\
example:
  hindcast run binpack-synthetic-v1 --out demo

Folders may be URLs: s3://bucket/demo, gs://, az://. In their names, {date} is the date (UTC). An
interrupted command continues when it is run again. HINDCAST_PLUGINS names modules or files,
separated by commas, that add scenarios, agents or formats. HINDCAST_PORTABLE=1 trains with the
instructions that every x86-64 processor has, for equal weights on other processors. Results go to
stdout, progress to stderr. Exit codes: 0 success, 1 a check failed, 2 unusable input, 130
interrupted."""

DATE: Final = "{date}"  # in the path of a folder or file
SHELLS: Final = ("bash", "zsh", "fish")  # with a script in hindcast.flows.completion
_COMPLETION: Final = "--completion"
_WORDS: Final = "argument"  # key of a field's metadata: flag and settings of add_argument, or None


class Bounds:
    """Bounds of a value under their pydantic names, so that Prefect checks them too.

    `metavar` stands for the value in the help. If `place` is true, the value is a folder or file.
    """

    def __init__(self, metavar: str | None = None, *, place: bool = False, **limits: Any) -> None:
        self.metavar = metavar
        self.place = place
        self.limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """Return pydantic's schema of the annotated type with the limits."""
        schema = {**handler(source), **self.limits}
        if not self.place:
            return schema
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(_as_text, schema)


# Folders and files are text: a path or a URL, which pathlib would change.
Folder: TypeAlias = Annotated[str, Bounds("DIR", place=True, min_length=1)]
Name: TypeAlias = Annotated[str, Bounds(min_length=1)]
Override: TypeAlias = Annotated[str, Bounds("SECTION.KEY=VALUE", pattern=r"^[^=\s][^=]*=")]
Count: TypeAlias = Annotated[int, Bounds("N", ge=1)]
Draws: TypeAlias = Annotated[int, Bounds("K", ge=0, le=1000)]
Seed: TypeAlias = Annotated[int, Bounds("S", ge=0)]
Workers: TypeAlias = Annotated[int, Bounds("N", ge=1, le=1024)]
Runner: TypeAlias = Literal["local", "dask", "ray"]  # the names of hindcast.flows.runners
Device: TypeAlias = Literal["auto", "cpu", "cuda"]
Stacked: TypeAlias = Literal["auto", "yes", "no"]
Gate: TypeAlias = Literal["simulator", "folds", "lookahead", "log"]  # policies.training.delivery
OnlineGate: TypeAlias = Literal["simulator", "folds", "lookahead"]


def argument(text: str, *, default: Any = MISSING, **settings: Any) -> Any:
    """Return a field that is a positional argument; `settings` are passed to add_argument."""
    metadata = {"text": text, _WORDS: ("", settings), "read": _value}
    return field(default=default, metadata=metadata)


def option(
    text: str, *, default: Any = MISSING, flag: str = "--",
    read: Callable[[Any], Any] | None = None, **settings: Any,
) -> Any:  # fmt: skip
    """Return a field that is an option named --NAME or `flag`.

    `read` converts the words to the value if the type alone does not determine the conversion.
    """
    metadata = {"text": text, _WORDS: (flag, settings), "read": read or _value}
    return field(default=default, metadata=metadata)


def hidden(text: str, default: Any = MISSING) -> Any:
    """Return a field that is a parameter of Prefect's flow, but no argument of the command line."""
    return field(default=default, metadata={"text": text, _WORDS: None})


def sentence(text: str) -> str:
    """Return a text of the help as a sentence."""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith('?') else '.'}"


def recipe() -> Any:
    """Return the field `recipe`."""
    text = "path of a recipe.toml, or the id of a recipe that comes with Hindcast"
    return argument(text, metavar="RECIPE")


def overrides() -> Any:
    """Return the field of a request for the option --set, which replaces values of a recipe."""
    text = "value of the recipe to replace (TOML); may be repeated, enters digest and id"
    return option(text, default=(), flag="--set", action="append")


def trace() -> Any:
    """Return the field `trace`."""
    text = "trace to use, in place of the recipe's trace.path; enters the recipe's digest"
    return option(text, default=None, metavar="PATH")


def with_trace(overrides: tuple[str, ...], path: str | None) -> tuple[str, ...]:
    """Return the overrides of a recipe, with one for the path of its trace."""
    if path is None:
        return overrides
    return (*overrides, f"trace.path={json.dumps(path, ensure_ascii=False)}")


def more_policies() -> Any:
    """Return the field `policies` of commands that evaluate what they trained."""
    text = (
        "policies, folders of checkpoints and functions of your own (path/to/file.py:NAME) to "
        "score beside the recipe's; may be repeated"
    )
    return option(text, default=(), flag="--policy", action="extend", metavar="POLICY")


def workers() -> Any:
    """Return the field `workers`."""
    return option("threads that run episodes; results do not depend on their number", default=1)


def runner() -> Any:
    """Return the field `runner`."""
    text = "where the work runs: in this process, or on workers of Dask or Ray; same results"
    return option(text, default="local")


def address() -> Any:
    """Return the field `address`."""
    text = (
        "scheduler of Dask, such as tcp://10.0.0.5:8786, or cluster of Ray, such as "
        "ray://10.0.0.5:10001, to use; else --workers processes here"
    )
    return option(text, default="", metavar="ADDRESS")


class Parser(argparse.ArgumentParser):
    """ArgumentParser that raises InputError and accepts no abbreviated options."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        """Raise InputError with the message that argparse would print."""
        raise InputError(f"{message} (see `{self.prog} --help`)")


def read_request(request: type, arguments: argparse.Namespace, **others: Any) -> Any:
    """Return the request of the arguments; `others` are values of fields that have no argument."""
    values = dict(others)
    for attribute in fields(request):
        if attribute.name == "command":
            values[attribute.name] = arguments.line
        elif attribute.metadata[_WORDS] is not None and hasattr(arguments, attribute.name):
            values[attribute.name] = attribute.metadata["read"](getattr(arguments, attribute.name))
    return request(**values)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line. Raises InputError if it is not valid.

    In the namespace, `command` is the name of the command or None, `line` is the command line as
    text, and `read` is the function that makes the command's request from the namespace.
    """
    after = 2 if argv[:1] == [_COMPLETION] else 0  # its value is no command
    at = next((i for i in range(after, len(argv)) if not argv[i].startswith("-")), len(argv))
    arguments = argparse.Namespace(
        version=False, completion=None, command=None, line=shlex.join(["hindcast", *argv])
    )
    if at:
        main_parser().parse_args(argv[:at], arguments)
    if at == len(argv) or arguments.version or arguments.completion:
        return arguments
    name = argv[at]
    commands.summary_of(name)  # raises UnknownName
    arguments.command = name
    parser, words = command_parser(name), argv[at + 1 :]
    # Intermixed: arguments may follow options. That way of parsing loses the word --.
    split = parser.parse_known_args if "--" in words else parser.parse_known_intermixed_args
    _, unknown = split(words, arguments)
    for field_name, value in list(vars(arguments).items()):
        if value == argparse.SUPPRESS:  # Python 3.13.0 gives this to an argument that is left out
            delattr(arguments, field_name)
    if unknown:
        options = [o for action in parser._actions for o in action.option_strings]  # noqa: SLF001
        hint = f"; {did_you_mean(unknown[0], options)}" if unknown[0].startswith("-") else ""
        raise InputError(f"{name}: unexpected argument {unknown[0]!r}{hint}")
    return arguments


def main_parser() -> Parser:
    """Return the parser of `hindcast` itself: --help with the names of the commands, --version."""
    parser = Parser(
        prog="hindcast", usage="hindcast [-h] [--version] [--completion SHELL] COMMAND ...",
        formatter_class=partial(argparse.RawDescriptionHelpFormatter, max_help_position=16),
        description=DESCRIPTION, epilog=EPILOG,
    )  # fmt: skip
    added = {name: command.summary for name, command in commands.ADDED.items()}
    for title, summaries in (*commands.GROUPS.items(), *([("plug-ins", added)] if added else [])):
        # Arguments, since argparse has no groups of subcommands; `parse` gives this parser no word.
        group = parser.add_argument_group(title)
        for name, summary in summaries.items():
            group.add_argument(name, nargs="?", default=argparse.SUPPRESS, help=summary)
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument(
        _COMPLETION, metavar="SHELL", choices=SHELLS,
        help=f"print the script that completes command lines in a shell: {', '.join(SHELLS)}",
    )  # fmt: skip
    return parser


def first_help() -> str:
    """Return the output of `hindcast` alone: the commands that most people need."""
    lines = [DESCRIPTION, ""]
    for name, example in commands.FIRST.items():
        lines += [f"  {name:<10}{commands.SUMMARIES[name]}", f"  {'':<10}$ {example}"]
    lines += [
        "",
        f"All {len(commands.SUMMARIES)} commands: hindcast --help",
        "Options of one:  hindcast whatif --help",
        "Is all well?     hindcast doctor",
    ]
    return "\n".join(lines)


def _direct(command: commands.Command) -> tuple[bool | None, str]:
    """Return the default of --direct, None where the runner decides, and its help."""
    if command.recorded == "always":
        return False, "run without Prefect: starts seconds sooner, keeps no run history"
    if command.recorded:
        recorded = False if os.environ.get("PREFECT_API_URL") else None
        return recorded, "run without Prefect, also where PREFECT_API_URL is set"
    if any(attribute.name == "runner" for attribute in fields(command.request)):
        return None, "no effect: here only --runner starts Prefect"
    return True, "no effect: this command never starts Prefect"


def command_parser(name: str) -> Parser:
    """Return the parser of one command."""
    command = commands.find(name).COMMANDS[name]
    description = sentence(commands.summary_of(name))
    details = command.details if isinstance(command.details, str) else command.details()
    if details:
        description += f"\n\n{details}"
    epilog = f"example:\n  {command.example}"
    parser = Parser(prog=f"hindcast {name}", description=description, epilog=epilog)
    for request in filter(None, (command.more, command.request)):
        for attribute in fields(request):
            if attribute.metadata[_WORDS] is not None:
                _add_field(parser, attribute)
    parser.add_argument(
        "--direct", action="store_true", default=_direct(command)[0], help=_direct(command)[1]
    )
    if command.recorded == "asked":
        parser.add_argument(
            "--record", action="store_false", dest="direct", default=_direct(command)[0],
            help="run as a flow of Prefect, which keeps a run history; the default where "
            "PREFECT_API_URL is set",
        )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", help="print results as JSON lines instead of text"
    )
    parser.set_defaults(read=command.read or partial(read_request, command.request))
    return parser


def _add_field(parser: Parser, field: Field[Any]) -> None:
    flag, settings = field.metadata[_WORDS]
    kind, several = _item(field.type)
    required = field.default is MISSING
    text = field.metadata["text"]
    if type(field.default) in {int, float, str} and field.default != "":
        text += f" (default {field.default})"
    words = _words(kind, field.default)
    settings = {"help": text, "default": argparse.SUPPRESS, **words, **settings}
    if get_origin(kind) is Annotated:
        settings.setdefault("metavar", kind.__metadata__[0].metavar)
    if several and settings.get("action") != "append":
        settings.setdefault("nargs", "+" if required or flag else "*")
    if not flag:
        parser.add_argument(field.name, **settings)
        return
    flag = f"--{field.name.replace('_', '-')}" if flag == "--" else flag
    parser.add_argument(flag, **{"dest": field.name, "required": required, **settings})


def _item(kind: Any) -> tuple[Any, bool]:
    """Return the type of one value of a field, and whether the field holds several values."""
    if get_origin(kind) in {Union, UnionType}:
        kind = next(part for part in get_args(kind) if part is not NoneType)
    return (get_args(kind)[0], True) if get_origin(kind) is tuple else (kind, False)


def _words(kind: Any, default: Any) -> dict[str, Any]:
    """Return the settings of add_argument that convert words to a value of this type."""
    if kind is bool:
        return {"action": "store_false" if default is True else "store_true"}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    if get_origin(kind) is Annotated:
        kind, limits = get_args(kind)
        if limits.place:
            return {"type": lambda text: str(location(dated(text)))}
        if kind is int:
            return {"type": partial(_whole, **limits.limits)}
    return {"type": kind} if kind in {int, float} else {}


def _whole(text: str, ge: int, le: int | None = None) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < ge:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least {ge}: {text!r}")
    if le is not None and int(text) > le:
        raise argparse.ArgumentTypeError(f"expected a whole number of at most {le}: {text!r}")
    return int(text)


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_text(value: Any) -> Any:
    """Return a path or URL as text with the date filled in, and anything else unchanged."""
    is_path = isinstance(value, PurePath) or hasattr(value, "joinuri")
    text = str(value) if is_path else value
    return dated(text) if isinstance(text, str) else text


def dated(text: str) -> str:
    """Return a path or URL with the date (UTC) in place of {date}, such as 2026-11-22.

    The date is that of the start of the command, or of the flow run that gets the parameter.
    """
    return text.replace(DATE, datetime.now(UTC).date().isoformat())
