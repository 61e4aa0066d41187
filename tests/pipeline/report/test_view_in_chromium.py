"""The page of schedules in a browser: what it holds and draws, keys, links, and no error."""

from urllib.parse import urlsplit

import numpy as np
import polars as pl
import pytest

from hindcast.pipeline.report.view.model import model_of
from hindcast.pipeline.report.view.page import page_of, write_view
from hindcast.pipeline.schedules.schedule import make_schedule
from tests.chromium import chromium
from tests.made_schedules import made_schedule
from tests.pipeline.report.view_pages import HOSTILE, held, hostile_pair, rectangles_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser():
    with chromium() as page:
        yield page


@pytest.fixture(scope="module")
def pair():
    return [made_schedule(300, policy) for policy in ("fcfs", "saf")]


@pytest.fixture(scope="module")
def path(pair, tmp_path_factory):
    return write_view(pair, tmp_path_factory.mktemp("view") / "view.html")


def view_of(page):
    return page.run("[hindcast.view.t0, hindcast.view.t1]")


def test_the_browser_has_the_rectangles_of_the_data(browser, path, pair):
    browser.show(path)
    data = held(page_of(model_of(pair)))
    for which in range(2):
        found = browser.run(
            f"(({{rect, low, height, start, end}}) => [...rect].map((j, r) => "
            f"[start[j], end[j], low[r], height[r]]))(hindcast.schedules[{which}])"
        )
        wanted = rectangles_of(data, which).select("start_s", "end_s", "low", "height")
        assert np.array_equal(np.array(found), wanted.to_numpy())


def test_a_job_is_drawn_where_and_when_it_runs(browser, path, pair):
    """The middle of each large rectangle has the colour of its job, in light and in dark."""
    for scheme in ("light", "dark"):
        browser.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        browser.show(path)
        told = browser.run("""[0, 1].map((which) => {
          const canvas = document.querySelectorAll("canvas.lane")[which];
          const s = hindcast.schedules[which];
          const { t0, t1, y0, y1 } = hindcast.view, context = canvas.getContext("2d");
          const gutter = 56, wide = canvas.width - gutter, found = [];
          s.rect.forEach((j, r) => {
            const k = wide / (t1 - t0), tall = canvas.height / (y1 - y0);
            const w = (s.end[j] - s.start[j]) * k, h = s.height[r] * tall;
            if (w < 8 || h < 8) return;
            const x = gutter + ((s.start[j] + s.end[j]) / 2 - t0) * k;
            const y = (y1 - s.low[r] - s.height[r] / 8) * tall;
            const [red, green, blue] = context.getImageData(x, y, 1, 1).data;
            found.push([s.shade[j], ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0]);
          });
          return found;
        })""")
        assert min(map(len, told)) > 5
        pixels = np.array([pair for lane in told for pair in lane])
        # a name may stand on the pixel
        assert (pixels[:, 0] == pixels[:, 1]).mean() > 0.9
    browser.call("Emulation.setEmulatedMedia", features=[])


@pytest.mark.parametrize("size", [(1200, 900), (390, 800)], ids=["wide", "narrow"])
def test_nothing_is_asked_for_and_no_error_is_told(browser, path, size):
    browser.show(path, "", *size)
    browser.run("document.getElementById('list').click()")
    assert browser.run("document.documentElement.scrollWidth") <= size[0]
    assert browser.faults() == []


def test_hostile_names_are_shown_and_not_run(browser, tmp_path):
    page = write_view(hostile_pair(), tmp_path / "view.html")
    browser.show(page, "#by=user&q=%3Cscript%3E&job=0&list=0..1e9..0..1e9..")
    browser.until("document.getElementById('body').rows.length")
    assert browser.faults() == []
    assert not any(method == "Page.javascriptDialogOpening" for method, _ in browser.events)
    assert browser.run("document.images.length") == 0
    assert browser.run("document.scripts.length") == 4
    assert HOSTILE[0] in browser.run("document.getElementById('legend').textContent")
    assert HOSTILE[1] in browser.run("document.getElementById('body').textContent")


def test_keys_alone_reach_and_move_everything(browser, path):
    browser.show(path)
    reached = []
    for _ in range(40):
        browser.press("Tab")
        reached.append(browser.run(
            "document.activeElement.id || document.activeElement.className || "
            "document.activeElement.tagName"
        ))  # fmt: skip
        if reached[-1] == "job-link":
            break
    controls = ["by", "query", "in", "out", "all", "move", "select", "list", "lane", "lane"]
    assert [name for name in reached if name in controls] == controls
    assert reached[-1] == "job-link"

    browser.run("document.querySelector('canvas.lane').focus()")
    whole = view_of(browser)
    browser.press("+", "+")
    near = view_of(browser)
    assert near[1] - near[0] == pytest.approx(0.49 * (whole[1] - whole[0]))
    browser.press("ArrowRight")
    assert view_of(browser)[0] > near[0]
    browser.press("n")
    browser.until("document.getElementById('shown').textContent.includes('Job ')")
    browser.press("Enter")
    listed = browser.run("document.getElementById('listed').textContent")
    assert listed.startswith("Jobs that run between")
    browser.press("Escape", "Home")
    assert view_of(browser) == whole
    assert "moved the most" in browser.run("document.getElementById('listed').textContent")
    assert browser.faults() == []


def test_a_search_finds_a_user_and_a_job(browser, path, pair):
    browser.show(path)
    for text, count in (("user2", (pair[0].jobs["user"] == "user2").sum()), ("17", 1)):
        browser.run(
            f"(() => {{ const box = document.getElementById('query'); box.value = {text!r}; "
            "box.dispatchEvent(new Event('input')); })()"
        )
        words = f"{count} of 300 jobs match"
        browser.until(f"document.getElementById('shown').textContent.includes({words!r})")


def test_the_link_keeps_what_is_shown(browser, path):
    browser.show(path)
    browser.run("hindcast.zoom(0.3); hindcast.pan(5000)")
    browser.until("location.hash.includes('t=')")
    browser.run("document.getElementById('list').click()")
    link = browser.until("location.hash.includes('list=') && location.href")
    shown, rows = view_of(browser), browser.run("document.getElementById('body').textContent")
    browser.show(path, f"#{urlsplit(link).fragment}")
    assert view_of(browser) == pytest.approx(shown, abs=0.001)
    browser.until("document.getElementById('listed').textContent.includes('run between')")
    assert browser.run("document.getElementById('body').textContent") == rows


def test_keys_choose_the_resource_and_the_link_keeps_it(browser, tmp_path):
    """The focus stays on the choice, and the drawing is of that resource."""
    pair = []
    for policy in ("fcfs", "saf"):
        of = made_schedule(60, policy, 256)
        gpus = pl.Series([job % 3 for job in range(60)])
        facts = {**of.facts, "capacity": {"processors": 256, "gpus": 180}}
        pair.append(make_schedule(of.jobs.with_columns(gpus=gpus), facts))
    path = write_view(pair, tmp_path / "view.html")
    browser.show(path)
    browser.run("document.getElementById('resource').focus()")
    browser.press("ArrowDown")
    browser.until("document.getElementById('resource')?.value === '1'")
    browser.until("location.hash.includes('resource=1') && window.hindcast")
    assert browser.run("document.activeElement.id") == "resource"
    assert browser.run("hindcast.schedules[1].rect.length") == sum(j % 3 > 0 for j in range(60))
    label = browser.run("document.querySelector('canvas.lane').getAttribute('aria-label')")
    assert label.endswith("180 gpus")
    browser.show(path, "#resource=1&by=wait")
    assert browser.run("hindcast.schedules[0].rows") == 180
    assert browser.faults() == []
    browser.show(path, "#resource=7")
    assert browser.run("hindcast.schedules[0].rows") == 256


def test_dragging_moves_and_selects(browser, path):
    browser.show(path, "", 1200, 1600)
    browser.run("hindcast.zoom(0.5)")
    before = view_of(browser)
    x, y = browser.run("""(() => {
      const box = document.querySelector("canvas.lane").getBoundingClientRect();
      return [box.left + 500, box.top + 100]; })()""")
    button = {"button": "left", "buttons": 1, "clickCount": 1}
    for modifiers in (0, 8):  # 8 is Shift
        browser.mouse("mousePressed", x, y, modifiers=modifiers, **button)
        browser.mouse("mouseMoved", x - 100, y + 30, modifiers=modifiers, **button)
        browser.mouse("mouseReleased", x - 100, y + 30, modifiers=modifiers, **button)
        if not modifiers:
            after = view_of(browser)
            assert after[0] > before[0]
    assert view_of(browser) == after
    listed = browser.run("document.getElementById('listed').textContent")
    assert "under fcfs" in listed


def test_the_page_is_printed_in_light_colours(browser, path):
    browser.call(
        "Emulation.setEmulatedMedia", media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}])  # fmt: skip
    browser.show(path, "", 718, 1000)
    paper = browser.run("""(() => {
      const canvas = document.querySelector("canvas.axis");
      return [...canvas.getContext("2d").getImageData(1, 20, 1, 1).data]; })()""")
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert paper == [255, 255, 255, 255]
