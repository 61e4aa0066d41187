"""Ten damaged logs of batch systems: every damaged line is named, all others are read."""

import gzip

import pytest

from hindcast.pipeline.traces import slurm
from hindcast.pipeline.traces.batch_systems import pbs
from tests.pipeline.traces import test_pbs, test_slurm

HEADER = "|".join(test_slurm.COLUMNS)
GOOD = [test_slurm.row(str(n)) for n in range(4)]
LONG = test_slurm.row("long", User="u" * 300)
RECORDS = [test_pbs.record(str(n)) for n in range(4)]


def lines(*rows: str) -> bytes:
    return ("\n".join([HEADER, *rows]) + "\n").encode()


# name -> bytes of the file, jobs in it, and the bad lines with the first words of their reasons
SLURM = {
    "cut in its last line": (
        lines(*GOOD)[:-40], ["0", "1", "2"], [(5, "17 columns, expected 18")]),
    "two lines run together": (
        lines(GOOD[0], GOOD[1] + GOOD[2], GOOD[3]), ["0", "3"],
        [(3, "35 columns, expected 18")]),
    "a line broken in two": (
        lines(GOOD[0], GOOD[1][:30], GOOD[1][30:], GOOD[2]), ["0", "2"],
        [(3, "6 columns, expected 18"), (4, "13 columns, expected 18")]),
    "bytes that are no UTF-8": (
        lines(*GOOD).replace(b"2|ann", b"2|\xff\xfe"), ["0", "1", "3"],
        [(4, "the row is not valid UTF-8")]),
    "a control character": (
        lines(*GOOD).replace(b"1|ann", b"1|an\x01n"), ["0", "2", "3"],
        [(3, "a control character (0x01) in the row")]),
    "carriage returns, blank lines and a mark": (
        b"\xef\xbb\xbf" + lines(*GOOD).replace(b"\n", b"\r\n\r\n"), ["0", "1", "2", "3"], []),
    "lines of an error in between": (
        lines(GOOD[0], "sacct: error: slurm_persist_conn_open", GOOD[1]), ["0", "1"],
        [(3, "1 column, expected 18")]),
    "lines that are there twice": (
        lines(*GOOD, GOOD[2], GOOD[0]), ["0", "1", "2", "3"],
        [(6, "a repetition: job_id 2"), (7, "a repetition: job_id 0")]),
    "two columns exchanged": (
        lines(GOOD[0], test_slurm.row("1", State=test_slurm.FIRST, Submit="COMPLETED")), ["0"],
        [(3, "State is '1709280000', expected a state of Slurm")]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", SLURM)
def test_a_damaged_log_of_slurm_gives_its_sound_jobs(name, tmp_path):
    content, jobs, bad = SLURM[name]
    for packed in (False, True):
        path = tmp_path / "log"
        path.write_bytes(gzip.compress(content) if packed else content)
        load, quarantine = slurm.read(path)
        assert load.tasks["job_id"].to_list() == jobs
        assert quarantine["line"].to_list() == [line for line, _ in bad]
        for reason, (_, words) in zip(quarantine["reason"], bad, strict=True):
            assert reason.startswith(words)
        assert load.provenance.left_out.get("quarantined", 0) == len(bad)


@pytest.mark.slow
def test_a_damaged_log_of_pbs_gives_its_sound_jobs(tmp_path):
    """A server that stops leaves half a line, and may go on in it."""
    path = tmp_path / "log"
    broken = RECORDS[1][:100] + RECORDS[2]
    content = "\n".join([RECORDS[0], broken, RECORDS[3][:40], RECORDS[3]]).encode()
    path.write_bytes(content + b"\n\xff;E\n")
    load, quarantine = pbs.read(path)
    assert load.tasks["job_id"].to_list() == ["0.server", "3.server"]
    assert quarantine.select("line", "reason").rows() == [
        (2, "two records in one line"),
        (3, "ctime, qtime is missing, expected seconds since 1970"),
        (5, "the row is not valid UTF-8"),
    ]


@pytest.mark.slow
def test_a_long_bad_row_is_kept_in_part(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(lines(GOOD[0], LONG + "|"))
    _, quarantine = slurm.read(path)
    (text,) = quarantine["text"]
    assert text == (LONG + "|")[:200]
