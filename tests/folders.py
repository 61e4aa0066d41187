"""Contents of folders, for tests that compare them."""

from pathlib import Path


def content(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder, by path."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
