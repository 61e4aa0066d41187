"""A recipe whose trace is missing: one line with the place, and nothing is written."""

import pytest

from hindcast.flows import cli

KTH = "queue-kth-v1"


def said(capsys, *argv):
    """The line of a command that ends with exit code 2."""
    assert cli.main([*argv, "--direct"]) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("command", ["build", "evaluate"])
def test_without_the_variable_the_line_names_it_and_where_traces_are(
    command, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HINDCAST_TRACES", raising=False)
    line = said(capsys, command, KTH, "--out", "x", "--set", 'trace.path="swf/no-such.swf"')
    assert f"hindcast: {KTH}+a5f6e8: trace.path: " in line
    assert "swf/no-such.swf: no such file or folder" in line
    assert "HINDCAST_TRACES, which names the folder of traces, is not set" in line
    assert "`hindcast traces`" in line
    assert not list(tmp_path.iterdir())


def test_with_the_variable_its_folder_and_the_nearest_file_are_named(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HINDCAST_TRACES", str(tmp_path))
    (tmp_path / "swf").mkdir()
    (tmp_path / "swf" / "KTH-SP2-1996-2.swf").touch()
    line = said(capsys, "build", KTH, "--out", str(tmp_path / "x"))
    assert "did you mean 'KTH-SP2-1996-2.swf'?" in line
    assert f"HINDCAST_TRACES, which names the folder of traces, is {tmp_path}" in line
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("form", ["swf", "azure2020", "alibaba2017", "workload"])
def test_a_trace_that_is_missing_in_a_store_is_one_line(form, capsys, tmp_path):
    trace = f'trace={{format="{form}",path="memory://bucket/none.swf"}}'
    line = said(capsys, "build", KTH, "--set", trace, "--out", str(tmp_path / "x"))
    assert "trace.path: memory://bucket/none.swf: no such file or folder" in line
    assert "HINDCAST_TRACES" not in line
    assert not (tmp_path / "x").exists()
