"""Layout of the memory of a `gpupack` episode: the position of every value in the flat arrays.

    ints    header | requests (P each, by kind of pod) | typical pods (T each) | arrivals (A each)
            | nodes (M each) | free GPUs (M * G) | pods held (M * KINDS)
            | classes (M each) | sorted GPUs of classes (M * G) | order of classes, found (M each)
            | rows (CAPACITY each)
    floats  header | typical weights, scarcity of models and of nodes by node,
            kind weights | fragments of classes

A class is a set of nodes in one state: equal model, free CPU, free memory, sorted free GPUs, and
kinds of pods held. Its nodes are linked by `next` in the order of their ranks; the first stands for
all. `order` lists the classes by the rank of their first node. CPU and GPUs are in thousandths,
memory in MiB.
"""

from typing import Any, Final

import numpy as np

from hindcast.pipeline.traces.pods import MOST_GPUS

G: Final = MOST_GPUS  # places for the GPUs of a node
KINDS: Final = 6  # of pods: without GPU, a share, and 1, 2, 3 or 4, more whole GPUs
WHOLE: Final = 1000  # thousandths of a GPU

# header of ints; place 0 is FRESH
ARRIVALS: Final = 1
NODES: Final = 2
TYPICAL: Final = 3
OBJECTIVE: Final = 4  # which reward term is the reward
DRAWN: Final = 5  # 1: ties are drawn for every pod, in place of the ranks of the nodes
TIE_SEED: Final = 6
CLUSTER_CPU, CLUSTER_MEMORY, CLUSTER_GPU = range(7, 10)  # sums over the nodes
LARGEST_CPU, LARGEST_GPU = range(10, 12)  # of one node
ASKED: Final = 12  # GPUs that all arrivals ask for
NOW: Final = 13  # number of the arrival that is placed next
ARRIVED: Final = 14  # GPUs asked for up to it, included
USED_CPU, USED_MEMORY, USED_GPU = range(15, 18)
PLACED: Final = 18  # GPUs of all pods placed so far, also of those that have left
IDLE_GPUS: Final = 19  # whole GPUs
CLASSES: Final = 20  # length of the order
UNUSED: Final = 21  # first unused class, linked by heads
ROWS: Final = 22  # rows of the present arrival
FOUND: Final = 23  # nodes that can take it
# beginnings of the blocks of ints; requests by kind of pod
CPU_AT, MEMORY_AT, MILLI_AT, GPUS_AT, MODELS_AT, KIND_AT, BOUND_AT = range(24, 31)
# typical pods
T_CPU_AT, T_SHARE_AT, T_GPUS_AT, T_MODELS_AT = range(31, 35)
# arrivals: request, node, set of its GPUs, used GPUs and fragments afterwards; ends before it
POD_AT, NODE_AT, TAKEN_AT, USED_AT, FRAGMENTS_AT = range(35, 40)
ENDS_FROM_AT: Final = 40  # (A + 1) first of the ends before every arrival
ENDS_AT: Final = 41  # arrivals that end, in the order of their ends
# nodes
FREE_CPU_AT, FREE_MEMORY_AT, FREE_AT, HELD_AT, RANK_AT, NEXT_AT, CLASS_AT = range(42, 49)
NODE_CPU_AT, NODE_GPUS_AT, NODE_MODEL_AT = range(49, 52)
# classes
COUNT_AT, HEAD_AT, HASH_AT, HOLDS_AT, SORTED_AT, SUM_AT = range(52, 58)
ORDER_AT, FOUND_AT = range(58, 60)
ROW_CLASS_AT, ROW_GPU_AT = range(60, 62)
# beginnings of the blocks of floats
T_WEIGHT_AT, SCARCITY_AT, POD_WEIGHT_AT, POD_MODELS_AT, CLASS_FRAGMENTS_AT = range(62, 67)
# distinct shares of typical pods, ascending; GPUs with less room, and what is free on them (D each)
SHARES: Final = 70  # D
SHARES_AT, LESS_AT, CRUMBS_AT = range(67, 70)
NODE_SCARCITY_AT: Final = 71
INT_HEADER: Final = 72

# header of floats; place 0 is TIME
KAPPA: Final = 1  # CPU per GPU over the pods with GPUs
FRAGMENTS: Final = 2  # of the cluster, in thousandths of a GPU
STARVED: Final = 3  # of the cluster, in thousandths of a GPU
BOUND: Final = 4
CARRIED: Final = 5  # 5..6: reward terms before the first decision; 7: time before it
FLOAT_HEADER: Final = 8

# Computed indices are unsigned. numba then leaves out the test for a negative index.
U: Final[Any] = np.uint64
