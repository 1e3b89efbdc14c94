// Means and standard deviations by layer, with one line for each kind of parameter. Names that
// differ only in the layer number belong to one kind.

const MOST_KINDS = 60;

/** Returns the kinds that have at least three layers with statistics: `[kind, [[layer, mean, deviation], ...]]`. */
function layersOf(tensors, stats) {
  const kinds = new Map();
  for (let at = 0; at < tensors.count; at++) {
    const found = stats[at];
    if (!found) continue;
    const [mean, deviation] = [number(found.mean), number(found.std)];
    if (!Number.isFinite(mean) || !Number.isFinite(deviation)) continue;
    const name = tensors.names[at];
    const match = /(?:^|[./_])(\d{1,6})(?=[./_]|$)/.exec(name);
    if (!match) continue;
    const start = match.index + match[0].length - match[1].length;
    const kind = `${name.slice(0, start)}*${name.slice(start + match[1].length)}`;
    if (!kinds.has(kind)) kinds.set(kind, []);
    kinds.get(kind).push([Number(match[1]), mean, deviation]);
  }
  const all = [...kinds].filter(([, points]) => points.length >= 3);
  all.forEach(([, points]) => points.sort((a, b) => a[0] - b[0]));
  return all;
}

function layersCard(tensors, stats) {
  const kinds = layersOf(tensors, stats);
  if (kinds.length === 0) return null;
  const common = commonBeginning(kinds.map(([kind]) => kind));
  const figures = kinds.slice(0, MOST_KINDS).map(([kind, points]) => {
    const means = points.map((point) => point[1]);
    const deviations = points.map((point) => point[2]);
    const said = `mean ${short(Math.min(...means))} to ${short(Math.max(...means))}, std ${short(Math.min(...deviations))} to ${short(Math.max(...deviations))}`;
    return el("figure", {}, el("figcaption", { class: "mono", text: kind.slice(common), title: kind }),
      sparkline(points, `${kind}: ${counted(points.length, "layer")}, ${said}`),
      el("div", { class: "axis" }, el("span", { text: `layer ${points[0][0]}` }), el("span", { text: String(points.at(-1)[0]) })),
      el("div", { class: "axis" }, el("span", { text: said })));
  });
  const rest = kinds.length > MOST_KINDS ? el("p", { class: "note", text: `and ${counted(kinds.length - MOST_KINDS, "other kind")}` }) : null;
  return card("By layer", el("p", { class: "note", text: "The line is the mean; the band is one standard deviation around it." }),
    el("div", { class: "layers" }, ...figures), rest);
}

/** Returns the length of the prefix that all kinds share, up to a dot. */
function commonBeginning(kinds) {
  if (kinds.length < 2) return 0;
  const [first, last] = [kinds.reduce((a, b) => (a < b ? a : b)), kinds.reduce((a, b) => (a > b ? a : b))];
  let end = 0;
  while (end < first.length && first[end] === last[end]) end++;
  return first.lastIndexOf(".", end - 1) + 1;
}
