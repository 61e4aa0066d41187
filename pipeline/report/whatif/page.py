"""The page of `hindcast whatif`, and the files with its numbers.

    OUT/whatif.html    the page; it loads nothing and works without scripts
    OUT/whatif.json    what the page says in numbers and sentences
    OUT/whatif.csv     every policy, metric and reference, on the windows and in the run
    OUT/groups.csv     every policy by queue, user, size and request of the jobs

The same input gives the same bytes.
"""

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from hindcast.pipeline.evaluation.summary.rules import described
from hindcast.pipeline.pages.templates import render
from hindcast.pipeline.report.rules import explaining
from hindcast.pipeline.report.whatif import numbers as n
from hindcast.pipeline.report.whatif import plan as planning
from hindcast.pipeline.report.whatif import tables, words
from hindcast.pipeline.report.whatif.plots import policies_plot, weeks_plot
from hindcast.pipeline.report.whatif.story import Material, Story, tell
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.storage.files import write_json, write_text
from hindcast.pipeline.workloads.log_caveats import log_caveats

PAGE: Final = "whatif.html"
_SCHEDULES: Final = {  # what only the section about the simulated machine names
    planning.STRICT: "the jobs in order of arrival, without backfilling: nobody overtakes",
    "replay": "the jobs with the log's starts, each at the next event of the simulation",
}


def write_page(material: Material, out: Path) -> dict[str, Any]:
    """Write the page and its numbers; return its path and what it concludes."""
    story = tell(material, out)
    write_text(out / "whatif.csv", story.table.write_csv())
    write_text(out / "groups.csv", story.groups.write_csv())
    write_json(out / "whatif.json", _as_json(material, story))
    write_text(out / PAGE, _html(material, story))
    lines = [f"grade of the simulated machine: {story.near.grade or 'none'}", story.conclusion]
    warnings = [caveat.text for caveat in log_caveats(material.workload)]
    return {
        "page": str(out / PAGE), "lines": lines, "warnings": warnings,
        "grade": story.near.grade, "rule": story.cast.rule, "agent": story.cast.agent,
    }  # fmt: skip


def _as_json(material: Material, story: Story) -> dict[str, Any]:
    plan = material.plan

    def ends(of: Interval) -> dict[str, float | None]:
        return {name: end if math.isfinite(end) else None for name, end in of._asdict().items()}

    def pair(of: n.Pair) -> dict[str, Any]:
        return {**asdict(of), "difference": ends(of.difference), "share": ends(of.share)}

    return {
        "log": material.log.name,
        "format": material.source.format,
        "settings": dict(material.source.settings),
        "sha256": [file.sha256 for file in material.workload.provenance.files],
        "processors": story.processors,
        "jobs": {
            "used": plan.log_jobs, "train": plan.validation_first, "run": len(story.jobs),
            **{f"left out: {k}": v for k, v in material.workload.provenance.left_out.items()},
        },
        "windows": {
            "train": len(plan.train), "validation": len(plan.validation), "test": len(plan.test),
            "jobs": plan.jobs, "follow": plan.follow, "warm": plan.warm,
        },
        "nearness": asdict(story.near),
        "policies": asdict(story.cast),
        "conclusion": story.conclusion,
        "details": list(story.details),
        "comparisons": {"unit": story.unit, "main": pair(story.main), "other": pair(story.side)},
        "starvation": list(story.starvation),
        "longer_waits": list(story.losers),
        "surer": list(story.surer),
        "missing": list(story.missing),
        "training": None if material.training is None else dict(material.training),
        "commands": dict(material.commands),
        "command": material.command,
    }  # fmt: skip


def _html(material: Material, story: Story) -> str:
    cast, plan, provenance = story.cast, material.plan, material.workload.provenance
    left_out = dict(provenance.left_out)
    if unused := material.workload.tasks.height - plan.log_jobs:
        left_out["wider than the machine, or without a run time"] = unused
    order = tables.best_first(story, story.run)
    return render(
        Path(__file__).with_name(f"{PAGE}.jinja"),
        material=material,
        story=story,
        cast=cast,
        plan=plan,
        near=story.near,
        provenance=provenance,
        left_out=left_out,
        verdict=words.verdict_of(story.main),
        headline=n.HEADLINE,
        wait=n.WAIT,
        pair_of=n.pair_of,
        percent=words.percent,
        plain=words.plain,
        interval_of=words.interval_of,
        grades=tables.grades_table(story) if story.beside else None,
        beside=tables.beside_tables(story.beside, story.waits) if story.beside else (),
        run=tables.run_table(story),
        windows=tables.windows_table(story),
        groups=tables.groups_tables(story),
        policies_plot=policies_plot(story.run, cast, order, story.waits),
        weeks_plot=weeks_plot(story.weeks, cast.recorded, story.waits),
        **explaining({**described(story.run.evaluation.policies), **_SCHEDULES}),
    )
