(function () {
  const {$, make, svg, memory, isNumber, short, fixed, duration, niceTicks, logTicks, nearest, startTheme, follow} = Page;
  const data = JSON.parse(document.getElementById("run-data").textContent);
  const metric = data.metric, axes = data.axes, points = data.points;  // points: best first
  const running = data.state === "running";
  const COLORS = 10;
  const valueOf = (p) => (p.state === "finished" ? p[metric.key] : null);

  // ---- head -----------------------------------------------------------------------------------------
  $("title").textContent = data.title;
  $("subtitle").textContent = data.recipe + " · " + axes.map((a) => a.title + " (" + a.labels.length + ")").join(" × ") +
      " · by " + metric.title;
  function showState() {
    const age = (Date.now() - data.written_ms) / 1000;
    $("state").className = "pill " + data.state;
    $("state").textContent = data.state;
    $("footer").textContent = "Written " + new Date(data.written_ms).toLocaleString() +
        (running ? ", " + duration(Math.max(0, age)) + " ago, after the last point that ended" : "") +
        ". All numbers: results.json and results.csv beside this page; each point is a run folder below points/.";
  }
  showState();
  setInterval(showState, 1000);
  const ended = points.filter((p) => p.state === "finished" || p.state === "failed");
  const failed = points.filter((p) => p.state === "failed");
  $("fill").style.width = 100 * ended.length / points.length + "%";
  const progress = $("progress-text");
  progress.append(make("b", "", String(ended.length)), " of " + points.length + " points");
  if (running && data.eta_s >= 0) progress.append(" · about ", make("b", "", duration(data.eta_s)), " left");

  function tile(name, value, note, mood) {
    const card = make("div", "card tile");
    card.append(make("div", "name", name), make("div", "value", value), make("div", "note" + (mood ? " " + mood : ""), note || "\u00a0"));
    $("tiles").append(card);
  }
  const measured = points.filter((p) => isNumber(valueOf(p)));
  const best = measured[0];
  if (best) {
    tile("Best " + metric.title, short(valueOf(best)), best.name, "good");
    const worst = measured[measured.length - 1];
    if (worst !== best) tile("Worst that finished", short(valueOf(worst)), worst.name);
  }
  tile("Finished", String(ended.length - failed.length), "of " + points.length);
  if (failed.length) tile("Failed", String(failed.length), failed[0].name + (failed.length > 1 ? " ..." : ""), "bad");
  tile("Time in steps", duration(points.reduce((s, p) => s + p.seconds, 0)), "all points");

  // ---- scales ---------------------------------------------------------------------------------------
  // A scale has place(value) and ticks [value, label].
  function linear(low, high, from, to, count) {
    return {place: (v) => from + (v - low) / (high - low) * (to - from), ticks: niceTicks(low, high, count).map((v) => [v, short(v)])};
  }
  function logarithmic(low, high, from, to) {
    return {place: (v) => from + Math.log(Math.max(v, low) / low) / Math.log(high / low) * (to - from),
      ticks: logTicks(low, high).map((v) => [v, short(v)])};
  }
  function valueScale(values, useLog, from, to) {
    let low = Math.min(...values), high = Math.max(...values);
    const positive = Math.min(...values.filter((v) => v > 0));
    if (useLog && isFinite(positive)) return logarithmic(positive / 1.05, high * 1.05, from, to);
    const pad = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    return linear(low - pad, high + pad, from, to, 6);
  }
  // An axis whose numbers span a decade or more is drawn by their logarithms; one of words by their order.
  function axisScale(axis, from, to) {
    const n = axis.numbers;
    const inset = (to - from) * 0.05;
    if (n.length && new Set(n).size === n.length) {
      const low = Math.min(...n), high = Math.max(...n);
      const ticks = n.map((v, i) => [v, axis.labels[i]]);
      if (low > 0 && high / low >= 7.9) {
        const s = logarithmic(low, high, from + inset, to - inset);
        return {place: (i) => s.place(n[i]), ticks};
      }
      if (high > low) {
        const s = linear(low, high, from + inset, to - inset, 4);
        return {place: (i) => s.place(n[i]), ticks};
      }
    }
    const step = (to - from) / axis.labels.length;
    return {place: (i) => from + (i + 0.5) * step, ticks: axis.labels.map((label, i) => [i, label])};
  }
  function frame(box, height, left) {
    const width = Math.max(260, box.clientWidth);
    const root = svg("svg", {viewBox: "0 0 " + width + " " + height, height: height, role: "img"});
    box.replaceChildren(root);
    return {root, width, height, left: left, right: width - 10, top: 10, bottom: height - 24};
  }
  function gridLines(f, scale) {
    for (const [v, label] of scale.ticks) {
      const y = scale.place(v);
      f.root.append(svg("line", {class: "grid", x1: f.left, x2: f.right, y1: y, y2: y}));
      const text = svg("text", {x: f.left - 8, y: y + 4, "text-anchor": "end"});
      text.textContent = label;
      f.root.append(text);
    }
  }
  function logButton(name, draw) {
    const state = {on: memory.get("log-" + name) === "1"};
    const button = make("button", "log", "log");
    button.type = "button";
    button.setAttribute("aria-pressed", String(state.on));
    button.onclick = () => {
      state.on = !state.on;
      memory.set("log-" + name, state.on ? "1" : "0");
      button.setAttribute("aria-pressed", String(state.on));
      draw();
    };
    return [state, button];
  }
  const key = (color, text) => {
    const element = make("span", "key"), dot = make("i");
    dot.style.background = color;
    element.append(dot, text);
    return element;
  };
  const color = (i) => "var(--c" + (i % COLORS) + ")";
  const draws = [];

  // ---- the metric over each axis --------------------------------------------------------------------
  const isSeed = (axis) => axis.keys.length === 1 && axis.keys[0] === "seed";
  const seedAxis = axes.findIndex(isSeed);
  let shownAxes = axes.map((a, i) => i).filter((i) => axes[i].labels.length > 1 && i !== seedAxis);
  if (!shownAxes.length) shownAxes = axes.map((a, i) => i);
  function axisChart(a) {
    const axis = axes[a];
    // A line is one choice of all other axes; seeds are averaged, unless they are the axis itself.
    const others = axes.map((x, i) => i).filter((i) => i !== a && i !== seedAxis && axes[i].labels.length > 1);
    const lines = new Map();
    for (const p of points) {
      const name = others.map((i) => axes[i].title + " " + axes[i].labels[p.at[i]]).join(", ");
      const order = others.map((i) => p.at[i]);
      if (!lines.has(name)) lines.set(name, {name, order, spots: new Map()});
      const spots = lines.get(name).spots;
      if (!spots.has(p.at[a])) spots.set(p.at[a], {values: [], points: [], failed: 0});
      const spot = spots.get(p.at[a]);
      spot.points.push(p);
      if (isNumber(valueOf(p))) spot.values.push(valueOf(p));
      if (p.state === "failed") ++spot.failed;
    }
    const sorted = [...lines.values()].sort((x, y) => {
      for (let i = 0; i < x.order.length; ++i) if (x.order[i] !== y.order[i]) return x.order[i] - y.order[i];
      return 0;
    });
    const card = make("div", "card chart" + (shownAxes.length === 1 ? " wide" : "")), top = make("div", "top");
    top.append(make("h2", "", metric.title[0].toUpperCase() + metric.title.slice(1) + " over " + axis.title));
    const at = make("span", "at");
    const [log, button] = logButton("axis-" + axis.title, () => draw());
    top.append(at, button);
    const keys = make("div", "keys");
    if (sorted.length > 1) sorted.slice(0, 12).forEach((line, i) => keys.append(key(color(i), line.name)));
    if (sorted.length > 12) keys.append(make("span", "key", "and " + (sorted.length - 12) + " more"));
    const box = make("div"), note = make("div", "note");
    card.append(top, keys, box, note);
    $("axes").append(card);
    function draw() {
      const all = sorted.flatMap((line) => [...line.spots.values()].flatMap((s) => s.values));
      if (!all.length) { box.replaceChildren(make("div", "empty", "nothing yet")); return; }
      const f = frame(box, 240, 56);
      const Y = valueScale(all, log.on, f.bottom, f.top + 8);
      const X = axisScale(axis, f.left, f.right);
      gridLines(f, Y);
      let lastEnd = -Infinity;
      axis.labels.map((label, i) => [X.place(i), label]).sort((x, y) => x[0] - y[0]).forEach(([x, label]) => {
        const size = 7 * label.length;
        if (x - size / 2 < lastEnd + 4) return;  // would touch its neighbour
        lastEnd = x + size / 2;
        const text = svg("text", {x: x, y: f.height - 6, "text-anchor": "middle"});
        text.textContent = label;
        f.root.append(text);
      });
      const spots = [];
      sorted.forEach((line, i) => {
        const places = [...line.spots.entries()].map(([at, spot]) => ({x: X.place(at), spot})).sort((p, q) => p.x - q.x);
        let path = "";
        for (const {x, spot} of places) {
          if (spot.failed) {
            const cross = svg("path", {d: "M" + (x - 4) + " " + (f.top - 4) + "l8 8m0 -8l-8 8", stroke: color(i), "stroke-width": 2});
            const title = svg("title", {});
            title.textContent = spot.points.filter((p) => p.state === "failed").map((p) => p.name + ": " + p.error).join("\n");
            cross.append(title);
            f.root.append(cross);
          }
          if (!spot.values.length) continue;
          const mean = spot.values.reduce((s, v) => s + v, 0) / spot.values.length;
          const y = Y.place(mean);
          path += (path ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
          if (spot.values.length > 1) {
            f.root.append(svg("line", {x1: x, x2: x, y1: Y.place(Math.min(...spot.values)), y2: Y.place(Math.max(...spot.values)),
              stroke: color(i), "stroke-width": 1.2, opacity: 0.6}));
          }
          spots.push({x, y, mean, spot, line, color: color(i)});
        }
        f.root.append(svg("path", {d: path, fill: "none", stroke: color(i), "stroke-width": 1.8, "stroke-linejoin": "round"}));
      });
      for (const s of spots) {
        f.root.append(svg("circle", {cx: s.x, cy: s.y, r: s.spot.points.includes(best) ? 5.5 : 3.5, fill: s.color,
          stroke: s.spot.points.includes(best) ? "var(--ink)" : "none", "stroke-width": 1.5}));
      }
      const mark = svg("circle", {r: 7, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5, visibility: "hidden"});
      f.root.append(mark);
      f.root.addEventListener("pointermove", (event) => {
        const rect = f.root.getBoundingClientRect();
        const x = (event.clientX - rect.left) * f.width / rect.width, y = (event.clientY - rect.top) * f.height / rect.height;
        const s = spots.reduce((b, c) => (Math.hypot(c.x - x, c.y - y) < Math.hypot(b.x - x, b.y - y) ? c : b));
        mark.setAttribute("cx", s.x); mark.setAttribute("cy", s.y); mark.setAttribute("visibility", "visible");
        const seeds = s.spot.values.length;
        at.textContent = short(s.mean) + (seeds > 1 ? " (" + seeds + " seeds, " + short(Math.min(...s.spot.values)) + " to " +
            short(Math.max(...s.spot.values)) + ")" : "");
        note.textContent = s.spot.points.length === 1 ? s.spot.points[0].name
          : axis.title + " " + axis.labels[s.spot.points[0].at[a]] + (s.line.name ? ", " + s.line.name : "");
        point(s.spot.points);
      });
      f.root.addEventListener("pointerleave", () => {
        mark.setAttribute("visibility", "hidden");
        at.textContent = note.textContent = "";
        point(null);
      });
    }
    draws.push(draw);
  }

  // ---- loss curves ----------------------------------------------------------------------------------
  let pointed = null;  // points that the reader looks at
  let colorAxis = Math.max(0, axes.findIndex((a) => a.title === memory.get("color")));
  if (axes[colorAxis].labels.length < 2) colorAxis = Math.max(0, axes.findIndex((a) => a.labels.length > 1));
  const colorOf = (p) => color(p.at[colorAxis]);
  const curvesOf = (p, kind) => (kind === "training" ? p.losses : {steps: p.evals.map((e) => e[0]), mean: p.evals.map((e) => e[1])});
  function curvesChart() {
    const card = $("curves"), top = make("div", "top"), keys = make("div", "keys"), box = make("div"), note = make("div", "note");
    const hasEvals = points.some((p) => p.evals.length > 1);
    let kind = hasEvals && memory.get("curves") === "held-out" ? "held-out" : "training";
    const at = make("span", "at");
    top.append(make("h2", "", "Loss"));
    const picks = [];
    const pick = (text, isOn, choose) => {
      const button = make("button", "pick", text);
      button.type = "button";
      button.onclick = () => { choose(); draw(); fillTable(); };
      picks.push(() => button.setAttribute("aria-pressed", String(isOn())));
      top.append(button);
    };
    if (hasEvals) {
      for (const name of ["training", "held-out"]) {
        pick(name, () => kind === name, () => { kind = name; memory.set("curves", name); });
      }
    }
    const several = axes.map((a, i) => i).filter((i) => axes[i].labels.length > 1);
    if (several.length > 1) {
      top.append(make("span", "key", "colour by"));
      for (const i of several) {
        pick(axes[i].title, () => colorAxis === i, () => { colorAxis = i; memory.set("color", axes[i].title); });
      }
    }
    const [log, button] = logButton("curves", () => draw());
    top.append(at, button);
    card.append(top, keys, box, note);
    let paths = [];
    function draw() {
      picks.forEach((show) => show());
      keys.replaceChildren(...axes[colorAxis].labels.slice(0, 16).map((label, i) => key(color(i), axes[colorAxis].title + " " + label)));
      const drawn = points.filter((p) => curvesOf(p, kind).steps.length);
      const values = drawn.flatMap((p) => curvesOf(p, kind).mean).filter(isNumber);
      paths = [];
      if (!values.length) { box.replaceChildren(make("div", "empty", "nothing yet")); return; }
      const f = frame(box, 320, 56);
      const steps = drawn.flatMap((p) => [curvesOf(p, kind).steps[0], curvesOf(p, kind).steps[curvesOf(p, kind).steps.length - 1]]);
      const x0 = Math.min(...steps), x1 = Math.max(...steps, x0 + 1);
      const X = linear(x0, x1, f.left, f.right, Math.floor(f.width / 110));
      const Y = valueScale(values, log.on, f.bottom, f.top);
      gridLines(f, Y);
      for (const [v] of X.ticks) {
        if (v !== Math.round(v)) continue;
        const text = svg("text", {x: Math.min(f.right - 4, Math.max(f.left + 4, X.place(v))), y: f.height - 6, "text-anchor": "middle"});
        text.textContent = v.toLocaleString();
        f.root.append(text);
      }
      for (const p of drawn.slice().reverse()) {  // the best on top
        const c = curvesOf(p, kind);
        let d = "", pen = false;
        c.mean.forEach((v, i) => {
          if (!isNumber(v)) { pen = false; return; }
          d += (pen ? "L" : "M") + X.place(c.steps[i]).toFixed(1) + " " + Y.place(v).toFixed(1);
          pen = true;
        });
        const path = svg("path", {d: d, fill: "none", stroke: colorOf(p), "stroke-linejoin": "round"});
        f.root.append(path);
        paths.push({path, p, c});
      }
      emphasise();
      f.root.addEventListener("pointermove", (event) => {
        const rect = f.root.getBoundingClientRect();
        const x = (event.clientX - rect.left) * f.width / rect.width, y = (event.clientY - rect.top) * f.height / rect.height;
        const step = x0 + (x - f.left) / (f.right - f.left) * (x1 - x0);
        let found = null, distance = Infinity;
        for (const {p, c} of paths) {
          const i = nearest(c.steps, step);
          if (!isNumber(c.mean[i])) continue;
          const gap = Math.abs(Y.place(c.mean[i]) - y);
          if (gap < distance) { distance = gap; found = {p, i, c}; }
        }
        if (!found) return;
        at.textContent = "step " + found.c.steps[found.i].toLocaleString() + " · " + short(found.c.mean[found.i]);
        note.textContent = found.p.name + " · " + found.p.state;
        point([found.p]);
      });
      f.root.addEventListener("pointerleave", () => { at.textContent = note.textContent = ""; point(null); });
    }
    function emphasise() {
      for (const {path, p} of paths) {
        const on = pointed ? pointed.includes(p) : p === best;
        path.setAttribute("stroke-width", on ? 2.6 : 1.3);
        path.setAttribute("opacity", on ? 1 : pointed ? 0.18 : 0.65);
      }
    }
    draws.push(draw);
    return emphasise;
  }

  // ---- table ----------------------------------------------------------------------------------------
  const columns = [];
  axes.forEach((axis, i) => columns.push({title: axis.title, text: (p) => axis.labels[p.at[i]], order: (p) => p.at[i]}));
  const figure = (title, field, text) => columns.push({title, text: (p) => (isNumber(p[field]) ? text(p[field]) : "–"), order: (p) => p[field]});
  figure("held-out", "eval_loss", (v) => fixed(v, 4));
  figure("best held-out", "best_eval_loss", (v) => fixed(v, 4));
  figure("training", "train_loss", (v) => fixed(v, 4));
  figure("steps", "steps", (v) => v.toLocaleString());
  figure("not applied", "steps_not_applied", (v) => v.toLocaleString());
  figure("tokens/s", "tokens_per_s", short);
  figure("time", "seconds", duration);
  columns.push({title: "state", text: (p) => p.state, order: (p) => p.state});
  let sort = null;  // [column, -1 or 1]; null: by rank
  const rows = new Map();
  function fillTable() {
    const head = make("tr");
    const cell = (title, column) => {
      const th = make("th"), button = make("button", "", title);
      button.type = "button";
      button.onclick = () => { sort = column && (sort && sort[0] === column ? [column, -sort[1]] : [column, 1]); fillTable(); };
      if (sort ? sort[0] === column : !column) th.setAttribute("aria-sort", sort && sort[1] < 0 ? "descending" : "ascending");
      th.append(button);
      head.append(th);
    };
    cell("rank", null);
    columns.forEach((c) => cell(c.title, c));
    $("points").tHead.replaceChildren(head);
    const order = points.slice();
    if (sort) {
      const [column, sign] = sort;
      const value = (p) => { const v = column.order(p); return v === null || v === undefined ? Infinity : v; };
      order.sort((p, q) => (value(p) < value(q) ? -sign : value(p) > value(q) ? sign : 0));
    }
    rows.clear();
    const body = $("points").tBodies[0];
    body.replaceChildren();
    for (const p of order) {
      const row = body.insertRow(), first = row.insertCell();
      row.className = p === best ? "best" : "";
      const swatch = make("i");
      swatch.style.background = colorOf(p);
      const rank = isNumber(valueOf(p)) ? String(1 + measured.indexOf(p)) : "–";
      if (p.steps > 0) {
        const link = make("a", "", rank + " ›");
        link.href = p.folder + "/report.html";
        link.title = "the page of " + p.name;
        first.append(swatch, link);
      } else {
        first.append(swatch, rank);
      }
      for (const c of columns) {
        const td = row.insertCell();
        td.textContent = c.text(p);
        if (c.title === "state") td.className = p.state;
      }
      row.addEventListener("pointerenter", () => point([p]));
      row.addEventListener("pointerleave", () => point(null));
      rows.set(p, row);
      if (p.error) {
        const why = body.insertRow(), td = why.insertCell();
        why.className = "why";
        td.colSpan = columns.length + 1;
        td.textContent = p.error;
      }
    }
    $("table-note").textContent = "best first by " + metric.title + "; a click on a column sorts by it, on a rank opens its run";
  }
  let emphasise = () => {};
  function point(chosen) {
    pointed = chosen;
    emphasise();
    rows.forEach((row, p) => row.classList.toggle("at", Boolean(chosen && chosen.includes(p))));
  }

  startTheme();
  shownAxes.forEach(axisChart);
  emphasise = curvesChart();
  draws.forEach((draw) => draw());
  fillTable();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    draws.forEach((draw) => draw());
  });
  if (running) follow(data.refresh_s, () => pointed !== null);
})();
