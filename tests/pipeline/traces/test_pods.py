"""Tests of the reader of lists of pods."""

import gzip

import pytest

from hindcast.pipeline.errors import TraceError
from hindcast.pipeline.testing import check_trace_format
from hindcast.pipeline.traces import FORMATS
from hindcast.pipeline.traces.pods import PodsSettings, most_at_once, not_read, read

PUBLISHED = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "openb-pod-0000,12000,16384,1,1000,,LS,Running,0,12537496,0\n"
    "openb-pod-0001,6000,12288,1,460,V100M16|V100M32,LS,Running,427061,12902960,427061\n"
    "openb-pod-0002,8000,30517,0,0,,BE,Failed,427000,427000,\n"
)


def written(tmp_path, text, name="pods.csv"):
    path = tmp_path / name
    path.write_text(text)
    return path


def rows_of(workload):
    names = ("job_id", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "ends")
    return workload.tasks.select(names).rows()


def test_the_published_form_is_read(tmp_path):
    path = written(tmp_path, PUBLISHED)
    workload, bad = read(path)
    assert bad.is_empty()
    assert rows_of(workload) == [
        ("openb-pod-0000", 12000, 16384, 1, 1000, "", True),
        ("openb-pod-0002", 8000, 30517, 0, 0, "", False),
        ("openb-pod-0001", 6000, 12288, 1, 460, "V100M16|V100M32", True),
    ]
    assert workload.tasks["submit_s"].to_list() == [0, 427000, 427061]
    packed = tmp_path / "pods.csv.gz"
    packed.write_bytes(gzip.compress(PUBLISHED.encode()))
    assert read(packed)[0].tasks.equals(workload.tasks)
    header = PUBLISHED.splitlines()[0]
    capitals = PUBLISHED.replace(header, header.upper().replace("_", " "))
    assert read(written(tmp_path, capitals))[0].tasks.equals(workload.tasks)


def test_quantities_of_kubernetes_are_read(tmp_path):
    text = (
        "pod,cpu,memory,gpus,gpu_model\na,500m,16Gi,1,\nb,4,100Mi,0,\nc,2.5,1000,2,A100|H100\n"
        "d,0.1,1G,1,H100\n"
    )
    workload, bad = read(written(tmp_path, text))
    assert bad.is_empty()
    assert rows_of(workload) == [
        ("a", 500, 16384, 1, 1000, "", False),
        ("b", 4000, 100, 0, 0, "", False),
        ("c", 2500, 1, 2, 1000, "A100|H100", False),
        ("d", 100, 954, 1, 1000, "H100", False),
    ]


def test_requests_and_limits_of_kubernetes_are_read(tmp_path):
    """The request counts, else the limit, else 0; equal names of two namespaces are two pods."""
    text = (
        "NAMESPACE;NAME;NODE;CPU REQUESTS;CPU LIMITS;MEMORY REQUESTS;nvidia.com/gpu REQUESTS;"
        "nvidia.com/gpu LIMITS;GPU MODEL;CREATED;FINISHED\n"
        "x;a;n1;500m;2;16Gi;2;2;A100;2025-05-01T00:00:00Z;2025-05-01T01:00:00Z\n"
        "y;a;n1;;2;<none>;;1;;2025-05-01T00:30:00Z;2025-05-01T03:30:00+02:00\n"
        "x;b;;<none>;<none>;8Gi;<none>;;;2025-05-01T00:30:00Z;\n"
    )
    workload, bad = read(written(tmp_path, text))
    assert bad.is_empty()
    assert rows_of(workload) == [
        ("x/a", 500, 16384, 2, 1000, "A100", True),
        ("y/a", 2000, 0, 1, 1000, "", True),
        ("x/b", 0, 8192, 0, 0, "", False),
    ]
    assert workload.tasks["duration_s"].to_list()[:2] == [3600, 3600]
    assert most_at_once(workload.tasks) is None
    assert most_at_once(workload.tasks.filter("ends")) == 3


def test_shares_and_units_in_names_are_read(tmp_path):
    text = "pod_name,cpu_request,mem_gib,gpu_request\na,1,16,0.25\nb,1,1.5,1\nc,1,1,1.5\n"
    workload, bad = read(written(tmp_path, text))
    assert rows_of(workload) == [
        ("a", 1000, 16384, 1, 250, "", False),
        ("b", 1000, 1536, 1, 1000, "", False),
    ]
    assert bad["reason"].to_list() == ["num_gpu is 1.5, expected a whole number from 0 to 16"]


def test_a_column_of_shares_is_that_of_each_gpu(tmp_path):
    head = "pod,cpu,memory,gpus,GPU_SHARE,owner\n"
    rows = "a,1,1Gi,1,.25,x\nb,1,1Gi,1,,x\nc,1,1Gi,0,,x\nd,1,1Gi,1,25,x\ne,1,1Gi,0,.5,x\n"
    path = written(tmp_path, head + rows)
    workload, bad = read(path)
    assert [(row[0], *row[3:5]) for row in rows_of(workload)] == [
        ("a", 1, 250), ("b", 1, 1000), ("c", 0, 0)
    ]  # fmt: skip
    assert bad["reason"].to_list() == [
        "GPU_SHARE is 25, expected at most 1",
        "GPU_SHARE is .5, expected 0 for a pod without GPUs",
    ]
    assert not_read(path) == ["owner"]


def test_pods_that_end_when_another_arrives_leave_before_it(tmp_path):
    text = "name,cpu,memory,gpus,created,finished\n"
    rows = [f"{n},1,1Gi,4,{10 * n},{10 * n + 10}\n" for n in range(3)]
    assert most_at_once(read(written(tmp_path, text + "".join(rows)))[0].tasks) == 4


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("p,4000,1024,1,1001,", "gpu_milli is 1001, expected at most 1000"),
        ("p,4000,1024,2,500,", "gpu_milli is 500, expected 1000 for several GPUs"),
        ("p,4000,1024,1,0,", "expected above 0 for a pod with GPUs"),
        ("p,4000,1024,1,0.5,", "expected a whole number"),
        ("p,4000,1024,17,1000,", "num_gpu is 17, expected a whole number from 0 to 16"),
        ("p,4000,1024,1.5,1000,", "num_gpu is 1.5"),
        ("p,-1,1024,1,1000,", "cpu is -1"),
        ("p,,1024,1,1000,", "cpu is missing"),
        ("p,4000,x,1,1000,", "memory is x"),
        (",4000,1024,1,1000,", "name is missing"),
        ("good,4000,1024,1,1000,", "a repetition"),
    ],
)
def test_bad_rows_are_set_aside(tmp_path, row, said):
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\ngood,4000,1024,1,1000,\n"
    workload, bad = read(written(tmp_path, f"{header}{row}\n"))
    assert workload.tasks.height == 1
    assert bad.height == 1
    assert said in bad["reason"][0]
    assert bad["line"][0] == 3


def test_a_table_without_its_columns_is_refused(tmp_path):
    with pytest.raises(TraceError, match="no column num_gpu or gpus or gpu or num_gpus"):
        read(written(tmp_path, "name,cpu_milli,memory_mib\na,1,1\n"))
    with pytest.raises(TraceError, match="did you mean 'cpu_mili'"):
        read(written(tmp_path, "name,cpu_mili,memory_mib,num_gpu\na,1,1,1\n"))


@pytest.mark.slow
def test_it_is_a_trace_format(tmp_path):
    check_trace_format(FORMATS["pods"], written(tmp_path, PUBLISHED))


def test_lists_of_a_folder_are_one_workload(tmp_path):
    """Lists may name pods alike; a pod is then told by its list, whose order stays."""
    head = "name,cpu_milli,memory_mib,num_gpu,creation_time\n"
    written(tmp_path, f"{head}a,1000,10,1,5\nb,2000,10,1,1\n", "x.csv")
    written(tmp_path, f"{head}a,3000,10,1,3\nc,bad,10,1,3\n", "y.csv")
    workload, bad = read(tmp_path, PodsSettings(lists=("y.csv", "x.csv")))
    columns = ("job", "job_id", "cpu_milli", "list")
    assert workload.tasks.select(columns).rows() == [
        (0, "1/b", 2000, 1),
        (1, "0/a", 3000, 0),
        (2, "1/a", 1000, 1),
    ]
    assert bad["file"].to_list() == ["y.csv"]
    provenance = workload.provenance
    assert [file.name for file in provenance.files] == ["y.csv", "x.csv"]
    assert provenance.counts["rows_read"] == 4
    assert provenance.left_out == {"quarantined": 1}


@pytest.mark.parametrize(
    ("path", "lists", "message"),
    [
        ("", ("z.csv",), "lists has 'z.csv', expected files of this folder; did you mean 'x.csv'"),
        ("x.csv", ("x.csv",), "this is no folder"),
        ("", (), "it is a folder"),
    ],
)
def test_lists_that_are_not_there_are_refused(tmp_path, path, lists, message):
    written(tmp_path, PUBLISHED, "x.csv")
    with pytest.raises(TraceError, match=message):
        read(tmp_path / path, PodsSettings(lists=lists))
