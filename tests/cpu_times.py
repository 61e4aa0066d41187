"""A pytest plug-in that measures the CPU seconds of every test, its child processes included.

`pytest -p tests.cpu_times --cpu-times FILE` writes one line per test, and one per fixture that
tests share, the most expensive first.
With `--cpu-limit SECONDS`, a run fails whose tests take more than that without the mark `slow` or
`nightly`. CPU seconds hardly depend on what else a machine does; seconds on the clock would.
"""

import resource
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

# Imported before the first test, which would otherwise pay for them.
HEAVY = ("torch", "d3rlpy", "prefect.flows", "polars", "pyarrow.dataset", "matplotlib.pyplot")
LEVELS = ("nightly", "slow", "ray")
NAME, SHARED = "cpu_seconds", "cpu_seconds_of_fixture"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("CPU seconds")
    group.addoption("--cpu-times", type=Path, metavar="FILE", help="write CPU seconds per test")
    group.addoption("--cpu-limit", type=float, metavar="SECONDS", help="most of an unmarked test")


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    own, ended = (
        resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


class Stopwatch:
    """The CPU seconds of the running test, without those of fixtures that tests share."""

    def __init__(self) -> None:
        self.spent = self.shared = 0.0
        self.is_in_shared = False
        self.fixtures: list[tuple[float, str, str]] = []  # seconds, "fixture", name

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef) -> Iterator[None]:
        """Leave out what a fixture of a module or a session takes, with all that it asks for."""
        if fixturedef.scope == "function" or self.is_in_shared:
            return (yield)
        start, self.is_in_shared = cpu_seconds(), True
        try:
            return (yield)
        finally:
            self.is_in_shared = False
            spent = cpu_seconds() - start
            self.shared += spent
            self.fixtures.append((spent, "fixture", f"{fixturedef.baseid}::{fixturedef.argname}"))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        self.spent = self.shared = 0.0
        self.fixtures.clear()
        return (yield from self._measure())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        return (yield from self._measure())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Count the end of the test's own fixtures. After a module's last test, others end too."""
        if nextitem is not None and nextitem.path == item.path:
            yield from self._measure()
        else:
            yield
        level = next((each for each in LEVELS if item.get_closest_marker(each)), "")
        item.user_properties.append((NAME, (self.spent - self.shared, level)))
        item.user_properties += [(SHARED, each) for each in self.fixtures]

    def _measure(self) -> Iterator[None]:
        start = cpu_seconds()
        try:
            return (yield)
        finally:
            self.spent += cpu_seconds() - start


class Table:
    """The measured tests of a run, in the process that reports them."""

    def __init__(self, path: Path | None, limit: float | None) -> None:
        self.path, self.limit = path, limit
        self.rows: list[tuple[float, str, str]] = []
        self.too_long: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == NAME:
                self.rows.append((*value, report.nodeid))
            elif name == SHARED:
                self.rows.append(tuple(value))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.rows.sort(reverse=True)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lines = [f"{seconds:.3f}\t{level}\t{test}\n" for seconds, level, test in self.rows]
            self.path.write_text("".join(lines))
        if self.limit is not None:
            self.too_long = [
                f"{test}: {seconds:.2f} s of CPU, without the mark slow"
                for seconds, level, test in self.rows
                if seconds > self.limit and not level
            ]
            if self.too_long and not session.exitstatus:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for each in self.too_long:
            terminalreporter.write_line(each)


def pytest_configure(config: pytest.Config) -> None:
    """Measure in every process that runs tests, and write in the one that reports."""
    path, limit = config.getoption("--cpu-times"), config.getoption("--cpu-limit")
    if path is None and limit is None:
        return
    is_worker = hasattr(config, "workerinput")
    if is_worker or not config.getoption("numprocesses", None):
        for module in HEAVY:
            import_module(module)
        config.pluginmanager.register(Stopwatch())
    if not is_worker:
        config.pluginmanager.register(Table(path, limit))
