"""Prefect tasks that run requests, and the settings shared by all tasks and flows.

A task is a whole step, such as a build, a training run or an evaluation, since each task costs
Prefect tens of milliseconds and tens of kilobytes of its database. Prefect's cache is off: Prefect
sees neither the code that a step calls nor whether the files that it wrote still exist, whereas the
output folders record what is finished. Nothing is retried, since a step that fails on its input
fails again.
"""

from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from flows.commands import directly, module_of, name_of
from flows.progress import Lines, showing
from flows.status import recording

# Keyword arguments of every @flow and @task; results are small JSON values, and are kept.
RECORDED: Final[dict[str, Any]] = {
    "retries": 0,
    "persist_result": True,
    "result_serializer": "json",
}


def call_as_task(request: Any) -> dict[str, Any]:
    """Run the command of a request as a task of the running flow, and raise its errors."""

    def body(**parameters: Any) -> dict[str, Any]:
        given = type(request)(**parameters)
        lines = Lines(get_run_logger().info)
        out = getattr(given, "out", None)
        with recording(lines, out, body.__name__) as display, showing(display):
            return directly(given)

    body.__name__ = name_of(request)
    body.__doc__ = module_of(request).run.__doc__
    recorded: Any = task(name=name_of(request), cache_policy=NO_CACHE, **RECORDED)
    result: dict[str, Any] = recorded(body)(**vars(request))
    return result
