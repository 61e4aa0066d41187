"""The card of a dataset, its README.md, generated from the manifest and the episodes."""

import math
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from pipeline import manifest as mf
from pipeline.schema import Feature
from pipeline.storage import write_text


def write_card(folder: Path, manifest: mf.Manifest, episodes: pl.DataFrame) -> None:
    """Write README.md into the dataset folder, whose parts are there already."""
    parts = [folder / part.path for part in manifest.parts]
    write_text(folder / mf.CARD, card(manifest, episodes, choice_counts(parts)))


def choice_counts(parts: Sequence[Path]) -> pl.DataFrame:
    """How often each position was chosen: choice, decisions; and among how many candidates."""
    return (
        pl.scan_parquet(list(parts), glob=False)
        .filter(pl.col("choice").is_not_null())
        .select("choice", pl.col("feasible").list.sum().cast(pl.Int64).alias("feasible"))
        .group_by("choice")
        .agg(pl.len().alias("decisions"), pl.col("feasible").sum())
        .sort("choice")
        .collect(engine="streaming")
    )


def _coverage(counts: pl.DataFrame) -> list[str]:
    """How choices are spread over positions; a log of one action only is called degenerate."""
    total = int(counts["decisions"].sum())
    share = counts["decisions"] / total
    entropy = -float((share * share.log()).sum())
    open_choices = float(counts["feasible"].sum()) / total
    lines = [
        f"Decisions had {open_choices:.1f} feasible candidates on average. The chosen position",
        f"has an entropy of {entropy:.2f} nats: as many as {math.exp(entropy):.1f} positions",
        f"used equally. {counts.height} positions were ever chosen; the most frequent ones:",
        "",
        "| position | share of decisions |",
        "|---:|---:|",
    ]
    most = counts.sort("decisions", descending=True).head(8)
    lines += [f"| {c} | {n / total:.1%} |" for c, n in most.select("choice", "decisions").rows()]
    if counts.height == 1:
        lines = ["**Degenerate log: one and the same position was chosen in every decision.**", ""]
        lines += ["Nothing can be learned about the other candidates from it."]
    return lines


def card(manifest: mf.Manifest, episodes: pl.DataFrame, coverage: pl.DataFrame) -> str:
    """The card as Markdown; `coverage` is what `choice_counts` gives."""
    recipe, spec, counts = manifest.recipe, manifest.spec, manifest.counts
    size = sum(p.bytes for p in manifest.parts)
    lines = [
        f"# {recipe.id}",
        "",
        recipe.description or "A Hindcast transition dataset.",
        "",
        f"One row is one decision of the scenario `{spec.scenario}` (objective",
        f"`{spec.objective}`): a choice among the candidates of that moment, with the probability",
        "of every candidate under the behaviour policy; every episode ends with a closing row",
        "that holds its last observation.",
        "",
        (
            f"- {counts['decisions']:,} decisions in {counts['episodes']:,} episodes on "
            f"{counts['windows']:,} windows; {size / 1e6:.1f} MB in {len(manifest.parts)} parts "
            f"({size / max(1, counts['decisions']):.1f} bytes per decision)"
        ),
        f"- {counts['truncated_episodes']:,} episodes were cut off before their end",
        f"- recipe digest `{manifest.digest}`",
        "",
        "## Behaviours",
        "",
        *_behaviours(episodes, spec.outcomes[0].name),
        "",
        "## Action coverage",
        "",
        *_coverage(coverage),
        "",
        "## Columns",
        "",
        "`episode`, `step`, `time_s` (s), `context` (struct), `candidates` (list of struct), "
        "`feasible` (list), `choice` (index into the lists; null in closing rows), `propensity`, "
        "`behaviour_probabilities` (list), `reward`, `reward_terms` (struct: "
        + ", ".join(f"`{t}`" for t in spec.reward_terms)
        + "), `elapsed_s` (s), `terminated`, `truncated`.",
        "",
        *_features("context", spec.context),
        "",
        *_features("candidates", spec.candidates),
        "",
        "`episodes.parquet` has one row per episode: behaviour, window, split, seed, return and",
        "the outcomes "
        + ", ".join(f"`{o.name}` ({o.unit}: {o.description})" for o in spec.outcomes)
        + ".",
        "",
        "## Load",
        "",
        "```python",
        "import polars as pl",
        'decisions = pl.scan_parquet("data/*.parquet")',
        'episodes = pl.read_parquet("episodes.parquet")',
        "```",
        "",
        "## Provenance",
        "",
        *_provenance(manifest),
        "",
        "## Rebuild",
        "",
        "Save the `recipe` of `manifest.json` as TOML, or use the recipe of this id, with the",
        "package versions of the manifest; `hindcast build` then gives the same bytes for any",
        "number of workers, and `hindcast verify` recomputes every claim made here.",
        "",
    ]
    return "\n".join(lines)


def _behaviours(episodes: pl.DataFrame, headline: str) -> list[str]:
    table = (
        episodes.group_by("behaviour", maintain_order=True)
        .agg(
            pl.len().alias("episodes"),
            pl.col("steps").sum().alias("decisions"),
            pl.col("return").mean().alias("mean_return"),
            pl.col(headline).mean().alias("headline"),
        )
        .rows()
    )
    return [
        f"| behaviour | episodes | decisions | mean return | mean {headline} |",
        "|---|---:|---:|---:|---:|",
        *(f"| {b} | {n:,} | {d:,} | {r:.2f} | {h:.2f} |" for b, n, d, r, h in table),
    ]


def _features(title: str, features: tuple[Feature, ...]) -> list[str]:
    return [
        f"| {title} | unit | meaning |",
        "|---|---|---|",
        *(
            f"| `{f.name}` | {f.unit} | {f.description}{' (identifier)' if f.identifier else ''} |"
            for f in features
        ),
    ]


def _provenance(manifest: mf.Manifest) -> list[str]:
    provenance = manifest.provenance
    lines = [f"Workload format `{provenance['format']}`."]
    lines += [f"- `{f['name']}`: sha256 `{f['sha256']}`" for f in provenance["files"]]
    counts = {
        **provenance["counts"],
        **{f"left out, {k}": v for k, v in provenance["left_out"].items()},
    }
    lines += [f"- {name}: {count:,}" for name, count in counts.items()]
    lines += [f"- {note}" for note in provenance["notes"]]
    return lines
