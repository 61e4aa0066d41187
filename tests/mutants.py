"""Mutation tests of the tests: `python -m tests.mutants --commit REV --out FILE`.

Every mutant of mutants.toml is one edit of one place. Its text is searched in all files of the
packages, with or without the name of a module before constants. Tests are found by the names of
their functions (file.py::name where several files have the name). So code and tests may move.

REV is checked out in a worktree below out/mutants. First all chosen tests run without any mutant:
that compiles kernels, and a test that fails there says nothing about mutants. Tests marked nightly
are left out, unless --marks says otherwise. FILE keeps the results, and the same command resumes
from them. The exit code is 1 if a mutant lives.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from functools import cache
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


@cache
def sources(tree: Path) -> dict[Path, str]:
    """Return the text of every file of the packages."""
    paths = [p for package in PACKAGES for p in sorted((tree / package).rglob("*.py"))]
    return {path: path.read_text(encoding="utf-8") for path in paths}


@cache
def tests_of(tree: Path) -> dict[Path, str]:
    """Return the text of every file with tests."""
    paths = sorted((tree / "tests").rglob("test_*.py"))
    return {path: path.read_text(encoding="utf-8") for path in paths}


def place(tree: Path, text: str) -> tuple[Path, re.Match[str]] | str:
    """Return the file and match of a place, or the reason why there is not exactly one match."""
    wanted = pattern(text)
    found = [(p, m) for p, content in sources(tree).items() for m in wanted.finditer(content)]
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
    files = tests_of(tree)
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


class Kernels:
    """Compiled functions as they are without a mutant, put back at the end.

    Their files are named by what they were compiled from. A mutant removes those of the functions
    that it changes.
    """

    def __enter__(self) -> None:
        self._kept = {path: path.read_bytes() for path in TREE.rglob("*.nb[ci]")}

    def __exit__(self, *_: object) -> None:
        for path in set(TREE.rglob("*.nb[ci]")) - self._kept.keys():
            path.unlink()
        for path, content in self._kept.items():
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)


def pytest(ids: list[str], marks: str, timeout: float, *more: str) -> tuple[int, str, float]:
    env = {
        "HINDCAST_TRACES": str(REPOSITORY.parent / "shared" / "traces"),
        **os.environ,
        "PYTHONPATH": str(TREE),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "",
    }
    began = time.monotonic()
    options = ["-q", "-n", "0", "--tb=line", "-p", "no:cacheprovider", "-m", marks, *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *ids], cwd=TREE, env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
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
    parser.add_argument("--marks", default="not nightly and not ray", help="as `pytest -m`")
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
        code, output, seconds = pytest(new_ids, given.marks, 1800)
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
            with Kernels():
                try:
                    path.write_text(new)
                    code, output, seconds = pytest(usable, given.marks, TIMEOUT_S, "-x")
                finally:
                    path.write_bytes(content)
                    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
            first = failing(output)
            verdict = {
                0: "survived", 1: "killed", 5: "no tests with these marks", -1: "killed (timeout)",
            }.get(code, f"killed (exit {code})")  # fmt: skip
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
    return int(bool(lived))


if __name__ == "__main__":
    sys.exit(main())
