// Pictures of the state: the panels that the scenario declares, drawn from the features of a
// decision. What a panel holds is in simulation/picture.py. Scales are those of the whole episode.
const SIZE = { letter: 6.7, row: 15, tall: 230, line: 90 };
const drawing = (tag, about, ...inside) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(about)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
};
const written = (x, y, text, place = "start") =>
  drawing("text", { x, y, "text-anchor": place }, text);
const candidateOf = (at, i, f) => columns.candidates[(offsets[at] + i) * F + f];
const momentOf = (at, c) => columns.context[at * C + c];
const rangeOf = new Map(); // by episode and column: smallest and largest value, with 0
function range(kind, place, bounded = true) {
  const key = `${episode} ${kind} ${place} ${bounded}`;
  if (!rangeOf.has(key)) {
    const found = [0, 0],
      [from, to] = [firstOf[episode], firstOf[episode] + lengthOf[episode]];
    const [values, width, a, b] =
      kind === "context"
        ? [columns.context, C, from, to]
        : [columns.candidates, F, offsets[from], offsets[to]];
    for (let i = a; i < b; i++) {
      const value = values[i * width + place];
      if (value < found[0]) found[0] = value;
      if (value > found[1]) found[1] = value;
    }
    const high = facts[kind === "context" ? "context" : "candidate"][place][3];
    if (bounded && high !== null) found[1] = Math.max(found[1], high);
    rangeOf.set(key, found);
  }
  return rangeOf.get(key);
}
// The range of all columns of a kind that share an axis.
function together(kind, places, bounded) {
  const ranges = places
    .filter((place) => place !== undefined)
    .map((place) => range(kind, place, bounded));
  const [low, high] = [Math.min(...ranges.map((r) => r[0])), Math.max(...ranges.map((r) => r[1]))];
  return high > low ? [low, high] : [low, low + 1];
}

// The candidates that a panel draws: all, or the first one of each key.
function itemsOf(panel, at) {
  const { key, to, since, thick, taken, ...place } = panel.of,
    found = new Map();
  const value = (i, f) => (f === undefined ? undefined : candidateOf(at, i, f));
  for (let i = 0; i < columns.count[at]; i++) {
    const name = key === undefined ? i : candidateOf(at, i, key);
    if (name < 0 || (thick !== undefined && !(value(i, thick) > 0))) continue;
    const here = i === columns.choice[at],
      known = found.get(name);
    if (!known) {
      found.set(name, {
        label: `${key === undefined ? "candidate" : facts.candidate[key][0]} ${name}`,
        value: value(i, to),
        since: value(i, since) ?? 0,
        thick: value(i, thick),
        full:
          panel.full === null
            ? null
            : panel.full[0] === "context"
              ? momentOf(at, panel.full[1])
              : value(i, panel.full[1]),
        feasible: columns.feasible[offsets[at] + i],
        chosen: here,
        taken: here ? value(i, taken) : undefined,
        ...Object.fromEntries(Object.entries(place).map(([role, f]) => [role, value(i, f)])),
      });
    } else {
      known.feasible ||= columns.feasible[offsets[at] + i];
      if (here) Object.assign(known, { chosen: true, taken: value(i, taken) });
    }
  }
  return [...found.values()];
}
function bars(panel, at, width) {
  const { to, since, thick } = panel.of,
    ofMoment = panel.features.length > 0;
  const items = ofMoment
    ? panel.features.map((f) => ({
        label: facts.context[f][0],
        value: momentOf(at, f),
        since: 0,
        feasible: 1,
      }))
    : itemsOf(panel, at);
  let [low, high] = ofMoment
    ? together("context", panel.features)
    : together("candidates", [to, since]);
  if (panel.full) [low, high] = [Math.min(low, 0), together(panel.full[0], [panel.full[1]])[1]];
  const told = thick === undefined && items.length <= SIZE.tall / SIZE.row;
  const words = items.map((item) => [
    `${item.chosen ? "▸ " : ""}${item.label}`,
    `${since === undefined ? "" : `${number.format(item.since)} to `}${number.format(item.value)}`,
  ]);
  const [left, right] = [0, 1].map((side) =>
    told ? 8 + SIZE.letter * Math.max(...words.map((pair) => pair[side].length)) : 4,
  );
  const x = (value) => left + ((value - low) / (high - low)) * (width - left - right);
  const unit = told ? SIZE.row : SIZE.tall / heightOf(thick);
  const least = Math.min(2, SIZE.tall / items.length);
  const made = [];
  let y = 0;
  items.forEach((item, i) => {
    const tall = Math.max(least, (item.thick ?? 1) * unit),
      height = tall > 6 ? tall - 3 : tall > 2 ? tall - 1 : tall;
    const box = (a, b, name, about = {}) =>
      made.push(
        drawing(
          "rect",
          {
            x: Math.min(x(a), x(b)),
            y,
            width: Math.abs(x(b) - x(a)),
            height,
            class: name,
            ...about,
          },
          drawing("title", {}, words[i].join(": ")),
        ),
      );
    if (Number.isFinite(item.full)) box(0, item.full, "track");
    if (Number.isFinite(item.value)) {
      const name = item.chosen ? "chosen" : item.feasible ? "mark" : "barred";
      box(item.since, item.value, name, { "data-value": item.value });
      if (item.taken > 0) box(item.value - item.taken, item.value, "taken");
    }
    if (told)
      made.push(
        written(left - 6, y + 10, words[i][0], "end"),
        written(width - right + 6, y + 10, words[i][1]),
      );
    y += tall;
  });
  if (!told)
    made.push(
      written(left, y + 13, number.format(low)),
      written(width - right, y + 13, number.format(high), "end"),
    );
  return [made, y + (told ? 2 : 16)];
}
// How much thickness the candidates of a decision have, at most; without thickness, how many.
function heightOf(thick) {
  const key = `${episode} height ${thick}`;
  if (!rangeOf.has(key)) {
    let most = 1e-9;
    for (let at = firstOf[episode]; at < firstOf[episode] + lengthOf[episode]; at++) {
      let sum = 0;
      for (let i = 0; i < columns.count[at]; i++)
        sum += thick === undefined ? 1 : candidateOf(at, i, thick);
      most = Math.max(most, sum);
    }
    rangeOf.set(key, most);
  }
  return rangeOf.get(key);
}
function line(panel, at, width) {
  const values = panel.features.map((f) => momentOf(at, f)),
    [low, high] = together("context", panel.features);
  const tall = SIZE.line,
    step = width / values.length;
  const y = (value) => 4 + (1 - (value - low) / (high - low)) * (tall - 8);
  const path = values
    .map((value, i) => `${i ? "L" : "M"}${i * step} ${y(value)}H${(i + 1) * step}`)
    .join("");
  const names = [panel.features[0], panel.features.at(-1)].map((f) => facts.context[f][0]);
  return [
    [
      drawing("path", { d: `${path}V${y(0)}H0Z`, class: "area" }),
      drawing("path", { d: path, class: "line", "data-values": values.join(" ") }),
      written(0, tall + 12, `${names[0]}: ${number.format(values[0])}`),
      written(width, tall + 12, `${names[1]}: ${number.format(values.at(-1))}`, "end"),
      written(width, 12, `of ${number.format(high)}`, "end"),
    ],
    tall + 16,
  ];
}
function points(panel, at, width) {
  const tall = SIZE.tall,
    edge = 16;
  const axis = (role, a, b) => {
    const [low, high] = together("candidates", [panel.of[role]], role === "x" || role === "y");
    return (value) => a + ((value - low) / (high - low)) * (b - a);
  };
  const [x, y] = [axis("x", edge, width - edge), axis("y", tall - edge, edge)];
  const [size, shade] = [axis("size", 0, 1), axis("shade", 0, 4)];
  const items = itemsOf(panel, at).sort((a, b) => a.chosen - b.chosen || b.size - a.size);
  const made = items.map((item) => {
    const level = Math.min(4, Math.round(shade(item.shade)));
    const about = {
      cx: x(item.x),
      cy: y(item.y),
      r: 4 + 10 * Math.sqrt(Math.max(0, size(item.size))),
      class: item.chosen ? `shade-${level} ring` : item.feasible ? `shade-${level}` : "barred",
    };
    const names = ["x", "y", "size", "shade"].map(
      (role) => `${facts.candidate[panel.of[role]][0]} ${number.format(item[role])}`,
    );
    return drawing(
      "circle",
      { ...about, "data-value": [item.x, item.y, item.size, item.shade].join(" ") },
      drawing("title", {}, `${item.label}: ${names.join(", ")}`),
    );
  });
  const [wide, high] = ["x", "y"].map(
    (role) =>
      `${facts.candidate[panel.of[role]][0]} to ${number.format(together("candidates", [panel.of[role]])[1])}`,
  );
  made.push(written(width - 2, tall - 2, `${wide} →`, "end"), written(2, 11, `↑ ${high}`));
  return [made, tall];
}
function drawPicture(at) {
  facts.picture.forEach((panel, p) => {
    const place = $(`panel-${p}`),
      width = Math.max(200, place.parentElement.clientWidth - 24);
    const [made, tall] = { bars, line, points }[panel.mark](panel, at, width);
    place.setAttribute("viewBox", `0 0 ${width} ${tall}`);
    place.setAttribute("height", tall);
    place.replaceChildren(...made);
  });
}
