// Jobs as rectangles on canvases with one time axis, moved by mouse, touch and keys.
const colour = {};
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
// ---- colours ----
const NICE = inSeconds ? [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800,
  604800, 2592000] : Array.from({ length: 16 }, (_, i) => 2 ** i);
// Round bounds near the given shares of the times above 0, each above the one before.
function boundsOf(times, shares) {
  const known = times.filter((time) => time > 0).sort(), found = [];
  for (const share of shares) {
    const at = known[Math.floor(share * known.length)] ?? 0;
    let i = NICE.findIndex((nice) => nice >= at);
    if (i < 0) i = NICE.length - 1;
    while (found.includes(NICE[i]) && i < NICE.length - 1) i++;
    found.push(NICE[i]);
  }
  return found;
}
const [LITTLE, MUCH] = two ? boundsOf(moved.map(Math.abs), [0.35, 0.75]) : [];
const WAITS = boundsOf(Float64Array.from(schedules.flatMap((s) => [...s.wait])), [0.2, 0.5, 0.75, 0.95]);
const between = (bounds, write) => [`none`, ...bounds.map((b) => `to ${write(b)}`), `over ${write(bounds.at(-1))}`];
const ramp = (i) => `--ramp-${i}`;
function binned(bounds, value) {
  let i = 0;
  while (i < bounds.length && value > bounds[i]) i++;
  return i;
}
const sizes = [256, 64, 16, 4].map((part) => Math.floor(rows / part)).filter((size) => size > 0);
// Ways to colour: entries of the legend, and the entry of a job in a schedule.
const WAYS = {
  moved: {
    name: "how far it moved", legend: [
      ["--early-3", `over ${span(MUCH)} earlier`], ["--early-2", `to ${span(MUCH)} earlier`],
      ["--early-1", `to ${span(LITTLE)} earlier`], ["--same", "same start"],
      ["--late-1", `to ${span(LITTLE)} later`], ["--late-2", `to ${span(MUCH)} later`],
      ["--late-3", `over ${span(MUCH)} later`], ["--alone", "started in one only"]],
    of: (s, j) => {
      const by = moved[j], size = Math.abs(by);
      if (Number.isNaN(by)) return 7;
      if (!size) return 3;
      const step = size > MUCH ? 3 : size > LITTLE ? 2 : 1;
      return by > 0 ? 3 + step : 3 - step;
    } },
  wait: {
    name: "wait", legend: [...between(WAITS, span).map((text, i) => [ramp(i), text]),
      ["--same", "not counted"]],
    of: (s, j) => Number.isNaN(s.wait[j]) ? 6 : s.wait[j] > 0 ? 1 + binned(WAITS, s.wait[j]) : 0 },
  slowdown: {
    name: "bounded slowdown", legend: [...["1", "to 2", "to 10", "to 50", "to 250", "over 250"].map(
      (text, i) => [ramp(i), text]), ["--same", "not counted"]],
    of: (s, j) => Number.isNaN(s.slowdown[j]) ? 6 : binned([1, 2, 10, 50, 250], s.slowdown[j]) },
  size: {
    name: `size in ${facts.unit}`, legend: [...sizes.map((size) => `to ${amountText(A, size)}`),
      sizes.length ? `over ${amountText(A, sizes.at(-1))}` : "all"].map((text, i) => [ramp(i), text]),
    of: (s, j) => binned(sizes, s.amount[j]) },
};
if (!two) delete WAYS.moved;
if (two && A.machines.length && B.machines.length) {
  const places = schedules.map((s) => {
    const found = new Int32Array(N).fill(-1);
    for (let r = s.rect.length - 1; r >= 0; r--) {
      let machine = 0;
      for (let top = s.machines[0]; top <= s.low[r]; top += s.machines[machine]) machine++;
      found[s.rect[r]] = machine;
    }
    return found;
  });
  WAYS.place = { name: A.machine,
    legend: [["--same", `same ${A.machine}`], ["--late-2", `another ${A.machine}`],
      ["--alone", "started in one only"]],
    of: (s, j) => {
      const [a, b] = places.map((place) => place[j]);
      return a < 0 || b < 0 ? 2 : a === b ? 0 : 1;
    } };
}
if (two && !moved.some((far) => far)) by = WAYS.place ? "place" : "wait";
for (const [kind, words] of Object.entries(facts.words)) {
  const work = new Float64Array(words.length + 1);
  for (let j = 0; j < N; j++) work[columns[kind][j]] += A.amount[j] * (A.end[j] - A.start[j] || 0);
  const order = [...words.keys()].sort((a, b) => work[b + 1] - work[a + 1]).slice(0, 7);
  const place = new Uint8Array(words.length + 1).fill(order.length);
  order.forEach((w, i) => { place[w + 1] = i; });
  WAYS[kind] = { name: kind,
    legend: [...order.map((w, i) => [`--line-${i + 1}`, words[w]]), ["--same", "others, unknown"]],
    of: (s, j) => place[columns[kind][j]] };
}
function recolour() {
  for (const name of ["card", "ink", "muted", "grid", "soft", "line-1", "line-2", "learned"]) {
    colour[name] = css(`--${name}`);
  }
  const way = WAYS[by], card = channels(colour.card);
  const full = way.legend.map(([name]) => channels(css(name)));
  const faint = full.map((c) => packed(c.map((x, i) => Math.round(0.2 * x + 0.8 * card[i]))));
  const strong = full.map(packed);
  for (const s of schedules) {
    for (let j = 0; j < N; j++) {
      s.shade[j] = (matches && !matches[j] ? faint : strong)[way.of(s, j)];
    }
  }
  $("legend").replaceChildren(...way.legend.map(([name, text]) => {
    const item = document.createElement("li"), key = document.createElement("i");
    key.style.background = css(name);
    item.append(key, text);
    return item;
  }));
}

// ---- layout ----
const stack = $("stack"), lanes = [...stack.querySelectorAll("canvas.lane")];
const axes = [...stack.querySelectorAll("canvas.axis")];
let width = 0, gutter = 56, ratio = 1, bitmaps = [], overviewPath = null;
const plotWidth = () => width - gutter;
const timeAt = (x) => view.t0 + ((x - gutter) / plotWidth()) * (view.t1 - view.t0);
const xOf = (t) => gutter + ((t - view.t0) / (view.t1 - view.t0)) * plotWidth();
function sized(canvas) {
  const [w, h] = [Math.round(width * ratio), Math.round(canvas.clientHeight * ratio)];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
function layout() {
  width = stack.clientWidth;
  gutter = width < 600 ? 42 : 56;
  ratio = Math.min(2, devicePixelRatio || 1);
  bitmaps = lanes.map((canvas) => {
    const context = sized(canvas);
    const image = context.createImageData(
      Math.max(1, Math.round(plotWidth() * ratio)), Math.max(1, canvas.height));
    return { context, image, pixels: new Uint32Array(image.data.buffer) };
  });
  const tall = $("overview").clientHeight;
  overviewPath = new Path2D();
  means(A, 1, first, last, Math.max(1, Math.floor(plotWidth()))).forEach((value, i) => {
    const h = (tall * Math.min(100, value)) / 100;
    overviewPath.rect(gutter + i, tall - h, 1, h);
  });
  makePlots();
}

// ---- drawing ----
function ticks() {
  const least = ((view.t1 - view.t0) / plotWidth()) * (inSeconds ? 84 : 70);
  const step = TICKS.find((size) => size >= least) ?? TICKS.at(-1);
  const shift = (facts.epoch ?? 0) % step, found = [];
  for (let t = Math.ceil((view.t0 + shift) / step) * step - shift; t <= view.t1; t += step) found.push(t);
  return { step, found };
}
function drawAxis(canvas, { step, found }) {
  const context = sized(canvas);
  context.fillStyle = colour.card;
  context.fillRect(0, 0, width, 40);
  context.fillStyle = colour.muted;
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "top";
  const days = step >= 86400 && inSeconds;
  let edge = -99, day = "";
  const write = (text, x, y) => {
    const size = context.measureText(text).width;
    const left = Math.max(0, Math.min(width - size, x - size / 2));
    if (left > edge || y > 8) context.fillText(text, left, y);
    if (y < 9) edge = left + size + 8;
  };
  for (const t of found) {
    context.fillRect(xOf(t), 0, 1, 4);
    write(!inSeconds ? shortNumber(t) : days ? dayOf(t) : hourOf(t, step < 60), xOf(t), 6);
  }
  if (days || !inSeconds) return;
  context.fillStyle = colour.ink;
  for (const t of [view.t0, ...found]) {
    const text = dayOf(t);
    if (text !== day && (t === view.t0 || xOf(t) > gutter + 80)) context.fillText(text, t === view.t0 ? gutter : xOf(t), 18);
    day = text;
  }
}
function rowTicks(s, h) {
  const found = [];
  if (s.machines.length) {
    let at = 0, edge = -99;
    const size = (h / (view.y1 - view.y0));
    s.machines.forEach((amount, i) => {
      const y = (view.y1 - at - amount / 2) * size;
      if (Math.abs(y - edge) > 14) found.push([at, y, `${i}`]), edge = y;
      at += amount;
    });
    return found;
  }
  const rough = ((view.y1 - view.y0) / s.per_unit) / Math.max(2, h / 44);
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(s.per_unit > 1 ? 0 : 1, [1, 2, 5, 10].find((k) => k * size >= rough) * size) * s.per_unit;
  for (let row = Math.ceil(view.y0 / step) * step; row <= view.y1; row += step) {
    found.push([row, (view.y1 - row) * (h / (view.y1 - view.y0)), amountText(s, row)]);
  }
  return found;
}
const boxOf = (s, r, h) => {
  const x = xOf(s.start[s.rect[r]]), k = h / (view.y1 - view.y0);
  return [x, (view.y1 - s.low[r] - s.height[r]) * k, xOf(s.end[s.rect[r]]) - x, s.height[r] * k];
};
function drawLane(s, i, marks) {
  const { context, image, pixels } = bitmaps[i], { width: w, height: h } = image;
  const { t0, t1, y0, y1 } = view, kx = w / (t1 - t0), ky = h / (y1 - y0), labels = [];
  const { rect, low, height, begins, ends, shade } = s;
  pixels.fill(packed(channels(colour.card)));
  const edge = packed(channels(colour.grid)), beyond = packed(channels(colour.soft));
  const column = (x, c) => { for (let p = x; p < pixels.length; p += w) pixels[p] = c; };
  for (let x = 0; x < Math.min(w, (s.from - t0) * kx); x++) column(x, beyond);
  for (let x = Math.max(0, Math.ceil((s.to - t0) * kx)); x < w; x++) column(x, beyond);
  for (const t of marks.found) column(Math.min(w - 1, Math.floor((t - t0) * kx)), edge);
  const full = Math.floor((y1 - s.rows) * ky);
  if (full > 0) pixels.fill(beyond, 0, Math.min(full, h) * w);
  for (let r = 0; r < rect.length; r++) {
    const a = begins[r], b = ends[r], j = rect[r];
    if (b <= t0 || a >= t1 || low[r] >= y1 || low[r] + height[r] <= y0) continue;
    let xa = Math.ceil((a - t0) * kx - 0.5), xb = Math.ceil((b - t0) * kx - 0.5);
    let ya = Math.ceil((y1 - low[r] - height[r]) * ky - 0.5), yb = Math.ceil((y1 - low[r]) * ky - 0.5);
    if (matches && matches[j]) {
      if (xb - xa < 2) xb = xa + 2;
      if (yb - ya < 2) ya = yb - 2;
    } else {
      if (xa >= xb || ya >= yb) continue;
      if (xb - xa > 3) xb -= 1;
      if (yb - ya > 3) ya += 1;
    }
    if (xa < 0) xa = 0;
    if (ya < 0) ya = 0;
    if (xb > w) xb = w;
    if (yb > h) yb = h;
    const c = shade[j], wide = xb - xa;
    for (let o = ya * w + xa, stop = yb * w + xa; o < stop; o += w) {
      if (wide > 24) pixels.fill(c, o, o + wide);
      else for (let p = o; p < o + wide; p++) pixels[p] = c;
    }
    if (wide > 30 * ratio && yb - ya > 12 * ratio && labels.length < 300) labels.push([j, xa, (ya + yb) / 2, wide]);
  }
  context.fillStyle = colour.card;
  context.fillRect(0, 0, width, h / ratio);
  context.putImageData(image, gutter * ratio, 0);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const [j, x, y, wide] of labels) {
    const text = nameOf(j), c = shade[j];
    if (text.length * 6.8 + 7 > wide / ratio) continue;
    // Black on what is lighter than this has a contrast of 4.5 at least, white on the others.
    const light = [0.2126, 0.7152, 0.0722].reduce(
      (sum, part, i) => sum + part * (((c >> (8 * i)) & 255) / 255) ** 2.2, 0) > 0.18;
    context.fillStyle = light ? "#000" : "#fff";
    context.fillText(text, gutter + x / ratio + 4, y / ratio);
  }
  context.textAlign = "right";
  const size = h / ratio;
  for (const [row, y, text] of rowTicks(s, size)) {
    context.fillStyle = colour.muted;
    context.fillText(text, gutter - 7, Math.max(6, Math.min(size - 6, y)));
    if (s.machines.length) context.fillRect(gutter - 4, (view.y1 - row) * (size / (y1 - y0)), plotWidth() + 4, 1);
  }
  context.textAlign = "left";
  context.save();
  context.beginPath();
  context.rect(gutter, 0, plotWidth(), size);
  context.clip();
  context.lineWidth = 2;
  for (const job of new Set([focus, hover?.job ?? -1])) {
    context.strokeStyle = colour.ink;
    for (let r = 0; r < rect.length; r++) {
      if (rect[r] !== job) continue;
      const [x, y, wide, tall] = boxOf(s, r, size);
      context.strokeRect(x - 1, y - 1, Math.max(4, wide + 2), Math.max(4, tall + 2));
    }
  }
  if (selection && (selection.lane === null || selection.lane === i)) {
    const x = xOf(selection.t0), k = size / (y1 - y0);
    const box = [x, (y1 - selection.y1) * k, xOf(selection.t1) - x, (selection.y1 - selection.y0) * k];
    context.globalAlpha = 0.16;
    context.fillStyle = colour.learned;
    context.fillRect(...box);
    context.globalAlpha = 1;
    context.strokeStyle = colour.learned;
    context.strokeRect(...box);
  }
  context.restore();
}
function drawOverview() {
  const canvas = $("overview"), context = sized(canvas), h = canvas.clientHeight;
  context.fillStyle = colour.card;
  context.fillRect(0, 0, width, h);
  context.fillStyle = colour.grid;
  context.fill(overviewPath);
  const k = plotWidth() / (last - first), x = gutter + (view.t0 - first) * k;
  context.strokeStyle = colour.learned;
  context.lineWidth = 2;
  context.strokeRect(x + 1, 1, Math.max(3, (view.t1 - view.t0) * k - 2), h - 2);
}
let asleep = false, later_ = 0;
function draw() {
  asleep = false;
  if (width !== stack.clientWidth) layout();
  const marks = ticks(), count = Math.max(1, Math.floor(plotWidth()));
  schedules.forEach((s, i) => drawLane(s, i, marks));
  axes.forEach((canvas) => drawAxis(canvas, marks));
  drawOverview();
  const step = (view.t1 - view.t0) / count;
  const times = Array.from({ length: count }, (_, i) => view.t0 + (i + 0.5) * step);
  plots.forEach((plot, i) => plot.setData(
    [times, ...schedules.map((s) => means(s, facts.strips[i], view.t0, view.t1, count))]));
  clearTimeout(later_);
  later_ = setTimeout(settle, 250);
}
function redraw() {
  if (!asleep) requestAnimationFrame(draw);
  asleep = true;
}

// ---- moving ----
function clampView() {
  const least = inSeconds ? 20 : 2, wide = Math.min(last - first, Math.max(least, view.t1 - view.t0));
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
    const wide = view.t1 - view.t0, at = s.start[job];
    if (at < view.t0 || s.end[job] > view.t1) {
      const need = Math.max(wide, 1.5 * (s.end[job] - at));
      Object.assign(view, { t0: at - need / 4, t1: at + (3 * need) / 4 });
    }
    const r = s.rect.indexOf(job);
    if (r >= 0 && (s.low[r] < view.y0 || s.low[r] + s.height[r] > view.y1)) Object.assign(view, { y0: 0, y1: rows });
  }
  pan(0);
}
// The next job in order of starts for which something holds.
function step(s, way, holds = () => true) {
  const from = focus >= 0 && !Number.isNaN(s.start[focus]) ? s.start[focus] : way > 0 ? view.t0 - 1e-9 : view.t1;
  let best = -1;
  for (let j = 0; j < N; j++) {
    if (Number.isNaN(s.start[j]) || j === focus || !holds(j)) continue;
    const ahead = way * (s.start[j] - from), tie = way * (j - focus);
    if (ahead < 0 || (ahead === 0 && focus >= 0 && tie < 0)) continue;
    const gain = best < 0 ? -1 : way * (s.start[j] - s.start[best]) || way * (j - best);
    if (gain < 0) best = j;
  }
  if (best >= 0) look(best);
}

// ---- one job ----
function showTip() {
  // Without a pointer on it, a job that is out of sight has no note, and on narrow screens none has:
  // the line below the drawing says the same.
  const tip = $("tip"), job = hover?.job ?? focus;
  const s = schedules.find((one) => one.end[job] >= view.t0 && one.start[job] <= view.t1);
  tip.classList.toggle("hidden", !s || (!hover && width < 600));
  if (!s) return;
  const [head, ...lines] = describe(job), strong = document.createElement("strong");
  strong.textContent = head;
  tip.replaceChildren(strong, ...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })));
  const x = hover?.x ?? Math.max(gutter, xOf(s.start[job])), y = hover?.y ?? lanes[schedules.indexOf(s)].offsetTop + 14;
  tip.style.left = `${Math.max(0, Math.min(width - tip.offsetWidth, x + 14))}px`;
  tip.style.top = `${y + 16}px`;
}
function jobAt(i, x, y) {
  const s = schedules[i], h = lanes[i].clientHeight;
  let best = -1, near = 5;
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
const rowAt = (i, y) => view.y1 - ((y - lanes[i].offsetTop) / lanes[i].clientHeight) * (view.y1 - view.y0);
stack.addEventListener("pointerdown", (event) => {
  if (event.button || event.target.closest("h3")) return;
  pointers.set(event.pointerId, place(event));
  stack.setPointerCapture(event.pointerId);
  const at = place(event), lane = lanes.indexOf(event.target);
  held = { at, lane, view: { ...view }, overview: event.target.id === "overview", moved: false,
    select: selecting !== event.shiftKey, canvas: event.target };
});
stack.addEventListener("pointermove", (event) => {
  const at = place(event);
  if (pointers.has(event.pointerId)) {
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [, other] = others[0], before = pointers.get(event.pointerId);
      zoom(Math.max(20, Math.abs(before.x - other.x)) / Math.max(20, Math.abs(at.x - other.x)), timeAt((at.x + other.x) / 2));
      held.moved = true;
    } else if (Math.hypot(at.x - held.at.x, at.y - held.at.y) > 4 || held.moved) {
      held.moved = true;
      if (held.overview) {
        pan(((at.x - pointers.get(event.pointerId).x) / plotWidth()) * (last - first));
      } else if (held.select) {
        const [t0, t1] = [timeAt(held.at.x), timeAt(at.x)].sort((a, b) => a - b), i = held.lane;
        const [y0, y1] = i < 0 ? [0, rows] : [rowAt(i, held.at.y), rowAt(i, at.y)].sort((a, b) => a - b);
        selection = { t0, t1, y0, y1, lane: i < 0 ? null : i };
        redraw();
      } else {
        const k = (held.view.t1 - held.view.t0) / plotWidth(), tall = lanes[Math.max(0, held.lane)].clientHeight;
        Object.assign(view, held.view);
        pan(-Math.round(at.x - held.at.x) * k, held.lane < 0 ? 0 : ((at.y - held.at.y) / tall) * (view.y1 - view.y0));
      }
    }
    pointers.set(event.pointerId, at);
    return;
  }
  const i = lanes.indexOf(event.target), job = i < 0 ? -1 : jobAt(i, at.x, at.y - lanes[i].offsetTop);
  hover = job < 0 ? null : { job, ...at };
  const inside = at.x >= gutter, t = timeAt(at.x);
  $("hair").classList.toggle("hidden", !inside);
  $("hair").style.left = `${at.x}px`;
  facts.strips.forEach((which) => {
    const wide = (view.t1 - view.t0) / plotWidth();
    $(`value-${which}`).textContent = !inside ? "" : `${moment(t)}: ${schedules.map((s) => {
      const [value] = means(s, which, t - wide / 2, t + wide / 2, 1);
      return `${two ? `${s.policy} ` : ""}${value === null ? "–" : shortNumber(value)}`;
    }).join(", ")}`;
  });
  showTip();
  redraw();
});
function release(event) {
  if (!pointers.delete(event.pointerId) || pointers.size) return;
  if (!held.moved && event.type === "pointerup") {
    if (held.overview) pan(first + ((held.at.x - gutter) / plotWidth()) * (last - first) - (view.t0 + view.t1) / 2);
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
stack.addEventListener("wheel", (event) => {
  const at = place(event), i = lanes.indexOf(event.target);
  if (event.altKey && i >= 0) zoomRows(1.0015 ** event.deltaY, rowAt(i, at.y));
  else if (event.ctrlKey || event.metaKey) zoom(1.002 ** event.deltaY, timeAt(at.x));
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    pan(((event.deltaX || event.deltaY) / plotWidth()) * (view.t1 - view.t0));
  } else return;
  event.preventDefault();
}, { passive: false });
lanes.forEach((canvas, i) => canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const wide = (view.t1 - view.t0) / 8, tall = (view.y1 - view.y0) / 8, s = schedules[i];
  const act = {
    ArrowLeft: () => pan(-wide), ArrowRight: () => pan(wide), ArrowUp: () => pan(0, tall),
    ArrowDown: () => pan(0, -tall), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7),
    "[": () => zoomRows(1 / 0.7), "]": () => zoomRows(0.7), 0: showAll, Home: showAll,
    n: () => step(s, 1), p: () => step(s, -1), m: () => two && step(s, 1, (j) => moved[j]),
    Enter: listShown, Escape: () => { focus = -1; hover = null; showTip(); select(null); },
  }[event.key];
  if (!act) return;
  event.preventDefault();
  hover = null;
  act();
}));
$("in").addEventListener("click", () => zoom(0.7));
$("out").addEventListener("click", () => zoom(1 / 0.7));
$("all").addEventListener("click", showAll);
$("list").addEventListener("click", listShown);
$("more").addEventListener("click", () => { room += 200; fillTable(); });
for (const name of ["move", "select"]) {
  $(name).addEventListener("click", () => {
    selecting = name === "select";
    $("select").setAttribute("aria-pressed", selecting);
    $("move").setAttribute("aria-pressed", !selecting);
    stack.classList.toggle("select", selecting);
  });
}
for (const [key, way] of Object.entries(WAYS)) $("by").append(new Option(way.name, key));
$("by").addEventListener("change", () => { by = $("by").value; recolour(); redraw(); });
let typing = 0;
$("query").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(search, 150); });
$("query").addEventListener("keydown", (event) => {
  if (event.key === "Enter") { search(); if (matches) step(A, 1, (j) => matches[j]); }
});

// ---- beginning, and changes around the page ----
function restyle() {
  recolour();
  layout();
  draw();
}
for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", restyle);
addEventListener("beforeprint", restyle);
addEventListener("afterprint", restyle);
addEventListener("hashchange", () => { if (location.hash.includes("=")) readState(); });
new ResizeObserver(() => { if (width !== stack.clientWidth) redraw(); }).observe(stack);
readState();
layout();
draw();
performance.mark("drawn");
globalThis.hindcast = { schedules, view, pan, zoom, draw, nameOf };
