"""Logs with damaged lines in each dialect: no traceback, and every row is accounted for."""

import numpy as np
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.workloads.log_caveats import log_caveats
from hindcast.pipeline.workloads.schema import damage
from tests.pipeline.traces.dialects import DIALECTS, made_jobs, written

TEXTS = (
    "", "-1", "0", "1e400", "nan", "inf", "-inf", "99999999999999999999", "1.5", "0x10", "NULL",
    "None assigned", "Unknown", "é", "\x01", "\ufffd", '"', '""', "'", "|", ",", ";", ":",
    "\t", "=", "a=b", "4294967295", "-0", "1970-01-01T00:00:00", "2024-13-45T99:99:99",
    "9999-12-31T23:59:59", "365-00:00:00", "{", "}", "[", "]", "\\", "null", "true", "#", " ",
)  # fmt: skip


def damaged(line: bytes, rng: np.random.Generator) -> bytes:
    """Return a line with one to three faults."""
    for _ in range(int(rng.integers(1, 4))):
        at, to = sorted(rng.integers(0, len(line) + 1, 2).tolist())
        text = TEXTS[int(rng.integers(len(TEXTS)))].encode()
        line = (
            line[:at],  # cut off
            line[:at] + line[to:],  # a piece is missing
            line[:at] + text + line[at:],  # a piece too many
            line[:at] + text + line[to:],
            line[:at] + line[at:to] * 2 + line[to:],  # written twice
            line[:at] + bytes([int(rng.integers(256))]) + line[at + 1 :],
            line[:at] + b"\n" + line[at:],
            _with_field(line, text, rng),
        )[int(rng.integers(8))]
    return line


def _with_field(line: bytes, text: bytes, rng: np.random.Generator) -> bytes:
    """Replace what is between two separators, the most frequent sign of them."""
    sign = max((b"|", b",", b";", b":", b"=", b" ", b"\t"), key=line.count)
    parts = line.split(sign)
    parts[int(rng.integers(len(parts)))] = text
    return sign.join(parts)


@pytest.mark.parametrize(
    ("logs", "jobs"),
    [
        (1, 40),
        pytest.param(6, 100, marks=pytest.mark.slow),
        pytest.param(110, 400, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("name", [name for name in DIALECTS if name != "Parquet"])  # no lines
def test_damaged_lines_are_named_or_refused_and_every_row_is_counted(name, logs, jobs, tmp_path):
    """A few hundred lines by day, 20,000 at night; in every fourth log also the header."""
    dialect, rng = DIALECTS[name], np.random.default_rng([sum(name.encode()), jobs])
    form, read, lines_damaged = FORMATS[dialect.form], 0, 0
    refusals: list[str] = []
    for log in range(1, logs + 1):
        path = written(dialect, made_jobs(rng, jobs), tmp_path)
        data = path if path.suffix != ".toml" else next(
            other for other in tmp_path.iterdir() if other != path
        )  # fmt: skip
        lines = data.read_bytes().split(b"\n")
        share = (0.05, 0.3, 0.6, 1.0)[log % 4] * min(1.0, jobs / len(lines))  # of jobs, not lines
        for at, line in enumerate(lines):
            if (at or log % 4 == 3) and rng.random() < share:
                lines[at] = damaged(line, rng)
                lines_damaged += 1
        data.write_bytes(b"\n".join(lines))
        try:
            workload, quarantine = form.reading(path, dialect.settings)
        except TraceError as error:
            refusals.append(str(error))
            continue
        read += 1
        told = workload.provenance
        assert told.counts["rows_read"] == workload.tasks.height + sum(told.left_out.values())
        assert quarantine.height == told.left_out.get("quarantined", 0)
        assert damage(workload.tasks, workload.machines) is None
        assert all(caveat.text for caveat in log_caveats(workload))
    assert all(str(tmp_path) in refusal for refusal in refusals)
    assert dialect.one_value or read >= logs // 4, refusals
    assert lines_damaged >= {40: 5, 100: 200, 400: 20_000}[jobs]
