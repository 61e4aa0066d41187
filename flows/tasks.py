"""Steps as Prefect tasks, and what all tasks, flows and their parameters have in common.

A task is a whole step (a build, a training run, an evaluation): Prefect takes tens of milliseconds
and tens of kilobytes of its database for each. Nothing is cached by Prefect, since it sees neither
the code that a step calls nor whether the files that it wrote are still there; the folders know
what is done. Nothing is retried, since a step that fails on its input fails again.
"""

from typing import Annotated, Any, Final, Literal, TypeAlias

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger
from pydantic import BeforeValidator, Field

from flows.engine import as_text
from flows.progress import Lines, showing
from flows.stages import Step

# Prefect checks parameters before a run and shows their limits in its forms.
# A folder or a file is text for Prefect: a path, or a URL, which pathlib would take apart.
Folder: TypeAlias = Annotated[str, BeforeValidator(as_text), Field(min_length=1)]
Name: TypeAlias = Annotated[str, Field(min_length=1)]
Override: TypeAlias = Annotated[str, Field(pattern=r"^[^=\s][^=]*=")]
Workers: TypeAlias = Annotated[int, Field(ge=1, le=1024)]
GradientSteps: TypeAlias = Annotated[int, Field(ge=1)]
Seed: TypeAlias = Annotated[int, Field(ge=0)]
Device: TypeAlias = Literal["auto", "cpu", "cuda"]

# Keyword arguments of every @flow and @task: results are JSON and small, and are kept.
RECORDED: Final[dict[str, Any]] = {
    "retries": 0,
    "persist_result": True,
    "result_serializer": "json",
}


def call_as_task(step: Step, **arguments: Any) -> dict[str, Any]:
    """Run a step as a task of the flow that is running; what it raises comes through as it is."""

    def body(**arguments: Any) -> dict[str, Any]:
        with showing(Lines(get_run_logger().info)):
            return step(**arguments)

    body.__name__ = step.__name__
    body.__doc__ = step.__doc__
    recorded: Any = task(name=step.__name__, cache_policy=NO_CACHE, **RECORDED)
    result: dict[str, Any] = recorded(body)(**arguments)
    return result
