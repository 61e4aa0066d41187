"""Dates in the names of folders, and another trace for a recipe, as nightly runs need them."""

import inspect
from datetime import UTC, datetime

import pytest

from hindcast.flows import parser
from hindcast.flows.commands import build, find, run
from hindcast.pipeline.errors import InputError


def request_of(*argv):
    arguments = parser.parse(argv)
    return arguments.read(arguments)


@pytest.fixture
def night(monkeypatch):
    """Stop the clock one second before midnight, UTC."""

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            assert tz is UTC
            return datetime(2026, 11, 22, 23, 59, 59, tzinfo=tz)

    monkeypatch.setattr(parser, "datetime", Clock)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("out/{date}", "out/2026-11-22"),
        ("s3://bucket/{date}/demo-{date}", "s3://bucket/2026-11-22/demo-2026-11-22"),
        ("out/{day}", "out/{day}"),
    ],
)
def test_a_folder_may_be_named_by_the_date(night, given, meant):
    assert parser.dated(given) == meant
    if "://" not in given:
        assert request_of("run", "r", "--out", given).out == meant


def test_a_parameter_of_a_deployment_may_hold_the_date(night):
    from pydantic import TypeAdapter

    assert TypeAdapter(parser.Folder).validate_python("out/{date}") == "out/2026-11-22"
    [_, out, *_] = inspect.signature(run.Request).parameters.values()
    assert out.annotation is parser.Folder


@pytest.mark.parametrize("name", ["run", "build"])
def test_a_trace_takes_the_place_of_that_of_the_recipe(night, name):
    words = (name, "kth", "--out", "o", "--set", "seed=3", "--trace", 'logs/{date} "a".swf')
    request = request_of(*words)
    assert request.settings() == ("seed=3", 'trace.path="logs/2026-11-22 \\"a\\".swf"')
    assert request_of(*words[:-2]).settings() == ("seed=3",)


def test_the_trace_is_looked_for_where_it_was_named(tmp_path):
    missing = tmp_path / "none.swf"
    request = build.Request("queue-kth-v1", str(tmp_path / "o"), trace=str(missing))
    with pytest.raises(InputError, match=r"none\.swf: no such file"):
        find("build").run(request)
    assert not (tmp_path / "o").exists()
