"""Registry of the raw trace formats. A new format takes its own file and an entry here."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import polars as pl

from hindcast.pipeline.plugins import Registry
from hindcast.pipeline.traces import alibaba2017, azure2020, pods, slurm, swf, table
from hindcast.pipeline.traces.batch_systems import batsim, cobalt, condor, grid_engine, lsf, pbs
from hindcast.pipeline.traces.files.one_log import first_file, one_log, raw_files
from hindcast.pipeline.traces.hourly.series import SeriesSettings
from hindcast.pipeline.workloads.schema import Workload


@dataclass(frozen=True)
class TraceFormat:
    """A raw trace format: its description, source and terms, and its reader.

    Attributes:
        name: Name in recipes (`trace.format`) and for `hindcast ingest`.
        description: One line about the content of the trace.
        path: What the reader's `path` can be: which files or folders, in words.
        source: Where the trace can be obtained.
        terms: Terms of use of the trace.
        citation: What to cite.
        read: Reader. Takes a path and returns the workload and the bad rows (columns file, line,
            reason, text); raises TraceError if the path is not of this format. None for a format of
            recorded decisions, which make a dataset instead of a workload.
        recorded: Module of a format of recorded decisions, with `ingest(path, out)`, which makes a
            dataset, and `check(dataset)`, which compares one with the record; "" for others.
        series: Module of a format of hourly series, with `ingest(path, out, settings)`, which
            writes a folder of series; "" for others.
        settings: Frozen dataclass of the reader's settings, `trace.settings` of a recipe; `read`
            takes one as its second argument, and has defaults. None if it has no settings.
        files: Function that returns the raw files that `read` may read, given its path; what was
            read from them is then cached (hindcast.pipeline.traces.cache). None if that is not
            known.
        notes: Function that returns notes which `hindcast ingest` adds to those of `read`, given
            the path. None if there are none.
        licence: Identifier of the licence on dataset hubs; "other" if there is none for `terms`.
        kind: What a log of this format is, for messages, such as "an SWF log"; "" for others.
        recognises: Function that returns whether the first lines of a file, without blank ones, are
            surely of this format. None if that cannot be said by them.
        joins: Whether `read` reads one file of rows, so that a folder of such files and compressed
            files can be joined for it (hindcast.pipeline.traces.files.one_log).
    """

    name: str
    description: str
    path: str
    source: str
    terms: str
    citation: str
    read: Callable[..., tuple[Workload, pl.DataFrame]] | None
    recorded: str = ""
    series: str = ""
    licence: str = "other"
    files: Callable[[Path], Iterable[Path]] | None = None
    settings: type[Any] | None = None
    notes: Callable[[Path], tuple[str, ...]] | None = None
    kind: str = ""
    recognises: Callable[[Sequence[str]], bool] | None = None
    joins: bool = False

    def reading(self, path: Path, settings: Any = None) -> tuple[Workload, pl.DataFrame]:
        """Read a path: return its workload and bad rows. `settings` None are the defaults."""
        assert self.read is not None
        given = () if settings is None else (settings,)
        if not self.joins:
            return self.read(path, *given)
        with one_log(path) as log:
            return log.credited(*self.read(log.path, *given))

    def notes_on(self, path: Path) -> tuple[str, ...]:
        """Return the notes of `notes` on a path, or none."""
        if self.notes is None:
            return ()
        return self.notes(first_file(path) if self.joins else path)


def _job_log(
    reader: ModuleType,
    kind: str,
    description: str,
    path: str,
    source: str,
    terms: str = "yours",
    citation: str = "none",
    notes: Callable[[Path], tuple[str, ...]] | None = None,
) -> TraceFormat:
    """Return the format of a log of jobs; `reader` is the module that reads it."""
    return TraceFormat(
        name=reader.FORMAT,
        description=description,
        path=path,
        source=source,
        terms=terms,
        citation=citation,
        read=reader.read,
        files=raw_files,
        settings=type(reader.DEFAULTS),
        notes=notes,
        kind=kind,
        recognises=reader.is_log,
        joins=True,
    )


FORMATS: Final = Registry("trace_formats", {
    "alibaba2017": TraceFormat(
        name="alibaba2017",
        description="Alibaba cluster-trace-v2017: batch jobs of 12 hours on 1,313 machines",
        path=(
            "jobs.csv (the workload of the DeepJS paper), batch_task.csv (the original table), or "
            "a folder with one of them; batch_instance.csv and server_event.csv beside it are "
            "used; .csv.gz is read too"
        ),
        source=(
            "the Alibaba Cluster Trace Program, github.com/alibaba/clusterdata, "
            "folder cluster-trace-v2017; jobs.csv was derived from it by the DeepJS authors"
        ),
        terms='research use; acknowledge the "Alibaba Cluster Trace Program"',
        citation=(
            "Alibaba Cluster Trace Program, cluster-trace-v2017; for jobs.csv also Li & Hu, "
            "DeepJS: Job Scheduling Based on Deep Reinforcement Learning in Cloud Data Center, "
            "ICBDC 2019"
        ),
        read=alibaba2017.read,
        files=alibaba2017.raw_files,
    ),
    "azure2020": TraceFormat(
        name="azure2020",
        description="Azure packing trace 2020: virtual machines of 14 days, two priorities",
        path=(
            "the SQLite database (tables vm and vmType), or a derived .csv without header "
            "(id, cores, memory, disk, duration_ms, start_ms); .csv.gz is read too"
        ),
        source=(
            "the Azure public dataset, github.com/Azure/AzurePublicDataset, "
            "AzureTracesForPacking2020"
        ),
        terms="CC BY 4.0",
        citation="Hadary et al., Protean: VM Allocation Service at Scale, OSDI 2020",
        read=azure2020.read,
        files=azure2020.raw_files,
        licence="cc-by-4.0",
    ),
    "pods": TraceFormat(
        name="pods",
        description="list of pods that ask for CPU, memory and GPUs: Alibaba GPU trace 2023, yours",
        path=(
            "a .csv file with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli, "
            "gpu_spec (openb_pod_list_*.csv), or cpu and memory as Kubernetes writes them; .csv.gz "
            "is read too; or a folder, whose lists `lists` names"
        ),
        source=(
            "github.com/hkust-adsl/kubernetes-scheduler-simulator, folder data/csv; or your own "
            "cluster"
        ),
        terms="Apache-2.0 (the published lists)",
        citation=(
            "Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing Workloads with "
            "Fragmentation Gradient Descent, USENIX ATC 2023"
        ),
        read=pods.read,
        files=pods.raw_files,
        settings=pods.PodsSettings,
        licence="apache-2.0",
    ),
    "swf": _job_log(
        swf,
        kind="an SWF log",
        description="Standard Workload Format 2.2: jobs of a parallel computer, one a row",
        path="a log: lines `; Key: value`, then rows of 18 numbers",
        source="the Parallel Workloads Archive, www.cs.huji.ac.il/labs/parallel/workload",
        terms="name the archive, and whom the log's `; Acknowledge:` lines name",
        citation=(
            "Feitelson, Tsafrir & Krakov, Experience with using the Parallel Workloads Archive, "
            "JPDC 2014"
        ),
        notes=swf.clock_notes,
    ),
    "slurm": _job_log(
        slurm,
        kind="the output of sacct",
        description="accounting log of Slurm: jobs as `sacct -P` prints them, one a row",
        path=(
            "what `sacct -a -X -P --format=JobID,State,Submit,Start,End,ElapsedRaw,...` prints, "
            "or a CSV file with the same columns; or a folder of such files"
        ),
        source="your own cluster; the guide `Use your own log` has the command",
    ),
    "pbs": _job_log(
        pbs,
        kind="an accounting log of PBS",
        description="accounting log of PBS: OpenPBS, PBS Professional and Torque",
        path="the accounting log of the server: a file, or the folder of its days",
        source="your own cluster: $PBS_HOME/server_priv/accounting",
    ),
    "grid_engine": _job_log(
        grid_engine,
        kind="accounting of Grid Engine",
        description="accounting of Grid Engine: Sun, Son of, Univa, Altair, Open Cluster Scheduler",
        path=(
            "the file accounting or accounting.jsonl, or the output of `qacct -j '*'`: a file, or "
            "a folder of such files"
        ),
        source="your own cluster: $SGE_ROOT/$SGE_CELL/common",
    ),
    "lsf": _job_log(
        lsf,
        kind="the accounting log of LSF",
        description="accounting log of LSF: lsb.acct, or a CSV file with its fields",
        path="lsb.acct, or the folder of lsb.acct and lsb.acct.N, or a CSV file with its fields",
        source="your own cluster: $LSB_SHAREDIR/CLUSTER/logdir",
    ),
    "condor": _job_log(
        condor,
        kind="the history of HTCondor",
        description="history of HTCondor: classads of jobs, or JSON",
        path=(
            "the history file of the schedd, or the output of `condor_history -json` or `-long`: a "
            "file, or a folder of such files"
        ),
        source="your own cluster: condor_config_val HISTORY",
    ),
    "cobalt": _job_log(
        cobalt,
        kind="a table DIM_JOB_COMPOSITE of Argonne",
        description="jobs of Argonne's machines, of Cobalt and PBS: table DIM_JOB_COMPOSITE",
        path="the CSV file of a machine and a year, or a folder of the years of one machine",
        source="the Argonne Leadership Computing Facility, reports.alcf.anl.gov/data",
        terms="no licence is stated; acknowledge the facility",
        citation=(
            "data from the Argonne Leadership Computing Facility, which is a DOE Office of Science "
            "User Facility"
        ),
    ),
    "batsim": _job_log(
        batsim,
        kind="a workload of Batsim",
        description="workload or result of the simulator Batsim: JSON, or PREFIX_jobs.csv",
        path="a workload (JSON with jobs and profiles), or the jobs of a result (PREFIX_jobs.csv)",
        source="your own simulation; the examples of batsim.org",
        citation=(
            "Dutot, Mercier, Poquet & Richard, Batsim: a Realistic Language-Independent Resources "
            "and Jobs Management Systems Simulator, JSSPP 2016"
        ),
    ),
    "decisions": TraceFormat(
        name="decisions",
        description="any log of decisions: candidates, choice, propensity, reward",
        path=(
            "a mapping (TOML) that names the log, which `hindcast init LOG` writes; or a file that "
            "describes itself: VowpalWabbit dsjson or cb_adf text, Open Bandit Pipeline's .npz, a "
            "folder of the Open Bandit Dataset"
        ),
        source="your own service",
        terms="yours",
        citation="none",
        read=None,
        recorded="hindcast.pipeline.decisions",
    ),
    "series": TraceFormat(
        name="series",
        description="hours of an electric grid by zone: carbon intensity, price, free capacity",
        path="a CSV, Parquet or JSON file with a time and values, or a folder of such files",
        source="the publisher of your grid's data, or your contract",
        terms="those of its publisher; Electricity Maps' hours are under the ODbL",
        citation="the publisher",
        read=None,
        series="hindcast.pipeline.traces.hourly.ingest",
        settings=SeriesSettings,
    ),
    "table": TraceFormat(
        name="table",
        description="any table of jobs, CSV or Parquet, by a mapping of its columns",
        path="a mapping (TOML) that names the table, which `hindcast init TABLE` writes",
        source="your own cluster",
        terms="yours",
        citation="none",
        read=table.read,
        files=table.raw_files,
    ),
})  # fmt: skip
