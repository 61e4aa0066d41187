"""Arrays of compiled functions whose references are not counted.

numba counts references to an array at every function that takes it, at every slice of it and where
it is taken out of a tuple, with atomic instructions. In an episode of a small network, this took a
tenth of the time. The arguments of a function are kept alive by its caller, so the function need
not count them::

    @compiled(types.int64(OBSERVE_CELL, EPISODE))
    def loop(observe, episode):
        ints, floats, context, image, candidates, feasible = uncounted(episode)

Arrays that a function makes itself must be counted: nothing else keeps them alive.
"""

from typing import Any, Final

from numba import types
from numba.extending import intrinsic


def _emit(compiler: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = compiler.make_array(kind)(compiler, builder, value)
        array.meminfo = array.meminfo.type(None)  # a null pointer
        return array._getvalue()  # noqa: SLF001 - numba has no public way
    if isinstance(kind, types.BaseTuple):
        members: Any = kind
        for place, member in enumerate(members):
            inner = _emit(compiler, builder, member, builder.extract_value(value, place))
            value = builder.insert_value(value, inner, place)
    return value


def _uncounted(_context: Any, group: Any) -> Any:
    """Return the signature of `uncounted(group)` and the function that emits its code.

    The group is an array or a tuple that may contain arrays. The result is the same group, whose
    arrays have no reference counts.
    """

    def emit(compiler: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _emit(compiler, builder, signature.args[0], arguments[0])

    return group(group), emit


uncounted: Final[Any] = intrinsic(_uncounted)
