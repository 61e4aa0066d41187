"""Commands that pages show and no test runs are valid: they would start if they were given.

tests/test_documentation.py runs the blocks marked `bash` and `python`. The other commands take
hours, need another program, or read something that the page does not make. They stand in blocks
marked `text` or in the text. Each is parsed here; the recipe, settings, agent and policies that it
names exist; and it passes the check that comes before its work.
"""

import dataclasses
import glob
import importlib.util
import json
import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from hindcast.flows import commands
from hindcast.flows.commands import ope
from hindcast.flows.parser import command_parser, parse
from hindcast.pipeline.errors import HindcastError, InputError, TraceError
from hindcast.pipeline.exports import EXPORTS
from hindcast.pipeline.recipes.loading import known_recipes, load_recipe
from hindcast.pipeline.recipes.workload_source import trace_path
from hindcast.pipeline.scenarios import SCENARIOS
from hindcast.pipeline.traces import FORMATS
from hindcast.policies.heuristics import find_rule
from hindcast.policies.offline import read_config
from hindcast.policies.online.training import settings_of as online_settings_of
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
    goals = {word for word in words if not re.match(r"[A-Z]+=", word)}
    assert goals <= {*targets, "-j2"}, f"make has the targets {targets}"


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
    elif "to" in given and "permission" not in given:  # an export
        assert request.to in EXPORTS
    elif isinstance(given.get("agent"), str) and is_name(request.agent) and "dataset" in given:
        read_config(request.agent, request.settings)
    if isinstance(given.get("policies"), str):  # of `list`: a scenario
        assert given["policies"] in SCENARIOS
        return
    for name in given.get("policies") or () if "recipe" not in given else ():
        rule = name.partition("@")[0]
        if isinstance(request, ope.Request) and rule.partition(":")[0] in OF_LOGS:
            continue
        assert any(find_rule(scenario, rule) for scenario in SCENARIOS), f"no rule {rule}"


OF_LOGS: Final = {"uniform", "first", "lowest", "highest", "candidate", "logged", "column"}
NEEDS_FILES: Final = {
    "recipe", "dataset", "folder", "folders", "evaluations", "source", "path", "a", "log", "state",
    "pods", "series",
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


# tests/flows has their tests; `ope` refuses an estimate from few windows.
LEFT_ALONE: Final = {"reproduce", "calibrate", "study", "doctor", "ope"}
COUNTS: Final = {"--steps", "--fqe-steps", "--iterations", "--checkpoint-every", "--imitate-steps"}
READ: Final = (
    "dataset", "folder", "folders", "evaluations", "start", "members", "imitate", "source", "path",
    "log", "series", "state", "a", "b", "pods", "evaluation", "submission",
)  # fmt: skip


def expanded(word: str) -> list[str]:
    """Return a word with its braces and wildcards replaced, as a shell does."""
    braces = re.search(r"\{([^{}=]*,[^{}=]*)\}", word) if "=" not in word else None
    if braces:
        before, after = word[: braces.start()], word[braces.end() :]
        return [w for part in braces[1].split(",") for w in expanded(before + part + after)]
    if set("*?") & set(word) and "=" not in word:
        return sorted(glob.glob(word)) or [word]  # noqa: PTH207 - of relative names, as a shell
    return [word]


def small_command(words: list[str]) -> list[str] | None:
    """Return a command with few windows, steps and seeds; None if what it reads is not here."""
    words = ["0" if w == "SEED" else w for word in words for w in expanded(word)]
    if words[0] in LEFT_ALONE or any("..." in word or "://" in word for word in words):
        return None
    if {"--help", "--version"} & set(words):
        return None
    for at in range(len(words) - 1, 0, -1):
        if words[at - 1] in COUNTS:
            words[at] = "2"
        elif words[at - 1] == "--seeds":
            while at + 1 < len(words) and not words[at + 1].startswith("-"):
                del words[at + 1]
    arguments = parse(words)
    if not Path(getattr(arguments, "sweep", ".")).exists():
        return None
    if getattr(arguments, "agent", None) == "response_surface":
        return None  # it needs more episodes than a small build has
    request = arguments.read(arguments)
    given = {each.name: getattr(request, each.name) for each in dataclasses.fields(request)}
    read = [given[name] for name in READ if given.get(name)]
    read = [w for each in read for w in (each if isinstance(each, tuple) else [each])]
    policies = given.get("policies") or ()
    if isinstance(policies, tuple):
        read += [re.split("[@:]", name)[0] for name in policies if not is_name(name)]
    if not all(Path(folder).exists() for folder in read):
        return None
    if "recipe" not in given:
        return words
    if given["recipe"] not in known_recipes():
        return None
    recipe = load_recipe(given["recipe"], given.get("overrides", ()))
    if recipe.trace.path:
        try:
            trace_path(recipe)
        except TraceError:
            return None
    sets = [f'split.{name}="{w[0]}..{w[min(1, len(w) - 1)]}"' for name, w in recipe.split.items()]
    sets += ["evaluate.seeds=1", "train.steps=2", "train.seeds=[0]"]
    if recipe.online.agent:
        sets += ["online.iterations=1", "online.seeds=[0]"]
        config = online_settings_of(recipe)[1]
        if hasattr(config, "sampling"):
            sets += [f"online.settings.sampling.{n}" for n in ("trajectories=4", "windows=1")]
    return [*words, *(word for each in sets for word in ("--set", each))]


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of trainings with hardly any steps
@pytest.mark.parametrize(
    "page", [page for page in pages() if "\nhindcast " in page.read_text(encoding="utf-8")],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)  # fmt: skip
def test_the_commands_of_a_page_run_small(page, monkeypatch, tmp_path):
    """One after the other, but for those that read what the page does not make."""
    from hindcast.flows.cli import main

    monkeypatch.chdir(tmp_path)
    for name in ("datasets", "docs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    failed = []
    for line, language, text in blocks(page):
        for words in lines_of(text) if language == "text" else ():
            if words[0] != "hindcast" or "HINDCAST_PLUGINS=" in text:
                continue
            argv = small_command(words[1:])
            if argv is not None and (out := vars(parse(argv)).get("out", "")).isupper():
                shutil.rmtree(out, ignore_errors=True)  # a word for any folder
            if argv is not None and main([*argv, "--direct"]) != 0:
                failed.append(f"line {line}: {shlex.join(argv)}")
    assert not failed, "\n".join(failed)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_notebook_runs(monkeypatch, tmp_path):
    """`make docs` runs it as well, but not again if only the code has changed."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads((ROOT / "docs/tutorials/first.ipynb").read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    exec(compile("\n".join(code), "first.ipynb", "exec"), {"__name__": "notebook"})


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
        "python -m tests.nothing", f"pip install {'hindcast'}",
        "pip install 'hindcast-scheduling[x]'",
    ):  # fmt: skip
        (words,) = lines_of(f"{line}  # and a comment\n")
        with pytest.raises((AssertionError, HindcastError)):
            CHECKS[words[0]](words[1:])
