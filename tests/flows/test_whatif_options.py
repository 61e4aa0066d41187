"""Options of `hindcast whatif`: changed worlds, shakes, own schedulers, parts, and resuming."""

import json
import shlex

import numpy as np
import polars as pl
import pytest

import hindcast
from hindcast.flows.cli import main
from hindcast.flows.runs import plays
from tests.conftest import require_traces
from tests.flows.test_whatif import write_log
from tests.flows.whatif_pages import Answer
from tests.pipeline.whatif.records import FILES, beside_traces, golden

LOGS = {"KTH-SP2-1996-2": "KTH-SP2", "SDSC-SP2-1998-4": "SDSC-SP2"}  # file -> its golden name
TWO = ("processors=+10%", "limit=12h")
FEW = ("--only-rule", "fcfs_easy", "saf_easy", "--shake", "2")


def real(log):
    return require_traces(FILES[log])


def check_changes(page, log, count):
    """Compare every row of changes.csv with its golden row."""
    right = golden("golden/whatif/changes.csv").filter(log=LOGS[log])
    rows = page.table("changes").rows(named=True)
    assert len(rows) == count
    for row in rows:
        of = right.filter(rule=row["policy"], change=row["change"]).row(0, named=True)
        assert [row[name] for name in ("jobs", "removed", "chains")] == [
            of[name] for name in ("jobs", "removed", "chains")
        ]
        for found, expected in (
            ("mean_bounded_slowdown", "mean_bounded_slowdown"),
            ("mean_wait_s", "mean_wait_s"),
            ("same_jobs_slowdown", "same_jobs_unchanged_slowdown"),
            ("same_jobs_wait_s", "same_jobs_unchanged_wait_s"),
        ):
            assert row[found] == pytest.approx(of[expected], rel=1e-9), (row, expected)
        difference = row["mean_bounded_slowdown"] - row["same_jobs_slowdown"]
        assert row["difference"] == pytest.approx(difference, rel=1e-9, abs=1e-9)
        assert row["low"] is None or row["low"] <= row["difference"] <= row["high"]


@pytest.mark.slow
def test_two_changed_worlds_of_a_real_log(tmp_path):
    """The grade is that of the unchanged log, and nothing is compared with the record."""
    options = [word for change in TWO for word in ("--change", change)]
    page = Answer(real("KTH-SP2-1996-2"), tmp_path / "out", "--only-rule", "fcfs_easy", "--shake",
                  0, *options).is_honest()  # fmt: skip
    check_changes(page, "KTH-SP2-1996-2", 2)
    assert page.json["nearness"]["grade"] == "C"
    assert "nothing here is compared with the record" in page.page


@pytest.mark.nightly
@pytest.mark.parametrize("log", LOGS)
def test_every_golden_world_through_the_command(log, tmp_path):
    changes = golden("golden/whatif/changes.csv").filter(log=LOGS[log])["change"].unique()
    changes = [change for change in changes.sort() if change != "none"]
    options = [word for change in changes for word in ("--change", change)]
    rules = ("fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy")
    page = Answer(real(log), tmp_path / "out", "--only-rule", *rules, "--shake", 0, *options)
    check_changes(page.is_honest(), log, len(changes) * len(rules))


@pytest.mark.nightly
def test_every_golden_draw_of_the_shakes_through_the_command(tmp_path):
    """The standard deviations beside the values of the run are those of the same draws."""
    rules = ("fcfs_easy", "sjf_easy", "saf_easy", "lxf_easy", "wfp3_easy", "unicef_easy")
    page = Answer(real("KTH-SP2-1996-2"), tmp_path / "out", "--only-rule", *rules, "--shake", 20)
    draws = golden("golden/whatif/shake_draws.csv").filter(log="KTH-SP2").rename({"rule": "policy"})
    both = page.is_honest().table("shake").join(draws, on=("policy", "draw"), suffix="_right")
    assert both.height == len(rules) * 20
    for name in ("mean_bounded_slowdown", "mean_wait_s"):
        assert both[name].to_numpy() == pytest.approx(both[f"{name}_right"].to_numpy(), rel=1e-9)
    right = golden("golden/whatif/shake.csv").filter(log="KTH-SP2")
    for row in right.rows(named=True):
        of = page.table().filter(scope="run", policy=row["rule"], metric="mean_bounded_slowdown")
        assert of["shake_sd"][0] == pytest.approx(row["slowdown_sd"], rel=1e-9)


def conf(setting, folder, reservations):
    """Return a slurm.conf with a golden setting; "1" reserves for the first job alone."""
    text = beside_traces(f"golden/whatif/conf/{setting}.conf").read_text()
    if reservations == "1":
        text += "\nSchedulerParameters=bf_job_part_count_reserve=1\n"
    file = folder / f"{setting}-{reservations}.conf"
    file.write_text(text)
    return file


def check_mine(page, log, setting, reservations):
    right = golden("golden/whatif/multifactor.csv").filter(
        log=LOGS[log], setting=setting, reservations=reservations
    )
    for metric in ("mean_bounded_slowdown", "mean_wait_s"):
        assert page.mean("mine", metric) == pytest.approx(right[metric][0], rel=1e-9)


@pytest.mark.slow
def test_the_reader_s_own_settings_are_a_policy(tmp_path):
    log = "KTH-SP2-1996-2"
    file = conf("age_small", tmp_path, "1")
    options = ("--mine", file, "--only-rule", "fcfs_easy", "--shake", 0)
    page = Answer(real(log), tmp_path / "out", *options).is_honest()
    check_mine(page, log, "age_small", "1")
    kinds = page.json["policies"]["kinds"]
    assert set(kinds) == {"recorded", "fcfs_easy", "mine"}


@pytest.mark.nightly
@pytest.mark.parametrize("log", LOGS)
def test_nine_settings_in_both_modes_through_the_command(log, tmp_path):
    right = golden("golden/whatif/multifactor.csv").filter(log=LOGS[log])
    assert right.height == 18
    for setting, reservations in right.select("setting", "reservations").iter_rows():
        file = conf(setting, tmp_path, reservations)
        options = ("--mine", file, "--only-rule", "fcfs_easy", "--shake", 0)
        check_mine(Answer(real(log), tmp_path / "out", *options), log, setting, reservations)


@pytest.mark.nightly
def test_a_log_of_multifactor_priority_is_known_by_its_settings(tmp_path):
    """No usual order explains it; small jobs first, age and fair share of equal users do."""
    file = tmp_path / "slurm.conf"
    file.write_text(
        "PriorityType=priority/multifactor\nPriorityWeightAge=1000\nPriorityMaxAge=7-0\n"
        "PriorityWeightJobSize=1000\nPriorityFavorSmall=YES\nPriorityWeightFairshare=10000\n"
        "PriorityFlags=NO_FAIR_TREE\nPriorityDecayHalfLife=7-0\n"
        "SchedulerParameters=bf_job_part_count_reserve=1\n"
    )
    log = beside_traces("cases/whatif/sdsc-a.swf.gz")
    page = Answer(log, tmp_path / "out", "--mine", file, *FEW).is_honest()
    assert page.json["nearness"]["known"] == "mine easy"
    assert page.json["nearness"]["numbers"]["explained"] == 1.0
    assert (page.jobs("mine")["wait_s"] == page.jobs("recorded")["wait_s"]).all()
    assert "the scheduler of --mine" in page.page


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("log") / "jobs.swf")


@pytest.fixture(scope="module")
def whole(log, tmp_path_factory):
    """Return the page of all jobs, and how the command was called."""
    return Answer(log, tmp_path_factory.mktemp("whole") / "out", *FEW)


def spy(monkeypatch):
    """Return a list that gets the scope and policy of everything that is played."""
    done, play = [], plays._play
    monkeypatch.setattr(
        plays, "_play", lambda scope, of, tell: done.append((scope.name, of.name)) or
        play(scope, of, tell),
    )  # fmt: skip
    return done


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "run.json"
    }  # fmt: skip


@pytest.mark.slow
def test_a_second_call_plays_nothing_again_and_gives_the_same_bytes(whole, log, monkeypatch):
    before, done = content(whole.out), spy(monkeypatch)
    Answer(log, whole.out, *FEW)
    assert done == []
    assert content(whole.out) == before


@pytest.mark.slow
def test_a_killed_call_goes_on_to_the_same_bytes(whole, log, tmp_path, monkeypatch):
    """What was played is kept; the play that was cut off is made again."""
    played, done, play = [], [], plays._play

    def killed(scope, policy, tell):
        if len(played) == 4:
            raise KeyboardInterrupt
        played.append((scope.name, policy.name))
        return play(scope, policy, tell)

    # The command line is on the page, so that both calls need the same words.
    monkeypatch.chdir(tmp_path)
    first = Answer(log, "out", *FEW)
    expected = content(first.out)
    with monkeypatch.context() as patch:
        patch.setattr(plays, "_play", killed)
        try:
            code = main(["whatif", str(log), "--out", "cut", *FEW])
        except KeyboardInterrupt:
            code = 130
        assert code not in {0, 2}
    assert not (tmp_path / "cut" / "whatif.html").exists()
    done = spy(monkeypatch)
    Answer(log, "cut", *FEW)
    assert not set(done) & set(played)
    found = content(tmp_path / "cut")
    assert found.keys() == expected.keys()
    for name, data in found.items():
        assert data.replace(b"--out cut", b"--out out").replace(b"cut/", b"out/") == expected[name]


@pytest.mark.slow
def test_a_changed_file_of_settings_plays_only_mine_again(log, tmp_path, monkeypatch):
    file = tmp_path / "slurm.conf"
    text = "PriorityType=priority/multifactor\nPriorityWeightJobSize={}\n"
    file.write_text(text.format(0))
    options = ("--mine", file, *FEW)
    plain = Answer(log, tmp_path / "out", *options).mean("mine")
    file.write_text(text.format(1000))
    done = spy(monkeypatch)
    page = Answer(log, tmp_path / "out", *options)
    assert {policy for _, policy in done} == {"mine"}
    assert page.mean("mine") != plain


@pytest.mark.slow
def test_a_user_selects_who_is_counted_and_all_jobs_run(whole, log, tmp_path):
    page = Answer(log, tmp_path / "out", "--where", "user=3", *FEW).is_honest()
    found, everybody = page.jobs("saf_easy"), whole.jobs("saf_easy")
    assert set(found["user"]) == {"3"}
    assert found.equals(everybody.filter(pl.col("user") == "3"))
    assert page.json["jobs"]["used"] == whole.json["jobs"]["used"]
    groups = set(whole.table("groups").filter(kind="user")["group"])
    assert groups < {"rest", *(f"user {number}" for number in range(1, 8))}  # the log's numbers


@pytest.mark.slow
def test_times_select_the_part_of_the_log_that_is_the_run(log, tmp_path):
    begin, end = 20 * 86_400, 90 * 86_400
    page = Answer(log, tmp_path / "out", "--where", f"{begin}..{end}", *FEW).is_honest()
    came = page.jobs("recorded").filter(pl.col("submit_s") >= begin)
    assert came["submit_s"].max() < end
    assert came.height > 200


@pytest.mark.slow
def test_the_function_does_what_the_command_does(tmp_path, monkeypatch):
    """It makes the same files, and names the command that makes them."""
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "jobs.swf", partitions=2)
    (tmp_path / "slurm.conf").write_text("PriorityType=priority/basic\n")
    found = hindcast.whatif(
        "jobs.swf", "out", only_rules=["fcfs_easy", "saf_easy"], mine="slurm.conf", shake=2,
        changes=["processors=+10%", "limit=12h,requests=exact"], pools={"1": 16, "2": 16},
        where=["user=1+2"], without=["0..86400"], policies=["f2_easy"],
        without_rules=["lxf_easy"],
    )  # fmt: skip
    first = content(tmp_path / "out")
    command = json.loads(first["whatif.json"])["command"]
    assert (tmp_path / "out").rename(tmp_path / "kept")
    assert main(shlex.split(command)[1:]) == 0
    assert content(tmp_path / "out") == first
    assert found.badge == json.loads(first["whatif.json"])["badge"] == found.lines[1]
    assert found.page.read_bytes() == first["whatif.html"]
    assert set(pl.read_csv(first["changes.csv"])["policy"]) == {
        "fcfs_easy", "saf_easy", "f2_easy", "mine"
    }  # fmt: skip


@pytest.mark.slow
def test_rules_can_be_left_out_and_alone(log, tmp_path):
    names = ("--without-rule", "conservative", "saf_clairvoyant", "lxf_clairvoyant", "wfp3_easy")
    page = Answer(log, tmp_path / "out", *names, "--shake", 0)
    kinds = page.json["policies"]["kinds"]
    assert not set(kinds) & set(names)
    assert {"recorded", "fcfs_easy", "unicef_easy", "steady_area_easy"} <= set(kinds)
    assert "Nothing was shaken" in " ".join(page.json["reasons"]) or page.json["badge"] != "Gain"


@pytest.mark.slow
def test_the_tables_beside_the_page_have_the_columns_that_are_stable(whole):
    """As the documentation of the page names them."""
    assert whole.jobs("recorded").columns == [
        "job", "name", "part", "submit_s", "eligible_s", "start_s", "end_s", "processors",
        "requested_s", "user", "queue", "partition", "account", "machine", "counted", "wait_s",
        "bounded_slowdown",
    ]  # fmt: skip
    assert whole.table().columns == [
        "scope", "policy", "kind", "metric", "unit", "mean", "low", "high", "blocks", "reference",
        "difference", "difference_low", "difference_high", "shake_sd",
    ]  # fmt: skip
    assert whole.table("shake").columns == [
        "policy", "draw", "mean_bounded_slowdown", "mean_wait_s"
    ]  # fmt: skip
    jobs = whole.jobs("saf_easy")
    assert jobs["wait_s"].mean() == pytest.approx(whole.mean("saf_easy", "mean_wait_s"), rel=1e-12)
    at = np.concatenate([jobs["start_s"], jobs["end_s"]])
    by = np.concatenate([jobs["processors"], -jobs["processors"].to_numpy()])
    held = pl.DataFrame({"at": at, "by": by}).group_by("at").sum().sort("at")["by"].cum_sum()
    assert held.max() <= 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--change", "procesors=+10%"], "did you mean 'processors"),
        (["--change", "processors=ten"], "processors="),
        (["--change", "limit=soon"], "limit"),
        (["--change", "requests=exakt"], "expected exact, 2x, 2x,capped or error-20%"),
        (["--shake", "-1"], "--shake"),
        (["--shake", "few"], "--shake"),
        (["--mine", "slrum.conf"], "did you mean 'slurm.conf'"),
        (["--mine", "empty.conf"], "empty.conf"),
        (["--mine", "rules.py:ordr"], "did you mean 'order'"),
        (["--pools", "1"], "expected PARTITION=PROCESSORS"),
        (["--pools", "1=8,1=8"], "partition 1 has two pools"),
        (["--pools", "1=8,3=8"], "no job is in partition '3'"),
        (["--pools", "1=8"], "are in no pool"),
        (["--where", "usr=3"], "did you mean 'user=NAME'"),
        (["--where", "user=99"], "--where user=99: no such job"),
        (["--where", "partition=1"], "the processors that remain must be known"),
        (["--where", "..4"], "without FROM, the run begins at second"),
        (["--where", "9..4"], "the end is not after the begin"),
        (["--where", "2024-01-01..2024-02-01"], "does not say when its clock began"),
        (["--without", "monday"], "expected FROM..TO"),
        (["--without-rule", "saf_esy"], "did you mean 'saf_easy'"),
        (["--only-rule", "saf_esy"], "did you mean 'saf_easy'"),
        (["--train", "--where", "partition=1", "--pools", "1=8,2=8"], "--train plays whole logs"),
    ],
)
def test_bad_input_is_one_line_that_names_what_was_expected(
    tmp_path, capsys, monkeypatch, options, message
):
    write_log(tmp_path / "jobs.swf", jobs=120, weeks=2, partitions=2)
    (tmp_path / "slurm.conf").write_text("PriorityType=priority/basic\n")
    (tmp_path / "empty.conf").write_text("")
    (tmp_path / "rules.py").write_text("def order(w, r, n):\n    return w\n")
    monkeypatch.chdir(tmp_path)
    assert main(["whatif", "jobs.swf", "--out", "out", *options]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("readi")]
    assert len(lines) == 1, lines
    assert message in lines[0]
    assert not (tmp_path / "out" / "whatif.html").exists()
