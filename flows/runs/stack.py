"""Trainings of one agent as one program: a step of a sweep, see hindcast.flows.runs.sweep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hindcast.flows import parser as p
from hindcast.flows.commands import Shown
from hindcast.flows.progress import progress
from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.storage.location import location


@dataclass(frozen=True)
class Request:
    """Dataset, agent, and the settings, seed and folder of each training."""

    dataset: p.Folder = p.hidden("folder of a dataset")
    agent: p.Name = p.hidden("agent to train, as for `hindcast train`")
    settings: list[dict[str, Any]] = p.hidden("settings of the agent to replace, by training")
    seeds: list[int] = p.hidden("seeds, by training")
    folders: list[str] = p.hidden("folders for the checkpoints, by training")
    steps: p.Count = p.hidden("gradient steps of each training")
    device: p.Device = p.hidden("where to train; auto takes a GPU if there is one", "auto")
    gate: p.Gate = p.hidden("how agents are compared with the best logged rule", "simulator")


def run(request: Request) -> dict[str, Any]:
    """Train an agent several times as one program; finished trainings are left unchanged."""
    from hindcast.policies.offline.stacked_training import Member, train_stacked
    from hindcast.policies.own_agents import agent_name
    from hindcast.policies.training.job import Options

    gate = None if request.gate == Request.gate else request.gate  # the usual one of its log
    options = Options(request.steps, device=request.device, gate=gate)
    parts = zip(request.settings, request.seeds, request.folders, strict=True)
    members = [Member(settings, seed, location(folder)) for settings, seed, folder in parts]
    agent = agent_name(request.agent)
    with progress(f"train {agent}, {count_of(len(members), 'run')} at once") as tell:
        failed = train_stacked(location(request.dataset), agent, members, options, tell)
    reasons = {
        folder: failed[member.out]
        for folder, member in zip(request.folders, members, strict=True)
        if member.out in failed
    }
    return {"agent": agent, "folders": request.folders, "failed": reasons}


def show(result: Mapping[str, Any]) -> Shown:
    """Return the folders of the trainings."""
    return Shown([*result["folders"]])
