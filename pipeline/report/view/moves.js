// Moving the axes by mouse, touch and keys, and the beginning of the page.
function clampView() {
  const least = inSeconds ? 20 : 2,
    wide = Math.min(last - first, Math.max(least, view.t1 - view.t0));
  view.t0 = Math.max(first, Math.min(last - wide, view.t0));
  view.t1 = view.t0 + wide;
  const tall = Math.min(rows, Math.max(Math.min(rows, 2), view.y1 - view.y0));
  view.y0 = Math.max(0, Math.min(rows - tall, view.y0));
  view.y1 = view.y0 + tall;
}
function pan(t, y = 0) {
  Object.assign(view, { t0: view.t0 + t, t1: view.t1 + t, y0: view.y0 + y, y1: view.y1 + y });
  clampView();
  showTip();
  redraw();
}
function zoom(factor, at = (view.t0 + view.t1) / 2) {
  view.t0 = at - (at - view.t0) * factor;
  view.t1 = at + (view.t1 - at) * factor;
  pan(0);
}
function zoomRows(factor, at = (view.y0 + view.y1) / 2) {
  view.y0 = at - (at - view.y0) * factor;
  view.y1 = at + (view.y1 - at) * factor;
  pan(0);
}
function showAll() {
  Object.assign(view, { t0: first, t1: last, y0: 0, y1: rows });
  pan(0);
}
function look(job) {
  focus = job;
  const s = schedules.find((one) => !Number.isNaN(one.start[job]));
  if (s) {
    const wide = view.t1 - view.t0,
      at = s.start[job];
    if (at < view.t0 || s.end[job] > view.t1) {
      const need = Math.max(wide, 1.5 * (s.end[job] - at));
      Object.assign(view, { t0: at - need / 4, t1: at + (3 * need) / 4 });
    }
    const r = s.rect.indexOf(job);
    if (r >= 0 && (s.low[r] < view.y0 || s.low[r] + s.height[r] > view.y1))
      Object.assign(view, { y0: 0, y1: rows });
  }
  pan(0);
}
// The next job in order of starts for which something holds.
function step(s, way, holds = () => true) {
  const from =
    focus >= 0 && !Number.isNaN(s.start[focus])
      ? s.start[focus]
      : way > 0
        ? view.t0 - 1e-9
        : view.t1;
  let best = -1;
  for (let j = 0; j < N; j++) {
    if (Number.isNaN(s.start[j]) || j === focus || !holds(j)) continue;
    const ahead = way * (s.start[j] - from),
      tie = way * (j - focus);
    if (ahead < 0 || (ahead === 0 && focus >= 0 && tie < 0)) continue;
    const gain = best < 0 ? -1 : way * (s.start[j] - s.start[best]) || way * (j - best);
    if (gain < 0) best = j;
  }
  if (best >= 0) look(best);
}

function jobAt(i, x, y) {
  const s = schedules[i],
    h = lanes[i].clientHeight;
  let best = -1,
    near = 5;
  for (let r = 0; r < s.rect.length; r++) {
    const j = s.rect[r];
    if (s.end[j] < view.t0 || s.start[j] > view.t1) continue;
    const [left, top, wide, tall] = boxOf(s, r, h);
    const far = Math.max(left - x, x - left - wide, 0) + Math.max(top - y, y - top - tall, 0);
    if (far < near) [best, near] = [j, far];
  }
  return best;
}

// ---- mouse, touch, keys ----
const pointers = new Map();
let held = null;
const place = (event) => {
  const box = stack.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
};
const rowAt = (i, y) =>
  view.y1 - ((y - lanes[i].offsetTop) / lanes[i].clientHeight) * (view.y1 - view.y0);
stack.addEventListener("pointerdown", (event) => {
  if (event.button || event.target.closest("h3")) return;
  pointers.set(event.pointerId, place(event));
  stack.setPointerCapture(event.pointerId);
  const at = place(event),
    lane = lanes.indexOf(event.target);
  held = {
    at,
    lane,
    view: { ...view },
    overview: event.target.id === "overview",
    moved: false,
    select: selecting !== event.shiftKey,
    canvas: event.target,
  };
});
stack.addEventListener("pointermove", (event) => {
  const at = place(event);
  if (pointers.has(event.pointerId)) {
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [, other] = others[0],
        before = pointers.get(event.pointerId);
      zoom(
        Math.max(20, Math.abs(before.x - other.x)) / Math.max(20, Math.abs(at.x - other.x)),
        timeAt((at.x + other.x) / 2),
      );
      held.moved = true;
    } else if (Math.hypot(at.x - held.at.x, at.y - held.at.y) > 4 || held.moved) {
      held.moved = true;
      if (held.overview) {
        pan(((at.x - pointers.get(event.pointerId).x) / plotWidth()) * (last - first));
      } else if (held.select) {
        const [t0, t1] = [timeAt(held.at.x), timeAt(at.x)].sort((a, b) => a - b),
          i = held.lane;
        const [y0, y1] =
          i < 0 ? [0, rows] : [rowAt(i, held.at.y), rowAt(i, at.y)].sort((a, b) => a - b);
        selection = { t0, t1, y0, y1, lane: i < 0 ? null : i };
        redraw();
      } else {
        const k = (held.view.t1 - held.view.t0) / plotWidth(),
          tall = lanes[Math.max(0, held.lane)].clientHeight;
        Object.assign(view, held.view);
        pan(
          -Math.round(at.x - held.at.x) * k,
          held.lane < 0 ? 0 : ((at.y - held.at.y) / tall) * (view.y1 - view.y0),
        );
      }
    }
    pointers.set(event.pointerId, at);
    return;
  }
  const i = lanes.indexOf(event.target),
    job = i < 0 ? -1 : jobAt(i, at.x, at.y - lanes[i].offsetTop);
  hover = job < 0 ? null : { job, ...at };
  const inside = at.x >= gutter,
    t = timeAt(at.x);
  $("hair").classList.toggle("hidden", !inside);
  $("hair").style.left = `${at.x}px`;
  facts.strips.forEach((which) => {
    const wide = (view.t1 - view.t0) / plotWidth();
    $(`value-${which}`).textContent = !inside
      ? ""
      : `${moment(t)}: ${schedules
          .map((s) => {
            const [value] = means(s, which, t - wide / 2, t + wide / 2, 1);
            return `${two ? `${s.policy} ` : ""}${value === null ? "–" : shortNumber(value)}`;
          })
          .join(", ")}`;
  });
  showTip();
  redraw();
});
function release(event) {
  if (!pointers.delete(event.pointerId) || pointers.size) return;
  if (!held.moved && event.type === "pointerup") {
    if (held.overview)
      pan(first + ((held.at.x - gutter) / plotWidth()) * (last - first) - (view.t0 + view.t1) / 2);
    else if (held.lane >= 0) {
      focus = jobAt(held.lane, held.at.x, held.at.y - lanes[held.lane].offsetTop);
      hover = null;
      pan(0);
    }
  } else if (held.select && !held.overview) relist();
}
stack.addEventListener("pointerup", release);
stack.addEventListener("pointercancel", release);
stack.addEventListener("pointerleave", () => {
  hover = null;
  $("hair").classList.add("hidden");
  for (const which of facts.strips) $(`value-${which}`).textContent = "";
  showTip();
  redraw();
});
stack.addEventListener(
  "wheel",
  (event) => {
    const at = place(event),
      i = lanes.indexOf(event.target);
    if (event.altKey && i >= 0) zoomRows(1.0015 ** event.deltaY, rowAt(i, at.y));
    else if (event.ctrlKey || event.metaKey) zoom(1.002 ** event.deltaY, timeAt(at.x));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan(((event.deltaX || event.deltaY) / plotWidth()) * (view.t1 - view.t0));
    } else return;
    event.preventDefault();
  },
  { passive: false },
);
lanes.forEach((canvas, i) =>
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const wide = (view.t1 - view.t0) / 8,
      tall = (view.y1 - view.y0) / 8,
      s = schedules[i];
    const act = {
      ArrowLeft: () => pan(-wide),
      ArrowRight: () => pan(wide),
      ArrowUp: () => pan(0, tall),
      ArrowDown: () => pan(0, -tall),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1 / 0.7),
      "[": () => zoomRows(1 / 0.7),
      "]": () => zoomRows(0.7),
      0: showAll,
      Home: showAll,
      n: () => step(s, 1),
      p: () => step(s, -1),
      m: () => two && step(s, 1, (j) => moved[j]),
      Enter: listShown,
      Escape: () => {
        focus = -1;
        hover = null;
        showTip();
        select(null);
      },
    }[event.key];
    if (!act) return;
    event.preventDefault();
    hover = null;
    act();
  }),
);
$("in").addEventListener("click", () => zoom(0.7));
$("out").addEventListener("click", () => zoom(1 / 0.7));
$("all").addEventListener("click", showAll);
$("list").addEventListener("click", listShown);
$("more").addEventListener("click", () => {
  room += 200;
  fillTable();
});
for (const name of ["move", "select"]) {
  $(name).addEventListener("click", () => {
    selecting = name === "select";
    $("select").setAttribute("aria-pressed", selecting);
    $("move").setAttribute("aria-pressed", !selecting);
    stack.classList.toggle("select", selecting);
  });
}
for (const [key, way] of Object.entries(WAYS)) $("by").append(new Option(way.name, key));
$("by").addEventListener("change", () => {
  by = $("by").value;
  recolour();
  redraw();
});
facts.resources.forEach(([name], k) =>
  $("resource").append(new Option(name, k, false, k === resource)),
);
$("resource")?.addEventListener("change", () => {
  Object.assign(view, { y0: 0, y1: rows });
  selection = null;
  settle();
  const rest = location.hash.replace(/&resource=\d+/, "");
  history.replaceState("resource", "", `${rest}&resource=${$("resource").value}`);
  location.reload();
});
if (history.state === "resource") $("resource").focus();
let typing = 0;
$("query").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(search, 150);
});
$("query").addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    search();
    if (matches) step(A, 1, (j) => matches[j]);
  }
});

// ---- beginning, and changes around the page ----
function restyle() {
  recolour();
  layout();
  draw();
}
for (const query of ["(prefers-color-scheme: dark)", "print"])
  matchMedia(query).addEventListener("change", restyle);
addEventListener("beforeprint", restyle);
addEventListener("afterprint", restyle);
addEventListener("hashchange", () => {
  if (location.hash.includes("=")) readState();
});
new ResizeObserver(() => {
  if (width !== stack.clientWidth) redraw();
}).observe(stack);
readState();
layout();
draw();
performance.mark("drawn");
globalThis.hindcast = { schedules, view, pan, zoom, draw, nameOf };
