"""Tests of `hindcast pack`: nodes for a list of pods."""

import json

import pytest

from hindcast.flows.cli import main
from hindcast.flows.runs.packing import Packing
from hindcast.pipeline.scenarios.gpupack.nodes import without_count
from hindcast.pipeline.traces.pods import read

HEADER = "name,cpu,memory,num_gpu,gpu_milli,gpu_spec\n"


@pytest.fixture
def pods(tmp_path):
    """Ten pods of one GPU and four CPUs, four of half a GPU, and one that is too large."""
    rows = [f"one-{i},4,8Gi,1,1000,\n" for i in range(10)]
    rows += [f"half-{i},1,1Gi,1,500,\n" for i in range(4)]
    path = tmp_path / "pods.csv"
    path.write_text(HEADER + "".join(rows) + "huge,4,8Gi,16,1000,\n")
    return path


def ran(capsys, *words):
    code = main(["pack", *words])
    taken = capsys.readouterr()
    return code, taken.out, taken.err


@pytest.mark.slow
def test_nodes_that_suffice_are_counted(pods, capsys):
    """Twelve GPUs are asked for: three nodes of four; by CPU four nodes of twelve."""
    words = (str(pods), "--policy", "best_fit", "--runs", "3", "--json", "--nodes")
    rows = {}
    for kind in ("2x64x96Gx4:A", "2x12x96Gx4:A"):
        code, out, _ = ran(capsys, *words, kind)
        assert code == 0
        rows[kind] = json.loads(out.splitlines()[0])
    assert rows["2x64x96Gx4:A"]["nodes_needed"] == 3
    assert rows["2x64x96Gx4:A"]["allocated_percent"] == 100
    assert rows["2x12x96Gx4:A"]["nodes_needed"] == 4
    assert without_count("2x64x96Gx4:A") == without_count("64x96Gx4:A") == "64x96Gx4:A"
    assert without_count("64x96Gx4:xe-x") == "64x96Gx4:xe-x"


@pytest.mark.slow
def test_the_table_says_what_is_refused_and_what_nodes_bring(pods, capsys):
    code, out, _ = ran(
        capsys, str(pods), "--nodes", "1x64x96Gx4:A", "--add", "2x64x96Gx4:A", "--runs", "2"
    )
    assert code == 0
    assert "15 pods ask for 28.0 GPUs and 48 CPUs" in out
    assert "1 pod too large for an empty node of these kinds" in out
    assert "with 2x64x96Gx4:A" in out
    for rule in ("best_fit", "fgd", "fit_starved_scarce"):
        assert f"{rule}: 3 to 11 nodes have at most 1 refused pods in every run" in out


@pytest.mark.slow
def test_pods_beside_other_nodes_may_need_none(pods):
    packing = Packing(read(pods)[0], 2, 0)
    assert (~packing.fits(["1x64x96Gx4:A"])).sum() == 1
    others = ["3x64x96Gx4:A"]
    assert packing.nodes_needed("fgd", "64x96Gx4:B", others, 1) == 0
    assert packing.nodes_needed("fgd", "64x96Gx4:B", ["1x64x96Gx4:A"], 1) == 2
    assert packing.nodes_needed("fgd", "2x96Gx4:B", ["1x64x96Gx4:A"], 1) is None


def test_a_number_of_nodes_counts_if_the_next_ones_suffice_too(pods, monkeypatch):
    """A rule that refuses pods on 5 and 7 nodes and not on 4, 6 and more needs 8."""

    def outcomes(_self, _rule, nodes):
        count = int(nodes[0].partition("x")[0])
        return {"refused_none": [float(count < 4 or count in {5, 7})]}

    monkeypatch.setattr(Packing, "outcomes", outcomes)
    assert Packing(read(pods)[0], 1, 0).nodes_needed("fgd", "64x96Gx4:A", [], 0) == 8


@pytest.mark.slow
def test_pods_may_leave_at_the_times_of_the_list(tmp_path, capsys):
    """Twenty pods of four GPUs follow each other on one node of four; all at once need twenty."""
    path = tmp_path / "pods.csv"
    rows = [f"{n},1,1Gi,4,{10 * n},{10 * n + 10}\n" for n in range(20)]
    path.write_text("name,cpu,memory,gpus,created,finished\n" + "".join(rows))
    words = (str(path), "--nodes", "1x64x96Gx4:A", "--policy", "best_fit", "--runs", "1")
    code, out, _ = ran(capsys, *words, "--ends", "recorded")
    assert code == 0
    assert "at most 4.0 GPUs at once\n" in out
    assert "best_fit: 1 to 9 nodes have at most 0 refused pods" in out
    code, out, _ = ran(capsys, *words)
    assert "at once; here they stay, unless --ends recorded\n" in out
    assert "best_fit: 20 to 28 nodes have at most 0 refused pods" in out


def test_every_pod_arrives_once(pods):
    found = Packing(read(pods)[0], 4, 7).outcomes("best_fit", ["9x64x96Gx4:A"])
    assert found["placed"] == [pytest.approx(100 * 12 / 36)] * 4
    assert found["refused_eight"] == [1.0] * 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "2x64x96x4:A"), "such as '40x64x96Gx8:A100'"),
        (("--nodes", "2x64x96Gx4:A", "published"), "or 'published' alone\n"),
        (("--nodes", "2x64x96Gx4:A", "--add", "x"), "such as '40x64x96Gx8:A100'"),
        (("--nodes", "2x64x96Gx4:A", "--policy", "bestfit"), "did you mean 'best_fit'"),
    ],
)
def test_what_cannot_be_read_is_refused(pods, capsys, words, said):
    code, _, err = ran(capsys, str(pods), *words)
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_list_that_is_not_there_is_refused(tmp_path, capsys):
    code, _, err = ran(capsys, str(tmp_path / "none.csv"), "--nodes", "2x64x96Gx4:A")
    assert code == 2
    assert "none.csv" in err


@pytest.mark.slow
def test_init_proposes_a_recipe_that_evaluates(pods, tmp_path, capsys):
    assert main(["init", str(pods), "--nodes", "2x64x96Gx4:A", "1x64x96Gx4:B"]) == 0
    out = capsys.readouterr().out
    assert "15 pods: 0 without GPU, 4 with a share of one, 0 bound to models" in out
    assert "they ask for 28.0 GPUs; 3 nodes have 12: a load of 233 percent" in out
    recipe = tmp_path / "pods.toml"
    words = ["evaluate", str(recipe), "--policy", "fgd", "--set", 'split.test="30..31"']
    assert main([*words, "--workers", "1", "--out", str(tmp_path / "evaluation")]) == 0
    assert "fgd" in capsys.readouterr().out
    assert main(["init", str(pods), "--nodes", "2x64x96Gx4:A"]) == 2  # never overwritten


def test_init_asks_what_a_list_of_pods_leaves_open(tmp_path, capsys):
    path = tmp_path / "own.csv"
    path.write_text(HEADER + "a,4,8Gi,1,1000,H100\nb,x,8Gi,1,1000,\n")
    assert main(["init", str(path), "--nodes", "2x64x96Gx4:A", "--json"]) == 0
    unsure = json.loads(capsys.readouterr().out)["unsure"]
    assert unsure[0].startswith("1 row left out; line 3: cpu is x, expected a quantity")
    assert unsure[1:] == ["no node has the models H100, which pods ask for"]


def test_pack_says_what_of_a_list_is_not_used(tmp_path, capsys):
    path = tmp_path / "own.csv"
    rows = "a,4,8,1,1000,H100,x\nb,x,8,1,1000,,x\na,4,8,1,1000,H100,x\n"
    path.write_text(HEADER.replace("\n", ",owner\n") + rows + "c,4,8,1,1000,,x\n")
    code, out, _ = ran(capsys, str(path), "--nodes", "2x64x96Gx4:A", "--policy", "best_fit")
    assert code == 0
    assert "2 rows left out; line 3: cpu is x, expected a quantity of CPU" in out
    assert "columns that are not read: owner" in out
    assert "unsure: no pod asks for 64 MiB: numbers without a unit are bytes" in out
    assert "unsure: no node has the models H100, which pods ask for" in out
    path.write_text("name,cpu,memory_mib,num_gpu\na,4,8,1\n")
    _, out, _ = ran(capsys, str(path), "--nodes", "2x64x96Gx4:A", "--policy", "best_fit")
    assert "unsure: no pod asks for 64 MiB: is memory_mib in another unit?" in out


def test_a_list_in_the_present_folder_is_found(pods, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["evaluate", "gpupack-published", "--trace", "pods.csv", "--policy", "best_fit"]
    nodes = ["--set", 'config.nodes=["2x64x96Gx4:A"]', "--set", "config.seeds=[42, 7]"]
    assert main([*words, *nodes, "--workers", "1", "--out", "evaluation"]) == 0
    assert "best_fit" in capsys.readouterr().out


@pytest.mark.slow
def test_init_says_that_a_table_may_be_a_list_of_pods(pods, tmp_path, capsys):
    assert main(["init", str(pods), "--out", str(tmp_path / "jobs.toml")]) == 0
    assert f"hindcast init {pods} --nodes COUNTxCPUS" in capsys.readouterr().out
    pods.write_text("name,cpu,memory,num_gpu,created,finished\na,4,8Gi,1,2026-05-04,2026-05-05\n")
    assert main(["init", str(pods), "--out", str(tmp_path / "ends.toml")]) == 0
    assert f"hindcast init {pods} --nodes COUNTxCPUS" in capsys.readouterr().out
