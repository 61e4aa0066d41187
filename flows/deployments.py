"""All Prefect flows: one for each command that Prefect records, and one for sweeps.

The parameters of a flow are the fields of its command's request. The server checks their types and
limits and shows their texts, so an option is defined in the command's file only.
"""

import dataclasses
import inspect
from collections.abc import Callable
from datetime import UTC
from typing import Any, TypeAlias

from prefect import flow, runtime
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger

from hindcast.flows.artifacts import publish
from hindcast.flows.commands import module_of
from hindcast.flows.commands.build import Request as Build
from hindcast.flows.commands.evaluate import Request as Evaluate
from hindcast.flows.commands.ingest import Request as Ingest
from hindcast.flows.commands.nightly import Request as Nightly
from hindcast.flows.commands.ope import Request as Ope
from hindcast.flows.commands.report import Request as Report
from hindcast.flows.commands.reproduce import Request as Reproduce
from hindcast.flows.commands.reproduce import run as run_reproduce
from hindcast.flows.commands.run import Request as Run
from hindcast.flows.commands.study import Request as Study
from hindcast.flows.commands.study import run as run_study
from hindcast.flows.commands.train import Request as Train
from hindcast.flows.commands.train_online import Request as TrainOnline
from hindcast.flows.commands.verify import Request as Verify
from hindcast.flows.parser import sentence
from hindcast.flows.progress import Lines, showing
from hindcast.flows.runners import started
from hindcast.flows.runs.nightly import run_night
from hindcast.flows.runs.seeds import train_seeds
from hindcast.flows.runs.stages import run_stages
from hindcast.flows.runs.sweep import Request as Sweep
from hindcast.flows.runs.sweep import run as run_sweep
from hindcast.flows.status import recording
from hindcast.flows.tasks import RECORDED, RUN_NAMES, call_as_task, patiently

Result: TypeAlias = dict[str, Any]


def _takes(request: type) -> Callable[[Callable[[Any], Result]], Callable[..., Result]]:
    """Return a decorator that turns a function of a request into one of the request's fields."""
    fields = dataclasses.fields(request)
    signature = inspect.signature(request)  # that of __init__: names, types and defaults

    def decorate(body: Callable[[Any], Result]) -> Callable[..., Result]:
        def flat(*args: Any, **parameters: Any) -> Result:
            given = request(*args, **parameters)
            if FlowRunContext.get() is None:
                return body(given)
            # The command line has checked the request, and shows errors at once.
            deployed = runtime.deployment.id is not None
            with started(given):
                result = patiently(lambda: checked(given)) if deployed else body(given)
            publish(given, result)
            return result

        def checked(given: Any) -> Result:
            module_of(given).check(given)
            return body(given)

        lines = [f"    {field.name}: {sentence(field.metadata['text'])}" for field in fields]
        flat.__doc__ = "\n".join([inspect.getdoc(body) or "", "", "Args:", *lines])
        flat.__name__, flat.__qualname__ = body.__name__, body.__qualname__
        flat.__module__ = body.__module__
        vars(flat)["__signature__"] = signature
        return flat

    return decorate


@flow(name="ingest", flow_run_name=RUN_NAMES["ingest"], **RECORDED)
@_takes(Ingest)
def ingest(request: Ingest) -> Result:
    """Read a raw trace and write a workload folder."""
    return call_as_task(request)


@flow(name="build", flow_run_name=RUN_NAMES["build"], **RECORDED)
@_takes(Build)
def build(request: Build) -> Result:
    """Build the dataset of a recipe, or finish a build that was interrupted."""
    return call_as_task(request)


@flow(name="verify", flow_run_name=RUN_NAMES["verify"], **RECORDED)
@_takes(Verify)
def verify(request: Verify) -> Result:
    """Recompute every claim of a dataset's manifest."""
    return call_as_task(request)


@flow(name="train", flow_run_name=RUN_NAMES["train"] + " on {dataset}", **RECORDED)
@_takes(Train)
def train(request: Train) -> Result:
    """Train one offline agent on a dataset and write its checkpoint."""
    return call_as_task(request)


@flow(name="sweep", flow_run_name="sweep into {out}", **RECORDED)
@_takes(Sweep)
def sweep(request: Sweep) -> Result:
    """Train agents with several settings and seeds, one task per training, and compare them."""
    return run_sweep(request, call_as_task)


@flow(name="train_online", flow_run_name=RUN_NAMES["train_online"], **RECORDED)
@_takes(TrainOnline)
def train_online(request: TrainOnline) -> Result:
    """Train one online agent on a recipe's train windows, with one seed or several."""
    return train_seeds(request, call_as_task)


@flow(name="evaluate", flow_run_name=RUN_NAMES["evaluate"], **RECORDED)
@_takes(Evaluate)
def evaluate(request: Evaluate) -> Result:
    """Score policies on the windows of a split; all policies play the same windows."""
    return call_as_task(request)


@flow(name="ope", flow_run_name=RUN_NAMES["ope"], **RECORDED)
@_takes(Ope)
def ope(request: Ope) -> Result:
    """Estimate the returns of policies from a dataset, and compare with the simulator."""
    return call_as_task(request)


@flow(name="report", flow_run_name=RUN_NAMES["report"], **RECORDED)
@_takes(Report)
def report(request: Report) -> Result:
    """Write one HTML page about evaluations, with its numbers in Parquet and Markdown files."""
    return call_as_task(request)


@flow(name="run", flow_run_name="run {recipe}", **RECORDED)
@_takes(Run)
def run(request: Run) -> Result:
    """Build, verify, train, evaluate and report; finished stages are skipped."""
    with recording(Lines(get_run_logger().info), request.out, "run") as display, showing(display):
        return run_stages(request, call_as_task)


def _date_of_night() -> str:
    """Return the date of the running night, the same for every attempt, also after midnight."""
    given: str | None = runtime.flow_run.parameters.get("date")
    return given or runtime.flow_run.scheduled_start_time.astimezone(UTC).date().isoformat()


def _name_of_night() -> str:
    return f"nightly {runtime.flow_run.parameters['recipe']}, {_date_of_night()}"


@flow(name="nightly", flow_run_name=_name_of_night, **RECORDED)
@_takes(Nightly)
def nightly(request: Nightly) -> Result:
    """Run everything on the trace of one day, in a folder named by date and digest."""
    request = dataclasses.replace(request, date=_date_of_night())
    with (
        recording(Lines(get_run_logger().info), request.out, "nightly") as display,
        showing(display),
    ):
        return run_night(request, call_as_task)


@flow(name="study", flow_run_name="study {vary} of {recipe}", **RECORDED)
@_takes(Study)
def study(request: Study) -> Result:
    """Train the same agents on several logs of one problem and score them on the same windows."""
    return run_study(request, call_as_task)


@flow(name="reproduce", flow_run_name="reproduce {paper}", **RECORDED)
@_takes(Reproduce)
def reproduce(request: Reproduce) -> Result:
    """Run the protocols of papers and put their numbers beside what was measured."""
    return run_reproduce(request, call_as_task)
