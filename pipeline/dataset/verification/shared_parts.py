"""Replay of the parts of a dataset in other processes, on this machine or on others.

The process that verifies hands out the folder, the SHA-256 of its manifest and numbers of parts. A
process that replays parts opens the folder itself, which may be the URL of a store.
"""

import functools
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.verification.replayed import Replayed
from hindcast.pipeline.dataset.verification.verify import Drawn, replay_part
from hindcast.pipeline.errors import DatasetError, VerificationFailed
from hindcast.pipeline.simulation.policy import Behaviour
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.workloads.folder import load_workload

Behaviours = Callable[[Path], Mapping[str, Behaviour]]


def replay(
    folder: str, manifest: str, part: int, behaviours: Behaviours, *, quick: bool
) -> Replayed:
    """Replay one part of the dataset whose manifest has this SHA-256.

    `behaviours` returns the behaviours of the dataset in a folder that are known here. Raises
    VerificationFailed for the first claim that does not hold, and if the dataset was changed since.
    """
    path = location(folder)
    if not (path / mf.NAME).exists():
        raise DatasetError(
            f"{path / mf.NAME}: no such file on {socket.gethostname()}; the workers need the same "
            "folder under the same path, or the URL of a store"
        )
    if files.sha256_file(path / mf.NAME) != manifest:
        raise VerificationFailed(f"{path}: this dataset was changed while it was verified")
    return replay_part(_open(folder, manifest, behaviours, quick), part)


@functools.lru_cache(maxsize=2)
def _open(folder: str, manifest: str, behaviours: Behaviours, quick: bool) -> Drawn:
    del manifest  # another dataset in the same folder is another entry of the cache
    path = location(folder)
    return Drawn(ds.open(path), load_workload(path / mf.WORKLOAD), behaviours(path), quick=quick)
