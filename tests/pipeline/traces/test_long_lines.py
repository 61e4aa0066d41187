"""Traces that would hang a reader or fill the memory: FIFOs, and lines without an end."""

import gzip
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.first_look import require_lines
from tests.pipeline.traces.test_azure2020 import VM_TYPE, database
from tests.pipeline.traces.test_swf import HEADER, row

MIB = 1 << 20
READ = """
import resource, sys
from pathlib import Path
from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import FORMATS
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    FORMATS["swf"].read(Path(sys.argv[1]))
except TraceError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["swf", "azure2020", "alibaba2017"])
def test_a_fifo_is_refused(name, tmp_path):
    """Opening it would wait for somebody who writes."""
    os.mkfifo(tmp_path / "log.swf")
    script = "import sys; from pathlib import Path; from hindcast.pipeline.traces import FORMATS\n"
    script += "FORMATS[sys.argv[1]].read(Path(sys.argv[2]))"
    done = subprocess.run(
        [sys.executable, "-c", script, name, str(tmp_path / "log.swf")], capture_output=True,
        text=True, timeout=60, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert "TraceError" in done.stderr
    assert "this is a device, FIFO or socket, expected the file" in done.stderr


@pytest.mark.slow
def test_a_line_without_end_is_refused_before_it_is_held(tmp_path):
    """200 MiB in one line of a file of 200 kB: the process grows by less than half of that."""
    path = tmp_path / "log.swf.gz"
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write((HEADER + row(1) + "\n").encode())
        for _ in range(200):
            out.write(b"1" * MIB)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, timeout=120,
        check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    message, grown_kib = done.stdout.splitlines()
    assert f"{path}: line 7 is longer than 1,048,576 bytes" in message
    assert int(grown_kib) < 100 * 1024


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("lengths", "line"),
    [((MIB,), 0), ((MIB + 1,), 1), ((3, MIB, 5), 0), ((3, 2 * MIB - 5, 4), 2), ((MIB, MIB), 0),
     ((5, 0, 0, 3 * MIB), 4), ((MIB - 1, 1, MIB + 1), 3)],
)  # fmt: skip
def test_the_limit_is_exact_wherever_blocks_end(lengths, line, packed, tmp_path):
    path = tmp_path / "t"
    content = b"\n".join(b"1" * length for length in lengths)
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    if not line:
        require_lines(path)
        return
    with pytest.raises(TraceError, match=f"line {line} is longer than 1,048,576 bytes"):
        require_lines(path)


def test_other_compressions_are_refused(tmp_path):
    """Polars would inflate them, whatever the first look says."""
    path = tmp_path / "t"
    path.write_bytes(zlib.compress(b"1 2 3\n" * 1000))
    with pytest.raises(TraceError, match="compressed, expected plain text or gzip"):
        require_lines(path)


def test_a_long_value_of_a_database_is_refused(tmp_path):
    view = "CREATE VIEW vm AS SELECT 1 vmId, hex(zeroblob(5000000)) tenantId, 1 vmTypeId, "
    path = database(tmp_path / "d", create=(VM_TYPE, view + "0 priority, 0 starttime, 1 endtime"))
    with pytest.raises(TraceError, match="damaged or foreign"):
        FORMATS["azure2020"].read(path)
