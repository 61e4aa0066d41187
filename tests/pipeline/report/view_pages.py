"""Data of a page of schedules, read back from its HTML without its own code."""

import base64
import json
import struct
import zlib
from html.parser import HTMLParser
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from hindcast.pipeline.schedules.schedule import Schedule
from tests.made_schedules import made_schedule

HOSTILE = [
    "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "a\u2028b\u2029c",
    "'\"`&amp;", "{{ 7 * 7 }}{% raw %}", "\u202egnp", "", "-->", "\\u003c/script",
]  # fmt: skip


def hostile_pair() -> list[Schedule]:
    """Return two schedules of 18 jobs whose every text is hostile."""
    found = []
    for policy in ("fcfs", "saf"):
        texts = pl.Series([HOSTILE[i % len(HOSTILE)] for i in range(18)])
        of = made_schedule(18, policy, name=texts, user=texts, queue=texts, account=texts)
        source = {"log": HOSTILE[1], "digest": "ab" * 32}
        facts = {**of.facts, "policy": HOSTILE[0] + policy, "source": source, "unit": "<b>cpu</b>"}
        found.append(Schedule(of.jobs, facts))
    return found


class Elements(HTMLParser):
    """Scripts and styles of a page, its tags with attributes, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.inside, self.code, self.tags, self.text = "", [], [], ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = tag if tag in {"script", "style"} else self.inside
        if self.inside == tag:
            self.code.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside:
            tag, attributes, text = self.code[-1]
            self.code[-1] = (tag, attributes, text + data)
        else:
            self.text += data


class Held(NamedTuple):
    """Data of a page of schedules or episodes."""

    facts: dict[str, Any]
    columns: dict[str, np.ndarray]


def held(page: str) -> Held:
    """Return the facts and columns that a page holds."""
    [data] = [text for _, about, text in Elements(page).code if about.get("id") == "data"]
    raw = zlib.decompress(base64.b64decode(data))
    at = 4 + struct.unpack("<I", raw[:4])[0]
    facts = json.loads(raw[4:at])
    whole, columns = {}, {}
    for name, (length, planes, base, scale) in facts["columns"].items():
        part = np.frombuffer(raw[at : at + length * planes], np.uint8)
        at += length * planes
        if not scale:
            columns[name] = part.view(f"<f{planes}")
            continue
        code = (part.reshape(planes, length).astype(np.int64).T << 8 * np.arange(planes)).sum(1)
        numbers = np.where(code % 2, -(code + 1) // 2, code // 2)
        if base == "previous":
            numbers = np.cumsum(numbers)
        else:
            for term in base.split():
                sign, other = (-1, term[1:]) if term[0] == "-" else (1, term)
                numbers = numbers + sign * whole[other]
        whole[name], columns[name] = numbers, numbers / scale if scale > 1 else numbers
    assert at == len(raw)
    return Held(facts, columns)


def rectangles_of(page: Held, which: int, resource: int = 0) -> pl.DataFrame:
    """Return the rectangles of a schedule: job, part, start_s, end_s, low, height."""
    of = page.columns
    which_of = f"{which}_{resource}" if resource else f"{which}"
    row = of[f"rect{which_of}"]
    return pl.DataFrame({
        "job": of["job"][row], "part": of["part"][row] if "part" in of else 0 * row,
        "start_s": of[f"start{which}"][row].astype(float),
        "end_s": of[f"end{which}"][row].astype(float),
        "low": of[f"low{which_of}"],
        "height": of[f"amount{which_of}"][row] - of[f"cut{which_of}"],
    })  # fmt: skip


def drawn_jobs(schedule: Schedule, resource: str = "processors") -> pl.DataFrame:
    """Return what a drawing of a schedule has to have: job, part, start_s, end_s, the resource."""
    drawn = pl.col("start_s").is_not_null() & (pl.col(resource) > 0)
    columns = ("job", pl.col("part").fill_null(0), "start_s", "end_s", resource)
    return schedule.jobs.filter(drawn).select(*columns).sort("job", "part")


def overlaps(rectangles: pl.DataFrame, rows: int) -> int:
    """Return how often rectangles lie on each other or outside of the rows."""
    taken, wrong = np.zeros(rows, bool), 0
    real = rectangles.filter(pl.col("end_s") > pl.col("start_s"))
    events = sorted(
        [(end, 0, low, low + height) for end, low, height in
         real.select("end_s", "low", "height").iter_rows()]
        + [(start, 1, low, low + height) for start, low, height in
           real.select("start_s", "low", "height").iter_rows()]
    )  # fmt: skip
    for _, begins, low, high in events:
        wrong += bool(low < 0 or high > rows or (taken[low:high] == bool(begins)).any())
        taken[low:high] = bool(begins)
    return wrong
