"""Prefect tasks that run requests, and the settings shared by all tasks and flows.

A task is a whole step, such as a build, a training run or an evaluation, since each task costs
Prefect tens of milliseconds and tens of kilobytes of its database. Prefect's cache is off: Prefect
sees neither the code that a step calls nor whether the files that it wrote still exist, whereas the
output folders record what is finished.

A step that fails on its input fails again, so it is not retried. The one exception is an object
store that does not answer, in a run of a deployment: there the flow waits and runs its steps again;
those that are finished are skipped. At a terminal, the error is shown at once.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from hindcast.flows.artifacts import ProgressArtifacts
from hindcast.flows.commands import directly, module_of, name_of
from hindcast.flows.progress import Lines, showing
from hindcast.flows.status import recording
from hindcast.pipeline.errors import StoreUnavailable

# Keyword arguments of every @flow and @task; results are small JSON values, and are kept.
RECORDED: Final[dict[str, Any]] = {
    "retries": 0,
    "persist_result": True,
    "result_serializer": "json",
}


# Names of runs. Flows and tasks have the same, unless a flow says more.
RUN_NAMES: Final[Mapping[str, str]] = {
    "ingest": "ingest {trace_format}",
    "build": "build {recipe}",
    "verify": "verify {dataset}",
    "train": "train {agent}, seed {seed}",
    "stack": "train {agent}, several runs at once",
    "train_online": "train online on {recipe}, seed {seed}",
    "evaluate": "evaluate {recipe} on {split}",
    "ope": "ope of {dataset}",
    "report": "report into {out}",
}
# Tags of tasks, by which a server can limit how many run at a time.
TAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "build": ("simulation",),
    "evaluate": ("simulation",),
    "train": ("training",),
    "stack": ("training",),
    "train_online": ("training",),
}
RETRY_DELAYS_S: Final = (20, 60, 300)  # of a store that does not answer


def patiently(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of `run`, which is called again while an object store does not answer.

    Prefect's own retries of a flow know nothing of the error, and those of a task would leave out
    what a flow writes between its tasks.
    """
    for delay_s in RETRY_DELAYS_S:
        try:
            return run()
        except StoreUnavailable as error:
            get_run_logger().warning("%s; trying again in %d s", error, delay_s)
            time.sleep(delay_s)
    return run()


def call_as_task(request: Any) -> dict[str, Any]:
    """Run the command of a request as a task of the running flow, and raise its errors."""

    def body(**parameters: Any) -> dict[str, Any]:
        given = type(request)(**parameters)
        lines = ProgressArtifacts(Lines(get_run_logger().info), body.__name__)
        out = getattr(given, "out", None)
        with recording(lines, out, body.__name__) as display, showing(display):
            return directly(given)

    body.__name__ = name_of(request)
    body.__doc__ = module_of(request).run.__doc__
    settings: dict[str, Any] = {**RECORDED, "tags": TAGS.get(body.__name__)}
    if body.__name__ in RUN_NAMES:
        called = RUN_NAMES[body.__name__].format(**vars(request))
        settings["task_run_name"] = called.replace("{", "{{").replace("}", "}}")  # a template
    recorded: Any = task(name=name_of(request), cache_policy=NO_CACHE, **settings)
    result: dict[str, Any] = recorded(body)(**vars(request))
    return result
