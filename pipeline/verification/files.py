"""The files of a dataset as its manifest claims them: all there, none too many, none changed."""

from pathlib import Path

from pipeline.building.append import being_added
from pipeline.building.build import append_in_progress
from pipeline.building.parts import DATA
from pipeline.dataset import manifest as mf
from pipeline.errors import DatasetError, VerificationFailed
from pipeline.recipes.checkpoints import check_policies
from pipeline.storage.files import sha256_file


def check_files(folder: Path, manifest: mf.Manifest) -> tuple[str, str]:
    """The check's name and what it saw; VerificationFailed that names the first file at fault."""
    entries = [*manifest.parts, manifest.episodes]
    for entry in entries:
        path = folder / entry.path
        if path.is_symlink() or not path.is_file():
            raise VerificationFailed(f"{path}: is missing, or no file")
        if path.stat().st_size != entry.bytes:
            raise VerificationFailed(
                f"{path}: has {path.stat().st_size} bytes, the manifest says {entry.bytes}"
            )
        if (digest := sha256_file(path)) != entry.sha256:
            raise VerificationFailed(
                f"{path}: SHA-256 is {digest[:12]}..., the manifest says {entry.sha256[:12]}..."
            )
    if not (folder / DATA).is_dir():
        raise VerificationFailed(f"{folder / DATA}: no such folder")
    known, added = {entry.path for entry in entries}, being_added(folder, manifest)
    there = [f"{DATA}/{path.name}" for path in (folder / DATA).iterdir()]
    there += [path.name for path in folder.glob("episodes*") if mf.is_episodes(path.name)]
    for name in sorted(there):
        if name not in known and not added(name):
            raise VerificationFailed(f"{folder / name}: is not in the manifest")
    try:
        more = append_in_progress(folder) is not None
        policies = check_policies(manifest.recipes, folder, more=more)
    except DatasetError as error:
        raise VerificationFailed(str(error)) from error
    told = f"{len(entries)} files, {sum(e.bytes for e in entries):,} bytes"
    return "files", told + (f", {policies} policies" if policies else "")
