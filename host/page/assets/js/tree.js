// The tree of tensors, with search. Arrow keys move, open and close; a search opens the modules
// with matches.

class Tree {
  constructor(tensors, { choose, mark }) {
    this.tensors = tensors;
    this.chosen = -1;
    this.mark = mark;
    this.choose = choose;
    this.list = new List({
      label: "Tensors by module",
      role: "tree",
      itemRole: "treeitem",
      fill: (row, index) => this.fill(row, index),
      choose: (index) => this.enter(index),
      key: (event, index) => this.key(event, index),
    });
    this.search = search("Search tensors by name", "Search names, or dtype:bf16 (press /)", this.list, (text) => this.find(text));
    const keys = el("p", { class: "keys" });
    for (const [key, what] of [["/", "search"], ["↑ ↓", "move"], ["← →", "close, open"], ["Enter", "choose"]]) {
      keys.append(el("kbd", { text: key }), ` ${what}  `);
    }
    this.element = el("section", { class: "card side", "aria-labelledby": "tree-title" },
      el("h2", { id: "tree-title", text: "Tensors" }), this.search.bar, this.list.box, keys);
    this.find("");
  }

  find(text) {
    const wanted = this.tensors.matching(text);
    this.isFound = wanted !== null;
    this.all ??= modules(this.tensors);
    this.root = wanted ? modules(this.tensors, wanted) : this.all;
    const isSmall = this.root.tensors <= 40;
    for (const child of this.root.list) this.open(child, isSmall, this.isFound && this.root.tensors <= 20_000);
    this.search.found.textContent = this.isFound
      ? (wanted.length ? `${whole(wanted.length)} of ${counted(this.tensors.count, "tensor")}` : "no matching tensor")
      : counted(this.tensors.count, "tensor");
    this.flatten(null);
    if (!this.isFound) this.unfold();
    this.list.box.scrollTop = 0;
  }

  /** Opens the largest modules, so that the initial view shows more than the name of the model. */
  unfold() {
    for (let times = 0; times < 4 && this.lines.length < 6; times++) {
      const closed = this.lines.filter(({ node }) => node.children && !node.isOpen);
      if (closed.length === 0) return;
      closed.reduce((most, line) => (line.node.tensors > most.node.tensors ? line : most)).node.isOpen = true;
      this.flatten(null);
    }
  }

  /** Opens everything below, or only a single first module. */
  open(node, isSmall, isAll) {
    if (!node.children) return;
    // A chain of modules is one line, which is open if its last module is open.
    unchained(node)[1].isOpen = isSmall || isAll || this.root.children.size === 1;
    if (isSmall || isAll) for (const child of node.list) this.open(child, isSmall, isAll);
  }

  /** Computes the visible lines, and keeps `active` among them. */
  flatten(active) {
    const lines = [];
    const walk = (node, depth) => {
      for (const child of node.children.values()) {
        const [key, end] = unchained(child);
        lines.push({ key, node: end, depth });
        if (end.children && end.isOpen) walk(end, depth + 1);
      }
    };
    if (this.root.children) walk(this.root, 0);
    this.lines = lines;
    this.list.set(lines.length, active ? lines.findIndex((line) => line.node === active) : 0);
  }

  fill(row, index) {
    const { key, node, depth } = this.lines[index];
    row.style.setProperty("--depth", Math.min(depth, 12));
    row.dataset.depth = depth;
    row.setAttribute("aria-level", depth + 1);
    const isTensor = node.tensor >= 0;
    row.setAttribute("aria-selected", String(isTensor && node.tensor === this.chosen));
    const mark = node.children ? (node.isOpen ? "▾" : "▸") : "";
    if (node.children) row.setAttribute("aria-expanded", String(node.isOpen));
    const at = node.tensor;
    const what = isTensor
      ? `${this.tensors.dtype(at)} ${this.tensors.shapeText(at)}`
      : `${whole(node.tensors)} · ${amount(node.elements)}`;
    row.append(el("span", { class: "mark", text: mark, "aria-hidden": "true" }));
    row.append(el("span", { class: "name mono", text: key.slice(0, 500), title: isTensor ? this.tensors.names[at] : node.path }));
    if (isTensor && this.mark(at)) row.append(el("span", { class: "dot", role: "img", "aria-label": "has findings", title: "has findings" }));
    row.append(el("span", { class: "what", text: what, title: isTensor ? null : `${counted(node.tensors, "tensor")}, ${whole(node.elements)} elements` }));
  }

  enter(index) {
    const { node } = this.lines[index];
    if (node.tensor >= 0) this.select(node.tensor, false);
    if (node.children) this.toggle(node, node.tensor >= 0 ? node.isOpen : !node.isOpen);
  }

  toggle(node, isOpen) {
    if (!node.children || node.isOpen === isOpen) return;
    const top = this.list.box.scrollTop;
    node.isOpen = isOpen;
    this.flatten(node);
    this.list.box.scrollTop = top;
    this.list.draw();
  }

  key(event, index) {
    const line = this.lines[index];
    if (!line) return false;
    if (event.key === "ArrowRight") {
      if (!line.node.children) return true;
      if (!line.node.isOpen) this.toggle(line.node, true);
      else this.list.go(index + 1);
    } else if (event.key === "ArrowLeft") {
      if (line.node.children && line.node.isOpen) this.toggle(line.node, false);
      else {
        let parent = index - 1;
        while (parent >= 0 && this.lines[parent].depth >= line.depth) parent--;
        if (parent >= 0) this.list.go(parent);
      }
    } else return false;
    return true;
  }

  /** Chooses a tensor, and opens the modules around it if necessary. */
  select(at, isRevealed = true) {
    this.chosen = at;
    if (isRevealed) this.reveal(at);
    this.list.refresh();
    this.choose(at);
  }

  reveal(at) {
    const find = (root) => {
      const name = this.tensors.names[at];
      let [node, rest] = [root, name];
      while (node && node.tensor !== at) {
        node = node.list.find((child) => rest.startsWith(child.key) && (child.tensor === at || child.children));
        if (node) rest = rest.slice(node.key.length);
      }
      return node;
    };
    let node = find(this.root);
    if (!node) {
      this.search.input.value = "";
      this.find("");
      node = find(this.root);
    }
    for (let up = node?.parent; up; up = up.parent) up.isOpen = true;
    if (!node) return;
    this.flatten(node);
    this.list.go(this.list.active);
  }
}
