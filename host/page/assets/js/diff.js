// The page of a comparison: a list of differences, worst first, with search and filters by kind.

const KINDS = {
  missing: "only in A", unexpected: "only in B", shape: "different shape", dtype: "different dtype", type: "different type",
  content: "different content", attribute: "different attribute", metadata: "different metadata",
};

function showDiff() {
  const all = page.differences;
  head(page.equal ? "The same" : "Different", [`A: ${page.a}`, `B: ${page.b}`]);
  const content = document.getElementById("content");
  content.className = "columns";
  const names = all.map((one) => one.name.toLowerCase());
  const largest = all.map((one) => number(one.largest)).filter((value) => Number.isFinite(value) && value > 0);
  const [low, high] = [Math.log10(Math.min(...largest)), Math.log10(Math.max(...largest))];
  const share = (one) => {
    const value = number(one.largest);
    if (!(value > 0)) return 0;
    return value === Infinity || !(high > low) ? 1 : 0.08 + 0.92 * ((Math.log10(value) - low) / (high - low));
  };
  const detail = el("section", { class: "card", "aria-live": "polite", "aria-labelledby": "detail-title", id: "detail" });
  const title = el("h2", { id: "detail-title", text: "Difference" });
  let [kinds, text, lines, chosen] = [new Set(), "", [], -1];
  const choose = (index) => {
    chosen = lines[index];
    list.refresh();
    title.textContent = shown(all[chosen].name) || "(no name)";
    title.className = "mono";
    detail.replaceChildren(title, facts(differenceFacts(all[chosen])));
  };
  const list = new List({
    label: "Differences, worst first", role: "listbox", itemRole: "option", choose,
    fill: (row, index) => {
      const one = all[lines[index]];
      row.setAttribute("aria-selected", String(lines[index] === chosen));
      const isApart = one.largest !== undefined && one.largest !== null;
      const kind = KINDS[one.kind] ?? one.kind;
      const what = !isApart ? kind : one.kind === "content" ? `differs by ${short(one.largest)}` : `${kind}, by ${short(one.largest)}`;
      const fill = el("span", { class: "what", text: what });
      row.append(el("span", { class: "name mono", text: one.name, title: one.name }), fill);
      row.style.backgroundImage = `linear-gradient(to right, var(--bad-ground) ${share(one) * 100}%, transparent 0)`;
    },
  });
  const find = () => {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    lines = [];
    all.forEach((one, at) => {
      if ((!kinds.size || kinds.has(one.kind)) && words.every((word) => names[at].includes(word))) lines.push(at);
    });
    field.found.textContent = lines.length === all.length ? counted(all.length, "difference") : `${whole(lines.length)} of ${counted(all.length, "difference")}`;
    list.set(lines.length);
    list.box.scrollTop = 0;
  };
  const field = search("Search differences by name", "Search names (press /)", list, (typed) => {
    text = typed;
    find();
  });
  const counts = new Map();
  for (const one of all) counts.set(one.kind, (counts.get(one.kind) ?? 0) + 1);
  const filters = el("div", { class: "crumbs", role: "group", "aria-label": "Kinds of differences" }, ...[...counts].map(([kind, count]) => {
    const button = el("button", { type: "button", "aria-pressed": "false", text: `${KINDS[kind] ?? kind}: ${whole(count)}` });
    button.addEventListener("click", () => {
      if (!kinds.delete(kind)) kinds.add(kind);
      button.setAttribute("aria-pressed", String(kinds.has(kind)));
      find();
    });
    return button;
  }));
  detail.append(title, el("p", { class: "note", text: all.length ? "Choose a difference to see its details." : "No differences." }));
  const side = el("section", { class: "card side", "aria-labelledby": "list-title" }, el("h2", { id: "list-title", text: "Differences, worst first" }), filters, field.bar, list.box);
  const cards = el("div", { class: "cards" }, card("Verdict", el("p", { class: "verdict", text: page.verdict }), facts(page.facts)), detail,
    largest.length > 1 ? card("Size of the differences", decades(largest)) : null);
  content.replaceChildren(side, cards);
  find();
}

/** A histogram of the largest differences, by powers of ten. */
function decades(values) {
  const counts = new Map();
  for (const value of values) {
    const decade = Math.floor(Math.log10(value));
    counts.set(decade, (counts.get(decade) ?? 0) + 1);
  }
  const most = Math.max(...counts.values());
  const box = el("div", { class: "tops" });
  for (const [decade, count] of [...counts].sort((a, b) => b[0] - a[0])) {
    box.append(bar(`1e${decade} to 1e${decade + 1}`, count / most), el("span", { class: "muted", text: whole(count) }));
  }
  return el("div", {}, el("p", { class: "note", text: "The largest difference of each tensor." }), box);
}

function differenceFacts(one) {
  const said = (value) => (value === null || value === undefined ? "nothing" : typeof value === "string" ? value : JSON.stringify(value));
  const at = (key) => (one[`${key}_at`] ? ` at [${one[`${key}_at`].join(", ")}]` : "");
  const pair = (key) => (one[`${key}_values`] ? `: ${short(one[`${key}_values`][0])} in A, ${short(one[`${key}_values`][1])} in B` : "");
  const has = (key) => one[key] !== null && one[key] !== undefined;
  return [
    ["kind", KINDS[one.kind] ?? one.kind],
    ["attribute", one.attribute],
    ["in A", "a" in one ? said(one.a) : null],
    ["in B", "b" in one ? said(one.b) : null],
    ["records that differ", has("records") ? whole(one.records) : null],
    ["first record", has("first") ? whole(one.first) : null],
    ["elements that differ", has("elements") ? `${whole(one.elements)} of ${whole(one.of)}` : null],
    ["largest difference", has("largest") ? `${short(one.largest)}${at("largest")}${pair("largest")}` : null],
    ["largest relative difference", has("relative") ? `${short(one.relative)}${at("relative")}${pair("relative")}` : null],
    ["NaN in only one", one.nan ? whole(one.nan) : null],
    ["cosine", has("cosine") ? String(one.cosine) : null],
  ];
}
