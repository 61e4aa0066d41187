// Goes through the decisions of the page's episodes. What a column holds is in episodes.py.
const number = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const firstOf = facts.episodes.map((_, e) => columns.episode.indexOf(e));
const lengthOf = facts.episodes.map(
  (_, e) => (firstOf[e + 1] ?? columns.episode.length) - firstOf[e],
);
const offsets = [0];
for (const count of columns.count) offsets.push(offsets.at(-1) + count);
const [C, F] = [facts.context.length, facts.candidate.length];
let episode = 0,
  step = 0,
  plot = null,
  flags = [];

const element = (tag, text, name = "") =>
  Object.assign(document.createElement(tag), { textContent: text, className: name });
const titled = ([name, unit]) => (unit && unit !== "1" ? `${name} [${unit}]` : name);

function draw() {
  const at = firstOf[episode] + step,
    from = offsets[at],
    count = columns.count[at],
    choice = columns.choice[at];
  $("step").value = step;
  $("step").setAttribute("aria-valuetext", `decision ${step + 1} of ${lengthOf[episode]}`);
  $("sentence").textContent =
    `Decision ${step + 1} of ${lengthOf[episode]}, at time ${exact.format(columns.time[at])}: ` +
    `${facts.episodes[episode].behaviour} chose candidate ${choice} of 0 to ${count - 1} with probability ` +
    `${number.format(columns.propensity[at])}. The reward is ${number.format(columns.reward[at])}, ` +
    `the reward to go ${number.format(columns.togo[at])}.`;
  $("body").replaceChildren(
    ...Array.from({ length: count }, (_, i) => {
      const row = element("tr", "", i === choice ? "strongest" : ""),
        head = element("th", `${i}`);
      head.scope = "row";
      if (i === choice) head.append(" ", element("span", "chosen", "badge learned"));
      if (!columns.feasible[from + i]) head.append(" ", element("span", "not feasible", "badge"));
      row.append(head, element("td", number.format(columns.chances[from + i])));
      for (let f = 0; f < F; f++) {
        row.append(element("td", number.format(columns.candidates[(from + i) * F + f])));
      }
      return row;
    }),
  );
  $("context").replaceChildren(
    ...facts.context.map((feature, c) => {
      const entry = document.createElement("div"),
        term = element("dt", titled(feature));
      term.title = feature[2];
      entry.append(term, element("dd", number.format(columns.context[at * C + c])));
      return entry;
    }),
  );
  drawPicture(at);
  plot?.redraw(false);
  const flagged = flags.length ? `&flags=${flags.join(",")}` : "";
  history.replaceState(null, "", `#episode=${episode}&step=${step}${flagged}`);
}

// ---- flags: numbers of episodes in the dataset, and the command that keeps these ----
function drawFlags() {
  const shown = facts.episodes[episode].episode,
    known = new Set(facts.episodes.map((about) => about.episode));
  $("flag").setAttribute("aria-pressed", flags.includes(shown));
  $("flagged").classList.toggle("hidden", !flags.length);
  const others = flags.filter((flag) => !known.has(flag)).length;
  $("flags").textContent =
    `${flags.length} flagged${others ? `, ${others} of them not on this page` : ""}; this keeps them:`;
  $("command").value =
    `hindcast filter ${facts.folder} --episodes ${flags.join(",")} --out flagged`;
  $("copy").textContent = "Copy";
  for (const [e, about] of facts.episodes.entries()) {
    const flag = flags.includes(about.episode) ? "⚑ " : "";
    $("episode").options[e].text =
      `${flag}${about.episode}: ${about.behaviour}, window ${about.window}, ` +
      `return ${number.format(about.return)}`;
  }
}
function flag() {
  const shown = facts.episodes[episode].episode;
  flags = flags.includes(shown)
    ? flags.filter((other) => other !== shown)
    : [...flags, shown].sort((a, b) => a - b);
  drawFlags();
  draw();
}
async function copy() {
  $("command").select();
  try {
    await navigator.clipboard.writeText($("command").value);
  } catch {
    document.execCommand("copy"); // pages that were not opened from a disk or by https
  }
  $("copy").textContent = "Copied";
}

// ---- statistics, filled in when they are opened ----
const share = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 2 });
function fillStatistics() {
  if (!$("features").open || $("measures").childElementCount) return;
  const { features, splits } = facts.statistics;
  const known = (value) => (value === null ? "–" : number.format(value));
  const head = ["feature", "of", "kind", "missing", "histogram", "least", "lower quartile"];
  head.push("median", "upper quartile", "largest", "mean");
  $("measures").append(
    ...[...head, ...splits.map((split) => `mean of ${split}`)].map((text, i) => {
      const cell = element("th", text, i < 3 ? "text" : "");
      cell.scope = "col";
      return cell;
    }),
  );
  $("of-features").append(
    ...features.map((of) => {
      const row = element("tr", ""),
        name = element("th", titled([of.name, of.unit])),
        histogram = element("td", of.counts.length ? "" : "–");
      name.scope = "row";
      name.title = of.text;
      const most = Math.max(...of.counts);
      const bins = of.counts.map((count, i) => {
        const tall = count && Math.max(1, (20 * count) / most);
        return drawing("rect", { x: 5 * i, y: 20 - tall, width: 4, height: tall, class: "mark" });
      });
      if (bins.length)
        histogram.append(
          drawing(
            "svg",
            {
              width: 80,
              height: 20,
              role: "img",
              "aria-label": `values by bin: ${of.counts.join(", ")}`,
            },
            ...bins,
          ),
        );
      row.append(
        name,
        element("td", of.of, "text"),
        element("td", of.kind, "text"),
        element("td", share.format(of.missing)),
        histogram,
        ...[...of.quartiles, of.mean, ...of.means].map((value) => element("td", known(value))),
      );
      return row;
    }),
  );
}

function makePlot() {
  plot?.destroy();
  const [from, n] = [firstOf[episode], lengthOf[episode]];
  const axis = { stroke: css("--muted"), grid: { stroke: css("--grid"), width: 1 }, size: 44 };
  const mark = (u) => {
    const x = u.valToPos(step, "x", true);
    u.ctx.fillStyle = css("--line-2");
    u.ctx.fillRect(x - 1, u.bbox.top, 2, u.bbox.height);
  };
  plot = new uPlot(
    {
      width: $("strip").clientWidth,
      height: $("strip").clientHeight,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false } },
      axes: [
        { ...axis, size: 26 },
        { ...axis, size: 64 },
      ],
      series: [{}, { stroke: css("--line-1"), width: 1.5, points: { show: false } }],
      hooks: { draw: [mark] },
    },
    [[...Array(n).keys()], Array.from(columns.togo.subarray(from, from + n))],
    $("strip"),
  );
}

function go(to) {
  step = Math.max(0, Math.min(lengthOf[episode] - 1, to));
  draw();
}
function show(number, at) {
  episode = number;
  $("episode").value = episode;
  $("step").max = lengthOf[episode] - 1;
  plot?.destroy();
  plot = null;
  drawFlags();
  go(at);
  makePlot();
}

facts.episodes.forEach((_, e) => $("episode").append(new Option("", e)));
$("head").append(
  ...["candidate", "probability", ...facts.candidate.map(titled)].map((text, i) => {
    const head = element("th", text);
    head.scope = "col";
    if (i > 1) head.title = facts.candidate[i - 2][2];
    return head;
  }),
);
$("episode").addEventListener("change", () => show(Number($("episode").value), 0));
$("step").addEventListener("input", () => go(Number($("step").value)));
$("back").addEventListener("click", () => go(step - 1));
$("next").addEventListener("click", () => go(step + 1));
$("flag").addEventListener("click", flag);
$("copy").addEventListener("click", copy);
$("features").addEventListener("toggle", fillStatistics);
for (const query of ["(prefers-color-scheme: dark)", "print"]) {
  matchMedia(query).addEventListener("change", makePlot);
}
addEventListener("resize", () => {
  makePlot();
  draw();
});
const given = new URLSearchParams(location.hash.slice(1));
const asked = ["episode", "step"].map((name) => Math.floor(Number(given.get(name)) || 0));
flags = [...new Set((given.get("flags") ?? "").split(",").filter(Boolean).map(Number))]
  .filter((flag) => Number.isInteger(flag) && flag >= 0)
  .sort((a, b) => a - b);
show(Math.max(0, Math.min(facts.episodes.length - 1, asked[0])), asked[1]);
performance.mark("drawn");
globalThis.hindcast = { facts, columns, go, show };
