// Charts, and what a reader can move in them.
// ---- charts

function theme(width) {
  const style = getComputedStyle(document.documentElement);
  const [text, line, ground] = ["--text", "--line", "--ground"].map((name) => style.getPropertyValue(name).trim());
  const font = style.fontFamily;
  const axis = { labelColor: text, titleColor: text, gridColor: line, domainColor: line, tickColor: line, labelFont: font, titleFont: font, titleFontWeight: "normal", labelLimit: Math.min(260, 0.38 * width), labelOverlap: "parity", labelSeparation: 8 };
  return {
    background: ground,
    view: { stroke: null },
    font,
    axis,
    legend: { columns: Math.max(2, Math.floor((width - 120) / 145)), labelColor: text, titleColor: text, labelFont: font, titleFont: font, titleFontWeight: "normal", labelLimit: 260, symbolBaseFillColor: text, symbolBaseStrokeColor: text },
    header: { labelColor: text, titleColor: text },
    title: { color: text },
    rule: { color: text },
    text: { color: text, font },
  };
}

// The lines of a tooltip that say something.
function tooltip(value, sanitize) {
  if (typeof value !== "object") return sanitize(String(value));
  const lines = Object.entries(value).filter(([, each]) => !["", "null", "undefined", "NaN"].includes(String(each ?? "")));
  return `<table>${lines.map(([name, each]) => `<tr><td class="key">${sanitize(name)}</td><td>${sanitize(String(each))}</td></tr>`).join("")}</table>`;
}

async function drawChart(element, figure) {
  const spec = { ...figure.spec, $schema: "https://vega.github.io/schema/vega-lite/v6.json", datasets: { rows: rowsOf(figure) }, autosize: { type: "fit-x", contains: "padding" } };
  const place = made("div", { className: "chart" });
  element.replaceChildren(place);
  const drawn = await vegaEmbed(place, spec, {
    mode: "vega-lite",
    renderer: "svg",
    ast: true,
    actions: false,
    defaultStyle: false,
    config: theme(element.clientWidth),
    tooltip: { disableDefaultStyle: true, formatTooltip: tooltip },
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
  const control = controls[figure.control.kind];
  if (!place) {
    // Its sentence says all that a chart would.
    if (!views.has(name)) {
      views.set(name, {});
      if (figure.control.kind === "speeds") control.ready(element, figure);
    }
    return;
  }
  if (!figure.spec) {
    if (!views.has(name)) {
      const table = drawTable(place, figure);
      views.set(name, table);
      table.step(chosenStep);
    }
    return;
  }
  views.get(name)?.finalize?.();
  views.delete(name);
  const drawing = element.drawing = Symbol("the last that was begun");
  const view = await drawChart(place, control?.laid?.(element, figure, choicesOf(name)) ?? figure);
  if (element.drawing !== drawing) return view.finalize();
  views.set(name, view);
  set(view, "chosen_step", chosenStep);
  control?.ready?.(element, figure, view);
  view.restore?.(choicesOf(name));
  view.choices = JSON.stringify(choicesOf(name));
}

// ---- what a reader can move

// A list to choose from, of titles and values.
function choiceOf(properties, options, action) {
  const select = made("select", properties, ...options.map(([title, value]) => new Option(title, value)));
  select.addEventListener("change", () => action(select.value));
  return select;
}

const controls = {
  // A click on a step shows only it in all figures of the view.
  steps: { ready(element, figure, view) {
    view.addEventListener("click", (_, item) => {
      const step = item?.datum?.step;
      if (step) remember({ step: step === chosenStep ? null : step });
    });
    const place = element.querySelector(".controls");
    if (place.childElementCount) return;
    const steps = [...new Set(rowsOf(figure).map((row) => row.step))].map((step) => [step, step]);
    const select = choiceOf({ className: "step" }, [["all", ""], ...steps], (step) => remember({ step }));
    select.value = chosenStep ?? "";
    place.append(made("label", {}, "Step ", select));
  } },

  // Buttons that move and zoom the time axis, as the mouse does; a click on a piece tells all of it.
  zoom: { ready(element, figure, view) {
    const name = element.dataset.figure, signal = "zoom_start_ns";
    const { span, trace_start, command } = figure.control;
    const all = [0, span];
    const shownNow = () => views.get(name).signal(signal) || all;
    let here = element.querySelector(".here");
    const tell = (row) => {
      here.replaceChildren(row ? described(element, figure, row, true, ["lane", "name", "activity", "start_ns", "pieces"]) : "");
      const [from, to] = row ? [row.start_ns, row.end_ns] : shownNow();
      const told = row ? `It lasts ${duration(to - from)}. In Perfetto: ` : "What is shown here, in Perfetto: ";
      here.append(made("p", {}, told, perfetto(command, trace_start + from, trace_start + to)));
    };
    if (!here) {
      here = made("div", { className: "here", ariaLive: "polite" });
      element.querySelector(".drawing").after(here);
    }
    view.addEventListener("click", (_, item) => tell(item?.datum?.lane && item.datum));
    let waiting;
    view.addSignalListener(signal, (_, range) => {
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        const zoom = range && !(range[0] === 0 && range[1] === span) ? range.map(Math.round).join("-") : null;
        if ((choicesOf(name).zoom ?? null) !== zoom) choose(name, { zoom }, { isSmall: true });
        tell();
      }, 300);
    });
    view.restore = ({ zoom }) => {
      const range = zoom ? zoom.match(/-?\d+/g).map((each, at) => (at ? Math.abs(each) : Number(each))) : null;
      if (String(range ?? all) !== String(shownNow().map(Math.round))) view.signal(signal, range ?? all).runAsync();
    };
    tell();
    const place = element.querySelector(".controls");
    if (place.childElementCount) return;
    const moves = {
      "Zoom in": ([a, b]) => [a + (b - a) / 4, b - (b - a) / 4],
      "Zoom out": ([a, b]) => [Math.max(0, a - (b - a) / 2), Math.min(span, b + (b - a) / 2)],
      "Earlier": ([a, b]) => [a - (b - a) / 4, b - (b - a) / 4],
      "Later": ([a, b]) => [a + (b - a) / 4, b + (b - a) / 4],
      "All": () => all,
    };
    for (const [title, move] of Object.entries(moves)) {
      place.append(pressed(title, () => set(views.get(name), signal, move(shownNow()))));
    }
  } },

  // Search, measure, direction and what is hidden; a click on a frame looks into it.
  flame: {
    laid(element, figure, asked) {
      const found = flameLayout(figure, rowsOf(figure), asked);
      element.flame = found;
      return { ...figure, rows: found.rows, spec: { ...figure.spec, height: 17 * found.depth } };
    },
    ready(element, figure, view) {
      const name = element.dataset.figure, { control } = figure;
      view.addEventListener("click", (_, item) => {
        const row = item?.datum;
        if (row?.key === "stem") choose(name, { stem: 1 });
        else if (row?.key) choose(name, { look: row.key });
      });
      view.restore = (asked) => {
        if (JSON.stringify(asked) !== view.drawn) draw(element);
      };
      view.drawn = JSON.stringify(choicesOf(name));
      const place = element.querySelector(".controls");
      const asked = choicesOf(name);
      if (!place.childElementCount) {
        const search = made("input", { type: "search", name: "find" });
        let waiting;
        search.addEventListener("input", () => {
          clearTimeout(waiting);
          waiting = setTimeout(() => choose(name, { find: search.value }, { isSmall: true }), 250);
        });
        place.append(made("label", {}, "Find", search));
        if (control.measures.length > 1) {
          const measures = control.measures.map(([title]) => [title, title]);
          const choice = choiceOf({ name: "measure" }, measures, (measure) => choose(name, { measure, look: null }));
          place.append(made("label", {}, "Width", choice));
        }
        const box = (title, key) => {
          const input = made("input", { type: "checkbox", name: key });
          input.addEventListener("change", () => choose(name, { [key]: input.checked && 1, look: null }));
          place.append(made("label", {}, input, title));
        };
        box("Inverted: callers below", "inverted");
        if (control.library.length) box("Library frames", "library");
        if (element.flame.idle) box("Threads that only wait", "waiting");
        place.append(pressed("Show all", () => choose(name, { look: null, stem: null, find: null })), made("output"));
      }
      for (const input of place.querySelectorAll("input, select")) {
        if (input.type === "checkbox") input.checked = Boolean(asked[input.name]);
        else if (input !== document.activeElement) input.value = asked[input.name] ?? (input.name === "measure" ? control.measures[0][0] : "");
      }
      const { matched, whole, found, of } = element.flame;
      place.querySelector("output").textContent = asked.find ? `${found.toLocaleString("en-US")} found: ${whole ? (100 * matched / whole).toFixed(1) : 0} % of the ${of}` : "";
    },
  },

  // Sliders over the speeds that were replayed.
  speeds: { ready(element, figure) {
    const rows = rowsOf(figure);
    const place = element.querySelector(".controls");
    const sides = ["host", "device", "network"].filter((side) => new Set(rows.map((row) => row[side])).size > 1);
    if (!place.childElementCount) {
      for (const side of sides) {
        const speeds = [...new Set(rows.map((row) => row[side]))].sort((a, b) => a - b);
        const range = { type: "range", min: 0, max: speeds.length - 1, step: 1, value: speeds.indexOf(1), name: side };
        const slider = made("input", { ...range, speeds, shown: made("output") });
        slider.addEventListener("input", () => move());
        place.append(made("label", {}, `${side} speed`, slider, slider.shown));
      }
      place.append(made("output", { className: "result" }));
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
        `${duration(found.window_ns)} (now ${duration(now.window_ns)}), held up by the ${found.bound_by}`;
      // The device's change holds for communication, too.
      const network = at.network === at.device || !sides.includes("network") ? 1 : at.device / at.network;
      const factors = [["host", 1 / at.host], ["device", 1 / at.device], ["communication", network]];
      const changes = factors.filter(([, factor]) => factor !== 1).map(([what, factor]) => `'${what}*${factor}'`);
      const command = [figure.control.command, "steady", ...changes].join(" ");
      element.querySelector(".source").textContent = command;
      element.querySelector(".copy").dataset.copy = command;
      const current = views.get(element.dataset.figure);
      if (figure.spec) for (const [side, speed] of Object.entries(at)) set(current, side, speed);
    };
    move();
  } },
};
