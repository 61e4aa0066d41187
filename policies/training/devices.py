"""The device of a training (`auto`, `cpu` or `cuda`), and repeatable torch settings."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch

from hindcast.pipeline.errors import InputError, unknown_name

DEVICES: Final = ("auto", "cpu", "cuda")
_THREADS: Final = 1  # of torch and BLAS, in every training


def find_device(name: str) -> torch.device:
    """Return the device of that name; `auto` is a GPU if torch finds one, else the CPU.

    Raises UnknownName for another name, and InputError if there is no such device here.
    """
    if name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise InputError("device is 'cuda', but torch finds no CUDA device here; use cpu or auto")
    return torch.device("cuda", torch.cuda.current_device())


def torch_setting(device: torch.device) -> dict[str, Any]:
    """Return what the weights of a training depend on besides torch's version, as JSON."""
    on_gpu = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
        "kernels": torch.backends.cpu.get_cpu_capability(),
        "threads": _THREADS,
    }


@contextmanager
def repeatable(device: torch.device) -> Iterator[dict[str, Any]]:
    """Make torch and numpy repeat weights bit for bit: one thread, and on a GPU fixed kernels.

    BLAS splits large products and decompositions by the number of threads, and so rounds
    differently on a machine with other cores. The networks are far too small to gain from more
    threads. Several trainings run side by side instead.

    Yields the settings of torch that a training records, see `torch_setting`.
    """
    from threadpoolctl import threadpool_limits

    threads = torch.get_num_threads()
    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, threads)
        torch.set_num_threads(_THREADS)
        stack.enter_context(threadpool_limits(limits=_THREADS, user_api="blas"))
        if device.type == "cuda":
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read by cuBLAS
            before = torch.are_deterministic_algorithms_enabled()
            stack.callback(torch.use_deterministic_algorithms, before)
            # A kernel without a deterministic form causes a warning, and training continues.
            torch.use_deterministic_algorithms(mode=True, warn_only=True)
        yield torch_setting(device)
