"""Completion of command lines: the words for a shell, and the script of bash."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hindcast.flows import cli, commands
from hindcast.flows.completion import SCRIPTS, words
from hindcast.flows.parser import SHELLS
from hindcast.pipeline.recipes.shipped import known_recipes
from hindcast.policies.offline import AGENTS
from hindcast.policies.online import ONLINE_AGENTS

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("", list(commands.SUMMARIES)),
        ("wha", ["whatif"]),
        ("--v", ["--version"]),
        ("nowhere ", []),
        ("build ", known_recipes()),
        ("build binpack-deepj", ["binpack-deepjs"]),
        ("build --out x ", known_recipes()),
        ("build binpack-deepjs ", []),
        ("build binpack-deepjs --wor", ["--workers"]),
        ("build binpack-deepjs --workers ", []),
        ("evaluate binpack-deepjs --runner d", ["dask"]),
        ("evaluate binpack-deepjs --policy a b ", []),
        ("evaluate --json ", known_recipes()),
        ("train d --agent ", list(AGENTS)),
        ("train-online r --agent ", list(ONLINE_AGENTS)),
        ("train d --gate ", ["simulator", "folds", "lookahead", "log"]),
        ("ingest sw", ["swf"]),
        ("ingest swf ", []),
        ("doctor a b ", []),
    ],
)
def test_what_the_last_word_can_become(line, found):
    """Nothing where only the shell knows: it completes names of files then."""
    assert words(line.split(" ")) == found


def complete(line: str) -> list[str]:
    """Return what bash offers at the end of a line."""
    script = f"""
hindcast() {{ {sys.executable} -m hindcast.flows.cli "$@"; }}
eval "$(hindcast --completion bash)"
COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_hindcast
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p hindcast
"""
    done = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    *offered, set_up = done.stdout.splitlines()
    assert set_up == "complete -o default -F _hindcast hindcast"
    return offered


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_offers_what_is_known():
    assert complete("hindcast wh") == ["whatif", "why"]
    assert complete("hindcast train d --gate ''") == ["simulator", "folds", "lookahead", "log"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_that_is_printed(shell, capsys):
    assert cli.main(["--completion", shell]) == cli.main([f"--completion={shell}"]) == 0
    assert capsys.readouterr().out == f"{SCRIPTS[shell]}\n" * 2
    assert set(SCRIPTS) == set(SHELLS)
