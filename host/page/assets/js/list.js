// A list of any length. Only visible rows have elements, and all rows have the same height. The
// keyboard moves the active row.

const ROW = 28;
// Browsers limit the height of an element, so only the start of a longer list is shown.
const MOST_ROWS = 1_000_000;

class List {
  /** `fill(element, index)` fills a row; `choose(index)` is called on Enter or a click. */
  constructor({ label, role, itemRole, fill, choose, key }) {
    this.options = { itemRole, fill, choose, key };
    this.count = 0;
    this.active = 0;
    this.spacer = el("div", { class: "spacer", role: "presentation" });
    this.box = el("div", { class: "rows list", role, tabindex: "0", "aria-label": label }, this.spacer);
    this.prefix = `row${List.made++}-`;
    this.seen = new Map();
    this.box.addEventListener("scroll", () => this.later(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.press(event));
    this.box.addEventListener("click", (event) => {
      const row = event.target.closest("[data-index]");
      if (row) this.go(Number(row.dataset.index), true);
    });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  set(count, active = 0) {
    this.total = count;
    this.count = Math.min(count, MOST_ROWS);
    this.active = Math.max(0, Math.min(active, this.count - 1));
    this.spacer.style.height = `${this.count * ROW}px`;
    this.forget();
    this.draw();
  }

  forget() {
    this.spacer.replaceChildren();
    this.seen.clear();
  }

  refresh() {
    this.forget();
    this.draw();
  }

  later() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  draw() {
    const [top, height] = [this.box.scrollTop, this.box.clientHeight];
    const first = Math.max(0, Math.floor(top / ROW) - 6);
    const last = Math.min(this.count, Math.ceil((top + height) / ROW) + 6);
    for (const [index, row] of this.seen) {
      if (index < first || index >= last) {
        row.remove();
        this.seen.delete(index);
      }
    }
    for (let index = first; index < last; index++) {
      if (this.seen.has(index)) continue;
      const row = el("div", { class: "row", role: this.options.itemRole, id: this.prefix + index, "data-index": index });
      row.style.top = `${index * ROW}px`;
      if (this.options.itemRole === "option") {
        row.setAttribute("aria-posinset", index + 1);
        row.setAttribute("aria-setsize", this.count);
      }
      this.options.fill(row, index);
      if (index === this.active) row.classList.add("active");
      this.spacer.append(row);
      this.seen.set(index, row);
    }
    if (this.seen.has(this.active)) this.box.setAttribute("aria-activedescendant", this.prefix + this.active);
    else this.box.removeAttribute("aria-activedescendant");
  }

  /** Makes a row active, and scrolls it into view. */
  go(index, isChosen = false) {
    if (this.count === 0) return;
    this.seen.get(this.active)?.classList.remove("active");
    this.active = Math.max(0, Math.min(index, this.count - 1));
    const top = this.active * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
    this.draw();
    this.seen.get(this.active)?.classList.add("active");
    if (isChosen) this.options.choose(this.active);
  }

  press(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 1);
    const to = {
      ArrowDown: this.active + 1, ArrowUp: this.active - 1, Home: 0, End: this.count - 1,
      PageDown: this.active + page, PageUp: this.active - page,
    }[event.key];
    if (to !== undefined) this.go(to);
    else if (event.key === "Enter" || event.key === " ") this.go(this.active, true);
    else if (!this.options.key?.(event, this.active)) return;
    event.preventDefault();
  }
}
List.made = 0;

/** A search field, which `/` focuses, and a line with the number of matches. */
function search(label, placeholder, list, changed) {
  const input = el("input", { type: "search", placeholder, autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/" });
  const found = el("p", { class: "note", role: "status" });
  let wait = 0;
  input.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(() => changed(input.value), 60);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      clearTimeout(wait);
      changed(input.value);
      list.box.focus();
    } else if (event.key === "Escape" && input.value) {
      input.value = "";
      changed("");
    } else return;
    event.preventDefault();
  });
  document.addEventListener("keydown", (event) => {
    const isTyped = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key !== "/" || isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
  const bar = el("div", { class: "find", role: "search" }, el("label", {}, el("span", { class: "hidden", text: label }), input), found);
  return { bar, input, found };
}
