"""Code to load a dataset with six tools, as Python to run in its folder."""

from collections.abc import Mapping, Sequence
from typing import Final

# A test runs each snippet in the folder of a dataset. SPLIT stands for one of its splits and
# episodes.parquet for its table of episodes.
SNIPPETS: Final[Mapping[str, str]] = {
    "Hindcast": """\
import hindcast
import numpy as np

dataset = hindcast.open_dataset(".")
episodes = dataset.episodes()
block = next(dataset.blocks(0))  # arrays of one row group: choice, feasible, propensity, ...
decisions = block.choice >= 0  # closing rows have no choice
print(episodes.height, int(np.count_nonzero(decisions)))
""",
    "polars": """\
import polars as pl

decisions = pl.scan_parquet("data/*.parquet").filter(pl.col("choice").is_not_null())
episodes = pl.read_parquet("episodes.parquet")
print(decisions.select(pl.len(), pl.col("reward").sum()).collect(engine="streaming"))
""",
    "pandas": """\
import pandas as pd

columns = ["episode", "step", "choice", "propensity", "reward"]
decisions = pd.read_parquet("data", columns=columns).dropna(subset="choice")
episodes = pd.read_parquet("episodes.parquet")
print(decisions.groupby("episode")["reward"].sum().head())
""",
    "pyarrow": """\
import pyarrow.dataset as ds

rows = ds.dataset("data", format="parquet")
decisions = ds.field("choice").is_valid()
for batch in rows.to_batches(columns=["candidates", "feasible", "choice"], filter=decisions):
    print(batch.num_rows)
    break
""",
    "DuckDB": """\
import duckdb

print(
    duckdb.sql(
        "SELECT behaviour, count(*) AS decisions, avg(propensity) AS propensity "
        "FROM 'data/*.parquet' JOIN 'episodes.parquet' USING (episode) "
        "WHERE choice IS NOT NULL GROUP BY behaviour ORDER BY behaviour"
    )
)
""",
    "Hugging Face datasets": """\
import os
from datasets import load_dataset

here = os.getcwd()  # the library expects a folder with a name, or an id of its hub
decisions = load_dataset(here, "decisions", split="SPLIT", streaming=True)
episodes = load_dataset(here, "episodes", split="all_splits", streaming=True)
row = next(iter(decisions))
print(row["choice"], row["propensity"], len(row["candidates"]))
""",
}


def loading(splits: Sequence[str], episodes: str) -> list[str]:
    """Return the snippets as Markdown, for these splits and this table of episodes."""
    lines = ["Run any of these in the folder of the dataset; closing rows have no choice."]
    for tool, code in SNIPPETS.items():
        body = code.replace("SPLIT", splits[0]).replace("episodes.parquet", episodes).rstrip("\n")
        lines += ["", f"### {tool}", "", "```python", *body.split("\n"), "```"]
    return lines
