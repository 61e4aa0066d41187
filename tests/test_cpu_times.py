"""Tests of the plug-in that measures the CPU seconds of tests."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import cpu_times


def test_a_shared_fixture_is_no_part_of_the_test_that_asks_for_it_first(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(cpu_times, "cpu_seconds", lambda: clock[0])
    watch = cpu_times.Stopwatch()
    of = lambda scope: SimpleNamespace(scope=scope, baseid="a", argname="made")  # noqa: E731
    item = SimpleNamespace(path=Path("a"), user_properties=[], get_closest_marker=lambda _: None)
    setup = watch.pytest_runtest_setup()
    next(setup)
    for scope, seconds in (("session", 10.0), ("function", 2.0)):
        for _ in watch.pytest_fixture_setup(of(scope)):
            clock[0] += seconds
    assert next(setup, None) is None
    for _ in watch.pytest_runtest_call():
        clock[0] += 1.0
    for _ in watch.pytest_runtest_teardown(item, item):
        clock[0] += 0.5
    assert item.user_properties == [
        (cpu_times.NAME, (3.5, "")), (cpu_times.SHARED, (10.0, "fixture", "a::made")),
    ]  # fmt: skip


def test_a_long_test_without_a_mark_fails_the_run(tmp_path):
    table = cpu_times.Table(tmp_path / "times.tsv", limit=0.5)
    fixture = [(cpu_times.SHARED, (0.9, "fixture", "a::made"))]
    table.pytest_runtest_logreport(SimpleNamespace(when="teardown", user_properties=fixture))
    for test, value in {"a": (0.6, ""), "b": (0.7, "slow"), "c": (0.1, "")}.items():
        properties = [(cpu_times.NAME, value)]
        table.pytest_runtest_logreport(
            SimpleNamespace(when="teardown", user_properties=properties, nodeid=test)
        )
    session = SimpleNamespace(exitstatus=0)
    table.pytest_sessionfinish(session)
    assert session.exitstatus == pytest.ExitCode.TESTS_FAILED
    assert table.too_long == ["a: 0.60 s of CPU, without the mark slow"]
    assert (tmp_path / "times.tsv").read_text().splitlines()[:2] == [
        "0.900\tfixture\ta::made", "0.700\tslow\tb",
    ]  # fmt: skip
