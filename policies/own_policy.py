"""Policies of the user's own: plain functions that score the candidates of a decision.

    def shortest(context, candidates, feasible):                one decision
        return -candidates[:, 3]                                (N, F) -> (N,)

    def shortest(context, candidates, feasible):                several decisions at once
        return -candidates[:, :, 3]                             (B, N, F) -> (B, N)
    shortest.batched = True

The arguments are context (C,), candidates (N, F) and feasible (N,), read-only. A batched function
gets them with a leading dimension of B decisions of different episodes; N is the largest number of
candidates among them, and the rows beyond a decision's own are zeros that are not feasible. A
function with a parameter `spec` also gets the Spec, whose `column` finds columns by name. The
feasible candidate with the highest score is chosen, the first of them if there are several.

    seed0.agent = "ppo"                                         one training of an agent
    seed0.weights = "ppo-seed0.zip"                             its files, beside the code

A function with these attributes is learned: functions with one `agent` are its training seeds, and
the digest of each covers its weights.

A compiled function with the signature `hindcast.pipeline.simulation.kernel.SCORE`, or a Heuristic,
plays in compiled code like the rules that come with Hindcast.
"""

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray

from hindcast.pipeline.errors import DatasetError, InputError, PolicyFault
from hindcast.pipeline.plugins import Source, load, source_of
from hindcast.pipeline.simulation.environment import Observation
from hindcast.pipeline.simulation.kernel import SCORE
from hindcast.pipeline.simulation.policy import Heuristic, Reading
from hindcast.pipeline.simulation.spec import Spec
from hindcast.pipeline.storage.files import sha256_file, sha256_text

_TOGETHER: Final = 512  # decisions of one call of a batched function
_SCORE_ARGUMENTS: Final = 5
_EXPECTED: Final = "expected (context, candidates, feasible), and optionally a parameter spec"

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OwnPolicy:
    """A Python function of the user as a BatchPolicy.

    Attributes:
        name: Name of the function.
        function: The function, see the module.
        given: Keyword arguments of every call.
        batched: True if the function takes several decisions at once.
        label: File and name of the function, for messages.
        description: First line of its docstring.
        reads: Inputs besides context and candidates.
    """

    name: str
    function: Callable[..., Any]
    given: dict[str, Any]
    batched: bool
    label: str
    description: str = ""
    reads: tuple[Reading, ...] = ("feasible",)

    def scores(self, observation: Observation) -> Array:
        """Return one score per candidate, (N,)."""
        return self.batch_scores(
            np.asarray(observation.context)[None],
            observation.candidates,
            np.array([0, len(observation.candidates)]),
            feasible=observation.feasible,
        )

    def batch_scores(
        self,
        context: Array,
        candidates: Array,
        offsets: NDArray[np.int64],
        *,
        feasible: NDArray[np.bool_],
    ) -> Array:
        """Return scores (sum of N,) of B observations; see pipeline.simulation.policy.BatchPolicy.

        Raises PolicyFault if the function fails, or if its scores cannot be used.
        """
        scores = np.empty(len(candidates))
        step = _TOGETHER if self.batched else 1
        for first in range(0, len(context), step):
            stop = min(first + step, len(context))
            rows = slice(offsets[first], offsets[stop])
            part = self._padded if self.batched else self._one
            scores[rows] = part(
                context[first:stop], candidates[rows], feasible[rows],
                offsets[first : stop + 1] - offsets[first], first,
            )  # fmt: skip
        return scores

    def _one(
        self, context: Array, rows: Array, feasible: Any, _offsets: NDArray[np.int64], place: int
    ) -> Array:
        """Return the scores (N,) of one decision."""
        found = self._call((context[0], rows, feasible), (len(rows),), place)
        return self._checked(found, feasible, place)

    def _padded(
        self, context: Array, rows: Array, feasible: Any, offsets: NDArray[np.int64], place: int
    ) -> Array:
        """Return the scores (sum of N,) of B decisions, which are padded to one N."""
        counts = np.diff(offsets)
        shape = (len(counts), int(counts.max()))
        own = np.arange(shape[1]) < counts[:, None]
        candidates, mask = np.zeros((*shape, rows.shape[1])), np.zeros(shape, np.bool_)
        candidates[own], mask[own] = rows, feasible
        found = self._call((context, candidates, mask), shape, place)
        for b in range(len(counts)):
            found[b, : counts[b]] = self._checked(
                found[b, : counts[b]], mask[b, : counts[b]], place + b
            )
        return found[own]

    def _call(self, arrays: tuple[Any, ...], shape: tuple[int, ...], place: int) -> Array:
        """Return a new array of this shape from the function, which gets read-only arrays."""
        shown = [array.view() for array in arrays]
        for array in shown:
            array.flags.writeable = False
        try:
            found = self.function(*shown, **self.given)
        except Exception as error:  # the function can raise anything
            raise PolicyFault(f"{self.label}: raised {_told(error)}", place) from error
        try:
            scores = np.array(found, np.float64)
        except (TypeError, ValueError) as error:
            raise PolicyFault(
                f"{self.label}: returned {type(found).__name__}, expected numbers of shape {shape}",
                place,
            ) from error
        if scores.shape != shape:
            raise PolicyFault(
                f"{self.label}: returned scores of shape {scores.shape}, expected {shape}, one "
                "score per candidate", place,
            )  # fmt: skip
        return scores

    def _checked(self, scores: Array, feasible: NDArray[np.bool_], place: int) -> Array:
        """Return scores that can be used; those of infeasible candidates do not matter."""
        scores = np.where(feasible, scores, 0.0)
        if np.isfinite(scores).all():
            return scores
        if (wrong := np.isnan(scores) | (scores == np.inf)).any():
            row = int(wrong.argmax())
            raise PolicyFault(
                f"{self.label}: the score of candidate {row}, which is feasible, is {scores[row]}; "
                "expected a finite number, or -inf", place,
            )  # fmt: skip
        if not np.isfinite(scores[feasible]).any():
            raise PolicyFault(
                f"{self.label}: the scores of all feasible candidates are -inf; expected a finite "
                "one", place,
            )  # fmt: skip
        return scores


def _told(error: Exception) -> str:
    """Return an exception on one line, with the line of the file that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {said} ({Path(last.filename).name}, line {last.lineno})"


def own_policy(
    reference: str, spec: Spec, base: Path | None = None, sha256: str = ""
) -> tuple[Any, Source]:
    """Return the policy of a reference, an OwnPolicy or a Heuristic, and its source.

    `base` is the folder of the recipe that names it. Raises InputError if it cannot be imported or
    is no policy, and DatasetError if its file has another digest than `sha256`.
    """
    source = source_of(reference, base)
    if sha256 and sha256 != source.sha256:
        raise DatasetError(
            f"{source.path}: this file was changed: its SHA-256 is {source.sha256[:12]}..., the "
            f"recipe says {sha256[:12]}..."
        )
    return policy_of(load(source), source, spec), source


def policy_of(thing: Any, source: Source, spec: Spec) -> OwnPolicy | Heuristic:
    """Return an object of the user as a policy; raise InputError if it is none."""
    if isinstance(thing, Heuristic):
        return thing
    label, name = source.label, source.name.rpartition(".")[2]
    if not callable(thing) or isinstance(thing, type):
        kind = f"the class {thing.__name__}" if isinstance(thing, type) else type(thing).__name__
        raise InputError(f"{label}: is {kind}; expected a function, or a hindcast.Heuristic")
    try:
        parameters = inspect.signature(getattr(thing, "py_func", thing)).parameters
    except (TypeError, ValueError) as error:
        raise InputError(f"{label}: its arguments are not known; {_EXPECTED}") from error
    description = (inspect.getdoc(thing) or "").partition("\n")[0].strip()
    if isinstance(thing, Dispatcher) and len(parameters) == _SCORE_ARGUMENTS:
        return Heuristic(name, _compiled(thing, label), description=description)
    given = {"spec": spec} if "spec" in parameters else {}
    try:
        inspect.signature(getattr(thing, "py_func", thing)).bind(None, None, None, **given)
    except TypeError as error:
        raise InputError(f"{label}: takes ({', '.join(parameters)}); {_EXPECTED}") from error
    batched = bool(getattr(thing, "batched", False))
    return OwnPolicy(name, thing, given, batched, label, description)


def training_of(source: Source, agent: str = "") -> tuple[str, str]:
    """Return the agent that a policy of the user's own is a training of, and the policy's digest.

    The agent is the given one, else that of the function, else "" for a rule. The digest of a rule
    is that of its file. The digest of a training covers its name in the file and its weights too:
    a file can have several trainings. Raises InputError as `weights_of`, and for an attribute
    `agent` that is no name.
    """
    files, own = weights_of(source), getattr(load(source), "agent", "")
    if not isinstance(own, str):
        raise InputError(f"{source.label}: its attribute agent is {own!r}, expected a name")
    agent = agent or own or (source.name if files else "")
    if not agent:
        return "", source.sha256
    return agent, sha256_text(" ".join([source.sha256, source.name, *map(sha256_file, files)]))


def weights_of(source: Source) -> list[Path]:
    """Return the files that a policy of the user's own names as its weights, beside its code.

    Raises InputError for an attribute `weights` that names no files.
    """
    named = getattr(load(source), "weights", ())
    named = [named] if isinstance(named, str | Path) else named
    if not isinstance(named, list | tuple) or not all(isinstance(n, str | Path) for n in named):
        raise InputError(
            f"{source.label}: its attribute weights is {named!r}, expected the names of files"
        )
    files = [source.path.parent / name for name in named]
    for file in files:
        if not file.is_file():
            raise InputError(f"{source.label}: its weights {file} are no file")
    return files


def _compiled(thing: Any, label: str) -> Any:
    """Return a compiled function after compiling it for SCORE, if it is not yet."""
    try:
        if SCORE.args not in thing.overloads:
            thing.compile(SCORE.args)
        fits = thing.overloads[SCORE.args].signature.return_type == SCORE.return_type
    except Exception as error:  # numba raises many kinds
        said = str(error).strip().partition("\n")[0][:200]
        raise InputError(
            f"{label}: cannot be compiled for hindcast.kernel.SCORE ({type(error).__name__}: "
            f"{said})"
        ) from error
    if not fits:
        raise InputError(f"{label}: returns a value; a compiled rule fills its argument `scores`")
    return thing
