"""Lines of Python by room, and how many a change added and removed: `python -m tests.size [BASE]`.

A room is a folder of pipeline, policies or flows; tests and the files of the root are one each. The
change is that of the working tree against BASE, by default the branch `main`.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "policies", "flows")


def room_of(name: str) -> str:
    """Return the room of a file: pipeline/storage, policies, tests, or the root."""
    parts = name.split("/")
    if parts[0] in PACKAGES:
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
    return parts[0] if len(parts) > 1 else "the root"


def git(*words: str) -> list[str]:
    """Return the lines that git prints."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def rows(base: str) -> list[tuple[str, int, int, int]]:
    """Return each room with its lines, and with the lines added and removed since `base`."""
    lines, added, removed = Counter[str](), Counter[str](), Counter[str]()
    for name in git("ls-files", "*.py"):
        if (ROOT / name).is_file():
            lines[room_of(name)] += len((ROOT / name).read_text(encoding="utf-8").splitlines())
    for change in git("diff", "--numstat", "--no-renames", base, "--", "*.py"):
        more, less, name = change.split("\t")
        added[room_of(name)] += int(more)
        removed[room_of(name)] += int(less)
    return [(room, lines[room], added[room], removed[room]) for room in sorted({*lines, *removed})]


def main(base: str = "main") -> None:
    """Print a line per room, and one for all."""
    found = rows(base)
    total = ("all", *(sum(row[i] for row in found) for i in (1, 2, 3)))
    for room, lines, added, removed in [*found, total]:
        change = f"{added:+,} {-removed:,}" if added or removed else ""
        print(f"{room:<28}{lines:>8,}  {change}")


if __name__ == "__main__":
    main(*sys.argv[1:])
