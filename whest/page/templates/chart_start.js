"use strict";
/* A chart: uPlot's axes, zoom and canvas, with a pointer, a legend, keys and a table of our own. */
(() => {
  const { make, describe, fold } = whestWords;
  const { colour, paint, guide, place } = whestPaint;
  const REACH = 36;
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = FONT;
  const wide = (text) => ruler.measureText(text).width;

  const shorten = (text, room) => {
    let short = text;
    while (short.length > 2 && wide(short) > room) short = `${short.slice(0, -2)}…`;
    return short;
  };

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.plot = figure.querySelector(".plot");
      this.data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
      this.isLog = { x: this.data.x.log, y: this.data.y.log };
      this.items = [...this.data.series, ...this.data.guides];
      this.isShown = new Map(this.items.map((item) => [item, true]));
      this.point = null;
      this.furnish();
      new ResizeObserver(() => this.fit()).observe(this.plot);
    }

    /* What stands around the canvas. */
    furnish() {
      const words = `${this.plot.dataset.alt} Arrow keys move from point to point.`;
      this.canvas = make("div", { class: "canvas", tabindex: "0", role: "group", "aria-roledescription": "chart", "aria-label": words });
      this.ring = make("span", { class: "ring", hidden: "" });
      this.tip = make("div", { class: "tip", hidden: "" });
      this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
      this.tools = make("div", { class: "tools" });
      this.plot.replaceChildren(this.tools, this.canvas, this.spoken);
      this.figure.append(fold(this.data));
      if (this.items.length > 1) this.items.forEach((item) => this.tools.append(this.legend(item)));
      for (const axis of ["x", "y"]) if (this.canLog(axis)) this.tools.append(this.logButton(axis));
      this.reset = make("button", { type: "button", class: "tool", hidden: "" }, "Reset zoom");
      this.reset.addEventListener("click", () => this.build());
      this.tools.append(this.reset);
      this.canvas.addEventListener("keydown", (event) => this.key(event));
      this.canvas.addEventListener("blur", () => this.pointAt(null));
    }

    legend(item) {
      const button = make("button", { type: "button", class: "legend", "aria-pressed": "true" }, make("i", { class: item.colour }), item.name);
      if (item.dashed) button.firstChild.classList.add("dashed");
      button.addEventListener("click", () => {
        this.isShown.set(item, !this.isShown.get(item));
        button.setAttribute("aria-pressed", String(this.isShown.get(item)));
        this.build();
      });
      return button;
    }

    logButton(axis) {
      const button = make("button", { type: "button", class: "tool", "aria-pressed": String(this.isLog[axis]) }, `log ${axis}`);
      button.title = `${this.data[axis].label}: logarithmic or linear`;
      button.addEventListener("click", () => {
        this.isLog[axis] = !this.isLog[axis];
        button.setAttribute("aria-pressed", String(this.isLog[axis]));
        this.build();
      });
      return button;
    }

    shown() {
      return this.data.series.filter((series) => this.isShown.get(series));
    }

    values(axis, series = this.data.series) {
      return series.flatMap((one) => one[axis]).filter((value) => value != null);
    }

    canLog(axis) {
      const found = this.values(axis);
      return found.length > 1 && !this.data[axis].whole && !this.data[axis].time && found.every((value) => value > 0);
    }

    /* The ends of an axis: those of the shown points and their errors, with a little room. */
    range(axis) {
      const shown = this.shown().length ? this.shown() : this.data.series;
      const errors = axis === "y" ? shown.flatMap((one) => [...one.low, ...one.high]) : [];
      const lines = this.data.guides.filter((one) => this.isShown.get(one)).map((one) => one[axis]);
      const isLog = this.isLog[axis];
      const found = [...this.values(axis, shown), ...errors, ...lines].filter((value) => value != null && (!isLog || value > 0));
      const [scale, back] = isLog ? [Math.log10, (value) => 10 ** value] : [(value) => value, (value) => value];
      let low = found.length ? scale(found.reduce((a, b) => Math.min(a, b))) : 0;
      let high = found.length ? scale(found.reduce((a, b) => Math.max(a, b))) : 1;
      const least = isLog ? 0.3 : this.data[axis].time ? 3600 : Math.abs(high) * 0.1 || 1;
      const room = this.data[axis].whole ? Math.max(0.5, 0.02 * (high - low)) : high > low ? 0.05 * (high - low) : least;
      [low, high] = [back(low - room), back(high + room)];
      const { low: first, high: last } = this.data[axis];
      return [first != null && (!isLog || first > 0) ? first : low, last ?? high];
    }

    ticks(u, axis, low, high) {
      const isAcross = axis === "x";
      const size = isAcross ? u.width - 20 - (u.axes[1]._size || 50) : u.height - 70;
      const scale = this.isLog[axis] ? Math.log10 : (value) => value;
      const at = (value) => (size * (scale(value) - scale(low))) / (scale(high) - scale(low));
      const half = (label) => (isAcross ? wide(label) / 2 + 7 : 13);
      const fits = (ticks) => ticks.length < 25 && ticks.every(([value, label], i) =>
        i === 0 || at(value) - at(ticks[i - 1][0]) >= half(label) + half(ticks[i - 1][1]));
      return whestTicks.choose(low, high, this.isLog[axis], this.data[axis].whole, fits, this.data[axis].time);
    }

    axis(name) {
      const labels = new Map();
      const line = { stroke: () => colour("grid"), width: 1 };
      return {
        scale: name, side: name === "x" ? 2 : 3, label: (u) => shorten(this.data[name].label, name === "x" ? u.width - 70 : u.height - 60), font: FONT, labelFont: FONT, labelSize: 20, labelGap: 2, gap: 4,
        stroke: () => colour("ink"), grid: line, ticks: { ...line, size: 4 }, space: 0, incrs: () => [5],
        splits: (u, i, low, high) => {
          const found = this.ticks(u, name, low, high);
          labels.clear();
          for (const [value, label] of found) labels.set(value, label);
          return found.map(([value]) => value);
        },
        values: (u, splits) => splits.map((value) => labels.get(value) ?? ""),
        filter: (u, splits) => splits,
        size: (u, found) => (name === "x" ? 30 : Math.ceil(Math.max(18, ...(found ?? []).map(wide)) + 12)),
      };
    }

    options(width) {
      const scale = (axis) => ({ time: false, distr: this.isLog[axis] ? 3 : 1, log: 10, range: () => this.range(axis) });
      const facets = [{ scale: "x", auto: true }, { scale: "y", auto: true }];
      return {
        mode: 2, width, height: this.height(width), padding: [10, 16, 0, 0], legend: { show: false },
        scales: { x: scale("x"), y: scale("y") },
        axes: [this.axis("x"), this.axis("y")],
        series: [{}, ...this.data.series.map((series) => ({
          facets, show: this.isShown.get(series), points: { show: false }, paths: (u) => { paint(u, series); return null; },
        }))],
        cursor: { x: false, y: false, points: { show: false }, drag: { x: true, y: true, uni: 24, dist: 6 } },
        hooks: {
          draw: [(u) => this.data.guides.filter((one) => this.isShown.get(one)).forEach((one) => guide(u, one))],
          setScale: [(u) => this.moved(u)],
        },
      };
    }

    height(width) {
      return Math.round(Math.min(340, Math.max(230, width * 0.6)));
    }

    build() {
      const width = this.canvas.clientWidth;
      if (!width) return;
      this.u?.destroy();
      this.u = new uPlot(this.options(width), [null, ...this.data.series.map((one) => [one.x, one.y])], this.canvas);
      this.u.over.append(this.ring, this.tip);
      this.u.over.addEventListener("pointermove", (event) => this.hover(event));
      this.u.over.addEventListener("pointerdown", (event) => this.hover(event));
      this.u.over.addEventListener("pointerleave", () => this.pointAt(null));
      this.u.over.addEventListener("dblclick", () => { this.reset.hidden = true; });
      this.reset.hidden = true;
      this.pointAt(null);
    }

    /* uPlot has changed a scale: by zooming, unless these are the ends of the whole chart. */
    moved(u) {
      if (!this.u) return;
      this.pointAt(null);
      this.reset.hidden = ["x", "y"].every((axis) => {
        const [low, high] = this.range(axis);
        return u.scales[axis].min === low && u.scales[axis].max === high;
      });
    }

    fit() {
      const width = this.canvas.clientWidth;
      if (!width || this.u?.width === width) return;
      this.pointAt(null);
      if (this.u) this.u.setSize({ width, height: this.height(width) }); else this.build();
    }

    /* A point's place in the plot, in CSS pixels; NaN if it has none. */
    spot(series, i) {
      const { bbox } = this.u;
      const ratio = window.devicePixelRatio;
      return [(place(this.u, "x", series.x[i]) - bbox.left) / ratio, (place(this.u, "y", series.y[i]) - bbox.top) / ratio];
    }

    hover(event) {
      const box = this.u.over.getBoundingClientRect();
      const [left, top] = [event.clientX - box.left, event.clientY - box.top];
      let [best, found] = [REACH, null];
      for (const series of this.shown()) {
        for (let i = 0; i < series.x.length; i += 1) {
          const [x, y] = this.spot(series, i);
          const distance = Math.hypot(x - left, y - top) + (series.faint ? 4 : 0);
          if (distance < best) [best, found] = [distance, { series, i }];
        }
      }
      this.pointAt(found);
    }

    pointAt(point, isSpoken = false) {
      this.point = point;
      this.ring.hidden = this.tip.hidden = !point;
      if (!point || !this.u) return;
      const [x, y] = this.spot(point.series, point.i);
      const [name, lines] = describe(this.data, point.series, point.i);
      this.ring.style.translate = `${x}px ${y}px`;
      this.tip.replaceChildren(make("strong", {}, name), ...lines.map((line) => make("span", {}, line)));
      const room = this.u.over.clientWidth;
      const width = this.tip.offsetWidth;
      const left = Math.max(0, Math.min(x + 12 + width > room ? x - width - 12 : x + 12, room - width));
      this.tip.style.translate = `${left}px ${Math.max(0, y - this.tip.offsetHeight - 10)}px`;
      if (isSpoken) this.spoken.textContent = [name, ...lines].join(". ");
    }

    key(event) {
      const rows = this.shown().map((series) => ({ series, order: this.order(series) })).filter(({ order }) => order.length);
      if (!rows.length || !this.u) return;
      if (event.key === "Escape") { this.build(); return; }
      const row = Math.max(0, rows.findIndex(({ series }) => series === this.point?.series));
      const at = this.point ? rows[row].order.indexOf(this.point.i) : -1;
      const last = rows[row].order.length - 1;
      const to = { ArrowRight: Math.min(at + 1, last), ArrowLeft: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
      const turn = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (to === undefined && turn === undefined) return;
      event.preventDefault();
      const { series, order } = rows[turn ? (row + turn + rows.length) % rows.length : row];
      this.pointAt({ series, i: order[Math.min(turn ? Math.max(at, 0) : to, order.length - 1)] }, true);
    }

    /* The points of a series from left to right. */
    order(series) {
      const seen = series.x.map((_, i) => i).filter((i) => !Number.isNaN(this.spot(series, i)[1]));
      return seen.sort((a, b) => series.x[a] - series.x[b] || a - b);
    }
  }

  const charts = [...document.querySelectorAll("figure.chart")].map((figure) => new Chart(figure));
  const redraw = () => charts.forEach((chart) => chart.u?.redraw(false));
  document.addEventListener("whest-theme", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  const print = (isOn) => () => { document.documentElement.toggleAttribute("data-print", isOn); redraw(); };
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
})();
