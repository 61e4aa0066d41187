"""Tests of anonymised workloads: no name is left, and schedules are those of the log."""

import hashlib
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

from hindcast.flows.cli import main
from hindcast.pipeline.errors import InputError, StorageError
from hindcast.pipeline.scenarios import load_scenario
from hindcast.pipeline.scenarios.queue.config import QueueConfig
from hindcast.pipeline.scenarios.queue.schedule import read_schedule
from hindcast.pipeline.simulation.batched import BatchedEpisodes
from hindcast.pipeline.simulation.policy import best_feasible
from hindcast.pipeline.traces.ingest import ingest
from hindcast.pipeline.traces.slurm import SlurmSettings
from hindcast.pipeline.workloads import anonymous as an
from hindcast.pipeline.workloads.folder import load_workload
from hindcast.pipeline.workloads.log_names import names_of
from hindcast.pipeline.workloads.schema import Provenance
from hindcast.policies.heuristics import rules
from tests.made_logs import sacct
from tests.pipeline.traces.dialects import DIALECTS, made_jobs, written

KEY = b"0123456789abcdef"
HEADER = "JobID|JobName|User|Account|Partition|QOS|Cluster|State|Submit|Start|End|ElapsedRaw|"
HEADER += "TimelimitRaw|AllocCPUS"
WORDS = ("jessica", "ferdinand", "physics-lab", "chem-lab", "quokka", "wombat", "qos-platypus",
         "site-kiwi", "relax-struct", "md-protein", "7310001", "7310002", "7310003")  # fmt: skip
SWF = """; Computer: NIMBUS-9000
; Installation: Institute of Clouds
; Acknowledge: Prof. Tempest
; UnixStartTime: 1000000000
; TimeZoneString: Europe/Berlin
; MaxProcs: 8
7310001 10 5 60 2 -1 -1 2 120 -1 1 4711 77 3 1 1 -1 -1
7310002 20 5 60 2 -1 -1 2 120 -1 1 4712 77 3 2 1 7310001 30
7310003 40 5 60 2 -1 -1 2 120 -1 1 4711 77 4 2 1 7310002 30
"""


def named_log(path, order=(0, 1, 2)):
    """Write three jobs of two users, in some order of submission; return the path."""
    people = [
        ("7310001", "relax-struct", "jessica", "physics-lab", "quokka"),
        ("7310002", "md-protein", "ferdinand", "chem-lab", "wombat"),
        ("7310003", "relax-struct", "jessica", "physics-lab", "wombat"),
    ]
    lines = [HEADER]
    for place, n in enumerate(order):
        at = 1_709_251_200 + 3600 * place
        lines.append(
            f"{'|'.join(people[n])}|qos-platypus|site-kiwi|COMPLETED|{at}|{at + 60}|{at + 660}|600|"
            "30|4"
        )
    path.write_text("\n".join([*lines, "broken|jessica"]) + "\n")
    return path


def everything(folder):
    """Return all bytes of a folder, the columns of its tables decompressed too."""
    found = b""
    for path in folder.iterdir():
        found += path.name.encode() + path.read_bytes()
        if path.suffix == ".parquet":
            table = pl.read_parquet(path)
            found += repr(pl.read_parquet_metadata(path)).encode() + table.write_csv().encode()
    return found


def made(tmp_path, form, path, **options):
    """Ingest a log with the key KEY; return its result."""
    key = tmp_path / "key"
    if not key.exists():
        key.touch(0o600)
        key.write_bytes(KEY)
    out = tmp_path / f"out-{path.stem}"
    return ingest(form, path, out, anonymise=key, **options)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["slurm", "swf"])
def test_no_name_path_or_digest_is_in_any_byte(tmp_path, form):
    path = tmp_path / "kiwi-2024.txt"
    if form == "swf":
        path.write_text(SWF)
    else:
        named_log(path)
    plain = ingest(form, path, tmp_path / "plain")
    result = made(tmp_path, form, path)
    again = everything(result.folder)
    told = everything(plain.folder)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    words = {"kiwi-2024", str(tmp_path), digest, "7310001", "7310002", "7310003"}
    if form == "swf":
        words |= {"NIMBUS", "Clouds", "Tempest", "Berlin", "4711", "4712", "1000000000"}
    else:
        words |= {*WORDS, "1709251200"}
    gone = {word for word in words if word.encode() in told}
    assert gone >= ({"kiwi-2024", "quokka", "7310001"} if form == "slurm" else {"NIMBUS", "4711"})
    assert {word for word in words if word.encode() in again} == set()
    assert result.quarantined == 0
    assert (result.folder / "manifest.json").is_file()
    assert load_workload(result.folder).provenance.notes[0] == an.ANONYMISED


@pytest.mark.slow
@pytest.mark.parametrize("name", DIALECTS)
def test_no_name_of_any_dialect_is_left(name, tmp_path):
    dialect, jobs = DIALECTS[name], made_jobs(np.random.default_rng(9), 40)
    (tmp_path / "kiwi").mkdir()
    path = written(dialect, jobs, tmp_path / "kiwi")
    result = made(tmp_path, dialect.form, path, settings=dialect.settings)
    words = {"kiwi", "theta", "Berlin", *(f"{job.job_id}.srv" for job in jobs)}
    words |= {getattr(job, key) for job in jobs for key in ("user", "group", "account", "queue")}
    again = everything(result.folder)
    assert {word for word in words if word.encode() in again} == set()
    assert not set(result.workload.tasks["job_id"]) & {str(job.job_id) for job in jobs}
    assert result.workload.tasks.height == 40


@pytest.mark.slow
def test_names_that_are_the_same_stay_the_same_and_others_differ(tmp_path):
    tasks = made(tmp_path, "slurm", named_log(tmp_path / "log.txt")).workload.tasks
    users = tasks["user"].to_list()
    assert users[0] == users[2] != users[1]
    assert tasks["group"].to_list() == tasks["account"].to_list()
    assert tasks["queue"].to_list() == tasks["partition"].to_list()
    assert set(tasks["partition"]) == {1, 2}
    assert tasks["executable"][0] == tasks["executable"][2] != tasks["executable"][1]
    assert tasks["job_id"].n_unique() == 3
    assert (
        tasks.schema == ingest("slurm", tmp_path / "log.txt", tmp_path / "a").workload.tasks.schema
    )


def test_jobs_that_follow_others_follow_their_pseudonyms(tmp_path):
    (tmp_path / "log.swf").write_text(SWF)
    tasks = made(tmp_path, "swf", tmp_path / "log.swf").workload.tasks
    ids = tasks["job_id"].to_list()
    assert tasks["preceding_job"].to_list() == [None, int(ids[0]), int(ids[1])]


@pytest.mark.slow
def test_a_second_log_with_the_key_has_the_same_pseudonyms_and_shift(tmp_path):
    first = made(tmp_path, "slurm", named_log(tmp_path / "a.txt")).workload
    second = made(tmp_path, "slurm", named_log(tmp_path / "b.txt", (1, 2, 0))).workload
    columns = ["job_id", "user", "group", "executable"]
    rows = {row[0]: row for row in first.tasks.select(columns).iter_rows()}
    assert {row[0]: row for row in second.tasks.select(columns).iter_rows()} == rows
    assert names_of(first, "partition") == names_of(second, "partition")
    assert [n for n in first.provenance.notes if n.startswith("UnixStartTime")] == [
        n for n in second.provenance.notes if n.startswith("UnixStartTime")
    ]
    (tmp_path / "key").write_bytes(KEY[::-1])
    other = made(tmp_path, "slurm", tmp_path / "a.txt").workload
    assert not set(other.tasks["user"]) & set(first.tasks["user"])
    assert not set(other.tasks["job_id"]) & set(first.tasks["job_id"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "zone"),
    [
        (KEY, "UTC"),
        pytest.param(b"another key of the site", "Europe/Berlin", marks=pytest.mark.slow),
        pytest.param(KEY * 4, "Asia/Kolkata", marks=pytest.mark.slow),
    ],
)
def test_times_move_by_whole_weeks_of_local_time(tmp_path, key, zone):
    """Hours and weekdays stay as they are on the clock of the machine; the zone is not told."""
    path = named_log(tmp_path / "log.txt")
    (tmp_path / "key").touch(0o600)
    (tmp_path / "key").write_bytes(key)
    plain = ingest("slurm", path, tmp_path / "p", settings=SlurmSettings(time_zone=zone)).workload
    workload = made(tmp_path, "slurm", path, settings=SlurmSettings(time_zone=zone)).workload
    assert workload.tasks["submit_s"].equals(plain.tasks["submit_s"])
    notes = dict(n.split(": ", 1) for n in workload.provenance.notes if ": " in n)
    assert "TimeZoneString" not in notes
    moved = datetime.fromtimestamp(int(notes["UnixStartTime"]), UTC).replace(tzinfo=None)
    local = datetime.fromtimestamp(1_709_251_200, ZoneInfo(zone)).replace(tzinfo=None)
    weeks, rest = divmod((moved - local).total_seconds(), 604_800)
    assert rest == 0
    assert 1 <= abs(weeks) <= 520


def test_times_since_1970_in_the_rows_begin_at_0(tmp_path):
    rows = [line.split() for line in SWF.splitlines() if not line.startswith(";")]
    text = "\n".join(" ".join([r[0], str(1_000_000_000 + int(r[1])), *r[2:]]) for r in rows)
    (tmp_path / "log.swf").write_text(f"; MaxProcs: 8\n{text}\n")
    workload = made(tmp_path, "swf", tmp_path / "log.swf").workload
    assert workload.tasks["submit_s"].to_list() == [0.0, 10.0, 30.0]
    (tmp_path / "later.swf").write_text("; MaxProcs: 8\n" + "\n".join(map(" ".join, rows)) + "\n")
    clock = made(tmp_path, "swf", tmp_path / "later.swf").workload
    assert clock.tasks["submit_s"].to_list() == [10.0, 20.0, 40.0]  # a clock of the log


@pytest.mark.slow
def test_names_of_queues_can_be_kept(tmp_path):
    path = named_log(tmp_path / "log.txt")
    workload = made(tmp_path, "slurm", path, keep=("partition",)).workload
    names = names_of(workload, "partition")
    assert [names[n] for n in workload.tasks["partition"]] == ["quokka", "wombat", "wombat"]
    assert all(name.startswith("partition-") for name in names_of(workload, "queue").values())
    with pytest.raises(InputError, match="did you mean 'partition'"):
        made(tmp_path, "slurm", path, keep=("partitions",))


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["fcfs_easy", "saf_easy", "aged_expected_easy"])
def test_schedules_are_those_of_the_log(tmp_path, rule):
    """The last rule learns the run times of users."""
    path = tmp_path / "log.txt"
    path.write_text(sacct(600, np.random.default_rng(3), processors=48))
    plain = ingest("slurm", path, tmp_path / "plain").workload
    workload = made(tmp_path, "slurm", path).workload
    waits = [waits_of(of, rule) for of in (plain, workload)]
    assert waits[0].max() > 3600
    np.testing.assert_array_equal(*waits)


def waits_of(workload, rule):
    """Return the waits of the whole log under a rule."""
    scenario, policy = load_scenario("queue"), rules("queue")[rule]
    config = QueueConfig(jobs=1, whole=True, run_times=True)
    spec = scenario.spec(config, "wait")
    instance = scenario.instance(config, "wait", workload, 0, np.random.default_rng(0))
    episode = BatchedEpisodes(scenario, spec, [instance])
    while len(episode.live):
        seen = episode.observe()
        scores = np.empty(len(seen.feasible))
        policy.score(seen.context[0], seen.candidates, seen.feasible, np.zeros(0), scores)
        episode.step(np.array([best_feasible(scores, seen.feasible)]))
    return read_schedule(episode.memory(0)[0]).waits


@pytest.mark.slow
def test_a_key_is_made_once_and_never_overwritten(tmp_path):
    path, key = named_log(tmp_path / "log.txt"), tmp_path / "site.key"
    first = ingest("slurm", path, tmp_path / "a", anonymise=key)
    assert first.key_made
    assert key.stat().st_mode & 0o777 == 0o600
    text = key.read_bytes()
    second = ingest("slurm", path, tmp_path / "b", anonymise=key)
    assert not second.key_made
    assert key.read_bytes() == text
    assert second.workload.tasks.equals(first.workload.tasks)
    assert all((tmp_path / "a" / n).read_bytes() == (tmp_path / "b" / n).read_bytes()
               for n in ("tasks.parquet", "manifest.json"))  # fmt: skip
    with pytest.raises(StorageError, match="no key is overwritten"):
        an.make_key(key)


def test_keys_that_cannot_be_kept_secret_are_refused(tmp_path):
    key, out = tmp_path / "key", tmp_path / "out"
    assert an.key_for(key, out) is None
    key.touch(0o600)
    key.write_bytes(b"short")
    with pytest.raises(InputError, match="5 bytes, expected a key of at least 16"):
        an.key_for(key, out)
    key.write_bytes(KEY)
    assert an.key_for(key, out) == KEY
    key.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        an.key_for(key, out)
    with pytest.raises(InputError, match="would be published"):
        an.key_for(out / "key", out)
    with pytest.raises(InputError, match="this is a folder"):
        an.key_for(tmp_path, out)
    with pytest.raises(InputError, match="there is no folder"):
        an.key_for(tmp_path / "none" / "key", out)


def test_notes_that_decide_are_kept_and_other_rows_are_only_counted():
    notes = ("caution: the log does not say how many processors the cluster has: 4 is",
             "Note: kiwi", "caution: a reader's word on kiwi")  # fmt: skip
    told = Provenance(
        "x", counts={"rows_read": 9}, left_out={"kiwi": 2, "quarantined": 3}, notes=notes
    )
    after = an._provenance(told, ["queue: ..."])
    assert after.notes == (an.ANONYMISED, "queue: ...", notes[0])
    assert after.left_out == {"other rows that are no jobs": 2, "quarantined": 3}
    assert after.counts == {"rows_read": 9}


@pytest.mark.slow
def test_the_command_says_what_is_lost_and_what_still_identifies(tmp_path, capsys):
    path, key = named_log(tmp_path / "log.txt"), tmp_path / "site.key"
    words = ["ingest", "slurm", str(path), "--out", str(tmp_path / "o"), "--anonymise", str(key)]
    assert main([*words, "--keep", "qos"]) == 0
    out = capsys.readouterr().out
    assert f"anonymised with the new key in {key}: keep it for the next log" in out
    assert "replaced by pseudonyms: job_id, user, group, executable, account\n" in out
    assert "numbered, without their names: queue (2), partition (2), cluster (1)\n" in out
    assert "with their names: qos\n" in out
    assert "another record of it: submit_s, duration_s, cores," in out
    assert main([*words[:-2], "--keep", "qos"]) == 2
    assert "--keep is for --anonymise" in capsys.readouterr().err


def test_settings_of_the_reader_stay_as_they_are(tmp_path):
    path = named_log(tmp_path / "log.txt")
    workload = made(tmp_path, "slurm", path, settings=SlurmSettings(processors=64)).workload
    assert workload.machines["cores"].to_list() == [64.0]
    assert workload.machines["machine_id"].to_list() == ["0"]
