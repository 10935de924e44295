// Tables, and the links between a row and its place in other figures.
// ---- tables

// An element with these properties and contents.
function made(tag, properties = {}, ...contents) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...contents);
  return element;
}

function pressed(title, action, className = "") {
  const button = made("button", { type: "button", className }, title);
  button.addEventListener("click", action);
  return button;
}

function drawTable(element, figure) {
  const rows = rowsOf(figure);
  const columns = Object.keys(figure.columns);
  const table = made("table", { className: "rows" });
  element.replaceChildren(made("div", { className: "scroll-x" }, table));
  const hidden = [...(figure.control.hidden ?? []), figure.control.step === "own" ? "step" : null];
  const isNumber = (column) => rows.some((row) => typeof row[column] === "number");
  // Verdicts differ in their middle, so they are not cut.
  const isWhole = (column) => column === "verdict";
  const isShort = (column) => isWhole(column) || rows.every((row) => String(row[column] ?? "").length <= 24);
  const text = (value) => made("span", { textContent: value }).innerHTML;
  // Long text is cut to a line, before its end, which tells kernels apart, and kernels have short names: the
  // whole text is shown on hover, and below the row after a click.
  const display = (column, value) => {
    const short = shortNames.get(value);
    if (!short && (typeof value !== "string" || value.length <= 24 || isWhole(column))) return text(shown(column, value));
    const letters = [...(short ?? value)], end = letters.splice(figure.control.plain ? Infinity : -10);
    return `<span class="cut" title="${text(value).replaceAll('"', "&quot;")}"><span>${text(letters.join(""))}</span><span>${text(end.join(""))}</span></span>`;
  };
  const more = {
    data: null, orderable: false, searchable: false, className: "more", title: '<span class="unseen">more</span>',
    defaultContent: '<button type="button" class="more" aria-expanded="false" aria-label="All of this row">+</button>',
  };
  const isLong = rows.length > 10 && !figure.control.plain;
  const shownTable = new DataTable(table, {
    data: rows,
    columns: columns.filter((column) => !hidden.includes(column)).map((column) => ({
      data: column,
      title: text(heading(column)),
      className: isNumber(column) ? "number" : isShort(column) ? "short" : "long",
      render: (value, kind) => (kind === "display" ? display(column, value)
        : kind === "filter" ? shown(column, value) : value ?? (isNumber(column) ? -Infinity : "")),
    })).concat(figure.control.plain ? [] : [more]),
    order: [],
    paging: isLong,
    pageLength: 10,
    lengthMenu: [10, 50, 200],
    layout: {
      topStart: null,
      topEnd: isLong ? "search" : null,
      bottomStart: isLong ? ["info", "pageLength"] : null,
      bottomEnd: isLong ? "paging" : null,
    },
    autoWidth: false,
    language: { search: "Search:", emptyTable: "Nothing to show", info: "_START_ to _END_ of _TOTAL_", infoFiltered: "(of _MAX_)", lengthMenu: "_MENU_ a page" },
  });
  // Long text has the room that the other columns leave, of about 84 pixels each, or 60 in half a page.
  const long = table.querySelectorAll("thead th.long"), others = table.querySelectorAll("thead th").length - long.length;
  const taken = (element.clientWidth < 800 ? 60 : 84) * others, least = 140;
  for (const cell of long) cell.style.width = `${Math.max(least, (element.clientWidth - taken) / long.length)}px`;
  if (!figure.control.plain) table.style.minWidth = `${taken + least * long.length}px`;
  // A click on a row shows all of it, with links to where its names stand in other figures.
  table.tBodies[0].addEventListener("click", (event) => {
    const line = event.target.closest("tr");
    const row = line && shownTable.row(line);
    if (figure.control.plain || !row?.data() || String(getSelection())) return;
    if (row.child.isShown()) row.child.hide();
    else row.child(described(element, figure, row.data()), "all").show();
    line.querySelector("button.more").setAttribute("aria-expanded", String(row.child.isShown()));
  });
  // Rows of a step: those that name it ("of"), or rows of their own beside those of all ("own").
  const kinds = { of: (row, step) => step === null || row.step === step, own: (row, step) => row.step === step };
  const kept = kinds[figure.control.step];
  return { step: (step) => {
    if (!kept) return;
    shownTable.clear();
    shownTable.rows.add(rows.filter((row) => kept(row, step)));
    shownTable.draw();
  } };
}

// ---- links between figures

// The figures of the view that have these.
function figureOf(element, name) {
  const id = `${element.closest("main.view").id}-${name}`;
  return data.figures[id] && { id, figure: data.figures[id] };
}

const linkTo = (text, action) => pressed(text, (event) => { event.stopPropagation(); action(); }, "link");

function copyable(command) {
  const button = made("button", { type: "button", className: "copy" }, "Copy");
  button.dataset.copy = command;
  return made("span", {}, made("code", {}, command), " ", button);
}

// The line of Python that launches most of what a kernel does, by the flame graph.
function launcher(flame, name) {
  const { parents, library } = flame.control, rows = rowsOf(flame), hidden = new Set(library);
  const own = rows.map((row, at) => at).filter((at) => rows[at].kind === "gpu" && rows[at].name === name);
  let at = own.sort((a, b) => rows[b].gpu_ns - rows[a].gpu_ns)[0] ?? -1;
  while (at >= 0 && (hidden.has(at) || !/\.pyx?\(/.test(rows[at].name))) at = parents[at];
  return at >= 0 ? rows[at].name : null;
}

// Where the names and instants of a row stand in the flame graph and in the time line.
function linksOf(element, figure, row, isHere = false) {
  const links = [];
  const flame = figureOf(element, "flame"), line = figureOf(element, "timeline");
  const names = [...new Set(Object.values(row).filter((value) => typeof value === "string" && value.length > 2))];
  const place = (found) => ({ place: document.getElementById(found.id).closest("section").id });
  if (flame && element.id !== flame.id) {
    const known = textsOf(flame.figure, "name").filter(Boolean);
    const find = (title, name, isGpu) => links.push(linkTo(`${title}: ${shortOf(name)}`, () => choose(flame.id, { find: name, look: null, measure: isGpu ? "GPU time launched" : null }, place(flame))));
    for (const name of names.filter((each) => known.some((text) => text === each || text.endsWith(`: ${each}`)))) {
      const isGpu = rowsOf(flame.figure).some((each) => each.name === name && each.kind === "gpu");
      find("In the flame graph", name, isGpu);
      const from = isGpu && launcher(flame.figure, name);
      if (from) find("Launched most by", from, true);
    }
  }
  if (line && !isHere) {
    const { span, trace_start, command } = line.figure.control;
    const begin = row[figure.control?.starts], length = row[figure.control?.lasts] ?? 0;
    const zoomTo = (start, ns) => () => choose(line.id, { zoom: [start - ns, start + 2 * ns].map(Math.round).join("-") }, place(line));
    if (begin !== undefined) {
      const start = begin - trace_start;
      if (start >= 0 && start < span) links.push(linkTo("In the time line", zoomTo(start, length)));
      links.push(perfetto(command, trace_start + start - length, trace_start + start + 2 * length));
    } else {
      const lasts = (each) => each.end_ns - each.start_ns;
      const [longest] = rowsOf(line.figure).filter((each) => names.includes(each.name)).sort((a, b) => lasts(b) - lasts(a));
      if (longest) links.push(linkTo(`The longest in the time line: ${shortOf(longest.name)}`, zoomTo(longest.start_ns, lasts(longest))));
    }
  }
  return links;
}

// The command that opens an interval in Perfetto, in nanoseconds since the trace's start.
function perfetto(command, from, to) {
  const ms = (ns) => (ns / 1e6).toFixed(4).replace(/\.?0+$/, "");
  return copyable(`${command} --from ${ms(Math.max(0, from))} --to ${ms(to)}`);
}

// All of a row, whole, with its links.
function described(element, figure, row, isHere = false, columns = Object.keys(figure.columns)) {
  const list = made("dl");
  for (const column of columns.filter((each) => (row[each] ?? "") !== "")) {
    list.append(made("dt", {}, heading(column)), made("dd", {}, shown(column, row[column])));
  }
  const links = made("p", { className: "links" }, ...linksOf(element, figure, row, isHere));
  return made("div", { className: "described" }, list, links);
}
