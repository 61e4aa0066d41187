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
from hindcast.pipeline.report import page as report_page
from hindcast.pipeline.report.html import element, joined, section
from hindcast.pipeline.report.rules import Listed, explained, rules_part
from hindcast.pipeline.report.whatif import numbers as n
from hindcast.pipeline.report.whatif import plan as planning
from hindcast.pipeline.report.whatif.sections import (
    commands_part,
    finding_card,
    groups_part,
    log_part,
    nearness_part,
    reading_part,
    run_part,
    surer_part,
    windows_part,
)
from hindcast.pipeline.report.whatif.story import Material, Story, tell
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.storage.files import write_json, write_text
from hindcast.pipeline.workloads.caveats import of_provenance

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
    warnings = [caveat.text for caveat in of_provenance(material.workload.provenance)]
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
    parts = [
        ("finding", "Finding", "Finding", finding_card(story)),
        ("machine", "Grade", "How near is the simulated machine?", nearness_part(story)),
        ("run", "One run", "The last 30 % of the log, under every policy", run_part(story)),
        ("windows", "Windows", "Windows of the same part of the log", windows_part(story)),
        ("groups", "Who pays", "Who gains, who pays", groups_part(story)),
        ("surer", "To be surer", "What would have to be known to be surer", surer_part(story)),
        ("log", "Log", "The log", log_part(material, story)),
        ("commands", "Commands", "Where each number is from", commands_part(material)),
    ]
    known, listed = {**described(story.run.evaluation.policies), **_SCHEDULES}, Listed()
    parts = [(i, short, name, explained(part, known, listed)) for i, short, name, part in parts]
    parts += [
        ("reading", "Reading", "How to read this", reading_part()),
        ("rules", "Rules", "Rules on this page", rules_part(listed)),
    ]
    title = f"What if? {material.log.name}"
    links = (element("a", name, href=f"#{identifier}") for identifier, name, _, _ in parts)
    header = element(
        "header",
        element("div", "Hindcast: what if", class_="brand"),
        element("h1", title),
        element("p", _subtitle(material, story), class_="subtitle"),
        element("nav", joined(links), aria_label="Sections"),
    )
    sections = joined(section(identifier, name, part) for identifier, _, name, part in parts)
    footer = element(
        "footer",
        "Written by Hindcast. The numbers of this page are also in whatif.json, whatif.csv and "
        "groups.csv.",
    )
    body = element("div", header, element("main", sections), footer, class_="page")
    return report_page.document(title, story.conclusion, body)


def _subtitle(material: Material, story: Story) -> str:
    facts = [
        f"{material.plan.log_jobs:,} jobs on {story.processors:,} processors",
        f"compared on the last {len(story.jobs):,}, {story.span_s / 86_400:.0f} days",
        f"{len(material.plan.test)} windows of {material.plan.jobs}",
        f"{len(story.cast.kinds)} policies",
    ]
    return " \N{MIDDLE DOT} ".join(facts)
