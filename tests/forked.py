"""Processes that begin with the libraries loaded, where a test starts many or a heavy one.

A server is started once per test process, imports the libraries, and forks for every process that
is asked for. It runs one thread and nothing but imports, so a fork of it is a fresh interpreter.
"""

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Not Prefect, which reads its settings from the environment when it is imported.
_LOADED = (
    "torch", "pyarrow.parquet", "fastapi", "sqlalchemy", "pytest", "pipeline.building.build",
    "policies.registry", "policies.heuristics.binpack", "pipeline.scenarios.binpack",
    "policies.offline.fit", "policies.offline.preference.trajectory_preference",
)  # fmt: skip


def start(target: Any, *arguments: Any) -> Any:
    """Start a process that calls a function of an importable module with these arguments.

    Returns a multiprocessing process: pid, join(), kill(), exitcode (negative: the signal).
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*_LOADED])
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def start_command(
    argv: Sequence[str], *, env: Mapping[str, str], stdout: Path, stderr: Path, cwd: Path
) -> Any:
    """Start `python -m flows.cli ARGV` with this environment; its output goes into files."""
    return start(_command, list(argv), dict(env), str(stdout), str(stderr), str(cwd))


def _command(argv: list[str], env: dict[str, str], stdout: str, stderr: str, cwd: str) -> None:
    for path, number in ((stdout, 1), (stderr, 2)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.argv = ["hindcast", *argv]
    runpy.run_module("flows.cli", run_name="__main__", alter_sys=True)
