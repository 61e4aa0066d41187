"""Stages of `hindcast reproduce`: the protocol of a paper, from its commands to its page.

    OUT/<paper>/...               what the commands of the protocol write (hindcast.flows.protocols)
    OUT/<paper>/run.json          the ledger of finished stages, which are skipped
    OUT/<paper>/index.html        the page; page.md the same for the documentation
    OUT/<paper>/paper.json, tables.csv, figures.csv, claims.csv, *.svg
                                  what the page is made from
    OUT/index.html                what the evidence says, over the papers that are in OUT

A stage is started when those that it reads are finished. A stage is run again if its command or the
output that it reads has changed, so a folder can be continued with more seeds or with a changed
protocol. Stages run side by side, one per worker; results do not depend on their number.
"""

import shlex
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hindcast.flows import runners
from hindcast.flows.commands import Call, directly, module_of
from hindcast.flows.parser import parse
from hindcast.flows.progress import note
from hindcast.flows.protocols import OUT, Setting, Stage, find
from hindcast.flows.runs.ledger import Ledger
from hindcast.flows.runs.processes import Places, places, result_of
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.storage.files import remove_folder, sha256_file, sha256_text
from hindcast.pipeline.storage.location import location
from hindcast.pipeline.storage.locks import writing
from hindcast.pipeline.storage.provenance import provenance

_CORES: Final = 2  # for which estimates are made


def reproduce(
    names: Sequence[str], setting: Setting, out: str, call: Call = directly, workers: int = 1
) -> list[str]:
    """Run the protocols of papers, write their pages, and return the pages' paths.

    With one worker, or with a runner, stages run one after another through `call`; with more
    workers, in as many processes. Stages that an earlier reproduction in the folder has finished
    are skipped, also if that reproduction had another number of seeds. Raises DatasetError if a
    quick reproduction is continued as a full one, or a full one as a quick one.
    """
    pages = []
    for name in names:
        with writing(location(out) / name):
            pages.append(str(_reproduce(name, setting, location(out) / name, call, workers)))
    return pages


def _reproduce(name: str, setting: Setting, place: Path, call: Call, workers: int) -> Path:
    protocol = find(name)
    stages = protocol.stages(setting)
    what = f"{name} --quick" if setting.quick else name
    ledger = Ledger(place, what, sha256_text(what), "reproduction")
    together = 1 if runners.running() else workers
    with places(together, call) as side_by_side:
        _Run(name, stages, place, ledger, side_by_side, together).all()
    about = {
        "kind": "reproduction", "paper": name, "title": protocol.title, "source": protocol.source,
        "setting": {"seeds": list(setting.seeds), "quick": setting.quick},
        "stages": [
            {
                "name": stage.name,
                "command": shlex.join(["hindcast", *(w.replace(OUT, name) for w in stage.words)]),
                **ledger.result_of(stage.name), "output": stage.output,
            }
            for stage in stages
        ],
        "provenance": provenance(),
    }  # fmt: skip
    return protocol.publish(place, setting, about)


@dataclass
class _Run:
    """The stages of a protocol while they are run.

    Attributes:
        paper: Name of the paper, for messages.
        stages: The protocol.
        place: Folder of the reproduction.
        ledger: Its ledger.
        side_by_side: Where stages run.
        workers: How many of them at the same time.
        finished: Stage -> SHA-256 of its output.
        started: Command that is running -> its stage, and when it began.
    """

    paper: str
    stages: tuple[Stage, ...]
    place: Path
    ledger: Ledger
    side_by_side: Places
    workers: int
    finished: dict[str, str] = field(default_factory=dict)
    started: dict[Any, tuple[Stage, Any, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reads = reads(self.stages)
        self._pace = Pace(min(self.workers, _CORES))

    def all(self) -> None:
        """Run all stages that are not finished."""
        left = [stage for stage in self.stages if not self._skip(stage)]
        while left or self.started:
            while len(self.started) < self.workers and (stage := self._next(left)):
                left.remove(stage)
                if not self._skip(stage):
                    self._start(stage, alone=not self.started and not self._next(left))
            if self.started:
                for pending in wait(self.started, return_when=FIRST_COMPLETED).done:
                    self._end(pending)

    def _skip(self, stage: Stage) -> bool:
        """Skip a stage that an earlier run has finished, as those that it reads are.

        Returns whether the stage is skipped.
        """
        output = self._output(stage)
        if not self._reads[stage.name] <= self.finished.keys():
            return False
        if not self.ledger.is_finished(stage.name, self._inputs(stage), output):
            return False
        note(f"{stage.name}: finished before, skipped ({output})")
        self._finish(stage)
        return True

    def _next(self, left: Sequence[Stage]) -> Stage | None:
        """Return a stage that reads nothing unfinished, if any.

        One worker takes the first such stage. Several take the longest, so that no long stage runs
        alone at the end.
        """
        ready = [stage for stage in left if self._reads[stage.name] <= self.finished.keys()]
        if self.workers == 1:
            return next(iter(ready), None)
        return max(ready, key=lambda stage: stage.minutes, default=None)

    def _inputs(self, stage: Stage) -> dict[str, Any]:
        before = {name: self.finished[name] for name in sorted(self._reads[stage.name])}
        return {"words": list(stage.words), "before": before}

    def _output(self, stage: Stage) -> Path:
        return self.place / stage.output

    def _start(self, stage: Stage, *, alone: bool) -> None:
        left = sum(one.minutes for one in self.stages if one.name not in self.finished)
        note(
            f"{self.paper}: stage {self.stages.index(stage) + 1} of {len(self.stages)}, "
            f"{stage.name}: about {minutes(self._pace.of(stage.minutes))}; "
            f"{minutes(self._pace.of(left) / self.workers)} left in all, {self._pace.basis()}"
        )
        request = parsed(tuple(word.replace(OUT, str(self.place)) for word in stage.words))
        if self.ledger.differs(stage.name, self._inputs(stage)):
            # Some commands refuse a folder with the output of another command line. The entry is
            # removed too; with it, a restart after an interruption would remove the folder again.
            remove_folder(location(request.out))
            self.ledger.forget(stage.name)
        if hasattr(request, "workers"):
            request = replace(request, workers=self.workers if alone else 1)
        module_of(request).check(request)
        began = time.monotonic()
        pending = self.side_by_side.start(stage.name, request)
        self.started[pending] = (stage, request, began)

    def _end(self, pending: Any) -> None:
        stage, request, began = self.started.pop(pending)
        result = result_of(pending)
        code = getattr(module_of(request).show(result), "code", 0)
        if code:
            raise HindcastError(
                f"`{shlex.join(['hindcast', *stage.words])}` ended with exit code {code}"
            )
        seconds = round(time.monotonic() - began, 1)
        kept = {"seconds": seconds, "commit": provenance()["commit"]}
        self.ledger.record(stage.name, self._inputs(stage), self._output(stage), kept)
        self._finish(stage)

    def _finish(self, stage: Stage) -> None:
        self.finished[stage.name] = sha256_file(self._output(stage))
        self._pace.add(stage.minutes, self.ledger.result_of(stage.name)["seconds"])


def parsed(words: Sequence[str]) -> Any:
    """Return the request of a command line."""
    arguments = parse(words)
    return arguments.read(arguments)


def reads(stages: Sequence[Stage]) -> dict[str, frozenset[str]]:
    """Return the stages that each stage reads: earlier ones whose `--out` its words name."""
    found: dict[str, frozenset[str]] = {}
    outs: dict[str, str] = {}
    for stage in stages:
        found[stage.name] = frozenset(
            name for name, out in outs.items() if any(_overlap(out, word) for word in stage.words)
        )
        outs[stage.name] = stage.words[stage.words.index("--out") + 1]
    return found


def _overlap(out: str, word: str) -> bool:
    """Return whether one of two paths is the other or is in it."""
    return f"{word}/".startswith(f"{out}/") or f"{out}/".startswith(f"{word}/")


@dataclass
class Pace:
    """Time that finished stages took, against their estimates, which are for two quiet cores.

    Attributes:
        first: Minutes that an estimated minute takes in one process, until it is measured.
        estimated: Sum of the estimates of finished stages.
        taken: Minutes that they took.
    """

    first: float = 1.0
    estimated: float = 0.0
    taken: float = 0.0

    def add(self, estimate: float, seconds: float) -> None:
        """Count a finished stage: its estimate in minutes, and how long it took."""
        self.estimated += estimate
        self.taken += seconds / 60.0

    def of(self, estimate: float) -> float:
        """Return an estimate in minutes of one process, scaled once a minute is finished."""
        return estimate * (self.taken / self.estimated if self._known() else self.first)

    def basis(self) -> str:
        """Return what the estimates are made from."""
        return "by the stages so far" if self._known() else "on two cores"

    def _known(self) -> bool:
        return self.estimated >= 1.0


def minutes(number: float) -> str:
    """Return a time in words."""
    if number < 1.5:
        return "a minute"
    return f"{number:.0f} minutes" if number < 90 else f"{number / 60:.1f} hours"
