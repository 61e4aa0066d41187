"""The identity of a training: a key over everything that its weights depend on.

A run resumes from a state, or counts as finished, only if the key is the same. The key covers the
agent, settings, steps, seed, data, kind of device, versions of this package and of its libraries,
and kernels that variables choose. The version of the package covers its own agents. An agent from
elsewhere has no such version, so the key covers its source code.
"""

import dataclasses
import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch

from hindcast.pipeline.storage.files import sha256_text
from hindcast.pipeline.storage.provenance import chosen_kernels
from hindcast.pipeline.storage.versions import package_versions, version

_LIBRARIES: Final = ("torch", "numpy", "d3rlpy")
_SCRIPT: Final = "__main__"  # module of an agent that its own script trains
_OWN: Final = "hindcast."


@dataclass(frozen=True)
class Identity:
    """Everything that the weights and the delivery of a training depend on.

    Attributes:
        agent: Name of the agent.
        module: Dotted name of the module with the agent's implementation.
        config: The agent's Config.
        steps: Number of steps that are asked for.
        seed: Seed of every random draw.
        data: Digests that identify what the agent learns from, as JSON.
        device: Device of the training. Only its kind, "cpu" or "cuda", is part of the key.
        gate: Comparison that decides what is delivered (hindcast.policies.training.delivery).
        stacked: True for a training in one program with others, which rounds differently.
    """

    agent: str
    module: str
    config: Any
    steps: int
    seed: int
    data: Mapping[str, Any]
    device: torch.device
    gate: str = "simulator"
    stacked: bool = False

    @cached_property
    def key(self) -> str:
        """Key of the training, a SHA-256 digest."""
        parts = {
            "agent": self.agent,
            "config": dataclasses.asdict(self.config),
            "steps": self.steps,
            "seed": self.seed,
            "data": dict(self.data),
            "device": self.device.type,
            "selected_by": "",  # part of the keys of 0.1 and 0.2
            "version": version(),
            "libraries": package_versions(_LIBRARIES),
        }
        if not self.module.startswith(_OWN):
            parts["code"] = code_digest(agent_sources(self.module))
        if self.stacked:
            parts["stacked"] = True
        if self.gate != "simulator":
            parts["gate"] = self.gate
        if kernels := chosen_kernels():
            parts["kernels"] = kernels
        return sha256_text(json.dumps(parts, sort_keys=True))


def agent_sources(module: str) -> list[Path]:
    """Return the source files of an agent: its module, or all files of its package."""
    if module == _SCRIPT:  # a script has no spec
        file = getattr(sys.modules[module], "__file__", None)
        return [] if file is None else [Path(file)]
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return []  # defined in an interactive session
    path = Path(spec.origin)
    return [path] if spec.submodule_search_locations is None else list(path.parent.glob("*.py"))


def code_digest(sources: list[Path]) -> str:
    """Return the SHA-256 over the contents of source files, whatever their names and folders."""
    return sha256_text("\n".join(sorted(sha256_text(p.read_text("utf-8")) for p in sources)))
