"""Verification of the files of a dataset: all there, none foreign, none changed."""

import re
from pathlib import Path
from typing import Final

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.append import being_added
from hindcast.pipeline.dataset.building.build import append_in_progress
from hindcast.pipeline.dataset.building.parts import DATA, PLAN
from hindcast.pipeline.dataset.building.shared_plan import NAME as SHARED
from hindcast.pipeline.dataset.documents import croissant, publication
from hindcast.pipeline.dataset.estimated import FOLDER as ESTIMATED
from hindcast.pipeline.dataset.estimated import read_estimates
from hindcast.pipeline.errors import DatasetError, VerificationFailed
from hindcast.pipeline.recipes.checkpoints import FOLDER as POLICIES
from hindcast.pipeline.recipes.checkpoints import check_policies
from hindcast.pipeline.recipes.workload_source import DECISION_TABLES, DECISIONS, RECORD, RECORDED
from hindcast.pipeline.storage.files import LOCK, STATUS, is_partial, sha256_file
from hindcast.pipeline.storage.run_files import BUILDING

_OF_BUILD: Final = re.compile(r"part-[0-9]{5,}\.(json|parquet)")


def check_files(folder: Path, manifest: mf.Manifest) -> tuple[str, str]:
    """Return the name of the check and its result; raise VerificationFailed for a wrong file."""
    entries = [*manifest.parts, manifest.episodes]
    for entry in entries:
        path = folder / entry.path
        if path.is_symlink() or not path.is_file():
            raise VerificationFailed(
                f"{path}: this file of the manifest is missing, or is a link or a folder"
            )
        if path.stat().st_size != entry.bytes:
            raise VerificationFailed(
                f"{path}: this file has {path.stat().st_size} bytes, the manifest says "
                f"{entry.bytes}"
            )
        if (digest := sha256_file(path)) != entry.sha256:
            raise VerificationFailed(
                f"{path}: the SHA-256 of this file is {digest[:12]}..., the manifest says "
                f"{entry.sha256[:12]}..."
            )
    if not (folder / DATA).is_dir():
        raise VerificationFailed(
            f"{folder / DATA}: no such folder, expected the folder of the parts"
        )
    known, added = {entry.path for entry in entries}, being_added(folder, manifest)
    there = [f"{DATA}/{path.name}" for path in (folder / DATA).iterdir()]
    there += [path.name for path in folder.glob("episodes*") if mf.is_episodes(path.name)]
    for name in sorted(there):
        if name not in known and not added(name):
            raise VerificationFailed(f"{folder / name}: this file is not in the manifest")
    _check_top(folder, manifest)
    try:
        more = append_in_progress(folder) is not None
        policies = check_policies(manifest.recipes, folder, more=more)
    except DatasetError as error:
        raise VerificationFailed(str(error)) from error
    result = f"{len(entries)} files, {sum(e.bytes for e in entries):,} bytes"
    return "files", result + (f", {policies} policies" if policies else "")


def _check_top(folder: Path, manifest: mf.Manifest) -> None:
    """Raise VerificationFailed for a file beside the manifest that no build writes.

    An interrupted build or append leaves its plan and temporary files, see
    hindcast.pipeline.dataset.building.
    """
    known = {mf.NAME, mf.CARD, croissant.NAME, DATA, mf.WORKLOAD, manifest.episodes.path}
    known |= {*publication.added(folder)}
    known |= {LOCK, STATUS}  # of a command that writes into the folder, such as an append
    if manifest.recipe.trace.format == RECORDED:
        known.add(RECORD)
    if manifest.recipe.trace.format == DECISIONS:  # these are checked with the decisions
        known |= {RECORD, *DECISION_TABLES}
    interrupted = (folder / BUILDING).is_dir()
    if interrupted or any(
        b.is_checkpoint for recipe in manifest.recipes for b in recipe.behaviours
    ):
        known.add(POLICIES)  # its files are checked by check_policies
    if (folder / ESTIMATED).is_dir():
        known.add(ESTIMATED)
        try:
            read_estimates(folder, manifest)
        except DatasetError as error:
            raise VerificationFailed(str(error)) from error
    for path in sorted(folder.iterdir()):
        left = interrupted and (is_partial(path.name) or mf.is_episodes(path.name))
        if path.name not in known and path.name != BUILDING and not left:
            raise VerificationFailed(f"{path}: this file is not in the manifest")
    for path in sorted((folder / BUILDING).iterdir()) if interrupted else ():
        if (
            path.name not in {PLAN, SHARED}
            and not is_partial(path.name)
            and not _OF_BUILD.fullmatch(path.name)
        ):
            raise VerificationFailed(f"{path}: this file is not of an interrupted build")
