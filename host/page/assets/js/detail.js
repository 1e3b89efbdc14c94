// The details of one tensor and its values. Under `ferry view`, the values are requested when a
// tensor is chosen.

class Detail {
  constructor(model, place, tensors, { go }) {
    Object.assign(this, { model, place, tensors, go });
    this.asked = new Map();
    this.weights = new Map((model.weights ?? []).map((weight) => [weight.name, weight]));
    this.findings = new Map();
    for (const finding of model.findings ?? []) {
      for (const name of finding.tensors) this.findings.set(name, [...(this.findings.get(name) ?? []), finding]);
    }
    this.body = el("div", {}, el("p", { class: "note", text: "Choose a tensor in the tree or in the treemap." }));
    this.title = el("h2", { text: "Tensor", id: "detail-title", tabindex: "-1" });
    this.element = el("section", { class: "card", "aria-labelledby": "detail-title", "aria-live": "polite", id: "detail" }, this.title, this.body);
  }

  mark(at) { return this.findings.has(this.tensors.names[at]); }

  show(at) {
    const { tensors, model } = this;
    this.at = at;
    const name = tensors.names[at];
    this.title.textContent = shown(name) || "(no name)";
    this.title.className = "mono";
    const stored = tensors.stored;
    const file = stored.file[at] >= 0 ? model.files[stored.file[at]] : null;
    const tied = stored.tied?.[at];
    const attributes = Object.entries(stored.attributes?.[at] ?? {}).map(([key, value]) => [key, el("span", { class: "mono", text: typeof value === "string" ? value : JSON.stringify(value) })]);
    this.values = el("div", {});
    this.body.replaceChildren(
      facts([
        ["dtype", el("span", { class: `chip k${tensors.kind(at)}`, text: tensors.dtype(at) })],
        ["shape", tensors.shape(at).length ? `${tensors.shapeText(at)}, ${whole(tensors.elements(at))} elements` : "a scalar"],
        ["bytes", `${bytes(stored.bytes[at])} (${whole(stored.bytes[at])})`],
        ["file", file && el("span", { class: "mono", text: file })],
        ["offset", file !== null && stored.offset[at] !== null ? whole(stored.offset[at]) : null],
        ["tied to", tied === undefined ? null : this.link(tied)],
        ["digest", stored.digest?.[at] && el("span", { class: "mono", text: stored.digest[at] })],
        ...attributes,
      ]),
      ...(this.findings.get(name) ?? []).map((finding) => el("p", { class: "bad" },
        el("span", { class: "word bad", text: finding.title }), el("span", { text: finding.what }))),
      this.values);
    this.load(at);
  }

  link(at) {
    return el("button", { type: "button", class: "link mono", text: this.tensors.names[at], onclick: () => this.go(at) });
  }

  async load(at) {
    if (!page.live) {
      this.showValues(this.model.stats?.[at], this.model.heat?.[at]);
      return;
    }
    if (!this.asked.has(at)) {
      this.values.replaceChildren(el("p", { class: "note busy", text: "Reading values …" }));
      const ask = fetch(`values?model=${this.place}&tensor=${at}`).then(async (answer) => {
        const found = await answer.json();
        return answer.ok ? found : { problem: found.error ?? answer.statusText };
      }).catch((problem) => ({ problem: `${problem.message}: is ferry view still running?`, isPassing: true }));
      this.asked.set(at, ask);
      ask.then((found) => found.isPassing && this.asked.delete(at));
    }
    const found = await this.asked.get(at);
    if (this.at !== at) return;
    if (found.problem) this.values.replaceChildren(el("p", { class: "bad", text: found.problem }));
    else this.showValues(found.stats, found.heat);
  }

  showValues(stats, heat) {
    let weight = null;
    if (stats?.part_of !== undefined) {
      weight = this.weights.get(stats.part_of);
      this.values.append(el("p", {}, "part of the weight ", el("span", { class: "mono", text: stats.part_of })));
      stats = weight?.stats ?? stats.whole;
    }
    const made = [];
    if (stats?.problem) made.push(el("p", { class: "note", text: `no statistics: ${stats.problem}` }));
    else if (stats?.total_length !== undefined) {
      made.push(el("h3", { text: "Strings" }), facts([["bytes", `${short(stats.min_length)} to ${short(stats.max_length)}, mean ${short(stats.mean_length)}`], ["empty", whole(stats.empty)]]));
    } else if (stats) {
      made.push(el("h3", { text: stats.dequantized ? "Dequantized numbers" : "Numbers" }), facts(numbersOf(stats)));
      if (stats.histogram) made.push(el("h3", { text: "Histogram" }), histogram(stats.histogram, "Histogram"));
    } else {
      made.push(el("p", { class: "note", text: this.model.stats ? "No statistics for this tensor." : "Pass --stats to show statistics here." }));
    }
    if (heat) made.push(el("h3", { text: "Values" }), heatmap(heat, this.tensors.names[this.at]));
    this.values.replaceChildren(...(weight ? [this.values.firstChild] : []), ...made.filter(Boolean));
  }
}

/** Converts statistics to key-value pairs. Counts that are 0 are left out, except for the count of zeros. */
function numbersOf(stats) {
  const count = (value) => (value ? `${whole(value)} (${((value / stats.count) * 100).toPrecision(3)} %)` : null);
  return [
    ["min, max", `${short(stats.min)}, ${short(stats.max)}`],
    ["mean", short(stats.mean)],
    ["std", short(stats.std)],
    ["zeros", count(stats.zeros) ?? "0"],
    ["NaN", count(stats.nan)],
    ["+inf", count(stats.posinf)],
    ["−inf", count(stats.neginf)],
    ["subnormal", count(stats.subnormals)],
    ["at the limit of the dtype", count(stats.saturated)],
    ["rows of zeros", stats.zero_rows ? whole(stats.zero_rows) : null],
  ];
}
