"""Pictures of the gallery: pages of `hindcast view`, photographed in a headless Chromium.

    python -m docs.pictures.gallery

Browsers draw letters differently, so that the bytes are not compared by a test.
"""

import base64
import io
import tempfile
from pathlib import Path
from typing import Final

from PIL import Image

from hindcast.pipeline.dataset import open as open_dataset
from hindcast.pipeline.evaluation.evaluate import make_job
from hindcast.pipeline.recipes.loading import load_recipe
from hindcast.pipeline.report.view.episodes import write_episodes
from hindcast.pipeline.report.view.page import write_view
from hindcast.pipeline.schedules.windows import schedule_window
from hindcast.policies.entrants import entrants
from tests.chromium import Page, chromium
from tests.sample_datasets import build_small

OUT: Final = Path(__file__).resolve().parent.parent / "_static" / "gallery"
# name -> recipe, policies, window, state in the link, whether it is dark
PICTURES: Final = {
    "queue": ("queue-lublin1-v1", ("fcfs_easy", "saf_easy"), 47, "", False),
    "binpack": ("binpack-synthetic-v1", ("tetris", "first_fit"), 101, "", False),
    "slots": ("slots-demo-v1", ("sjf_reserve", "hold_5_backfill"), 1001, "", False),
    "deferrable": ("deferrable-base-v1", ("fifo", "tetris"), 101, "#by=wait", True),
}
# name -> recipe, behaviours, settings, state in the link, whether it is dark
STATES: Final = {
    "state-gpupack": (
        "gpupack-typical-v1", ("random", "fgd"), ("config.load=0.5", "config.every=40"),
        "#episode=1&step=75", False,
    ),
    "state-slots": ("slots-demo-v1", ("random",), (), "#episode=0&step=60", True),
    "state-thermal": ("thermal-default-v1", ("random",), (), "#episode=0&step=300", False),
}  # fmt: skip
_COLOURS: Final = 200


def main() -> None:
    """Draw all pictures."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium("--hide-scrollbars") as page:
        for name, (source, policies, window, state, dark) in PICTURES.items():
            recipe = load_recipe(source)
            job = make_job(recipe, "test", Path(folder))
            played = [
                schedule_window(job, of.behaviour, window) for of in entrants(recipe, policies)
            ]
            path = write_view(played, Path(folder) / f"{name}.html")
            _draw(page, path, name, state, ".drawing", dark=dark)
        for name, (source, policies, settings, state, dark) in STATES.items():
            dataset = open_dataset(build_small(Path(folder) / name, source, policies, settings))
            path = Path(folder) / f"{name}.html"
            write_episodes(dataset, dataset.iter_episodes(), path)
            _draw(page, path, name, state, ".drawing.stack", dark=dark)


def _draw(page: Page, path: Path, name: str, state: str, last: str, *, dark: bool) -> None:
    """Write the picture of a page, down to the element `last`."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    page.call("Emulation.setEmulatedMedia", features=[scheme])
    page.show(path, state)
    picture = Image.open(io.BytesIO(_photograph(page, last))).convert("RGB")
    picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(OUT / f"{name}.png", optimize=True)


def _photograph(page: Page, last: str) -> bytes:
    """Return the tools and the drawing as a PNG."""
    top, bottom = page.run(
        "[document.querySelector('.bar-of-tools').getBoundingClientRect().top + scrollY - 10, "
        f"document.querySelector('{last}').getBoundingClientRect().bottom + scrollY + 12]"
    )
    clip = {"x": 0, "y": top, "width": 1200, "height": bottom - top, "scale": 1}
    told = page.call(
        "Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip
    )  # fmt: skip
    return base64.b64decode(told["data"])


if __name__ == "__main__":
    main()
