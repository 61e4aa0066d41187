"""`hindcast train`: train an offline agent on a dataset, or several with --seeds or --sweep."""

import argparse
import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown, listed
from hindcast.flows.progress import progress, with_metrics
from hindcast.pipeline.errors import DatasetError, InputError, StorageError
from hindcast.pipeline.pages.numbers import (
    count_of,
    decimals_for,
    write_interval,
    write_number,
)
from hindcast.pipeline.storage.extras import require
from hindcast.pipeline.storage.location import location
from hindcast.policies.offline import AGENTS

_OF_ONE_TRAINING: Final = ("seed", "checkpoint_every", "tensorboard")
_OF_MANY: Final = ("runner", "address", "workers", "stacked")
_IN_A_SWEEP: Final = (*_OF_ONE_TRAINING, "agent", "steps", "seeds", "settings")


def settings_of(pairs: Sequence[str]) -> dict[str, Any]:
    """Return an agent's settings from key=value pairs; values that are not TOML are text."""
    import tomllib

    from hindcast.pipeline.recipes.toml_text import parse_toml

    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"--set {pair!r}: expected key=value")
        try:
            settings[key.strip()] = parse_toml(f"value = {text}", f"--set {key.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            settings[key.strip()] = text
    return settings


@dataclass(frozen=True)
class Request:
    """Dataset, agent to train on it, and the folder for its checkpoint."""

    dataset: p.Folder = p.argument("folder of a dataset")
    agent: p.Name = p.option(
        "agent to train, one of `hindcast list --agents`, or your own: path/to/file.py:NAME or "
        "module:NAME",
        metavar="NAME",
        required=False,
    )
    out: p.Folder = p.option("folder for the checkpoint; the best on validation is in its best/")
    steps: p.Count = p.option("gradient steps", default=2000)
    seed: p.Seed = p.option("seed of all random draws", default=0)
    settings: dict[str, Any] | None = p.option(
        "setting of the agent to replace (TOML), such as network.hidden=[64]; may be repeated",
        default=None, flag="--set", action="append", read=settings_of, metavar="KEY=VALUE",
    )  # fmt: skip
    device: p.Device = p.option("where to train; auto takes a GPU if there is one", default="auto")
    gate: p.Gate = p.option(
        "how the agent is compared with the best logged rule before it is delivered. simulator: "
        "both play the validation windows; folds: 4-fold cross-validation by four more trainings; "
        "lookahead: as simulator, and compares what is delivered with a rule that looks ahead; "
        "log: no simulator, less reliable",
        default="simulator",
    )
    checkpoint_every: p.Count | None = p.option(
        "steps between checkpoints that are kept, in the folder's checkpoints/", default=None
    )
    tensorboard: str | None = p.option(
        "folder for event files of TensorBoard (must be installed)", default=None, metavar="DIR"
    )


@dataclass(frozen=True)
class Many:
    """Options for several trainings, which become a sweep, see hindcast.flows.runs.sweep."""

    seeds: tuple[p.Seed, ...] = p.option(
        "seeds to train with, one training each, in the folder's runs/", default=()
    )
    sweep: p.Folder | None = p.option(
        "sweep.toml with agents, seeds and settings to try; trainings that are finished in the "
        "folder's runs/ are kept", default=None, metavar="FILE")  # fmt: skip
    runner: p.Runner = p.runner()
    address: str = p.address()
    workers: p.Workers = p.option(
        "processes of --runner without --address, one training at a time each", default=1
    )
    stacked: p.Stacked = p.option(
        "whether trainings of double_dqn, with networks of one shape, run as one program; auto "
        "does on a GPU", default="auto")  # fmt: skip


def _read(arguments: argparse.Namespace) -> Any:
    """Return the request of one training or of a sweep."""
    from hindcast.flows.runs import sweep

    options = vars(arguments)
    if options.get("gate", "log") != "log":  # a default is no wish, and is "log" for such logs
        from hindcast.pipeline import dataset as ds
        from hindcast.policies.training.delivery.gates import gate_for

        with contextlib.suppress(DatasetError, StorageError):  # the training says what it lacks
            gate_for(ds.open(location(arguments.dataset)), arguments.gate)
    if "sweep" not in options and "seeds" not in options:
        if "agent" not in options:
            raise InputError("train: give --agent NAME, or --sweep FILE")
        for name in _OF_MANY:
            if name in options:
                raise InputError(f"train: --{name} is for several trainings: --sweep or --seeds")
        return p.read_request(Request, arguments)
    refused: tuple[str, ...]
    if "sweep" in options:
        from hindcast.policies.offline.sweep import load_sweep

        refused, by = _IN_A_SWEEP, "--sweep, whose file contains it"
        table, where = load_sweep(location(arguments.sweep)), arguments.sweep
    else:
        if "agent" not in options:
            raise InputError("train: --seeds needs --agent NAME")
        refused, by, where = _OF_ONE_TRAINING, "--seeds", "--seeds"
        settings = {k: [v] for k, v in settings_of(options.get("settings", ())).items()}
        table = {"agents": [arguments.agent], "seeds": arguments.seeds,
                 "steps": options.get("steps", Request.steps), "settings": settings}  # fmt: skip
    for name in refused:
        if name in options:
            flag = "--set" if name == "settings" else f"--{name.replace('_', '-')}"
            raise InputError(f"train: {flag} is for a single training, not for {by}")
    more = {name: options[name] for name in _OF_MANY if name in options}
    return sweep.Request(
        arguments.dataset, table, arguments.out, options.get("device", Request.device), where,
        gate=options.get("gate", Request.gate), **more,
    )  # fmt: skip


def check(request: Request) -> None:
    """Raise InputError if the agent or device is unknown, or the folder is no dataset."""
    require("training", "torch")
    from hindcast.pipeline.dataset.manifest import read_manifest
    from hindcast.policies.offline import agent as find_agent
    from hindcast.policies.own_agents import agent_name

    find_agent(agent_name(request.agent))
    read_manifest(location(request.dataset))
    if request.device != "auto" or request.tensorboard is not None:  # else torch is not loaded yet
        from hindcast.policies.training.devices import find_device
        from hindcast.policies.training.tensorboard import check_tensorboard

        find_device(request.device)
        check_tensorboard(request.tensorboard)


def run(request: Request) -> dict[str, Any]:
    """Train an offline agent on a dataset and write its checkpoint, or continue a training."""
    from hindcast.policies.offline.training import train
    from hindcast.policies.own_agents import agent_name
    from hindcast.policies.training.job import Options, Reporting

    agent = agent_name(request.agent)
    options = Options(request.steps, request.seed, request.device, usual(request.gate))
    with progress(f"train {agent}, seed {request.seed}") as tell:
        board = None if request.tensorboard is None else Path(request.tensorboard)
        reporting = Reporting(*with_metrics(tell), request.checkpoint_every, board)
        folder = train(
            location(request.dataset), agent, location(request.out), options,
            settings=request.settings, reporting=reporting,
        )  # fmt: skip
    return result_of(folder, agent, request.steps, request.seed, [request.dataset])


def usual(gate: str) -> str | None:
    """Return the gate that a training is given: None, the usual one of its log, for the default."""
    return None if gate == Request.gate else gate


def result_of(
    folder: Path, agent: str, steps: int | None, seed: int, played: Sequence[str]
) -> dict[str, Any]:
    """Return the result of a command that wrote a checkpoint to this folder.

    `played` are the words that give the recipe to `hindcast evaluate`.
    """
    from hindcast.pipeline.storage.run_files import BEST, DELIVERED
    from hindcast.policies.networks.checkpoint import read_description

    best, delivered = folder / BEST, folder / DELIVERED
    kept = delivered.is_dir()
    # The log's own policy has no checkpoint: the training itself tells that it stays.
    description = read_description(delivered if kept else folder)
    verdict = description["training"].get("delivered")
    ahead, evaluate = (verdict or {}).get("ahead"), None
    if ahead is not None:
        words = [*played, "--policy", ahead["policy"], "--policy", str(delivered)]
        evaluate = shlex.join(["hindcast", "evaluate", *words, "--out", f"{folder}-ahead"])
    return {
        "checkpoint": str(folder),
        "best": str(best) if best.is_dir() else None,
        "delivered": str(delivered) if kept else None,
        "verdict": verdict,
        "uncompared": _looking_ahead(str(description["scenario"]), verdict),
        "evaluate": evaluate,
        "agent": agent,
        "steps": steps,
        "seed": seed,
    }


def _looking_ahead(scenario: str, verdict: Mapping[str, Any] | None) -> str | None:
    """Return the policy that looks ahead with the rule of a gate; None if the gate played it."""
    from hindcast.pipeline.scenarios import SCENARIOS, load_scenario
    from hindcast.policies.training.delivery.ahead import name_of

    if verdict is None or "ahead" in verdict or scenario not in SCENARIOS:  # of a log of decisions
        return None
    return name_of(load_scenario(scenario), verdict["rule"])


def show(result: Mapping[str, Any]) -> Shown:
    """Return the path of the checkpoint, and the delivered policy."""
    line = f"{result['checkpoint']}: {result['agent']}, {result['steps']:,} steps"
    return Shown([line, *_delivery(result)])


def _delivery(result: Mapping[str, Any]) -> list[str]:
    """Return a line with the policy that a training delivers, and the reason."""
    verdict = result.get("verdict")
    if verdict is None:
        return ["nothing is delivered: no rule, or no validation window, to compare the agent with"]
    if "why" in verdict:
        return [f"{result['delivered'] or 'nothing is delivered'}: {verdict['why']}"]
    rule, difference = verdict["rule"], verdict["difference"]
    ahead = _ahead(verdict, result["evaluate"]) if "ahead" in verdict else []
    if difference is None:
        line = f"{result['delivered']}: rule {rule}, because no checkpoint passed the guard"
        return [line, *ahead]
    where = f"on {count_of(verdict['windows'], 'unseen window')}"
    compared = f"{verdict['metric']} {_estimate(verdict)} {where}, + is better"
    if (low := _ends(verdict)[0]) is not None and low <= 0.0 < verdict["low"]:
        compared += "; the gate's own interval, which is narrower, excludes 0"
    if other := result.get("uncompared"):  # results of older ledgers have none
        compared += f"; {other} looks ahead and was not compared, which --gate lookahead does"
    which = f"rule {rule}, as the agent is not clearly better"
    if verdict["delivered"] == "agent":
        which = f"the agent, better than rule {rule}"
    return [f"{result['delivered']}: {which} ({compared})", *ahead]


def _ahead(verdict: Mapping[str, Any], evaluate: str) -> list[str]:
    """Return whether a policy that looks ahead is better, and then the command that scores it."""
    found = verdict["ahead"]
    name, (low, high) = found["policy"], _ends(found)
    delivered, other = f"the delivered {verdict['delivered']}", f"{name}, which looks ahead"
    which = f"neither {delivered} nor {other}, is clearly better"
    if worse := high is not None and high < 0.0:
        which = f"{other}, is better than {delivered}"
    elif low is not None and low > 0.0:
        which = f"{delivered} is better than {other}"
    notes = "; too few for an interval" if low is None else ""
    notes += f"; {name} has not played the guard's episodes" if found["unguarded"] else ""
    line = (
        f"{which} ({verdict['metric']} {_estimate(found)} on "
        f"{count_of(found['windows'], 'validation window')}, + is better for {delivered}{notes})"
    )
    return [line, f"to score both on the test windows: {evaluate}"] if worse else [line]


def _ends(found: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return the interval of a difference as it is shown: that of the gate is too narrow."""
    from hindcast.pipeline.statistics.percentile import widened

    if found["low"] is None:
        return None, None
    one = widened(found["difference"], found["low"], found["high"], found["windows"])
    return one.low, one.high


def _estimate(found: Mapping[str, Any]) -> str:
    """Return a difference, with its interval if it has one."""
    ends = _ends(found)
    decimals = decimals_for((found["difference"], *ends))
    estimate = write_number(found["difference"], decimals, signed=True)
    if ends[0] is not None:
        estimate += f" [{write_interval(*ends, decimals, signed=True)}]"
    return estimate


COMMANDS: Final = {"train": Command(
    "hindcast train datasets/demo --agent trajectory_preference --steps 1500 --out agents/tp",
    Request,
    lambda: listed("agents", AGENTS),
    recorded="asked",
    more=Many,
    read=_read,
)}  # fmt: skip
