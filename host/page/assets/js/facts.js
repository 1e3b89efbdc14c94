// Elements that several pages share: lists of key-value pairs, losses, and JSON trees.

function card(title, ...children) {
  const id = `card-${card.made++}`;
  return el("section", { class: "card", "aria-labelledby": id }, el("h2", { id, text: title }), ...children.filter(Boolean));
}
card.made = 0;

/** A list of pairs, each of which is a key and a string or element. Pairs without a value are left out. */
function facts(pairs) {
  const list = el("dl", { class: "facts" });
  for (const [key, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(el("dt", { text: key }), value instanceof Node ? el("dd", {}, value) : el("dd", { text: value }));
  }
  return list;
}

/** A list that shows its first items, and the others on request. */
function listed(items, make, most = 12) {
  const list = el("ul", { class: "plain" }, ...items.slice(0, most).map((item) => el("li", {}, make(item))));
  if (items.length <= most) return list;
  const more = el("button", { type: "button", text: `Show ${whole(Math.min(items.length, 1000) - most)} more` });
  more.addEventListener("click", () => {
    list.append(...items.slice(most, 1000).map((item) => el("li", {}, make(item))));
    if (items.length > 1000) list.append(el("li", { class: "muted", text: `and ${whole(items.length - 1000)} more` }));
    more.remove();
  });
  return el("div", {}, list, more);
}

function lossLine(loss) {
  const isLost = loss.severity === "lost";
  return el("span", {}, el("span", { class: `word${isLost ? " bad" : ""}`, text: `${loss.severity}: ${loss.kind}` }),
    el("span", { class: "mono", text: loss.what }), el("span", { class: "muted", text: ` ${loss.why}` }));
}

/** A JSON tree. The elements of a node are created when it is opened. */
function jsonTree(key, value) {
  const named = key === null ? "" : `${key}: `;
  if (value === null || typeof value !== "object") {
    return el("span", {}, el("span", { class: "muted", text: named }), el("span", { class: "mono", text: JSON.stringify(value) }));
  }
  const entries = Object.entries(value);
  const size = Array.isArray(value) ? `${counted(entries.length, "item")}` : `${entries.length} ${entries.length === 1 ? "entry" : "entries"}`;
  if (!Array.isArray(value) && entries.length === 1 && entries[0][0] === "tensor" && typeof entries[0][1] === "string") {
    return el("span", {}, el("span", { class: "muted", text: named }), el("span", { class: "mono", text: entries[0][1] }));
  }
  const details = el("details", {}, el("summary", {}, el("span", { class: "mono", text: named }), el("span", { class: "muted", text: size })));
  details.addEventListener("toggle", () => {
    if (details.childElementCount > 1) return;
    const list = el("ul", { class: "json" }, ...entries.slice(0, 500).map(([key, value]) => el("li", {}, jsonTree(key, value))));
    if (entries.length > 500) list.append(el("li", { class: "muted", text: `and ${whole(entries.length - 500)} more` }));
    details.append(list);
  });
  return details;
}

/** A table. Cells are strings or elements. `numbers` contains the indexes of the numeric columns. */
function table(label, heads, rows, numbers = []) {
  const kind = (at) => (numbers.includes(at) ? "number" : null);
  return el("div", { class: heads.length > 3 ? "scroll wide" : "scroll", tabindex: "0", role: "group", "aria-label": label },
    el("table", {}, el("caption", { class: "hidden", text: label }),
      el("thead", {}, el("tr", {}, ...heads.map((head, at) => el("th", { scope: "col", class: kind(at), text: head })))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, at) => {
        const name = kind(at) ?? "cell";
        if (cell instanceof Node) return el("td", { class: name }, cell);
        return cell === null ? el("td", { class: `${name} muted`, text: "missing" }) : el("td", { class: name, text: cell });
      }))))));
}

/** Fills the head of the page: its title, lines of facts, and the elements below. */
function head(title, lines, ...below) {
  document.getElementById("head").replaceChildren(
    el("h1", { text: title }), ...lines.map((line) => el("p", { class: "facts", text: line })), ...below.filter(Boolean));
}
