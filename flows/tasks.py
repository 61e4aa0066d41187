"""Requests as Prefect tasks, and what all tasks and flows have in common.

A task is a whole step (a build, a training run, an evaluation): Prefect takes tens of milliseconds
and tens of kilobytes of its database for each. Nothing is cached by Prefect, since it sees neither
the code that a step calls nor whether the files that it wrote are still there; the folders know
what is done. Nothing is retried, since a step that fails on its input fails again.
"""

from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from flows.commands import directly, module_of, name_of
from flows.progress import Lines, showing

# Keyword arguments of every @flow and @task: results are JSON and small, and are kept.
RECORDED: Final[dict[str, Any]] = {
    "retries": 0,
    "persist_result": True,
    "result_serializer": "json",
}


def call_as_task(request: Any) -> dict[str, Any]:
    """Run the command of a request as a task of the running flow; its errors come through."""

    def body(**parameters: Any) -> dict[str, Any]:
        with showing(Lines(get_run_logger().info)):
            return directly(type(request)(**parameters))

    body.__name__ = name_of(request)
    body.__doc__ = module_of(request).run.__doc__
    recorded: Any = task(name=name_of(request), cache_policy=NO_CACHE, **RECORDED)
    result: dict[str, Any] = recorded(body)(**vars(request))
    return result
