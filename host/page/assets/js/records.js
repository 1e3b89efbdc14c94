// The page of a dataset: its columns with statistics of all rows, the first rows, and images.

function showRecords() {
  head(page.title, [[page.format_title, counted(page.records, "record"), counted(page.columns.length, "column"), bytes(page.bytes), counted(page.files, "file")].join(" · ")]);
  const content = document.getElementById("content");
  content.className = "stack cards";
  const input = el("input", { type: "search", placeholder: "Search columns (press /)", autocomplete: "off", "aria-keyshortcuts": "/" });
  const found = el("p", { class: "note", role: "status" });
  const grid = el("div", { class: "grid" });
  const cards = page.columns.map(columnCard);
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    page.columns.forEach((column, at) => {
      const isFound = words.every((word) => `${column.name} ${column.type}`.toLowerCase().includes(word));
      cards[at].hidden = !isFound;
      count += Number(isFound);
    });
    found.textContent = words.length ? `${whole(count)} of ${counted(cards.length, "column")}` : counted(cards.length, "column");
  };
  input.addEventListener("input", find);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  find();
  grid.append(...cards);
  content.replaceChildren(
    el("div", { class: "find", role: "search" }, el("label", {}, el("span", { class: "hidden", text: "Search columns" }), input), found),
    grid,
    ...[imagesCard(), rowsCard(), page.losses.length ? card("Not shown here", listed(page.losses, lossLine)) : null].filter(Boolean));
}

function columnCard(column) {
  const { stats = {}, sample } = column;
  const distinct = stats.distinct === undefined ? null : `${stats.distinct_is_exact ? "" : "about "}${whole(stats.distinct)}`;
  const made = card(column.name || "(no name)", facts([
    ["type", el("span", { class: "mono", text: column.type })],
    ["missing", column.missing ? `${whole(column.missing)} (${((column.missing / Math.max(page.records, 1)) * 100).toPrecision(3)} %)` : "none"],
    ["range", column.min === undefined ? null : `${short(column.min)} to ${short(column.max)}`],
    ["NaN", column.nan ? whole(column.nan) : null],
    ["true, false", stats.true === undefined ? null : `${whole(stats.true)}, ${whole(stats.false)}`],
    ["mean, std", stats.mean === undefined ? null : `${short(stats.mean)}, ${short(stats.std)}`],
    ["distinct", distinct],
  ]));
  made.querySelector("h2").classList.add("mono");
  if (column.lengths && column.lengths.min !== column.lengths.max) made.append(el("h3", { text: "Values per row" }), lengths(column.lengths, "Values per row"));
  else if (column.lengths) made.append(facts([["values per row", whole(column.lengths.min)]]));
  if (column.sizes) made.append(el("h3", { text: "Bytes per value" }), lengths(column.sizes, "Bytes per value"));
  if (sample?.histogram) made.append(el("h3", { text: `Values in the first ${counted(sample.rows, "record")}` }), histogram(sample.histogram, `Values of ${column.name}`));
  if (sample?.top?.length) {
    const most = sample.top[0][1];
    const box = el("div", { class: "tops" });
    for (const [text, count] of sample.top) box.append(bar(text, count / most), el("span", { class: "muted", text: whole(count) }));
    made.append(el("h3", { text: `Most common in the first ${counted(sample.rows, "record")}` }), box);
  }
  return made;
}

function imagesCard() {
  if (!page.images.length) return null;
  return card("Images", el("div", { class: "images" }, ...page.images.map((image) => {
    const said = `${image.column}, record ${whole(image.row)}: ${image.width} × ${image.height}, ${bytes(image.bytes)}`;
    return el("figure", {}, el("img", { src: image.url, alt: shown(said), decoding: "async" }), el("figcaption", { text: said }));
  })));
}

function rowsCard() {
  const { columns, rows } = page.rows;
  if (!rows.length) return null;
  return card(`The first ${counted(rows.length, "record")}`,
    table("First records", columns.map((column) => column.name), rows, columns.flatMap((column, at) => (column.is_number ? [at] : []))));
}
