"""`hindcast grid`: what anybody could save at most by starting later on an electric grid."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hindcast.flows import parser as p
from hindcast.flows.commands import Command, Shown
from hindcast.pipeline.errors import InputError
from hindcast.pipeline.storage.location import location

_SHOWN: Final = 20  # rows of the output; the file has all


@dataclass(frozen=True)
class Request:
    """Series, lengths of jobs, slacks, and the file for the table."""

    series: p.Folder = p.argument(
        "hours of one or more zones: a file, a folder of files, what `ingest series` wrote, or "
        "synthetic",
        metavar="SERIES",
    )
    out: p.Folder = p.option("CSV file for the table", metavar="FILE")
    zone: str = p.option("one zone (default: all)", default="", metavar="ZONE")
    jobs: str = p.option("lengths of jobs in hours", default="1,6,24", metavar="H,...")
    slack: str = p.option(
        "hours by which a start may be later; as many as the series has: until its end",
        default="24,168", metavar="H,...",
    )  # fmt: skip
    price: bool = p.option(
        "save money instead of carbon, as for a series of prices alone", default=False
    )
    settings: tuple[p.Override, ...] = p.option(
        "setting of the reader of series (TOML), such as time_zone=UTC; may be repeated",
        default=(), flag="--set", action="append", metavar="KEY=VALUE",
    )  # fmt: skip


def check(request: Request) -> None:
    """Raise InputError for lengths that are no whole hours, or unknown settings."""
    for flag, text in (("--jobs", request.jobs), ("--slack", request.slack)):
        _hours(flag, text)
    _settings(request)


def _settings(request: Request) -> Any:
    """Return the settings of the reader of series."""
    from hindcast.pipeline.recipes.loading import settings_from
    from hindcast.pipeline.traces.hourly.series import SeriesSettings

    return settings_from(SeriesSettings, request.settings)


def _hours(flag: str, text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and len(word) < 7 for word in words):
        raise InputError(f"{flag} {text}: expected whole hours such as 1,6,24")
    hours = tuple(map(int, words))
    if flag == "--jobs" and 0 in hours:
        raise InputError(f"{flag} {text}: a job of 0 hours costs nothing; expected 1 or more")
    return hours


def run(request: Request) -> dict[str, Any]:
    """Write the table, and return its first rows and the remarks on the series."""
    import polars as pl

    from hindcast.pipeline.grids.logs import aim
    from hindcast.pipeline.grids.optimum import table_of
    from hindcast.pipeline.storage.files import write_text
    from hindcast.pipeline.traces.hourly.ingest import open_series
    from hindcast.pipeline.traces.hourly.series import PRICE

    series = open_series(request.series, _settings(request))
    chosen = series.only(request.zone) if request.zone else series
    column = PRICE if request.price else aim(chosen)
    jobs, slack = _hours("--jobs", request.jobs), _hours("--slack", request.slack)
    rows = table_of(chosen, jobs, slack, column)
    write_text(location(request.out), pl.DataFrame(rows).write_csv())
    return {
        "table": request.out, "rows": len(rows), "first": rows[:_SHOWN],
        "remarks": list(chosen.remarks), "warnings": chosen.warnings,
    }  # fmt: skip


def show(result: Mapping[str, Any]) -> Shown:
    """Return the first rows, and last the path of the table."""
    lines = [_line(row) for row in result["first"]]
    left = result["rows"] - len(lines)
    lines += [f"... {left:,} more rows"] * bool(left)
    return Shown([*lines, result["table"]], warnings=result["warnings"])


def _line(row: Mapping[str, Any]) -> str:
    *_, percent, each = row.values()
    unit = "g/kWh" if "saved_g_per_kwh" in row else "per MWh"
    share = "unknown" if percent is None else f"{percent:.1f} %"
    amount = "" if each is None else f", {each:.1f} {unit}"
    return (
        f"{row['zone']}: {row['job_h']} h within {row['slack_h']} h: {share}{amount} "
        f"({row['rows']:,} starts)"
    )


_NEITHER: Final = ("policies", "changes", "mine", "pools", "capacity", "where", "without", "train")


def check_log(request: Any) -> None:
    """Raise InputError for options of `whatif --grid` that cannot be used."""
    from hindcast.flows.runs.whatif import source_of
    from hindcast.pipeline.traces.first_look import no_such_file
    from hindcast.pipeline.traces.hourly.ingest import SYNTHETIC
    from hindcast.pipeline.traces.hourly.series import EXPECTED

    if given := [name for name in _NEITHER if getattr(request, name)]:
        raise InputError(f"whatif --grid plays no scheduler; leave out --{given[0]}")
    _slack(request.slack)
    if request.grid != SYNTHETIC and not location(request.grid).exists():
        no_such_file(location(request.grid), EXPECTED)
    source_of(request)


def _slack(text: str) -> tuple[float, ...]:
    try:
        hours = tuple(float(word) for word in text.split(","))
    except ValueError:
        hours = (-1.0,)
    if len(hours) > 2 or not all(0 <= hour <= 1e4 for hour in hours):
        raise InputError(f"--slack {text}: expected one or two numbers of hours, such as 6,24")
    return hours


def run_log(request: Any) -> dict[str, Any]:
    """Write the page and the table of what starting later would have saved on a log."""
    import polars as pl

    from hindcast.flows.runs.starts import log_of
    from hindcast.pipeline.errors import TraceError
    from hindcast.pipeline.grids.logs import cautions, compare, conclusion, lay
    from hindcast.pipeline.pages.markdown import text_table
    from hindcast.pipeline.storage.files import make_folder, write_text
    from hindcast.pipeline.traces.hourly.ingest import SYNTHETIC, open_series
    from hindcast.pipeline.workloads.log_caveats import mostly_unread

    try:
        one = open_series(request.grid).only(request.zone)
    except TraceError as error:
        if (location(request.grid) / "manifest.json").exists() or request.grid == SYNTHETIC:
            raise
        raise TraceError(
            f"{error}; give the settings to `hindcast ingest series {request.grid} --out SERIES`, "
            "and --grid SERIES"
        ) from error
    slack = _slack(request.slack)
    workload = log_of(request)
    laid = lay(workload, one, (slack[0], slack[-1]))
    rows = compare(laid, one)
    lines, limits = conclusion(rows, laid), cautions(workload)
    name = location(request.log).name.split(".")[0]
    out = make_folder(location(request.out or f"whatif-{name}-grid"))
    write_text(out / "grid.csv", pl.DataFrame(rows, infer_schema_length=None).write_csv())
    head = [column.replace("_", " ") for column in rows[0]]
    body = [[_cell(value) for value in row.values()] for row in rows]
    warned = [each.text for each in limits]
    page = [f"# {name} on the hours of {one.zones[0]}", ""]
    page += [f"Caution: {text}." for text in warned]
    page += [*([""] if warned else []), *lines, "", *text_table(head, body, 2)]
    page += ["Low and high: 95 % limits over weeks of the log, taken as independent.", ""]
    page += ["Rows with foresight know all hours, which nobody does.", "", *one.remarks]
    write_text(out / "grid.md", "\n".join(page) + "\n")
    return {
        "page": str(out / "grid.md"), "lines": lines, "warnings": [*warned, *one.warnings],
        "unread": mostly_unread(limits),
    }  # fmt: skip


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


COMMANDS: Final = {"grid": Command(
    "hindcast grid synthetic --jobs 1,6,24 --slack 24,168 --out grid.csv",
    Request,
    "A row for every zone, length and slack: now_sum, start_sum and hours_sum are sums over all\n"
    "hours in which a job of 1 kW could be submitted, in gCO2eq/kWh x h (with --price, money/MWh\n"
    "x h), of starting now, of the best start, and of the best hours if the job may pause.\n"
    "Windows are cut at the end of the series. The last hour in which a job fits is a row only if\n"
    "the slack is as long as the series, since it cannot wait there. The file is not rounded, the\n"
    "screen is. All hours are known in advance, so no policy saves more. Carbon is the zone's\n"
    "average, not that of the marginal plant.",
)}  # fmt: skip
