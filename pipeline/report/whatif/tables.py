"""Tables of the page of `hindcast whatif`."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from hindcast.pipeline.pages.numbers import count_of
from hindcast.pipeline.pages.tables import NOTHING, Badge, Cell, Row, Table
from hindcast.pipeline.report.whatif import numbers as n
from hindcast.pipeline.report.whatif.fidelity import Fidelity
from hindcast.pipeline.report.whatif.nearness import LIMITS
from hindcast.pipeline.report.whatif.story import Story
from hindcast.pipeline.report.whatif.words import WaitUnit, percent, plain, verdict_of
from hindcast.pipeline.statistics.intervals import Interval

_OTHER_MACHINE: Final = (
    ", but for those to the log's scheduler: they are mostly of the machines, not of the policies."
)
_KINDS: Final = {"queue": "By queue", "user": "By user", "size": "By size", "request": "By request"}
_KNOWING: Final = "knows run times"


def grades_table(story: Story) -> Table:
    """Return the measurements behind the grade of the simulated machine."""
    near, plain_rule = story.near, story.cast.plain
    told: dict[str, tuple[str, Callable[[float], str]]] = {
        "waited_while_fitting": ("waiting that passed while the job fitted", _share),
        "easy_to_log": (f"mean wait of {plain_rule} over the recorded one", plain),
        "ks": (f"distance of the waits of {plain_rule} from those of the replay (KS)", plain),
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
    return Table(f"Grade {near.grade}", caption, head, body)


def beside_tables(beside: Fidelity, unit: WaitUnit) -> Iterator[Table]:
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
    yield Table("Beside the log", text, ["measure", *beside.columns], body)
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
    yield Table("Where the machines differ", text, [*head, f"{last}, KS"], rows, words=2)


def _measure(value: float) -> str:
    return NOTHING if math.isnan(value) else plain(value)


def _slowdown(value: float) -> str:
    return plain(value) if value else NOTHING  # 0 if there is no such job


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def run_table(story: Story) -> Table:
    """Return every policy in the run over the test part."""
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
    return _policies(story, story.run, "One run", text)


def windows_table(story: Story) -> Table:
    """Return every policy on the windows of the test part."""
    text = (
        f" on {count_of(story.windows.blocks, 'window')}: means over windows, 95 % intervals over "
        "windows. Every window begins as the log was at that moment, so no policy pays for its own "
        "past; in the run it does. Waits count from the beginning of the window."
    )
    return _policies(story, story.windows, "Windows", text)


def best_first(story: Story, scope: n.Scope) -> list[str]:
    """Return the policies, best first, with those that know run times at the end."""
    return sorted(
        scope.means,
        key=lambda name: (
            story.cast.kinds[name] == _KNOWING, scope.means[name][n.HEADLINE].value
        ),
    )  # fmt: skip


def _policies(story: Story, scope: n.Scope, title: str, text: str) -> Table:
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
    for name in best_first(story, scope):
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
        knowing = cast.kinds[name] == _KNOWING
        marked = "strongest" if name == cast.recorded else "bound" if knowing else ""
        body.append(Row(cells, marked, pinned=knowing))
    return Table(title, text, head, body)


def _one(mean: Interval, told: Callable[[float], str]) -> Cell:
    return Cell(told(mean.value), mean.value)


def _two(first: Interval, second: Interval, told: Callable[[float], str]) -> Cell:
    return Cell(told(first.value), first.value, small=told(second.value))


def _name(story: Story, name: str) -> Cell:
    cast, kind = story.cast, story.cast.kinds[name]
    badges = []
    if name == cast.recorded:
        badges.append(Badge("the log's scheduler", "strongest"))
    if kind in {"learned", _KNOWING}:
        badges.append(Badge(kind, kind.split()[0]))
    if name == cast.rule:
        badges.append(Badge("best rule before"))
    if name == cast.rule_after and name != cast.rule:
        badges.append(Badge("best rule after the fact"))
    return Cell(name, badges=badges)


def _estimate(mean: Interval, told: Callable[[float], str]) -> Cell:
    if math.isnan(mean.low):
        return _one(mean, told)
    small = f"{told(mean.low)} .. {told(mean.high)}"
    return Cell(told(mean.value), mean.value, small=small)


def _against(story: Story, scope: n.Scope, name: str, reference: str) -> Cell:
    """Return a difference with its interval; one between two machines has no colour."""
    if name == reference:
        return Cell(NOTHING)
    pair = n.pair_of(scope, name, reference)
    side = {"win": "better", "loss": "worse", "unclear": "same"}[verdict_of(pair)]
    if story.cast.recorded in {name, reference} and not story.near.near:
        side = "same"
    low, high = pair.share.low, pair.share.high
    small = f"{percent(low)[:-2]} .. {percent(high)}" if pair.has_interval else ""
    return Cell(percent(pair.share.value), pair.share.value, small, side)


def groups_tables(story: Story) -> Iterator[Table]:
    """Yield mean waits by queue, user, size and request of the jobs."""
    shown, unit = story.cast.shown, story.waits
    for (kind,), rows in story.groups.group_by("kind", maintain_order=True):
        body = []
        for (group,), found in rows.group_by("group", maintain_order=True):
            by_policy = {row["policy"]: row for row in found.iter_rows(named=True)}
            first = by_policy[story.cast.plain]
            cells = [
                Cell(str(group)), Cell(f"{first['jobs']:,}", first["jobs"]),
                Cell(_share(first["work_share"]), first["work_share"]),
            ]  # fmt: skip
            body.append(Row([*cells, *(_group(by_policy[name], unit) for name in shown)]))
        head = ["jobs of the run", "jobs", "share of the work"]
        head += [f"{name} [{unit.name}]" for name in shown]
        text = ": mean wait and mean bounded slowdown of these jobs in the run. No intervals."
        yield Table(_KINDS[str(kind)], text, head, body)


def _group(row: Mapping[str, Any], unit: WaitUnit) -> Cell:
    small = f"slowdown {plain(row['mean_bounded_slowdown'])}"
    return Cell(unit.number(row["mean_wait_s"]), row["mean_wait_s"], small)
