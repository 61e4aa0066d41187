"""Tests of the report: honest numbers, one file, safe with any name, the same bytes each time."""

import json
import re
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.dataset.manifest import read_manifest
from hindcast.pipeline.errors import DatasetError, StorageError
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.report.page import Beside, write_report

WINDOWS = 40
METRICS = [
    {"name": "makespan_s", "unit": "s", "better": "lower", "description": "until all is done"},
    {"name": "truncated", "unit": "1", "better": "lower", "description": ""},
    {"name": "bound_s", "unit": "s", "better": "neither", "description": ""},
]


def write(folder, gain=0.0, noise=0.0, *, learned="agent", better="lower", **changes):
    """Write an evaluation in which the learned policy is better by `gain` plus noise."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    base = rng.normal(1000, 200, WINDOWS).round()
    sign = 1 if better == "lower" else -1
    values = {
        "longest": base,
        "random": base + sign * 50.0,
        learned: base - sign * (gain + noise * rng.normal(size=WINDOWS)),
    }
    rows = []
    for name, series in values.items():
        for window, value in enumerate(series):
            cut = float(name == learned and window < 3)
            rows.append((name, "binpack", window, 0, "makespan_s", float(value)))
            rows.append((name, "binpack", window, 0, "truncated", cut))
            rows.append((name, "binpack", window, 0, "bound_s", float(base.min() / 2)))
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    frame.write_parquet(folder / "scores.parquet")
    kinds = {"longest": "heuristic", "random": "random", learned: "learned"}
    evaluation = {
        "recipe": "binpack-makespan",
        "digest": "ab" * 32,
        "scenario": "binpack",
        "objective": "makespan",
        "split": "test",
        "windows": WINDOWS,
        "headline": "makespan_s",
        "metrics": [{**METRICS[0], "better": better}, *METRICS[1:]],
        "bound": "bound_s" if better == "lower" else None,
        "bound_kind": "lower" if better == "lower" else None,
        "policies": [
            {"name": name, "kind": kind, "group": name, "checkpoint": None, "digest": None}
            for name, kind in kinds.items()
        ],
        "references": ["longest", "random"],
        "command": "hindcast evaluate binpack-makespan",
        "versions": {"numpy": "2.4.6"},
        "notes": ["the first note"],
    } | changes
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    return folder


def write_training(folder):
    folder.mkdir(parents=True)
    rows = [(step, "loss", 1.0 / (1 + step)) for step in range(500)]
    rows.append((500, "loss", float("nan")))
    frame = pl.DataFrame(rows, schema=["step", "metric", "value"], orient="row")
    frame.write_parquet(folder / "metrics.parquet")
    return folder


def report(tmp_path, *args, **kwargs):
    folder = write(tmp_path / "evaluation", *args, **kwargs)
    return write_report([folder], tmp_path / "out").read_text()


def finding(tmp_path, *args, **kwargs):
    return summarise([write(tmp_path / "evaluation", *args, **kwargs)]).settings[0].finding


class Page(HTMLParser):
    """Parser that collects a page's external resources, scripts and ids, and checks tags."""

    VOID = ("meta", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.loads, self.ids, self.open, self.tags = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "srcset", "data", "action"}:
                self.loads.append(value)
            if name == "id":
                self.ids.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_win_is_claimed_where_the_interval_excludes_zero(tmp_path, better):
    found = finding(tmp_path, 9.0, 10.0, better=better)
    assert found.verdict == "win"
    assert re.fullmatch(
        r"agent beats longest, the strongest simple policy, by [\d.]+ s \([\d.]+ %\) in makespan_s "
        r"\(95 % interval [\d.]+ \.\. [\d.]+; \d+ wins, \d+ ties?, \d+ loss(es)? on 40 windows\)\.",
        found.sentence,
    )


def test_the_finding_says_that_windows_are_unseen_only_if_every_agent_learned_on_the_recipe(
    tmp_path,
):
    entries = [
        {"name": "longest", "kind": "heuristic"},
        {"name": "random", "kind": "random"},
        {"name": "agent", "kind": "learned", "learned_from": "ab" * 32},
    ]
    own = finding(tmp_path / "own", 9.0, 10.0, policies=entries)
    assert own.sentence.endswith("on 40 test windows that nobody trained on).")
    seen = finding(tmp_path / "train", 9.0, 10.0, policies=entries, split="train")
    entries[2]["learned_from"] = "cd" * 32
    other = finding(tmp_path / "other", 9.0, 10.0, policies=entries)
    assert all(found.sentence.endswith("on 40 windows).") for found in (seen, other))


@pytest.mark.parametrize(
    ("verdict", "said"), [("agent", "delivered."), ("rule", "refused in favour of a rule.")]
)
def test_the_finding_says_what_the_gates_delivered_and_refused(tmp_path, verdict, said):
    entries = [
        {"name": "longest", "kind": "heuristic"},
        {"name": "random", "kind": "random"},
        {"name": "agent", "kind": "learned", "group": "agent-delivered", "delivered": verdict},
    ]
    found = finding(tmp_path, 9.0, 10.0, policies=entries)
    ahead = "A gate compares with rules that do not look ahead."
    assert found.sentence.endswith(f" Gates of the trainings: agent: {said} {ahead}")


def test_no_win_is_claimed_where_the_interval_contains_zero(tmp_path):
    found = finding(tmp_path, 1.0, 60.0)
    assert found.verdict == "unclear"
    assert found.sentence.startswith("No learned policy clearly beats longest")
    assert re.search(r"95 % interval -[\d.]+ \.\. [\d.]+ of the gain contains zero", found.sentence)
    assert "agent beats" not in found.sentence


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_a_loss_is_said_plainly(tmp_path, better):
    found = finding(tmp_path, -20.0, 10.0, better=better)
    assert found.verdict == "loss"
    assert found.sentence.startswith("No learned policy beats longest, the strongest simple policy")
    assert "is worse by" in found.sentence


def test_an_equal_policy_is_no_win(tmp_path):
    found = finding(tmp_path)
    assert found.verdict == "unclear"
    assert "agent has the same makespan_s on average" in found.sentence
    assert "0 wins, 40 ties, 0 losses" in found.sentence


def test_without_learned_policies_the_strongest_simple_one_is_named(tmp_path):
    policies = [{"name": n, "kind": "heuristic"} for n in ("longest", "random", "agent")]
    found = finding(tmp_path, -5.0, policies=policies)
    assert found.verdict == "incomparable"
    assert found.sentence.startswith(
        "No learned policy was evaluated; the strongest simple policy is longest"
    )


@pytest.mark.slow
def test_without_simple_policies_nothing_is_compared(tmp_path):
    policies = [{"name": n, "kind": "learned"} for n in ("longest", "random", "agent")]
    folder = write(tmp_path / "evaluation", 5.0, policies=policies, references=[])
    text = write_report([folder], tmp_path / "out").read_text()
    assert "no simple policy was run beside it" in text


@pytest.mark.slow
def test_a_metric_without_direction_is_not_ranked(tmp_path):
    text = report(tmp_path, 5.0, better="neither")
    assert "makespan_s has no better direction, so policies are not ranked." in text


@pytest.mark.slow
def test_the_page_holds_what_was_asked_and_found(tmp_path, tiny_dataset):
    folder = write(tmp_path / "evaluation", 9.0, 10.0)
    for run in ("agent-0", "agent-1"):
        write_training(folder / "training" / run)
    manifest = read_manifest(tiny_dataset)
    path = write_report([folder], tmp_path / "out", Beside(datasets=[tiny_dataset]))
    text = path.read_text()
    for expected in (
        "ab" * 32,
        "hindcast evaluate binpack-makespan",
        "numpy 2.4.6",
        "strongest simple",
        "lower bound",
        "Performance profile",
        "Training curves",
        "agent-0agent of the training agent-0",  # in the list
        manifest.recipe.id,
        manifest.digest,
        f"{manifest.counts['decisions']:,}",
        f"{manifest.recipe.behaviours[0].policy} (epsilon ",
        "the first note",
        "truncated, summed over windows and averaged over seeds: agent 3",
    ):
        assert expected in re.sub(r"<[^>]*>", "", text)
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "provenance.json",
        "report.html",
        "results.csv",
        "results.md",
        "summary.md",
        "summary.parquet",
        "summary_seeds.parquet",
    ]


@pytest.mark.slow
def test_the_page_loads_nothing_and_is_well_formed(tmp_path):
    text = report(tmp_path, 9.0, 10.0)
    page = Page(text)
    assert page.open == []
    assert all(load.startswith(("#", "data:")) for load in page.loads)
    assert not re.search(r"https?://|@import|url\((?!#)", text)
    assert len(page.ids) == len(set(page.ids))
    assert {load[1:] for load in page.loads if load.startswith("#")} <= set(page.ids)


@pytest.mark.slow
def test_the_page_can_be_read_aloud(tmp_path):
    tags = Page(report(tmp_path, 9.0, 10.0)).tags
    assert all(a.get("aria-label") and a["role"] == "img" for tag, a in tags if tag == "svg")
    assert all(a.get("scope") in {"row", "col"} for tag, a in tags if tag == "th")
    names = [tag for tag, _ in tags]
    assert names.count("caption") == names.count("table") > 0
    assert ("html", {"lang": "en"}) in tags


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style>$\\frac{1}$&amp;"],
)
def test_names_are_text_wherever_they_stand(tmp_path, name):
    folder = write(
        tmp_path / "evaluation",
        9.0,
        10.0,
        learned=name,
        recipe=name,
        command=name,
        notes=[name],
        versions={name: name},
        split=name,
    )
    text = write_report([folder], tmp_path / "out").read_text()
    page = Page(text)
    assert page.open == []
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert not [a for _, a in page.tags if any(key.startswith("on") for key in a)]


@pytest.mark.slow
def test_the_same_input_gives_the_same_bytes(tmp_path):
    folder = write(tmp_path / "evaluation", 9.0, 10.0)
    write_training(folder / "training" / "agent-0")
    first = write_report([folder], tmp_path / "first").parent
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30}):
        second = write_report([folder], tmp_path / "second").parent
    for path in first.iterdir():
        assert path.read_bytes() == (second / path.name).read_bytes()


def boxes(text, tag):
    """Class of the parent of every element with that tag."""
    return re.findall(rf'<div class="([a-z]+)"[^>]*><{tag}\b', text)


@pytest.mark.slow
def test_only_tables_and_plots_scroll_sideways(tmp_path):
    """Everything else wraps, so that a page is as wide as the screen; paper has its own rules."""
    text = report(tmp_path, 9.0, 10.0, learned="a_name" * 40)
    assert boxes(text, "table") == ["scroll"] * text.count("<table") != []
    assert boxes(text, "svg") == ["plot"] * text.count("<svg") != []
    for selector in (r"\.scroll", r"figure \.plot"):
        assert re.search(selector + r" \{\s*overflow-x: auto;", text)
    assert re.search(r"body \{[^}]*overflow-wrap: anywhere;", text)
    assert "@media print" in text
    assert "@page" in text


@pytest.mark.slow
def test_windows_that_a_policy_wins_and_loses_most_are_named(tmp_path):
    """Of windows 0 to 39, 7 is the best and 9 the worst for the agent; random never wins."""
    folder = write(tmp_path / "evaluation")
    scores = pl.read_parquet(folder / "scores.parquet")
    agent = (pl.col("policy") == "agent") & (pl.col("metric") == "makespan_s")
    change = pl.when(pl.col("window") == 7).then(-30.0).when(pl.col("window") == 9).then(20.0)
    value = pl.when(agent).then(pl.col("value") + change.otherwise(0.0)).otherwise("value")
    scores.with_columns(value=value).write_parquet(folder / "scores.parquet")
    text = write_report([folder], tmp_path / "out").read_text()
    table = text.partition("Best and worst windows")[2].partition("</table>")[0]
    _, agent, random = (
        [re.sub(r"<[^>]+>", " ", cell).split() for cell in re.findall(r">(.*?)</t[hd]>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", table)
    )
    assert agent[1] == ["window", "7"]
    assert agent[2][0] == "-30.0"
    assert agent[2][2] == "against"
    assert agent[3] == ["window", "9"]
    assert agent[4][0] == "+20.0"
    assert random[0] == ["random"]
    assert random[1:3] == [["\N{EN DASH}"], ["\N{EN DASH}"]]


@pytest.mark.slow
def test_every_policy_of_a_table_has_a_tooltip_and_stands_in_the_list(tmp_path):
    policies = [
        {"name": "longest", "kind": "heuristic", "description": "The task <with> most seconds."},
        {"name": "random", "kind": "random"},
        {"name": "agent", "kind": "learned"},
    ]
    text = report(tmp_path, 9.0, 10.0, policies=policies)
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert {load[1:] for load in page.loads if load.startswith("#")} <= set(page.ids)
    part = text.partition('id="rules"')[2]
    assert re.findall(r'id="rule-\d+">(.*?)</span>', part) == ["agent", "longest", "random"]
    assert "<dd>The task &lt;with&gt; most seconds.</dd>" in part
    lead = re.search(r'class="lead">(.*?)</p>', text)[1]
    assert re.findall(r">(.*?)</a>", lead) == ["agent", "longest"]
    for row in re.findall(r'<th scope="row"[^>]*>(.*?)</th>', text):
        name = re.sub(r"<[^>]+>", " ", row).split()[0]
        assert row.startswith('<a class="rule"') == (name in {"agent", "longest", "random"})


@pytest.mark.slow
def test_matplotlib_is_left_as_it_was(tmp_path):
    before = dict(mpl.rcParams)
    report(tmp_path, 9.0, 10.0)
    assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_one_window_and_one_policy_still_make_a_report(tmp_path):
    folder = write(tmp_path / "evaluation", 9.0)
    scores = pl.read_parquet(folder / "scores.parquet")
    scores.filter(pl.col("window") == 0).write_parquet(folder / "scores.parquet")
    text = write_report([folder], tmp_path / "out").read_text()
    assert "one window gives no interval" in text
    scores.filter(pl.col("policy") == "longest").write_parquet(folder / "scores.parquet")
    text = write_report([folder], tmp_path / "out").read_text()
    assert "No learned policy was evaluated" in text
    assert "</a> is listed but has no value of makespan_s." in text


@pytest.mark.slow
def test_what_cannot_be_used_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        write_report([tmp_path / "nothing"], tmp_path / "out")
    folder = write(tmp_path / "evaluation", 9.0)
    with pytest.raises(DatasetError, match=r"no manifest\.json, so this is no finished dataset"):
        write_report([folder], tmp_path / "out", Beside(datasets=[tmp_path]))
    pl.DataFrame({"step": [1]}).write_parquet(folder / "metrics.parquet")
    with pytest.raises(DatasetError, match=r"metrics\.parquet: column 'metric' is missing"):
        write_report([folder], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_file_in_the_way_of_the_folder_is_a_storage_error(tmp_path):
    folder = write(tmp_path / "evaluation", 9.0)
    (tmp_path / "out").write_text("not a folder")
    with pytest.raises(StorageError, match="has the name of a folder that is needed"):
        write_report([folder], tmp_path / "out")
