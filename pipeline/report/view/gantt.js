// Jobs as rectangles on canvases with one time axis.
const colour = {};
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
// ---- colours ----
const NICE = inSeconds
  ? [
      1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800,
      2592000,
    ]
  : Array.from({ length: 16 }, (_, i) => 2 ** i);
// Round bounds near the given shares of the times above 0, each above the one before.
function boundsOf(times, shares) {
  const known = times.filter((time) => time > 0).sort(),
    found = [];
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
const WAITS = boundsOf(
  Float64Array.from(schedules.flatMap((s) => [...s.wait])),
  [0.2, 0.5, 0.75, 0.95],
);
const between = (bounds, write) => [
  `none`,
  ...bounds.map((b) => `to ${write(b)}`),
  `over ${write(bounds.at(-1))}`,
];
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
    name: "how far it moved",
    legend: [
      ["--early-3", `over ${span(MUCH)} earlier`],
      ["--early-2", `to ${span(MUCH)} earlier`],
      ["--early-1", `to ${span(LITTLE)} earlier`],
      ["--same", "same start"],
      ["--late-1", `to ${span(LITTLE)} later`],
      ["--late-2", `to ${span(MUCH)} later`],
      ["--late-3", `over ${span(MUCH)} later`],
      ["--alone", "started in one only"],
    ],
    of: (s, j) => {
      const by = moved[j],
        size = Math.abs(by);
      if (Number.isNaN(by)) return 7;
      if (!size) return 3;
      const step = size > MUCH ? 3 : size > LITTLE ? 2 : 1;
      return by > 0 ? 3 + step : 3 - step;
    },
  },
  wait: {
    name: "wait",
    legend: [...between(WAITS, span).map((text, i) => [ramp(i), text]), ["--same", "not counted"]],
    of: (s, j) => (Number.isNaN(s.wait[j]) ? 6 : s.wait[j] > 0 ? 1 + binned(WAITS, s.wait[j]) : 0),
  },
  slowdown: {
    name: "bounded slowdown",
    legend: [
      ...["1", "to 2", "to 10", "to 50", "to 250", "over 250"].map((text, i) => [ramp(i), text]),
      ["--same", "not counted"],
    ],
    of: (s, j) => (Number.isNaN(s.slowdown[j]) ? 6 : binned([1, 2, 10, 50, 250], s.slowdown[j])),
  },
  size: {
    name: `size in ${facts.unit}`,
    legend: [
      ...sizes.map((size) => `to ${amountText(A, size)}`),
      sizes.length ? `over ${amountText(A, sizes.at(-1))}` : "all",
    ].map((text, i) => [ramp(i), text]),
    of: (s, j) => binned(sizes, s.amount[j]),
  },
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
  WAYS.place = {
    name: A.machine,
    legend: [
      ["--same", `same ${A.machine}`],
      ["--late-2", `another ${A.machine}`],
      ["--alone", "started in one only"],
    ],
    of: (s, j) => {
      const [a, b] = places.map((place) => place[j]);
      return a < 0 || b < 0 ? 2 : a === b ? 0 : 1;
    },
  };
}
if (two && !moved.some((far) => far)) by = WAYS.place ? "place" : "wait";
for (const [kind, words] of Object.entries(facts.words)) {
  const work = new Float64Array(words.length + 1);
  for (let j = 0; j < N; j++) work[columns[kind][j]] += A.amount[j] * (A.end[j] - A.start[j] || 0);
  const order = [...words.keys()].sort((a, b) => work[b + 1] - work[a + 1]).slice(0, 7);
  const place = new Uint8Array(words.length + 1).fill(order.length);
  order.forEach((w, i) => {
    place[w + 1] = i;
  });
  WAYS[kind] = {
    name: kind,
    legend: [...order.map((w, i) => [`--line-${i + 1}`, words[w]]), ["--same", "others, unknown"]],
    of: (s, j) => place[columns[kind][j]],
  };
}
function recolour() {
  for (const name of ["card", "ink", "muted", "grid", "soft", "line-1", "line-2", "learned"]) {
    colour[name] = css(`--${name}`);
  }
  const way = WAYS[by],
    card = channels(colour.card);
  const full = way.legend.map(([name]) => channels(css(name)));
  const faint = full.map((c) => packed(c.map((x, i) => Math.round(0.2 * x + 0.8 * card[i]))));
  const strong = full.map(packed);
  for (const s of schedules) {
    for (let j = 0; j < N; j++) {
      s.shade[j] = (matches && !matches[j] ? faint : strong)[way.of(s, j)];
    }
  }
  $("legend").replaceChildren(
    ...way.legend.map(([name, text]) => {
      const item = document.createElement("li"),
        key = document.createElement("i");
      key.style.background = css(name);
      item.append(key, text);
      return item;
    }),
  );
}

// ---- layout ----
const stack = $("stack"),
  lanes = [...stack.querySelectorAll("canvas.lane")];
const axes = [...stack.querySelectorAll("canvas.axis")];
let width = 0,
  gutter = 56,
  ratio = 1,
  bitmaps = [];
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
      Math.max(1, Math.round(plotWidth() * ratio)),
      Math.max(1, canvas.height),
    );
    return { context, image, pixels: new Uint32Array(image.data.buffer) };
  });
  // Drawn once: the part that is shown is an element above it, which costs a frame nothing.
  const tall = $("overview").clientHeight,
    context = sized($("overview"));
  context.fillStyle = colour.card;
  context.fillRect(0, 0, width, tall);
  context.fillStyle = colour.grid;
  means(A, 1, first, last, Math.max(1, Math.floor(plotWidth()))).forEach((value, i) => {
    const h = (tall * Math.min(100, value)) / 100;
    context.fillRect(gutter + i, tall - h, 1, h);
  });
  makePlots();
}

// ---- drawing ----
function ticks() {
  const least = ((view.t1 - view.t0) / plotWidth()) * (inSeconds ? 84 : 70);
  const step = TICKS.find((size) => size >= least) ?? TICKS.at(-1);
  const shift = (facts.epoch ?? 0) % step,
    found = [];
  for (let t = Math.ceil((view.t0 + shift) / step) * step - shift; t <= view.t1; t += step)
    found.push(t);
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
  let edge = -99,
    day = "";
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
    if (text !== day && (t === view.t0 || xOf(t) > gutter + 80))
      context.fillText(text, t === view.t0 ? gutter : xOf(t), 18);
    day = text;
  }
}
function rowTicks(s, h) {
  const found = [];
  if (s.machines.length) {
    let at = 0,
      edge = -99;
    const size = h / (view.y1 - view.y0);
    s.machines.forEach((amount, i) => {
      const y = (view.y1 - at - amount / 2) * size;
      if (Math.abs(y - edge) > 14) (found.push([at, y, `${i}`]), (edge = y));
      at += amount;
    });
    return found;
  }
  const rough = (view.y1 - view.y0) / s.per_unit / Math.max(2, h / 44);
  const size = 10 ** Math.floor(Math.log10(rough));
  const step =
    Math.max(s.per_unit > 1 ? 0 : 1, [1, 2, 5, 10].find((k) => k * size >= rough) * size) *
    s.per_unit;
  for (let row = Math.ceil(view.y0 / step) * step; row <= view.y1; row += step) {
    found.push([row, (view.y1 - row) * (h / (view.y1 - view.y0)), amountText(s, row)]);
  }
  return found;
}
const boxOf = (s, r, h) => {
  const x = xOf(s.start[s.rect[r]]),
    k = h / (view.y1 - view.y0);
  return [x, (view.y1 - s.low[r] - s.height[r]) * k, xOf(s.end[s.rect[r]]) - x, s.height[r] * k];
};
function drawLane(s, i, marks) {
  const { context, image, pixels } = bitmaps[i],
    { width: w, height: h } = image;
  const { t0, t1, y0, y1 } = view,
    kx = w / (t1 - t0),
    ky = h / (y1 - y0),
    labels = [];
  const { rect, low, height, begins, ends, shade } = s;
  pixels.fill(packed(channels(colour.card)));
  const edge = packed(channels(colour.grid)),
    beyond = packed(channels(colour.soft));
  const column = (x, c) => {
    for (let p = x; p < pixels.length; p += w) pixels[p] = c;
  };
  for (let x = 0; x < Math.min(w, (s.from - t0) * kx); x++) column(x, beyond);
  for (let x = Math.max(0, Math.ceil((s.to - t0) * kx)); x < w; x++) column(x, beyond);
  for (const t of marks.found) column(Math.min(w - 1, Math.floor((t - t0) * kx)), edge);
  const full = Math.floor((y1 - s.rows) * ky);
  if (full > 0) pixels.fill(beyond, 0, Math.min(full, h) * w);
  for (let r = 0; r < rect.length; r++) {
    const a = begins[r],
      b = ends[r],
      j = rect[r];
    if (b <= t0 || a >= t1 || low[r] >= y1 || low[r] + height[r] <= y0) continue;
    let xa = Math.ceil((a - t0) * kx - 0.5),
      xb = Math.ceil((b - t0) * kx - 0.5);
    let ya = Math.ceil((y1 - low[r] - height[r]) * ky - 0.5),
      yb = Math.ceil((y1 - low[r]) * ky - 0.5);
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
    const c = shade[j],
      wide = xb - xa;
    for (let o = ya * w + xa, stop = yb * w + xa; o < stop; o += w) {
      if (wide > 24) pixels.fill(c, o, o + wide);
      else for (let p = o; p < o + wide; p++) pixels[p] = c;
    }
    if (wide > 30 * ratio && yb - ya > 12 * ratio && labels.length < 300)
      labels.push([j, xa, (ya + yb) / 2, wide]);
  }
  context.fillStyle = colour.card;
  context.fillRect(0, 0, width, h / ratio);
  context.putImageData(image, gutter * ratio, 0);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const [j, x, y, wide] of labels) {
    const text = nameOf(j),
      c = shade[j];
    if (text.length * 6.8 + 7 > wide / ratio) continue;
    // Black on what is lighter than this has a contrast of 4.5 at least, white on the others.
    const light =
      [0.2126, 0.7152, 0.0722].reduce(
        (sum, part, i) => sum + part * (((c >> (8 * i)) & 255) / 255) ** 2.2,
        0,
      ) > 0.18;
    context.fillStyle = light ? "#000" : "#fff";
    context.fillText(text, gutter + x / ratio + 4, y / ratio);
  }
  context.textAlign = "right";
  const size = h / ratio;
  for (const [row, y, text] of rowTicks(s, size)) {
    context.fillStyle = colour.muted;
    context.fillText(text, gutter - 7, Math.max(6, Math.min(size - 6, y)));
    if (s.machines.length)
      context.fillRect(gutter - 4, (view.y1 - row) * (size / (y1 - y0)), plotWidth() + 4, 1);
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
    const x = xOf(selection.t0),
      k = size / (y1 - y0);
    const box = [
      x,
      (y1 - selection.y1) * k,
      xOf(selection.t1) - x,
      (selection.y1 - selection.y0) * k,
    ];
    context.globalAlpha = 0.16;
    context.fillStyle = colour.learned;
    context.fillRect(...box);
    context.globalAlpha = 1;
    context.strokeStyle = colour.learned;
    context.strokeRect(...box);
  }
  context.restore();
}
let asleep = false,
  later_ = 0;
function draw() {
  asleep = false;
  if (width !== stack.clientWidth) layout();
  const marks = ticks(),
    count = Math.max(1, Math.floor(plotWidth()));
  schedules.forEach((s, i) => drawLane(s, i, marks));
  axes.forEach((canvas) => drawAxis(canvas, marks));
  const k = plotWidth() / (last - first);
  $("part").style.left = `${gutter + (view.t0 - first) * k}px`;
  $("part").style.width = `${Math.max(4, (view.t1 - view.t0) * k)}px`;
  const step = (view.t1 - view.t0) / count;
  const times = Array.from({ length: count }, (_, i) => view.t0 + (i + 0.5) * step);
  plots.forEach((plot, i) =>
    plot.setData([
      times,
      ...schedules.map((s) => means(s, facts.strips[i], view.t0, view.t1, count)),
    ]),
  );
  clearTimeout(later_);
  later_ = setTimeout(settle, 250);
}
function redraw() {
  if (!asleep) requestAnimationFrame(draw);
  asleep = true;
}
