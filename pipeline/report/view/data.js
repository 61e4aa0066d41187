// Schedules of the data, and numbers and moments in words. What a column holds is in model.py.
const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const TICKS = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
  432000, 864000, 1728000, 4320000, 8640000, 31536000, 315360000,
];

// The resource that is drawn is chosen once: another one is another page of the same link.
const resourceIn = (hash) => {
  const k = Number(new URLSearchParams(hash.slice(1)).get("resource"));
  return facts.resources[k] ? k : 0;
};
const resource = resourceIn(location.hash);
if (resource) {
  facts.unit = facts.resources[resource][0];
  facts.schedules = facts.resources[resource][1];
  for (const text of document.querySelectorAll("[data-resource]"))
    text.classList.toggle("hidden", text.dataset.resource !== `${resource}`);
  for (const lane of document.querySelectorAll("canvas.lane"))
    lane.setAttribute("aria-label", lane.dataset[`label${resource}`]);
}
const N = facts.count,
  inSeconds = facts.clock === "s";
const schedules = facts.schedules.map((of, s) => {
  const [submit, eligible, start, end, wait] = ["submit", "eligible", "start", "end", "wait"].map(
    (name) => Float64Array.from(columns[name + s]),
  );
  const [amount, rect, low, cut] = ["amount", "rect", "low", "cut"].map(
    (name) => columns[name + s + (resource ? `_${resource}` : "")],
  );
  const height = cut.map((cut, r) => amount[rect[r]] - cut);
  const there = new Uint8Array(N).fill(1);
  for (const j of columns["absent" + s]) there[j] = 0;
  for (const j of [...columns["absent" + s], ...columns["never" + s]]) {
    start[j] = end[j] = wait[j] = NaN;
  }
  for (const j of columns["uncounted" + s]) wait[j] = NaN;
  const slowdown = wait.map((w, j) =>
    Math.max(1, (w + end[j] - start[j]) / Math.max(end[j] - start[j], 10)),
  );
  const [begins, ends] = [start, end].map((times) => rect.map((j) => times[j]));
  return {
    ...of,
    begins,
    ends,
    submit,
    eligible,
    start,
    end,
    wait,
    slowdown,
    amount,
    rect,
    low,
    height,
    there,
    shade: new Uint32Array(N),
  };
});
const two = schedules.length > 1,
  [A, B] = schedules;
const moved = two ? B.start.map((start, j) => start - A.start[j]) : null;
const asked = columns.requested,
  unasked = new Uint8Array(N);
for (const j of columns.unasked) unasked[j] = 1;
const word = (kind, j) => facts.words[kind]?.[columns[kind][j] - 1] ?? "";
const nameOf = (j) =>
  (facts.names?.[j] ?? String((columns.name ?? columns.job)[j])) +
  (columns.part ? `.${columns.part[j]}` : "");

// The whole range of time and rows, and the part of it that is shown.
let first = Infinity,
  last = -Infinity;
for (const s of schedules) {
  for (let j = 0; j < N; j++) {
    if (s.there[j] && s.submit[j] >= s.from && s.submit[j] < first) first = s.submit[j];
    if (s.start[j] < first) first = s.start[j];
    if (s.end[j] > last) last = s.end[j];
  }
}
if (!(last > first)) [first, last] = [A.from, Math.max(A.to, A.from + 1)];
const rows = Math.max(1, ...schedules.map((s) => s.rows));
// First without what runs before and after the window, if anything is left.
const view = {
  t0: Math.max(first, Math.min(...schedules.map((s) => s.from))),
  t1: Math.min(last, Math.max(...schedules.map((s) => s.to))),
  y0: 0,
  y1: rows,
};
if (!(view.t1 > view.t0)) Object.assign(view, { t0: first, t1: last });
let by = two ? "moved" : "wait",
  query = "",
  focus = -1,
  selection = null,
  selecting = false;
let hover = null;

// ---- words ----
const pad = (number) => String(number).padStart(2, "0");
const FORMATS = [0, 1, 2].map(
  (digits) => new Intl.NumberFormat("en", { maximumFractionDigits: digits }),
);
const shortNumber = (x) =>
  Number.isNaN(x) ? "–" : FORMATS[Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2].format(x);
function span(s) {
  if (Number.isNaN(s)) return "–";
  if (!inSeconds) return `${shortNumber(s)} ${facts.clock}s`;
  const size = Math.abs(s);
  return size < 60
    ? `${shortNumber(s)} s`
    : size < 3600
      ? `${shortNumber(s / 60)} min`
      : size < 172800
        ? `${shortNumber(s / 3600)} h`
        : `${shortNumber(s / 86400)} days`;
}
function dayOf(t) {
  if (facts.epoch === null) return `day ${Math.floor(t / 86400) + 1}`;
  const date = new Date((facts.epoch + t) * 1000);
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
}
function hourOf(t, seconds) {
  const s = Math.floor((((t + (facts.epoch ?? 0)) % 86400) + 86400) % 86400);
  const text = `${pad(Math.floor(s / 3600))}:${pad(Math.floor(s / 60) % 60)}`;
  return seconds ? `${text}:${pad(s % 60)}` : text;
}
const moment = (t) =>
  Number.isNaN(t)
    ? "–"
    : inSeconds
      ? `${dayOf(t)}, ${hourOf(t, view.t1 - view.t0 < 3600)}`
      : `${facts.clock} ${shortNumber(t)}`;
const brief = (t) => moment(t).replace(/ \d{4},/, "");
const amountText = (s, amount) => shortNumber(amount / s.per_unit);
const later = (s) =>
  Number.isNaN(s) ? "–" : s ? `${span(Math.abs(s))} ${s > 0 ? "later" : "earlier"}` : "same";
