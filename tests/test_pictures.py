"""Tests that the documentation's committed pictures and numbers are what their scripts produce."""

from pathlib import Path

import pytest

from docs.pictures import concepts, schedules, small_episodes

PICTURES = Path(concepts.__file__).resolve().parent.parent / "_static" / "concepts"


def test_pictures_of_concepts_are_up_to_date(tmp_path, monkeypatch):
    """The order of the floors changes most often: run `python -m docs.pictures.concepts`."""
    monkeypatch.setattr(concepts, "OUT", tmp_path)
    for draw in (
        concepts.decision, concepts.kernel, concepts.rows, concepts.windows, concepts.floors,
    ):  # fmt: skip
        draw()
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert drawn == {path.name: path.read_bytes() for path in PICTURES.iterdir()}


@pytest.mark.slow
def test_the_picture_of_the_readme_and_its_sentence_are_what_the_schedules_say():
    """Run `python -m docs.pictures.schedules`, and copy the sentence."""
    pair = schedules.schedules()
    assert schedules.OUT.read_text("utf-8") == schedules.picture(pair)
    readme = (PICTURES.parent.parent.parent / "README.md").read_text("utf-8")
    assert schedules.sentence(pair) in " ".join(readme.split())


@pytest.mark.parametrize(
    ("scenario", "episode", "outcome", "value"),
    [
        ("binpack", "shortest_first", "makespan_s", 14),
        ("binpack", "longest_first", "makespan_s", 10),
        ("slots", "sjf_now", "mean_slowdown", 3.5),
        ("slots", "wait one time step", "mean_slowdown", 7 / 6),
        ("slots", "hold_5", "mean_slowdown", 1.5),
        ("thermal", "spread", "level_per_step", -1.3754),
        ("thermal", "min_heat", "level_per_step", -0.54936),
        ("thermal", "max_usage", "level_per_step", -0.2798),
        ("deferrable", "fifo", "total_reward", 6),
        ("deferrable", "knapsack", "total_reward", 10),
        ("deferrable", "knapsack, capacity falls to 2", "total_reward", 0),
        ("multicluster", "most_free_now", "eval_cost", 55),
        ("multicluster", "critical to cluster 0", "eval_cost", 5),
        ("multicluster", "both to cluster 0", "eval_cost", 150.02),
        ("queue", "fcfs_easy", "mean_bounded_slowdown", 1.4556),
        ("queue", "fcfs_greedy", "mean_bounded_slowdown", 3.2),
    ],
)
def test_small_episodes_come_to_what_the_pages_tell(scenario, episode, outcome, value):
    _decisions, outcomes = small_episodes.EPISODES[scenario][episode]()
    assert outcomes[outcome] == pytest.approx(value, rel=1e-4)
