// The page of a model, or of the models below a folder.

function showModels() {
  const choice = page.models.length > 1 ? el("select", { "aria-label": "Model", onchange: () => showModel(Number(choice.value), choice) }) : null;
  page.models.forEach((model, at) => choice?.append(el("option", { value: at, text: `${model.folder}: ${amount(model.parameters)} parameters` })));
  showModel(0, choice);
}

function showModel(place, choice) {
  const model = page.models[place];
  const tensors = new Tensors(model);
  head(page.title, [
    [model.folder, model.format_title, counted(tensors.count, "tensor"), `${amount(model.parameters)} parameter${model.parameters === 1 ? "" : "s"}`, bytes(model.bytes), model.problem].filter(Boolean).join(" · "),
  ], dtypes(model), choice);
  const go = (at) => tree.select(at);
  const detail = new Detail(model, place, tensors, { go });
  const tree = new Tree(tensors, {
    mark: (at) => detail.mark(at),
    choose: (at) => {
      detail.show(at);
      if (matchMedia("(max-width: 60rem)").matches || detail.element.getBoundingClientRect().top < 0) {
        detail.element.scrollIntoView({ block: "start", behavior: "auto" });
      }
    },
  });
  const map = new Treemap(tensors, tree.all, { choose: go });
  const cards = el("div", { class: "cards" }, detail.element, map.element,
    findingsCard(model, tensors, go), model.stats ? layersCard(tensors, model.stats) : null, ...aboutCards(model));
  const content = document.getElementById("content");
  content.className = "columns";
  content.replaceChildren(tree.element, cards);
  tree.list.draw();
}

/** The legend of the treemap: a label for each dtype with its amount. */
function dtypes(model) {
  const known = new Map(model.dtype_sizes.map((one) => [one.dtype, one]));
  return el("ul", { class: "chips", "aria-label": "Dtypes" }, ...model.dtypes.slice(0, 12).map((dtype, at) => {
    const size = known.get(dtype);
    return el("li", { class: `chip k${Math.min(at, 7)}`, text: size ? `${dtype}: ${whole(size.tensors)}, ${bytes(size.bytes)}` : dtype });
  }));
}

function findingsCard(model, tensors, go) {
  if (!model.findings) return null;
  const all = [...(model.notes ?? []).map((note) => ({ what: note, tensors: [], title: "note" })), ...model.findings];
  if (all.length === 0) return card("Findings", el("p", { text: "Nothing stands out." }));
  return card("Findings", listed(all, (finding) => {
    const line = el("span", {}, el("span", { class: `word${finding.title === "note" ? "" : " bad"}`, text: finding.title }));
    finding.tensors.slice(0, 5).forEach((name, at) => {
      const place = tensors.place(name);
      line.append(at ? ", " : "", place === undefined ? el("span", { class: "mono", text: name })
        : el("button", { type: "button", class: "link mono", text: name, onclick: () => go(place) }));
    });
    if (finding.tensors.length > 5) line.append(` and ${whole(finding.tensors.length - 5)} more`);
    line.append(el("span", { class: "muted", text: ` ${finding.what}` }));
    return line;
  }));
}

/** Cards with everything except the tensors. */
function aboutCards(model) {
  const cards = [];
  if (model.facts.length) cards.push(card("Model", facts(model.facts)));
  if (model.weights?.length) {
    cards.push(card("Weights stored in several tensors", listed(model.weights, (weight) => el("span", {},
      el("span", { class: "mono", text: weight.name }), el("span", { class: "muted", text: ` [${weight.shape.join(", ")}] of ${counted(weight.parts.length, "tensor")}, ${bytes(weight.bytes)}` })))));
  }
  if (model.state !== null && model.state !== undefined) cards.push(card("State", jsonTree("checkpoint", model.state)));
  if (model.metadata.length) {
    cards.push(card("Metadata", facts(model.metadata.map(([key, text, length]) => [key,
      el("span", { class: "mono", text: length > text.length ? `${text} … (${whole(length)} characters)` : text })]))));
  }
  if (model.globals?.length) cards.push(card("Pickle globals (never called)", listed(model.globals, (name) => el("span", { class: "mono", text: name }))));
  if (model.losses.length) cards.push(card("Not shown here", listed(model.losses, lossLine)));
  cards.push(elsewhereCard(model.elsewhere));
  return cards.filter(Boolean);
}

/** The losses of a conversion to other formats. */
function elsewhereCard(formats) {
  if (!formats?.length) return null;
  const losing = formats.filter((format) => format.losses.length > 0);
  const others = formats.filter((format) => format.losses.length === 0).map((format) => format.format);
  const rows = losing.map((format) => [el("span", { class: "mono", text: format.format }), listed(format.losses, (loss) => el("span", { text: loss }), 4)]);
  return card("What other formats cannot store",
    el("p", { class: "note", text: "According to what the formats declare. ferry convert --dry-run lists the losses of each tensor." }),
    rows.length ? table("What other formats cannot store", ["format", "loses"], rows) : null,
    others.length ? el("p", { text: `No losses known in advance: ${others.join(", ")}.` }) : null);
}
