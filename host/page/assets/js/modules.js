// The tree of modules: names of tensors, split at dots and slashes.

class Module {
  constructor(key, parent) {
    this.key = key;
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : -1;
    this.children = null; // By key; null for a tensor.
    this.tensor = -1; // A tensor can have the same name as a module.
    this.tensors = 0;
    this.elements = 0;
    this.bytes = 0;
    this.isOpen = false;
  }

  /** The full name. */
  get path() {
    const keys = [];
    for (let at = this; at.parent; at = at.parent) keys.push(at.key);
    return keys.reverse().join("");
  }

  get list() {
    return this.children ? [...this.children.values()] : [];
  }
}

// Maximum depth of the tree; names can have thousands of dots.
const MOST_LEVELS = 40;

/** Returns the tree of all tensors, or only of those in `wanted`. Keys keep their separators, so joining the keys yields the name. */
function modules(tensors, wanted = null) {
  const root = new Module("", null);
  const count = wanted ? wanted.length : tensors.count;
  // The modules on the path to the previous tensor, the end of each key in its name, and that name.
  // Consecutive tensors are mostly in the same module.
  let [way, ends, last] = [[root], [0], ""];
  for (let place = 0; place < count; place++) {
    const at = wanted ? wanted[place] : place;
    const name = tensors.names[at];
    let known = 1;
    while (known < way.length && ends[known] < name.length && last.startsWith(name.slice(ends[known - 1], ends[known]), ends[known - 1])) known++;
    way.length = ends.length = known;
    let start = ends[known - 1];
    do {
      let end = start;
      while (end < name.length && name[end] !== "." && name[end] !== "/") end++;
      end = way.length >= MOST_LEVELS ? name.length : Math.min(end + 1, name.length);
      const key = name.slice(start, end);
      const parent = way.at(-1);
      parent.children ??= new Map();
      let child = parent.children.get(key);
      if (!child) parent.children.set(key, (child = new Module(key, parent)));
      way.push(child);
      ends.push(end);
      start = end;
    } while (start < name.length);
    const [elements, bytes] = [tensors.elements(at), tensors.bytes(at)];
    for (const module of way) {
      module.tensors += 1;
      module.elements += elements;
      module.bytes += bytes;
    }
    way.at(-1).tensor = at;
    last = name;
  }
  inOrder(root);
  return root;
}

/** Sorts layers by number, because a file may list them in lexicographic order (1, 10, 2). */
function inOrder(node) {
  if (!node.children) return;
  const all = [...node.children];
  if (all.length > 1 && all.every(([key]) => /^\d{1,9}[./]?$/.test(key))) {
    node.children = new Map(all.sort(([a], [b]) => parseInt(a, 10) - parseInt(b, 10)));
  }
  for (const child of node.children.values()) inOrder(child);
}

/** Follows a chain of modules with a single child each, which is shown as one line. */
function unchained(node) {
  const keys = [];
  let at = node;
  for (;;) {
    keys.push(at.key);
    if (at.tensor >= 0 || !at.children || at.children.size !== 1) return [keys.join(""), at];
    at = at.list[0];
  }
}
