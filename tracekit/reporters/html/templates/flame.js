// Lays out the frames of a flame graph: with library frames or waiting threads left out, inverted, inside one
// frame, and searched. Pure: rows in, rows out.
const flameLayout = (() => {
  const SHARE = 0.001, STEM = 4;

  const isCount = /count$|^allocations$/;
  const sumsOf = (row) => Object.keys(row).filter((name) => isCount.test(name) || /_(ns|bytes)$/.test(name));

  // The tree of frames below some roots, equal ones side by side made one. Those in `hidden` are left out, and
  // what they call stands below their caller.
  function tree(rows, inside, roots, hidden) {
    const top = { children: new Map() };
    const add = (around, at) => {
      const drawn = hidden.has(at) ? around : joined(around, rows[at]);
      for (const each of inside[at]) add(drawn, each);
    };
    for (const root of roots) add(top, root);
    return top;
  }

  function joined(around, row) {
    const key = `${row.kind} ${row.name}`;
    const found = around.children.get(key);
    if (!found) {
      const made = { row: { ...row }, children: new Map(), around };
      around.children.set(key, made);
      return made;
    }
    for (const name of sumsOf(row)) found.row[name] += row[name];
    return found;
  }

  // From the leaves up: each frame with its own time, below it those that called it.
  function inverted(top, length) {
    const turned = { children: new Map() };
    const visit = (node) => {
      const own = { ...node.row };
      for (const name of sumsOf(own)) {
        if (isCount.test(name)) continue;
        for (const child of node.children.values()) own[name] -= child.row[name];
        own[name] = Math.max(0, own[name]);
      }
      if (length(own) > 0) {
        let around = turned;
        for (let caller = node; caller.row; caller = caller.around) {
          around = joined(around, { ...own, name: caller.row.name, kind: caller.row.kind });
        }
      }
      for (const child of node.children.values()) visit(child);
    };
    for (const root of top.children.values()) visit(root);
    return turned;
  }

  const keyOf = (node) => {
    let sum = 5381;
    for (let each = node; each.row; each = each.around) for (const letter of each.row.name) sum = (sum * 33 + letter.charCodeAt(0)) % 4294967291;
    return sum.toString(36);
  };

  // Whether a thread launches nothing and waits nearly all of its time.
  function onlyWaits(rows, inside, root, waits) {
    let waited = 0;
    const visit = (at) => {
      if (waits.has(at)) waited += rows[at].host_ns;
      else inside[at].forEach(visit);
    };
    visit(root);
    return !rows[root].gpu_ns && waited > 0.9 * rows[root].host_ns;
  }

  return (figure, rows, asked) => {
    const { parents, library, waits, measures } = figure.control;
    const measure = measures.find(([name]) => name === asked.measure) ?? measures[0];
    const length = (row) => row[measure[1]] ?? 0;
    const inside = rows.map(() => []), all = [];
    parents.forEach((parent, at) => (parent < 0 ? all : inside[parent]).push(at));
    const isWait = new Set(waits);
    const active = waits.length ? all.filter((root) => !onlyWaits(rows, inside, root, isWait)) : all;
    const roots = asked.waiting || !active.length ? all : active;
    let top = tree(rows, inside, roots, new Set(asked.library ? [] : library));
    if (asked.inverted) top = inverted(top, length);
    const whole = [...top.children.values()].reduce((sum, node) => sum + length(node.row), 0);
    const laid = [];
    const words = (asked.find ?? "").toLowerCase();
    const isFound = (node) => words && node.row.name.toLowerCase().includes(words);
    let chosen = null, matched = 0, found = 0;
    const search = (node, inFound) => {
      if (asked.look && !chosen && keyOf(node) === asked.look) chosen = node;
      if (isFound(node) && length(node.row)) {
        found += 1;
        if (!inFound) matched += length(node.row);
      }
      for (const child of node.children.values()) search(child, inFound || isFound(node));
    };
    for (const node of top.children.values()) search(node, false);
    const place = (node, depth, begin, width) => {
      const row = { ...node.row, depth, begin, length: width, key: keyOf(node), of: measure[1], faint: words && !isFound(node) ? 1 : 0 };
      row.label = shortOf(row.name);
      laid.push(row);
      return row;
    };
    const below = (node, depth, begin, scale) => {
      const sorted = [...node.children.values()].sort((a, b) => length(b.row) - length(a.row));
      const sum = sorted.reduce((all, child) => all + length(child.row), 0);
      // Frames that overlap share the time of the one around them.
      const fitting = node.row && sum > length(node.row) ? scale * length(node.row) / sum : scale;
      let at = begin;
      for (const child of sorted) {
        const width = length(child.row) * fitting;
        if (width < SHARE * whole / 2) break;
        place(child, depth, at, width);
        below(child, depth + 1, at, fitting);
        at += width;
      }
    };
    if (chosen) {
      const path = [];
      for (let node = chosen; node.row; node = node.around) path.unshift(node);
      path.forEach((node, depth) => place(node, depth, 0, whole));
      below(chosen, path.length, 0, whole / length(chosen.row));
    } else {
      // A long path that nearly all share is one frame.
      let node = top;
      const stem = [];
      for (;;) {
        const [widest] = [...node.children.values()].sort((a, b) => length(b.row) - length(a.row));
        if (!widest || length(widest.row) < 0.98 * whole) break;
        stem.push(node = widest);
      }
      if (!asked.stem && stem.length > STEM && !stem.some(isFound)) {
        const [first, ...between] = stem, last = between.pop();
        place(first, 0, 0, whole);
        const row = place(between[0], 1, 0, whole);
        row.label = `${between.length} frames that nearly all share: click to see them`;
        row.name = between.map((each) => each.row.name).join(" > ");
        row.key = "stem";
        place(last, 2, 0, whole);
        below(last, 3, 0, whole / length(last.row));
      } else below(top, 0, 0, 1);
    }
    const deepest = laid.reduce((most, row) => Math.max(most, row.depth), 0);
    return { rows: laid, depth: deepest + 1, whole, matched, found, idle: all.length - active.length, of: measure[0] };
  };
})();
