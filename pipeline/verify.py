"""Verification: every claim of a dataset recomputed, down to each decision in the simulator.

- manifest: readable, its recipe has the digest that it claims, its spec is the scenario's;
- files: all there, none too many in data/, sizes and SHA-256 as claimed;
- workload: its own manifest and SHA-256;
- episodes: counts; every episode once, in order, in the parts that it claims;
- decisions: the recorded choices are replayed: observations, masks, rewards, terms, times and ends
  must be what the simulator gives; the choice is feasible; probabilities sum to 1 and the
  propensity is the choice's, above 0. What was recorded elsewhere cannot be replayed: the file it
  came from is converted again and compared;
- behaviours: where their rules are given, the probabilities are the rules';
- returns: stored return == sum of rewards == the replay's; outcomes and values likewise.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pipeline import manifest as mf
from pipeline.build import DATA, episodes_schema, make_instance
from pipeline.dataset import Dataset, open_dataset
from pipeline.environment import ObservationBuffers
from pipeline.errors import DatasetError, InputError, VerificationFailed
from pipeline.history.dataset import ELSEWHERE, check_recorded
from pipeline.ingest import load_workload
from pipeline.kernel import RUNNING, TERMINATED, TERMS, TRUNCATED
from pipeline.parts import Block
from pipeline.policy import Behaviour, Heuristic
from pipeline.record import NO_CHOICE
from pipeline.replay import FAULTS, FINE, no_score, replay
from pipeline.rollout import values_of
from pipeline.scenario import Scenario, load_scenario
from pipeline.storage import sha256_file
from pipeline.workload import Workload

_THREADS: Final = 2


@dataclass(frozen=True)
class VerifyResult:
    """The checks that were made, with what each saw."""

    checks: list[tuple[str, str]]


def verify(
    folder: Path,
    behaviours: Mapping[str, Behaviour] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifyResult:
    """Check a dataset; raises VerificationFailed with the first claim that does not hold.

    `behaviours`, by the names of the recipe, let the logged probabilities be recomputed too.
    Raises DatasetError where the folder is no dataset at all.
    """
    manifest = mf.read_manifest(folder)
    checks = [_check_manifest(folder, manifest), _check_files(folder, manifest)]
    try:
        dataset = open_dataset(folder)
        workload = load_workload(folder / mf.WORKLOAD)
    except DatasetError as error:
        raise VerificationFailed(str(error)) from error
    if sha256_file(folder / mf.WORKLOAD / mf.NAME) != manifest.workload_sha256:
        raise VerificationFailed(f"{folder / mf.WORKLOAD}: is not the workload of the manifest")
    checks.append(("workload", f"{workload.tasks.height:,} tasks"))
    checks.append(_check_episodes(dataset))
    if manifest.provenance.get("recorded") == ELSEWHERE:
        checks.append(check_recorded(dataset))
    else:
        checks += _check_decisions(dataset, workload, behaviours or {}, progress)
    return VerifyResult(checks)


def _check_manifest(folder: Path, manifest: mf.Manifest) -> tuple[str, str]:
    recipe = manifest.recipe
    if recipe.digest != manifest.digest:
        raise VerificationFailed(
            f"{folder / mf.NAME}: digest {manifest.digest[:12]} is not that of its recipe, "
            f"{recipe.digest[:12]}"
        )
    spec = load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    if spec != manifest.spec:
        raise VerificationFailed(f"{folder / mf.NAME}: spec is not that of its scenario")
    return "manifest", f"recipe {recipe.id}, digest {manifest.digest[:12]}"


def _check_files(folder: Path, manifest: mf.Manifest) -> tuple[str, str]:
    entries = [*manifest.parts, manifest.episodes]
    for entry in entries:
        path = folder / entry.path
        if path.is_symlink() or not path.is_file():
            raise VerificationFailed(f"{path}: is missing")
        if path.stat().st_size != entry.bytes:
            raise VerificationFailed(
                f"{path}: has {path.stat().st_size} bytes, the manifest says {entry.bytes}"
            )
        if (digest := sha256_file(path)) != entry.sha256:
            raise VerificationFailed(
                f"{path}: SHA-256 is {digest[:12]}..., the manifest says {entry.sha256[:12]}..."
            )
    known = {entry.path for entry in manifest.parts}
    for path in sorted((folder / DATA).iterdir()):
        if f"{DATA}/{path.name}" not in known:
            raise VerificationFailed(f"{path}: is not in the manifest")
    return "files", f"{len(entries)} files, {sum(e.bytes for e in entries):,} bytes"


def _check_episodes(dataset: Dataset) -> tuple[str, str]:
    manifest, episodes, recipe = dataset.manifest, dataset.episodes, dataset.recipe
    where = dataset.folder / mf.EPISODES
    if dict(episodes.schema) != episodes_schema(dataset.spec):
        raise VerificationFailed(f"{where}: columns differ from the spec")
    expected = [
        (split, behaviour.name, seed, window)
        for split in recipe.dataset_splits
        for window in recipe.windows(split)
        for behaviour in recipe.behaviours
        for seed in range(behaviour.episodes)
    ]
    found = episodes.select("split", "behaviour", "seed", "window").rows()
    if found != expected or episodes["episode"].to_list() != list(range(len(expected))):
        raise VerificationFailed(f"{where}: episodes are not those of the recipe")
    counts = {
        "episodes": episodes.height,
        "decisions": int(episodes["steps"].sum()),
        "rows": int(episodes["steps"].sum()) + episodes.height,
        "windows": episodes["window"].n_unique(),
        "truncated_episodes": int(episodes["truncated"].sum()),
    }
    if dict(manifest.counts) != counts:
        raise VerificationFailed(
            f"{where}: counts are {counts}, the manifest says {dict(manifest.counts)}"
        )
    return "episodes", f"{counts['episodes']:,} episodes, {counts['decisions']:,} decisions"


def _check_decisions(
    dataset: Dataset,
    workload: Workload,
    behaviours: Mapping[str, Behaviour],
    progress: Callable[[int, int], None] | None,
) -> list[tuple[str, str]]:
    scenario = load_scenario(dataset.recipe.scenario)
    parts = range(len(dataset.manifest.parts))

    def check(part: int) -> int:
        return _PartCheck(dataset, scenario, workload, behaviours, part).run()

    recomputed = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for done, n in enumerate(pool.map(check, parts), start=1):
            recomputed += n
            if progress is not None:
                progress(done, len(parts))
    decisions = dataset.manifest.counts["decisions"]
    return [
        ("decisions", f"{decisions:,} replayed in the simulator"),
        ("behaviours", f"probabilities of {recomputed:,} decisions recomputed"),
        ("returns", f"{dataset.episodes.height:,} returns and outcomes"),
    ]


class _PartCheck:
    """Replays the episodes of one part against what it says."""

    def __init__(
        self,
        dataset: Dataset,
        scenario: Scenario,
        workload: Workload,
        behaviours: Mapping[str, Behaviour],
        part: int,
    ) -> None:
        self._dataset, self._scenario, self._workload = dataset, scenario, workload
        self._behaviours, self._part = behaviours, part
        self._entry = dataset.manifest.parts[part]
        self._path = dataset.folder / self._entry.path
        episodes = dataset.episodes
        self._rows = episodes.filter(episodes["first_part"] == part).rows(named=True)
        self._next = 0  # index into _rows of the episode that is due
        self._row: dict[str, Any] | None = None  # of the episode that is being replayed
        self._recomputed = 0
        self._instance: tuple[int, Any] = (-1, None)

    def run(self) -> int:
        """Check the part; the number of decisions whose probabilities were recomputed."""
        rows = 0
        try:
            for block in self._dataset.blocks(self._part):
                self._check(block)
                rows += len(block)
        except (InputError, ValueError, IndexError) as error:
            raise VerificationFailed(f"{self._path}: {error}") from error
        if rows != self._entry.rows:
            raise VerificationFailed(
                f"{self._path}: {rows} rows, the manifest says {self._entry.rows}"
            )
        if self._row is not None or self._next != len(self._rows):
            raise VerificationFailed(f"{self._path}: episodes are missing")
        return self._recomputed

    def _check(self, block: Block) -> None:
        at = 0
        while at < len(block):
            if self._row is None:
                self._begin(int(block.episode[at]))
            at = self._replay(block, at)

    def _begin(self, episode: int) -> None:
        if self._next >= len(self._rows) or self._rows[self._next]["episode"] != episode:
            raise VerificationFailed(f"{self._path}: episode {episode} is not due here")
        self._row = self._rows[self._next]
        self._next += 1
        window = int(self._row["window"])
        if self._instance[0] != window:
            instance = make_instance(self._dataset.recipe, self._scenario, self._workload, window)
            self._instance = (window, instance)
        instance = self._instance[1]
        spec = self._dataset.spec
        self._ints, self._floats = instance.ints.copy(), instance.floats.copy()
        self._buffers = ObservationBuffers(spec, instance.capacity)
        self._scratch = np.empty(instance.capacity), np.empty(instance.capacity)
        self._booked = np.zeros(TERMS + len(spec.reward_terms))
        self._step = 0
        self._values: list[NDArray[np.float64]] = []
        self._total = 0.0
        self._status = RUNNING

    def _replay(self, block: Block, at: int) -> int:
        """Replay the episode at row `at` as far as the block has it; the row after it."""
        row = self._row
        assert row is not None
        behaviour = self._behaviours.get(row["behaviour"])
        compiled = behaviour is not None and isinstance(behaviour.policy, Heuristic)
        score = behaviour.policy.score if compiled else no_score  # type: ignore[union-attr]
        stop = at
        while stop < len(block) and block.episode[stop] == row["episode"]:
            stop += 1
        self._check_order(block, at, stop, row["episode"])
        state = np.array([float(self._status), self._total])
        fault, bad = replay(
            self._scenario.observe, self._scenario.step, score, self._ints, self._floats,
            np.array(row["behaviour_parameters"], np.float64),
            behaviour.temperature if compiled else 0.0,  # type: ignore[union-attr]
            behaviour.epsilon if compiled else 0.0,  # type: ignore[union-attr]
            compiled, *self._buffers.arrays, *self._scratch, self._booked, state, at, stop,
            block.offsets, block.candidates, block.feasible, block.probabilities, block.context,
            block.time_s, block.choice, block.propensity, block.reward, block.elapsed_s,
            block.terms, block.terminated, block.truncated,
            block.image if block.image is not None else np.zeros((len(block), 0), np.uint8),
        )  # fmt: skip
        if fault != FINE:
            raise VerificationFailed(
                f"{self._path}: episode {row['episode']}, step {block.step[bad]}: {FAULTS[fault]}"
            )
        self._status, self._total = int(state[0]), float(state[1])
        self._step += stop - at
        if block.value is not None:
            self._values.append(block.value[at:stop][block.choice[at:stop] != NO_CHOICE])
        if compiled:
            self._recomputed += int((block.choice[at:stop] != NO_CHOICE).sum())
        if block.choice[stop - 1] == NO_CHOICE:
            self._end(row)
            self._check_values(row["episode"])
            self._row = None
        return stop

    def _check_order(self, block: Block, at: int, stop: int, episode: int) -> None:
        """Steps count up; only the last row of an episode is a closing row."""
        steps: NDArray[np.int64] = np.arange(self._step, self._step + stop - at)
        closing = block.choice[at:stop] == NO_CHOICE
        if stop == at or closing[:-1].any() or not np.array_equal(block.step[at:stop], steps):
            raise VerificationFailed(
                f"{self._path}: the rows of episode {episode} are out of order"
            )

    def _check_values(self, episode: int) -> None:
        """Monte-Carlo values are those of the episode's end."""
        if not self._dataset.spec.valued:
            return
        values = values_of(self._scenario, self._ints, self._floats, self._step - 1)
        if not np.array_equal(np.concatenate(self._values), values):
            raise VerificationFailed(
                f"{self._path}: episode {episode}: a monte_carlo_value differs from the simulator's"
            )

    def _end(self, row: dict[str, Any]) -> None:
        """Compare what the episode came to with episodes.parquet."""
        spec = self._dataset.spec
        outcomes = np.zeros(len(spec.outcomes))
        self._scenario.outcome(self._ints, self._floats, outcomes)
        claims: dict[str, Any] = {
            "steps": self._step - 1,
            "return": self._total,
            "truncated": self._status == TRUNCATED,
            **{o.name: float(v) for o, v in zip(spec.outcomes, outcomes, strict=True)},
        }
        if self._status not in {TERMINATED, TRUNCATED}:
            raise VerificationFailed(f"{self._path}: episode {row['episode']} ends too early")
        for name, value in claims.items():
            if row[name] != value:
                raise VerificationFailed(
                    f"{self._dataset.folder / mf.EPISODES}: episode {row['episode']}: {name} is "
                    f"{row[name]}, the simulator gives {value}"
                )
