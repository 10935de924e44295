// Draws the figures of the page from the rows that it holds. Charts are drawn when they come into
// view, and again when the reader changes between light and dark.
const dark = matchMedia("(prefers-color-scheme: dark)");
const views = new Map();
let chosenStep = null;

// ---- the address: #PLACE?KEY=VALUE..., so that Back and a shared link show the same

function address() {
  const [place, asked = ""] = location.hash.slice(1).split("?");
  return { place: decodeURIComponent(place), asked: new URLSearchParams(asked) };
}

// What the address says of a figure.
function choicesOf(name) {
  const own = [...address().asked].filter(([key]) => key.startsWith(`${name}.`));
  return Object.fromEntries(own.map(([key, value]) => [key.slice(name.length + 1), value]));
}

// Changes the address; `isSmall` changes are no steps for Back.
function remember(changes, { place = address().place, isSmall = false } = {}) {
  const { asked } = address();
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === "" || value === false) asked.delete(key);
    else asked.set(key, value);
  }
  const hash = `#${place}${String(asked) && `?${asked}`}`;
  if (hash === (location.hash || "#")) return show();
  history[isSmall ? "replaceState" : "pushState"](null, "", hash);
  show();
}

const choose = (name, changes, options) => remember(
  Object.fromEntries(Object.entries(changes).map(([key, value]) => [`${name}.${key}`, value])), options);

const visible = () => document.querySelector("main:not([hidden])");
const shownState = {};

// Shows what the address says.
async function show() {
  const { place, asked } = address();
  const target = place ? document.getElementById(place) : null;
  const view = target?.closest("main.view") ?? document.getElementById(asked.get("view")) ?? document.querySelector("main.view");
  if (view !== visible()) {
    for (const each of document.querySelectorAll("main.view")) each.hidden = each !== view;
    if (!place) scrollTo(0, 0);
  }
  for (const button of document.querySelectorAll("nav.views button")) {
    button.setAttribute("aria-pressed", String(button.dataset.view === view.id));
  }
  const step = asked.get("step");
  if (step !== chosenStep) showStep(step);
  for (const [name, drawn] of views) {
    const choices = JSON.stringify(choicesOf(name));
    if (drawn.choices !== choices && drawn.restore) drawn.restore(choicesOf(name));
    drawn.choices = choices;
  }
  if (place !== shownState.place) {
    shownState.place = place;
    await reach(target);
  }
}

function showStep(step) {
  chosenStep = step;
  for (const select of document.querySelectorAll("select.step")) select.value = step ?? "";
  for (const view of views.values()) {
    if (view.step) view.step(step);
    else if (view.getState) set(view, "chosen_step", step);
  }
}

// A section is where its link leads only once all charts are drawn.
async function reach(section) {
  if (!section) return;
  const waiting = elements.filter((element) => !views.has(element.dataset.figure) && !element.closest(".view").hidden);
  for (const element of waiting) seen.unobserve(element);
  await Promise.all(waiting.map(draw));
  section.scrollIntoView();
}
addEventListener("popstate", show);
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  shownState.place = null;
  remember({}, { place: decodeURIComponent(link.hash.slice(1)) });
});

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
  if (button.dataset.view) remember({ view: button.dataset.view, step: null }, { place: "" });
});

// The event does not bubble.
document.addEventListener("toggle", (event) => {
  const details = event.target;
  if (!details.matches("details.data") || !details.open) return;
  const figure = data.figures[details.closest("figure").dataset.figure];
  drawTable(details.querySelector(".scroll"), figure);
}, true);

// Advice about a place leads there.
for (const links of document.querySelectorAll("[data-where]")) {
  links.append(...linksOf(links, {}, { where: links.dataset.where }));
}

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
show();

const redraw = () => {
  for (const element of elements) {
    if (views.has(element.dataset.figure) && data.figures[element.dataset.figure].spec) draw(element);
  }
};
dark.addEventListener("change", redraw);
addEventListener("beforeprint", () => {
  for (const element of elements) if (!views.has(element.dataset.figure)) draw(element);
});
