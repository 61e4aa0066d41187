"""Registry of the raw trace formats. A new format takes its own file and an entry here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from hindcast.pipeline.plugins import Registry
from hindcast.pipeline.traces import alibaba2017, azure2020, pbs, slurm, swf, table
from hindcast.pipeline.traces.job_logs import JobLogSettings
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
        settings: Frozen dataclass of the reader's settings, `trace.settings` of a recipe; `read`
            takes one as its second argument, and has defaults. None if it has no settings.
        files: Function that returns the raw files that `read` may read, given its path; what was
            read from them is then cached (hindcast.pipeline.traces.cache). None if that is not
            known.
        notes: Function that returns notes which `hindcast ingest` adds to those of `read`, given
            the path. None if there are none.
        licence: Identifier of the licence on dataset hubs; "other" if there is none for `terms`.
    """

    name: str
    description: str
    path: str
    source: str
    terms: str
    citation: str
    read: Callable[..., tuple[Workload, pl.DataFrame]] | None
    recorded: str = ""
    licence: str = "other"
    files: Callable[[Path], Iterable[Path]] | None = None
    settings: type[Any] | None = None
    notes: Callable[[Path], tuple[str, ...]] | None = None

    def reading(self, path: Path, settings: Any = None) -> tuple[Workload, pl.DataFrame]:
        """Read a path: return its workload and bad rows. `settings` None are the defaults."""
        assert self.read is not None
        return self.read(path) if settings is None else self.read(path, settings)


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
    "swf": TraceFormat(
        name="swf",
        description="Standard Workload Format 2.2: jobs of a parallel computer, one a row",
        path="a log, plain or gzip-compressed: lines `; Key: value`, then rows of 18 numbers",
        source="the Parallel Workloads Archive, www.cs.huji.ac.il/labs/parallel/workload",
        terms="name the archive, and whom the log's `; Acknowledge:` lines name",
        citation=(
            "Feitelson, Tsafrir & Krakov, Experience with using the Parallel Workloads Archive, "
            "JPDC 2014"
        ),
        read=swf.read,
        files=lambda path: (path,),
        notes=swf.clock_notes,
    ),
    "slurm": TraceFormat(
        name="slurm",
        description="accounting log of Slurm: jobs as `sacct -P` prints them, one a row",
        path=(
            "what `sacct -a -X -P --format=JobID,State,Submit,Start,End,ElapsedRaw,...` prints, "
            "or a CSV file with the same columns; plain or gzip-compressed"
        ),
        source="your own cluster; the guide `Use your own log` has the command",
        terms="yours",
        citation="none",
        read=slurm.read,
        files=lambda path: (path,),
        settings=slurm.SlurmSettings,
    ),
    "pbs": TraceFormat(
        name="pbs",
        description="accounting log of PBS: OpenPBS, PBS Professional and Torque",
        path="the accounting log of the server, its days joined in order; plain or gzip-compressed",
        source="your own cluster: $PBS_HOME/server_priv/accounting",
        terms="yours",
        citation="none",
        read=pbs.read,
        files=lambda path: (path,),
        settings=JobLogSettings,
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
