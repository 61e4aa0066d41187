"""Lines for people from code that shows nothing itself, such as why a step waits.

The command line and Prefect tasks choose where the lines appear (hindcast.flows.progress); without
`telling`, they are dropped.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Tell = Callable[[str], object]

_tell: ContextVar[Tell | None] = ContextVar("hindcast_tell", default=None)


@contextlib.contextmanager
def telling(tell: Tell) -> Iterator[None]:
    """Call `tell` with every line inside the context."""
    token = _tell.set(tell)
    try:
        yield
    finally:
        _tell.reset(token)


def teller() -> Tell | None:
    """Return the function that shows lines in this context, also for other threads."""
    return _tell.get()


def tell(line: str) -> bool:
    """Show a line, if anything shows lines in this context; return whether anything does."""
    show = teller()
    if show is not None:
        show(line)
    return show is not None
