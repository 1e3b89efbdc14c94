// Makes the table of jobs sortable and filterable. Everything else on the page works without this script.
"use strict";
(() => {
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const controls = document.getElementById("controls");
  const filter = document.getElementById("filter");
  const boxes = [...controls.querySelectorAll("input[name=state]")];
  const shown = document.getElementById("shown");
  const rows = [...body.rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));

  // Cells with numbers carry their value. Cells without one are last in both directions.
  const value = (row, column) => {
    const cell = row.cells[column];
    if (cell.dataset.v === undefined) {
      return (cell.querySelector("summary") || cell).textContent;
    }
    return cell.dataset.v === "" ? null : Number(cell.dataset.v);
  };
  const words = new Intl.Collator(undefined, { numeric: true });
  const sort = (column) => {
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const keyed = rows.map((entry) => ({ entry, key: value(entry.row, column) }));
    keyed.sort(({ key: a }, { key: b }) => {
      if (a === null || b === null) return (a === null) - (b === null);
      const order = typeof a === "number" ? a - b : words.compare(a, b);
      return down ? -order : order;
    });
    body.append(...keyed.map(({ entry }) => entry.row));
  };

  const narrow = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let count = 0;
    for (const { row, text } of rows) {
      row.hidden = !(states.has(row.className) && wanted.every((word) => text.includes(word)));
      count += !row.hidden;
    }
    shown.textContent = count === rows.length ? "" : `${count} of ${rows.length} shown`;
  };

  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(column));
    head.replaceChildren(button);
  });
  let waiting = 0;
  filter.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(narrow, 120);
  });
  boxes.forEach((box) => box.addEventListener("change", narrow));
  controls.addEventListener("submit", (event) => event.preventDefault());
  // A link to a job shows it with its details, even if a filter hides it.
  const follow = () => {
    const row = /^#job-\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!row) return;
    row.hidden = false;
    row.querySelector("details").open = true;
    row.scrollIntoView({ block: "center" });
  };
  window.addEventListener("hashchange", follow);
  controls.hidden = false;
  narrow();
  follow();
})();
