"""`hindcast train-online`: train an agent that plays the train windows of a recipe."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows import runners
from hindcast.flows.commands import Command, Shown, listed, train
from hindcast.flows.progress import progress, with_metrics
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.extras import require
from hindcast.pipeline.storage.location import location
from hindcast.policies.online import ONLINE_AGENTS


@dataclass(frozen=True)
class Request:
    """Recipe, agent that plays it, and the folder for the agent's checkpoint."""

    recipe: p.Name = p.recipe()
    out: p.Folder = p.option("folder for the checkpoint; the best on validation is in its best/")
    overrides: tuple[p.Override, ...] = p.overrides()
    agent: p.Name | None = p.option(
        "agent to train, one of `hindcast list --agents`, or your own: path/to/file.py:NAME or "
        "module:NAME (default: the recipe's)",
        default=None, metavar="NAME")  # fmt: skip
    iterations: p.Count | None = p.option(
        "batches of trajectories (default: the recipe's)", default=None
    )
    seed: p.Seed = p.option("seed of all random draws", default=0)
    seeds: tuple[p.Seed, ...] = p.option(
        "seeds to train with, one training each, in the folder's runs/", default=()
    )
    start: p.Folder | None = p.option(
        "folder of a checkpoint to start from, for instance of behaviour_cloning or this agent",
        default=None, flag="--from", metavar="CHECKPOINT")  # fmt: skip
    imitate: p.Folder | None = p.option(
        "folder of a dataset whose best behaviours the agent imitates before it plays",
        default=None, metavar="DATASET")  # fmt: skip
    imitate_steps: p.Count | None = p.option(
        "gradient steps, or generations, of the imitation (default: the recipe's, or 2000)",
        default=None,
    )
    device: p.Device = p.option(
        "where to train; auto takes a GPU if there is one; episodes are played on the CPU",
        default="auto",
    )
    workers: p.Workers = p.workers()
    checkpoint_every: p.Count | None = p.option(
        "iterations between checkpoints that are kept, in the folder's checkpoints/", default=None
    )
    gate: p.OnlineGate = p.option(
        "how the agent is compared with the best rule before it is delivered. simulator: both play "
        "the validation windows; folds: 4-fold cross-validation by four more trainings; lookahead: "
        "as simulator, and compares what is delivered with a rule that looks ahead",
        default="simulator",
    )
    runner: p.Runner = p.runner()
    address: str = p.address()
    members: tuple[p.Folder, ...] = p.option(
        "folders of checkpoints; the agent is their ensemble, whose scores are the means of "
        "theirs, and is trained only if --iterations is given",
        default=(), flag="--from-mean", metavar="CHECKPOINT")  # fmt: skip


def _read(arguments: argparse.Namespace) -> Request:
    if hasattr(arguments, "seeds") and hasattr(arguments, "seed"):
        raise InputError("train-online: give --seed or --seeds")
    request: Request = p.read_request(Request, arguments)
    return request


def check(request: Request) -> None:
    """Raise InputError if the recipe, settings, agent, device or a given folder is not valid."""
    require("training", "torch")
    if request.imitate_steps is not None and request.imitate is None:
        raise InputError("train-online: --imitate-steps is for --imitate")
    from hindcast.pipeline.dataset.manifest import read_manifest
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.networks.checkpoint import read_description
    from hindcast.policies.online.training import settings_of
    from hindcast.policies.own_agents import online_agent_name
    from hindcast.policies.training.devices import find_device

    runners.check(request)
    agent = request.agent and online_agent_name(request.agent)
    settings_of(load_recipe(request.recipe, request.overrides), agent)
    find_device(request.device)
    if len(request.members) == 1:
        raise InputError("train-online: --from-mean needs two checkpoints; --from takes one")
    values = request.start, request.members, request.imitate
    flags = zip(("--from", "--from-mean", "--imitate"), values, strict=True)
    starts = [flag for flag, value in flags if value]
    if len(starts) > 1:
        raise InputError(f"train-online: give {' or '.join(starts)}")
    for folder in _starts(request):
        read_description(location(folder))
    if request.imitate is not None:
        read_manifest(location(request.imitate))


def run(request: Request) -> dict[str, Any]:
    """Train one online agent on the train windows of a recipe, with one seed or several."""
    if request.seeds:
        from hindcast.flows.runs.seeds import train_seeds

        return train_seeds(request)
    from hindcast.pipeline.recipes.loading import load_recipe
    from hindcast.policies.networks.checkpoint import read_description
    from hindcast.policies.online.imitation import Imitation
    from hindcast.policies.online.training import train_online
    from hindcast.policies.own_agents import online_agent_name
    from hindcast.policies.training.job import Options, Reporting

    loaded = load_recipe(request.recipe, request.overrides)
    name = online_agent_name(request.agent) if request.agent else loaded.online.agent
    options = Options(request.iterations, request.seed, request.device, request.gate)
    imitation = None
    if request.imitate is not None:
        steps = request.imitate_steps or loaded.online.imitate_steps or Imitation.steps
        imitation = Imitation(location(request.imitate), steps)
    with progress(f"train {name} on {loaded.id}, seed {request.seed}") as tell:
        folder = train_online(
            loaded, location(request.out), options, agent=name or None,
            start=[location(folder) for folder in _starts(request)], imitation=imitation,
            workers=request.workers,
            reporting=Reporting(*with_metrics(tell), request.checkpoint_every),
        )  # fmt: skip
    steps = read_description(folder)["training"]["steps"]
    played = [request.recipe, *(word for one in request.overrides for word in ("--set", one))]
    return train.result_of(folder, name, steps, request.seed, played)


def _starts(request: Request) -> tuple[p.Folder, ...]:
    """Return the folders of the checkpoints that the training starts from."""
    return request.members if request.start is None else (request.start,)


def show(result: Mapping[str, Any]) -> Shown:
    """Return the path of the checkpoint of each seed."""
    runs = result.get("runs", [result])
    return Shown([line for run in runs for line in train.show(run).lines], runs)


COMMANDS: Final = {"train-online": Command(
    "hindcast train-online slots-deeprm-online --out agents/deeprm --workers 2",
    Request,
    lambda: (
        "The settings of the agent are in [online.settings] of the recipe. Replace one like this:\n"
        "--set online.settings.sampling.trajectories=20\n\n" + listed("agents", ONLINE_AGENTS)
    ),
    recorded="asked",
    read=_read,
)}  # fmt: skip
