"""Commands that pages show and no test runs are valid: they would start if they were given.

tests/test_documentation.py runs the blocks marked `bash` and `python`. The other commands take
hours, need another program, or read something that the page does not make. They stand in blocks
marked `text` or in the text. Each is parsed here; the recipe, settings, agent and policies that it
names exist; and it passes the check that comes before its work.
"""

import dataclasses
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from flows import commands
from flows.parser import command_parser, parse
from pipeline.errors import HindcastError, InputError
from pipeline.exports import EXPORTS
from pipeline.recipes.loading import known_recipes
from pipeline.scenarios import SCENARIOS
from pipeline.traces import FORMATS
from policies.heuristics import find_rule
from policies.offline import read_config
from tests.test_documentation import ROOT, blocks, pages

OUT: Final = "OUT"  # for commands in the text, which leave out --out
CODE: Final = re.compile(r"`(hindcast [^`\n]+)`")


def lines_of(text: str) -> Iterator[list[str]]:
    """Yield the words of every command in a block: no output, no other programs."""
    for line in text.replace("\\\n", " ").splitlines():
        command = re.sub(r"^(?:[A-Z_]+=\S*\s+)*", "", line.strip()).removesuffix("&")
        if command.partition(" ")[0] in CHECKS and not command.startswith("python3"):
            yield shlex.split(command, comments=True)


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(words) <= {*targets, "-j2"}, f"make has the targets {targets}"


def check_python(words: list[str]) -> None:
    if words[0] == "-m":
        assert importlib.util.find_spec(words[1]), f"no module {words[1]}"
    else:
        assert (ROOT / words[0]).is_file(), f"no file {words[0]}"


def check_pip(words: list[str]) -> None:
    """Check that extras of Hindcast exist, and that its name is not that of a stranger."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for word in words:
        name, _, extras = word.rstrip("]").partition("[")
        assert name != "hindcast", "this name is another project's on the index"
        if name in {project["name"], "."} and extras:
            assert set(extras.split(",")) <= project["optional-dependencies"].keys(), word


def check_hindcast(words: list[str]) -> None:
    if {"--help", "--version"} & set(words):
        assert words[0].startswith("-") or words[0] in commands.SUMMARIES
        return
    kept: list[str] = []
    for word in words:  # the page leaves out what ... stands for
        if "..." not in word:
            kept.append("0" if word == "SEED" else word)
        elif kept[-1] == "--set":
            kept.pop()
    arguments = parse(kept)
    if "sweep" in arguments and not Path(arguments.sweep).exists():
        return  # a file that the page describes
    check_request(arguments.read(arguments))


def check_request(request: Any) -> None:
    """Check the names that a request has, without what earlier commands would have made."""
    given = {each.name: getattr(request, each.name) for each in dataclasses.fields(request)}
    nothing = {"start": None, "members": (), "imitate": None, "imitate_steps": None,
               "runner": "local", "address": ""}  # fmt: skip
    without = {name: value for name, value in nothing.items() if name in given}
    for name in {"policies", "agents"} & given.keys():
        if isinstance(given[name], tuple):
            without[name] = given[name] = tuple(filter(is_name, given[name]))
    request = dataclasses.replace(request, **without)
    check = commands.module_of(request).check
    if given.get("recipe") in known_recipes() or not NEEDS_FILES & given.keys():
        check(request)
    elif "trace_format" in given:
        assert request.trace_format in FORMATS
    elif "to" in given:
        assert request.to in EXPORTS
    elif isinstance(given.get("agent"), str) and is_name(request.agent) and "dataset" in given:
        read_config(request.agent, request.settings)
    for name in given.get("policies") or () if "recipe" not in given else ():
        rule = name.partition("@")[0]
        assert any(find_rule(scenario, rule) for scenario in SCENARIOS), f"no rule {rule}"


NEEDS_FILES: Final = {
    "recipe", "dataset", "folder", "folders", "evaluations", "source", "path", "a", "log", "state",
}  # fmt: skip
CHECKS: Final = {
    "hindcast": check_hindcast, "make": check_make, "python": check_python, "pip": check_pip,
}  # fmt: skip


def is_name(word: str) -> bool:
    """Return whether a policy or an agent is a name: no folder, file or word for something."""
    return word == word.lower() and not set("/.:{") & set(word)


@cache
def options_of(command: str) -> set[str]:
    return {o for a in command_parser(command)._actions for o in a.option_strings}


def check_in_text(code: str) -> None:
    """Check a command in the text, which may leave out arguments."""
    words = shlex.split(code)[1:]
    if words[0].startswith("-") or words[0] == words[0].upper():
        return
    assert words[0] in commands.SUMMARIES
    flags = {word for word in words[1:] if re.match(r"--[a-z]", word)}
    assert flags <= options_of(words[0]), flags - options_of(words[0])
    incomplete = r"required|expected (?:at least )?one argument|give --agent|'PAPER'"
    for more in ([], ["--out", OUT]) if "--out" in options_of(words[0]) else ([],):
        try:
            check_hindcast([*words, *more])
        except InputError as error:
            if not re.search(incomplete, str(error)):
                raise
        else:
            return


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", pages(),
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)  # fmt: skip
def test_the_commands_of_a_page_are_valid(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    wrong = []
    for line, language, text in blocks(page):
        own = "HINDCAST_PLUGINS=" in text  # names that a plug-in would add
        for words in lines_of(text) if language == "text" and not own else ():
            try:
                CHECKS[words[0]](words[1:])
            except (AssertionError, HindcastError) as error:
                wrong.append(f"line {line}: {shlex.join(words)}: {error}")
    text = re.sub(
        r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for code in CODE.findall(text):
        try:
            check_in_text(code)
        except (AssertionError, HindcastError, ValueError) as error:
            wrong.append(f"`{code}`: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_command_that_would_not_start_is_found():
    """Of an unknown command, option, recipe setting, rule, agent, target, module, and extra."""
    for line in (
        "hindcast built X", "hindcast verify X --deep", "hindcast build thermal-default-v1",
        "hindcast build thermal-default-v1 --set config.stepz=1 --out X",
        "hindcast evaluate thermal-default-v1 --policy sjf_now --out X",
        "hindcast ope X --policy no_rule --out Y", "hindcast train X --agent nobody --out Y",
        "hindcast train X --agent cql --set alfa=1 --out Y", "make nothing",
        "python -m tests.nothing", "pip install hindcast", "pip install 'hindcast-scheduling[x]'",
    ):  # fmt: skip
        (words,) = lines_of(f"{line}  # and a comment\n")
        with pytest.raises((AssertionError, HindcastError)):
            CHECKS[words[0]](words[1:])
