"""Conversion of a log of decisions to a dataset of the standard, and its check.

    recorded.parquet     a row per decision, everything in float64, also what is no transition
    censored.parquet     decisions without reward, or overridden: no transitions
    quarantine.parquet   decisions and lines that could not be used: file, line, id, reason
    data/, episodes      the transitions: a session is an episode, else every decision

A window is a unit, which is never split; windows are numbered train, validation, test. A session
ends before its first decision that is no transition. The true last observation is not known, so
the closing row repeats the last one. Single decisions that ended have none.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.building.part_file import part_file
from hindcast.pipeline.dataset.building.results import BuildResult, counts_of, describe, result_of
from hindcast.pipeline.dataset.building.results import write_episodes as write_table_of_episodes
from hindcast.pipeline.dataset.columns import episodes_schema, part_schema, row_count
from hindcast.pipeline.dataset.documents.card.coverage import measure
from hindcast.pipeline.dataset.lineage import Lineage, selection_caveats
from hindcast.pipeline.dataset.part import ends_alone
from hindcast.pipeline.decisions.batch import ragged_rows
from hindcast.pipeline.decisions.encoding import NUMBER, Encoded, encode
from hindcast.pipeline.decisions.log import Caution, DecisionLog
from hindcast.pipeline.decisions.reading import read_log
from hindcast.pipeline.decisions.record import RECORDS, write_record
from hindcast.pipeline.decisions.values import may_repeat
from hindcast.pipeline.errors import StorageError, TraceError
from hindcast.pipeline.estimators.decisions.logged import beginnings, unbroken
from hindcast.pipeline.recipes.loading import parse_recipe
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.splits import SPLITS
from hindcast.pipeline.recipes.workload_source import DECISIONS, ELSEWHERE
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.decisions import NAME, DecisionsConfig
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.gathering import Gathered, release
from hindcast.pipeline.workloads.caveats import Caveat
from hindcast.pipeline.workloads.folder import save_workload
from hindcast.pipeline.workloads.schema import TASK_COLUMNS, Provenance, Workload

CLOSING_ROWS: Final = False  # of single decisions
_GROUP: Final = 500_000  # candidates of a row group
_PART: Final = 64_000_000  # bytes from which on a part is full
_CHARACTERS: Final = 60  # of an id
_EPISODES: Final = 200_000  # that become rows of their table at a time
Narrow: TypeAlias = NDArray[np.int32]
Group: TypeAlias = tuple[int, int]  # first episode of a row group, and that behind its last


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

    decisions: Narrow
    episode: Narrow
    step: Narrow
    table: pl.DataFrame
    cut: int


def ingest(path: Path, out: Path) -> BuildResult:
    """Read a log of decisions and write its dataset; see `read_log` for what the path can be."""
    _refuse_foreign(out)
    return convert(read_log(path), out, path.stem)


def convert(
    log: DecisionLog,
    out: Path,
    name: str,
    lineage: Lineage | None = None,
    like: DecisionsConfig | None = None,
) -> BuildResult:
    """Write the dataset of a log; raise StorageError if `out` holds something else.

    For decisions that were selected from a log, `lineage` says how, and `like` is the config of the
    dataset that they come from.
    """
    _refuse_foreign(out)
    episodes = episodes_of(log)
    _refuse_without_transitions(log, episodes)
    encoded = encode(log, like)
    recipe = recipe_of(log, encoded, episodes, name, CLOSING_ROWS)
    scenario = load_scenario(NAME)
    spec = scenario.spec(recipe.config, recipe.objective)
    files.make_folder(out)
    (out / mf.NAME).unlink(missing_ok=True)  # from here on the folder is unfinished
    provenance = _provenance(log, episodes)
    workload = Workload(pl.DataFrame(schema=dict(TASK_COLUMNS)), provenance)
    save_workload(workload, out / mf.WORKLOAD)
    origin = lineage_of(log, provenance, write_record(log, out))
    parts, table = _write_parts(log, encoded, episodes, spec, out)
    caveats = (*caveats_of(log.cautions), *selection_caveats(lineage))
    del log, encoded, episodes  # the card takes memory of its own
    manifest = mf.Manifest(
        recipe=recipe,
        digest=mf.digest_of((recipe,), lineage),
        spec=spec,
        parts=parts,
        episodes=write_table_of_episodes(out, mf.EPISODES, table),
        workload_sha256=files.sha256_file(out / mf.WORKLOAD / mf.NAME),
        provenance=origin,
        counts=counts_of(parts, table, spec),
        versions=mf.versions(),
        caveats=caveats,
        lineage=lineage,
    )
    describe(out, manifest, scenario, table, measure(out, manifest, table))
    files.write_json(out / mf.NAME, mf.to_json(manifest))
    return result_of(out, manifest)


def _refuse_foreign(out: Path) -> None:
    """Raise StorageError if `out` holds anything but a dataset of decisions, whole or begun."""
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
        manifest = files.read_json(out / mf.NAME)
        provenance = manifest.get("provenance") if isinstance(manifest, dict) else None
        if not isinstance(provenance, dict) or provenance.get("format") != DECISIONS:
            raise StorageError(f"{out}: this folder holds another dataset; choose another --out")


def _refuse_without_transitions(log: DecisionLog, episodes: Episodes) -> None:
    """Raise TraceError if no decision has a reward and was carried out."""
    if len(episodes.decisions):
        return
    missing, overridden = log.counts["censored"], log.counts["overridden"]
    outcomes = log.mapping.outcomes
    where = "a file of outcomes in [outcomes]" if outcomes is None else outcomes.file
    cut = "; a session ends before its first such decision" if log.weighted.any() else ""
    raise TraceError(
        f"none of the {len(log):,} decisions can be used: {missing:,} have no reward, "
        f"{overridden:,} were overridden{cut}; expected a reward in columns.reward or "
        f"columns.cost, or in {where}"
    )


def caveats_of(cautions: Sequence[Caution]) -> tuple[Caveat, ...]:
    """Return cautions as the caveats of a manifest, which hold finite numbers alone."""
    found = []
    for caution in cautions:
        numbers = {k: float(v) for k, v in caution.numbers.items() if isinstance(v, int | float)}
        finite = {k: v for k, v in numbers.items() if np.isfinite(v)}
        found.append(Caveat(caution.code, caution.text, finite))
    return tuple(found)


def _provenance(log: DecisionLog, episodes: Episodes) -> Provenance:
    counts = {**log.counts, "transitions": len(episodes.decisions)}
    if log.decisions["session"].null_count() < len(log):
        counts["cut_sessions"] = episodes.cut
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


def recipe_of(
    log: DecisionLog, encoded: Encoded, episodes: Episodes, name: str, closing_rows: bool
) -> Recipe:
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
            "closing_rows": closing_rows,
        },
        "trace": {"format": DECISIONS, "settings": {
            "mapping": log.mapping.digest, "files": {f.name: f.sha256 for f in log.files}}},
        "split": split, "dataset_splits": [*split], "evaluate": {"seeds": 1},
        "description": f"Decisions of a log: {len(log):,} decisions, made elsewhere.",
    }  # fmt: skip
    return parse_recipe(table, name)


def episodes_of(log: DecisionLog) -> Episodes:
    """Return the episodes of a log: sessions up to their first decision that is no transition."""
    release()
    d = log.decisions
    usable = log.weighted
    unit = session = _firsts(d["unit_id"])
    if d["session"].null_count() < len(log):
        session = _firsts(
            pl.select(pl.coalesce(d["session"], pl.lit("\x00") + d["id"])).to_series()
        )
    elif d["unit"].null_count() < len(log):
        session = np.arange(len(log), dtype=np.int32)
    places = dict(zip(SPLITS, range(len(SPLITS)), strict=True))
    side = d["split"].replace_strict(places, return_dtype=pl.Int8).to_numpy()
    order = np.lexsort((session, unit, side)).astype(np.int32)  # a session keeps its order
    run = _numbers_of(beginnings(session[order]))
    cut = np.zeros(int(run[-1]) + 1 if len(run) else 0, bool)
    cut[run[~usable[order]]] = True
    kept = unbroken(session[order], usable[order])
    decisions, run = order[kept], run[kept]
    del order, session
    begins = beginnings(run)
    heads = np.flatnonzero(begins).astype(np.int32)
    whole = _numbers_of(begins)
    step = np.arange(len(whole), dtype=np.int32) - heads[whole]
    # units are ordered by their first decision, so those of a window follow each other
    first, sides = unit[decisions[heads]], side[decisions[heads]]
    window = _numbers_of(beginnings(first) | beginnings(sides))
    was_cut = cut[run[heads]]
    del unit, side, run, begins, first, sides
    table = _table(log, decisions, whole, heads, window, was_cut)
    alone = log.decisions["session"].is_null().to_numpy()[decisions[heads]]
    return Episodes(decisions, whole, step, table, int(cut.sum() - (alone & was_cut).sum()))


def _firsts(names: pl.Series) -> Narrow:
    """Return the place of the first item with the name of each one."""
    at = np.arange(len(names), dtype=np.int32)
    if not may_repeat(names):
        return at
    first = pl.col("place").first().over("name")
    return pl.DataFrame({"name": names, "place": at}).select(first)["place"].to_numpy()


def _numbers_of(begins: np.ndarray) -> Narrow:
    """Return the number of each item's run, from 0; `begins` says where runs begin."""
    return np.cumsum(begins, dtype=np.int32) - np.int32(1)


def _table(
    log: DecisionLog, decisions: Narrow, episode: Narrow, heads: Narrow, window: Narrow,
    was_cut: np.ndarray,
) -> pl.DataFrame:  # fmt: skip
    """Return the table of episodes, whose columns lie in a file if there are many."""
    d, count = log.decisions, len(heads)
    logger = pl.col("logger").fill_null("recorded").alias("behaviour")
    ends = log.mapping.sessions_end or log.mapping.shape == "dsjson"
    # rewards are summed in their order, as everywhere
    totals = np.bincount(episode, d["reward"][decisions].to_numpy(), count)
    elapsed = np.bincount(episode, elapsed_of(d["time_s"][decisions], episode), count)
    steps = np.bincount(episode, minlength=count)
    seed = np.zeros(count, np.int32)
    if not beginnings(window).all():
        seed = _repetition(window, d["logger"][decisions[heads]])
    found = Gathered(None, count)
    for begin in range(0, count, _EPISODES):
        of = slice(begin, begin + _EPISODES)
        first = d.select("session", "split", "logger")[decisions[heads[of]]].with_columns(logger)
        in_session = first["session"].is_not_null().to_numpy()
        found.add(pl.DataFrame({
            "episode": np.arange(*of.indices(count)), "split": first["split"],
            "behaviour": first["behaviour"],
            "seed": seed[of].astype(np.int64), "window": window[of].astype(np.int64),
            "steps": steps[of], "return": totals[of], "elapsed_s": elapsed[of],
            "truncated": in_session & (was_cut[of] | (not ends)), "reward_sum": totals[of],
        }), len(in_session))  # fmt: skip
        release()
    return found.frame()


def _repetition(window: Narrow, behaviour: pl.Series) -> Narrow:
    """Return the number of earlier episodes of the same behaviour on the same window."""
    code = behaviour.fill_null("recorded").cast(pl.Categorical).to_physical().to_numpy()
    order = np.lexsort((code, window))
    begins = beginnings(window[order]) | beginnings(code[order])
    heads = np.flatnonzero(begins)
    found = np.empty(len(window), np.int32)
    found[order] = np.arange(len(window)) - heads[np.cumsum(begins) - 1]
    return found


def elapsed_of(time_s: pl.Series, episode: Narrow) -> np.ndarray:
    """Return the seconds to the next decision of the same episode, 0 for the last one."""
    time = time_s.fill_null(0.0).fill_nan(0.0).to_numpy()
    later = np.concatenate([time[1:] - time[:-1], [0.0]]) if len(time) else time
    same = np.concatenate([episode[1:] == episode[:-1], [False]]) if len(time) else False
    return np.asarray(np.where(same, later, 0.0))


def _write_parts(
    log: DecisionLog, encoded: Encoded, episodes: Episodes, spec: Spec, out: Path
) -> tuple[tuple[mf.FileEntry, ...], pl.DataFrame]:
    """Write the parts; return their entries, and the table of episodes with its parts."""
    (out / "data").mkdir(exist_ok=True)
    sides = {"context": encoded.context_kinds, "candidates.list.element": encoded.candidate_kinds}
    few_valued = ["choice", "elapsed_s"] + [
        f"{side}.{name}" for side, kinds in sides.items() for name, kind in kinds.items()
        if kind != NUMBER
    ]  # fmt: skip
    parts: list[list[Group]] = []
    entries: list[mf.FileEntry] = []
    for groups in map(deque, groups_of(log, episodes)):
        while groups:
            path = out / "data" / f"part-{len(parts):05}.parquet"
            parts.append([])

            def write(temporary: Path, left: deque[Group] = groups) -> None:
                with part_file(temporary, spec, few_valued=few_valued, level=1) as file:
                    while left and file.file_handle.tell() < _PART:
                        parts[-1].append(left.popleft())
                        rows = rows_of(log, encoded, episodes, spec, *parts[-1][-1])
                        file.write_table(rows, row_group_size=len(rows))
                        del rows
                        release()

            stored = files.write_atomically(path, write)
            mine = episodes.table[parts[-1][0][0] : parts[-1][-1][1]]
            rows = row_count(mine, spec)
            entries.append(mf.FileEntry(f"data/{path.name}", rows, stored.bytes, stored.sha256))
    for path in sorted((out / "data").glob("part-*.parquet"))[len(entries) :]:
        path.unlink()
    return tuple(entries), in_parts(episodes, parts, spec)


def in_parts(episodes: Episodes, parts: Sequence[Sequence[Group]], spec: Spec) -> pl.DataFrame:
    """Return the table of episodes with the numbers of their parts."""
    part_of = np.zeros(episodes.table.height, np.int64)
    for number, groups in enumerate(parts):
        part_of[groups[0][0] : groups[-1][1]] = number
    place = pl.Series("first_part", part_of)
    none = pl.Series("behaviour_parameters", [[]], dtype=pl.List(pl.Float64))
    none = none.new_from_index(0, episodes.table.height)
    return episodes.table.with_columns(none, place, place.alias("last_part")).select(
        list(episodes_schema(spec))
    )


def groups_of(log: DecisionLog, episodes: Episodes) -> Iterator[list[Group]]:
    """Yield the row groups of each split; one has whole windows and a part one split."""
    sizes = np.bincount(
        episodes.episode, log.lengths[episodes.decisions], episodes.table.height
    ).cumsum()
    windows = episodes.table["window"].to_numpy()
    for split in SPLITS:
        mine = np.flatnonzero((episodes.table["split"] == split).to_numpy())
        groups: list[Group] = []
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
        yield groups


def rows_of(
    log: DecisionLog, encoded: Encoded, episodes: Episodes, spec: Spec, begin: int, end: int
) -> pa.Table:
    """Return the rows of some episodes, with the closing rows that the spec asks for."""
    there = slice(*np.searchsorted(episodes.episode, (begin, end)))
    decisions, episode = episodes.decisions[there], episodes.episode[there]
    last = np.concatenate([beginnings(episode)[1:], [True]])
    ended = last & ~episodes.table["truncated"].to_numpy()[episode]
    closed = last & ~ends_alone(episodes.step[there], ended, spec)
    take = np.repeat(np.arange(len(decisions)), 1 + closed)  # the last observation twice
    closing = np.zeros(len(take), bool)
    closing[np.cumsum(1 + closed)[closed] - 1] = True
    rows = decisions[take]
    offsets = np.concatenate([[0], np.cumsum(log.lengths[rows])]).astype(np.int32)
    at = ragged_rows(log.offsets, rows)
    d = log.decisions.select("chosen", "propensity", "reward", "time_s")[rows]
    elapsed = elapsed_of(log.decisions["time_s"][decisions], episode)

    def arrow(values: Any) -> pa.Array:
        return pl.Series(values).to_arrow()  # pa.array would import pandas

    mask = arrow(closing) if closed.any() else None

    def decided(values: Any) -> pa.Array:
        there = pl.when(~pl.Series(closing)).then(pl.Series(values))
        return arrow(values if mask is None else pl.select(there).to_series())

    def struct(columns: Callable[[str], np.ndarray], names: list[str], **more: Any) -> pa.Array:
        if not names:
            return pa.array([{}] * len(take), pa.struct([]))
        return pa.StructArray.from_arrays([arrow(columns(n)) for n in names], names=names, **more)

    def lists(values: pa.Array, **more: Any) -> pa.Array:
        return pa.ListArray.from_arrays(arrow(offsets), values, **more)

    columns = {
        "episode": arrow(episode[take].astype(np.int64)),
        "step": arrow((episodes.step[there][take] + closing).astype(np.int32)),
        "time_s": arrow(d["time_s"].fill_null(0.0).fill_nan(0.0)),
        "context": struct(lambda n: encoded.of_context(n, rows), [f.name for f in spec.context]),
        "candidates": lists(
            struct(lambda n: encoded.candidate(n, at), [f.name for f in spec.candidates])
        ),
        "feasible": lists(arrow(log.candidates["feasible"][at])),
        "choice": decided(d["chosen"].cast(pl.Int32)),
        "propensity": decided(_narrow(d["propensity"])),
        "behaviour_probabilities": lists(
            arrow(_narrow(log.candidates["probability"][at])), mask=mask
        ),
        "reward": decided(d["reward"].fill_null(0.0)),
        "reward_terms": struct(lambda n: encoded.term(n, rows), list(spec.reward_terms),
                               mask=mask),
        "elapsed_s": decided(elapsed[take]),
        "terminated": decided(ended[take]),
        "truncated": decided((last & ~ended)[take]),
    }  # fmt: skip
    schema = part_schema(spec)
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


def _narrow(values: pl.Series) -> pl.Series:
    return values.cast(pl.Float32).fill_null(float("nan"))
