// One job in words, the table of jobs, the search, and the state of the page in its link.
function describe(j) {
  const one = A.there[j] ? A : B;
  const lines = [
    `Job ${nameOf(j)}`,
    `${amountText(one, one.amount[j])} of ${amountText(one, one.rows)} ${facts.unit}`,
  ];
  const words = Object.keys(facts.words)
    .filter((kind) => word(kind, j))
    .map((kind) => `${kind} ${word(kind, j)}`);
  if (words.length) lines.push(words.join(", "));
  lines.push(`submitted ${moment(one.submit[j])}`);
  for (const s of schedules) {
    const start = s.start[j],
      under = two ? `${s.policy}: ` : "";
    lines.push(
      !s.there[j]
        ? `${under}not in this schedule`
        : Number.isNaN(start)
          ? `${under}did not start`
          : `${under}${brief(start)} to ${brief(s.end[j])}, wait ${span(s.wait[j])}`,
    );
  }
  if (two && moved[j]) lines.push(`starts ${later(moved[j])} under ${B.policy}`);
  return lines;
}
function showTip() {
  // Without a pointer on it, a job that is out of sight has no note, and on narrow screens none has:
  // the line below the drawing says the same.
  const tip = $("tip"),
    job = hover?.job ?? focus;
  const s = schedules.find((one) => one.end[job] >= view.t0 && one.start[job] <= view.t1);
  tip.classList.toggle("hidden", !s || (!hover && width < 600));
  if (!s) return;
  const [head, ...lines] = describe(job),
    strong = document.createElement("strong");
  strong.textContent = head;
  tip.replaceChildren(
    strong,
    ...lines.map((line) => Object.assign(document.createElement("div"), { textContent: line })),
  );
  const x = hover?.x ?? Math.max(gutter, xOf(s.start[job])),
    y = hover?.y ?? lanes[schedules.indexOf(s)].offsetTop + 14;
  tip.style.left = `${Math.max(0, Math.min(width - tip.offsetWidth, x + 14))}px`;
  tip.style.top = `${y + 16}px`;
}

// ---- table ----
const kinds = Object.keys(facts.words).filter((kind) => facts.words[kind].length > 1);
const COLUMNS = [
  ["job", (j) => nameOf(j), (j) => columns.job[j]],
  ...kinds.map((kind) => [kind, (j) => word(kind, j) || "–", (j) => word(kind, j)]),
  ...(two ? [["moved", (j) => later(moved[j]), (j) => moved[j]]] : []),
  [
    facts.unit,
    (j) => amountText(A, (A.there[j] ? A : B).amount[j]),
    (j) => (A.there[j] ? A : B).amount[j],
  ],
  [
    "submitted",
    (j) => brief((A.there[j] ? A : B).submit[j]),
    (j) => (A.there[j] ? A : B).submit[j],
  ],
  ...schedules.flatMap((s) => {
    const under = two ? `${s.policy}: ` : "";
    return [
      [`${under}start`, (j) => brief(s.start[j]), (j) => s.start[j]],
      [`${under}wait`, (j) => span(s.wait[j]), (j) => s.wait[j]],
      [`${under}slowdown`, (j) => shortNumber(s.slowdown[j]), (j) => s.slowdown[j]],
    ];
  }),
];
const leftColumns = 1 + kinds.length;
let listed = [],
  room = 20,
  sorted = null;
function relist() {
  const order = Uint32Array.from({ length: N }, (_, j) => j);
  sorted = null;
  if (!selection) {
    const key = two ? (j) => -Math.abs(moved[j]) : (j) => -A.wait[j];
    listed = [...order.filter((j) => key(j) < 0)].sort((a, b) => key(a) - key(b));
    room = 20;
    $("listed").textContent = two ? "Jobs that moved the most." : "Jobs that waited the longest.";
  } else {
    const { t0, t1, y0, y1, lane } = selection,
      inside = new Uint8Array(N);
    schedules.forEach((s, i) => {
      if (lane !== null && lane !== i) return;
      s.rect.forEach((j, r) => {
        if (s.start[j] < t1 && s.end[j] > t0 && s.low[r] < y1 && s.low[r] + s.height[r] > y0)
          inside[j] = 1;
      });
    });
    listed = [...order.filter((j) => inside[j])];
    room = 200;
    $("listed").textContent = `Jobs that run between ${moment(t0)} and ${moment(t1)}${
      lane === null || !two ? "" : `, under ${schedules[lane].policy}`
    }.`;
  }
  fillTable();
}
function fillTable() {
  const sums = selection
    ? schedules.map((s) => {
        const waits = listed.map((j) => s.wait[j]).filter((wait) => !Number.isNaN(wait));
        return ` Mean wait${two ? ` under ${s.policy}` : ""} ${waits.length ? span(waits.reduce((a, b) => a + b) / waits.length) : "–"}.`;
      })
    : [];
  $("listed-text").textContent =
    ` ${shortNumber(listed.length)} job${listed.length === 1 ? "" : "s"}${
      room < listed.length ? `, the first ${room} are shown` : ""
    }.${sums.join("")}`;
  const row = document.createElement("tr");
  COLUMNS.forEach(([name, , key], c) => {
    const head = document.createElement("th"),
      button = document.createElement("button");
    head.scope = "col";
    head.classList.toggle("text", c < leftColumns);
    button.type = "button";
    button.textContent = name;
    const down = sorted?.column === c && !sorted.down;
    if (sorted?.column === c)
      head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    button.addEventListener("click", () => {
      sorted = { column: c, down };
      listed.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      });
      fillTable();
      $("head").rows[0].cells[c].firstChild.focus();
    });
    head.append(button);
    row.append(head);
  });
  $("head").replaceChildren(row);
  $("body").replaceChildren(
    ...listed.slice(0, room).map((j) => {
      const line = document.createElement("tr");
      COLUMNS.forEach(([, text], c) => {
        const cell = document.createElement(c ? "td" : "th");
        if (c) cell.textContent = text(j);
        else {
          const button = Object.assign(document.createElement("button"), {
            type: "button",
            className: "job-link",
            textContent: text(j),
          });
          button.addEventListener("click", () => {
            look(j);
            lanes[0].focus();
          });
          cell.scope = "row";
          cell.append(button);
        }
        cell.classList.toggle("text", c > 0 && c < leftColumns);
        line.append(cell);
      });
      return line;
    }),
  );
  $("more").classList.toggle("hidden", listed.length <= room);
}
function select(box) {
  selection = box;
  relist();
  redraw();
}
const listShown = () => select({ ...view, lane: null });

// ---- search ----
let matches = null;
function search() {
  query = $("query").value.trim();
  const text = query.toLowerCase();
  matches = null;
  if (text) {
    const exact = Uint8Array.from({ length: N }, (_, j) =>
      nameOf(j).toLowerCase() === text ||
      Object.keys(facts.words).some((kind) => word(kind, j).toLowerCase() === text)
        ? 1
        : 0,
    );
    matches = exact.includes(1)
      ? exact
      : exact.map((_, j) =>
          nameOf(j).toLowerCase().includes(text) ||
          Object.keys(facts.words).some((kind) => word(kind, j).toLowerCase().includes(text))
            ? 1
            : 0,
        );
  }
  recolour();
  redraw();
}

// ---- the link ----
function settle() {
  const part = [view.t0, view.t1].map((t) => Math.round(t * 1000) / 1000).join("..");
  const state = [`t=${part}`, `by=${by}`];
  if (resource) state.push(`resource=${resource}`);
  if (view.y0 > 0 || view.y1 < rows) state.push(`y=${view.y0.toFixed(2)}..${view.y1.toFixed(2)}`);
  if (query) state.push(`q=${encodeURIComponent(query)}`);
  if (focus >= 0) state.push(`job=${focus}`);
  if (selection)
    state.push(
      `list=${["t0", "t1", "y0", "y1"].map((k) => selection[k]).join("..")}..${selection.lane ?? ""}`,
    );
  history.replaceState(null, "", `#${state.join("&")}`);
  const found = matches
    ? ` ${shortNumber(matches.reduce((n, one) => n + one, 0))} of ${shortNumber(N)} jobs match.`
    : "";
  const about = focus < 0 ? "" : ` ${describe(focus).join(". ")}.`;
  $("shown").textContent =
    `Shown: ${moment(view.t0)} to ${moment(view.t1)} (${span(view.t1 - view.t0)}).${found}${about}`;
}
function readState() {
  if (resourceIn(location.hash) !== resource) return location.reload();
  const given = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const numbers = (key) =>
    (given.get(key) ?? "").split("..").map((text) => (text === "" ? NaN : Number(text)));
  const [t0, t1] = numbers("t"),
    [y0, y1] = numbers("y"),
    box = numbers("list");
  if (t0 < t1) Object.assign(view, { t0, t1 });
  if (y0 < y1) Object.assign(view, { y0, y1 });
  if (Object.hasOwn(WAYS, given.get("by") ?? "")) by = given.get("by");
  $("by").value = by;
  if (given.has("q")) $("query").value = given.get("q");
  const job = given.has("job") ? Number(given.get("job")) : -1;
  if (Number.isInteger(job) && job < N) focus = job;
  if (box[0] < box[1] && box[2] < box[3]) {
    selection = {
      t0: box[0],
      t1: box[1],
      y0: box[2],
      y1: box[3],
      lane: schedules[box[4]] ? box[4] : null,
    };
  }
  clampView();
  search();
  setTimeout(() => {
    relist();
    showTip();
  });
}
