"""Sweeps: several trainings, one step each, and the table that compares them.

    OUT/runs/<agent>-<digest of settings>-seed<seed>    a training, see policies.offline.training
    OUT/sweep.parquet                                   one row per training, the best first

`hindcast train --sweep` and `hindcast train --seeds` make the requests. With `stacked`, trainings
of one agent that can share a program are one step (hindcast.flows.runs.stack).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Call, Shown, directly, find
from hindcast.flows.progress import note
from hindcast.pipeline.errors import DatasetError, InputError
from hindcast.pipeline.storage.extras import require
from hindcast.pipeline.storage.files import table_writer, write_atomically
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing

if TYPE_CHECKING:
    from hindcast.policies.offline.sweep import Run


@dataclass(frozen=True)
class Request:
    """Trainings to compare on a dataset, and the folder for them."""

    dataset: p.Folder = p.hidden("folder of a dataset")
    sweep: dict[str, Any] = p.hidden(
        "content of a sweep.toml: agents, seeds, steps, search, draws, seed, settings"
    )
    out: p.Folder = p.hidden("folder for the runs and sweep.parquet; finished runs there are kept")
    device: p.Device = p.hidden("where to train; auto takes a GPU if there is one", "auto")
    where: str = p.hidden("name of the sweep in error messages", "sweep")
    runner: p.Runner = p.hidden(
        "where the trainings run, in this process, on Dask or on Ray", "local"
    )
    address: str = p.hidden("scheduler of Dask or cluster of Ray to use", "")
    workers: p.Workers = p.hidden("processes of the runner, if there is no address", 1)
    stacked: p.Stacked = p.hidden(
        "whether trainings that can share a program do; auto does on a GPU", "auto"
    )
    gate: p.Gate = p.hidden("how agents are compared with the best logged rule", "simulator")


def check(request: Request) -> None:
    """Raise InputError if the sweep is not valid, the device unknown, or the folder no dataset."""
    require("training", "torch")
    from hindcast.pipeline.dataset.manifest import read_manifest
    from hindcast.policies.offline.sweep import plan
    from hindcast.policies.training.devices import find_device

    runners.check(request)
    if request.stacked == "yes" and runners.asks_for_runner(request):
        raise InputError(
            f"--stacked yes is one program in this process, --runner {request.runner} runs "
            "trainings in others; give one of the two"
        )
    if request.stacked == "yes" and request.gate == "folds":
        raise InputError("--gate folds repeats a training, which --stacked yes cannot")
    plan(_with_names(request.sweep), request.where)
    read_manifest(location(request.dataset))
    find_device(request.device)


def _with_names(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table of a sweep with the names of agents that it gives by references."""
    from hindcast.policies.own_agents import agent_name

    agents = table.get("agents")
    if not isinstance(agents, list) or not all(isinstance(one, str) for one in agents):
        return table
    return {**table, "agents": [agent_name(one) for one in agents]}


def run(request: Request, call: Call = directly) -> dict[str, Any]:
    """Run every training through `call`; finished trainings are skipped.

    A training that fails on its data or diverges gets a row with the error, and the others are
    still run. If all fail, the last error is raised. Raises RecipeError if the sweep is not valid.
    """
    with writing(location(request.out)):
        return _run(request, call)


def _run(request: Request, call: Call) -> dict[str, Any]:
    from hindcast.policies.offline.sweep import plan
    from hindcast.policies.offline.sweep_table import NAME, summary, tabulate
    from hindcast.policies.own_agents import reference_of

    training = find("train").Request  # by name, since that command imports this module
    place, runs = location(request.out), plan(_with_names(request.sweep), request.where)
    folders = [place / "runs" / run.name for run in runs]
    together = _together(request, runs)
    errors = _train_together(request, call, together)
    if errors and len(errors) == len(runs):
        raise DatasetError(next(reversed(errors.values())))
    alone = [one for one in runs if one not in together]
    requests = [
        training(
            dataset=request.dataset, agent=reference_of(one.agent),
            out=str(place / "runs" / one.name),
            steps=one.steps, seed=one.seed, settings=dict(one.settings), device=request.device,
            gate=request.gate,
        )
        for one in alone
    ]  # fmt: skip
    trainings = runners.calls(requests, call)
    for number, (one, train) in enumerate(zip(alone, trainings, strict=True), start=1):
        note(f"training {number} of {len(alone)}: {one.name}")
        try:
            train()
        except DatasetError as error:
            errors[one.name] = str(error)
            if len(errors) == len(runs):
                raise
    table = tabulate(runs, folders, errors)
    write_atomically(place / NAME, table_writer(table))
    return {
        "sweep": str(place / NAME),
        "runs": len(runs),
        "failed": errors,
        "lines": summary(table),
    }


def _together(request: Request, runs: Sequence["Run"]) -> "list[Run]":
    """Return the trainings that share programs with others: all of an agent that can, if asked."""
    from hindcast.policies.offline.stacked_training import can_stack
    from hindcast.policies.training.devices import find_device

    on_gpu = find_device(request.device).type != "cpu"
    if request.stacked == "no" or request.gate == "folds" or runners.asks_for_runner(request):
        return []
    if request.stacked == "auto" and not on_gpu:  # weights on a CPU are those of single trainings
        return []
    return [one for one in runs if can_stack(one.agent, one.settings)]


def _train_together(request: Request, call: Call, runs: Sequence["Run"]) -> dict[str, str]:
    """Train runs as one program per agent, and return the reasons of those that failed, by name."""
    from hindcast.flows.runs import stack
    from hindcast.policies.own_agents import reference_of

    errors: dict[str, str] = {}
    for agent in dict.fromkeys(one.agent for one in runs):
        of_agent = [one for one in runs if one.agent == agent]
        folders = [str(location(request.out) / "runs" / one.name) for one in of_agent]
        note(f"{len(of_agent)} trainings of {agent} as one program")
        result = call(
            stack.Request(
                request.dataset, reference_of(agent), [dict(one.settings) for one in of_agent],
                [one.seed for one in of_agent], folders, of_agent[0].steps, request.device,
                request.gate,
            )
        )  # fmt: skip
        for one, folder in zip(of_agent, folders, strict=True):
            if folder in result["failed"]:
                errors[one.name] = result["failed"][folder]
    return errors


def show(result: Mapping[str, Any]) -> Shown:
    """Return the trainings, best first, and the path of their table."""
    return Shown([*result["lines"], result["sweep"]])
