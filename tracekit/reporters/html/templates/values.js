// The figures of the page, and their values as text.
const data = JSON.parse(document.getElementById("data").textContent);
const shortNames = new Map(Object.entries(data.short).map(([at, short]) => [data.texts[at], short]));

// A name from the trace as the page shows it.
const shortOf = (name) => shortNames.get(name) ?? name;

// The texts of a column.
const textsOf = (figure, column) => [...new Set(figure.columns[column]?.at)].map((at) => data.texts[at]);

// The columns of a figure as rows.
function rowsOf(figure) {
  if (figure.rows) return figure.rows;
  const columns = Object.entries(figure.columns).map(([name, values]) =>
    [name, Array.isArray(values) ? values : values.at.map((at) => data.texts[at] ?? null)]);
  const count = columns.length ? columns[0][1].length : 0;
  figure.rows = Array.from({ length: count }, (_, index) =>
    Object.fromEntries(columns.map(([name, values]) => [name, values[index]])));
  if (figure.columns.name) for (const row of figure.rows) row.label = shortOf(row.name);
  return figure.rows;
}

function significant(value) {
  return String(Number(value.toPrecision(3)));
}

// A value in the largest of these units in which it is at least 1.
function inUnits(value, units, least) {
  const [unit, size] = units.find(([, each]) => Math.abs(value) >= each) ?? [least, 1];
  const isSmall = size > 1 && Math.abs(value) < 1e3 * size;
  return `${isSmall ? significant(value / size) : Math.round(value / size).toLocaleString("en-US")} ${unit}`;
}

const duration = (ns) => inUnits(ns, [["s", 1e9], ["ms", 1e6], ["us", 1e3]], "ns");
const bytes = (value) => inUnits(value, [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]], "B");

// Columns whose values are words of tracekit's own, and columns whose names do not say enough.
const WORDS = /^(activity|bottleneck|cause|class|color|idle_class|kind|main_cause|part|regime|severity|verdict|what_changed)$/;
const SAID = { untraced: "nothing recorded", memcpy: "copies", cpu_op: "operator", gpu: "GPU op", annotation: "range" };
const HEADINGS = {
  a_ns: "a", b_ns: "b", bytes_per_s: "bytes/s", change_ns: "change", copy_kind: "direction", cpu_op: "operator",
  cpu_op_id: "operator's event", covered_ns: "of it, GPU busy", ended_by: "ended by kernel", gap_ns: "length",
  gpu_idle_ns: "GPU idle", gpu_ns: "GPU time", gpu_ops: "GPU ops", host_ns: "host time", idle_class: "why idle",
  is_metadata: "only describes memory", live_bytes: "live", python_line: "Python line", python_lines: "Python lines",
  self_ns: "own time", self_per_call_ns: "own time per call", share_of_kernel_time: "of kernel time",
  share_of_roof: "of its roof", tflop_per_s: "TFLOP/s", gb_per_s: "GB/s", bus_gb_per_s: "bus GB/s", best_bus_gb_per_s: "best bus GB/s", algorithm_gb_per_s: "algorithm GB/s",
  trace_id: "trace", total_ns: "total time", device_id: "device", blocking_count: "blocking", start_ns: "start",
};

// A value as its column's name says it is.
function shown(column, value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return WORDS.test(column) ? (SAID[value] ?? value.replaceAll("_", " ")) : String(value);
  if (column.endsWith("_ns")) return duration(value);
  if (column.endsWith("bytes")) return bytes(value);
  if (column.endsWith("bytes_per_s")) return `${bytes(value)}/s`;
  if (column.startsWith("share") || column.endsWith("share")) return `${(100 * value).toFixed(1)} %`;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return significant(value);
}

function heading(column) {
  return HEADINGS[column] ?? column.replace(/_(ns|bytes)$/, "").replaceAll("_", " ").replace(/\bgpu\b/, "GPU");
}
