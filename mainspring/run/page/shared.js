"use strict";
// What report.html and sweep.html share: elements, numbers for people, ticks, theme, reload.
const Page = (function () {
  const $ = (id) => document.getElementById(id);
  const make = (tag, className, text) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const svgSpace = $("mark").namespaceURI;
  const svg = (tag, attributes) => {
    const element = document.createElementNS(svgSpace, tag);
    for (const name in attributes) element.setAttribute(name, attributes[name]);
    return element;
  };
  const memory = {  // survives the reload of a running page
    get(key) { try { return sessionStorage.getItem("ms-" + key); } catch (e) { return null; } },
    set(key, value) { try { sessionStorage.setItem("ms-" + key, value); } catch (e) { /* private mode */ } },
  };

  // ---- numbers for people -------------------------------------------------------------------------
  const isNumber = (x) => typeof x === "number" && isFinite(x);
  function short(x) {
    if (!isNumber(x)) return "–";
    const size = Math.abs(x);
    if (size === 0) return "0";
    if (size < 1e-3) return x.toExponential(2).replace(/\.?0+e/, "e");
    if (size < 10) return String(+x.toPrecision(4));
    if (size < 1000) return String(+x.toPrecision(4));
    const units = ["", "k", "M", "G", "T", "P"];
    const unit = Math.min(5, Math.floor(Math.log10(size) / 3));
    return +(x / Math.pow(1000, unit)).toPrecision(3) + " " + units[unit];
  }
  const fixed = (x, digits) => (isNumber(x) ? x.toFixed(digits) : "–");
  function bytes(x) {
    if (!isNumber(x) || x <= 0) return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    const unit = Math.min(4, Math.floor(Math.log2(x) / 10));
    return +(x / Math.pow(1024, unit)).toPrecision(3) + " " + units[unit];
  }
  function duration(seconds) {
    if (!isNumber(seconds) || seconds < 0) return "–";
    const s = Math.round(seconds);
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s / 60 % 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor(s / 3600 % 24) + " h";
  }
  const localTime = (iso) => { const d = new Date(iso); return isNaN(d) ? iso : d.toLocaleString(); };

  // ---- axes -----------------------------------------------------------------------------------------
  function niceTicks(low, high, count) {
    const raw = (high - low) / Math.max(1, count);
    const power = Math.pow(10, Math.floor(Math.log10(raw)));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const ticks = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step) ticks.push(+v.toPrecision(12));
    return ticks;
  }
  function logTicks(low, high) {
    let ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e) {
      for (const m of [1, 2, 5]) ticks.push(m * Math.pow(10, e));
    }
    ticks = ticks.filter((v) => v >= low && v <= high);
    return ticks.length > 7 ? ticks.filter((v) => Math.abs(Math.log10(v) % 1) < 1e-9) : ticks;
  }
  function nearest(steps, step) {
    let low = 0, high = steps.length - 1;
    while (high - low > 1) { const mid = (low + high) >> 1; if (steps[mid] <= step) low = mid; else high = mid; }
    return Math.abs(steps[low] - step) <= Math.abs(steps[high] - step) ? low : high;
  }

  // ---- theme and refresh ----------------------------------------------------------------------------
  function startTheme() {
    const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");
    function setTheme() {
      let theme = null;
      try { theme = localStorage.getItem("ms-theme"); } catch (e) { /* private mode */ }
      const dark = theme ? theme === "dark" : wantsDark.matches;
      document.documentElement.dataset.theme = dark ? "dark" : "light";
      $("theme").textContent = dark ? "☀ light" : "☾ dark";
    }
    $("theme").onclick = () => {
      const dark = document.documentElement.dataset.theme === "dark";
      try { localStorage.setItem("ms-theme", dark ? "light" : "dark"); } catch (e) { /* private mode */ }
      setTheme();
    };
    wantsDark.addEventListener("change", setTheme);
    setTheme();
  }
  /// Reloads the page every so many seconds, unless it is held, hidden, or `isRead()`: somebody looks.
  function follow(seconds, isRead) {
    const button = $("pause");
    let paused = memory.get("paused") === "1";
    const label = () => { button.textContent = paused ? "▶ follow" : "❚❚ hold"; button.title = paused
      ? "Reload the page as the run goes on" : "Stop reloading the page"; };
    button.hidden = false;
    button.onclick = () => { paused = !paused; memory.set("paused", paused ? "1" : "0"); label(); };
    label();
    const y = memory.get("scroll");
    if (y !== null) window.scrollTo(0, Number(y));
    setInterval(() => {
      const selecting = String(window.getSelection()).length > 0;
      if (paused || document.hidden || selecting || isRead()) return;
      memory.set("scroll", String(window.scrollY));
      location.reload();
    }, 1000 * Math.max(3, seconds));
  }

  return {$, make, svg, memory, isNumber, short, fixed, bytes, duration, localTime, niceTicks, logTicks, nearest, startTheme, follow};
})();
