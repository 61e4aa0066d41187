"""Tests of the warnings that commands print about a trace and a recipe."""

import json
import re
from pathlib import Path

import pytest

from hindcast.flows.cli import main

RECIPE = """
id = "quiet-v1"
scenario = "queue"
[config]
jobs = 20
follow = 0
warm = false
[trace]
format = "swf"
path = "{log}"
[split]
train = "0..1"
validation = "2..2"
test = "3..5"
[[behaviours]]
policy = "random"
[[behaviours]]
policy = "sjf_easy"
[[behaviours]]
policy = "fcfs_easy"
[[behaviours]]
policy = "saf_easy"
[evaluate]
policies = ["random", "sjf_easy", "fcfs_easy", "saf_easy", "lxf_easy"]
seeds = 1
"""


@pytest.fixture(scope="module")
def quiet(tmp_path_factory) -> Path:
    """Return a recipe whose jobs of 6 minutes on 1 of 1000 cores never compete."""
    folder = tmp_path_factory.mktemp("quiet")
    fields = "-1 360 1 -1 -1 1 360 -1 1 1 1 1 -1 -1 -1 -1"
    rows = (f"{i} {10 * i} {fields}" for i in range(1, 1001))
    (folder / "log.swf").write_text("; MaxProcs: 1000\n" + "\n".join(rows) + "\n")
    (folder / "recipe.toml").write_text(RECIPE.format(log=folder / "log.swf"))
    return folder


def warnings(capsys) -> str:
    """Return the warnings on stderr, and check that stdout has none."""
    printed = capsys.readouterr()
    assert "warning:" not in printed.out
    return "\n".join(line for line in printed.err.splitlines() if line.startswith("warning: "))


EXPECTED = (
    "no wait time is known", "the recipe's windows are 6 of 50 in the trace, 12% of its jobs",
    "windows, at least half",
)  # fmt: skip


@pytest.mark.slow
def test_a_quiet_log_warns_at_every_step(quiet, capsys):
    """Ingest, build, evaluate, show, card and report all name what limits the results."""
    recipe = str(quiet / "recipe.toml")
    log = str(quiet / "log.swf")
    assert main(["ingest", "swf", log, "--out", str(quiet / "wl"), "--direct"]) == 0
    assert warnings(capsys).startswith("warning: no wait time is known")
    assert main(["build", recipe, "--out", str(quiet / "ds"), "--direct"]) == 0
    told = warnings(capsys)
    assert [part for part in EXPECTED if part not in told] == []
    assert "on 3 of 3 windows, at least half of the 3 rules" in told
    assert main(["evaluate", recipe, "--out", str(quiet / "ev"), "--direct"]) == 0
    told = warnings(capsys)
    assert [part for part in EXPECTED if part not in told] == []
    assert "on 3 of 3 windows, at least half of the 5 rules" in told
    for folder in ("ds", "ev"):
        assert main(["show", str(quiet / folder), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert [c["code"] for c in facts["caveats"]][:3] == [
            "no_wait_times", "trace_used", "ties",
        ]  # fmt: skip
    card = " ".join((quiet / "ds" / "README.md").read_text(encoding="utf-8").split())
    assert "**Caveat:** No wait time is known" in card
    assert main(["report", str(quiet / "ev"), "--out", str(quiet), "--direct"]) == 0
    assert "windows, at least half" in warnings(capsys)
    page = (quiet / "report.html").read_text(encoding="utf-8")
    assert page.index("no wait time is known") < page.index('class="verdict"')
    assert main(["verify", str(quiet / "ds")]) == 0


@pytest.mark.slow
def test_policies_that_know_run_times_are_marked(quiet, capsys):
    """The limit of each job is its run time, by which all are ordered that do not only wait."""
    recipe, out = str(quiet / "recipe.toml"), str(quiet / "known")
    policies = ["--policy", "sjf_easy", "fcfs_easy", "fcfs_greedy"]
    assert main(["evaluate", recipe, *policies, "--out", out, "--direct"]) == 0
    printed = capsys.readouterr()
    assert "every time limit is the run time" in printed.err
    marked = {line.split()[0]: "knows run times" in line for line in printed.out.splitlines()[1:]}
    assert marked == {"sjf_easy": True, "fcfs_easy": True, "fcfs_greedy": False}
    assert main(["report", out, "--out", str(quiet / "page"), "--direct"]) == 0
    page = (quiet / "page" / "report.html").read_text(encoding="utf-8")
    cells = [cell for cell in re.split("</t[dh]>", page) if "knows run times</span>" in cell]
    assert any("sjf_easy" in cell for cell in cells)
    assert not any("fcfs_greedy" in cell for cell in cells)


@pytest.mark.slow
def test_a_recipe_with_contention_has_no_warning(tmp_path, capsys):
    """Its manifest is written as before there were caveats."""
    splits = {"train": "0..2", "validation": "3..3", "test": "4..9"}
    sets = [word for k, v in splits.items() for word in ("--set", f'split.{k}="{v}"')]
    out = str(tmp_path / "ds")
    assert main(["build", "slots-deeprm-v1", *sets, "--out", out, "--direct"]) == 0
    assert warnings(capsys) == ""
    rules = ["--policy", "random", "sjf_now", "fcfs_now", "packer_now", "hold_5"]
    out = str(tmp_path / "ev")
    assert main(["evaluate", "slots-deeprm-v1", *sets, *rules, "--out", out, "--direct"]) == 0
    assert warnings(capsys) == ""
    assert "caveats" not in json.loads((tmp_path / "ds" / "manifest.json").read_text())
