"""Values that logs of batch systems write as text, as polars expressions.

    text                                   value
    2024-03-01T08:00:00, 1709280000        moment       seconds since 1970
    1-02:03:04, 02:03, 123, PT5M           span         seconds
    7 days 00:00:00 (pandas)               span         seconds
    16G, 128Mi, 4000Mc, 4194304kb, 512     kilobytes    KB, of 1,024 bytes
    4, 500m                                processors   a number of processors
    billing=4,cpu=4,gres/gpu=2,mem=16G     resource     the text after `cpu=`, say

Each gives null for a text that it cannot read, and for null.
"""

from collections.abc import Mapping
from typing import Any, Final
from zoneinfo import available_timezones

import polars as pl

from hindcast.pipeline.errors import TraceError, did_you_mean

UTC: Final = "UTC"
_LOCAL: Final = "%Y-%m-%d %H:%M:%S%.f"
_OFFSET: Final = r"\s*(Z|[+-]\d{2}:?\d{2})$"
_SPAN: Final = r"^(?:(?:(\d+)(?:-| days? ))?(\d+):)?(\d+):(\d+(?:\.\d+)?)$"
_ISO_SPAN: Final = r"^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$"
_POWERS: Final[Mapping[str, int]] = {"b": -1, "k": 0, "m": 1, "g": 2, "t": 3, "p": 4, "e": 5}


def require_time_zone(name: str, where: str) -> None:
    """Raise TraceError, which begins with `where`, if there is no time zone of this name."""
    try:
        pl.select(pl.datetime(2024, 1, 1).dt.replace_time_zone(name))
    except pl.exceptions.PolarsError as error:
        raise TraceError(
            f"{where}: there is no time zone {name!r}, expected a name such as Europe/Berlin; "
            f"{did_you_mean(name, available_timezones() or {UTC})[:200]}"
        ) from error


def moment(
    text: pl.Expr, zone: str = UTC, form: str | None = None, *, later: bool = False
) -> pl.Expr:
    """Return a time as seconds since 1970.

    A time without an offset from UTC is one of `zone`. In the hour that clocks repeat in autumn it
    is the earlier one, or the `later` one; in the hour that they skip in spring it is null. A
    number is returned as it is. `form` is a format of `strftime`, if the text is not as in ISO
    8601.
    """
    which = "latest" if later else "earliest"
    if form is not None:
        # chrono reads an offset and seconds since 1970 itself; the result is then in UTC.
        parsed = text.str.to_datetime(form, time_unit="us", strict=False)
        return _since_1970(parsed if _has_offset(form) else _in_zone(parsed, zone, which))
    local, offset_s = _local_and_offset(text)
    return pl.coalesce(
        text.cast(pl.Float64, strict=False),
        pl.when(offset_s.is_null()).then(_since_1970(_in_zone(local, zone, which))),
        _since_1970(local) - offset_s,
    )


def _has_offset(form: str) -> bool:
    return any(sign in form for sign in ("%z", "%:z", "%s"))


def is_local(text: pl.Expr, form: str | None = None) -> pl.Expr:
    """Return whether a text is a time without an offset from UTC. `form` is as in `moment`."""
    if form is not None:
        return pl.lit(not _has_offset(form))
    return text.str.contains(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$")


def _local_and_offset(text: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the local time of an ISO time, and its offset from UTC in seconds or null."""
    plain = text.str.replace("T", " ", literal=True)
    local = plain.str.replace(_OFFSET, "").str.to_datetime(_LOCAL, time_unit="us", strict=False)
    offset = plain.str.extract(_OFFSET)
    hours, minutes = (offset.str.slice(at, 2).cast(pl.Int64, strict=False) for at in (1, -2))
    minutes = hours * 60 + minutes
    signed = pl.when(offset.str.starts_with("-")).then(-minutes).otherwise(minutes)
    return local, pl.when(offset == "Z").then(0).otherwise(signed * 60)


def _in_zone(local: pl.Expr, zone: str, which: str) -> pl.Expr:
    if zone == UTC:
        return local
    return local.dt.replace_time_zone(zone, ambiguous=which, non_existent="null")  # type: ignore[arg-type]


def _since_1970(time: pl.Expr) -> pl.Expr:
    return time.dt.epoch("us") / 1e6


def span(text: pl.Expr) -> pl.Expr:
    """Return a time span in seconds: `[[D-]H:]M:S`, `D days H:M:S`, ISO 8601, or a number."""

    def seconds_of(pattern: str) -> pl.Expr:
        """Return the seconds of a text that fits; its groups are days, hours, minutes, seconds."""
        groups = text.str.extract_groups(pattern)
        days, hours, minutes, seconds = (
            groups.struct.field(str(i)).cast(pl.Float64, strict=False).fill_null(0)
            for i in (1, 2, 3, 4)
        )
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds

    # `P` and `PT` fit the pattern, but need a number with a letter.
    is_iso = text.str.contains(_ISO_SPAN) & text.str.contains(r"\d[A-Z]$")
    return pl.coalesce(
        text.cast(pl.Float64, strict=False),
        pl.when(text.str.contains(_SPAN)).then(seconds_of(_SPAN)),
        pl.when(is_iso).then(seconds_of(_ISO_SPAN)),
    )


def kilobytes(text: pl.Expr, unit: str = "k") -> pl.Expr:
    """Return an amount of memory in KB: a number with K, M, G, T, P or E, else `unit`.

    A following B, iB or i (Kubernetes), and Slurm's `c` (per core) and `n` (per node), are allowed.
    `b` alone is a byte. 1M is 1Mi here, since batch systems mean 1,024 KB by both.
    """
    parts = text.str.to_lowercase().str.extract_groups(
        r"^(\d+(?:\.\d+)?)((?:[kmgtpe]i?)?)(b?)[cn]?$"
    )
    number = parts.struct.field("1").cast(pl.Float64, strict=False)
    letter = parts.struct.field("2").str.strip_suffix("i")
    byte = parts.struct.field("3")
    powers = {name: 1024.0**power for name, power in _POWERS.items()}
    bare = pl.when(byte == "b").then(powers["b"]).otherwise(powers[unit])
    return number * pl.coalesce(looked_up(letter, powers), bare)


def processors(text: pl.Expr, of_one: float = 1.0) -> pl.Expr:
    """Return a number of processors: `text` / `of_one`, or thousandths of one, as `500m`."""
    milli = text.str.extract(r"^(\d+(?:\.\d+)?)m$").cast(pl.Float64, strict=False) / 1000
    return pl.coalesce(text.cast(pl.Float64, strict=False) / of_one, milli)


def looked_up(text: pl.Expr, table: Mapping[str, Any]) -> pl.Expr:
    """Return the value of each text in a small table; null for a text that is not in the table.

    `replace_strict` would give the same, but polars then holds all rows of a query in memory.
    """
    keys: dict[Any, list[str]] = {}
    for key, value in table.items():
        keys.setdefault(value, []).append(key)
    return pl.coalesce(
        pl.when(text.is_in(texts)).then(pl.lit(value)) for value, texts in keys.items()
    )


def resource(text: pl.Expr, name: str) -> pl.Expr:
    """Return the text after `name=` in a list such as `cpu=4,mem=16G` (Slurm's TRES)."""
    return text.str.extract(rf"(?:^|,){name}=([^,]*)")


def counted_gpus(text: pl.Expr) -> pl.Expr:
    """Return a list of generic resources with a number for all GPUs: `gpu:a100` is `gpu:a100:1`.

    Slurm takes a resource without a number as one (sbatch, --gres).
    """
    return text.str.replace_all(
        r"\b(gpu(?::[^:=,;()\s]*[^:=,;()\s\d][^:=,;()\s]*)?)([,;\s(]|$)", "${1}:1${2}"
    )
