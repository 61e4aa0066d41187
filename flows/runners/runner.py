"""A started task runner of Prefect, and how it hands out items.

A unit is about 20 s of work, such as a few parts of a dataset. A task gets the folder and the
numbers of its items, writes its results to their final place, and returns a few small numbers. An
engine may compute a task again when a worker dies, so units leave alone what is there already.
"""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from hindcast.flows.commands import name_of
from hindcast.flows.progress import note
from hindcast.pipeline.errors import HindcastError
from hindcast.pipeline.storage.location import is_remote, location

_MOST: Final = 10_000  # items of one unit
_POLL_S: Final = 1.0  # between two looks at the number of workers

_PLACES: Final = frozenset({"dataset", "out", "recipe", "start", "imitate"})  # fields of requests

Unit = Callable[..., Mapping[str, Any]]


@dataclass(frozen=True)
class Runner:
    """A task runner of Prefect that was started.

    Attributes:
        name: Name of the runner, for messages.
        submit: Function of a Prefect task and its parameters that returns a future of Prefect.
        threads: Function that returns how many tasks can run at the same time now, and raises any
            error if the connection to the engine is lost.
    """

    name: str
    submit: Callable[[Any, dict[str, Any]], Any]
    threads: Callable[[], int]

    def calls(self, requests: Sequence[Any]) -> Iterator[Callable[[], dict[str, Any]]]:
        """Run the commands of requests on the workers, each as a task.

        Yields functions in the order of the requests; each waits for its command, and returns its
        result or raises its error.
        """
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        from hindcast.flows import units

        futures = []
        for request in requests:
            whole = with_whole_paths(request)
            recorded: Any = task(
                name=name_of(request), cache_policy=NO_CACHE, retries=0, persist_result=False
            )(units.command)
            given = {"name": name_of(request), "parameters": whole}
            with self._errors():
                futures.append((self.submit(recorded, given), whole["out"], request.out))
        for future, out, asked in futures:
            yield partial(self._result_of, future, out, asked)

    def _result_of(self, future: Any, out: str, asked: str) -> dict[str, Any]:
        """Wait for a command and return its result, with its folder as the request names it."""
        ended = threading.Event()
        future.add_done_callback(lambda _future: ended.set())
        with self._errors():
            while not ended.wait(_POLL_S):
                self.threads()  # raises an error if the engine is gone
            result: dict[str, Any] = future.result()
        return {
            name: asked + value.removeprefix(out)
            if isinstance(value, str) and f"{value}/".startswith(f"{out}/")
            else value
            for name, value in result.items()
        }

    def map_units(
        self, unit: Unit, items: Sequence[Any], **others: Any
    ) -> Iterator[tuple[list[Any], Mapping[str, Any]]]:
        """Call `unit(items=..., **others)` on the workers until all items are done.

        A unit stops after some time, see `hindcast.flows.units`; the items that it has not done are
        handed out again, so no unit has to be measured beforehand. Yields the done items and the
        result of every unit, in any order. Raises the first error of a unit.
        """
        from prefect import task
        from prefect.cache_policies import NO_CACHE

        recorded: Any = task(
            name=unit.__name__, cache_policy=NO_CACHE, retries=0, persist_result=False
        )(unit)
        left, at_work = deque(items), dict[Any, list[Any]]()
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        waits = False
        while left or at_work:
            with self._errors():
                threads = self.threads()
            if not threads and not waits:
                note(f"{self.name}: there is no worker; waiting for one")
            waits = not threads
            while left and len(at_work) < max(threads, 1):
                size = min(-(-len(left) // max(threads, 1)), _MOST)
                given = [left.popleft() for _ in range(size)]
                with self._errors():
                    future = self.submit(recorded, {"items": given, **others})
                at_work[future.task_run_id] = given
                future.add_done_callback(ended.put)
            with contextlib.suppress(queue.Empty):
                future = ended.get(timeout=_POLL_S)
                with self._errors():
                    result = future.result()
                given, done = at_work.pop(future.task_run_id), int(result["done"])
                left.extendleft(reversed(given[done:]))
                yield given[:done], result

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise HindcastError in place of errors of the engine; those of units are unchanged."""
        try:
            yield
        except HindcastError:
            raise
        except Exception as error:
            kind, said = type(error).__name__, " ".join(str(error).split())[:300]
            raise HindcastError(
                f"{self.name}: the work was interrupted ({kind}: {said}); the same command "
                "continues where it stopped"
            ) from error


def with_whole_paths(request: Any) -> dict[str, Any]:
    """Return the fields of a request, its folders, recipe and code as absolute paths or URLs."""
    values = dict(vars(request))
    for name in _PLACES.intersection(values):
        place = values[name] and location(values[name])
        if place and not is_remote(place) and (name != "recipe" or place.exists()):
            values[name] = str(place.absolute())
    if values.get("agent"):
        from hindcast.policies.own_agents import whole_reference

        values["agent"] = whole_reference(values["agent"])
    return values
