"""Hourly series of a grid: carbon intensity, price and capacity by zone, from a reader's file.

A series is a table (CSV, Parquet or JSON, also compressed, or a folder of such) of hours:

    column              unit               recognised headers
    zone                                   zone, zone_id, zone key; else the name of the file
    hour                h since 1970 UTC   time, datetime, timestamp, hour; without one: `start`
    carbon_g_per_kwh    gCO2eq/kWh         carbon, co2, emission, in g/kWh, kg/MWh, t/MWh, lb/MWh
    price_per_mwh       money/MWh          price, tariff, lmp, spot, in EUR/MWh, ct/kWh, ...
    currency                               currency, else of the price's header; never converted
    capacity_cores      cores              capacity, cores
    power_kw            kW                 power, solar, wind, generation, in W, kW, MW
    estimated           share              header with `estimated`, if its values are true and false

Rows are shorter than an hour (the mean counts), an hour, or longer (repeated). A gap of at most 3 h
is filled by a line, one of at most 24 h by the same hours of the day before; a longer one stays
null, as an earlier or later gap that touches the ends of the series.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from hindcast.pipeline.errors import TraceError, did_you_mean
from hindcast.pipeline.settings.ranges import number
from hindcast.pipeline.traces.field_values import UTC, is_local, moment, require_time_zone
from hindcast.pipeline.traces.files.one_log import one_log
from hindcast.pipeline.traces.first_look import head_lines, no_such_file
from hindcast.pipeline.traces.table import UNKNOWN
from hindcast.pipeline.traces.tables.sources import is_json, is_parquet, source_of
from hindcast.pipeline.traces.text_rows import collect

EXPECTED: Final = "a series of hours: CSV, Parquet or JSON, or a folder of such files"
HOUR_S: Final = 3600
LINE: Final = "\0line"  # no name of a column of a file, as those that follow
_PLACE, _ZONE, _SECOND, _VALUE = "\0place", "\0zone", "\0second", "\0value"
_EARLY, _LATE, _ANYWHERE = "\0early", "\0late", "\0anywhere"
_LATEST_S: Final = 1e11  # seconds since 1970, in the year 5138
_MOST_HOURS: Final = 1_000_000  # of a zone, 114 years
CARBON, PRICE, CAPACITY, POWER = VALUES = (
    "carbon_g_per_kwh", "price_per_mwh", "capacity_cores", "power_kw",
)  # fmt: skip
WARNING: Final = "warning: "
LINEAR_H: Final = 3  # longest gap that is filled by a line
COPIED_H: Final = 24  # longest gap that is filled by the day before
_HOURS_BELOW: Final = 10**7  # a number of seconds below it would be a time of early 1970
_UNKNOWN: Final = (*UNKNOWN, "n/e")
_TIME: Final = (
    r"^((utc|local) )?(date ?time|time ?stamp|time|date|hour|interval ?start|start ?time|mtu|"
    r"zeit(stempel|punkt)?|datum|from|von|start|begin)\b"
)
_DECIMAL_COMMA: Final = r"^-?(\d+|\d{1,3}(\.\d{3})+),\d+$"
KINDS: Final[Mapping[str, str]] = {
    "carbon": r"carbon|co2|emission|intensity|\b(k?g|t|lbs?) ?/ ?[kmg]wh",
    "price": r"price|tariff|\b(lmp|rrp|spot)\b|(\b(eur|usd|gbp|aud|cad|ct)|[€$£]) ?/ ?[kmg]wh",
    "capacity": r"capacity|\bcores\b|\bcpus\b|power|solar|\bpv\b|wind|generation|\b[km]w\b",
}
_NEVER: Final = r"percent|%|share|renewable|low.carbon|forecast|estimat|method|source"
_CARBON: Final = {
    "g/kwh": 1.0, "kg/mwh": 1.0, "kg/kwh": 1e3, "t/mwh": 1e3, "t/gwh": 1.0,
    "lb/mwh": 0.453592,
}  # fmt: skip
_ENERGY: Final = {"kwh": 1e3, "mwh": 1.0, "gwh": 1e-3}
_POWER: Final = {"w": 1e-3, "kw": 1.0, "mw": 1e3, "cores": None, "cpus": None}
_SIGNS: Final = {"€": "EUR", "£": "GBP", "p": "GBP", "pence": "GBP"}
HUNDREDTHS: Final = ("ct", "c", "cent", "cents", "¢", "p", "pence")


@dataclass(frozen=True)
class SeriesSettings:
    """Settings of the reader of series; an empty one is recognised by the headers.

    Attributes:
        time: Column of the time.
        time_zone: Time zone of times without an offset: UTC, or a name such as Europe/Berlin.
        time_format: Format of times that are not as in ISO 8601, as `strftime` writes it.
        stamp: Whether a time is the start or the end of what its row describes.
        start: Time of the first row of a file without times; its rows are hours.
        zone: Column of the zone, or its name for a file without such a column.
        wide: Whether each column beside the time is a zone.
        value: What the columns of a wide file hold.
        carbon: Column of the carbon intensity; `price` and `capacity` likewise.
        carbon_unit: Unit of the carbon, such as kg/kWh, where the header does not say it;
            `price_unit`, such as EUR/MWh, and `capacity_unit`, such as kW, likewise.
        hourly_capacity: What rows of less than an hour give for the capacity.
        watts_per_core: Power of a core in W, for a capacity in kW.
    """

    time: str = ""
    time_zone: str = ""
    time_format: str = ""
    stamp: Literal["start", "end"] = "start"
    start: str = ""
    zone: str = ""
    wide: bool = False
    value: Literal["carbon", "price", "capacity"] = "carbon"
    carbon: str = ""
    price: str = ""
    capacity: str = ""
    carbon_unit: str = ""
    price_unit: str = ""
    capacity_unit: str = ""
    hourly_capacity: Literal["mean", "min"] = "mean"
    watts_per_core: float = number(10.0, "above 0", "W")


DEFAULTS: Final = SeriesSettings()


@dataclass(frozen=True)
class Series:
    """Hours of one or several zones.

    Attributes:
        table: Rows by zone and hour without a missing hour: zone, hour, and those of `VALUES`,
            currency and estimated that the files have. Values of long gaps are null.
        counts: Rows read, hours, dropped rows, and hours of gaps by kind.
        gaps_h: Lengths of the gaps, ascending.
        remarks: Sentences for the reader; those that begin with WARNING are warnings.
    """

    table: pl.DataFrame
    counts: Mapping[str, int] = field(default_factory=dict)
    gaps_h: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def zones(self) -> list[str]:
        """Names of the zones, in the order of the table."""
        return self.table["zone"].unique(maintain_order=True).to_list()

    def only(self, zone: str, where: str = "--zone") -> "Series":
        """Return the known columns of one zone, "" for the only one; raise TraceError."""
        zones = self.zones
        if zone in zones or (not zone and len(zones) == 1):
            zone = zone or zones[0]
            about = tuple(each for each in self.remarks if f"zone {zone!r}" in each)
            table = self.table.filter(pl.col("zone") == zone)
            kept = [n for n in table.columns if n not in VALUES or table[n].count()]
            return Series(table.select(kept), remarks=about)
        hint = did_you_mean(zone, zones)[:300]
        fault = f"there is no zone {zone!r}" if zone else f"there are {len(zones)} zones"
        raise TraceError(f"{where}: {fault}, expected the name of one; {hint}")

    def values(self, column: str) -> NDArray[np.float64]:
        """Return a column of a series of one zone, (T,), NaN where it is null."""
        if column not in self.table.columns:
            has = ", ".join(name for name in VALUES if name in self.table.columns) or "none"
            raise TraceError(f"zone {self.zones[0]!r} has no known {column}, it has {has}")
        return self.table[column].cast(pl.Float64).fill_null(np.nan).to_numpy().copy()

    @property
    def warnings(self) -> list[str]:
        """Remarks that are warnings, without the word."""
        return [each.removeprefix(WARNING) for each in self.remarks if each.startswith(WARNING)]

    @property
    def first_hour(self) -> int:
        """First hour of a series of one zone, since 1970 UTC."""
        return int(self.table["hour"][0])


def all_known(
    x: NDArray[np.float64], first: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return whether every hour of x from `first` to before `end` is known, (N,)."""
    unknown = np.concatenate([[0], np.cumsum(np.isnan(x))])
    return np.asarray(unknown[end] == unknown[first])


def read_series(path: Path, settings: SeriesSettings = DEFAULTS) -> Series:
    """Return the series of a file, or of all files of a folder. Raises TraceError."""
    files = files_of(path)
    if settings.time_zone:
        require_time_zone(settings.time_zone, "--set time_zone")
    read = _Read(settings)
    rows = pl.concat([_rows(file, read) for file in files], how="diagonal_relaxed")
    zones = rows.partition_by("zone", maintain_order=True)
    tables = [_hours(_distinct(of_zone, read), read) for of_zone in zones]
    table = pl.concat(tables, how="diagonal_relaxed")
    columns = [name for name in (*VALUES, "currency", "estimated") if name in table.columns]
    return Series(
        table.select("zone", "hour", *columns), dict(read.counts), tuple(sorted(read.gaps_h)),
        tuple(read.remarks),
    )  # fmt: skip


@dataclass(frozen=True)
class _Read:
    """Settings of the reader, and counts, gaps and remarks of what was read so far."""

    settings: SeriesSettings
    counts: Counter[str] = field(default_factory=Counter)
    gaps_h: list[int] = field(default_factory=list)
    remarks: dict[str, None] = field(default_factory=dict)


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files of a series in a folder. Raises TraceError."""
    if not path.exists():
        no_such_file(path, EXPECTED)
    if not path.is_dir():
        return [path]
    endings = (".csv", ".csv.gz", ".parquet", ".tsv", ".json")
    files = sorted(each for each in path.iterdir() if each.name.endswith(endings))
    if not files:
        raise TraceError(f"{path}: this folder has no file of a series, expected {EXPECTED}")
    return files


def read_issued(path: Path, zone: str, columns: Sequence[str]) -> pl.DataFrame:
    """Return issued forecasts of a zone by issue and hour: issued, hour (both since 1970), columns.

    The file has them as `forecast_` and their names, and times as others, or hours since 1970.
    Raises TraceError.
    """
    if not path.is_file():
        no_such_file(path, "a file of issued forecasts")
    names = [f"forecast_{name}" if name in columns else "" for name in (CARBON, PRICE)]
    settings = replace(DEFAULTS, carbon=names[0], price=names[1])
    rows = _rows(path, _Read(settings))
    issued = _rows(path, _Read(replace(settings, time="issued")))["second"].to_numpy()
    # The hour that begins at the issue or after it: a decision knows nothing that comes later.
    issued = np.where(issued < _HOURS_BELOW, issued, -(-issued // HOUR_S))
    rows = rows.with_columns(issued=issued, hour=pl.col("second") // HOUR_S)
    if zone in rows["zone"]:
        rows = rows.filter(pl.col("zone") == zone)
    if rows["zone"].n_unique() > 1:
        hint = did_you_mean(zone, rows["zone"].unique())
        raise TraceError(f"{path}: there is no zone {zone!r}; {hint}")
    rows = rows.sort("issued", "hour", maintain_order=True)
    twice = rows.filter(pl.struct("issued", "hour").is_duplicated())
    if twice.height:
        raise TraceError(f"{twice['place'][0]} and {twice['place'][1]} are of one issue and hour")
    return rows.select("issued", "hour", *columns)


def _rows(file: Path, read: _Read) -> pl.DataFrame:
    """Return the rows of a file: place, zone, second, and its values in canonical units."""
    settings, texts = read.settings, texts_of(file)
    labels = texts.columns[1:]
    time = _time_column(labels, settings, file)
    picked = {} if settings.wide else _picked(labels, time, file, read)
    if texts.is_empty():
        raise TraceError(f"{file}: there is no row, expected {EXPECTED}")
    read.counts["rows"] += texts.height
    zone = settings.zone if settings.zone in labels else zone_of(labels)
    name = pl.lit(settings.zone or file.name.split(".")[0])
    texts = texts.with_columns(
        pl.format("{}: line {}", pl.lit(file.name), LINE).alias(_PLACE),
        (pl.coalesce(pl.col(zone), name) if zone else name).alias(_ZONE),
    )
    if settings.wide:
        kept = [label for label in labels if label != time and has_number(texts[label])]
        if not kept:
            raise TraceError(f"{file}: no column holds numbers; columns: {_list(labels)}")
        index = [_PLACE, *([time] if time else [])]
        texts = texts.drop(_ZONE).unpivot(kept, index=index, variable_name=_ZONE, value_name=_VALUE)
        picked = {settings.value: _VALUE}
    texts = _with_seconds(texts, time, file, read)
    inner = {"place": _PLACE, "zone": _ZONE, "second": _SECOND}
    values = _values(texts, picked, settings, labels, file)
    return texts.select(*(pl.col(at).alias(name) for name, at in inner.items()), *values)


def texts_of(file: Path, rows: int | None = None) -> pl.DataFrame:
    """Return the first rows of a file, or all: LINE, and its columns as texts.

    Numbers with a decimal comma have a point. Raises TraceError if it is no table.
    """
    with one_log(file) as log:
        line = "" if is_parquet(log.path) or is_json(log.path) else _first_line(log.path)
        source = source_of(log.path, max(",;\t", key=line.count))
        labels = list(dict.fromkeys(label for label in source.labels if label))
        scanned = source.scan(labels, str(file))
        texts = collect(scanned if rows is None else scanned.head(rows), log.path)
    if bad := texts.filter(pl.col("reason").is_not_null()).rows(named=True):
        raise TraceError(f"{file}: line {bad[0]['line']}: {bad[0]['reason']}, expected {EXPECTED}")
    names = {f"column {n}": label for n, label in enumerate(labels)}
    texts = texts.drop("text", "reason").rename({"line": LINE, **names})
    texts = texts.with_columns(pl.col(*labels).str.strip_chars())
    if source.separator == ",":
        return texts
    comma = pl.col(*labels).str.contains(_DECIMAL_COMMA)
    point = pl.col(*labels).str.replace_all(".", "", literal=True).str.replace(",", ".")
    return texts.with_columns(pl.when(comma).then(point).otherwise(pl.col(*labels)).name.keep())


def _first_line(path: Path) -> str:
    return next(line for line in head_lines(path, EXPECTED) if line.strip())


def zone_of(labels: Sequence[str]) -> str | None:
    """Return the column of the zone by its name, or None."""
    return next((n for n in labels if re.fullmatch(r"(?i)zone([ _]?(id|key))?", n)), None)


def has_number(texts: pl.Series) -> bool:
    """Return whether a column has at least one number."""
    return bool(texts.cast(pl.Float64, strict=False).is_finite().any())


def is_number(texts: pl.Series) -> bool:
    """Return whether a column has numbers, and nothing else but unknown values."""
    known = texts.drop_nulls().filter(~texts.drop_nulls().str.to_lowercase().is_in(_UNKNOWN))
    numbers = known.cast(pl.Float64, strict=False)
    return len(known) > 0 and numbers.is_finite().sum() == len(known)


def seconds_of(texts: pl.Series, form: str = "") -> pl.Series:
    """Return times as seconds since 1970, as if a clock without an offset were UTC."""
    text = _instant(pl.col("x"), form)
    return pl.DataFrame({"x": texts}).select(_seconds(text, UTC, form or None)).to_series()


def needs_zone(texts: pl.Series, form: str = "") -> bool:
    """Return whether a column has times without an offset from UTC."""
    local = is_local(_instant(pl.col("x"), form), form or None)
    return bool(pl.DataFrame({"x": texts}).select(local.any()).item())


def _plain(label: str) -> str:
    plain = re.sub("[ _]per[ _]", "/", label.lower().replace("₂", "2")).replace("_", " ")
    return re.sub(r" (?=[kmg]wh\b)", "/", plain)


def _time_column(labels: Sequence[str], settings: SeriesSettings, file: Path) -> str | None:
    """Return the column of the time: that of the settings, one that says UTC, or the first."""
    if settings.time:
        return _known(settings.time, labels, "time", file)
    found = times_of(labels)
    if not found and not settings.start:
        raise TraceError(
            f"{file}: no column is a time, expected one named time or datetime; name it by "
            f"--set time=COLUMN, or the first hour by --set start=...; columns: {_list(labels)}"
        )
    return next(iter(found), None)


def times_of(labels: Sequence[str]) -> list[str]:
    """Return the columns that are times by their names, those that say UTC first."""
    found = [label for label in labels if re.search(_TIME, _plain(label))]
    return sorted(found, key=lambda label: "utc" not in label.lower())


def _known(label: str, labels: Sequence[str], key: str, file: Path) -> str:
    if label not in labels:
        raise TraceError(f"{file}: {key}: no column {label!r}; {did_you_mean(label, labels)[:300]}")
    return label


def _list(labels: Sequence[str]) -> str:
    return ", ".join(labels)[:300]


def of_kind(kind: str, labels: Sequence[str]) -> list[str]:
    """Return the columns that are a carbon, price or capacity by their names."""
    return [
        label for label in labels
        if re.search(KINDS[kind], _plain(label)) and not re.search(_NEVER, _plain(label))
    ]  # fmt: skip


def _picked(labels: Sequence[str], time: str | None, file: Path, read: _Read) -> dict[str, str]:
    """Return the columns of carbon, price and capacity, of those that are there."""
    picked: dict[str, str] = {}
    for kind in KINDS:
        if given := getattr(read.settings, kind):
            picked[kind] = _known(given, labels, kind, file)
            continue
        found = of_kind(kind, [label for label in labels if label != time])
        whole = [label for label in found if "direct" not in label.lower()]
        if kind == "carbon" and len(whole) == 1 and len(found) > 1:
            read.remarks[f"carbon is the column {whole[0]!r}, not that of direct emissions"] = None
        found = whole or found
        if len(found) > 1:
            raise TraceError(
                f"{file}: several columns could be the {kind}: {_list(found)}; name one by "
                f"--set {kind}=COLUMN"
            )
        picked.update(dict.fromkeys([kind], found[0]) if found else {})
    if not picked:
        raise TraceError(
            f"{file}: no column is a carbon intensity, a price or a capacity; name one by "
            f"--set carbon=COLUMN, price=... or capacity=..., or give --set wide=true if each "
            f"column is a zone; columns: {_list(labels)}"
        )
    return picked


def _with_seconds(texts: pl.DataFrame, time: str | None, file: Path, read: _Read) -> pl.DataFrame:
    """Return the rows with `second` since 1970, without those of times that do not exist."""
    settings = read.settings
    if time is None:
        first = pl.select(_seconds(_iso(pl.lit(settings.start)), settings.time_zone or UTC)).item()
        if first is None:
            raise TraceError(f"--set start: {settings.start!r}: expected a time such as 2022-01-01")
        nth = pl.int_range(pl.len()).over(_ZONE)
        return texts.with_columns((first + nth * HOUR_S).cast(pl.Int64).alias(_SECOND))
    scale = HOUR_S if time == "hour" else 1
    form = settings.time_format or None
    text = _instant(pl.col(time), form)
    zone = settings.time_zone or UTC
    local = texts.filter(is_local(text, form))
    if local.height and not settings.time_zone and "utc" not in time.lower():
        raise TraceError(
            f"{file}: {local[_PLACE][0].partition(': ')[2]}: the time {local[time][0]!r} has no "
            "offset from UTC, and the header does not say UTC; name the clock by "
            "--set time_zone=UTC, or a name such as Europe/Berlin"
        )
    times = (
        texts.select(time)
        .unique()
        .with_columns(
            (_seconds(text, zone, form) * scale).alias(_EARLY),
            (_seconds(text, zone, form, later=True) * scale).alias(_LATE),
            _seconds(text, UTC, form).alias(_ANYWHERE),
        )
    )
    texts = texts.join(times, on=time, how="left", nulls_equal=True, maintain_order="left")
    if bad := texts.filter(pl.col(_ANYWHERE).is_null()).rows(named=True):
        raise TraceError(
            f"{file}: {bad[0][_PLACE].partition(': ')[2]}: {time}: {bad[0][time]!r} is no time, "
            "expected one such as 2022-01-31 13:00"
        )
    read.counts["nonexistent"] += texts[_EARLY].null_count()
    nth = pl.int_range(pl.len()).over(_ZONE, _EARLY)
    later = (pl.col(_LATE) != pl.col(_EARLY)) & (nth > 0)
    second = pl.when(later).then(_LATE).otherwise(_EARLY).round().cast(pl.Int64)
    return texts.with_columns(second.alias(_SECOND)).filter(pl.col(_SECOND).is_not_null())


def _instant(text: pl.Expr, form: str | None) -> pl.Expr:
    """Return the beginnings of spans; without a format as in ISO 8601, see `_iso`."""
    begin = text.str.replace(r" - .*$", "")
    return begin if form else _iso(begin)


def _iso(text: pl.Expr) -> pl.Expr:
    """Return times with seconds, a date as its midnight."""
    text = text.str.replace(r"^(\d\d)\.(\d\d)\.(\d{4})", "$3-$2-$1")
    text = text.str.replace(r"^(\d{4}-\d\d-\d\d)$", "$1 00:00:00")
    return text.str.replace(r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(Z|[+-]\d.*)?$", "$1 $2:00$3")


def _seconds(text: pl.Expr, zone: str, form: str | None = None, *, later: bool = False) -> pl.Expr:
    """Return seconds since 1970; a number beyond 10^11 counts milliseconds."""
    second = moment(text, zone, form, later=later)
    second = pl.when(second > _LATEST_S).then(second / 1e3).otherwise(second)
    return pl.when(second.abs() <= _LATEST_S).then(second)


def _values(
    texts: pl.DataFrame,
    picked: Mapping[str, str],
    settings: SeriesSettings,
    labels: Sequence[str],
    file: Path,
) -> list[pl.Expr]:
    """Return the columns of values in canonical units."""
    found: list[pl.Expr] = []
    for kind, label in picked.items():
        given = getattr(settings, f"{kind}_unit")
        number = _number(texts, label, file)
        if kind == "carbon":
            unit = unit_of(given or label)
            if unit not in _CARBON and (given or "/" in unit):
                raise _no_unit(kind, given or label, _CARBON, file)
            found.append((number * _CARBON.get(unit, 1.0)).alias(CARBON))
        elif kind == "price":
            money, _, energy = unit_of(given or label).partition("/")
            if given and not energy:
                raise _no_unit(kind, given, ("EUR/MWh", "EUR/kWh", "ct/kWh"), file)
            hundredth = 0.01 if money in HUNDREDTHS else 1.0
            found.append((number * hundredth * _ENERGY.get(energy, 1.0)).alias(PRICE))
            code = _SIGNS.get(money, money.upper() if re.fullmatch("[a-z]{3}", money) else "")
            column = next((n for n in texts.columns if n.lower() == "currency"), None)
            found.append((pl.col(column) if column else pl.lit(code)).alias("currency"))
        else:
            words = re.findall(r"[a-z]+", _plain(given or label))
            unit = next((word for word in reversed(words) if word in _POWER), "")
            if given and not unit:
                raise _no_unit(kind, given, _POWER, file)
            factor = _POWER.get(unit)
            found.append((number * (factor or 1.0)).alias(POWER if factor else CAPACITY))
    guess = [n for n in labels if "estimated" in n.lower()]
    if guess and not settings.wide:
        word = pl.col(guess[0]).str.to_lowercase()
        found.append(pl.when(word.is_in(["true", "false", "1", "0"])).then(
            word.is_in(["true", "1"]).cast(pl.Float64)).alias("estimated"))  # fmt: skip
    return found


def unit_of(text: str) -> str:
    """Return the unit of a header, such as `g/kwh` of `carbon (gCO2eq/kWh)`; "" without one."""
    plain = re.sub(r"\s*co2\s*-?(eq?)?(?=\s*/)", "", _plain(text))
    found = re.search(r"([a-z€$£¢]+)\s*/\s*([kmg]wh)", plain)
    names = {"lbs": "lb", "ton": "t", "tonne": "t", "tonnes": "t"}
    return f"{names.get(found[1], found[1])}/{found[2]}" if found else ""


def _no_unit(kind: str, text: str, known: Iterable[str], file: Path) -> TraceError:
    return TraceError(f"{file}: {kind}: {text!r} has no known unit, expected {', '.join(known)}")


def _number(texts: pl.DataFrame, label: str, file: Path) -> pl.Expr:
    """Return a column as numbers; raise TraceError for a text that is none."""
    text = pl.col(label)
    known = ~text.str.to_lowercase().is_in(_UNKNOWN)
    value = pl.when(known).then(text).cast(pl.Float64, strict=False)
    value = pl.when(value.is_finite()).then(value)
    if bad := texts.filter(known & value.is_null()).rows(named=True):
        line = bad[0][_PLACE].partition(": ")[2]
        raise TraceError(f"{file}: {line}: {label}: {bad[0][label]!r} is no number")
    return value


def _distinct(rows: pl.DataFrame, read: _Read) -> pl.DataFrame:
    """Return the rows of a zone by time, equal ones once; raise TraceError for contradictions."""
    values = [name for name in rows.columns if name not in {"place", "zone"}]
    once = rows.unique(values, keep="first", maintain_order=True)
    once = once.sort("second", maintain_order=True)
    read.counts["duplicates"] += rows.height - once.height
    twice = once.filter(pl.col("second").is_duplicated())
    if twice.height:
        first, second = twice["place"][:2]
        raise TraceError(f"{first} and {second.partition(': ')[2] or second} of zone "
                         f"{twice['zone'][0]!r} have one time and different values; if clocks "
                         "change there, is time_zone theirs?")  # fmt: skip
    return once


def _hours(rows: pl.DataFrame, read: _Read) -> pl.DataFrame:
    """Return the rows of a zone by the hour, with short gaps filled."""
    zone = rows["zone"][0]
    steps = rows["second"].diff().drop_nulls()
    step = int(steps.mode().min()) if steps.len() else HOUR_S  # type: ignore[arg-type]
    if HOUR_S % step and step % HOUR_S:
        raise TraceError(
            f"zone {zone!r}: rows are {step:,} s apart, expected a part or a multiple of an hour"
        )
    second = pl.col("second") - (step if read.settings.stamp == "end" else 0)
    rows = rows.with_columns(hour=second.floordiv(HOUR_S))
    late = int((rows["second"].to_numpy() % min(step, HOUR_S)).max())
    if late:
        read.remarks[f"zone {zone!r}: times are up to {late} s after the hour, which counts"] = None
    names = [name for name in (*VALUES, "estimated") if name in rows.columns]
    least = {CAPACITY, POWER} if read.settings.hourly_capacity == "min" else set()
    rows = rows.group_by("hour", maintain_order=True).agg(
        *(pl.col(n).min() if n in least else pl.col(n).mean() for n in names),
        *(pl.col("currency").first() for _ in range("currency" in rows.columns)),
    )
    if step > HOUR_S:
        read.remarks[f"zone {zone!r}: rows of {step // HOUR_S} h are repeated for each hour"] = None
        rows = rows.with_columns(hour=pl.int_ranges("hour", pl.col("hour") + step // HOUR_S))
        rows = rows.explode("hour").unique("hour", keep="last", maintain_order=True)
    first, last = int(rows["hour"].min()), int(rows["hour"].max())  # type: ignore[arg-type]
    if last - first >= _MOST_HOURS:
        raise TraceError(
            f"zone {zone!r}: its rows span {last - first:,} hours, expected at most "
            f"{_MOST_HOURS:,}; is a time wrong?"
        )
    every = pl.DataFrame({"hour": np.arange(first, last + 1)}).with_columns(zone=pl.lit(zone))
    rows = every.join(rows, on="hour", how="left", maintain_order="left")
    read.counts["hours"] += rows.height
    for name in names:
        if name == "estimated":
            continue
        filled = _filled(rows[name].fill_null(np.nan).to_numpy(), read)
        rows = rows.with_columns(pl.Series(name, filled).fill_nan(None))
    if "currency" in rows.columns:
        rows = rows.with_columns(pl.col("currency").forward_fill().backward_fill())
    return rows


def _filled(given: NDArray[np.float64], read: _Read) -> NDArray[np.float64]:
    """Return hours with short gaps filled, see the module."""
    hours = given.copy()
    missing = np.concatenate([[0], np.isnan(hours).view(np.int8), [0]])
    edges = np.flatnonzero(np.diff(missing))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        length = int(end - begin)
        read.gaps_h.append(length)
        before = hours[max(begin - COPIED_H, 0) : end - COPIED_H]
        if length <= LINEAR_H and begin > 0 and end < len(hours):
            hours[begin:end] = np.linspace(hours[begin - 1], hours[end], length + 2)[1:-1]
            read.counts["filled by a line"] += length
        elif length <= COPIED_H <= begin and not np.isnan(before).any():
            hours[begin:end] = before
            read.counts["filled by the day before"] += length
        else:
            read.counts["null"] += length
    return hours
