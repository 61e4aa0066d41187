"""Walks through the calls of one value: `python -m tests.walks [CHECKOUT] [--print]`.

A recipe is followed to a dataset, the dataset to a checkpoint, and an evaluation to a report. The
first 400 functions of pipeline, policies and flows are written down by their folders, each at its
first call, as somebody reads them who follows the calls. A walk is the sequence of these folders,
equal neighbours once. A return is a step into a folder that was left before. Imports are no calls.
With `--print`, each step is a line: the folder, and the first function that is called there.
"""

import argparse
import inspect
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("pipeline", "policies", "flows")
MOST = 400
TINY = (
    "trace.settings.n_jobs=60", "trace.settings.instances_scale=0.05", "config.jobs_per_window=5",
    "config.machines=2", 'split.train="0..5"', 'split.validation="6..7"', 'split.test="8..11"',
)  # fmt: skip


class Recorder:
    """Functions of one walk, as (folder, function), in the order of their first calls."""

    def __init__(self, checkout: Path) -> None:
        self.calls: list[tuple[str, str]] = []
        self._checkout = checkout
        self._importing = 0
        self._met: set[CodeType] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        if event != "call" or self._importing or code in self._met or len(self.calls) == MOST:
            return
        self._met.add(code)
        path = Path(code.co_filename)
        if code.co_name.startswith("<") or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # a comprehension, or the body of a class
        if path.suffix == ".py" and path.is_relative_to(self._checkout):
            parts = path.relative_to(self._checkout).parts
            if parts[0] in PACKAGES:
                self.calls.append(("/".join(parts[:-1][:2]), code.co_qualname))


def steps_of(calls: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the calls that enter a folder from another one."""
    return [call for i, call in enumerate(calls) if i == 0 or calls[i - 1][0] != call[0]]


def walk(checkout: Path, *, told: bool) -> None:
    """Print the steps and returns of every walk, in a process that has imported the checkout."""
    import hindcast

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        walks = {
            "recipe to dataset": lambda: hindcast.build(
                "binpack-synthetic-v1", out / "dataset", overrides=TINY
            ),
            "dataset to checkpoint": lambda: hindcast.train(
                out / "dataset", "behaviour_cloning", out=out / "agent", steps=20
            ),
            "evaluation to report": lambda: hindcast.report(out / "scores", out=out / "report"),
        }
        for name, run in walks.items():
            if name == "evaluation to report":
                policies = ["tetris", "random"]
                hindcast.evaluate(out / "dataset", policies, out=out / "scores")
            recorder = Recorder(checkout)
            sys.setprofile(recorder)
            try:
                run()
            finally:
                sys.setprofile(None)
            steps = steps_of(recorder.calls)
            entered = Counter(folder for folder, _ in steps)
            most = ", ".join(f"{folder} {n}" for folder, n in entered.most_common(4))
            print(f"{name}: {len(steps)} steps, {len(steps) - len(entered)} returns; {most}")
            if told:
                print("\n".join(f"    {folder:<24}{function}" for folder, function in steps))


def main() -> None:
    """Walk through a checkout in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--print", action="store_true", dest="told")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    checkout = given.checkout.resolve()
    if given.here:
        walk(checkout, told=given.told)
        return
    words = [str(checkout), "--here", *(["--print"] if given.told else [])]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, __file__, *words]
    sys.exit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
