// The figures of the page, and their values as text.
const data = JSON.parse(document.getElementById("data").textContent);

// The columns of a figure as rows.
function rowsOf(figure) {
  if (figure.rows) return figure.rows;
  const columns = Object.entries(figure.columns).map(([name, values]) =>
    [name, Array.isArray(values) ? values : values.at.map((at) => values.texts[at])]);
  const count = columns.length ? columns[0][1].length : 0;
  figure.rows = Array.from({ length: count }, (_, index) =>
    Object.fromEntries(columns.map(([name, values]) => [name, values[index]])));
  if (figure.short && figure.columns.name) for (const row of figure.rows) row.label = figure.short[row.name] ?? row.name;
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
