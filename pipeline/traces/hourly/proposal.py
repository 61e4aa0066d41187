"""Proposal of the settings that read a series, from the names and the values of a file.

Values decide what a series is: times that are equally far apart, in every zone, beside columns of
numbers. Names say what the numbers are. What neither says is listed as unsure.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces.field_values import UTC
from hindcast.pipeline.traces.hourly.readings import judged
from hindcast.pipeline.traces.hourly.series import (
    HOUR_S,
    HUNDREDTHS,
    KINDS,
    SeriesSettings,
    files_of,
    is_number,
    needs_zone,
    of_kind,
    read_series,
    seconds_of,
    texts_of,
    times_of,
    unit_of,
    zone_of,
)

ZONE: Final = "ZONE"  # stands for a time zone that only the reader knows
_ROWS: Final = 100_000  # looked at
_REGULAR: Final = 0.9  # share of the steps that are equal
_FORMS: Final = (
    "", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p", "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S", "%d-%m-%Y %H:%M", "%Y%m%d%H%M", "%Y%m%d %H:%M",
)  # fmt: skip
_EPOCH: Final = (1e8, 1e14)  # seconds or milliseconds since 1970
_BEGINS: Final = r"\b(start|from|begin|von|mtu)"
_ENDS: Final = r"\b(end|ends|ending|ended|to|until|bis|he)\b"
# One of each clock that zones of Europe, America and Australia keep.
_CLOCKS: Final = (
    UTC, "Europe/London", "Europe/Berlin", "Europe/Helsinki", "America/New_York",
    "America/Chicago", "America/Denver", "America/Los_Angeles", "Australia/Adelaide",
    "Australia/Sydney",
)  # fmt: skip
_MOST_SLOTS: Final = 1_000_000  # of the times that are compared with a clock
_READ_TOO: Final = "currency$|.*estimated$"
_ZONE_NAME: Final = r"[A-Z]{2,3}\d?([-_][A-Z0-9]+)*"
_MOST_PER_KWH: Final = {"carbon": 1.3, "price": 3.0}  # median of a column in kg or money per kWh
_MONEY: Final = r"(?<![a-z])(?:eur|usd|gbp|aud|cad|chf|nok|sek|dkk|zar|jpy)(?![a-z])"


@dataclass
class SeriesProposal:
    """Settings that are proposed for a series.

    Attributes:
        columns: Column of the file by what is read from it.
        settings: Settings of the reader that differ from its defaults.
        facts: Remarks of the reader with these settings.
        unsure: Guesses that a person should look at, one sentence each.
        not_read: Columns of the file that are not read.
    """

    columns: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    facts: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)


def propose(path: Path) -> SeriesProposal | None:
    """Return the settings for a series, a file or a folder of such; None for what is none.

    Without a column of carbon, price or capacity, the columns of numbers are `not_read` alone.
    """
    try:
        file = files_of(path)[0]
        texts = texts_of(file, _ROWS)
    except TraceError:
        return None
    labels = texts.columns[1:]
    found = SeriesProposal()
    if not _clock(found, texts, labels):
        return None
    clock = {*found.columns.values()}
    figures = [n for n in labels if n not in clock and is_number(texts[n])]
    if not _values(found, texts, figures, f"{path.stem} {file.stem}"):
        return SeriesProposal(not_read=figures) if figures else None
    _time_zone(found, texts)
    read = {*found.columns.values(), *(figures if found.settings.get("wide") else ())}
    found.not_read = [n for n in labels if n not in read and not re.match(_READ_TOO, n.lower())]
    if ZONE in found.settings.values():
        return found
    try:
        series = read_series(path, SeriesSettings(**found.settings))
        found.facts += [*series.remarks, *judged(series)]
    except TraceError as error:
        found.unsure.append(f"with these settings it is not read yet: {error}")
    return found


# Times and zones


def _clock(found: SeriesProposal, texts: pl.DataFrame, labels: Sequence[str]) -> bool:
    """Find a column of times that are equally far apart in each zone, and the zone."""
    named = times_of(labels)
    ordered = [*(n for n in named if not _ends(n)), *(n for n in labels if n not in named), *named]
    for label in dict.fromkeys(ordered):
        for form in _FORMS:
            seconds = _seconds(texts[label], label, form)
            if seconds is None:
                continue
            rest = [n for n in labels if n != label and not is_number(texts[n])]
            zones = [zone_of(labels), None, *rest]
            for zone in dict.fromkeys(zones):
                by_name = label in named and bool(
                    of_kind("carbon", labels) or of_kind("price", labels)
                )
                if _regular(seconds, None if zone is None else texts[zone], few=by_name):
                    _say_clock(found, label, form, zone, labels)
                    return True
    return False


def _say_clock(
    found: SeriesProposal, label: str, form: str, zone: str | None, labels: Sequence[str]
) -> None:
    """Add the columns of time and zone to a proposal, with the settings and doubts about them."""
    found.columns["time"] = label
    if label != next(iter(times_of(labels)), None):
        found.settings["time"] = label
    if form:
        found.settings["time_format"] = form
    if zone is not None:
        found.columns["zone"] = zone
        if zone != zone_of(labels):
            found.settings["zone"] = zone
            found.unsure.append(f"the zone is the column {zone!r}, whose values tell the rows of a "
                                "time apart")  # fmt: skip
    if _ends(label):
        found.settings["stamp"] = "end"
        found.unsure.append(f"{label!r} is read as the end of what a row describes")
    elif not re.search(_BEGINS, _words(label)):
        found.unsure.append("a time is read as the start of what its row describes: set stamp=end "
                            "if it is the end")  # fmt: skip


def _ends(label: str) -> bool:
    return bool(re.search(_ENDS, _words(label)))


def _words(label: str) -> str:
    return label.lower().replace("_", " ")


def _seconds(texts: pl.Series, label: str, form: str) -> pl.Series | None:
    """Return the times of a column in seconds since 1970; None if they are none."""
    known = texts.drop_nulls()
    if not len(known):
        return None
    seconds = seconds_of(texts, form)
    if float(seconds.is_not_null().mean()) < _REGULAR:  # type: ignore[arg-type]
        return None
    if is_number(texts):
        if label.lower() == "hour":
            return seconds * HOUR_S
        low, high = _EPOCH
        if (
            form != "%Y%m%d%H%M"
            and not known.cast(pl.Float64, strict=False).is_between(low, high).all()
        ):
            return None
    return seconds


def _regular(seconds: pl.Series, zone: pl.Series | None, *, few: bool) -> bool:
    """Return whether the times of each zone are equally far apart but for gaps and clocks.

    Up to two times tell nothing; for them `few` is returned.
    """
    rows = pl.DataFrame({"zone": "" if zone is None else zone, "second": seconds}).drop_nulls()
    steps = rows.select(pl.col("second").sort().diff().over("zone")).to_series().drop_nulls()
    if len(steps) < 2:
        return few and rows.height > 0
    step = float(steps.mode().min())  # type: ignore[arg-type]
    parts = step > 0 and (HOUR_S % step == 0 or step % HOUR_S == 0)
    return parts and float((steps == step).mean()) >= _REGULAR  # type: ignore[arg-type]


def _time_zone(found: SeriesProposal, texts: pl.DataFrame) -> None:
    """Find the time zone of local times by the clock changes that they show."""
    label = found.columns["time"]
    if (
        not needs_zone(texts[label], found.settings.get("time_format", ""))
        or "utc" in label.lower()
    ):
        return
    if re.search(r"\b(cet|cest|mez|mesz)\b", _words(label)):
        found.settings["time_zone"] = "Europe/Berlin"
        return
    rows = texts
    if zone := found.columns.get("zone"):
        rows = texts.filter(pl.col(zone) == texts[zone][0])
    seconds = seconds_of(rows[label], found.settings.get("time_format", "")).drop_nulls()
    local = np.sort(seconds.to_numpy().astype(np.int64))
    missed = {name: _missed(local, name) for name in _CLOCKS}
    best = [name for name in _CLOCKS if missed[name] == min(missed.values())]
    if len(best) == 1:
        found.settings["time_zone"] = best[0]
        seen = f"changes as in {best[0]}, and in other zones"
        if best[0] == UTC:
            seen = "has no summer time; UTC is proposed, but some markets' own time has none too"
        found.unsure.append(f"times have no offset; their clock {seen}")
        return
    found.settings["time_zone"] = ZONE
    seen = "no clock change in them tells the zone"
    if UTC not in best:
        seen = f"their clock changes as in {', '.join(best)}"
    found.unsure.append(f"times have no offset, and {seen}; put it in the place of {ZONE}")


def _missed(local: NDArray[np.int64], zone: str) -> int:
    """Return the number of times that are missing or too many for the clock of a zone.

    `local` (N,) ascending are times of a clock, as seconds since 1970 of a clock without zone.
    """
    gaps = np.diff(local)
    steps, counts = np.unique(gaps[gaps > 0], return_counts=True)
    step = int(steps[counts.argmax()]) if len(steps) else HOUR_S
    slots = (local - local[0]) // step
    first, count = int(local[0]), min(int(slots[-1]) + 1, _MOST_SLOTS)
    found = np.bincount(slots[slots < count], minlength=count)
    day = HOUR_S * 24  # no zone is farther from UTC
    utc = pl.Series(np.arange(first - day, first + count * step + day, step))
    zoned = (utc * 1000).cast(pl.Datetime("ms", UTC)).dt.convert_time_zone(zone)
    clock = zoned.dt.replace_time_zone(None).dt.epoch("s").to_numpy()
    expected_slots = (clock - first) // step
    inside = (expected_slots >= 0) & (expected_slots < count)
    expected = np.bincount(expected_slots[inside], minlength=count)
    return int(np.abs(found - expected).sum())


# Values and units


def _values(found: SeriesProposal, texts: pl.DataFrame, figures: Sequence[str], file: str) -> bool:
    """Find the columns of carbon, price and capacity, or zones as columns."""
    kinds = {kind: of_kind(kind, figures) for kind in KINDS}
    kinds["carbon"] = [n for n in kinds["carbon"] if "direct" not in n.lower()] or kinds["carbon"]
    several = [kind for kind, labels in kinds.items() if len(labels) > 1]
    if any(kinds.values()) and not (len(several) == 1 and sum(map(bool, kinds.values())) == 1):
        for kind, labels in kinds.items():
            if labels:
                found.columns[kind] = labels[0]
            if len(labels) > 1:
                found.settings[kind] = labels[0]
                found.unsure.append(f"the {kind} may also be {', '.join(labels[1:])}")
        for kind in kinds:
            if label := found.columns.get(kind):
                _units(found, texts[label], kind, label)
        return True
    zones = kinds[several[0]] if several else list(figures)
    if len(zones) == 1 and (kind := _kind_of_file(file)):
        found.columns[kind] = found.settings[kind] = zones[0]
        found.unsure.append(f"{zones[0]!r} is read as the {kind} by the name of the file")
        _units(found, texts[zones[0]], kind, zones[0])
        return True
    if len(zones) < 2 or "zone" in found.columns or len(zones) < len(figures):
        return False
    kind = several[0] if several else _kind_of_file(file)
    if not kind and not all(re.fullmatch(_ZONE_NAME, n) for n in zones):
        return False
    if not kind:
        below = any((texts[n].cast(pl.Float64, strict=False) < 0).any() for n in zones)
        kind = "price" if below else "carbon"
        found.unsure.append(f"no name says what the zones' columns hold: {kind} is a guess")
    found.settings |= {"wide": True, "value": kind}
    found.columns["zones"] = ", ".join(zones)
    _units(found, texts[zones[0]], kind, zones[0])
    return True


def _kind_of_file(file: str) -> str:
    return next((kind for kind in KINDS if of_kind(kind, [file])), "")


def _units(found: SeriesProposal, values: pl.Series, kind: str, label: str) -> None:
    """Propose the unit of a column whose header does not say it, by the size of its values."""
    unit, wide = unit_of(label), bool(found.settings.get("wide"))
    money = unit.partition("/")[0] or next(iter(re.findall(_MONEY, label.lower())), "")
    if kind == "price" and money in {"", "$", *HUNDREDTHS} - {"p", "pence"}:
        found.unsure.append("no name says the currency of the price; XXX stands for it in units"
                            if not unit else "no name says the currency of the price")  # fmt: skip
    if kind == "capacity" or (unit and not wide):
        return
    size = float(values.cast(pl.Float64, strict=False).abs().median() or 0)  # type: ignore[arg-type]
    small = size < _MOST_PER_KWH[kind]
    said = {"carbon": "kg/kWh" if small else "g/kWh",
            "price": f"{money.upper() or 'XXX'}/{'kWh' if small else 'MWh'}"}[kind]  # fmt: skip
    if not unit:
        found.unsure.append(
            f"{label!r} has no unit: with a median of {size:g} it is read in {said}"
        )
    found.settings[f"{kind}_unit"] = _written(unit) or said


def _written(unit: str) -> str:
    """Return a unit such as EUR/kWh for eur/kwh."""
    top, _, energy = unit.partition("/")
    money = {"€": "EUR", "£": "GBP"}.get(top, top.upper() if len(top) == 3 else top)
    return f"{money}/{energy[0]}Wh".replace("/m", "/M").replace("/g", "/G") if unit else ""
