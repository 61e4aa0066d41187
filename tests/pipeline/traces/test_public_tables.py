"""Public tables are recognised by their columns, and read as meant. All values are made."""

import json

import polars as pl
import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.traces import table
from hindcast.pipeline.traces.tables.known import known_tables
from hindcast.pipeline.traces.tables.mapping import COLUMNS
from hindcast.pipeline.traces.tables.proposal import propose
from hindcast.pipeline.traces.tables.toml import toml_of
from hindcast.pipeline.workloads.log_caveats import log_caveats
from tests.conftest import require_traces


def read(path, title):
    """Return the tasks of a table by the mapping that is proposed for it."""
    found = propose(path)
    assert title in found.known
    assert not [text for text in found.unsure if "which is needed" in text]
    mapping = path.with_name("mapping.toml")
    mapping.write_text(toml_of(found, path.name))
    workload, quarantine = table.read(mapping)
    assert quarantine.is_empty()
    return workload.tasks


def test_every_known_table_names_fields_and_columns_that_it_has():
    assert len(known_tables()) >= 17
    for known in known_tables():
        assert known.columns.keys() <= set(COLUMNS)
        assert set(known.headless) <= set(known.has)
        assert bool(known.refuse) != bool(known.columns)


def test_helios_waits_are_no_queues(tmp_path):
    (tmp_path / "cluster_log.csv").write_text(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,"
        "queue\n"
        "j1,u1,vcA,8,32,1,COMPLETED,2020-04-01 00:00:13,2020-04-01 00:01:13,2020-04-01 00:31:13,"
        "1800,60\n"
        "j2,u2,vcB,0,4,1,CANCELLED,2020-04-01 00:05:00,2020-04-01 00:05:00,2020-04-01 00:06:00,60,"
        "0\n"
        "j3,u2,vcB,1,4,1,CANCELLED,2020-04-01 00:07:00,None,2020-04-01 00:08:00,0,60\n"
    )
    tasks = read(tmp_path / "cluster_log.csv", "Helios")
    assert tasks.select("job_id", "duration_s", "wait_s", "cores", "gpus", "queue").rows() == [
        ("j1", 1800.0, 60.0, 32.0, 8, 1), ("j2", 60.0, 0.0, 4.0, 0, 2)]  # fmt: skip


def test_acme_run_times_are_ends_less_starts(tmp_path):
    (tmp_path / "trace_kalos.csv").write_text(
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,"
        "submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
        "d1,uf1,2,16,240,1000,100.0,Other,FAILED,2023-05-17 11:00:00+08:00,"
        "2023-05-17 11:00:10+08:00,2023-05-17 11:00:40+08:00,,,40,10.0,480.0\n"
    )
    tasks = read(tmp_path / "trace_kalos.csv", "Acme")
    assert tasks.select("duration_s", "wait_s", "cores", "gpus", "nodes", "status").row(0) == (
        30.0, 10.0, 240.0, 16, 2, 0)  # fmt: skip


@pytest.mark.slow
def test_philly_jobs_run_from_the_first_attempt_to_the_last(tmp_path):
    gpus = [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0"]}]
    first = {"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 07:05:00", "detail": gpus}
    last = {"start_time": "2017-10-09 07:06:00", "end_time": "2017-10-09 08:00:00", "detail": gpus}
    job = {"vc": "v", "user": "u", "submitted_time": "2017-10-09 07:01:00"}
    jobs = [
        {**job, "status": "Pass", "jobid": "a1", "attempts": [first, last]},
        {**job, "status": "Killed", "jobid": "a2", "attempts": []},
        {**job, "status": "Failed", "jobid": "a3", "attempts": [first]},
    ]
    (tmp_path / "cluster_job_log").write_text(json.dumps(jobs))
    tasks = read(tmp_path / "cluster_job_log", "Philly")
    assert tasks.select(
        "job_id", "wait_s", "duration_s", "cores", "gpus", "nodes", "status"
    ).rows() == [("a1", 60.0, 3480.0, 3.0, 3, 2, 1), ("a3", 60.0, 180.0, 3.0, 3, 2, 0)]
    path = tmp_path / "mapping.toml"
    told = {caveat.code for caveat in log_caveats(table.read(path)[0])}
    assert "few_jobs" in told
    assert "gpus" not in told  # jobs compete for them, as for processors
    path.write_text(path.read_text().replace(".gpus.count", ".count", 1))  # cores
    assert "gpus" in {caveat.code for caveat in log_caveats(table.read(path)[0])}


@pytest.mark.parametrize("header", [True, False])
def test_alibaba_2020_tasks_hold_what_all_instances_do(tmp_path, header):
    names = ",".join(next(t.has for t in known_tables() if "pai_task_table" in t.title)) + "\n"
    (tmp_path / "pai_task_table.csv").write_text(
        (names if header else "")
        + "aa,worker,2.0,Terminated,100.0,400.0,600.0,29.0,50.0,T4\n"
        + "aa,ps,1.0,Terminated,100.0,410.0,150.0,8.0,,\n"
        + "bb,worker,1.0,Running,200.0,,600.0,29.0,100.0,V100\n"
    )
    tasks = read(tmp_path / "pai_task_table.csv", "Alibaba 2020")
    columns = ("cores", "gpus", "gpus:T4", "memory_mib", "duration_s", "wait_s")
    assert tasks.select(columns).rows() == [
        (12.0, 1, 1.0, 2 * 29 * 1024.0, 300.0, None),
        (1.5, None, None, 8 * 1024.0, 310.0, None),
    ]


def test_alibaba_2018_tasks_are_found_without_a_header(tmp_path):
    (tmp_path / "batch_task.csv").write_text(
        "M1,3,j_1,1,Terminated,200,260,100,0.5\nR2_1,1,j_1,1,Terminated,260,300,50,0.3\n"
    )
    tasks = read(tmp_path / "batch_task.csv", "Alibaba 2018")
    assert tasks.select("submit_s", "duration_s", "cores", "wait_s").rows() == [
        (200.0, 60.0, 3.0, None), (260.0, 40.0, 0.5, None)]  # fmt: skip


def test_alibaba_2023_pods_hold_shares_of_gpus_of_a_type(tmp_path):
    (tmp_path / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time\n"
        "p0,6000,12288,1,460,,LS,Succeeded,10,110,20\n"
        "p1,88000,327680,8,1000,G2,Burstable,Failed,30,90,30\n"
        "p2,500,1024,0,0,,BE,Pending,40,,\n"
    )
    tasks = read(tmp_path / "pods.csv", "Alibaba 2023")
    assert tasks.select(
        "job_id", "cores", "gpus", "gpus:G2", "memory_mib", "wait_s", "duration_s"
    ).rows() == [("p0", 6.0, 0.46, 0.0, 12288.0, 10.0, 90.0),
                 ("p1", 88.0, 8.0, 8.0, 327680.0, 0.0, 60.0)]  # fmt: skip


@pytest.mark.slow
def test_the_real_pods_of_alibaba_2023_are_counted_as_polars_counts_them(tmp_path):
    path = require_traces("alibaba_gpu2023/openb_pod_list_default.csv.gz")
    raw = pl.read_csv(path)
    over = raw.filter(pl.col("pod_phase").is_in(["Succeeded", "Failed"]))
    over = over.filter(pl.col("scheduled_time").is_not_null() | (pl.col("pod_phase") != "Failed"))
    found = propose(path)
    (tmp_path / "m.toml").write_text(toml_of(found, str(path)))
    workload, quarantine = table.read(tmp_path / "m.toml")
    ran = over.filter(pl.col("scheduled_time").is_not_null(), pl.col("deletion_time").is_not_null())
    assert workload.tasks.height == ran.height
    assert workload.tasks.height + sum(workload.provenance.left_out.values()) == raw.height
    assert quarantine.height == workload.provenance.left_out.get("quarantined", 0)
    assert workload.tasks["cores"].sum() == pytest.approx(ran["cpu_milli"].sum() / 1000)
    gpus = (ran["num_gpu"] * ran["gpu_milli"]).sum() / 1000
    assert workload.tasks["gpus"].sum() == pytest.approx(gpus)
    assert workload.tasks["memory_mib"].sum() == pytest.approx(ran["memory_mib"].sum())


@pytest.mark.slow
def test_the_real_tasks_of_alibaba_2018_are_counted_as_polars_counts_them(tmp_path):
    path = require_traces("alibaba2018/dags_set0_6600.csv")
    raw = pl.read_csv(path, null_values=["nan"], infer_schema_length=None)
    over = raw.filter(pl.col("status").is_in(["Terminated", "Failed"]))
    ran = over.filter(pl.col("plan_cpu").is_not_null(), pl.col("instance_num").is_not_null())
    (tmp_path / "m.toml").write_text(toml_of(propose(path), str(path)))
    workload = table.read(tmp_path / "m.toml")[0]
    assert workload.tasks.height == ran.height
    assert workload.tasks.height + sum(workload.provenance.left_out.values()) == raw.height
    held = (ran["plan_cpu"] * ran["instance_num"]).sum() / 100
    assert workload.tasks["cores"].sum() == pytest.approx(held)


def test_google_2019_events_become_the_last_run_of_an_instance(tmp_path):
    rows = [
        (0, 0, 7, 0), (1_000_000, 3, 7, 0), (2_000_000, 4, 7, 0), (2_500_000, 3, 7, 0),
        (9_500_000, 6, 7, 0), (250_000, 0, 7, 1), (500_000, 3, 7, 1), (5_500_000, 7, 7, 1),
        (300_000, 0, 8, 0), (400_000, 3, 8, 0), (500_000, 0, 9, 0),
    ]  # fmt: skip
    lines = [f"{t},{kind},{c},{i},200,0.0125,0.01" for t, kind, c, i in rows]
    header = ",".join(next(t.has for t in known_tables() if "instance_events" in t.title))
    (tmp_path / "instance_events.csv").write_text("\n".join([header, *lines]) + "\n")
    tasks = read(tmp_path / "instance_events.csv", "Google 2019")
    assert tasks.sort("job_id").select(
        "job_id", "submit_s", "wait_s", "duration_s", "cores", "status"
    ).rows() == [("7/0", 0.0, 2.5, 7.0, 12.5, 1), ("7/1", 0.25, 0.25, 5.0, 12.5, 5)]
    left_out = table.read(tmp_path / "mapping.toml")[0].provenance.left_out
    assert left_out == {
        "not started when the log was written": 1,
        "still running when the log was written": 1,
    }


def test_azure_machines_begin_when_they_are_created(tmp_path):
    (tmp_path / "vmtable.csv").write_text(
        "v1,s1,d1,0,600,99.3,3.4,7.1,Delay-insensitive,4,32\n"
        "v2,s1,d1,300,900,9.3,3.4,7.1,Unknown,2,4\n"
    )
    tasks = read(tmp_path / "vmtable.csv", "Azure public dataset")
    columns = ("job_id", "submit_s", "duration_s", "cores", "memory_mib", "wait_s")
    assert tasks.select(columns).rows() == [
        ("v1", 0.0, 600.0, 4.0, 32768.0, None),
        ("v2", 300.0, 600.0, 2.0, 4096.0, None),
    ]


def test_azure_invocations_begin_before_their_end(tmp_path):
    (tmp_path / "invocations.csv").write_text(
        "app,func,end_timestamp,duration\na1,f1,10.5,2.5\na1,f2,11.0,0.25\n"
    )
    tasks = read(tmp_path / "invocations.csv", "Azure Functions 2021")
    assert tasks.select("submit_s", "duration_s", "cores").rows() == [
        (8.0, 2.5, 1.0), (10.75, 0.25, 1.0)]  # fmt: skip


@pytest.mark.slow
def test_pm100_limits_are_in_minutes(tmp_path):
    pl.DataFrame({
        "job_id": [1, 2], "submit_time": ["2020-05-01 10:00:00+00:00", "2020-05-01 10:01:00+00:00"],
        "eligible_time": ["2020-05-01 10:00:00+00:00", "2020-05-01 10:01:00+00:00"],
        "start_time": ["2020-05-01 10:05:00+00:00", "2020-05-01 10:01:00+00:00"],
        "end_time": ["2020-05-01 10:35:00+00:00", "2020-05-01 10:02:00+00:00"],
        "run_time": [1800, 60], "time_limit": [60, 1440], "num_cores_alloc": [128, 4],
        "num_cores_req": [128, 4], "num_nodes_alloc": [1, 1], "num_gpus_alloc": [4, 0],
        "mem_alloc": [237, 7], "job_state": ["COMPLETED", "TIMEOUT"], "user_id": [5, 6],
        "partition": ["1", "1"], "qos": ["1", "1"], "nodes": [["a"], ["b"]],
    }).write_parquet(tmp_path / "jobs.parquet")  # fmt: skip
    tasks = read(tmp_path / "jobs.parquet", "PM100")
    assert tasks.select(
        "requested_s", "duration_s", "cores", "gpus", "memory_mib", "status"
    ).rows() == [(3600.0, 1800.0, 128.0, 4, 237 * 1024.0, 1), (86400.0, 60.0, 4.0, 0, 7168.0, 0)]


def test_fugaku_elapsed_limits_are_limits_by_fit(tmp_path):
    rows = [
        (f"j{k}", "u", 48 * (k % 3 + 1), f"2022-03-01 10:{k:02d}:00", f"2022-03-01 11:{k:02d}:00",
         f"2022-03-01 11:{k:02d}:{20 + k:02d}", 3600 if k % 2 else 7200, 20 + k, "completed")
        for k in range(30)
    ]  # fmt: skip
    names = ["jid", "usr", "cnumr", "adt", "sdt", "edt", "elpl", "duration", "exit state"]
    pl.DataFrame(rows, schema=names, orient="row").write_parquet(tmp_path / "21_04.parquet")
    tasks = read(tmp_path / "21_04.parquet", "F-DATA")
    assert tasks.select("requested_s", "duration_s", "wait_s", "cores", "status").row(1) == (
        3600.0, 21.0, 3600.0, 96.0, 1)  # fmt: skip


def test_a_dump_of_slurmdbd_has_resources_by_number(tmp_path):
    (tmp_path / "job_table.csv").write_text(
        "id_job;id_user;id_group;state;timelimit;time_submit;time_eligible;time_start;time_end;"
        "tres_alloc;tres_req;partition;account\n"
        "10;1000;100;3;60;1709539857;1709539857;1709539867;1709541667;"
        "1=8,2=16384,4=1,1001=2;1=8,2=16384,4=1;gpu;a\n"
        "11;1001;100;6;4294967295;1709539900;1709539900;1709539900;1709541700;1=2,2=2048,4=1;"
        "1=2,2=2048,4=1;cpu;a\n"
        "12;1001;100;4;60;1709540000;0;0;1709540100;;1=2,2=2048,4=1;cpu;a\n"
        "13;1001;100;32769;60;1709540000;1709540000;1709540010;0;1=2,2=2048,4=1;"
        "1=2,2=2048,4=1;cpu;a\n"
    )
    tasks = read(tmp_path / "job_table.csv", "slurmdbd")
    assert tasks.select(
        "job_id", "requested_s", "wait_s", "duration_s", "cores", "gpus", "memory_mib", "status"
    ).rows() == [
        ("10", 3600.0, 10.0, 1800.0, 8.0, 2, 16384.0, 1),
        ("11", 3600.0, 0.0, 1800.0, 2.0, 0, 2048.0, 0),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("0a" * 12 + "," + "1b" * 12 + ",abc123,Terminated,10.0,20.0\n",
         "pai_job_table; it cannot be read alone.*hindcast init pai_task_table.csv"),
        (("job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine\n"
          "a,b,c,d,e,Running,1,2,m\n"), "pai_instance_table; it cannot be read alone"),
        ("time,type,collection_id,priority,collection_name,scheduler\n0,0,1,200,x,0\n",
         "collection_events; it cannot be read alone.*instance_events"),
        ("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\n", "list of nodes"),
        ("HashOwner,HashApp,HashFunction,Trigger,1,2\na,b,c,http,0,4\n", "invocations a minute"),
        ("6459,6524,3,4,15740,Terminated,50,0.0079\n", "hindcast ingest alibaba2017"),
    ],
)  # fmt: skip
def test_tables_that_are_none_of_jobs_are_named(content, words, tmp_path):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(TraceError, match=words):
        propose(tmp_path / "t.csv")


def test_lists_of_generic_resources_tell_types_and_totals(tmp_path):
    lists = [
        "gpu:volta:2",
        "gpu:2",
        "gpu:tesla:1(IDX:0)",
        "",
        "gpu:volta:1,gpu:tesla:2",
        "gpu",
        "gpu:volta",
    ]
    rows = [
        f"{10 + k};1000;3;60;1709539857;1709539867;1709541667;{text};4"
        for k, text in enumerate(lists)
    ]
    header = "id_job;id_user;state;timelimit;time_submit;time_start;time_end;gres_used;cpus_req"
    (tmp_path / "jobs.csv").write_text("\n".join([header, *rows]) + "\n")
    tasks = read(tmp_path / "jobs.csv", "slurmdbd")
    assert tasks.select("gpus", "gpus:tesla", "gpus:volta").rows() == [
        (2, 0.0, 2.0), (2, 0.0, 0.0), (1, 1.0, 0.0), (0, 0.0, 0.0), (3, 2.0, 1.0),
        (1, 0.0, 0.0), (1, 0.0, 1.0)]  # fmt: skip
