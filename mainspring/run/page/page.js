(function () {
  const {$, make, svg, memory, isNumber, short, fixed, bytes, duration, localTime, niceTicks, logTicks, nearest, startTheme, follow} = Page;
  const data = JSON.parse(document.getElementById("run-data").textContent);
  // ---- head -----------------------------------------------------------------------------------------
  const last = data.last, total = data.info.total_steps;
  $("title").textContent = data.info.title || "run";
  $("subtitle").textContent = [data.info.facts.model, data.started && "started " + localTime(data.started)]
      .filter(Boolean).join(" · ");
  const running = data.state === "running";

  function showState() {
    const age = (Date.now() - data.written_ms) / 1000;
    const silent = running && age > Math.max(120, 6 * data.refresh_s);
    $("state").className = "pill " + (silent ? "silent" : data.state);
    $("state").textContent = silent ? "no news for " + duration(age) : data.state;
    $("footer").textContent = "Written " + new Date(data.written_ms).toLocaleString() +
        (running ? ", " + duration(Math.max(0, age)) + " ago" : "") +
        ". All numbers: metrics.jsonl, evals.jsonl, events.jsonl and samples/ beside this page.";
  }
  showState();
  setInterval(showState, 1000);

  const fraction = total > 0 ? Math.min(1, last.step / total) : 0;
  $("fill").style.width = 100 * fraction + "%";
  const progress = $("progress-text");
  progress.append("step ", make("b", "", last.step.toLocaleString()));
  if (total > 0) progress.append(" of " + total.toLocaleString() + " · " + Math.round(100 * fraction) + "%");
  if (data.eta_s >= 0) progress.append(" · about ", make("b", "", duration(data.eta_s)), " left");
  if (data.started) {
    const elapsed = (data.written_ms - Date.parse(data.started)) / 1000;
    if (elapsed >= 0) progress.append(" · " + duration(elapsed) + " since the start");
  }

  // ---- tiles ----------------------------------------------------------------------------------------
  function tile(name, value, note, mood) {
    const card = make("div", "card tile");
    card.append(make("div", "name", name), make("div", "value", value),
        make("div", "note" + (mood ? " " + mood : ""), note || "\u00a0"));
    $("tiles").append(card);
  }
  function change(from, to) {
    if (!isNumber(from) || !isNumber(to)) return [];
    const delta = to - from;
    return [(delta <= 0 ? "▼" : "▲") + " from " + from.toFixed(3), delta < 0 ? "good" : ""];
  }
  const ends = (name) => {  // first and last value of a further curve; null without it
    const mean = data.curves[name] && data.curves[name].mean;
    return mean && mean.length ? [mean[0], mean[mean.length - 1]] : null;
  };
  function rise(name, label) {  // of what should grow
    const pair = ends(name);
    if (!pair) return;
    const delta = pair[1] - pair[0];
    tile(label, fixed(pair[1], 3), (delta >= 0 ? "▲" : "▼") + " from " + fixed(pair[0], 3), delta > 0 ? "good" : "");
  }
  rise("reward/mean", "Reward");
  rise("eval/greedy_accuracy", "Greedy accuracy");
  const mismatch = ends("mismatch/max_abs");
  if (mismatch) {
    tile("Trainer-sampler mismatch", short(mismatch[1]), mismatch[1] === 0 ? "the same bits" : "of a log-probability",
        mismatch[1] === 0 ? "good" : "bad");
  }
  tile(mismatch ? "Policy loss" : "Training loss", fixed(last.loss, 4),
      ...(last.step > 1 && !mismatch ? change(data.first_loss, last.loss) : []));
  const losses = data.evals.filter((e) => isNumber(e[1]));
  if (losses.length) {
    const values = losses.map((e) => e[1]);
    tile("Held-out loss", fixed(values[values.length - 1], 4),
        ...(values.length > 1 ? change(values[0], values[values.length - 1]) : ["at step " + losses[0][0]]));
  }
  tile("Tokens per second", short(last.tokens_per_s), short(data.learned_tokens) + " learned");
  if (last.mfu > 0) {
    tile("Share of peak", (100 * last.mfu).toFixed(1) + "%",
        last.mfu_peak_flops > 0 ? "peak " + short(last.mfu_peak_flops) + "FLOP/s" : "");
  }
  tile("Gradient norm", short(last.grad_norm),
      data.steps_not_applied ? data.steps_not_applied + (data.steps_not_applied === 1 ? " step" : " steps") + " not applied" : "",
      data.steps_not_applied ? "bad" : "");
  tile("Learning rate", short(last.lr), "");
  if (last.peak_bytes > 0) tile("Peak memory", bytes(last.peak_bytes), "");

  // ---- charts ---------------------------------------------------------------------------------------
  const charts = [];
  /// A running mean that a short spike does not hide under; only drawn for curves with many points.
  function smooth(values) {
    const out = [], keep = 0.9;
    let mean = 0, weight = 0;
    for (const v of values) {
      if (isNumber(v)) { mean = keep * mean + (1 - keep) * v; weight = keep * weight + (1 - keep); }
      out.push(weight > 0 ? mean / weight : null);
    }
    return out;
  }
  function chart(name, title, series, options) {
    const card = document.querySelector('[data-chart="' + name + '"]');
    const top = make("div", "top");
    top.append(make("h2", "", title));
    const keys = series.map((s) => {
      const key = make("span", "key");
      if (series.length > 1) {
        const dot = make("i");
        dot.style.background = "var(--" + s.color + ")";
        key.append(dot, s.name + " ");
      }
      const value = make("b");
      key.append(value);
      top.append(key);
      return value;
    });
    const at = make("span", "at");
    top.append(at);
    let log = memory.get("log-" + name) === "1";
    if (options.log) {
      const button = make("button", "log", "log");
      button.type = "button";
      button.setAttribute("aria-pressed", String(log));
      button.onclick = () => {
        log = !log;
        memory.set("log-" + name, log ? "1" : "0");
        button.setAttribute("aria-pressed", String(log));
        draw();
      };
      top.append(button);
    }
    const box = make("div");
    card.append(top, box);
    const drawn = series.filter((s) => s.steps.length > 0);
    let place = null;  // maps for the cross, set by draw

    function draw() {
      box.replaceChildren();
      if (!drawn.length) { box.append(make("div", "empty", "nothing yet")); return; }
      const width = Math.max(260, box.clientWidth), height = options.height;
      const left = 52, right = 10, bottom = 24, topPad = 8;
      let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity, positive = Infinity;
      for (const s of drawn) {
        x0 = Math.min(x0, s.steps[0]);
        x1 = Math.max(x1, s.steps[s.steps.length - 1]);
        for (const list of [s.mean, s.min || [], s.max || []]) {
          for (const v of list) {
            if (!isNumber(v)) continue;
            y0 = Math.min(y0, v); y1 = Math.max(y1, v);
            if (v > 0) positive = Math.min(positive, v);
          }
        }
      }
      if (!isFinite(y0)) { box.append(make("div", "empty", "no finite values")); return; }
      if (x1 === x0) { x0 -= 1; x1 += 1; }
      const useLog = log && isFinite(positive);
      if (useLog) {
        y0 = Math.max(positive, y0) / 1.08; y1 *= 1.08;
      } else {
        if (options.zero) y0 = Math.min(0, y0);
        const pad = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
        y1 += pad;
        if (!(options.zero && y0 === 0)) y0 -= pad;
      }
      const X = (step) => left + (step - x0) / (x1 - x0) * (width - left - right);
      const Y = useLog
        ? (v) => topPad + (Math.log(y1) - Math.log(Math.max(v, y0))) / (Math.log(y1) - Math.log(y0)) * (height - topPad - bottom)
        : (v) => topPad + (y1 - v) / (y1 - y0) * (height - topPad - bottom);
      const root = svg("svg", {viewBox: "0 0 " + width + " " + height, height: height, role: "img", tabindex: "0",
        "aria-label": title + ": " + drawn.map((s) => s.name + " " + short(s.mean[s.mean.length - 1])).join(", ")});
      for (const v of useLog ? logTicks(y0, y1) : niceTicks(y0, y1, height > 230 ? 5 : 4)) {
        const y = Y(v);
        root.append(svg("line", {class: "grid", x1: left, x2: width - right, y1: y, y2: y}));
        const label = svg("text", {x: left - 8, y: y + 4, "text-anchor": "end"});
        label.textContent = short(v);
        root.append(label);
      }
      for (const v of niceTicks(x0, x1, Math.floor(width / 110))) {
        if (v !== Math.round(v) || v < 0) continue;
        const label = svg("text", {x: Math.min(width - right - 4, Math.max(left + 4, X(v))), y: height - 6, "text-anchor": "middle"});
        label.textContent = v.toLocaleString();
        root.append(label);
      }
      const line = (s, values) => {
        let path = "", pen = false;
        values.forEach((v, i) => {
          if (!isNumber(v)) { pen = false; return; }
          path += (pen ? "L" : "M") + X(s.steps[i]).toFixed(1) + " " + Y(v).toFixed(1);
          pen = true;
        });
        return path;
      };
      for (const s of drawn) {
        const color = "var(--" + s.color + ")";
        if (s.max) {
          const up = s.max.map((v, i) => X(s.steps[i]).toFixed(1) + " " + Y(v).toFixed(1));
          const down = s.min.map((v, i) => X(s.steps[i]).toFixed(1) + " " + Y(v).toFixed(1)).reverse();
          root.append(svg("path", {d: "M" + up.concat(down).join("L") + "Z", fill: color, opacity: 0.14}));
        }
        const calm = options.smooth && s.color === "train" && s.mean.length >= 40;
        root.append(svg("path", {d: line(s, s.mean), fill: "none", stroke: color, "stroke-linejoin": "round",
          "stroke-width": calm ? 1 : 1.8, opacity: calm ? 0.35 : 1}));
        if (calm) root.append(svg("path", {d: line(s, smooth(s.mean)), fill: "none", stroke: color, "stroke-width": 2,
          "stroke-linejoin": "round"}));
        if (s.dots || s.steps.length === 1) {
          s.steps.forEach((step, i) => {
            if (isNumber(s.mean[i])) root.append(svg("circle", {cx: X(step), cy: Y(s.mean[i]), r: 3, fill: color}));
          });
        }
      }
      const cross = svg("g", {});
      root.append(cross);
      box.append(root);
      place = {X, Y, cross, height, bottom, topPad};
      const stepAt = (event) => {
        const rect = root.getBoundingClientRect();
        return x0 + ((event.clientX - rect.left) * width / rect.width - left) / (width - left - right) * (x1 - x0);
      };
      root.addEventListener("pointermove", (event) => point(stepAt(event)));
      root.addEventListener("pointerdown", (event) => point(stepAt(event)));
      root.addEventListener("pointerleave", () => point(null));
      root.addEventListener("blur", () => point(null));
      root.addEventListener("keydown", (event) => {
        const move = {ArrowLeft: -1, ArrowRight: 1}[event.key];
        if (!move) return;
        event.preventDefault();
        const steps = drawn[0].steps;
        const from = shown === null ? steps.length - 1 : nearest(steps, shown);
        point(steps[Math.min(steps.length - 1, Math.max(0, from + move))]);
      });
      show(shown);
    }

    function show(step) {
      series.forEach((s, i) => {
        const index = s.steps.length ? (step === null ? s.steps.length - 1 : nearest(s.steps, step)) : -1;
        keys[i].textContent = index < 0 ? "–" : short(s.mean[index]);
      });
      if (!place || !drawn.length) return;
      place.cross.replaceChildren();
      at.textContent = "";
      if (step === null) return;
      const first = drawn[0].steps[nearest(drawn[0].steps, step)];
      at.textContent = "step " + first.toLocaleString();
      const x = place.X(first);
      place.cross.append(svg("line", {class: "cross", x1: x, x2: x, y1: place.topPad, y2: place.height - place.bottom}));
      for (const s of drawn) {
        const i = nearest(s.steps, step);
        if (!isNumber(s.mean[i])) continue;
        place.cross.append(svg("circle", {cx: place.X(s.steps[i]), cy: place.Y(s.mean[i]), r: 4, fill: "var(--" + s.color + ")",
          stroke: "var(--card)", "stroke-width": 1.5}));
      }
    }
    charts.push({draw, show});
    draw();
  }

  let shown = null;  // the step that all charts point at
  function point(step) {
    shown = step;
    for (const c of charts) c.show(step);
  }
  const curve = (name, label, color) => Object.assign({name: label, color: color, steps: [], mean: []}, data.curves[name]);
  const evals = {name: "held-out", color: "held", dots: losses.length <= 60,
    steps: losses.map((e) => e[0]), mean: losses.map((e) => e[1])};
  /// A chart of its own for further curves, before or behind the fixed ones.
  function further(names, title, place, options) {
    const drawn = names.filter((n) => data.curves[n[0]]);
    if (!drawn.length) return;
    const card = make("div", "card chart" + (options.wide ? " wide" : ""));
    card.dataset.chart = drawn[0][0];
    if (place) place.before(card); else $("split").before(card);
    chart(drawn[0][0], title, drawn.map((n) => curve(n[0], n[1], n[2])), options);
  }
  further([["reward/mean", "reward", "train"], ["eval/greedy_accuracy", "greedy accuracy", "held"]], "Reward",
      document.querySelector('[data-chart="loss"]'), {height: 300, zero: true, smooth: true, wide: true});
  chart("loss", "Loss", evals.steps.length ? [curve("loss", "training", "train"), evals] : [curve("loss", "training", "train")],
      {height: 300, log: true, smooth: true});
  chart("grad_norm", "Gradient norm", [curve("grad_norm", "gradient norm", "train")], {height: 180, log: true, zero: true, smooth: true});
  chart("lr", "Learning rate", [curve("lr", "learning rate", "train")], {height: 180, zero: true});
  chart("tokens_per_s", "Tokens per second", [curve("tokens_per_s", "tokens/s", "train")], {height: 180, zero: true});
  const plain_names = ["reward/mean", "eval/greedy_accuracy"];
  for (const name of Object.keys(data.curves)) {
    if (!name.includes("/") || name.startsWith("wait/") || plain_names.includes(name)) continue;
    further([[name, name.replace(/^[^/]*\//, ""), "train"]], name.replace(/[/_]/g, " "), null, {height: 150, zero: true});
  }
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;  // a phone's address bar changes only the height
    width = window.innerWidth;
    for (const c of charts) c.draw();
  });

  // ---- time split -----------------------------------------------------------------------------------
  (function () {
    const card = $("split");
    card.append(make("h2", "", "Where the last step's time went"));
    const parts = Object.entries(last.seconds || {}).filter((p) => p[1] > 0).sort((a, b) => b[1] - a[1]);
    const sum = parts.reduce((s, p) => s + p[1], 0);
    if (!sum) { card.append(make("p", "hint", "nothing yet")); return; }
    const bar = make("div", "bar"), legend = make("div", "legend");
    parts.forEach(([name, seconds], i) => {
      const color = "color-mix(in srgb, var(--" + (i === 0 ? "train" : "held") + ") " + (i === 0 ? 100 : Math.max(25, 110 - 25 * i)) + "%, var(--soft))";
      const piece = make("div"), dot = make("i");
      piece.style.cssText = "flex:" + seconds / sum + " 0 0;background:" + color;
      piece.title = name;
      dot.style.background = color;
      bar.append(piece);
      legend.append(dot, make("span", "", name.replace(/_/g, " ")),
          make("span", "num", seconds < 1 ? (1000 * seconds).toFixed(1) + " ms" : seconds.toFixed(2) + " s"),
          make("span", "num", (100 * seconds / sum).toFixed(1) + "%"));
    });
    card.append(bar, legend);
    if (last.mfu_formula) {
      const note = make("p", "hint", "MFU: " + last.mfu_formula);
      note.style.marginTop = "10px";
      card.append(note);
    }
  })();

  // ---- who waits for what ---------------------------------------------------------------------------
  (function () {
    const shares = Object.keys(data.curves).filter((name) => name.startsWith("wait/"))
        .map((name) => [name.slice(5), ends(name)[1]]).sort((a, b) => b[1] - a[1]);
    if (!shares.length) return;
    const card = make("div", "card"), legend = make("div", "legend");
    card.id = "waits";
    card.append(make("h2", "", "Who waits for what"));
    for (const [name, share] of shares) {
      const dot = make("i");
      dot.style.background = "color-mix(in srgb, var(--train) " + Math.round(100 * share) + "%, var(--soft))";
      legend.append(dot, make("span", "", name), make("span", "num", ""), make("span", "num", (100 * share).toFixed(1) + "%"));
    }
    card.append(legend, make("p", "hint", "Shares of the wall time of the run so far; they add up to all of it."));
    $("split").after(card);
  })();

  // ---- samples --------------------------------------------------------------------------------------
  function tokens(pieces) {
    const box = make("div", "text");
    for (const [text, learned, logprob] of pieces) {
      const token = make("span", learned ? "l" : "");
      if (isNumber(logprob)) {
        token.title = "log-probability " + logprob.toFixed(3) + " (" + (100 * Math.exp(logprob)).toFixed(1) + "%)";
        if (learned && logprob < -3) token.classList.add("odd");
      }
      text.split("\n").forEach((part, i) => {
        if (i) token.append(make("span", "nl", "↵"), "\n");
        token.append(part);
      });
      box.append(token);
    }
    return box;
  }
  const tabs = {
    generated: ["Answers", "written by the model", " after a prompt; dotted: it was surprised (log-probability below -3)."],
    train: ["Training rows", "learned", " tokens of rows as the model sees them; the rest is only read."],
    rollout: ["Rollouts", "sampled", " tokens of one task's samples, side by side: green was rewarded above its group's mean, red below."],
  };
  const kindOf = (sample) => (tabs[sample.kind] ? sample.kind : "train");
  /// One sample of a group: coloured by its advantage, of which the largest of the group is full.
  function rollout(sample, largest) {
    const box = make("div", "rollout"), text = tokens(sample.pieces.slice(1));
    const share = largest > 0 ? Math.round(70 * Math.abs(sample.advantage) / largest) : 0;
    text.style.setProperty("--learned", "color-mix(in srgb, var(--" + (sample.advantage > 0 ? "good" : "bad") + ") " + share + "%, var(--card))");
    text.style.setProperty("--learned-ink", "var(--ink)");
    box.append(make("p", "gen", sample.note), text);
    return box;
  }
  function showSamples(kind) {
    memory.set("tab", kind);
    for (const button of $("sample-tabs").children) button.setAttribute("aria-selected", String(button.dataset.kind === kind));
    $("sample-hint").replaceChildren(make("span", "swatch", tabs[kind][1]), tabs[kind][2]);
    const groups = new Map();
    for (const sample of data.samples) {
      if (kindOf(sample) !== kind) continue;
      if (!groups.has(sample.title)) groups.set(sample.title, []);
      groups.get(sample.title).push(sample);
    }
    const boxes = [];
    groups.forEach((list, title) => {
      const details = make("details", "card sample"), summary = make("summary");
      const steps = list.map((s) => s.step);
      summary.append(make("b", "", title || "sample"), make("span", "", steps.length > 1
        ? "steps " + steps.join(", ") : "step " + steps[0]));
      details.append(summary);
      if (kind === "rollout") {
        const grid = make("div", "rollouts"), largest = Math.max(...list.map((s) => Math.abs(s.advantage) || 0));
        details.append(tokens(list[0].pieces.slice(0, 1)));
        for (const sample of list) grid.append(rollout(sample, largest));
        details.append(grid);
        boxes.push(details);
        return;
      }
      const add = (box, sample) => {
        if (list.length > 1) box.append(make("p", "gen", "step " + sample.step));
        box.append(tokens(sample.pieces));
      };
      add(details, list[0]);  // before and after side by side, what lies between on request
      if (list.length > 2) {
        const between = make("details", "between");
        between.append(make("summary", "", list.length === 3 ? "1 more between" : list.length - 2 + " more between"));
        list.slice(1, -1).forEach((sample) => add(between, sample));
        details.append(between);
      }
      if (list.length > 1) add(details, list[list.length - 1]);
      boxes.push(details);
    });
    if (kind !== "generated") boxes.reverse();  // newest first
    boxes.slice(0, 2).forEach((box) => { box.open = true; });
    $("samples").replaceChildren(...boxes);
  }
  const kinds = Object.keys(tabs).filter((kind) => data.samples.some((s) => kindOf(s) === kind));
  if (kinds.length) {
    $("samples-section").hidden = false;
    for (const kind of kinds) {
      const button = make("button", "", tabs[kind][0]);
      button.type = "button";
      button.dataset.kind = kind;
      button.setAttribute("role", "tab");
      button.onclick = () => showSamples(kind);
      $("sample-tabs").append(button);
    }
    showSamples(kinds.includes(memory.get("tab")) ? memory.get("tab") : kinds[0]);
  }

  // ---- recipe, facts, events ------------------------------------------------------------------------
  const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));
  const recipe = $("recipe").tBodies[0];
  for (const key in data.info.recipe) {
    const row = recipe.insertRow(), item = data.info.recipe[key];
    row.insertCell().textContent = key;
    row.insertCell().textContent = plain(item.value);
    const origin = row.insertCell();
    origin.className = "origin";
    origin.append(make("span", "tag" + (item.origin === "default" ? "" : " set"), item.origin));
  }
  $("recipe-filter").addEventListener("input", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    for (const row of recipe.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  const facts = $("facts").tBodies[0];
  for (const [group, suffix] of [["facts", ""], ["seeds", " seed"], ["versions", ""]]) {
    for (const key in data.info[group]) {
      const row = facts.insertRow();
      row.insertCell().textContent = key + suffix;
      row.insertCell().textContent = plain(data.info[group][key]);
    }
  }
  const events = data.events.slice().reverse();
  for (const event of events) {
    const item = make("li", event.kind);
    item.append(make("span", "kind", event.kind), " ", event.message);
    item.append(make("div", "when", "step " + event.step + " · " + localTime(event.time)));
    $("events").append(item);
  }
  if (!events.length) $("events").append(make("li", "", "none yet"));

  // ---- theme and refresh ----------------------------------------------------------------------------
  startTheme();
  if (running) follow(data.refresh_s, () => shown !== null);
})();
