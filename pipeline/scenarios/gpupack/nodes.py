"""The nodes of a cluster: the published list, or kinds such as 40x64x96Gx8:A100."""

import re
from typing import Final, NamedTuple

from hindcast.pipeline.errors import InputError, nearest
from hindcast.pipeline.scenarios.gpupack.config import GpupackConfig
from hindcast.pipeline.traces.pods import MOST_GPUS, MOST_MILLI

PUBLISHED: Final = "published"
MOST_NODES: Final = 100_000
_MOST_MODELS: Final = 60  # a set of models is the bits of one number
_KIND: Final = re.compile(
    r"(?:(?P<count>\d{1,6})x)?(?P<cpus>\d+(?:\.\d{1,3})?)x(?P<memory>\d+)(?P<unit>[MGT])(?:i|iB|B)?"
    r"x(?P<gpus>\d{1,2})(?::(?P<model>[^:|,]{1,60}))?"
)
_MIB: Final = {"M": 1, "G": 1 << 10, "T": 1 << 20}

# The node list of the trace (hkust-adsl/kubernetes-scheduler-simulator at 8f3d641, Apache-2.0): the
# kind of every node in the order of names.
_PUBLISHED_KINDS: Final = {
    "a": "128x1024Gx1:A10", "b": "8x60Gx1:P100", "c": "8x32Gx1:V100M16", "d": "8x60Gx2:P100",
    "e": "16x120Gx2:P100", "f": "64x256Gx2:P100", "g": "104x512Gx2:T4", "h": "96x384Gx4:T4",
    "i": "32x128Gx4:V100M16", "j": "48x368Gx4:V100M32", "k": "96x384Gx8:G2", "l": "128x768Gx8:G3",
    "m": "64x256Gx8:V100M16", "n": "82x336Gx8:V100M16", "o": "96x768Gx8:V100M32",
}  # fmt: skip
_PUBLISHED: Final = (
    "fffffffffffffffffffffflooikkkkkkkkkhglkkkkkgkkkkkllekkkkkhkkkkekkokggggieekkkkhhkkkeeekkkkek"
    "kkkkhiiikkkhkkkkkkkkkgkkkkeekgggggggggggggggggkgkkkceeegkkkkkkkckkkkkeeeggollllkkkkkkkkkllig"
    "gkkgkkkkeeckkkkgggggggggggggggokkkeekkkkikikkgimkgggggggggkkkkkjmkkgggggokikkkkemekkkkeckkkk"
    "kkkkkekeekkkmekkbklggggggkgkklllglkkilggggkglkkkkkkkkkkkllgblkkokkjkkkkogkekkkkkkekkkkjkkkkk"
    "kelekkgggggeeekkkkkggggggggggkkkkkkggkkkeeegggggggggggggkokkkkeekkkgekkeiihkokkkkggggggggggk"
    "kkkkkkkkkkkkkkkckkebgggkkkggggeeckklkkkkkkkeikkkcokkkkkkkkkkkkkgokkgggkkhgggggggekeekkkkkkkk"
    "geekkihkkkecekggkkklcgggkkemllkkgkkkggggggggggggggggckgggghgggggggkkkkkkkiieeeeekggggggggggg"
    "ggggggggglkikkkkkkkkkkkkkkgggnkkkkelgkklkkkkigggggggggggggggggggkkekkcggggggggggggggggggggkk"
    "kkggkkkkkkkkggggggggggggggkkkkkcggkkkkggggggggkkkjjggkkkkkkkkkghgkkkkkkkkkkkkkokkkkkkkkkiokk"
    "kkkkkkklekkkkkghkmgkkkkijkkkkkklkkckkkeoeeeggggggggggggggkkggokikkkkccekkkkkkjggkhkkkkeokkkg"
    "gilkkkkkggkeekokkjikkkeggggggggggggkkkkkkkkgekeeelkkkkkkllekkkkkkeogeddkkkkiijgkkkkekgkkkkkk"
    "kigggggggkkkkeggkkkkaakkkkkkkkkhllgkkeoeeeeeeeeeeeegeekkkkhkkkkgekoecmgkkkkkgeekkggggggggggg"
    "kkkkkkkeeekggggggggggggggghlkkkkkiekcceeeeekkkgggggggggggggggglkcklkggggggggggggggkkkkhggggg"
    "ggggggkkkkkggggkk"
)


class Node(NamedTuple):
    """A node: thousandths of CPU, MiB, number of GPUs and their model."""

    cpu: int
    memory: int
    gpus: int
    model: str


def nodes_of(config: GpupackConfig) -> list[Node]:
    """Return the nodes in the order of their names; raise InputError for settings without any."""
    if config.nodes == (PUBLISHED,):
        kinds = {letter: read_kind(text)[1] for letter, text in _PUBLISHED_KINDS.items()}
        nodes = [kinds[letter] for letter in _PUBLISHED]
    else:
        counted = [read_kind(text) for text in config.nodes]
        size = sum(count for count, _ in counted)
        if not 0 < size <= MOST_NODES:
            raise InputError(f"config.nodes has {size:,} nodes, expected from 1 to {MOST_NODES:,}")
        nodes = [node for count, node in counted for _ in range(count)]
    order = sorted(range(len(nodes)), key=lambda i: (nodes[i].gpus, nodes[i].model, nodes[i].cpu))
    nodes = [nodes[i] for i in sorted(order[:: config.every])]
    if not any(node.gpus for node in nodes):
        raise InputError("config.nodes has no GPU, expected a node with GPUs")
    if len({node.model for node in nodes}) > _MOST_MODELS:
        raise InputError(f"config.nodes has more than {_MOST_MODELS} models of GPU")
    return nodes


def read_kind(text: str) -> tuple[int, Node]:
    """Return the count and the node of a kind of nodes; raise InputError if it cannot be read."""
    match = _KIND.fullmatch(text)
    if match is None:
        near = text != PUBLISHED and nearest(text, [PUBLISHED])
        close = f"; did you mean {PUBLISHED!r}?" if near else ""
        raise InputError(
            f"config.nodes: {text!r}, expected COUNTxCPUSxMEMORYxGPUS:MODEL, such as "
            f"'40x64x96Gx8:A100', or '{PUBLISHED}' alone{close}"
        )
    node = Node(
        round(float(match["cpus"]) * 1000),
        int(match["memory"]) * _MIB[match["unit"]],
        int(match["gpus"]),
        (match["model"] or "GPU") if int(match["gpus"]) else "",
    )
    if max(node.cpu, node.memory) > MOST_MILLI or node.gpus > MOST_GPUS:
        raise InputError(
            f"config.nodes: {text!r}, expected at most 16,000 CPUs, 15 TiB and {MOST_GPUS} GPUs"
        )
    return int(match["count"] or 1), node


def without_count(text: str) -> str:
    """Return the text of a kind of nodes without its count; another text stays."""
    match = _KIND.fullmatch(text)
    return text[match.start("cpus") :] if match else text
