"""Decisions in the schema of a log: a policy, its exploration, and the record of what it did.

A checkpoint that was trained on a log of decisions has the names of the log with it; a rule takes
them from the dataset. Each record is answered by a choice that is drawn with known probabilities:

    p(a) = (1 - epsilon) * [a has the best score] + epsilon / number of feasible candidates

A checkpoint `FOLDER@T` draws by the softmax of its scores at temperature T in place of the best.
The draw is a hash of the seed and the decision's id. So a decision that is asked for twice gets
the same answer, and a process that starts again does not repeat its draws.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from hindcast.pipeline import dataset as ds
from hindcast.pipeline.decisions.live.description import (
    LOG,
    Description,
    description_of,
    read_description,
)
from hindcast.pipeline.decisions.live.records import Moment, Records, line_of
from hindcast.pipeline.decisions.log import Array
from hindcast.pipeline.errors import HindcastError, InputError, StorageError, did_you_mean, is_path
from hindcast.pipeline.estimators.decisions.reward_model import hashes
from hindcast.pipeline.recipes.toml import table_toml
from hindcast.pipeline.scenarios.decisions import NAME as SCENARIO
from hindcast.pipeline.simulation.policy import fill_probabilities
from hindcast.pipeline.storage import files
from hindcast.pipeline.storage.run_files import DESCRIPTION
from hindcast.policies.networks.checkpoint import load_policy
from hindcast.policies.networks.checkpoint import read_description as read_checkpoint
from hindcast.policies.networks.linear import Linear, linear_of
from hindcast.policies.registry import split_checkpoint_name

SHOWN: Final = ("uniform", "first", "lowest:FEATURE", "highest:FEATURE")
CERTAIN: Final = (
    "epsilon is 0, so every choice is certain: a log of these decisions answers nothing about "
    "other policies; --epsilon 0.1 draws one in ten uniformly"
)
_BITS: Final = 53  # of a uniform number in [0, 1)

Scorer = Callable[[Moment], Array]


class LogDecider:
    """A policy that decides for records of a log's schema, and writes what it decided.

    Attributes:
        name: Name of the policy, which is that of the logger in records.
        epsilon: Share of the decisions that are drawn uniformly.
        temperature: Of the softmax over the scores; 0 takes the best score.
        made: Number of decisions since the decider was made.
        mapping: Meaning of the records that are written, as a table.
    """

    def __init__(
        self, name: str, records: Records, score: Scorer, linear: Linear | None, *,
        epsilon: float, temperature: float, seed: int, reasons: int, log: Path | None,
    ) -> None:  # fmt: skip
        if not 0.0 <= epsilon <= 1.0:
            raise InputError(f"epsilon is {epsilon}, expected a number from 0 to 1")
        self.name, self.epsilon, self.temperature = name, epsilon, temperature
        self.made = self._first = 0
        self._records, self._score, self._linear = records, score, linear
        self._seed, self._reasons = seed, reasons
        self._log = log
        self.mapping = records.mapping_of_log("", "").as_table()
        if log is not None:
            self._first = _begun(log, records)

    @property
    def certain(self) -> bool:
        """True if nothing is drawn."""
        return self.epsilon == 0.0 and self.temperature == 0.0

    def decide(self, record: Any, where: str = "record") -> dict[str, Any]:
        """Return the decision of a record as JSON, after it is in the log.

        Args:
            record: The decision that is to be made, see docs/how-to/decide-from-a-log.md.
            where: Name of the record in messages, such as a file and line.

        Returns:
            An object with `id`; `choice` and `index`, the id and the position of the candidate;
            `propensity`, its probability; `best`, the id of the candidate with the best score; and
            of every candidate `candidates`, `probabilities` and `scores`, None for one that is
            infeasible. A linear policy gives `reasons`: what features add to the score of the
            choice, less their mean over the other feasible candidates. `unseen` has what the
            training did not have, if there is any.

        Raises:
            InputError: The record is not valid.
            HindcastError: The policy gave a score that is not a number.
        """
        moment = self._records.read(record, where)
        scores = self._score(moment)
        if np.isnan(scores[moment.feasible]).any():
            raise HindcastError(f"{where}: {self.name} gave a score that is not a number")
        probabilities = np.empty(len(scores))
        fill_probabilities(
            scores, moment.feasible, self.temperature, self.epsilon, probabilities
        )  # fmt: skip
        name = str(self._first + self.made) if moment.id is None else moment.id
        choice = _drawn(probabilities, f"draw|{self._seed}|{name}")
        spread = probabilities.tolist()
        if self._log is not None:
            made = self._records.logged(record, moment, name, choice, spread, self.name)
            with self._log.open("a", encoding="utf-8") as file:
                file.write(line_of(made))
        self.made += 1
        best = int(np.argmax(np.where(moment.feasible, scores, -np.inf)))
        answer = {
            "id": name, "choice": moment.ids[choice], "index": choice,
            "propensity": spread[choice], "best": moment.ids[best],
            "candidates": list(moment.ids), "probabilities": spread,
            "scores": [
                float(s) if f and np.isfinite(s) else None
                for s, f in zip(scores, moment.feasible, strict=True)
            ],
        }  # fmt: skip
        if self._linear is not None:
            answer["reasons"] = self._why(moment, choice)
        return answer | ({"unseen": list(moment.unseen)} if moment.unseen else {})

    def _why(self, moment: Moment, choice: int) -> list[dict[str, Any]]:
        """Return the inputs that move the choice's score furthest from the others' mean."""
        assert self._linear is not None
        others = moment.feasible.copy()
        others[choice] = False
        if not others.any():
            return []
        inputs = self._linear.candidates
        values = inputs.values(np.nan_to_num(moment.candidates))
        adds = inputs.weights * (values[choice] - values[others].mean(axis=0))
        order = np.argsort(-np.abs(adds), kind="stable")[: self._reasons]
        return [
            {
                "feature": inputs.names[i],
                "value": float(f"{values[choice, i]:.7g}"),
                "adds": float(adds[i]),
            }
            for i in order
            if adds[i] != 0.0
        ]


def _drawn(probabilities: Array, text: str) -> int:
    """Return the candidate that a text draws."""
    u = (int(hashes([text])[0]) >> (64 - _BITS)) / 2.0**_BITS
    possible = np.flatnonzero(probabilities > 0.0)
    place = int(np.searchsorted(np.cumsum(probabilities[possible]), u, side="right"))
    return int(possible[min(place, len(possible) - 1)])


def load_log_decider(
    policy: str | Path, dataset: Path | None = None, *, epsilon: float = 0.0, seed: int = 0,
    reasons: int = 3, log: Path | None = None,
) -> LogDecider:  # fmt: skip
    """Return a policy that decides in the schema of a log.

    Args:
        policy: Folder of a checkpoint that was trained on a log of decisions, or FOLDER@T; or a
            name of SHOWN, which needs the dataset.
        dataset: Folder of the log's dataset.
        epsilon: Share of the decisions that are drawn uniformly.
        seed: Seed of the draws.
        reasons: Most inputs of a linear policy that are told with a choice.
        log: File to which the decisions are appended. Beside it are written its mapping, FILE.toml,
            and a file for the rewards, FILE.outcomes.jsonl.

    Raises:
        InputError: The policy, the dataset or the log cannot be used.
    """
    path, temperature = split_checkpoint_name(str(policy))
    if isinstance(temperature, str):
        raise InputError(f"{policy}: a log has no rule {temperature!r} to lead a network")
    description = None if dataset is None else description_of(ds.open(dataset).manifest)
    if (Path(path) / DESCRIPTION).is_file():
        name, score, linear, description = _of_checkpoint(Path(path), description)
    elif description is None:
        hint = "no such checkpoint folder" if is_path(path) else "a rule needs --dataset"
        raise InputError(
            f"{policy}: this decides for no log of decisions ({hint}); expected the folder of a "
            "checkpoint that was trained on one, or a rule and the dataset of its log"
        )
    else:
        name, linear, score = str(policy), None, _of_rule(str(policy), description)
        epsilon = 1.0 if name == "uniform" else epsilon
    return LogDecider(
        name, Records(description), score, linear, epsilon=epsilon, temperature=temperature,
        seed=seed, reasons=reasons, log=log,
    )  # fmt: skip


def decides_for_log(policy: str | Path) -> bool:
    """Return whether a policy is a checkpoint that was trained on a log of decisions."""
    folder = Path(split_checkpoint_name(str(policy))[0])
    if not (folder / DESCRIPTION).is_file():
        return False
    return bool(read_checkpoint(folder).get("scenario") == SCENARIO)


def _of_checkpoint(
    folder: Path, given: Description | None
) -> tuple[str, Scorer, Linear | None, Description]:
    learned, about = load_policy(folder), read_checkpoint(folder)
    where = f"{folder / DESCRIPTION}: training.{LOG}"
    description = given
    if LOG in about["training"]:
        description = read_description(about["training"][LOG], where)
    if description is None:
        raise InputError(
            f"{folder}: this checkpoint has no names of a log of decisions; expected one that was "
            "trained on a log, or --dataset with the log"
        )
    for side, features in (
        ("context", learned.features_context), ("candidates", learned.features_candidates),
    ):  # fmt: skip
        if [*description.kinds[side]] != [f.name for f in features]:
            raise InputError(f"{folder}: its features of the {side} are not those of the log")

    def score(moment: Moment) -> Array:
        rows = np.nan_to_num(moment.candidates)
        scores = learned.batch_scores(
            np.nan_to_num(moment.context)[None], rows, np.array([0, len(rows)]),
            feasible=moment.feasible,
        )  # fmt: skip
        return np.asarray(scores, np.float64)

    version = about["weights"]["sha256"][:8]
    return f"{learned.name}-{version}", score, linear_of(learned), description


def _of_rule(name: str, description: Description) -> Scorer:
    kind, _, of = name.partition(":")
    names = [*description.kinds["candidates"]]
    if kind in ("lowest", "highest"):
        numbers = description.numbers("candidates")
        if of not in numbers:
            hint = did_you_mean(of, numbers)
            raise InputError(f"{name}: the log has no number {of!r} of a candidate; {hint}")
        column, sign = names.index(of), -1.0 if kind == "lowest" else 1.0

        def by_feature(moment: Moment) -> Array:
            values = sign * moment.candidates[:, column]
            return np.where(np.isnan(values), -np.inf, values)

        return by_feature
    if name not in ("uniform", "first"):
        raise InputError(
            f"{name}: this decides for no log of decisions ({did_you_mean(name, SHOWN)}); expected "
            f"{', '.join(SHOWN)}, or the folder of a checkpoint"
        )
    return lambda moment: np.zeros(len(moment.ids))


def _begun(log: Path, records: Records) -> int:
    """Make the mapping of a log and the file of its outcomes; return its number of lines."""
    mapping, outcomes = log.with_suffix(".toml"), log.with_suffix(".outcomes.jsonl")
    table = records.mapping_of_log(log.name, outcomes.name).as_table()
    said = table["outcomes"]
    rewards = (*said.get("reward", ()), *said.get("cost", ()))
    parts = {said["decision"]: "ID", **({said["time"]: "TIME"} if "time" in said else {}),
             **dict.fromkeys(rewards, "NUMBER")}  # fmt: skip
    keys = ", ".join(f'"{name}": {value}' for name, value in parts.items())
    text = f"# rewards: a line {{{keys}}} per decision in {outcomes.name}\n{table_toml(table)}"
    files.make_folder(log.parent)
    if mapping.exists() and mapping.read_text(encoding="utf-8") != text:
        raise StorageError(
            f"{mapping}: this is not the mapping of these decisions; choose another --log, so that "
            "no file has records of two kinds"
        )
    if not mapping.exists():
        files.write_text(mapping, text)
    outcomes.touch()
    lines, whole = 0, True
    log.touch()
    with log.open("rb+") as before:
        for line in before:
            lines, whole = lines + 1, line.endswith(b"\n")
        if not whole:  # a kill left a part of a line
            before.write(b"\n")
    return lines
