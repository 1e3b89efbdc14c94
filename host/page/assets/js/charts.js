// Charts: histograms, lines by layer and heat maps. Each has a description for screen readers.

/** A histogram of equal bins between two numbers. */
function histogram({ from, to, counts }, label) {
  const most = Math.max(...counts, 1);
  const picture = svg("svg", { viewBox: `0 0 ${counts.length} 100`, preserveAspectRatio: "none", role: "img", "aria-label": `${label}: ${whole(counts.reduce((a, b) => a + b, 0))} numbers from ${short(from)} to ${short(to)}` });
  counts.forEach((count, at) => {
    if (count === 0) return;
    const height = Math.max(1.5, (count / most) * 98);
    const bar = svg("rect", { class: "bar", x: at + 0.05, y: 100 - height, width: 0.9, height });
    bar.append(svg("title"));
    const [low, high] = [0, 1].map((edge) => number(from) + ((at + edge) / counts.length) * (number(to) - number(from)));
    bar.firstChild.textContent = `${short(low)} to ${short(high)}: ${whole(count)}`;
    picture.append(bar);
  });
  return el("div", { class: "chart" }, picture,
    el("div", { class: "axis" }, el("span", { text: short(from) }), el("span", { text: short(to) })));
}

/** A histogram of lengths, whose bins are powers of two: `{bound: count}`. */
function lengths(spread, label) {
  const bounds = Object.keys(spread.up_to).map(Number).sort((a, b) => a - b);
  const most = Math.max(...Object.values(spread.up_to), 1);
  const box = el("div", { class: "tops", role: "img", "aria-label": `${label}: ${short(spread.min)} to ${short(spread.max)}, mean ${short(spread.mean)}` });
  for (const bound of bounds) {
    const count = spread.up_to[bound];
    box.append(bar(bound === 0 ? "0" : bound === 1 ? "1" : `up to ${whole(bound)}`, count / most), el("span", { class: "muted", text: whole(count) }));
  }
  return box;
}

/** Text on a bar that fills this share of the line. */
function bar(text, share) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: "value", title: text }, fill, el("span", { class: "text", text }));
}

/** Means by layer as a line, with a band of one standard deviation. `points` are `[layer, mean, deviation]`. */
function sparkline(points, label) {
  const layers = points.map((point) => point[0]);
  const lows = points.map(([, mean, deviation]) => mean - deviation);
  const highs = points.map(([, mean, deviation]) => mean + deviation);
  const [first, last] = [Math.min(...layers), Math.max(...layers)];
  let [low, high] = [Math.min(...lows), Math.max(...highs)];
  if (!(high > low)) [low, high] = [low - 1, high + 1];
  const x = (layer) => (last > first ? ((layer - first) / (last - first)) * 100 : 50).toFixed(2);
  const y = (value) => (38 - ((value - low) / (high - low)) * 36).toFixed(2);
  const line = (values) => points.map(([layer], at) => `${x(layer)},${y(values[at])}`);
  const picture = svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": label });
  picture.append(svg("polygon", { class: "band", points: [...line(highs), ...line(lows).reverse()].join(" ") }));
  if (low < 0 && high > 0) picture.append(svg("line", { class: "zero", x1: 0, x2: 100, y1: y(0), y2: y(0) }));
  picture.append(svg("polyline", { class: "line", points: line(points.map((point) => point[1])).join(" ") }));
  return picture;
}

const repaint = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint.forEach((paint) => paint()));

/** A heat map of a matrix. In a cell, 0 means no number, 1 the lowest value and 255 the highest. */
function heatmap(heat, name) {
  const cells = Uint8Array.from(atob(heat.cells), (letter) => letter.charCodeAt(0));
  const { rows, columns } = heat;
  const [low, high] = [number(heat.low), number(heat.high)];
  const isSigned = low < 0;
  const canvas = el("canvas", { width: columns, height: rows, role: "img", "aria-label": `Heat map of ${name}: ${rows} by ${columns} of its values, colors from ${short(low)} to ${short(high)}` });
  canvas.style.aspectRatio = `${Math.max(columns, rows / 3)} / ${Math.max(rows, columns / 3)}`;
  const scale = el("canvas", { width: 255, height: 1, "aria-hidden": "true" });
  const value = el("p", { class: "note", "aria-hidden": "true", text: " " });
  const paint = () => {
    const style = getComputedStyle(document.documentElement);
    const color = (key) => style.getPropertyValue(key).trim().match(/[0-9a-f]{2}/gi).map((pair) => parseInt(pair, 16));
    const [lowest, middle, highest, none] = ["--low", "--mid", "--high", "--none"].map(color);
    const mixed = (a, b, part) => a.map((from, at) => from + (b[at] - from) * part);
    const of = (code) => {
      if (code === 0) return none;
      const at = (code - 1) / 254;
      if (!isSigned) return mixed(middle, highest, at);
      return at < 0.5 ? mixed(lowest, middle, at * 2) : mixed(middle, highest, at * 2 - 1);
    };
    const fill = (target, codes) => {
      const context = target.getContext("2d");
      const image = context.createImageData(target.width, target.height);
      codes.forEach((code, at) => image.data.set([...of(code), 255], at * 4));
      context.putImageData(image, 0, 0);
    };
    fill(canvas, cells);
    fill(scale, Uint8Array.from({ length: 255 }, (_, at) => at + 1));
  };
  paint();
  repaint.clear();
  repaint.add(paint);
  canvas.addEventListener("pointermove", (event) => {
    const column = Math.floor((event.offsetX / canvas.clientWidth) * columns);
    const row = Math.floor((event.offsetY / canvas.clientHeight) * rows);
    const code = cells[row * columns + column];
    if (code === undefined) return;
    const about = code === 0 ? "not a number" : `about ${short(low + ((code - 1) / 254) * (high - low))}`;
    value.textContent = `[${row * heat.steps[0]}, ${column * heat.steps[1]}]: ${about}`;
  });
  const [across, down] = [heat.steps[1], heat.steps[0]];
  const every = (step) => (step === 1 ? "every" : `every ${ordinal(step)}`);
  const sampled = across > 1 || down > 1 ? `${rows} × ${columns} values, from ${every(down)} row and ${every(across)} column.` : "All values.";
  return el("div", { class: "heat" }, canvas, el("div", { class: "scale" }, scale,
    el("div", { class: "axis" }, el("span", { text: short(low) }), el("span", { text: short(high) })),
    el("p", { class: "note", text: sampled + (heat.clipped ? ` ${counted(heat.clipped, "value")} outside the color scale.` : "") }), value));
}

function ordinal(count) {
  const end = count % 100 > 10 && count % 100 < 14 ? "th" : { 1: "st", 2: "nd", 3: "rd" }[count % 10] ?? "th";
  return `${count}${end}`;
}
