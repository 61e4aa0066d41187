"""The page of two schedules of 50,000 jobs: size, packing, first paint, and frames while panning.

    python -m tests.benchmarks pages

The jobs are drawn. The browser is a headless Chromium without a graphics processor. First paint and
the moment of the drawing are from its own clock, from navigation on; frames are those that its
tracing says were shown, while every frame moves the time axis by half a percent of what is shown.
The CPU of a frame is processor time, so that other work on the machine does not count there; it
does count in the frames per second and in the moments.
"""

import tempfile
import time
from pathlib import Path

import psutil

from hindcast.pipeline.report.view.model import model_of
from hindcast.pipeline.report.view.packing import rectangles
from hindcast.pipeline.report.view.page import write_view
from tests.chromium import Page, chromium, program
from tests.made_schedules import made_schedule

JOBS, ROWS = 50_000, 2048
FRAMES = 180
ROUNDS = 5
_PAN = """(async () => {
  document.getElementById("all").click();
  hindcast.zoom(%s);
  const step = (hindcast.view.t1 - hindcast.view.t0) / 200, half = %d / 2;
  for (let i = 0; i < 2 * half; i++) {
    await new Promise(requestAnimationFrame);
    hindcast.pan(i < half ? step : -step);
  }
})()"""


def panning(page: Page, factor: float) -> tuple[float, float, float]:
    """Return frames per second while panning, and the ms of CPU per frame.

    The first ones are of the page's main thread, scripts and what canvases draw; the others are of
    all threads of the browser.
    """
    page.events.clear()
    categories = "disabled-by-default-devtools.timeline.frame,devtools.timeline,toplevel,cc"
    page.call("Tracing.start", transferMode="ReportEvents", categories=categories)
    begun, before = time.monotonic(), _processor_s(page)
    page.run(_PAN % (factor, FRAMES))
    length, whole = time.monotonic() - begun, _processor_s(page) - before
    page.call("Tracing.end")
    page.wait_for("Tracing.tracingComplete")
    events = [e for name, told in page.events if name == "Tracing.dataCollected"
              for e in told["value"]]  # fmt: skip
    shown = [event for event in events if event["name"] == "DrawFrame"]
    frames = [
        event["tdur"] / 1e3 for event in events
        if event["name"] == "ProxyMain::BeginMainFrame" and "tdur" in event
    ]  # fmt: skip
    return len(shown) / length, sum(frames) / len(frames), 1e3 * whole / len(frames)


def _processor_s(page: Page) -> float:
    """Return the seconds of CPU that the browser's processes have used."""
    browser = psutil.Process(page.process)
    times = [one.cpu_times() for one in (browser, *browser.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def measure() -> list[tuple[str, float, str, str]]:
    """Return what is measured: name, value, unit and what stands beside it."""
    schedules = [made_schedule(JOBS, policy, ROWS) for policy in ("fcfs", "saf")]
    rectangles(schedules[0])
    begun = time.process_time()
    drawn = [rectangles(schedule) for schedule in schedules]
    packing = (time.process_time() - begun) / 2
    found = [("packing 50,000 jobs", packing, "s", f"{len(drawn[0].job):,} rectangles")]
    if program() is None:
        return found
    with tempfile.TemporaryDirectory() as folder, chromium() as page:
        path = Path(folder) / "view.html"
        begun = time.process_time()
        write_view(schedules, path)
        found += [
            ("page of 2 x 50,000 jobs, written", time.process_time() - begun, "s", ""),
            ("page of 2 x 50,000 jobs, size", path.stat().st_size / 1e6, "MB", "of at most 2"),
        ]
        times = []
        for _ in range(ROUNDS):
            page.show(path)
            times.append(page.run(
                "[performance.getEntriesByName('first-contentful-paint')[0].startTime, "
                "performance.getEntriesByName('drawn')[0].startTime]"
            ))  # fmt: skip
        for name, values in zip(
            ("first paint", "schedules drawn"), zip(*times, strict=True), strict=True
        ):
            median = sorted(values)[ROUNDS // 2]
            found.append((f"{name}, median of {ROUNDS}", median / 1e3, "s", "of at most 1"))
        for name, factor in (("90 %", 0.9), ("a tenth", 0.1), ("a hundredth", 0.01)):
            frames, work, whole = panning(page, factor)
            found += [
                (f"panning, {name} of the time shown", frames, "frames/s", "of 60"),
                ("    CPU of the page's main thread a frame", work, "ms", "of 16.7"),
                ("    CPU of the whole browser a frame", whole, "ms", "of 16.7 on each core"),
            ]
    assert model_of(schedules).count == JOBS
    return found
