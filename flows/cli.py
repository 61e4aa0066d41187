"""Entry point of the `hindcast` command. Errors are printed as one line.

Exit codes:

    0    success
    1    a check failed (verify), two datasets differ (diff), or an error that the input did not
         cause
    2    unusable input; the printed line names it and the correction
    130  interrupted (143 by SIGTERM); the same command continues where it stopped
"""

import argparse
import errno
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from hindcast.flows.commands import Shown, directly, find, module_of
from hindcast.flows.parser import first_help, parse
from hindcast.flows.process_setup import (
    check_memory,
    check_names,
    choose_kernels,
    open_streams,
)
from hindcast.flows.runners import asks_for_runner, refuse_direct
from hindcast.pipeline.errors import HindcastError, InputError, printable
from hindcast.pipeline.storage.extras import EXTRAS, UNSUPPORTED, installed, missing


class Terminated(BaseException):
    """SIGTERM as an exception, so that everything is closed as after a KeyboardInterrupt."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    open_streams()
    if not installed("fcntl"):
        return _fail(2, UNSUPPORTED)
    try:
        with _terminable():
            check_names(argv)
            return _run(argv)
    except InputError as error:
        return _fail(2, error)
    except HindcastError as error:
        return _fail(1, error)
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        if module not in EXTRAS:
            raise
        return _fail(2, missing(module, "this command"))
    except MemoryError:
        return _fail(1, "out of memory; fewer --workers or smaller windows need less memory")
    except BrokenPipeError:
        # The reader of stdout has closed it (`| head`); the rest of the output is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.filename is None and error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        return _fail(2, f"{error.filename or 'writing'}: {error.strerror}")
    except KeyboardInterrupt:
        return _fail(130, "interrupted; the same command continues where it stopped")
    except Terminated:
        return _fail(143, "terminated; the same command continues where it stopped")


def _run(argv: list[str]) -> int:
    """Parse the words, do what they ask for, print the output; return the exit code."""
    if argv[:1] == ["--complete-words"]:
        from hindcast.flows.completion import words

        print("\n".join(words(argv[1:])))
        return 0
    try:
        arguments = parse(argv)
    except SystemExit as ended:  # --help
        return int(ended.code or 0)
    if arguments.version:
        from hindcast.pipeline.storage.versions import version

        print(f"hindcast {version()}")
        return 0
    if arguments.completion is not None:
        from hindcast.flows.completion import SCRIPTS

        print(SCRIPTS[arguments.completion])
        return 0
    if arguments.command is None:
        print(first_help(), file=sys.stderr)
        return 2
    from hindcast.flows.progress import showing, stderr_display
    from hindcast.flows.status import recording

    check_memory()
    choose_kernels()
    out = getattr(arguments, "out", None)
    with recording(stderr_display(), out, arguments.command) as display, showing(display):
        result, shown = _execute(arguments)
    for line in dict.fromkeys(shown.warnings):
        print("warning:", printable(" ".join(line.split())), file=sys.stderr)
    if arguments.json:
        for row in [result] if shown.rows is None else shown.rows:
            print(json.dumps(row, ensure_ascii=False, default=str))
    else:
        print("\n".join(map(printable, shown.lines)))
    sys.stdout.flush()
    return shown.code


def _execute(arguments: argparse.Namespace) -> tuple[dict[str, Any], Shown]:
    """Check and run the request of the arguments; return its result and what is printed.

    `arguments.direct` is True to run in this process, False to record the run in Prefect if it is
    installed, and None for a run that is not recorded. Such a run starts Prefect only for a runner
    that the request names.
    """
    request = arguments.read(arguments)
    command = module_of(request)
    command.check(request)
    if arguments.direct:
        refuse_direct(request)
    is_recorded = arguments.direct is False and installed("prefect")
    if is_recorded or (not arguments.direct and asks_for_runner(request)):
        from hindcast.flows.engine import run_flow

        result = run_flow(request)
    else:
        result = directly(request)
    shown = command.show(result)
    asked = find(arguments.command).COMMANDS[arguments.command].recorded == "asked"
    server = bool(os.environ.get("PREFECT_API_URL"))
    if arguments.direct is False and not is_recorded and (asked or server):
        reason = "PREFECT_API_URL is set" if server else "--record"
        shown.warnings.append(str(missing("prefect", f"{reason}: recording a run")))
    return result, shown


def _fail(code: int, reason: Any) -> int:
    print("hindcast:", printable(" ".join(str(reason).split())), file=sys.stderr)
    return code


@contextmanager
def _terminable() -> Iterator[None]:
    """Raise Terminated on SIGTERM inside the context, if this thread can handle signals."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, terminate)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
