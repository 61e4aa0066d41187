"""Mutation tests of the tests: `python -m tests.mutants --commit REV --out FILE`.

Every mutant of mutants.toml is one edit of one place. Its text is searched in all files of the
packages, with or without the name of a module before constants. Tests are found by the names of
their functions (file.py::name where several files have the name). So code and tests may move.

REV is checked out in a worktree below out/mutants. First all chosen tests run without any mutant:
that fills numba's caches, and a test that fails there says nothing about mutants. Compiled
functions are linked into the caches of the files that call them, so the caches of a mutated file
and of its callers are put aside for the run. FILE keeps the results, and the same command resumes
from them.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
HERE = REPOSITORY / "out" / "mutants"
TREE = HERE / "tree"
PACKAGES = ("pipeline", "policies", "flows")
TIMEOUT_S = 300.0


def mutants() -> list[tuple[str, str, str, str, list[str]]]:
    """Return name, place, old text, new text and tests of every mutant."""
    table = tomllib.loads((REPOSITORY / "tests" / "mutants.toml").read_text(encoding="utf-8"))
    return [(m["name"], m["place"], m["old"], m["new"], m["tests"]) for m in table["mutant"]]


def pattern(text: str) -> re.Pattern[str]:
    """Return a pattern of a text: any blanks, and names with or without a module."""
    out = []
    for token in re.findall(r"\s+|[A-Za-z_]\w*|[^\sA-Za-z_]", text):
        if token.isspace():
            out.append(r"\s+")
        elif re.fullmatch(r"_?[A-Z][A-Z_0-9]*", token):
            out.append(r"(?:\b\w+\.)?" + token + r"\b")
        else:
            out.append(re.escape(token))
    return re.compile("".join(out))


def sources(tree: Path) -> list[Path]:
    return [p for package in PACKAGES for p in sorted((tree / package).rglob("*.py"))]


def place(tree: Path, text: str) -> tuple[Path, re.Match[str]] | str:
    """Return the file and match of a place, or the reason why there is not exactly one match."""
    found = [(p, m) for p in sources(tree) for m in pattern(text).finditer(p.read_text())]
    if len(found) == 1:
        return found[0]
    return f"{len(found)} hits" + "".join(f", {p.relative_to(tree)}" for p, _ in found[:3])


def edited(content: str, match: re.Match[str], old: str, new: str) -> str | None:
    """Return the file with `old` in the match replaced, or None unless `old` is there once."""
    inside = list(pattern(old).finditer(match.group()))
    if not inside:
        return None
    at = match.start() + inside[0].start()
    end = match.start() + inside[0].end()
    return content[:at] + new + content[end:]


def test_ids(tree: Path, names: list[str]) -> tuple[list[str], list[str]]:
    """Return pytest's ids of these tests, and the names that no file has."""
    files = {p: p.read_text() for p in sorted((tree / "tests").rglob("test_*.py"))}
    ids, missing = [], []
    for name in names:
        hint, _, function = name.rpartition("::")
        defined = re.compile(rf"^def {function}\(", re.MULTILINE)
        having = [p for p, text in files.items() if defined.search(text)]
        having = [p for p in having if p.name == hint] or having
        ids += [f"{p.relative_to(tree)}::{function}" for p in having]
        if not having:
            missing.append(name)
    return list(dict.fromkeys(ids)), missing


def compiled_in(text: str) -> set[str]:
    """Return the names of the compiled functions of a file."""
    return {
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
        and any(
            "compiled" in ast.unparse(d) or "jit" in ast.unparse(d) for d in node.decorator_list
        )
    }


def callers(tree: Path, path: Path) -> set[Path]:
    """Return the file, and all files whose compiled functions may be linked with the file's own."""
    texts = {p: p.read_text() for p in sources(tree)}
    module = {
        p: ".".join(p.relative_to(tree).with_suffix("").parts).removesuffix(".__init__")
        for p in texts
    }
    compiled = {p: compiled_in(text) for p, text in texts.items()}
    imported: dict[Path, set[str]] = {}  # dotted names, of modules and of the objects in them
    for p, text in texts.items():
        found = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.Import):
                found |= {a.name for a in node.names}
        imported[p] = found
    closure, new = {path}, [path]
    while new:
        at = new.pop()
        names = {f"{module[at]}.{n}" for n in compiled[at]} | {module[at]}
        for p in texts:
            if p not in closure and compiled[p] and imported[p] & names:
                closure.add(p)
                new.append(p)
    return closure


class Aside:
    """numba's caches of some files, moved away and restored at the end."""

    def __init__(self, files: set[Path]) -> None:
        self._files = files
        self._box = Path(tempfile.mkdtemp(dir=HERE))

    def _own(self) -> list[Path]:
        return [
            c
            for p in self._files
            for c in (p.parent / "__pycache__").glob(f"{p.stem}.*")
            if c.suffix in {".nbi", ".nbc"}
        ]

    def __enter__(self) -> None:
        self._there = []
        for number, cache in enumerate(self._own()):
            shutil.move(cache, self._box / str(number))
            self._there.append(cache)

    def __exit__(self, *_: object) -> None:
        for cache in self._own():
            cache.unlink()
        for number, cache in enumerate(self._there):
            shutil.move(self._box / str(number), cache)
        self._box.rmdir()


def pytest(
    tree: Path, ids: list[str], timeout: float, *, stop: bool = True
) -> tuple[int, str, float]:
    env = {
        "HINDCAST_TRACES": str(REPOSITORY.parent / "shared" / "traces"),
        **os.environ,
        "PYTHONPATH": str(tree),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    began = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "--tb=line",
        "-p",
        "no:cacheprovider",
        *(["-x"] if stop else []),
        *ids,
    ]
    process = subprocess.Popen(
        command,
        cwd=tree,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
        code = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # the group of this very process: it leads its own session
        output, _ = process.communicate()
        code = -1
    return code, output, time.monotonic() - began


def failing(output: str) -> list[str]:
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)


def checkout(commit: str) -> str:
    """Check the commit out into the worktree, making it if needed, and return its full name."""
    HERE.mkdir(parents=True, exist_ok=True)
    git = ["git", "-C"]
    revision = subprocess.run(
        [*git, REPOSITORY, "rev-parse", f"{commit}^{{commit}}"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    if not TREE.exists():
        subprocess.run(
            [*git, REPOSITORY, "worktree", "add", "--detach", str(TREE), revision],
            check=True,
            capture_output=True,
        )
    subprocess.run([*git, str(TREE), "checkout", "-q", "-f", "--detach", revision], check=True)
    subprocess.run([*git, str(TREE), "clean", "-q", "-f", "-d"], check=True)
    return revision


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commit", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument(
        "--find", action="store_true", help="only look whether places and tests are there"
    )
    given = parser.parse_args()
    revision = checkout(given.commit)
    chosen = [m for m in mutants() if not given.only or any(o in m[0] for o in given.only)]
    results: dict = {"commit": revision, "mutants": {}}
    if given.out.exists() and (old := json.loads(given.out.read_text())).get("commit") == revision:
        results = old  # a repeated command continues here; delete the file to start again

    def keep() -> None:
        given.out.write_text(json.dumps(results, indent=1))

    plans = {}
    for name, text, before, after, tests in chosen:
        ids, missing = test_ids(TREE, tests)
        found = place(TREE, text)
        if isinstance(found, str):
            plans[name] = (None, ids, missing, found)
            continue
        path, match = found
        new = edited(path.read_text(), match, before, after)
        fault = "edit does not apply" if new is None else ""
        try:
            ast.parse(new or "")
        except SyntaxError as error:
            fault = f"no Python ({error})"
        plans[name] = ((path, new), ids, missing, fault)
    for name, (_, ids, missing, fault) in plans.items():
        if given.find or fault or not ids:
            print(
                f"{name}: {fault or 'found'}, {len(ids)} tests"
                + (f", missing {missing}" if missing else ""),
                flush=True,
            )
    if given.find:
        return 0
    wanted = list(
        dict.fromkeys(
            i
            for name, (_, ids, _, _) in plans.items()
            if name not in results["mutants"]
            for i in ids
        )
    )
    bad = set(results.get("fail_without_mutants", []))
    if new_ids := [i for i in wanted if i not in results.get("ran_without_mutants", [])]:
        code, output, seconds = pytest(TREE, new_ids, 1800, stop=False)
        bad |= {i.split("[")[0] for i in failing(output)}
        results["fail_without_mutants"] = sorted(bad)
        results["ran_without_mutants"] = sorted({*results.get("ran_without_mutants", []), *new_ids})
        print(
            f"without mutants: {len(new_ids)} tests, exit {code}, {seconds:.0f} s, "
            f"failing {sorted(bad)}",
            flush=True,
        )
        if code == -1 or code > 1:
            print(output[-3000:])
            return 2
        keep()
    for name, (plan, ids, missing, fault) in plans.items():
        if name in results["mutants"]:
            continue
        entry: dict = {"missing_tests": missing}
        usable = [i for i in ids if i not in bad]
        if plan is None or fault:
            entry |= {"result": "not found", "why": fault}
        elif not usable:
            entry |= {"result": "no tests"}
        else:
            path, new = plan
            content, stamp = path.read_bytes(), path.stat()
            with Aside(callers(TREE, path)):
                try:
                    path.write_text(new)
                    code, output, seconds = pytest(TREE, usable, TIMEOUT_S)
                finally:
                    path.write_bytes(content)
                    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            first = failing(output)
            verdict = {0: "survived", 1: "killed", -1: "killed (timeout)"}.get(
                code, f"killed (exit {code})"
            )
            entry |= {
                "result": verdict,
                "by": first[:1],
                "seconds": round(seconds, 1),
                "file": str(path.relative_to(TREE)),
            }
            if code not in {0, 1}:
                entry["output"] = output[-1500:]
        results["mutants"][name] = entry
        keep()
        why, seconds = entry.get("by", entry.get("why", "")), entry.get("seconds", 0.0)
        print(f"{entry['result']:<10} {name}  {why} {seconds} s", flush=True)
    lived = [n for n, e in results["mutants"].items() if not e["result"].startswith("killed")]
    print(f"{len(results['mutants'])} mutants, {len(lived)} not killed: {lived}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
