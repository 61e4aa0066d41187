"""Which training a folder holds: a key of everything that its weights depend on.

A run goes on from a state, or is left alone as finished, only where the key is the same: agent,
settings, steps, seed, data, kind of device, versions of the libraries, and the source code of
`policies`.
"""

import dataclasses
import importlib.metadata
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import DatasetError
from pipeline.storage.files import sha256_text
from policies.networks.checkpoint import load_policy, read_description

_LIBRARIES = ("torch", "numpy", "d3rlpy")


def training_key(
    agent: str,
    config: Any,
    steps: int,
    seed: int,
    data: Mapping[str, Any],
    device: str,
    selected_by: str = "",
) -> str:
    """SHA-256 over all of it; `data` says which dataset, by digests."""
    parts = {
        "agent": agent,
        "config": dataclasses.asdict(config),
        "steps": steps,
        "seed": seed,
        "data": dict(data),
        "device": device,
        "selected_by": selected_by,
        "libraries": {name: importlib.metadata.version(name) for name in _LIBRARIES},
        "code": _code(),
    }
    return sha256_text(json.dumps(parts, sort_keys=True))


def _code() -> str:
    """SHA-256 over the sources of the package `policies`, by path."""
    root = Path(__file__).resolve().parents[1]
    sources = sorted(root.rglob("*.py"))
    text = "\n".join(f"{p.relative_to(root)}\n{p.read_text(encoding='utf-8')}" for p in sources)
    return sha256_text(text)


def finished(folder: Path, key: str, checkpoint_every: int | None) -> bool:
    """Whether the folder holds the whole checkpoint of this training.

    Checkpoints on the way are no part of the key, but where they are asked for, they must be there.
    """
    try:
        training = read_description(folder)["training"]
        if not isinstance(training, dict) or training.get("key") != key:
            return False
        load_policy(folder)
    except (DatasetError, KeyError):
        return False
    if checkpoint_every is None:
        return True
    steps = range(checkpoint_every, training["steps"] + 1, checkpoint_every)
    wanted = {*steps, training["steps"]}
    return all((folder / "checkpoints" / f"step-{n:06}/checkpoint.json").is_file() for n in wanted)
