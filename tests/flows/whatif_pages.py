"""Pages of `hindcast whatif` for tests: logs, calls of the command, and what it wrote."""

import html
import json
import re
from functools import cached_property
from pathlib import Path

import polars as pl

from hindcast.flows.cli import main
from hindcast.pipeline.schedules.schedule import read_schedule

GREY = {
    "Cannot be judged", "Nearly nobody waits", "Not about your scheduler", "Depends on the view",
    "No clear difference",
}  # fmt: skip
_UNSAID = {"Cannot be judged", "Nearly nobody waits", "Not about your scheduler"}
COLOURS = {"Gain": "green", "Gain with a price": "yellow", "Worse": "red"}  # of other badges


class Answer:
    """What one call of `hindcast whatif` wrote."""

    def __init__(self, log, out, *options):
        self.out = Path(out)
        self.code = main(["whatif", str(log), "--out", str(out), *map(str, options)])
        assert self.code == 0

    @cached_property
    def json(self):
        return json.loads((self.out / "whatif.json").read_text())

    @cached_property
    def page(self):
        """What a reader sees, with single blanks."""
        return text_of((self.out / "whatif.html").read_text())

    @cached_property
    def first(self):
        """What a reader sees of the first screen."""
        markup = (self.out / "whatif.html").read_text()
        return text_of(markup.split("<nav")[0].split("<header>")[1])

    def table(self, name="whatif"):
        return pl.read_csv(self.out / f"{name}.csv", infer_schema_length=None)

    def jobs(self, policy):
        """Return the counted jobs of the run under a policy."""
        return read_schedule(self.out / "jobs" / f"{policy}.parquet").jobs.filter("counted")

    def mean(self, policy, metric="mean_bounded_slowdown", scope="run"):
        return self.table().filter(scope=scope, policy=policy, metric=metric)["mean"][0]

    def is_honest(self):
        """Assert what holds for every page: one badge, its colour, and no more gain than that."""
        story = self.json
        badge, sentence = story["badge"], squeezed(story["conclusion"])
        assert story["colour"] == ("grey" if badge in GREY else COLOURS[badge])
        assert badge in self.first
        lead = (self.out / "whatif.html").read_text().split('<p class="lead">')[1].split("</p>")[0]
        assert squeezed(text_of(lead)) == sentence
        gains = re.findall(r"\bgain", self.page, flags=re.IGNORECASE)
        assert len(gains) == (1 if "Gain" in badge else 0), self.page
        grade = story["nearness"]["grade"]
        if story["disqualifiers"]:
            assert badge == "Cannot be judged"
        if grade not in {"A", "B"}:
            assert badge in _UNSAID
        if badge in _UNSAID:  # no number of a policy beside the scheduler's
            assert not re.search(r"% (less|more)\b.*than your scheduler", story["conclusion"])
        if badge not in GREY:
            assert colour_of(story["evidence"]) == story["colour"]
        return self


def colour_of(evidence):
    """Return the colour that the numbers behind a badge of a good log allow."""
    scopes = [evidence["run"], evidence["windows"]]
    if None in scopes or evidence["shake_sd"] is None or evidence["opponent"] != "recorded":
        return "grey"
    less = {scope["policy"] < scope["opponent"] for scope in scopes}
    clear = [
        scope["blocks"] >= 4 and (scope["high"] < 0 if less == {True} else scope["low"] > 0)
        for scope in scopes
    ]
    difference = abs(scopes[0]["policy"] - scopes[0]["opponent"])
    if len(less) > 1 or not any(clear) or difference <= 2 * evidence["shake_sd"]:
        return "grey"
    if less == {False}:
        return "red"
    return "yellow" if max(evidence["ratios"].values()) > 1.2 else "green"


def text_of(markup):
    """Return what a reader sees of some markup."""
    markup = re.sub(r"<(script|style).*?</\1>", " ", markup, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", markup)))


def squeezed(text):
    """Return the letters and digits of a text, which markup does not change."""
    return re.sub(r"\W", "", text)
