"""Pods for `trace.format = "generated"`: the most frequent requests of the published trace."""

from typing import Final

import polars as pl

# CPU in thousandths, memory in MiB, GPUs, thousandths of each, and number of pods: the 22 most
# frequent kinds of the list `default` and its frequent kinds of several GPUs, with their median
# memory (Apache-2.0). They are 7,022 of its 8,152 pods.
_KINDS: Final = (
    (3152, 5600, 1, 810, 1047), (11300, 49152, 1, 1000, 874), (11400, 48128, 1, 1000, 599),
    (3152, 5600, 1, 1000, 470), (11908, 47104, 1, 470, 388), (12500, 57344, 0, 0, 366),
    (8000, 30517, 1, 470, 360), (12000, 24576, 1, 1000, 326), (32000, 49152, 0, 0, 290),
    (18708, 64512, 1, 1000, 255), (11908, 47104, 1, 650, 237), (4000, 22888, 1, 320, 232),
    (9810, 41560, 1, 1000, 195), (8000, 30517, 0, 0, 185), (8000, 16384, 1, 1000, 164),
    (4000, 24576, 1, 1000, 159), (15700, 58368, 1, 1000, 158), (11908, 47104, 1, 1000, 153),
    (16000, 32768, 1, 1000, 150), (4000, 30517, 1, 230, 122), (6000, 10240, 1, 460, 120),
    (15400, 51200, 0, 0, 120), (64200, 263168, 8, 1000, 18), (88000, 327680, 8, 1000, 18),
    (32200, 132096, 4, 1000, 9), (16200, 66560, 2, 1000, 7),
)  # fmt: skip


def typical_pods() -> pl.DataFrame:
    """Return the pods as tasks with the columns that `read_requests` reads."""
    columns = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "pods")
    kinds = pl.DataFrame(_KINDS, schema=dict.fromkeys(columns, pl.Int64), orient="row")
    pods = kinds.select(pl.col(columns[:4]).repeat_by("pods")).explode(*columns[:4])
    return pods.with_columns(
        job_id=pl.format("pod-{}", pl.int_range(pl.len()).cast(pl.String).str.zfill(4)),
        gpu_spec=pl.lit(""),
        submit_s=pl.lit(0.0),
        duration_s=pl.lit(1.0),
        ends=pl.lit(value=False),
    )
