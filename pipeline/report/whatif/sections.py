"""Sections of the page of `hindcast whatif`."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from hindcast.pipeline.report.html import (
    Cell,
    Markup,
    Row,
    captioned,
    definitions,
    element,
    figure,
    joined,
    table,
)
from hindcast.pipeline.report.whatif import numbers as n
from hindcast.pipeline.report.whatif.fidelity import Fidelity
from hindcast.pipeline.report.whatif.nearness import LIMITS
from hindcast.pipeline.report.whatif.plan import Plan
from hindcast.pipeline.report.whatif.plots import policies_plot, weeks_plot
from hindcast.pipeline.report.whatif.story import Material, Story
from hindcast.pipeline.report.whatif.words import (
    WaitUnit,
    interval_of,
    percent,
    plain,
    verdict_of,
)
from hindcast.pipeline.statistics.intervals import Interval
from hindcast.pipeline.statistics.numbers import count_of

_VERDICTS: Final = {"win": "Clear gain", "unclear": "No clear difference", "loss": "Clear loss"}
_NOTHING: Final = "\N{EN DASH}"
_OTHER_MACHINE: Final = (
    ", but for those to the log's scheduler: they are mostly of the machines, not of the policies."
)
_KINDS: Final = {"queue": "By queue", "user": "By user", "size": "By size", "request": "By request"}


def finding_card(story: Story) -> Markup:
    """Return what can be concluded, and the four numbers behind it."""
    verdict = verdict_of(story.main)
    return element(
        "div",
        element("div", _VERDICTS[verdict], class_="verdict"),
        element("p", story.conclusion, class_="lead"),
        element("ul", joined(element("li", text) for text in story.details)),
        definitions(_tiles(story), "tiles"),
        class_=f"finding {verdict}",
    )


def _tiles(story: Story) -> Iterator[tuple[str, Markup]]:
    cast = story.cast
    if cast.recorded is None:
        yield (
            "The log's scheduler",
            joined(["unknown", element("small", "the log does not say when jobs started")]),
        )
    else:
        yield "The log's scheduler: mean wait", _tile(story, cast.recorded, "")
    grade = story.near.grade or "none"
    reason = story.near.reasons[0] if story.near.reasons else "nothing to compare it with"
    yield "Simulated machine: grade", joined([grade, element("small", reason)])
    # On a machine that is not the log's, a difference to the record says nothing of the rule.
    beside = cast.recorded if cast.recorded and story.near.near else cast.plain
    yield f"Best rule: {cast.rule}", _tile(story, cast.rule, beside)
    if cast.agent is None:
        yield (
            "Best agent",
            joined(["none", element("small", "--train trains one; --policy FOLDER names one")]),
        )
    else:
        yield f"Best agent: {cast.agent}", _tile(story, cast.agent, cast.rule_after)


def _tile(story: Story, name: str, reference: str) -> Markup:
    means = story.run.means[name]
    text = f"mean bounded slowdown {plain(means[n.HEADLINE].value)}"
    if reference and reference != name:
        pair = n.pair_of(story.run, name, reference)
        text += f", {percent(pair.share.value)} against {reference} ({interval_of(pair)})"
    return joined([story.waits.text(means[n.WAIT].value), element("small", text)])


def nearness_part(story: Story) -> Markup:
    """Return the grade of the simulated machine with the measurements behind it."""
    near, cast = story.near, story.cast
    if cast.recorded is None:
        text = "The log does not say when jobs started, so the machines cannot be compared."
        return element("p", text)
    told: dict[str, tuple[str, Callable[[float], str]]] = {
        "waited_while_fitting": ("waiting that passed while the job fitted", _share),
        "easy_to_log": (f"mean wait of {cast.plain} over the recorded one", plain),
        "ks": (f"distance of the waits of {cast.plain} from those of the replay (KS)", plain),
        "over_capacity": ("time in which the log exceeds the machine", _share),
    }
    body = [
        Row([
            Cell(text), Cell(write(near.numbers[name]), near.numbers[name]),
            Cell(near.grades[name]), *(Cell(write(limit)) for limit in LIMITS[name]),
        ])
        for name, (text, write) in told.items()
    ]  # fmt: skip
    head = ["measured", "value", "grade", "A up to", "B up to", "C up to"]
    caption = ". The grade is the worst of the four. A ratio below 1 is graded by its inverse."
    lead = (
        "differences to the log's scheduler can be read as rough estimates, if they are larger "
        f"than those of {cast.plain} to it."
        if near.near
        else "differences to the log's scheduler are no estimates of what a change would bring. "
        "This page says what policies do on the simulated machine, not what they would do on yours."
    )
    return joined([
        element("p", f"Grade {near.grade}: {lead}"),
        table(f"Grade {near.grade}", caption, head, body),
        *(_beside(story.beside, story.waits) if story.beside else ()),
    ])  # fmt: skip


def _beside(beside: Fidelity, unit: WaitUnit) -> Iterator[Markup]:
    """Yield the tables of the log beside its replay, order of arrival and EASY."""
    text = (
        ": the jobs of the run as the log has them, replayed with the log's starts, in order of "
        "arrival without and with backfilling. What the replay changes, the simulation does; the "
        "rest is what the log's scheduler did for reasons of its own."
    )
    body = [
        Row([Cell(name), *(Cell(_measure(value), value) for value in values)])
        for name, values in beside.measures.items()
    ]  # fmt: skip
    yield table("Beside the log", text, ["measure", *beside.columns], body)
    last = beside.columns[-1]
    rows = []
    for row in beside.groups.iter_rows(named=True):
        cells = [
            Cell(_KINDS[row["kind"]]),
            Cell(row["group"]),
            Cell(f"{row['jobs']:,}", row["jobs"]),
        ]
        cells += [Cell(unit.number(row[name]), row[name]) for name in beside.columns]
        rows.append(Row([*cells, Cell(plain(row["ks"]), row["ks"])]))
    head = ["", "jobs of the run", "jobs", *(f"{name} [{unit.name}]" for name in beside.columns)]
    text = f": mean wait of groups of jobs, and the distance of {last} from the log (KS)."
    yield table("Where the machines differ", text, [*head, f"{last}, KS"], rows, words=2)


def _measure(value: float) -> str:
    return _NOTHING if math.isnan(value) else plain(value)


def _slowdown(value: float) -> str:
    return plain(value) if value else _NOTHING  # 0 if there is no such job


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def run_part(story: Story) -> Markup:
    """Return every policy in the run over the test part."""
    order = _order(story, story.run)
    text = f", the last {len(story.jobs):,} jobs from the state that the log was in. "
    if story.run.blocks < 2:
        text += "The run is shorter than four weeks, so that there are no intervals."
    else:
        text += (
            f"Intervals and differences are over {count_of(story.run.blocks, 'week')} of "
            "submission; the other columns have one value and no interval. A difference is "
            "coloured if its interval excludes zero"
        )
        text += "." if story.near.near else _OTHER_MACHINE
    lead = element(
        "p",
        f"{story.cast.rule} was the best rule in the run before, and is taken for the best one for "
        "that reason; "
        + (
            "it is the best one here as well."
            if story.cast.rule_after == story.cast.rule
            else f"here, after the fact, {story.cast.rule_after} is better."
        ),
    )
    means = figure(
        policies_plot(story.run, story.cast, order, story.waits),
        captioned(
            "Mean bounded slowdown and mean wait.",
            "Bars are 95 % intervals over weeks"
            + ("; the dashed line is the log's scheduler." if story.cast.recorded else "."),
        ),
    )
    weeks = figure(
        weeks_plot(story.weeks, story.cast.recorded, story.waits),
        captioned(
            "Mean wait of the jobs of each week.",
            "A difference that comes from one jam shows as a single hill.",
        ),
    )
    return joined([
        lead,
        _policies_table(story, story.run, order, "One run", text),
        element("ul", joined(element("li", text) for text in story.starvation)),
        element("div", means, weeks, class_="plots"),
    ])  # fmt: skip


def windows_part(story: Story) -> Markup:
    """Return every policy on the windows of the test part."""
    order = _order(story, story.windows)
    text = (
        f" on {count_of(story.windows.blocks, 'window')}: means over windows, 95 % intervals over "
        "windows. Every window begins as the log was at that moment, so no policy pays for its own "
        "past; in the run it does. Waits count from the beginning of the window."
    )
    return _policies_table(story, story.windows, order, "Windows", text)


def _order(story: Story, scope: n.Scope) -> list[str]:
    """Return the policies, best first, with those that know run times at the end."""
    knowing = "knows run times"
    return sorted(
        scope.means,
        key=lambda name: (
            story.cast.kinds[name] == knowing, scope.means[name][n.HEADLINE].value
        ),
    )  # fmt: skip


def _policies_table(
    story: Story, scope: n.Scope, order: Iterable[str], title: str, text: str
) -> Markup:
    cast, unit = story.cast, story.waits
    wanted = (cast.recorded, cast.rule_after if cast.agent else cast.rule)
    references = [name for name in wanted if name is not None]
    head = ["policy", "mean bounded slowdown", *(f"against {name}" for name in references)]
    head += [
        f"mean wait [{unit.name}]", f"p95 wait, p99 [{unit.name}]",
        f"longest wait [{unit.name}]", "waited over 48 h",
        "fairness of users (Jain)", "slowdown of wide jobs, long jobs",
    ]  # fmt: skip
    body = []
    for name in order:
        means = scope.means[name]
        cells = [_name(story, name), _estimate(means[n.HEADLINE], plain)]
        cells += [_against(story, scope, name, reference) for reference in references]
        cells += [
            _estimate(means[n.WAIT], unit.number),
            _two(means["p95_wait_s"], means["p99_wait_s"], unit.number),
            _one(means["max_wait_s"], unit.number),
            _one(means["starved_share"], _share),
            _one(means["user_fairness"], lambda value: f"{value:.2f}"),
            _two(means["mean_slowdown_wide"], means["mean_slowdown_long"], _slowdown),
        ]
        knowing = cast.kinds[name] == "knows run times"
        marked = "strongest" if name == cast.recorded else "bound" if knowing else None
        body.append(Row(cells, marked, pinned=knowing))
    return table(title, text, head, body)


def _one(mean: Interval, told: Callable[[float], str]) -> Cell:
    return Cell(told(mean.value), mean.value)


def _two(first: Interval, second: Interval, told: Callable[[float], str]) -> Cell:
    small = element("small", told(second.value))
    return Cell(joined([told(first.value), small]), first.value)


def _name(story: Story, name: str) -> Cell:
    cast, kind = story.cast, story.cast.kinds[name]
    badges = []
    if name == cast.recorded:
        badges.append(element("span", "the log's scheduler", class_="badge strongest"))
    if kind in {"learned", "knows run times"}:
        badges.append(element("span", kind, class_=f"badge {kind.split()[0]}"))
    if name == cast.rule:
        badges.append(element("span", "best rule before", class_="badge"))
    if name == cast.rule_after and name != cast.rule:
        badges.append(element("span", "best rule after the fact", class_="badge"))
    return Cell(joined([name, *(part for badge in badges for part in (" ", badge))]))


def _estimate(mean: Interval, told: Callable[[float], str]) -> Cell:
    if math.isnan(mean.low):
        return _one(mean, told)
    small = element("small", f"{told(mean.low)} .. {told(mean.high)}")
    return Cell(joined([told(mean.value), small]), mean.value)


def _against(story: Story, scope: n.Scope, name: str, reference: str) -> Cell:
    """Return a difference with its interval; one between two machines has no colour."""
    if name == reference:
        return Cell(_NOTHING)
    pair = n.pair_of(scope, name, reference)
    side = {"win": "better", "loss": "worse", "unclear": "same"}[verdict_of(pair)]
    if story.cast.recorded in {name, reference} and not story.near.near:
        side = "same"
    shown_as = element("span", percent(pair.share.value), class_=side)
    if not pair.has_interval:
        return Cell(shown_as, pair.share.value)
    low, high = pair.share.low, pair.share.high
    small = element("small", f"{percent(low)[:-2]} .. {percent(high)}")
    return Cell(joined([shown_as, small]), pair.share.value)


def groups_part(story: Story) -> Markup:
    """Return mean waits by queue, user, size and request of the jobs."""
    parts = [element("ul", joined(element("li", text) for text in story.losers))]
    for (kind,), rows in story.groups.group_by("kind", maintain_order=True):
        body = []
        for (group,), found in rows.group_by("group", maintain_order=True):
            by_policy = {row["policy"]: row for row in found.iter_rows(named=True)}
            first = by_policy[story.cast.plain]
            cells = [
                Cell(str(group)), Cell(f"{first['jobs']:,}", first["jobs"]),
                Cell(_share(first["work_share"]), first["work_share"]),
            ]  # fmt: skip
            cells += [_group(by_policy[name], story.waits) for name in story.cast.shown]
            body.append(Row(cells))
        head = ["jobs of the run", "jobs", "share of the work"]
        head += [f"{name} [{story.waits.name}]" for name in story.cast.shown]
        text = ": mean wait and mean bounded slowdown of these jobs in the run. No intervals."
        parts.append(table(_KINDS[str(kind)], text, head, body))
    return joined(parts)


def _group(row: Mapping[str, Any], unit: WaitUnit) -> Cell:
    small = element("small", f"slowdown {plain(row['mean_bounded_slowdown'])}")
    return Cell(joined([unit.number(row["mean_wait_s"]), small]), row["mean_wait_s"])


def surer_part(story: Story) -> Markup:
    """Return the data that would make the comparisons surer."""
    parts = [
        element("h3", "More of the log"),
        element("ul", joined(element("li", text) for text in story.surer)),
        element("h3", "What the log does not say"),
        element("ul", joined(element("li", text) for text in story.missing)),
    ]
    if story.near.reasons:
        parts += [
            element("h3", "The machine"),
            element("ul", joined(element("li", text) for text in story.near.reasons)),
        ]
    return joined(parts)


def log_part(material: Material, story: Story) -> Markup:
    """Return the facts about the log, its parts and the training."""
    plan, provenance = material.plan, material.workload.provenance
    left_out = dict(provenance.left_out)
    unused = material.workload.tasks.height - plan.log_jobs
    if unused:
        left_out["wider than the machine, or without a run time"] = unused
    pairs = [
        ("file", material.log.name),
        ("format", material.source.format),
        ("SHA-256", joined(element("code", file.sha256) for file in provenance.files)),
        ("machine", f"{story.processors:,} identical processors, no topology"),
        ("jobs that are used", f"{plan.log_jobs:,}"),
        ("left out", ", ".join(f"{reason}: {count:,}" for reason, count in left_out.items())),
        ("notes of the reader", joined(element("div", note) for note in provenance.notes)),
        (
            "train part", (f"the first {plan.validation_first:,} jobs: "
            f"{count_of(len(plan.train), 'overlapping window')}"),
        ),
        ("run before", f"jobs {plan.before:,} to {plan.test_first:,}, to choose the best rule"),
        (
            "test part",
            f"jobs {plan.test_first:,} to {plan.log_jobs:,}: one run, and {_windows(plan)}",
        ),
        (
            "state at the beginning",
            "as in the log: what ran and what waited" if plan.warm else "an empty machine",
        ),
        ("training", _training(material)),
    ]  # fmt: skip
    return definitions(pairs, "facts")


def _windows(plan: Plan) -> str:
    windows = count_of(len(plan.test), "window")
    return f"{windows}, evenly spread, of {plan.jobs} jobs with {plan.follow:,} more that follow"


def _training(material: Material) -> str:
    made = material.training
    if made is None:
        return "none; agents are those of --policy"
    guard = (
        "a checkpoint is the best on validation windows among those that keep up with lxf_easy and "
        "steady_area_easy in a run of the validation part"
    )
    if made["unguarded"]:
        guard += (
            f"; of seed {', '.join(map(str, made['unguarded']))} no checkpoint kept up, so that "
            "its last one is shown, which is not one to use"
        )
    return (
        f"evolution, a linear score of five columns, with {count_of(made['seeds'], 'seed')}: "
        f"{made['iterations']} generations of CMA-ES each, {made['episodes']:,} episodes of "
        f"{made['jobs']:,} counted jobs on {made['train_windows']} overlapping train windows; "
        f"{guard}"
    )


def commands_part(material: Material) -> Markup:
    """Return the command that gives each table."""
    commands = material.commands
    pairs = [
        ("this page", element("code", material.command)),
        ("table One run", element("code", commands["run"])),
        ("table Windows", element("code", commands["evaluation"])),
        ("best rule and agent", element("code", commands["before"])),
        (
            "agent",
            element("code", material.training["command"]) if material.training else "",
        ),
        (
            "differences",
            "whatif.csv has all of them; 10,000 resamples of windows or weeks in scores.parquet",
        ),
        ("groups", "groups.csv, made of the run's jobs under each policy in jobs/"),
    ]
    return definitions(pairs, "facts")


def reading_part() -> Markup:
    """Return what the words of the page mean."""
    texts = {
        "Bounded slowdown": """(wait + run) / run, with runs below 10 s counted as 10 s, at least 1.
            1 is no wait.""",
        "The log's scheduler": """Its recorded starts, played on the simulated machine. It is no
            rule that could be run, and is compared as it was.""",
        "Grade": """How near the simulated machine comes to the recorded one, from A to D. With C or
            D, differences to the record are mostly those of the machines.""",
        "Best rule, best agent": """The rule and the agent with the least mean bounded slowdown in
            the run before the test part, which had no say in the choice. An agent is compared with
            the rule that is best in the test part, after the fact, which favours the rule.""",
        "Paired differences": """Two policies are compared on the same weeks or windows. Their
            difference is shown as a share of the mean of the reference.""",
        "Intervals": """95 % percentile bootstrap of the weeks or windows. Neighbours in a jam are
            alike, which the bootstrap does not know: intervals are somewhat too narrow.""",
        "Knows run times": """A rule that is given the true run times, which no scheduler has. It
            shows what better predictions could bring, and is no bound.""",
        "Users do not react": """Jobs arrive as they did in the log, under every policy. Users who
            wait less would submit more.""",
    }
    pairs = ((term, " ".join(text.split())) for term, text in texts.items())
    return definitions(pairs, "reading")
