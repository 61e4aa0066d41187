"""Tests that every file of flows/commands has the same shape, and that every command is found."""

import dataclasses
import inspect
import shlex
from pathlib import Path

import pytest

from hindcast.flows import commands, parser

FILES = sorted(p.stem for p in Path(commands.__file__).parent.glob("*.py") if p.stem != "__init__")
ASKED = ("ingest", "build", "train", "train-online", "evaluate", "report")  # single steps
ALWAYS = ("study", "run", "nightly", "reproduce")


# The module of each file, found through its commands.
MODULES = {m.__name__.rpartition(".")[2]: m for m in map(commands.find, commands.SUMMARIES)}


def test_a_command_is_requests_check_run_and_show():
    """Each function has one required parameter: a request, or the result of `run`."""
    assert MODULES.keys() >= set(FILES)
    for found in MODULES.values():
        for function in (found.check, found.run, found.show):
            first, *others = inspect.signature(function).parameters.values()
            assert first.default is inspect.Parameter.empty
            assert all(other.default is not inspect.Parameter.empty for other in others)
            assert function.__doc__
        assert set(found.COMMANDS) == {n for n in commands.SUMMARIES if commands.find(n) is found}
        for command in found.COMMANDS.values():
            assert command.request.__module__ == found.__name__
            assert command.example.startswith("hindcast ")


@pytest.mark.parametrize("name", commands.SUMMARIES)
def test_options_of_a_command_are_written_once_and_have_the_defaults_of_its_request(name):
    """Requests are frozen, and each field has one text, for the help and the server's form.

    Every command takes --direct, so that a script may give it to all.
    """
    command = commands.find(name).COMMANDS[name]
    for request in filter(None, (command.request, command.more)):
        assert request.__dataclass_params__.frozen
        for field in dataclasses.fields(request):
            assert field.metadata["text"]
    recorded = "always" if name in ALWAYS else "asked" if name in ASKED else ""
    assert command.recorded == recorded
    arguments = parser.parse([*shlex.split(command.example)[1:], "--direct"])
    assert arguments.direct
    request = arguments.read(arguments)
    given = vars(arguments)
    for field in dataclasses.fields(request):
        if field.name not in given and field.default is not dataclasses.MISSING:
            default = arguments.line if field.name == "command" else field.default
            assert getattr(request, field.name) == default, field.name
    assert commands.module_of(request) is commands.find(name)


@pytest.mark.parametrize("name", commands.SUMMARIES)
def test_single_steps_are_recorded_if_that_is_asked_for_or_there_is_a_server(name, monkeypatch):
    """Several steps are recorded unless --direct is given, and other commands never."""
    command = commands.find(name).COMMANDS[name]
    example = shlex.split(command.example)[1:]
    expected = {"always": False, "asked": None, "": None if name == "verify" else True}
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert parser.parse(example).direct is expected[command.recorded]
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    server = False if command.recorded == "asked" else expected[command.recorded]
    assert parser.parse(example).direct is server
    if command.recorded == "asked":
        monkeypatch.delenv("PREFECT_API_URL")
        assert parser.parse([*example, "--record"]).direct is False
        assert parser.parse([*example, "--record", "--direct"]).direct


def test_the_words_of_a_command_line_become_values_of_the_types_of_the_fields():
    arguments = parser.parse(
        ["train-online", "r", "--out", "a/", "--seeds", "3", "1", "--set", "a.b=1",
         "--set", "c.d=2", "--from", "memory://x/y", "--device", "cpu"]
    )  # fmt: skip
    request = arguments.read(arguments)
    assert (request.out, request.start) == ("a", "memory://x/y")
    assert (request.seeds, request.overrides) == ((3, 1), ("a.b=1", "c.d=2"))
    assert (request.seed, request.workers, request.device) == (0, 1, "cpu")


@pytest.mark.parametrize("name", commands.SUMMARIES)
def test_arguments_may_stand_before_between_and_behind_options(name):
    arguments, options = [], []
    for action in parser.command_parser(name)._actions:
        if not action.option_strings:
            arguments += ["a", "b"] if action.nargs in {"*", "+"} else ["c"]
        elif action.required:
            options += [action.option_strings[-1], *(action.choices or ["x"])[:1]]
    options.append("--json")
    lines = [[*arguments[:at], *options, *arguments[at:]] for at in range(len(arguments) + 1)]
    lines.append([*options, *(word for each in arguments for word in (each, "--direct"))])
    read = [vars(parser.parse([name, *line, "--direct"])) for line in lines]
    found = [{k: v for k, v in each.items() if k not in {"line", "read"}} for each in read]
    assert all(each == found[0] for each in found)


def test_a_word_that_begins_with_a_dash_is_an_argument_behind_two_dashes():
    assert parser.parse(["show", "--json", "--", "-x"]).folder == "-x"


def test_the_command_line_is_the_only_entry_point():
    """Everything that can be run is a command with --help, --json and exit codes."""
    root = Path(commands.__file__).parents[2]
    files = [
        p for package in ("pipeline", "policies", "flows") for p in root.glob(f"{package}/**/*.py")
    ]
    found = [
        p.relative_to(root).as_posix()
        for p in files
        if 'if __name__ == "__main__"' in p.read_text("utf-8")
    ]
    assert found == ["flows/cli.py"]
