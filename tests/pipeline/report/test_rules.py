"""Tests of the names on a page: each is explained where it stands, and nothing else is."""

import html
import re

import pytest

from hindcast.pipeline.evaluation.summary.evaluations import PolicyEntry
from hindcast.pipeline.evaluation.summary.rules import described
from hindcast.pipeline.report import svg
from hindcast.pipeline.report.rules import Listed, explained

SENTENCES = {
    "saf_easy": "the smallest area",
    "saf_easy-best": "an agent",
    "random": "any candidate",
    "<b>": "a rule & more",
}


def marked(markup):
    """Return the names that became links, those that became abbreviations, and the list."""
    listed = Listed()
    text = explained(markup, SENTENCES, listed)
    links = re.findall(r'<a class="rule" href="#rule-\d+" title="[^"]*">(.*?)</a>', text)
    return links, re.findall(r'<abbr class="rule" title="[^"]*">(.*?)</abbr>', text), listed


def test_a_name_in_a_table_leads_to_the_list_and_a_head_has_a_tooltip():
    made = (
        "<table><caption><strong>Means</strong> against random.</caption>"
        "<thead><tr><th>policy</th><th>against saf_easy</th></tr></thead><tbody>"
        "<tr><th>random</th><td>1.0</td></tr><tr><th>saf_easy</th><td>2.0</td></tr></tbody></table>"
    )
    links, heads, listed = marked(made)
    assert links == ["random", "random", "saf_easy"]
    assert heads == ["saf_easy"]
    assert listed == {("random", "any candidate"): 1, ("saf_easy", "the smallest area"): 2}


@pytest.mark.parametrize(
    ("sentence", "names"),
    [
        ("saf_easy beats random by 3 on a random window.", ["saf_easy", "random"]),
        ("random has the least; windows are drawn at random.", ["random"]),
        ("saf_easy-best against saf_easy: -3.", ["saf_easy-best", "saf_easy"]),
        ("runs/saf_easy/metrics, saf_easy.toml and saf_easy_2", []),
        ("<b> is a name, too: <b>.", ["&lt;b&gt;", "&lt;b&gt;"]),
    ],
)
def test_a_sentence_names_a_rule_only_where_a_name_stands(sentence, names):
    assert marked(f"<p>{html.escape(sentence)}</p>")[0] == names


def test_a_word_of_a_cell_a_badge_or_a_command_is_no_name():
    badge = '<span class="badge random">random</span>'
    assert marked(f"<tr><td>random</td>{badge}</tr>")[2] == {}
    assert marked("<code>hindcast evaluate --policy saf_easy</code>")[2] == {}


def test_a_name_in_a_plot_has_a_tooltip():
    with svg.settings():
        figure = svg.new_figure(2, 1)
        figure.text(0, 0, "saf_easy")
        figure.text(0, 0.5, "4 windows")
        drawn = svg.to_svg(figure, "a", "b")
    plot = explained(drawn, SENTENCES, listed := Listed())
    assert plot.count("<title>") == 1
    assert "<title>saf_easy: the smallest area</title>saf_easy" in plot
    assert list(listed) == [("saf_easy", "the smallest area")]


def test_a_policy_without_a_description_is_told_by_its_kind_and_checkpoint():
    entries = [
        PolicyEntry("longest", "heuristic", "longest", description="the longest task"),
        PolicyEntry("old", "heuristic", "old"),
        PolicyEntry("ppo-best-seed0", "learned", "ppo-best", "agents/a", "ab" * 32),
        PolicyEntry("ppo-best-seed1", "learned", "ppo-best", "agents/b", "cd" * 32),
    ]
    found = described(entries)
    assert found["longest"] == "the longest task"
    assert "does not describe" in found["old"]
    best = "learned; the checkpoint that was best on validation windows; "
    assert found["ppo-best-seed1"] == f"{best}agents/b (weights cdcdcdcdcdcd)"
    assert found["ppo-best"].count("weights") == 2
