"""Compare the bytes of datasets that two checkouts write.

    python -m tests.same_bytes record CHECKOUT FILE [RECIPE ...]
    python -m tests.same_bytes small CHECKOUT FILE
    python -m tests.same_bytes compare A B

`record` builds every recipe that records on two train windows, and one of each other split, with
the command line of the checkout, and writes the SHA-256 of every file. The recipes that FILE has
already are left alone. `small` builds one recipe of each scenario in that way. It also runs the
demonstration on a few windows, trains two more agents and answers `whatif` for the example log.
`compare` says for every recipe and command: equal, differs in versions only, or what differs; its
exit code is 1 where more than versions does.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Largest number of episodes per window in recipes whose names begin so.
MOST = {
    "binpack-alibaba2017": 1, "binpack-synthetic": 3, "deferrable": 3, "multicluster": 2,
    "slots-deeprm-rate10": 2, "slots-deeprm": 3, "slots-report": 2, "slots-stream": 2,
}  # fmt: skip
DOCUMENTS = ("manifest.json", "README.md", "croissant.json")
SMALL = (
    "binpack-synthetic-v1", "deferrable-base-v1", "multicluster-uniform-v1", "queue-lublin1-v1",
    "rlscheduler-lublin1-v1", "slots-deeprm-v1", "thermal-default-v1",
)  # fmt: skip
COMMANDS = {  # by folder; each writes --out FOLDER
    "run": (
        "run", "slots-demo-v1", "--direct", "--set", 'split.train="0..19"',
        "--set", 'split.validation="120..131"', "--set", 'split.test="1000..1009"',
        "--set", "train.settings.cql.steps=40",
    ),
    "double_dqn": ("train", "run/dataset", "--agent", "double_dqn", "--steps", "40", "--direct"),
    "cloning": (
        "train", "run/dataset", "--agent", "advantage_cloning", "--steps", "40", "--direct",
    ),
    "ppo": ("train-online", "slots-demo-v1", "--agent", "ppo", "--iterations", "2", "--direct"),
    "whatif": ("whatif", "example.swf"),
}  # fmt: skip
# A checkout is a package; older ones are three. Two of them differ in commits.
MAIN = """
import sys
try:
    from hindcast.flows.cli import main
    from hindcast.pipeline.storage import provenance
except ImportError:
    from flows.cli import main
    from pipeline.storage import provenance
provenance.commit = lambda: "any"
sys.exit(main(sys.argv[1:]))
"""


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def inline(value: Any) -> str:
    """Return a value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}={inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(inline, value)) + "]"
    return json.dumps(value)


def overrides(name: str, recipe: dict[str, Any]) -> list[str]:
    """Return the settings that make a build of the recipe small."""
    begin = {split: int(span.split("..")[0]) for split, span in recipe["split"].items()}
    split = {s: f"{n}..{n + (s == 'train')}" for s, n in begin.items()}
    most = next((n for start, n in MOST.items() if name.startswith(start)), 100)
    behaviours = [{**b, "episodes": min(b.get("episodes", 1), most)} for b in recipe["behaviours"]]
    return [f"split={inline(split)}", f"behaviours={inline(behaviours)}"]


def without_versions(text: str, manifest: dict[str, Any], raw: bytes) -> str:
    """Return the text of a document without the parts that depend on versions of packages."""
    text = text.replace(digest(raw), "").replace(manifest.get("sealed", " "), "")
    for package, version in sorted(manifest["versions"].items()):
        for before in (f'{package}": "', f"{package} ", f"{package}=="):
            text = text.replace(before + version, before)
    return text


def measured(folder: Path) -> dict[str, Any]:
    """Return the digests of a dataset's files, and of its documents without versions."""
    files = {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}
    raw = files["manifest.json"].read_bytes()
    manifest = json.loads(raw)
    texts = {n: without_versions(files[n].read_text("utf-8"), manifest, raw) for n in DOCUMENTS}
    return {
        "files": {name: digest(path.read_bytes()) for name, path in files.items()},
        "documents": {name: digest(text.encode()) for name, text in texts.items()},
        "versions": manifest["versions"],
    }


def record(checkout: Path, target: Path, names: list[str]) -> None:
    """Build the recipes that are not recorded yet, one after the other."""
    done = json.loads(target.read_text("utf-8")) if target.exists() else {}
    found = {
        path.parent.name: tomllib.loads(path.read_text("utf-8"))
        for path in sorted((checkout / "datasets").glob("*/recipe.toml"))
    }
    for name in names or [n for n, recipe in found.items() if recipe.get("behaviours")]:
        if name in done:
            continue
        words = [w for s in overrides(name, found[name]) for w in ("--set", s)]
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "dataset"
            hindcast(checkout, checkout, ["build", name, *words, "--direct", "--out", str(out)])
            done[name] = measured(out)
        target.write_text(json.dumps(done, indent=1, sort_keys=True), encoding="utf-8")


def record_commands(checkout: Path, target: Path) -> None:
    """Run the commands in an empty folder and add the digests of all files that they write."""
    done = json.loads(target.read_text("utf-8"))
    scratch = Path(tempfile.gettempdir()) / "hindcast-same-bytes"  # its name is in pages
    scratch.mkdir()
    try:
        shutil.copy(checkout / "examples" / "example.swf", scratch)
        for folder, words in COMMANDS.items():
            hindcast(checkout, scratch, [*words, "--out", folder])
            out = scratch / folder
            files = {str(p.relative_to(out)): p for p in out.rglob("*") if p.is_file()}
            done[folder] = {"files": {n: digest(p.read_bytes()) for n, p in files.items()}}
    finally:
        shutil.rmtree(scratch)
    target.write_text(json.dumps(done, indent=1, sort_keys=True), encoding="utf-8")


def hindcast(checkout: Path, folder: Path, words: list[str]) -> None:
    """Run a command line of the checkout in a folder."""
    environment = {
        "HINDCAST_TRACES": str(ROOT.parent / "shared" / "traces"),
        **os.environ, "PYTHONPATH": str(checkout),
        "HINDCAST_CACHE": "",  # pages say what the ledger in it knows
    }  # fmt: skip
    subprocess.run([sys.executable, "-c", MAIN, *words], cwd=folder, env=environment, check=True)


def verdict(a: dict[str, Any], b: dict[str, Any]) -> str:
    """Return what two builds of one recipe have in common."""
    if a["files"] == b["files"]:
        return "equal"
    of_both = sorted({*a["files"], *b["files"]} - {*DOCUMENTS})
    changed = [name for name in of_both if a["files"].get(name) != b["files"].get(name)]
    documents, others = (each.get("documents", each["files"]) for each in (a, b))
    changed += [n for n in DOCUMENTS if documents.get(n) != others.get(n)]
    if changed:
        return f"differs: {', '.join(changed)}"
    return "differs in versions only" if a["versions"] != b["versions"] else "differs in its seal"


def compare(first: Path, second: Path) -> int:
    a, b = (json.loads(path.read_text("utf-8")) for path in (first, second))
    found = {
        name: verdict(a[name], b[name]) if name in a and name in b else "is in one of them only"
        for name in sorted({*a, *b})
    }
    print("\n".join(f"{name}: {what}" for name, what in found.items()))
    return int(bool({*found.values()} - {"equal", "differs in versions only"}))


if __name__ == "__main__":
    _, what, one, other, *rest = sys.argv
    if what == "compare":
        sys.exit(compare(Path(one), Path(other)))
    record(Path(one).resolve(), Path(other), list(SMALL) if what == "small" else rest)
    if what == "small":
        record_commands(Path(one).resolve(), Path(other))
