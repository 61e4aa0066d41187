"""Tests of `hindcast nightly`: the folder of a night, its trace, its date, and what is refused."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hindcast.flows import cli
from hindcast.flows.commands import nightly
from hindcast.flows.runs import nightly as nights
from hindcast.pipeline.errors import InputError, RecipeError
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.recipes.recipe import TraceSource
from hindcast.pipeline.recipes.workload_source import RECORDED, check_trace
from tests.conftest import TINY

RECIPE = "queue-kth-v1"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return a folder with the logs of two days."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for day in ("2026-11-20", "2026-11-21"):
        job = f"1 0 0 60 4 -1 -1 4 60 -1 1 1 1 1 1 -1 -1 -1\n; {day}\n"
        (folder / f"{day}.swf").write_text(job)
    return folder


def night(out: Path, **settings) -> nights.Night:
    return nights.night_of(nightly.Request(RECIPE, str(out), **settings))


def test_a_night_has_a_folder_of_its_date_and_digest(logs, tmp_path):
    trace = f"{logs}/{{date}}.swf"
    first = night(tmp_path, trace=trace, date="2026-11-20")
    second = night(tmp_path, trace=trace, date="2026-11-21")
    assert first.stages.out == f"{tmp_path}/2026-11-20-{first.digest}"
    assert first.stages.trace == f"{logs}/2026-11-20.swf"
    assert len(first.digest) == 12
    assert first.digest != second.digest
    assert first == night(tmp_path, trace=trace, date="2026-11-20")


def test_a_log_that_changed_gets_another_folder(logs, tmp_path):
    """The digest is of the content of the trace, not of its name alone."""
    settings = {"trace": f"{logs}/2026-11-20.swf", "date": "2026-11-22"}
    before = night(tmp_path, **settings)
    with Path(settings["trace"]).open("a") as log:
        log.write("2 9 0 60 4 -1 -1 4 60 -1 1 1 1 1 1 -1 -1 -1\n")
    after = night(tmp_path, **settings)
    assert (before.date, before.stages.trace) == (after.date, after.stages.trace)
    assert before.digest != after.digest


def test_a_trace_may_be_a_folder(logs, tmp_path):
    settings = {"trace": str(logs), "date": "2026-11-22"}
    before = night(tmp_path, **settings)
    (logs / "2026-11-20.swf").rename(logs / "renamed.swf")
    assert night(tmp_path, **settings).digest != before.digest


def test_another_recipe_is_another_night_and_more_workers_are_not(logs, tmp_path):
    settings = {"trace": f"{logs}/2026-11-20.swf", "date": "2026-11-22"}
    known = night(tmp_path, **settings)
    assert night(tmp_path, **settings, workers=2).digest == known.digest
    assert night(tmp_path, **settings, overrides=("seed=3",)).digest != known.digest


def test_without_a_date_the_night_is_that_of_today(monkeypatch, logs, tmp_path):
    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            assert tz is UTC
            return datetime(2026, 11, 21, 23, 59, 59, tzinfo=tz)

    monkeypatch.setattr(nights, "datetime", Clock)
    found = night(tmp_path, trace=f"{logs}/{{date}}.swf")
    assert found.date == "2026-11-21"
    assert found.stages.trace == f"{logs}/2026-11-21.swf"


def test_a_night_runs_the_stages_in_its_folder(monkeypatch, tmp_path):
    """A recipe without a trace needs none; policies and overrides are passed on."""
    taken = []
    monkeypatch.setattr(
        nights, "run_stages", lambda request, _call: taken.append(request) or {"report": "r"}
    )
    request = nightly.Request(
        "binpack-synthetic-v1", str(tmp_path), date="2026-11-20", policies=("tetris",),
        overrides=TINY, workers=2, command="c",
    )  # fmt: skip
    result = nights.run_night(request)
    [stages] = taken
    assert result["folder"] == stages.out == f"{tmp_path}/2026-11-20-{result['digest']}"
    assert (stages.policies, stages.overrides, stages.workers) == (("tetris",), TINY, 2)
    assert (stages.command, stages.trace, result["report"]) == ("c", None, "r")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([RECIPE, "--date", "2026-02-30"], "--date 2026-02-30: expected a date such as"),
        ([RECIPE, "--date", "yesterday"], "--date yesterday: expected a date such as"),
        ([RECIPE, "--trace", "n/{date}.swf", "--date", "2026-11-20"], "n/2026-11-20.swf: no such"),
        (["binpack-synthetic-v1", "--trace", "a.swf"], "trace.format is 'synthetic', which reads"),
        (["binpack-synthetic-v1", "--policy", "tertis"], "did you mean 'tetris'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_one_line(argv, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["nightly", *argv, "--out", "out"]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_recorded_decisions_have_no_trace_to_replace():
    recipe = replace(load_recipe("thermal-default-v1"), trace=TraceSource(RECORDED, "h.json"))
    with pytest.raises(RecipeError, match="'history', which reads no file, but --trace is"):
        check_trace(recipe, "a.swf")


def test_a_trace_keeps_its_date_until_the_night_is_known():
    """The server's form checks the date; {date} is not replaced with that of the request."""
    from pydantic import TypeAdapter, ValidationError

    assert TypeAdapter(nightly.Trace).validate_python("a/{date}.swf") == "a/{date}.swf"
    assert TypeAdapter(nightly.Day).validate_python("2026-11-20") == "2026-11-20"
    with pytest.raises(ValidationError):
        TypeAdapter(nightly.Day).validate_python("tomorrow")


def test_a_date_that_is_none_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="expected a date"):
        night(tmp_path, date="2026-13-01")
