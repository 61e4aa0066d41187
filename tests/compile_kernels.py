"""Compile the kernels that tests import, each of them once: `python -m tests.compile_kernels`.

A kernel with a signature is compiled when its module is imported, and numba keeps it on disk.
Two workers of pytest that begin without it both compile all kernels, at the same time. Here a
module is imported after the kernels that it imports, so no kernel is compiled twice, and kernels
that do not need each other are compiled side by side.
"""

import ast
import importlib
import multiprocessing
import os
import re
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "policies", "flows/papers")
KERNEL = re.compile(r"^ *@(compiled|njit)\(|^def compiled\(", re.MULTILINE)


def kernels_by_import() -> dict[str, frozenset[str]]:
    """Return for each module with kernels all modules with kernels that its import loads."""
    paths = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    text = {_module_name(path): path.read_text(encoding="utf-8") for path in paths}
    imports = {name: _imports(name, source) & text.keys() for name, source in text.items()}
    kernels = {name for name, source in text.items() if KERNEL.search(source)}
    return {name: frozenset(_closure(name, imports) & kernels) for name in sorted(kernels)}


def _module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("hindcast", *parts)).removesuffix(".__init__")


def _imports(name: str, source: str) -> set[str]:
    """Return all names that may be modules imported with this one, its packages among them."""
    found = {name}
    for node in ast.parse(source).body:  # imports inside functions come later
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found | {".".join(n.split(".")[:k]) for n in found for k in range(1, n.count(".") + 1)}


def _closure(name: str, imports: dict[str, set[str]]) -> set[str]:
    found, left = {name}, [name]
    while left:
        new = imports[left.pop()] - found
        found |= new
        left += new
    return found


def _load(name: str) -> None:
    importlib.import_module(name)


def main() -> None:
    """Import every module with kernels, as many at a time as there are processors."""
    units = {loaded: name for name, loaded in kernels_by_import().items()}
    waiting = {one: sum(one < other for other in units) for one in units}
    graph = TopologicalSorter({one: [other for other in units if other < one] for one in units})
    graph.prepare()
    running: dict[Future[None], frozenset[str]] = {}
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn) as pool:
        while graph.is_active():
            for loaded in sorted(graph.get_ready(), key=waiting.__getitem__, reverse=True):
                running[pool.submit(_load, units[loaded])] = loaded
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                done.result()
                graph.done(running.pop(done))


if __name__ == "__main__":
    main()
