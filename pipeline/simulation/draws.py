"""Random draws in compiled loops.

numba looks up the functions of a generator in every call from Python, which takes 6 us, and 11 us
for a new generator: a fifth of an episode of one decision. NumPy keeps these functions in a C
structure, `bitgen_t` of numpy/random/bitgen.h. A loop takes its address, which a call passes in
.4 us. The caller keeps the generator alive::

    @compiled()
    def loop(draws: Draws) -> float:
        return uniform(draws)

    loop(draws_of(rng))
"""

import ctypes
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

Draws: TypeAlias = Annotated[int, types.int64]

# members of bitgen_t, which are pointers
_STATE: Final = 0
_NEXT_DOUBLE: Final = 3

_address: Final = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def draws_of(rng: np.random.Generator) -> int:
    """Return the draws of a generator, for compiled code; they are valid as long as it lives."""
    return int(_address(rng.bit_generator.capsule, b"BitGenerator"))


def _uniform(_context: Any, draws: Any) -> Any:
    """Return the next uniform number in [0, 1), the one that `rng.random()` returns."""

    def emit(_compiler: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = arguments[0].type
        members = builder.inttoptr(arguments[0], word.as_pointer())
        state, function = (
            builder.load(builder.gep(members, [word(place)])) for place in (_STATE, _NEXT_DOUBLE)
        )
        kind = ir.FunctionType(ir.DoubleType(), [word])
        return builder.call(builder.inttoptr(function, kind.as_pointer()), [state])

    return types.float64(draws), emit


uniform: Final[Any] = intrinsic(_uniform)
