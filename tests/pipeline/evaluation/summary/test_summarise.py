"""Tests of summaries: one row per scenario, metric, policy and reference."""

import json

import polars as pl
import pytest

from hindcast.pipeline.errors import DatasetError
from hindcast.pipeline.evaluation.summary.summarise import summarise
from hindcast.pipeline.evaluation.summary.writing import write_summary

LOWER = {"name": "makespan_s", "unit": "s", "better": "lower", "description": ""}
HIGHER = {"name": "utilisation", "unit": "1", "better": "higher", "description": ""}

# policy -> (kind, values by seed); a name "agent@1" is training seed 1 of the group "agent"
SCORES = {
    "first": ("heuristic", [[10, 20, 30, 40]]),
    "longest": ("heuristic", [[9, 20, 28, 36]]),
    "random": ("random", [[12, 22, 32, 42], [10, 18, 28, 38]]),
    "agent@0": ("learned", [[8, 20, 27, 35]]),
    "agent@1": ("learned", [[6, 20, 29, 37]]),
}


def write(folder, scores=None, *, references=("random",), metric=LOWER, bound=None, **changes):
    folder.mkdir(parents=True)
    scores = SCORES if scores is None else scores
    rows = [
        (policy, "binpack", 100 + window, seed, metric["name"], float(value))
        for policy, (_, seeds) in scores.items()
        for seed, values in enumerate(seeds)
        for window, value in enumerate(values)
        if value is not None
    ]
    if bound:
        some = next(iter(scores))
        rows += [(some, "binpack", 100 + w, 0, "bound_s", float(b)) for w, b in enumerate(bound)]
    columns = ["policy", "scenario", "window", "seed", "metric", "value"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    frame.write_parquet(folder / "scores.parquet")
    evaluation = {
        "recipe": "binpack-makespan",
        "digest": "ab" * 32,
        "scenario": "binpack",
        "objective": "makespan",
        "split": "test",
        "windows": 4,
        "headline": metric["name"],
        "metrics": [metric],
        "bound": "bound_s" if bound else None,
        "bound_kind": "lower" if bound else None,
        "policies": [
            {
                "name": name,
                "kind": kind,
                "group": name.partition("@")[0],
                "checkpoint": None,
                "digest": None,
            }
            for name, (kind, _) in scores.items()
        ],
        "references": list(references),
        "command": "hindcast evaluate",
        "versions": {"numpy": "2"},
        "notes": ["a note"],
    } | changes
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    return folder


def change_scores(folder, change):
    frame = pl.read_parquet(folder / "scores.parquet")
    change(frame).write_parquet(folder / "scores.parquet")
    return folder


def row(summary, policy, reference, metric="makespan_s"):
    return summary.table.row(
        by_predicate=(pl.col("policy") == policy)
        & (pl.col("reference") == reference)
        & (pl.col("metric") == metric),
        named=True,
    )


def test_one_row_per_policy_and_reference_best_first(tmp_path):
    summary = summarise([write(tmp_path / "a")])
    assert summary.settings[0].references == ("longest", "random")
    assert summary.table["policy"].unique(maintain_order=True).to_list() == [
        "agent",
        "longest",
        "first",
        "random",
    ]
    assert summary.table.height == 4 * 2


def test_numbers_that_can_be_checked_in_the_head(tmp_path):
    """The agent's seeds average to 7, 20, 28, 36 against longest's 9, 20, 28, 36."""
    found = row(summarise([write(tmp_path / "a")]), "agent", "longest")
    assert (found["windows"], found["seeds"], found["mean"]) == (4, 2, 22.75)
    assert found["low"] <= 22.75 <= found["high"]
    assert found["paired_difference"] == -0.5
    assert (found["wins"], found["ties"], found["losses"]) == (1, 3, 0)
    # runs: (8, 6) both beat 9; (20, 20) tie 20; (27, 29) and (35, 37) win once and lose once
    assert found["probability_of_improvement"] == (1 + 0.5 + 0.5 + 0.5) / 4


def test_a_deterministic_policy_meets_every_seed_of_a_stochastic_one(tmp_path):
    """Random averages to 11, 20, 30, 40: first-fit wins once and ties three times."""
    found = row(summarise([write(tmp_path / "a")]), "first", "random")
    assert (found["wins"], found["ties"], found["losses"]) == (1, 3, 0)
    assert found["paired_difference"] == -0.25


def test_higher_is_better_turns_the_order_and_the_counts(tmp_path):
    summary = summarise([write(tmp_path / "a", metric=HIGHER)])
    assert summary.settings[0].strongest == "random"
    found = row(summary, "longest", "random", "utilisation")
    assert (found["wins"], found["ties"], found["losses"]) == (0, 1, 3)


def test_a_metric_without_direction_has_no_wins(tmp_path):
    metric = {**LOWER, "better": "neither"}
    summary = summarise([write(tmp_path / "a", metric=metric)])
    assert summary.settings[0].strongest is None
    found = row(summary, "first", "random")
    assert found["paired_difference"] == -0.25
    assert found["wins"] is None
    assert found["probability_of_improvement"] is None


def test_the_strongest_simple_policy_cannot_be_left_out_of_the_references(tmp_path):
    folder = write(tmp_path / "a", references=["first"])
    assert summarise([folder]).settings[0].references == ("longest", "first")


def test_without_references_random_stands_in(tmp_path):
    summary = summarise([write(tmp_path / "a", references=[])])
    assert summary.settings[0].references == ("longest", "random")


def test_training_seeds_are_pooled_and_stand_one_by_one(tmp_path):
    seeds = summarise([write(tmp_path / "a")]).seeds
    assert seeds.select("policy", "run", "mean").rows() == [
        ("agent", "agent@0", 22.5),
        ("agent", "agent@1", 23.0),
        ("random", "0", 27.0),
        ("random", "1", 23.5),
    ]
    assert seeds["reference"].unique().to_list() == ["longest"]


def test_the_bound_stands_beside_the_headline(tmp_path):
    summary = summarise([write(tmp_path / "a", bound=[5, 20, 25, 30])])
    found = row(summary, "longest", "random")
    assert found["bound"] == 20.0
    assert found["bound_ratio"] == 93 / 80
    assert summary.table["metric"].unique().to_list() == ["makespan_s"]


@pytest.mark.parametrize("measured", [True, False])
def test_only_a_bound_that_is_measured_can_be_missing_on_windows(tmp_path, measured):
    """Objectives such as those of a grid have no outcome of the scenario's bound."""
    metrics = [LOWER, {**LOWER, "name": "bound_s"}] if measured else [LOWER]
    folder = write(tmp_path / "a", bound=[5, 20, 25], metrics=metrics)
    said = " ".join(summarise([folder]).settings[0].left_out)
    assert ("bound_s is missing on some windows" in said) == measured


def test_a_policy_beyond_the_bound_is_reported(tmp_path):
    """One of the agent's seeds has makespan 27 on the third window, which is beyond the bound."""
    sound = summarise([write(tmp_path / "a", bound=[5, 18, 27, 30])])
    assert "below" not in " ".join(sound.settings[0].left_out)
    wrong = summarise([write(tmp_path / "b", bound=[5, 18, 27.5, 30])])
    assert "agent is below the lower bound on 1 window:" in " ".join(wrong.settings[0].left_out)


def test_only_common_windows_count_and_the_others_are_stated(tmp_path):
    """Random's second seed lacks window 103, so that window is left out for every policy."""
    scores = SCORES | {"random": ("random", [[12, 22, 32, 42], [10, 18, 28, None]])}
    summary = summarise([write(tmp_path / "a", scores)])
    found = row(summary, "first", "random")
    assert (found["windows"], found["windows_left_out"], found["mean"]) == (3, 1, 20.0)
    assert summary.settings[0].left_out[0].startswith("1 of 4 windows are left out")
    assert "random lacks 1" in summary.settings[0].left_out[0]


def test_a_value_that_is_not_a_number_counts_as_not_run(tmp_path):
    folder = change_scores(
        write(tmp_path / "a"),
        lambda f: f.with_columns(
            value=pl.when((pl.col("policy") == "first") & (pl.col("window") == 100))
            .then(float("nan"))
            .otherwise("value")
        ),
    )
    assert row(summarise([folder]), "first", "random")["windows"] == 3


def test_a_side_metric_without_common_windows_is_left_out_and_said(tmp_path):
    extra = pl.DataFrame(
        [("first", "binpack", 100, 0, "idle_s", 1.0), ("random", "binpack", 101, 0, "idle_s", 1.0)],
        schema=["policy", "scenario", "window", "seed", "metric", "value"],
        orient="row",
    )
    folder = change_scores(write(tmp_path / "a"), lambda f: pl.concat([f, extra]))
    summary = summarise([folder])
    assert summary.table["metric"].unique().to_list() == ["makespan_s"]
    assert "idle_s" in " ".join(summary.settings[0].left_out)
    assert (
        "idle_s"
        not in (write_summary(summary, tmp_path / "out") / "summary.md")
        .read_text()
        .split("### Data left out")[0]
    )


def test_one_window_has_no_interval(tmp_path):
    scores = {name: (kind, [s[:1] for s in seeds]) for name, (kind, seeds) in SCORES.items()}
    found = row(summarise([write(tmp_path / "a", scores)]), "first", "longest")
    assert found["paired_difference"] == 1.0
    assert found["low"] is None
    assert found["paired_low"] is None


def test_folders_of_one_recipe_are_compared_and_equal_baselines_count_once(tmp_path):
    a = write(tmp_path / "a", {k: v for k, v in SCORES.items() if k != "random"})
    b = write(tmp_path / "b", {k: v for k, v in SCORES.items() if k in {"first", "random"}})
    summary = summarise([a, b])
    assert len(summary.settings) == 1
    assert row(summary, "agent", "random")["windows"] == 4


def test_recipes_are_kept_apart(tmp_path):
    a = write(tmp_path / "a")
    b = write(tmp_path / "b", recipe="binpack-large")
    summary = summarise([a, b])
    assert summary.table["scenario"].unique(maintain_order=True).to_list() == [
        "binpack / binpack-makespan",
        "binpack / binpack-large",
    ]


def test_numbers_do_not_depend_on_what_else_is_reported(tmp_path):
    a, b = write(tmp_path / "a"), write(tmp_path / "b", recipe="binpack-large")
    numbers = pl.selectors.float()
    alone = summarise([b]).table.select(numbers)
    together = summarise([a, b]).table.filter(recipe="binpack-large")
    assert alone.equals(together.select(numbers))


def test_files_hold_the_table_the_seeds_and_readable_markdown(tmp_path):
    summary = summarise([write(tmp_path / "a", bound=[5, 20, 25, 30])])
    out = write_summary(summary, tmp_path / "out")
    assert pl.read_parquet(out / "summary.parquet").equals(summary.table)
    assert pl.read_parquet(out / "summary_seeds.parquet").equals(summary.seeds)
    text = (out / "summary.md").read_text()
    assert "| longest | heuristic | 1 | 23.25 |" in text
    assert "- a note" in text
    assert sorted(path.name for path in out.iterdir()) == [
        "provenance.json",
        "results.csv",
        "results.md",
        "summary.md",
        "summary.parquet",
        "summary_seeds.parquet",
    ]


def test_markdown_escapes_names(tmp_path):
    scores = SCORES | {"a|<b>*\n_x": ("heuristic", [[50, 50, 50, 50]])}
    summary = summarise([write(tmp_path / "a", scores)])
    text = (write_summary(summary, tmp_path / "out") / "summary.md").read_text()
    assert r"| a\|\<b\>\* \_x | heuristic |" in text


def test_markdown_holds_nothing_that_a_terminal_obeys(tmp_path):
    """Names with escape sequences, or with marks that turn the direction of writing."""
    scores = SCORES | {"a\x1b]0;owned\x07\u202eb": ("heuristic", [[50, 50, 50, 50]])}
    summary = summarise([write(tmp_path / "a", scores)])
    out = write_summary(summary, tmp_path / "out")
    for name in ("summary.md", "results.md"):
        text = (out / name).read_text()
        assert text.replace("\n", "").isprintable()
        assert r"a\\x1b\]0;owned\\x07\\u202eb" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop("seed"), "scores.parquet: column 'seed' .a whole number. is missing"),
        (lambda f: f.with_columns(window=pl.lit("x")), "column 'window' should be a whole number"),
        (lambda f: pl.concat([f, f.head(2)]), "4 rows are duplicated, the first at policy 'first'"),
        (lambda f: f.clear(), "the table has no rows"),
        (
            lambda f: f.with_columns(pl.col("policy").replace("first", "new")),
            "'new' is not listed under",
        ),
        (lambda f: f.with_columns(value=pl.lit(float("inf"))), "column 'value' is infinite"),
        (lambda f: f.with_columns(metric=pl.lit("x")).head(4), "no scores of the headline metric"),
        (
            lambda f: f.with_columns(window=pl.int_range(pl.len())),
            "the policies have no common window for metric 'makespan_s'",
        ),
    ],
)
def test_unusable_scores_are_refused_in_one_line(tmp_path, change, message):
    folder = change_scores(write(tmp_path / "a"), change)
    with pytest.raises(DatasetError, match=message) as error:
        summarise([folder])
    assert "\n" not in str(error.value)
    assert str(folder) in str(error.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"headline": "makespn"}, "headline 'makespn' is not one of the metrics"),
        ({"policies": [{"name": "first", "kind": "magic"}]}, "'kind' should be one of heuristic"),
        ({"policies": [{"name": "first"}]}, "'kind' should be one of heuristic"),
        ({"metrics": []}, "key 'metrics' should be a list"),
        ({"metrics": ["makespan_s"]}, "key 'name' should be text"),
        ({"versions": ["numpy"]}, "'versions' should be an object"),
        ({"notes": "random"}, "'notes' should be a list"),
    ],
)
def test_an_unusable_description_is_refused(tmp_path, changes, message):
    with pytest.raises(DatasetError, match=message):
        summarise([write(tmp_path / "a", **changes)])


def test_contradicting_folders_are_refused(tmp_path):
    a = write(tmp_path / "a")
    b = write(tmp_path / "b", SCORES | {"first": ("heuristic", [[10, 20, 30, 41]])})
    with pytest.raises(DatasetError, match=r"duplicated with different values .policy 'first'"):
        summarise([a, b])
    c = write(tmp_path / "c", SCORES | {"first": ("learned", [[10, 20, 30, 40]])})
    with pytest.raises(
        DatasetError, match="policy 'first' is another one than the policy of that name"
    ):
        summarise([a, c])


def test_a_group_holds_one_kind(tmp_path):
    scores = SCORES | {"agent": ("heuristic", [[1, 1, 1, 1]])}
    with pytest.raises(DatasetError, match="group 'agent' pools policies of kinds"):
        summarise([write(tmp_path / "a", scores)])


def test_folders_that_are_no_evaluation_are_refused(tmp_path):
    with pytest.raises(DatasetError, match="no such folder"):
        summarise([tmp_path / "nothing"])
    with pytest.raises(DatasetError, match=r"not an evaluation folder .evaluation.json is missing"):
        summarise([tmp_path])
    (write(tmp_path / "a") / "scores.parquet").unlink()
    with pytest.raises(DatasetError, match=r"scores.parquet: no such file"):
        summarise([tmp_path / "a"])
    (write(tmp_path / "b") / "scores.parquet").write_bytes(b"not parquet")
    with pytest.raises(DatasetError, match="as Parquet"):
        summarise([tmp_path / "b"])
    with pytest.raises(DatasetError, match="no evaluation folder was given"):
        summarise([])


def test_windows_that_share_jobs_have_wider_intervals_of_the_same_mean(tmp_path):
    """Four windows of 40 jobs, 10 apart, have 70 jobs: less than one degree of freedom each."""
    shared = {str(100 + w): [10 * w, 10 * w + 40] for w in range(4)}
    found = [
        row(summarise([write(tmp_path / name, stretches=of)]), "first", "longest")
        for name, of in (("apart", None), ("shared", shared))
    ]
    apart, shared = found
    assert apart["paired_difference"] == shared["paired_difference"] == 1.75
    assert shared["paired_low"] < apart["paired_low"]
    assert shared["paired_high"] > apart["paired_high"]
    # 1, 0, 2, 4: one window is more than half of 7; around 1.75: -.75, -1.75, .25, 2.25
    assert apart["windows_of_half"] == 1
    assert apart["autocorrelation"] == pytest.approx((1.3125 - 0.4375 + 0.5625) / 8.75)


def test_damaged_stretches_are_refused(tmp_path):
    for name, stretches, told in (
        ("a", [1], "'stretches' is damaged"), ("b", {"100": [5, 5]}, "jobs 5 to 5, thus none"),
        ("c", {"100": [0, "x"]}, "'stretches' is damaged"),
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=told):
            summarise([write(tmp_path / name, stretches=stretches)])


def test_a_load_beyond_all_numbers_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="'loads' is damaged"):
        summarise([write(tmp_path / "a", loads={"100": 10**400})])


def test_a_test_that_stopped_an_evaluation_is_among_the_notes(tmp_path):
    look = {"windows": 4, "value": -1.75, "error": 0.1, "degrees": 3.0, "skewness": 0.0}
    until = {"policy": "longest", "other": "first", "most": 16, "looks": [look]}
    summary = summarise([write(tmp_path / "a", until=until)])
    assert any(note.startswith("not decided: longest less first") for note in
               summary.settings[0].left_out)  # fmt: skip
    with pytest.raises(DatasetError, match="'until' is damaged"):
        summarise([write(tmp_path / "b", until={**until, "looks": [{}]})])


def test_a_report_warns_of_skewed_differences_over_few_windows(tmp_path):
    """Nine equal differences and one far away have a skewness of 3.2, ten spread ones less."""
    far = {"rule": ("heuristic", [[10.0] * 10]), "agent@0": ("learned", [[11.0] * 9 + [40.0]])}
    even = {**far, "agent@0": ("learned", [[5.0 + w for w in range(10)]])}
    for number, (scores, warns) in enumerate(((far, True), (even, False))):
        folder = write(tmp_path / str(number), scores, references=("rule",))
        told = summarise([folder]).settings[0].left_out
        assert any("agent (+3.2)" in text and "rule" in text for text in told) == warns
