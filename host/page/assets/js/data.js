// The data of the page, and its conversion to text and elements. Names and other strings come from
// untrusted files, so they enter the page only through `textContent` and properties, never as
// markup.

const page = JSON.parse(document.getElementById("data").textContent);

/** Creates an element with the properties in `options`, and with children that are elements or strings. */
function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined || value === null) continue;
    if (key === "class") made.className = value;
    else if (key === "text") made.textContent = shown(value);
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, key === "title" || key.startsWith("aria-") ? shown(value) : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Creates an SVG element. */
function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// Control characters, direction marks, invisible characters and lone surrogates, which could
// disguise text.
const STEERS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Returns a value as text, with such characters escaped. */
function shown(value) {
  return String(value).replace(STEERS, (found) => "\\u{" + found.codePointAt(0).toString(16) + "}");
}

/** Parses a number from the document. Numbers that JSON cannot represent are strings. */
function number(value) {
  if (typeof value === "number") return value;
  if (value === "inf") return Infinity;
  if (value === "-inf") return -Infinity;
  return value === null || value === undefined ? NaN : Number(value);
}

/** Formats a number with four or five digits. */
function short(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string" && !Number.isFinite(number(value))) return value;
  const it = number(value);
  if (!Number.isFinite(it)) return String(it);
  if (Number.isInteger(it) && Math.abs(it) < 1e9) return whole(it);
  const size = Math.abs(it);
  return size !== 0 && (size < 1e-4 || size >= 1e6) ? it.toExponential(3) : String(Number(it.toPrecision(5)));
}

/** Formats an integer with grouped digits. */
function whole(value) {
  return typeof value === "string" ? value : value.toLocaleString("en-US");
}

function counted(count, one) {
  return `${whole(count)} ${one}${count === 1 ? "" : "s"}`;
}

function scaled(value, units, least) {
  let [at, size] = [0, number(value)];
  while (size >= 999.5 && at + 1 < units.length) [at, size] = [at + 1, size / 1000];
  return at === 0 ? `${whole(value)}${least}` : `${size.toFixed(size < 9.95 ? 2 : size < 99.5 ? 1 : 0)} ${units[at]}`;
}

const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB", "EB"], " B");
const amount = (value) => scaled(value, ["", "K", "M", "B", "T", "Q"], "").replace(" ", "");

/** The tensors of the document, stored by columns. A name is stored as the length of the prefix that it shares with the previous name, and the rest. */
class Tensors {
  constructor(model) {
    const stored = model.tensors;
    this.count = stored.dtype.length;
    this.names = new Array(this.count);
    let last = "";
    for (let at = 0; at < this.count; at++) {
      last = last.slice(0, stored.names[2 * at]) + stored.names[2 * at + 1];
      this.names[at] = last;
    }
    this.lower = null;
    this.model = model;
    this.stored = stored;
    this.sizes = new Map();
    this.places = null;
  }

  dtype(at) { return this.model.dtypes[this.stored.dtype[at]]; }
  kind(at) { return Math.min(this.stored.dtype[at], 7); }
  shape(at) { return this.model.shapes[this.stored.shape[at]]; }
  bytes(at) { return number(this.stored.bytes[at]); }
  shapeText(at) { return `[${this.shape(at).join(", ")}]`; }

  /** Returns the number of elements. */
  elements(at) {
    const shape = this.stored.shape[at];
    if (!this.sizes.has(shape)) this.sizes.set(shape, this.model.shapes[shape].reduce((all, dim) => all * number(dim), 1));
    return this.sizes.get(shape);
  }

  place(name) {
    if (!this.places) this.places = new Map(this.names.map((name, at) => [name, at]));
    return this.places.get(name);
  }

  /** Returns the tensors that match every word of `text` (part of a name, or `dtype:bf16`); `null` if there are no words. */
  matching(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length === 0) return null;
    if (!this.lower) this.lower = this.names.map((name) => name.toLowerCase());
    const dtypes = words.filter((word) => word.startsWith("dtype:")).map((word) => word.slice(6));
    const parts = words.filter((word) => !word.startsWith("dtype:"));
    const isWanted = this.model.dtypes.map((dtype) => dtypes.every((word) => dtype.toLowerCase().startsWith(word)));
    const found = [];
    for (let at = 0; at < this.count; at++) {
      const name = this.lower[at];
      if (isWanted[this.stored.dtype[at]] && parts.every((part) => name.includes(part))) found.push(at);
    }
    return found;
  }
}
