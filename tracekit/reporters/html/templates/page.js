"use strict";
// Draws the figures of the page from the rows that it holds. Charts are drawn when they come into
// view, and again when the reader changes between light and dark.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const views = new Map();
  let chosenStep = null;

  // The columns of a figure as rows.
  function rowsOf(figure) {
    if (figure.rows) return figure.rows;
    const columns = Object.entries(figure.columns).map(([name, values]) =>
      [name, Array.isArray(values) ? values : values.at.map((at) => values.texts[at])]);
    const count = columns.length ? columns[0][1].length : 0;
    figure.rows = Array.from({ length: count }, (_, index) =>
      Object.fromEntries(columns.map(([name, values]) => [name, values[index]])));
    return figure.rows;
  }

  function significant(value) {
    return String(Number(value.toPrecision(3)));
  }

  function duration(ns) {
    for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
      if (Math.abs(ns) >= size) {
        const shown = Math.abs(ns) < 1e3 * size ? significant(ns / size)
          : Math.round(ns / size).toLocaleString("en-US");
        return `${shown} ${unit}`;
      }
    }
    return `${Math.round(ns)} ns`;
  }

  function bytes(value) {
    for (const [unit, size] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
      if (Math.abs(value) >= size) return `${significant(value / size)} ${unit}`;
    }
    return `${Math.round(value)} B`;
  }

  // A value as its column's name says it is.
  function shown(column, value) {
    if (value === null || value === undefined) return "";
    if (typeof value !== "number") return String(value);
    if (column.endsWith("_ns")) return duration(value);
    if (column.endsWith("bytes")) return bytes(value);
    if (column.endsWith("bytes_per_s")) return `${bytes(value)}/s`;
    if (column.startsWith("share") || column.endsWith("share")) return `${(100 * value).toFixed(1)} %`;
    if (Number.isInteger(value)) return value.toLocaleString("en-US");
    return significant(value);
  }

  function heading(column) {
    return column.replace(/_(ns|bytes)$/, "").replaceAll("_", " ");
  }

  // ---- tables

  function plainTable(figure) {
    const columns = Object.keys(figure.columns);
    const table = document.createElement("table");
    table.className = "rows";
    const head = table.createTHead().insertRow();
    for (const column of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = heading(column);
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of rowsOf(figure)) {
      const line = body.insertRow();
      for (const column of columns) {
        const cell = line.insertCell();
        cell.textContent = figure.short?.[row[column]] ?? shown(column, row[column]);
        if (figure.short?.[row[column]]) cell.title = row[column];
        if (typeof row[column] === "number") cell.className = "number";
      }
    }
    return table;
  }

  function drawTable(element, figure) {
    const rows = rowsOf(figure);
    const columns = Object.keys(figure.columns);
    const table = document.createElement("table");
    table.className = "rows";
    const holder = document.createElement("div");
    holder.className = "scroll-x";
    holder.append(table);
    element.replaceChildren(holder);
    const isNumber = (column) => rows.some((row) => typeof row[column] === "number");
    const isShort = (column) => rows.every((row) => String(row[column] ?? "").length <= 24);
    const escaped = document.createElement("span");
    const text = (value) => {
      escaped.textContent = value;
      return escaped.innerHTML;
    };
    // Long text is cut to a line, and kernels have short names: the whole text is shown on hover, and in
    // the cell after a click.
    const display = (column, value) => {
      const short = figure.short?.[value];
      if (!short && (typeof value !== "string" || value.length <= 24)) return text(shown(column, value));
      return `<span title="${text(value).replaceAll('"', "&quot;")}">${text(short ?? value)}</span>`;
    };
    const shownTable = new DataTable(table, {
      data: rows,
      columns: columns.filter((column) => column !== "step" || figure.control.step !== "own").map((column) => ({
        data: column,
        title: text(heading(column)),
        className: isNumber(column) ? "number" : isShort(column) ? "short" : "long",
        render: (value, kind) => (kind === "display" ? display(column, value)
          : kind === "filter" ? shown(column, value) : value ?? (isNumber(column) ? -Infinity : "")),
      })),
      order: [],
      paging: rows.length > 10,
      pageLength: figure.control.page_length || 10,
      lengthMenu: [10, 50, 200],
      layout: {
        topStart: rows.length > 10 ? "pageLength" : null,
        topEnd: "search",
        bottomStart: rows.length > 10 ? "info" : null,
        bottomEnd: rows.length > 10 ? "paging" : null,
      },
      autoWidth: false,
      language: { search: "Search:", emptyTable: "Nothing to show" },
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

  // ---- charts

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const [text, line, ground] = ["--text", "--line", "--ground"].map((name) => style.getPropertyValue(name).trim());
    const font = style.fontFamily;
    const axis = { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, labelFont: font, titleFont: font, titleFontWeight: "normal", labelLimit: 220, labelOverlap: "parity", labelSeparation: 8 };
    return {
      background: ground,
      view: { stroke: null },
      font,
      axis,
      legend: { labelColor: text, titleColor: text, labelFont: font, titleFont: font, titleFontWeight: "normal", labelLimit: 260, symbolBaseFillColor: text, symbolBaseStrokeColor: text },
      header: { labelColor: text, titleColor: text },
      title: { color: text },
      rule: { color: text },
      text: { color: text, font },
    };
  }

  async function drawChart(element, figure) {
    const spec = { ...figure.spec, $schema: "https://vega.github.io/schema/vega-lite/v6.json", datasets: { rows: rowsOf(figure) }, autosize: { type: "fit-x", contains: "padding" } };
    element.replaceChildren();
    const drawn = await vegaEmbed(element, spec, {
      mode: "vega-lite",
      renderer: "svg",
      ast: true,
      actions: false,
      defaultStyle: false,
      config: theme(),
      tooltip: { disableDefaultStyle: true },
    });
    return drawn.view;
  }

  // Whether the chart has the parameter.
  function has(view, name) {
    return name in view.getState({ data: () => false, signals: () => true }).signals;
  }

  function set(view, name, value) {
    if (has(view, name)) view.signal(name, value).runAsync();
  }

  async function draw(element) {
    const name = element.dataset.figure;
    const figure = data.figures[name];
    const place = element.querySelector(".drawing");
    if (!figure.spec) {
      if (!views.has(name)) {
        const table = drawTable(place, figure);
        views.set(name, table);
        table.step(chosenStep);
      }
      return;
    }
    views.get(name)?.finalize?.();
    const view = await drawChart(place, figure);
    views.set(name, view);
    set(view, "chosen_step", chosenStep);
    const control = controls[figure.control.kind];
    if (control) control(element, figure, view);
  }

  // ---- what a reader can move

  const controls = {
    // A click on a step shows only it in all figures of the view.
    steps(element, figure, view) {
      view.addEventListener("click", (_, item) => {
        const step = item?.datum?.step;
        if (step) chooseStep(step === chosenStep ? null : step);
      });
      const place = element.querySelector(".controls");
      if (place.childElementCount) return;
      const label = document.createElement("label");
      label.textContent = "Step ";
      const select = document.createElement("select");
      select.className = "step";
      select.append(new Option("all", ""));
      for (const step of new Set(rowsOf(figure).map((row) => row.step))) select.append(new Option(step, step));
      select.addEventListener("change", () => chooseStep(select.value || null));
      label.append(select);
      place.append(label);
    },

    // Buttons that move and zoom the time axis, as the mouse does.
    zoom(element, figure, view) {
      const place = element.querySelector(".controls");
      const [low, high] = [0, figure.control.span];
      const name = "zoom_start_ns";
      const shownNow = () => views.get(element.dataset.figure).signal(name) || [low, high];
      if (place.childElementCount) return;
      const moves = {
        "Zoom in": ([a, b]) => [a + (b - a) / 4, b - (b - a) / 4],
        "Zoom out": ([a, b]) => [Math.max(low, a - (b - a) / 2), Math.min(high, b + (b - a) / 2)],
        "Earlier": ([a, b]) => [a - (b - a) / 4, b - (b - a) / 4],
        "Later": ([a, b]) => [a + (b - a) / 4, b + (b - a) / 4],
        "All": () => [low, high],
      };
      for (const [title, move] of Object.entries(moves)) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = title;
        button.addEventListener("click", () => set(views.get(element.dataset.figure), name, move(shownNow())));
        place.append(button);
      }
    },

    // A choice of the measure; a click on a frame looks into it.
    flame(element, figure, view) {
      const place = element.querySelector(".controls");
      const current = () => views.get(element.dataset.figure);
      const look = (from, to) => {
        set(current(), "from", from);
        set(current(), "to", to);
      };
      view.addEventListener("click", (_, item) => {
        const row = item?.datum;
        if (row?.right > row?.left) look(row.begin, row.end);
      });
      if (place.childElementCount) return;
      if (figure.control.measures > 1) {
        const label = document.createElement("label");
        const select = document.createElement("select");
        select.append(new Option("host time", "host"), new Option("GPU time launched", "gpu"));
        select.addEventListener("change", () => {
          look(0, 0);
          set(current(), "measure", select.value);
        });
        label.append("Width ", select);
        place.append(label);
      }
      const all = document.createElement("button");
      all.type = "button";
      all.textContent = "Show all";
      all.addEventListener("click", () => look(0, 0));
      place.append(all);
    },

    // Sliders over the speeds that were replayed.
    speeds(element, figure, view) {
      const rows = rowsOf(figure);
      const place = element.querySelector(".controls");
      const sides = ["host", "device", "network"].filter((side) => new Set(rows.map((row) => row[side])).size > 1);
      if (!place.childElementCount) {
        for (const side of sides) {
          const speeds = [...new Set(rows.map((row) => row[side]))].sort((a, b) => a - b);
          const label = document.createElement("label");
          const slider = document.createElement("input");
          Object.assign(slider, { type: "range", min: 0, max: speeds.length - 1, step: 1, value: speeds.indexOf(1), name: side });
          const value = document.createElement("output");
          label.append(`${side} speed`, slider, value);
          place.append(label);
          slider.addEventListener("input", () => move());
          slider.speeds = speeds;
          slider.shown = value;
        }
        const result = document.createElement("output");
        result.className = "result";
        place.append(result);
      }
      const move = () => {
        const at = { host: 1, device: 1, network: 1 };
        for (const slider of place.querySelectorAll("input")) {
          at[slider.name] = slider.speeds[slider.value];
          slider.shown.textContent = `${at[slider.name]}x`;
        }
        const found = rows.find((row) => sides.every((side) => row[side] === at[side]));
        const [now] = rows.filter((row) => row.host === 1 && row.device === 1 && row.network === 1);
        place.querySelector(".result").textContent =
          `${duration(found.window_ns)} (now ${duration(now.window_ns)}), ${found.colour}, held up by the ${found.bound_by}`;
        // The device's change holds for communication, too.
        const network = at.network === at.device || !sides.includes("network") ? 1 : at.device / at.network;
        const factors = [["host", 1 / at.host], ["device", 1 / at.device], ["communication", network]];
        const changes = factors.filter(([, factor]) => factor !== 1).map(([what, factor]) => `'${what}*${factor}'`);
        const command = [figure.control.command, "steady", ...changes].join(" ");
        element.querySelector(".source").textContent = command;
        element.querySelector(".copy").dataset.copy = command;
        const current = views.get(element.dataset.figure);
        for (const [side, speed] of Object.entries(at)) set(current, side, speed);
      };
      move();
    },
  };

  function chooseStep(step) {
    chosenStep = step;
    for (const select of document.querySelectorAll("select.step")) select.value = step ?? "";
    for (const view of views.values()) {
      if (view.step) view.step(step);
      else set(view, "chosen_step", step);
    }
  }

  document.addEventListener("click", (event) => {
    const cell = event.target.closest("table.rows td.long");
    if (!cell || String(getSelection())) return;
    const name = cell.querySelector("span[title]");
    if (!name) return;
    const before = name.textContent;
    name.textContent = name.title;
    name.title = before;
    cell.classList.toggle("whole");
  });

  // A section is where its link leads only once all charts are drawn.
  async function reach(hash) {
    const section = hash && document.getElementById(decodeURIComponent(hash.slice(1)));
    if (!section) return;
    const waiting = elements.filter((element) => !views.has(element.dataset.figure) && !element.closest(".view").hidden);
    for (const element of waiting) seen.unobserve(element);
    await Promise.all(waiting.map(draw));
    section.scrollIntoView();
  }
  addEventListener("hashchange", () => reach(location.hash));

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy) {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }
    if (button.dataset.view) {
      for (const other of document.querySelectorAll("nav.views button")) {
        other.setAttribute("aria-pressed", String(other.dataset.view === button.dataset.view));
      }
      for (const view of document.querySelectorAll(".view")) view.hidden = view.id !== button.dataset.view;
      scrollTo(0, 0);
    }
  });

  // The event does not bubble.
  document.addEventListener("toggle", (event) => {
    const details = event.target;
    if (!details.matches("details.data") || !details.open) return;
    const figure = data.figures[details.closest("figure").dataset.figure];
    details.querySelector(".scroll").replaceChildren(plainTable(figure));
  }, true);

  const elements = [...document.querySelectorAll("[data-figure]")];
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "400px" });
  for (const element of elements) seen.observe(element);
  reach(location.hash);

  const redraw = () => {
    for (const element of elements) {
      if (views.has(element.dataset.figure) && data.figures[element.dataset.figure].spec) draw(element);
    }
  };
  dark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    for (const element of elements) if (!views.has(element.dataset.figure)) draw(element);
  });
})();
