"""Verification: every claim of a dataset is recomputed, down to each decision in the simulator.

- manifest: readable; its recipe has the digest that it claims; its spec is the scenario's, except
  for outcomes that were added to the scenario later: those are named, and the others verified;
- files: all there, no others in data/, sizes and SHA-256 as claimed;
- workload: its own manifest and SHA-256; a synthetic one is generated again, one of a raw trace is
  read again if the trace is at hand;
- episodes: counts; every episode once, in order, in the parts that it claims; of a selection, each
  is one that the recipes make; with its parents, which others were left out;
- decisions: the recorded choices are replayed: observations, masks, rewards, terms, times and ends
  must be those of the simulator; the choice is feasible; probabilities sum to 1, and the propensity
  is the choice's, above 0. Decisions recorded elsewhere cannot be replayed: the file that they came
  from is converted again and compared;
- behaviours: if their policies are given, the probabilities are those of the policies;
- draws: the parameters of these policies and every choice are drawn again from the recipe's seed;
- returns: stored return == sum of rewards == the replay's; outcomes and values likewise;
- seal: the manifest is, byte for byte, the text that these claims are written as;
- documents: card and Croissant metadata are those that the manifest and the data give;
- not compared: everything of the above that could not be checked, and what no check can find.

Everything is checked before compiled code or a large allocation depends on it: a dataset may be
foreign.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.dataset import Dataset
from hindcast.pipeline.dataset import manifest as mf
from hindcast.pipeline.dataset.append_history import check_appended
from hindcast.pipeline.dataset.building.build import append_in_progress
from hindcast.pipeline.dataset.columns import NO_CHOICE
from hindcast.pipeline.dataset.lineage import SELECTED, selection_caveats
from hindcast.pipeline.dataset.part import Block
from hindcast.pipeline.dataset.verification import replay as replays
from hindcast.pipeline.dataset.verification.documents import check_documents, of_publication
from hindcast.pipeline.dataset.verification.episodes import check_episodes
from hindcast.pipeline.dataset.verification.files import check_files
from hindcast.pipeline.dataset.verification.replayed import Elsewhere, Replayed
from hindcast.pipeline.dataset.verification.workload import (
    check_recorded,
    check_source,
    check_workload,
)
from hindcast.pipeline.errors import (
    DatasetError,
    HindcastError,
    InputError,
    RecipeError,
    StorageError,
    VerificationFailed,
)
from hindcast.pipeline.recipes.problem import make_instance
from hindcast.pipeline.recipes.recipe import Recipe
from hindcast.pipeline.recipes.workload_source import DECISIONS
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.simulation.arrays import begin_episode, make_step_arrays
from hindcast.pipeline.simulation.draws import draws_of
from hindcast.pipeline.simulation.functions import cell
from hindcast.pipeline.simulation.kernel import RUNNING, TERMINATED, TRUNCATED
from hindcast.pipeline.simulation.players import EpisodeRunner, EpisodeTrace, episode_runner
from hindcast.pipeline.simulation.policy import (
    NO_PARAMETERS,
    Behaviour,
    Drawing,
    Heuristic,
    no_score,
)
from hindcast.pipeline.simulation.rollout import values_of
from hindcast.pipeline.simulation.scenario import Instance, Scenario
from hindcast.pipeline.simulation.seeds import generator
from hindcast.pipeline.simulation.spec import Spec, added_outcomes
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.pipeline.workloads.schema import Workload

_DRAWING: Final = ("numpy", "numba")  # packages whose versions decide what is drawn
_BEYOND: Final = "names and texts of the recipe, its other sections, and package versions"
_LARGEST_SETTING: Final = 10_000_000  # of a number in recipe.config


@dataclass(frozen=True)
class VerifyResult:
    """The checks that were made.

    Attributes:
        checks: Pairs of the name of a check and its result in words.
    """

    checks: list[tuple[str, str]]


def verify(
    folder: Path,
    behaviours: Mapping[str, Behaviour] | None = None,
    progress: Callable[[int, int], None] | None = None,
    *,
    workers: int = 2,
    quick: bool = False,
    trace: Path | None = None,
    elsewhere: Elsewhere | None = None,
    parents: Callable[[Dataset], tuple[str, str]] | None = None,
) -> VerifyResult:
    """Check a dataset; raise VerificationFailed for the first claim that does not hold.

    With `behaviours`, by the names of the recipe, the logged probabilities are recomputed too, and
    every choice is drawn again. `quick` draws nothing again and compares the workload with nothing
    outside of its folder. `trace` is the raw trace, where it is not below $HINDCAST_TRACES. The
    result does not depend on the number of `workers`, which are threads, nor on whether parts are
    replayed `elsewhere`. `parents` is the check of a dataset against those that it was made of.

    Raises DatasetError if the folder is not a dataset, or `trace` is not its trace.
    """
    if workers < 1:
        raise RecipeError(f"workers is {workers}, expected at least 1")
    manifest = mf.read_manifest(folder)
    missing: list[str] = []
    checks = [*_check_manifest(folder, manifest, missing), check_files(folder, manifest)]
    try:
        dataset = ds.open(folder)
        workload = load_workload(folder / mf.WORKLOAD)
    except DatasetError as error:
        raise VerificationFailed(str(error)) from error
    check_workload(dataset, workload)
    text = f"{workload.tasks.height:,} tasks"
    if quick:
        missing.append("draws and the source of the workload (--quick)")
    else:
        source, without = check_source(dataset, workload, trace)
        text = f"{text}, {source}"
        missing += [without] if without else []
    checks.append(("workload", text))
    if manifest.recipe.trace.format != DECISIONS:
        checks.append(check_episodes(dataset))
    if recorded := check_recorded(dataset, trace):
        checks.append(recorded[0])
        missing.append(recorded[1])
    else:
        drawn = Drawn(dataset, workload, behaviours or {}, quick=quick)
        found, without_policy = _check_decisions(drawn, workers, progress, elsewhere)
        checks += found
        missing += without_policy
    if parents is not None:
        checks.append(parents(dataset))
    elif manifest.lineage is not None:
        missing.append(f"whether {manifest.lineage.words} gives these episodes (--parent)")
    if not mf.is_sealed(folder, manifest):
        raise VerificationFailed(
            f"{folder / mf.NAME}: this manifest was changed since it was written"
        )
    if append_in_progress(folder) is None:  # an append writes them again at its end
        try:
            checks.append(check_documents(folder, manifest, dataset.episodes()))
        except DatasetError as error:
            raise VerificationFailed(str(error)) from error
    else:
        missing.append("card and Croissant metadata, which the append in progress writes again")
    missing += [*of_publication(folder), _BEYOND]
    return VerifyResult([*checks, ("not compared", "; ".join(missing))])


def _check_manifest(
    folder: Path, manifest: mf.Manifest, missing: list[str]
) -> list[tuple[str, str]]:
    """Return the checks of the manifest alone; add what was not compared to `missing`."""
    recipe = manifest.recipe
    if (digest := mf.digest_of(manifest.recipes, manifest.lineage)) != manifest.digest:
        raise VerificationFailed(
            f"{folder / mf.NAME}: the digest is {manifest.digest[:12]}, but the recipes have "
            f"{digest[:12]}"
        )
    named = tuple(caveat for caveat in manifest.caveats if caveat.code == SELECTED)
    if named != selection_caveats(manifest.lineage):
        raise VerificationFailed(
            f"{folder / mf.NAME}: the caveats do not name the selection of its lineage"
        )
    try:
        check_appended(manifest, str(folder / mf.NAME))
    except InputError as error:
        raise VerificationFailed(str(error)) from error
    spec = _spec_of(recipe, folder / mf.NAME)
    added = added_outcomes(manifest.spec, spec)
    if added is None:
        raise VerificationFailed(
            f"{folder / mf.NAME}: the spec differs from that of the scenario {recipe.scenario}"
        )
    checks = [("manifest", f"recipe {recipe.id}, digest {manifest.digest[:12]}")]
    if not added and mf.spec_to_json(spec) != mf.spec_to_json(manifest.spec):
        if manifest.versions == mf.versions():
            raise VerificationFailed(
                f"{folder / mf.NAME}: the spec differs from that of the scenario {recipe.scenario} "
                "in its descriptions"
            )
        missing.append("descriptions of the spec, which other versions of packages wrote")
    if added:
        newer = ", ".join(added)
        checks.append(
            ("outcomes", f"not in the dataset, which is older than these outcomes: {newer}")
        )
    return checks


def _spec_of(recipe: Recipe, path: Path) -> Spec:
    """Return the spec of a recipe; refuse settings too large to be simulated."""
    numbers: list[Any] = [asdict(recipe.config)]
    while numbers:
        value = numbers.pop()
        if isinstance(value, dict | list | tuple):
            numbers.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int | float) and not abs(value) <= _LARGEST_SETTING:
            raise VerificationFailed(
                f"{path}: recipe.config holds {str(value)[:40]}, expected numbers up to "
                f"{_LARGEST_SETTING}"
            )
    try:
        return load_scenario(recipe.scenario).spec(recipe.config, recipe.objective)
    except (InputError, ArithmeticError, LookupError, ValueError) as error:
        raise VerificationFailed(f"{path}: recipe.config cannot be used ({error})") from error


@dataclass(frozen=True)
class Drawn:
    """Dataset of a part that is checked, with its workload and behaviours.

    Attributes:
        dataset: The dataset.
        workload: Its workload.
        behaviours: The behaviours that are known here, by name.
        quick: Whether nothing is drawn again.
    """

    dataset: Dataset
    workload: Workload
    behaviours: Mapping[str, Behaviour]
    quick: bool

    def versions(self, episode: int) -> dict[str, str]:
        """Return the packages that decide draws, if an episode was written by other versions.

        Draws of numpy may differ between its versions. An episode of a dataset that was made of
        others may be of any of them.
        """
        manifest, now = self.dataset.manifest, mf.versions()
        written = [manifest.versions]
        for segment in manifest.appended:
            if episode >= segment.first_episode:
                written = [segment.versions]
        if manifest.lineage is not None:
            written = [*manifest.lineage.versions]
        return {
            name: str(one.get(name)) for one in written for name in _DRAWING
            if one.get(name) != now[name]
        }  # fmt: skip


def _check_decisions(
    drawn: Drawn,
    workers: int,
    progress: Callable[[int, int], None] | None,
    elsewhere: Elsewhere | None,
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the checks of all parts, and what was not compared."""
    dataset = drawn.dataset
    parts, done = range(len(dataset.manifest.parts)), 0

    def tell(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, len(parts))

    found = (elsewhere or partial(_replay_here, drawn, workers))(parts, tell)
    decisions, episodes = dataset.manifest.counts["decisions"], dataset.episodes()
    checks = [
        ("decisions", f"{decisions:,} replayed in the simulator"),
        ("behaviours", f"probabilities of {found.recomputed:,} decisions recomputed"),
        ("returns", f"{episodes.height:,} returns and outcomes"),
    ]
    names = episodes["behaviour"].unique(maintain_order=True).to_list()
    unknown = [name for name in names if name not in drawn.behaviours]
    missing = []
    if not drawn.quick:
        known = episodes.filter(episodes["behaviour"].is_in([*drawn.behaviours])).height
        text = f"{known - found.unequal:,} episodes drawn again from the recipe's seed"
        checks.insert(2, ("draws", text))
    if found.unequal:
        missing.append(f"the draws of {found.unequal:,} episodes ({found.reason})")
    if unknown:
        shown = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
        missing.append(f"probabilities and draws of behaviours that are not known here ({shown})")
    return checks, missing


def _replay_here(
    drawn: Drawn, workers: int, parts: Sequence[int], tell: Callable[[int], None]
) -> Replayed:
    """Replay parts in threads of this process."""
    found = Replayed()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for one in pool.map(partial(replay_part, drawn), parts):
                found += one
                tell(1)
        except BaseException:  # the other parts need not be looked at any more
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return found


def replay_part(drawn: Drawn, part: int) -> Replayed:
    """Replay one part. Raises VerificationFailed for the first claim that does not hold."""
    return _PartCheck(drawn, load_scenario(drawn.dataset.recipe.scenario), part).run()


class _PartCheck:
    """Replay of the episodes of one part, compared with its rows."""

    def __init__(self, drawn: Drawn, scenario: Scenario, part: int) -> None:
        dataset = self._dataset = drawn.dataset
        self._drawn, self._scenario, self._part = drawn, scenario, part
        self._workload, self._behaviours = drawn.workload, drawn.behaviours
        recipe = dataset.recipe
        self._outcomes = scenario.spec(recipe.config, recipe.objective).outcomes
        self._entry = dataset.manifest.parts[part]
        self._path = dataset.folder / self._entry.path
        episodes = dataset.episodes()
        self._rows = episodes.filter(episodes["first_part"] == part).rows(named=True)
        self._next = 0  # index into _rows of the next episode
        self._row: dict[str, Any] | None = None  # of the running episode
        self._recomputed = 0
        self._unequal: dict[int, str] = {}  # episode -> why its other draws are no fault
        self._instance: tuple[int, Any] = (-1, None)

    def run(self) -> Replayed:
        """Check the part."""
        rows = 0
        try:
            for block in self._dataset.blocks(self._part):
                self._check(block)
                rows += len(block)
        except StorageError:
            raise
        except InputError as error:  # the message names the file
            raise VerificationFailed(str(error)) from error
        if rows != self._entry.rows:
            raise VerificationFailed(
                f"{self._path}: this part has {rows} rows, the manifest says {self._entry.rows}"
            )
        if self._row is not None or self._next != len(self._rows):
            raise VerificationFailed(
                f"{self._path}: episodes are missing from the end of this part"
            )
        reasons = list(self._unequal.values())
        return Replayed(self._recomputed, len(reasons), next(iter(reasons), ""))

    def _check(self, block: Block) -> None:
        at = 0
        while at < len(block):
            if self._row is None:
                self._begin(int(block.episode[at]))
            at = self._replay(block, at)

    def _begin(self, episode: int) -> None:
        """Begin the replay of the next episode; raise VerificationFailed if it is another one."""
        if self._next >= len(self._rows) or self._rows[self._next]["episode"] != episode:
            raise VerificationFailed(
                f"{self._path}: episode {episode} is here, expected the next one of this part in "
                "the table of episodes"
            )
        self._row = self._rows[self._next]
        self._next += 1
        window = int(self._row["window"])
        if self._instance[0] != window:
            self._instance = (window, self._make_instance(window))
        instance = self._instance[1]
        spec = self._dataset.spec
        self._memory = begin_episode(spec, instance)
        self._arrays = make_step_arrays(spec, instance)
        self._step = 0
        self._values: list[NDArray[np.float64]] = []
        self._total = self._elapsed_s = 0.0
        self._status = RUNNING
        self._runner: EpisodeRunner | None = None
        self._trace: EpisodeTrace | None = None
        self._rule: Heuristic | None = None
        behaviour = self._behaviour = self._behaviours.get(self._row["behaviour"])
        seed, repetition = self._dataset.recipe.seed, int(self._row["seed"])
        self._rng = generator(seed, self._row["behaviour"], window, repetition)
        if behaviour is not None and isinstance(behaviour.policy, Heuristic):
            self._rule = behaviour.policy
        elif behaviour is not None:
            self._runner = episode_runner(self._scenario, spec, instance, behaviour)
            if not self._drawn.quick:
                self._trace = self._play(self._runner)
        self._used = 0  # of the probabilities of the trace
        self._parameters = self._draw_parameters(self._row)

    def _make_instance(self, window: int) -> Instance:
        """Return the problem instance of a window; raise VerificationFailed if there is none."""
        recipe = self._dataset.recipe
        try:
            if window < self._scenario.windows(recipe.config, self._workload):
                return make_instance(recipe, self._scenario, self._workload, window)
        except (InputError, ArithmeticError, LookupError, MemoryError, ValueError) as error:
            raise VerificationFailed(
                f"{self._dataset.folder}: window {window} cannot be simulated ({error})"
            ) from error
        raise VerificationFailed(f"{self._dataset.folder}: the workload has no window {window}")

    def _play(self, runner: EpisodeRunner) -> EpisodeTrace:
        """Return the episode that a policy other than a rule plays with the recipe's draws."""
        try:
            return runner.play(self._rng)
        except InputError:
            raise
        except HindcastError as error:
            raise VerificationFailed(f"{self._path}: {error}") from error

    def _draw_parameters(self, row: dict[str, Any]) -> NDArray[np.float64]:
        """Return the logged parameters of the behaviour; check that they are those it draws."""
        logged = np.array(row["behaviour_parameters"], np.float64)
        if self._behaviour is None:
            return logged
        drawn = NO_PARAMETERS
        if self._rule is not None:
            drawn = self._rule.parameters(self._dataset.spec, self._rng)
        where = f"{self._dataset.folder / self._dataset.manifest.episodes.path}: episode "
        if logged.shape != drawn.shape:
            raise VerificationFailed(
                f"{where}{row['episode']} has {logged.size} behaviour_parameters, "
                f"{row['behaviour']} draws {drawn.size}"
            )
        unequal = np.flatnonzero(logged != drawn)
        if len(unequal) and not self._drawn.quick:
            at = int(unequal[0])
            self._not_drawn(
                f"{where}{row['episode']}: behaviour_parameters[{at}] is {logged[at]}, the "
                f"recipe's seed gives {drawn[at]}"
            )
        return logged

    def _not_drawn(self, fault: str) -> None:
        """Raise VerificationFailed for draws that differ, unless other versions may draw so."""
        assert self._row is not None
        episode = int(self._row["episode"])
        if not (versions := self._drawn.versions(episode)):
            raise VerificationFailed(fault)
        others = ", ".join(f"{name} {version}" for name, version in versions.items())
        self._unequal.setdefault(episode, f"they differ, but {others} wrote them")

    def _replay(self, block: Block, at: int) -> int:
        """Replay the episode at row `at` to its end in the block; return the row after it."""
        row = self._row
        assert row is not None
        rule, behaviour = self._rule, self._behaviour
        stop = at
        while stop < len(block) and block.episode[stop] == row["episode"]:
            stop += 1
        self._check_order(block, at, stop, row["episode"])
        state = np.array([float(self._status), self._total, 0.0, 0.0])
        log = replays.LoggedColumns(
            *(getattr(block, name) for name in replays.LoggedColumns._fields)
        )
        if block.image is None:
            log = log._replace(image=np.zeros((len(block), 0), np.uint8))
        compared = replays.NOTHING
        if rule is not None:
            compared = replays.ITS_PROBABILITIES if self._drawn.quick else replays.ITS_DRAWS
        drawing = Drawing(self._parameters, 0.0, 0.0)
        if behaviour is not None:
            drawing = behaviour.drawing(self._parameters)
        rule_score = cell(rule.score if rule else no_score)
        functions = cell(self._scenario.observe), cell(self._scenario.step), rule_score
        memory, arrays = self._memory, self._arrays
        fault, bad = replays.replay(
            *functions, memory, arrays, drawing, draws_of(self._rng), compared, log, state, at, stop
        )
        if fault != replays.FINE:
            raise VerificationFailed(
                f"{self._path}: episode {row['episode']}, step {block.step[bad]}: "
                f"{replays.FAULTS[fault]}"
            )
        if state[replays.NOT_DRAWN]:
            self._not_drawn_choice(block, int(state[replays.FIRST_NOT_DRAWN]))
        self._status, self._total = int(state[replays.STATUS]), float(state[replays.TOTAL])
        self._elapsed_s = float(np.cumsum([self._elapsed_s, *block.elapsed_s[at:stop]])[-1])
        if block.value is not None:
            self._values.append(block.value[at:stop][block.choice[at:stop] != NO_CHOICE])
        if self._runner is not None:
            self._check_probabilities(self._runner, block, at, stop)
        self._step += stop - at
        if behaviour is not None:
            self._recomputed += int((block.choice[at:stop] != NO_CHOICE).sum())
        if block.choice[stop - 1] == NO_CHOICE:
            self._end(row)
            self._check_values(row["episode"])
            self._row = None
        return stop

    def _not_drawn_choice(self, block: Block, bad: int) -> None:
        self._not_drawn(
            f"{self._path}: episode {block.episode[bad]}, step {block.step[bad]}: the choice is "
            f"{block.choice[bad]}, which is not the one that the recipe's seed draws"
        )

    def _check_probabilities(
        self, network: EpisodeRunner, block: Block, at: int, stop: int
    ) -> None:
        """Check that the probabilities of replayed decisions are those of the network.

        If it played the episode again, its choices are compared too.
        """
        made = at + int((block.choice[at:stop] != NO_CHOICE).sum())
        choices = block.choice[at:made].astype(np.int64)
        logged = block.probabilities[block.offsets[at] : block.offsets[made]]
        if self._trace is not None:
            played = self._trace.choices[self._step : self._step + len(choices)]
            if not np.array_equal(played, choices):
                same = played == choices[: len(played)]
                self._not_drawn_choice(block, at + int(np.argmin([*same, False])))
                assert self._behaviour is not None
                network = self._runner = episode_runner(
                    self._scenario, self._dataset.spec, self._instance[1], self._behaviour
                )
                network.follow(self._trace.choices[: self._step])
                self._trace = None
        if self._trace is not None:
            expected = self._trace.probabilities[self._used : self._used + len(logged)]
            self._used += len(logged)
        else:
            expected = network.follow(choices)
        one, other = expected.astype(np.float64), logged.astype(np.float64)
        near = np.abs(one - other) <= replays.TOLERANCE * np.maximum(one, other) + replays.LEAST
        if not near.all():
            episode = int(block.episode[at])
            raise VerificationFailed(
                f"{self._path}: episode {episode}: {replays.FAULTS[replays.PROBABILITIES]}"
            )

    def _check_order(self, block: Block, at: int, stop: int, episode: int) -> None:
        """Check that steps count up, and that only the last row of an episode is a closing row."""
        steps: NDArray[np.int64] = np.arange(self._step, self._step + stop - at)
        closing = block.choice[at:stop] == NO_CHOICE
        if stop == at or closing[:-1].any() or not np.array_equal(block.step[at:stop], steps):
            raise VerificationFailed(
                f"{self._path}: the rows of episode {episode} are out of order"
            )

    def _check_values(self, episode: int) -> None:
        """Check that the Monte-Carlo values are those at the episode's end."""
        if not self._dataset.spec.valued:
            return
        values = values_of(self._scenario, self._memory.ints, self._memory.floats, self._step - 1)
        if not np.array_equal(np.concatenate(self._values), values):
            raise VerificationFailed(
                f"{self._path}: episode {episode}: a monte_carlo_value differs from the simulator's"
            )

    def _end(self, row: dict[str, Any]) -> None:
        """Compare the results of the episode with episodes.parquet."""
        spec = self._dataset.spec
        outcomes = np.zeros(len(self._outcomes))  # the scenario writes all of its outcomes
        self._scenario.outcome(self._memory.ints, self._memory.floats, outcomes)
        results = {o.name: float(v) for o, v in zip(self._outcomes, outcomes, strict=True)}
        claims: dict[str, Any] = {
            "steps": self._step - 1,
            "return": self._total,
            "elapsed_s": self._elapsed_s,
            "first_part": self._part,
            "last_part": self._part,
            "truncated": self._status == TRUNCATED,
            **{o.name: results[o.name] for o in spec.outcomes},
        }
        if self._status not in {TERMINATED, TRUNCATED}:
            raise VerificationFailed(
                f"{self._path}: episode {row['episode']} ends before the simulator ends it"
            )
        for name, value in claims.items():
            unknown = row[name] is not None and math.isnan(row[name]) and math.isnan(value)
            if row[name] != value and not unknown:
                raise VerificationFailed(
                    f"{self._dataset.folder / self._dataset.manifest.episodes.path}: episode "
                    f"{row['episode']}: {name} is {row[name]}, the simulator gives {value}"
                )
