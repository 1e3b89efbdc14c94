// A treemap: modules are boxes, sized by their number of parameters, in the color of their most
// common dtype. A click or Enter opens a module, and the names above the map lead back.

// Maximum number of boxes in the map, and in one module.
const MOST_BOXES = 600;
const MOST_CHILDREN = 300;

class Treemap {
  constructor(tensors, root, { choose }) {
    this.tensors = tensors;
    this.choose = choose;
    this.root = root;
    this.crumbs = el("nav", { class: "crumbs", "aria-label": "Module in the treemap" });
    this.box = el("div", { class: "map", role: "group", "aria-label": "Treemap of parameters by module; arrow keys move, Enter opens a module" });
    this.box.addEventListener("keydown", (event) => this.press(event));
    this.element = el("section", { class: "card", "aria-labelledby": "map-title" },
      el("h2", { id: "map-title", text: "Parameters by module and dtype" }), this.crumbs, this.box);
    this.show(this.root);
    let width = 0;
    new ResizeObserver(() => {
      if (Math.abs(this.box.clientWidth - width) > 4) {
        width = this.box.clientWidth;
        this.draw();
      }
    }).observe(this.box);
  }

  show(node, isFocused = false) {
    this.node = node.children ? unchained(node)[1] : node;
    if (!this.node.children) this.node = this.node.parent ?? this.root;
    const way = [];
    for (let at = this.node; at; at = at.parent) way.unshift(at);
    this.crumbs.replaceChildren(...way.map((at) => {
      const isHere = at === this.node;
      const name = at.parent ? at.key : "all";
      return el("button", { type: "button", class: "mono", text: name, "aria-current": isHere ? "true" : null, onclick: () => this.show(at, true) });
    }));
    this.draw();
    if (isFocused) this.box.querySelector("button")?.focus();
  }

  /** Returns the size of a module: its number of elements, or its bytes if the model contains only strings and similar data. */
  size(node) {
    return this.root.elements > 0 ? node.elements : node.bytes;
  }

  draw() {
    const [width, height] = [this.box.clientWidth, this.box.clientHeight];
    this.box.replaceChildren();
    if (!width || !height) return;
    this.total = this.size(this.node) || 1;
    let room = MOST_BOXES;
    // The largest boxes contain other boxes, as long as there is room.
    const waiting = [{ node: this.node, x: 0, y: 0, w: width, h: height, depth: 0 }];
    while (waiting.length) {
      const { node, x, y, w, h, depth } = waiting.shift();
      for (const placed of squares(this.boxes(node, w * h), w, h)) {
        const place = { ...placed, x: x + placed.x, y: y + placed.y };
        const end = place.box.node ? unchained(place.box.node)[1] : null;
        const inside = end?.children && end.tensor < 0 ? Math.min(end.children.size, MOST_CHILDREN) : 0;
        const isGroup = inside > 0 && place.w > 56 && place.h > 44 && (place.w * place.h) / inside > 90 && depth < 5 && room > inside;
        if (isGroup) room -= inside;
        this.box.append(this.button(place, isGroup));
        if (isGroup) waiting.push({ node: end, x: place.x + 3, y: place.y + 19, w: place.w - 6, h: place.h - 22, depth: depth + 1 });
      }
      waiting.sort((a, b) => b.w * b.h - a.w * a.h);
    }
    this.box.querySelector("button:not(:disabled)")?.setAttribute("tabindex", "0");
  }

  /** Returns the children of a module, largest first. Children that are too small for this many pixels are merged. */
  boxes(node, pixels) {
    const all = node.list.map((child) => ({ node: child, size: this.size(child) })).filter((box) => box.size > 0);
    all.sort((a, b) => b.size - a.size);
    const total = all.reduce((sum, box) => sum + box.size, 0);
    let count = Math.min(all.length, MOST_CHILDREN);
    while (count > 1 && (all[count - 1].size / total) * pixels < 12) count -= 1;
    const rest = all.slice(count);
    if (rest.length < 2) return all;
    const boxes = [...all.slice(0, count), { rest: rest.length, size: rest.reduce((sum, box) => sum + box.size, 0) }];
    return boxes.sort((a, b) => b.size - a.size);
  }

  button({ box, x, y, w, h }, isGroup) {
    const button = el("button", { type: "button", tabindex: "-1" });
    Object.assign(button.style, { left: `${x}px`, top: `${y}px`, width: `${w}px`, height: `${h}px` });
    if (w < 40) button.style.paddingInline = "0.15rem";
    if (w < 16 || h < 12) Object.assign(button.style, { padding: "0", borderWidth: w < 4 || h < 4 ? "0" : "1px" });
    if (box.rest) {
      button.className = "k7";
      button.disabled = true;
      button.title = `${whole(box.rest)} smaller`;
      if (w > 60 && h > 16) button.append(el("span", { class: "name", text: `${whole(box.rest)} smaller` }));
      else button.setAttribute("aria-label", `${whole(box.rest)} smaller`);
      return button;
    }
    const [key, end] = box.node.children ? unchained(box.node) : [box.node.key, box.node];
    const dtype = this.dtypeOf(box.node);
    const name = key.slice(0, 200) || "(no name)";
    const share = (box.size / this.total) * 100;
    const size = `${amount(box.size)} · ${share >= 0.1 ? share.toFixed(1) : share.toPrecision(1)} %`;
    button.className = isGroup ? "group" : `k${dtype.kind}`;
    button.title = shown(`${end.path}\n${size} · ${dtype.name}${dtype.isMixed ? " and others" : ""}`);
    const isNamed = w > 26 && h > 18;
    if (!isNamed) button.setAttribute("aria-label", `${name} ${size} ${dtype.name}`);
    if (isGroup) button.append(el("span", { class: "name" }, el("span", { class: "mono", text: name }), ` ${size}`));
    else {
      if (isNamed) button.append(el("span", { class: "name mono", text: name }));
      if (w > 60 && h > 38) button.append(el("span", { class: "name", text: size }));
    }
    button.addEventListener("click", () => this.enter(box.node));
    return button;
  }

  enter(node) {
    const end = unchained(node)[1];
    // A tensor can have the same name as a module.
    if (end.tensor >= 0) this.choose(end.tensor);
    else this.show(end, true);
  }

  /** Returns the dtype of most elements of a module. */
  dtypeOf(node) {
    if (!node.dtype && this.tensors.model.dtypes.length === 1) {
      node.dtype = { name: this.tensors.model.dtypes[0], kind: 0, isMixed: false };
    } else if (!node.dtype) {
      const sizes = new Map();
      const walk = (at) => {
        if (at.tensor >= 0) {
          const dtype = this.tensors.dtype(at.tensor);
          const known = sizes.get(dtype) ?? { size: 0, kind: this.tensors.kind(at.tensor) };
          known.size += this.tensors.elements(at.tensor);
          sizes.set(dtype, known);
        }
        if (at.children) for (const child of at.children.values()) walk(child);
      };
      walk(node);
      const [name, { kind }] = [...sizes].sort((a, b) => b[1].size - a[1].size)[0];
      node.dtype = { name, kind, isMixed: sizes.size > 1 };
    }
    return node.dtype;
  }

  press(event) {
    const buttons = [...this.box.querySelectorAll("button:not(:disabled)")];
    const at = buttons.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
    if (event.key === "Backspace" || event.key === "Escape") {
      if (this.node.parent) this.show(this.outer(), true);
    } else if (to !== undefined && buttons[to]) {
      buttons.forEach((button, index) => button.setAttribute("tabindex", index === to ? "0" : "-1"));
      buttons[to].focus();
    } else if (to === undefined) return;
    event.preventDefault();
  }

  /** Returns the closest enclosing module with more than one child. */
  outer() {
    let up = this.node.parent;
    while (up.parent && up.children.size === 1) up = up.parent;
    return up;
  }
}

/** Places boxes, largest first, each as close to a square as possible (Bruls, Huizing and van Wijk). */
function squares(boxes, width, height) {
  const placed = [];
  let [x, y, w, h] = [0, 0, width, height];
  let left = boxes.reduce((sum, box) => sum + box.size, 0);
  let start = 0;
  const worst = (sum, least, most, side, unit) => {
    const length = (sum * unit) / side;
    return Math.max((most * unit) / length / length, (length * length) / (least * unit));
  };
  while (start < boxes.length && w > 0.5 && h > 0.5) {
    const [side, unit] = [Math.min(w, h), (w * h) / left];
    let [end, sum] = [start + 1, boxes[start].size];
    const most = boxes[start].size;
    while (end < boxes.length) {
      const next = boxes[end].size;
      if (worst(sum + next, next, most, side, unit) > worst(sum, boxes[end - 1].size, most, side, unit)) break;
      sum += next;
      end += 1;
    }
    const length = end === boxes.length ? Math.max(w, h) : (sum * unit) / side;
    let along = 0;
    for (let index = start; index < end; index++) {
      const part = (boxes[index].size / sum) * side;
      placed.push(w >= h
        ? { box: boxes[index], x, y: y + along, w: length, h: part }
        : { box: boxes[index], x: x + along, y, w: part, h: length });
      along += part;
    }
    if (w >= h) [x, w] = [x + length, w - length];
    else [y, h] = [y + length, h - length];
    left -= sum;
    start = end;
  }
  return placed;
}
