"""Committed reference tables: rules, features, keys of a recipe, anchors.

    python -m docs.generate

writes them to docs/reference/tables, where they are read without building the documentation. A test
compares the files with the code.
"""

from collections.abc import Mapping

from docs.generate.anchors import anchors_table
from docs.generate.recipe import keys_of_a_recipe
from docs.generate.scenarios import features_page, rules_page
from docs.generate.text import contents, table
from hindcast.pipeline.scenarios import SCENARIOS

_INDEX = """\
# Rules, features, keys

These tables are generated from the code by `python -m docs.generate`. On built pages, the name of a
rule shows what the rule chooses when the pointer rests on it.
"""
_OTHERS = """\
There are tables of the [keys of a recipe](recipe-keys.md) and of [anchors](anchors.md).
"""
_ANCHORS = """\
# Anchors

Means over test windows, from `datasets/anchors.csv`: `random` was drawn five times in each window,
and the best policy without learning is that of all rows on these windows in `offline.csv`,
`online.csv`, `looking_ahead.csv` and `queue_rules.csv`; a log's windows that other recipes number
differently are the same. The [evaluation protocol](../../protocol.md) says what the columns mean.
"""


def table_pages() -> Mapping[str, str]:
    """Return the text of every committed table by its file name."""
    rows = [
        [f"`{name}`", f"[rules, outcomes, settings]({name}.md)", f"[features]({name}-features.md)"]
        for name in SCENARIOS
    ]
    names = [page for name in SCENARIOS for page in (name, f"{name}-features")]
    parts = [_INDEX, table(["scenario", "rules", "features"], rows), _OTHERS]
    return {
        "index.md": "\n".join([*parts, contents([*names, "recipe-keys", "anchors"])]),
        **{f"{name}.md": rules_page(name) for name in SCENARIOS},
        **{f"{name}-features.md": features_page(name) for name in SCENARIOS},
        "recipe-keys.md": keys_of_a_recipe(),
        "anchors.md": f"{_ANCHORS}\n{anchors_table()}",
    }
