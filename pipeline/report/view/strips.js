// Strips: means over pixels of step functions, by their integrals, drawn by uPlot.
const inOrder = (times) =>
  Uint32Array.from(times.keys())
    .filter((j) => !Number.isNaN(times[j]))
    .sort((a, b) => times[a] - times[b]);
function steps(times, weights, order = inOrder(times)) {
  const at = Float64Array.from(order, (j) => times[j] - first);
  const sum = new Float64Array(order.length + 1),
    area = new Float64Array(order.length + 1);
  for (let k = 0; k < order.length; k++) {
    sum[k + 1] = sum[k] + weights[order[k]];
    area[k + 1] = area[k] + weights[order[k]] * at[k];
  }
  // Moments are asked for in ascending order: each search begins where the one before ended.
  const integral = () => {
    let k = 0;
    return (t) => {
      let stride = 1;
      while (k + stride <= at.length && at[k + stride - 1] <= t) {
        k += stride;
        stride *= 2;
      }
      for (; stride >= 1; stride >>= 1)
        if (k + stride <= at.length && at[k + stride - 1] <= t) k += stride;
      return sum[k] * t - area[k];
    };
  };
  return { at, sum, integral };
}
function flow(up, down, until) {
  let peak = 0,
    k = 0;
  for (let i = 0; i < up.at.length && up.at[i] <= until - first; i++) {
    while (k < down.at.length && down.at[k] <= up.at[i]) k++;
    peak = Math.max(peak, up.sum[i + 1] - down.sum[k]);
  }
  return {
    peak,
    integral: () => {
      const [more, less] = [up.integral(), down.integral()];
      return (t) => more(t) - less(t);
    },
  };
}
const ones = new Float64Array(N).fill(1);
for (const s of schedules) {
  const waiting = s.eligible.map((t, j) => (s.there[j] ? t : NaN));
  for (const j of columns["refused" + schedules.indexOf(s)]) waiting[j] = NaN;
  const area = s.amount.map(
    (amount, j) =>
      (amount / s.rows / (inSeconds ? 3600 : 1)) *
      (unasked[j] ? s.end[j] - s.start[j] || 0 : asked[j]),
  );
  const [submits, starts] = [inOrder(waiting), inOrder(s.start)];
  s.flows = [
    flow(steps(waiting, ones, submits), steps(s.start, ones, starts), s.to),
    flow(steps(s.start, s.amount, starts), steps(s.end, s.amount), s.to),
    flow(steps(waiting, area, submits), steps(s.start, area, starts), s.to),
  ];
  const levels = s.levels.filter(([t]) => t > s.from);
  const begin = s.levels.filter(([t]) => t <= s.from).at(-1)?.[1] ?? s.capacity;
  const amounts = [begin, ...levels.map(([, amount]) => amount)];
  s.capacityFlow = steps(
    Float64Array.from([first - 1, ...levels.map(([t]) => t)]),
    amounts.map((amount, i) => amount - (i ? amounts[i - 1] : 0)),
  );
}
function means(s, which, from, to, count) {
  const found = new Array(count),
    step = (to - from) / count,
    integral = s.flows[which].integral();
  const capacity = which === 1 ? s.capacityFlow.integral() : (t) => t;
  let held = integral(from - first),
    there = capacity(from - first);
  for (let i = 0; i < count; i++) {
    const t = from - first + (i + 1) * step,
      [now, room] = [integral(t), capacity(t)];
    const known = t + first > s.from && t + first - step < s.to && room > there;
    found[i] = known ? ((which === 1 ? 100 : 1) * (now - held)) / (room - there) : null;
    [held, there] = [now, room];
  }
  return found;
}

let plots = [];
function makePlots() {
  plots.forEach((plot) => plot.destroy());
  plots = facts.strips.map((which) => {
    const peak = which === 1 ? 100 : Math.max(...schedules.map((s) => s.flows[which].peak), 1e-9);
    const font = "11px system-ui, sans-serif";
    return new uPlot(
      {
        width,
        height: $(`strip-${which}`).clientHeight,
        legend: { show: false },
        cursor: { show: false },
        padding: [6, 0, 7, 0],
        pxAlign: 0,
        scales: {
          x: { time: false, range: () => [view.t0, view.t1] },
          y: { range: [0, peak * 1.04] },
        },
        axes: [
          { show: false },
          {
            size: gutter,
            font,
            stroke: colour.muted,
            gap: 4,
            space: 26,
            values: (plot, ticks) => ticks.map(shortNumber),
            ticks: { show: false },
            grid: { stroke: colour.grid, width: 1 },
          },
        ],
        series: [
          {},
          ...schedules.map((s, i) => ({
            stroke: colour[`line-${i + 1}`],
            width: 1, // wider ones are filled as areas, 7 ms a frame without a graphics processor
            dash: i ? [5, 3] : undefined,
            points: { show: false },
          })),
        ],
      },
      [[], ...schedules.map(() => [])],
      $(`strip-${which}`),
    );
  });
}
