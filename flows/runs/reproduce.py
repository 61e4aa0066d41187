"""Stages of `hindcast reproduce`: the protocol of a paper, from its commands to its page.

    OUT/<paper>/...               what the commands of the protocol write (flows.papers)
    OUT/<paper>/run.json          the ledger of finished stages, which are skipped
    OUT/<paper>/index.html        the page; page.md the same for the documentation
    OUT/<paper>/paper.json, tables.csv, figures.csv, claims.csv, *.svg
                                  what the page is made from (pipeline.papers.results)
    OUT/index.html                what the evidence says, over the papers that are in OUT

A stage that reads what an earlier one wrote is run again if that has changed.
"""

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows import papers
from flows.commands import Call, directly, module_of
from flows.papers import OUT, Setting, Stage
from flows.parser import parse
from flows.progress import note
from flows.runs.ledger import Ledger
from pipeline.errors import HindcastError
from pipeline.papers.evidence import evidence_html
from pipeline.papers.folder import ABOUT, read_results, write_results
from pipeline.papers.page import paper_html, paper_markdown
from pipeline.storage.files import sha256_file, sha256_text, write_text
from pipeline.storage.location import location
from pipeline.storage.locks import writing
from pipeline.storage.provenance import provenance


def reproduce(names: Sequence[str], setting: Setting, out: str, call: Call = directly) -> list[str]:
    """Run the protocols of papers through `call`, write their pages, and return the pages' paths.

    Raises DatasetError if the folder of a paper holds a reproduction of another setting.
    """
    pages = []
    for name in names:
        with writing(location(out) / name):
            pages.append(str(_reproduce(name, setting, location(out) / name, call)))
    found = [location(out) / name for name in papers.PAPERS]
    results = [read_results(folder) for folder in found if (folder / ABOUT).is_file()]
    write_text(location(out) / "index.html", evidence_html(results))
    return pages


def _reproduce(name: str, setting: Setting, place: Path, call: Call) -> Path:
    module = papers.find(name)
    stages: tuple[Stage, ...] = module.stages(setting)
    ledger = Ledger(place, name, digest_of(stages), "reproduction")
    entries, left = [], sum(stage.minutes for stage in stages)
    pace = Pace()
    before: dict[str, str] = {}
    for number, stage in enumerate(stages, start=1):
        words = tuple(word.replace(OUT, str(place)) for word in stage.words)
        output = place / stage.output
        note(
            f"{name}: stage {number} of {len(stages)}, {stage.name}: about "
            f"{pace.words(stage.minutes)}; {pace.words(left)} left in all, {pace.basis()}"
        )
        inputs = {"words": list(stage.words), "before": before}
        result = ledger.stage(stage.name, inputs, output, lambda: _run(words, call))  # noqa: B023
        before = {**before, stage.name: sha256_file(output)}
        left -= stage.minutes
        pace.add(stage.minutes, result["seconds"])
        command = shlex.join(["hindcast", *(w.replace(OUT, name) for w in stage.words)])
        entries.append({
            "name": stage.name, "command": command, **result, "output": stage.output,
        })  # fmt: skip
    about = {
        "kind": "reproduction", "paper": name, "title": module.TITLE, "source": module.SOURCE,
        "setting": {"seeds": list(setting.seeds), "quick": setting.quick},
        "stages": entries, "provenance": provenance(),
    }  # fmt: skip
    write_results(place, module.results(place, setting), about)
    about, results = read_results(place)
    write_text(place / "page.md", paper_markdown(about, results))
    page = place / "index.html"
    write_text(page, paper_html(about, results))
    return page


def _run(words: Sequence[str], call: Call) -> dict[str, Any]:
    """Run a command line through `call`; return how long it took, and the commit of the code."""
    arguments = parse(words)
    request = arguments.read(arguments)
    module_of(request).check(request)
    began = time.monotonic()
    result: Mapping[str, Any] = call(request)
    code = getattr(module_of(request).show(result), "code", 0)
    if code:
        raise HindcastError(f"`{shlex.join(['hindcast', *words])}` ended with exit code {code}")
    return {"seconds": round(time.monotonic() - began, 1), "commit": provenance()["commit"]}


def digest_of(stages: Sequence[Stage]) -> str:
    """Return the digest of a protocol: its stages, their commands and outputs."""
    told = [[stage.name, list(stage.words), stage.output] for stage in stages]
    return sha256_text(json.dumps(told))


@dataclass
class Pace:
    """Time that finished stages took, against their estimates, which are for two quiet cores."""

    estimated: float = 0.0
    taken: float = 0.0

    def add(self, estimate: float, seconds: float) -> None:
        """Count a finished stage: its estimate in minutes, and how long it took."""
        self.estimated += estimate
        self.taken += seconds / 60.0

    def words(self, estimate: float) -> str:
        """Return an estimate in words, scaled once a minute of stages is finished."""
        return minutes(estimate * self.taken / self.estimated if self._known() else estimate)

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
