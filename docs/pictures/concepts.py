"""Draw the pictures of docs/concepts and docs/software-design.md.

python -m docs.pictures.concepts
"""

import ast
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent.parent
OUT = ROOT / "docs" / "_static" / "concepts"
BLUE, ORANGE, GREEN, GREY, WHITE, INK = (
    "#cfe2f5", "#fbd9c1", "#d5ecd4", "#ececec", "#ffffff", "#222222",
)  # fmt: skip


class Picture:
    """An SVG picture of boxes, texts and arrows on a white ground, 400 px wide."""

    def __init__(self, height: float, title: str, width: float = 400) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "middle",
        size: float = 13,
        *,
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Add a line of text."""
        family = "monospace" if mono else "sans-serif"
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-family="{family}" '
            f'font-size="{size:g}"{weight} fill="{INK}">{escape(text)}</text>'
        )

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        lines: Sequence[str] | str = (),
        fill: str = BLUE,
        size: float = 13,
        *,
        mono: bool = False,
    ) -> None:
        """Add a box with lines of text in its middle."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4" fill="{fill}" '
            f'stroke="{INK}" stroke-width="1"/>'
        )
        lines = [lines] if isinstance(lines, str) else list(lines)
        step = size * 1.3
        top = y + h / 2 - step * (len(lines) - 1) / 2 + size * 0.35
        for i, line in enumerate(lines):
            self.text(x + w / 2, top + i * step, line, size=size, mono=mono)

    def arrow(self, *points: tuple[float, float]) -> None:
        """Add a line through points, with a tip at its end."""
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.4" '
            'marker-end="url(#tip)"/>'
        )

    def save(self, name: str) -> None:
        """Write the picture."""
        OUT.mkdir(parents=True, exist_ok=True)
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
            f'markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{INK}"/></marker>'
            "</defs>\n"
            f'<rect width="100%" height="100%" fill="{WHITE}"/>\n' + "\n".join(self.parts)
        )
        (OUT / f"{name}.svg").write_text(text + "\n</svg>\n", encoding="utf-8")


def decision() -> None:
    """Draw a table of candidates, its mask, the scores of a policy and the choice."""
    p = Picture(222, "One decision: context, candidates, mask, scores and choice")
    p.text(12, 22, "context: 3.5 free cores, 2 tasks waiting", "start")
    heads = ("candidate", "features", "feasible", "score")
    lefts, widths = (12, 96, 216, 300), (80, 116, 80, 88)
    for head, left, width in zip(heads, lefts, widths, strict=True):
        p.box(left, 36, width, 28, head, GREY)
    rows = (
        ("0", "2.0, 10 s", "yes", "0.3", BLUE), ("1", "2.0, 4 s", "yes", "1.7", ORANGE),
        ("2", "4.0, 10 s", "no", "2.2", WHITE), ("3", "1.0, 30 s", "yes", "-0.4", BLUE),
    )  # fmt: skip
    for i, (number, features, feasible, score, fill) in enumerate(rows):
        y = 68 + i * 30
        for text, left, width in zip(
            (number, features, feasible, score), lefts, widths, strict=True
        ):
            p.box(left, y, width, 28, text, fill)
    p.text(12, 208, "choice 1: the best score among the feasible rows", "start", bold=True)
    p.save("decision")


def kernel() -> None:
    """Draw the memory of an episode and the compiled functions that use it."""
    p = Picture(500, "The contract of a compiled scenario")
    p.text(12, 20, "Memory of an episode: two flat arrays", "start", bold=True)
    for y, name, first in ((30, "ints, int64", "FRESH, ..."), (66, "floats, float64", "TIME, ...")):
        p.box(12, y, 110, 30, name, WHITE, 12)
        p.box(126, y, 84, 30, ("header", first), GREY, 10)
        p.box(210, y, 78, 30, "workload", GREEN, 12)
        p.box(288, y, 100, 30, "mutable state", ORANGE, 12)
    p.box(60, 134, 120, 36, "observe", BLUE, 14, mono=True)
    p.arrow((120, 98), (120, 132))
    p.text(190, 148, "reads the memory, fills buffers,", "start", 11)
    p.text(190, 163, "returns N", "start", 11)
    p.arrow((120, 172), (120, 196))
    p.box(
        20, 198, 260, 44, ("context (C), image (P)", "candidates (N, F), feasible (N)"), WHITE, 12
    )
    p.arrow((120, 244), (120, 266))
    p.box(60, 268, 120, 36, "score", BLUE, 14, mono=True)
    p.text(190, 283, "the policy: sees the buffers,", "start", 11)
    p.text(190, 298, "never the memory", "start", 11)
    p.arrow((120, 306), (120, 328))
    p.box(60, 330, 120, 36, ("mask and draw",), GREY, 13)
    p.text(190, 345, "best feasible row, or a draw;", "start", 11)
    p.text(190, 360, "the propensity is known here", "start", 11)
    p.arrow((120, 368), (120, 390))
    p.box(60, 392, 120, 36, "step", BLUE, 14, mono=True)
    p.text(190, 407, "applies choice, fills step_outputs:", "start", 11)
    p.text(190, 422, "elapsed_s, reward, terms", "start", 11)
    p.arrow((60, 410), (8, 410), (8, 116), (100, 116), (100, 132))
    p.arrow((120, 430), (120, 452))
    p.text(128, 444, "TERMINATED or TRUNCATED", "start", 10)
    p.box(60, 454, 120, 36, "outcome", BLUE, 14, mono=True)
    p.text(190, 476, "fills the outcomes", "start", 11)
    p.text(14, 128, "RUNNING", "start", 10)
    p.save("kernel")


def rows() -> None:
    """Rows of an episode in a dataset, with the closing row."""
    p = Picture(198, "Rows of one episode of a dataset")
    names = ("step", "observation", "choice", "reward")
    cells = (
        ("0", "1", "2", "3"), ("o0", "o1", "o2", "o3"), ("c0", "c1", "c2", "null"),
        ("r0", "r1", "r2", "null"),
    )  # fmt: skip
    for i, (name, values) in enumerate(zip(names, cells, strict=True)):
        y = 12 + i * 32
        p.text(12, y + 20, name, "start")
        for j, value in enumerate(values):
            p.box(110 + j * 70, y, 66, 28, value, GREY if j == 3 else BLUE if i else WHITE)
    p.text(353, 152, "closing row", size=11)
    p.text(12, 172, "Three decisions make four rows. The next observation", "start", 12)
    p.text(12, 188, "of a row is the observation of the row after it.", "start", 12)
    p.save("rows")


def windows() -> None:
    """Draw a trace that is cut into windows; splits; policies paired on the test windows."""
    p = Picture(284, "Windows, splits and pairing")
    p.text(12, 20, "A workload in time order, cut into windows", "start", bold=True)
    splits = (("train", 6, GREEN), ("validation", 2, ORANGE), ("test", 4, BLUE))
    x, number = 12.0, 0
    for name, count, fill in splits:
        first = x
        for _ in range(count):
            p.box(x, 32, 29, 30, str(number), fill, 12)
            x, number = x + 31, number + 1
        p.text((first + x) / 2, 80, name, size=12)
    p.arrow((12, 92), (386, 92))
    p.text(200, 108, "time", size=11)
    p.text(12, 136, "On every test window, all policies meet the same jobs", "start", bold=True)
    heads = ("window", "rule", "agent", "difference")
    lefts, widths = (12, 96, 190, 284), (80, 90, 90, 104)
    for head, left, width in zip(heads, lefts, widths, strict=True):
        p.box(left, 146, width, 26, head, GREY, 12)
    table = (
        ("8", "640 s", "628 s", "-12 s"),
        ("9", "1,910 s", "1,902 s", "-8 s"),
        ("10", "455 s", "457 s", "+2 s"),
    )
    for i, row in enumerate(table):
        for text, left, width in zip(row, lefts, widths, strict=True):
            p.box(left, 174 + i * 28, width, 26, text, WHITE, 12)
    p.text(12, 276, "The interval is of the mean of the last column.", "start", 12)
    p.save("windows")


def floors() -> None:
    """Draw the order of folders as tests/test_house.py tests it, the ground at the bottom."""
    tree = ast.parse((ROOT / "tests" / "test_house.py").read_text(encoding="utf-8"))
    found = next(
        node.value for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FLOORS"
    )  # fmt: skip
    order = ast.literal_eval(found)
    fills = {"pipeline": BLUE, "policies": GREEN, "flows": ORANGE}
    lines = []
    for rooms in reversed(order):
        names = [room.partition(".")[2] or room for room in rooms]
        lines.append((rooms[0].partition(".")[0], _wrapped(", ".join(names), 48)))
    height = 34 + sum(14 * len(text) + 14 for _, text in lines)
    p = Picture(height, "Order of the folders: a folder imports only from folders below it")
    p.text(12, 20, "A folder imports only from rows below its own", "start", 12, bold=True)
    y = 30.0
    for package, text in lines:
        tall = 14 * len(text) + 10
        p.box(84, y, 304, tall, text, fills[package], 11)
        p.text(12, y + tall / 2 + 4, package, "start", 11)
        y += tall + 4
    p.save("floors")


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


if __name__ == "__main__":
    for draw in (decision, kernel, rows, windows, floors):
        draw()
