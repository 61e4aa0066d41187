"""Conversion of a log of decisions to a dataset of the standard, and its check.

    recorded.parquet     a row per decision, everything in float64, also what is no transition
    censored.parquet     decisions without reward, or overridden: no transitions
    quarantine.parquet   decisions and lines that could not be used: file, line, id, reason
    data/, episodes      the transitions: a session is an episode, else every decision

A window is a unit, which is never split; windows are numbered train, validation, test. A session
ends before its first decision that is no transition. The true last observation is not known, so
the closing row repeats the last one.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

from hindcast.pipeline.building.build import BuildResult, counts_of, describe, result_of
from hindcast.pipeline.building.build import write_episodes as write_table_of_episodes
from hindcast.pipeline.building.part_writer import part_file
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.columns import episodes_schema, part_schema
from hindcast.pipeline.decisions.batch import Ints, ragged_rows
from hindcast.pipeline.decisions.encoding import Encoded, encode
from hindcast.pipeline.decisions.log import SPLITS, Caution, DecisionLog, Flags
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.record import RECORDS, write_record
from hindcast.pipeline.errors import StorageError, TraceError
from hindcast.pipeline.estimators.decisions.logged import beginnings
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import DECISIONS, ELSEWHERE
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.decisions import NAME
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage import files
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.folder import save_workload
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

_GROUP: Final = 500_000  # candidates of a row group
_PART: Final = 8  # row groups of a part
_CHARACTERS: Final = 60  # of an id


@dataclass(frozen=True)
class Episodes:
    """The transitions of a log, in episodes, ordered by window.

    Attributes:
        decisions: (T,) decision of each transition.
        episode: (T,) its episode.
        step: (T,) its place in the episode.
        table: The table of episodes without its columns of parts.
        cut: Number of sessions that end before a decision that is no transition.
    """

    decisions: Ints
    episode: Ints
    step: Ints
    table: pl.DataFrame
    cut: int


def ingest(path: Path, out: Path) -> BuildResult:
    """Read a log of decisions and write its dataset; see `read_log` for what the path can be."""
    _refuse_foreign(out)
    return convert(read_log(path), out, path.stem)


def convert(log: DecisionLog, out: Path, name: str) -> BuildResult:
    """Write the dataset of a log; raise StorageError if `out` holds something else."""
    _refuse_foreign(out)
    encoded, episodes = encode(log), episodes_of(log)
    if not len(episodes.decisions):
        outcomes = log.mapping.outcomes
        where = "" if outcomes is None else f" in {outcomes.file}"
        raise TraceError(
            f"{name}: none of the {len(log):,} decisions has a reward and its own choice; expected "
            f"at least one reward{where}"
        )
    recipe = recipe_of(log, encoded, episodes, name)
    spec = load_scenario(NAME).spec(recipe.config, recipe.objective)
    files.make_folder(out)
    (out / mf.NAME).unlink(missing_ok=True)  # from here on the folder is unfinished
    provenance = _provenance(log, episodes)
    workload = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), provenance)
    save_workload(workload, out / mf.WORKLOAD)
    tables = write_record(log, out)
    parts, table = _write_parts(log, encoded, episodes, spec, out)
    manifest = mf.Manifest(
        recipe=recipe,
        digest=recipe.digest,
        spec=spec,
        parts=parts,
        episodes=write_table_of_episodes(out, mf.EPISODES, table),
        workload_sha256=files.sha256_file(out / mf.WORKLOAD / mf.NAME),
        provenance=lineage_of(log, provenance, tables),
        counts=counts_of(parts, table),
        versions=mf.versions(),
        caveats=caveats_of(log.cautions),
    )
    describe(out, manifest, table)
    files.write_json(out / mf.NAME, mf.to_json(manifest))
    return result_of(out, manifest)


def _refuse_foreign(out: Path) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise StorageError(f"{out}: this is a file, expected a folder; choose another --out")
    known = {mf.NAME, mf.CARD, "croissant.json", "data", mf.WORKLOAD, mf.EPISODES, *RECORDS}
    there = [e.name for e in out.iterdir() if not files.is_partial(e.name)]
    if foreign := sorted(set(there) - known):
        raise StorageError(
            f"{out}: this folder is not empty and no dataset of decisions (it has "
            f"{foreign[0]!r}); choose an empty or a new folder"
        )
    if (out / mf.NAME).exists():
        source = files.read_json(out / mf.NAME).get("provenance", {}).get("format")
        if source != DECISIONS:
            raise StorageError(f"{out}: this folder holds another dataset; choose another --out")


def caveats_of(cautions: Sequence[Caution]) -> tuple[Caveat, ...]:
    """Return cautions as the caveats of a manifest, which hold finite numbers alone."""
    found = []
    for caution in cautions:
        numbers = {k: float(v) for k, v in caution.numbers.items() if isinstance(v, int | float)}
        finite = {k: v for k, v in numbers.items() if np.isfinite(v)}
        found.append(Caveat(caution.code, caution.text, finite))
    return tuple(found)


def _provenance(log: DecisionLog, episodes: Episodes) -> Provenance:
    counts = {**log.counts, "transitions": len(episodes.decisions), "cut_sessions": episodes.cut}
    return Provenance(DECISIONS, log.files, counts, {}, log.notes)


def lineage_of(
    log: DecisionLog, provenance: Provenance, tables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the provenance of a dataset: its files, its mapping, its vocabulary."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(provenance)))
    return plain | {
        "recorded": ELSEWHERE,
        "mapping": log.mapping.as_table(),
        "mapping_digest": log.mapping.digest,
        "vocabulary": {name: dict(levels) for name, levels in log.vocabulary.items()},
        "tables": dict(tables),
    }


def recipe_of(log: DecisionLog, encoded: Encoded, episodes: Episodes, name: str) -> Recipe:
    """Return the recipe of a dataset: its names, the digests of its files and its mapping."""
    windows = episodes.table.group_by("split").agg(
        pl.col("window").min().alias("first"), pl.col("window").max().alias("last")
    )
    split = {
        row["split"]: f"{row['first']}..{row['last']}"
        for row in sorted(windows.iter_rows(named=True), key=lambda r: SPLITS.index(r["split"]))
    }
    word = "".join(c if c.isalnum() or c in "-_" else "-" for c in name.lower())[:_CHARACTERS]
    table = {
        "id": f"decisions-{word.strip('-') or 'log'}", "scenario": NAME, "seed": 0,
        "config": {
            "context": encoded.context_kinds, "candidates": encoded.candidate_kinds,
            "reward_terms": encoded.terms, "scales": encoded.scales,
        },
        "trace": {"format": DECISIONS, "settings": {
            "mapping": log.mapping.digest, "files": {f.name: f.sha256 for f in log.files}}},
        "split": split, "dataset_splits": [*split], "evaluate": {"seeds": 1},
        "description": f"Decisions of a log: {len(log):,} decisions, made elsewhere.",
    }  # fmt: skip
    return parse_recipe(table, name)


def episodes_of(log: DecisionLog) -> Episodes:
    """Return the episodes of a log: sessions up to their first decision that is no transition."""
    d = log.decisions
    usable = log.weighted
    session = pl.select(pl.coalesce(d["session"], pl.lit("\x00") + d["id"])).to_series()
    number = session.rank("dense").to_numpy().astype(np.int64) - 1
    unit = log.units
    places = dict(zip(SPLITS, range(len(SPLITS)), strict=True))
    side = d["split"].replace_strict(places, return_dtype=pl.Int64).to_numpy()
    first_of_unit, first_of_session = _firsts(unit)[unit], _firsts(number)[number]
    at = np.arange(len(log))
    order = np.lexsort((at, first_of_session, first_of_unit, side))
    begins = beginnings(number[order])
    run = np.cumsum(begins) - 1
    lost: Flags = ~usable[order]
    cut = np.zeros(int(run[-1]) + 1 if len(run) else 0, bool)
    cut[run[lost]] = True
    before: Ints = np.cumsum(lost) - lost  # lost decisions before each one
    starts = np.flatnonzero(begins)
    kept = usable[order] & (before == before[starts][run])
    decisions, run = order[kept], run[kept]
    heads = np.flatnonzero(beginnings(run))
    whole = np.cumsum(beginnings(run)) - 1
    lengths = np.diff(np.concatenate([heads, [len(whole)]])).astype(np.int64)
    step = np.arange(len(whole)) - np.repeat(heads, lengths)
    windows = np.unique(
        np.stack([side[decisions], first_of_unit[decisions]], axis=1), axis=0, return_inverse=True
    )[1].reshape(-1)
    return _table(log, decisions, whole, step.astype(np.int64), heads.astype(np.int64),
                  lengths, windows, cut, run)  # fmt: skip


def _firsts(codes: Ints) -> Ints:
    """Return the place of the first item of each code."""
    found: Ints = np.unique(codes, return_index=True)[1].astype(np.int64)
    return found


def _table(
    log: DecisionLog, decisions: Ints, episode: Ints, step: Ints, heads: Ints, lengths: Ints,
    windows: Ints, cut: np.ndarray, run: Ints,
) -> Episodes:  # fmt: skip
    d = log.decisions[decisions]
    first = d[heads]
    in_session = first["session"].is_not_null().to_numpy()
    ends = log.mapping.sessions_end or log.mapping.shape == "dsjson"
    was_cut = cut[run[heads]] if len(heads) else np.zeros(0, bool)
    truncated = in_session & (was_cut | (not ends))
    reward, elapsed = d["reward"].to_numpy(), elapsed_of(d["time_s"], episode)
    totals = np.bincount(episode, reward, len(heads))
    # rewards are summed in their order, as everywhere
    table = pl.DataFrame({
        "episode": np.arange(len(heads)), "split": first["split"],
        "behaviour": first["logger"].fill_null("recorded"),
        "seed": np.zeros(len(heads), np.int64), "window": windows[heads].astype(np.int64),
        "steps": lengths, "return": totals,
        "elapsed_s": np.bincount(episode, elapsed, len(heads)), "truncated": truncated,
        "reward_sum": totals,
        "behaviour_parameters": pl.Series([[]], dtype=pl.List(pl.Float64)).new_from_index(
            0, len(heads)
        ),
    })  # fmt: skip
    seed = pl.int_range(pl.len()).over("window", "behaviour").cast(pl.Int64)
    return Episodes(decisions, episode, step, table.with_columns(seed.alias("seed")),
                    int(cut.sum() - (~in_session & was_cut).sum()))  # fmt: skip


def elapsed_of(time_s: pl.Series, episode: Ints) -> np.ndarray:
    """Return the seconds to the next decision of the same episode, 0 for the last one."""
    time = time_s.fill_null(0.0).fill_nan(0.0).to_numpy()
    later = np.concatenate([time[1:] - time[:-1], [0.0]]) if len(time) else time
    same = np.concatenate([episode[1:] == episode[:-1], [False]]) if len(time) else False
    return np.asarray(np.where(same, later, 0.0))


def _write_parts(
    log: DecisionLog, encoded: Encoded, episodes: Episodes, spec: Spec, out: Path
) -> tuple[tuple[mf.FileEntry, ...], pl.DataFrame]:
    """Write the parts; return their entries, and the table of episodes with its parts."""
    parts = list(parts_of(log, episodes))
    table = groups_of(episodes, parts, spec)
    entries: list[mf.FileEntry] = []
    for number, groups in enumerate(parts):
        path = out / "data" / f"part-{number:05}.parquet"
        path.parent.mkdir(exist_ok=True)

        def write(temporary: Path, groups: list[tuple[int, int]] = groups) -> None:
            with part_file(temporary, spec) as file:
                for begin, end in groups:
                    rows = rows_of(log, encoded, episodes, spec, begin, end)
                    file.write_table(rows, row_group_size=len(rows))

        stored = files.write_atomically(path, write)
        first, last = groups[0][0], groups[-1][1]
        rows = int(table["steps"][first:last].sum()) + last - first
        entries.append(mf.FileEntry(f"data/{path.name}", rows, stored.bytes, stored.sha256))
    for path in sorted((out / "data").glob("part-*.parquet"))[len(entries) :]:
        path.unlink()
    return tuple(entries), table


def groups_of(
    episodes: Episodes, parts: Sequence[Sequence[tuple[int, int]]], spec: Spec
) -> pl.DataFrame:
    """Return the table of episodes with the numbers of their parts."""
    part_of = np.zeros(episodes.table.height, np.int64)
    for number, groups in enumerate(parts):
        part_of[groups[0][0] : groups[-1][1]] = number
    place = pl.Series("first_part", part_of)
    return episodes.table.with_columns(place, place.alias("last_part")).select(
        list(episodes_schema(spec))
    )


def parts_of(log: DecisionLog, episodes: Episodes) -> Iterator[list[tuple[int, int]]]:
    """Yield the row groups of each part as ranges of episodes; a part holds one split."""
    sizes = np.bincount(
        episodes.episode, log.lengths[episodes.decisions], episodes.table.height
    ).cumsum()
    windows = episodes.table["window"].to_numpy()
    for split in SPLITS:
        mine = np.flatnonzero((episodes.table["split"] == split).to_numpy())
        groups: list[tuple[int, int]] = []
        at = int(mine[0]) if len(mine) else 0
        end = int(mine[-1]) + 1 if len(mine) else 0
        while at < end:
            before = sizes[at - 1] if at else 0
            stop = max(at + 1, int(np.searchsorted(sizes, before + _GROUP, side="right")))
            stop = min(stop, end)
            while stop < end and windows[stop] == windows[stop - 1]:  # a part has whole windows
                stop += 1
            groups.append((at, stop))
            at = stop
        for k in range(0, len(groups), _PART):
            yield groups[k : k + _PART]


def rows_of(
    log: DecisionLog, encoded: Encoded, episodes: Episodes, spec: Spec, begin: int, end: int
) -> pa.Table:
    """Return the rows of some episodes, with their closing rows."""
    there = (episodes.episode >= begin) & (episodes.episode < end)
    decisions, episode = episodes.decisions[there], episodes.episode[there]
    last = np.concatenate([beginnings(episode)[1:], [True]])
    take = np.repeat(np.arange(len(decisions)), 1 + last)  # the last observation twice
    closing = np.zeros(len(take), bool)
    closing[np.cumsum(1 + last)[last] - 1] = True
    rows = decisions[take]
    lengths = log.lengths[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    at = ragged_rows(log.offsets, rows)
    d = log.decisions[rows]
    elapsed = elapsed_of(log.decisions["time_s"][decisions], episode)
    ended = last & ~episodes.table["truncated"].to_numpy()[episode]
    time = d["time_s"].fill_null(0.0).fill_nan(0.0).to_numpy()

    def decided(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=closing)

    def struct(columns: Callable[[str], np.ndarray], names: list[str], **more: Any) -> pa.Array:
        if not names:
            return pa.array([{}] * len(take), pa.struct([]))
        return pa.StructArray.from_arrays(
            [pa.array(columns(n)) for n in names], names=names, **more
        )

    feasible = log.candidates["feasible"].to_numpy()[at]
    probability = log.candidates["probability"][at].fill_null(float("nan")).to_numpy()
    candidates = struct(lambda n: encoded.candidate(n, at), [f.name for f in spec.candidates])
    terms = struct(lambda n: encoded.term(n, rows), list(spec.reward_terms),
                   mask=pa.array(closing))  # fmt: skip
    columns = {
        "episode": pa.array(episode[take]),
        "step": pa.array((episodes.step[there][take] + closing).astype(np.int32)),
        "time_s": pa.array(time),
        "context": struct(lambda n: encoded.of_context(n, rows), [f.name for f in spec.context]),
        "candidates": pa.ListArray.from_arrays(pa.array(offsets), candidates),
        "feasible": pa.ListArray.from_arrays(pa.array(offsets), pa.array(feasible)),
        "choice": decided(d["chosen"].to_numpy().astype(np.int32)),
        "propensity": decided(_narrow(d["propensity"])),
        "behaviour_probabilities": pa.ListArray.from_arrays(
            pa.array(offsets), pa.array(probability.astype(np.float32)), mask=pa.array(closing)
        ),
        "reward": decided(d["reward"].fill_null(0.0).to_numpy()),
        "reward_terms": terms,
        "elapsed_s": decided(elapsed[take]),
        "terminated": decided(ended[take]),
        "truncated": decided((last & ~ended)[take]),
    }
    schema = part_schema(spec)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _narrow(values: pl.Series) -> np.ndarray:
    return values.fill_null(float("nan")).to_numpy().astype(np.float32)
