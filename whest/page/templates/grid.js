"use strict";
/* Two maps of the same places: canvas, pointer, keys and scales. The cursor of one is that of the other. */
(() => {
  const { make } = whestWords;
  const { compact } = whestTicks;
  const { colour } = whestPaint;
  const [GUTTER, FOOT, DENSE, SHARE, CLOSEST] = [30, 20, 400, 0.99, 8];
  const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

  const unpack = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const floats = (text) => {
    const view = new DataView(unpack(text).buffer);
    return Float32Array.from({ length: view.byteLength / 4 }, (_, i) => view.getFloat32(4 * i, true));
  };
  const channels = (name) => colour(name).match(/[\d.]+/g).slice(0, 3).map(Number);
  const blend = (a, b, t) => a.map((part, i) => Math.round(part + (b[i] - part) * t));

  class Map2 {
    constructor(grid, place) {
      this.grid = grid;
      this.place = place;
      const name = place ? "Second map" : "First map";
      this.select = make("select", {}, ...grid.data.quantities.map((one) => make("option", {}, one.name)));
      this.select.selectedIndex = grid.data.shown[place];
      this.canvas = make("canvas", {});
      this.cell = make("span", { class: "cell", hidden: "" });
      this.tip = make("div", { class: "tip", hidden: "" });
      const words = `${name}. ${grid.figure.dataset.alt} Arrow keys move from ${grid.data.column} to ${grid.data.column}, plus and minus zoom.`;
      this.field = make("div", { class: "field", tabindex: "0", role: "group", "aria-roledescription": "map", "aria-label": words }, this.canvas, this.cell, this.tip);
      this.key = make("p", { class: "scale" });
      this.root = make("div", { class: "map" }, make("label", {}, `${name}: `, this.select), this.field, this.key);
      this.select.addEventListener("change", () => this.draw());
      this.field.addEventListener("pointermove", (event) => this.hover(event));
      this.field.addEventListener("pointerdown", (event) => this.hover(event));
      this.field.addEventListener("pointerleave", () => grid.point(null));
      this.field.addEventListener("blur", () => grid.point(null));
      this.field.addEventListener("keydown", (event) => grid.move(event, this));
    }

    get quantity() { return this.grid.data.quantities[this.select.selectedIndex]; }

    /* The size of a place in CSS pixels. */
    measure() {
      this.tall = Math.max(10, Math.min(26, Math.floor(360 / this.grid.data.rows)));
      this.wide = (this.field.clientWidth - GUTTER) / this.grid.shown;
    }

    /* Where a place begins, in CSS pixels. */
    left(at) { return GUTTER + (at - this.grid.from) * this.wide; }

    paintOf(kind) {
      const [ground, low, high, ink] = ["card", "accent", "alarm", "ink"].map(channels);
      if (kind === "error") return (t) => blend(ground, t < 0 ? low : high, Math.min(1, Math.abs(t)));
      return (t) => (t < 0.7 ? blend(ground, low, Math.max(0, t) / 0.7) : blend(low, ink, Math.min(1, (t - 0.7) / 0.3)));
    }

    draw() {
      if (!this.field.clientWidth) return;
      this.measure();
      const { rows } = this.grid.data;
      const { from, shown } = this.grid;
      const ratio = window.devicePixelRatio;
      const [across, down] = [this.field.clientWidth, rows * this.tall + FOOT];
      Object.assign(this.canvas, { width: Math.round(across * ratio), height: Math.round(down * ratio) });
      this.canvas.style.height = `${down}px`;
      const ctx = this.canvas.getContext("2d");
      ctx.scale(ratio, ratio);
      ctx.clearRect(0, 0, across, down);
      const image = this.image();
      ctx.imageSmoothingEnabled = this.wide * ratio < 1;
      for (let row = 0; row < rows; row += 1) {
        ctx.drawImage(image, from, row, shown, 1, GUTTER, row * this.tall, shown * this.wide, this.tall - 1);
      }
      this.borders(ctx);
      this.names(ctx);
      this.legend();
    }

    image() {
      const { rows, columns } = this.grid.data;
      const image = Object.assign(document.createElement("canvas"), { width: columns, height: rows });
      const ctx = image.getContext("2d");
      const pixels = ctx.createImageData(columns, rows);
      const paint = this.paintOf(this.quantity.kind);
      const unknown = channels("grid");
      for (let row = 0; row < rows; row += 1) {
        const end = this.grid.end(this.quantity, row);
        this.grid.order[row].forEach((column, at) => {
          const value = this.quantity.values[row * columns + column];
          pixels.data.set([...(Number.isNaN(value) ? unknown : paint(value / end)), 255], 4 * (row * columns + at));
        });
      }
      ctx.putImageData(pixels, 0, 0);
      return image;
    }

    /* A line in each row where the next group begins. */
    borders(ctx) {
      if (!this.grid.isSorted) return;
      const { columns, group } = this.grid.data;
      ctx.fillStyle = colour("ink");
      this.grid.order.forEach((order, row) => order.forEach((column, at) => {
        if (at > this.grid.from && at < this.grid.from + this.grid.shown && group[row * columns + column] !== group[row * columns + order[at - 1]]) {
          ctx.fillRect(this.left(at) - 0.75, row * this.tall, 1.5, this.tall - 1);
        }
      }));
    }

    names(ctx) {
      ctx.fillStyle = colour("ink");
      ctx.font = FONT;
      ctx.textAlign = "right";
      ctx.textBaseline = "middle";
      const stride = Math.ceil(15 / this.tall);
      for (let row = 0; row < this.grid.data.rows; row += stride) {
        ctx.fillText(String(row + 1), GUTTER - 6, (row + 0.5) * this.tall);
      }
      if (this.grid.isSorted) this.groups(ctx);
    }

    /* The groups' names below the last row, where they have room. */
    groups(ctx) {
      const { rows, columns, group, groups } = this.grid.data;
      const all = this.grid.order[rows - 1].map((column) => group[(rows - 1) * columns + column]);
      const last = all.slice(this.grid.from, this.grid.from + this.grid.shown);
      ctx.textAlign = "center";
      groups.forEach((name, i) => {
        const [from, to] = [last.indexOf(i), last.lastIndexOf(i) + 1];
        if (to * this.wide - from * this.wide < ctx.measureText(name).width + 8 || !to) return;
        ctx.fillText(name, GUTTER + ((from + to) / 2) * this.wide, rows * this.tall + FOOT / 2);
      });
    }

    legend() {
      const isError = this.quantity.kind === "error";
      const bar = Object.assign(make("canvas", { "aria-hidden": "true" }), { width: 128, height: 1 });
      const ctx = bar.getContext("2d");
      const paint = this.paintOf(this.quantity.kind);
      for (let i = 0; i < 128; i += 1) {
        ctx.fillStyle = `rgb(${paint(isError ? (i - 63.5) / 63.5 : i / 127)})`;
        ctx.fillRect(i, 0, 1, 1);
      }
      const end = this.grid.end(this.quantity, null);
      const words = this.grid.isByRow ? [isError ? "lowest" : "0", `largest of its ${this.grid.data.row}`]
        : [isError ? compact(-end, 3) : "0", compact(end, 3)];
      this.key.replaceChildren(words[0], bar, words[1]);
    }

    hover(event) {
      const box = this.canvas.getBoundingClientRect();
      const [place, row] = [Math.floor((event.clientX - box.left - GUTTER) / this.wide), Math.floor((event.clientY - box.top) / this.tall)];
      const isInside = place >= 0 && place < this.grid.shown && row >= 0 && row < this.grid.data.rows;
      this.grid.point(isInside ? { row, at: this.grid.from + place } : null, this);
    }

    show(point, isActive) {
      this.cell.hidden = !point;
      this.tip.hidden = !point || !isActive;
      if (!point) return;
      const [x, y] = [this.left(point.at), point.row * this.tall];
      const width = Math.max(this.wide, 3) + 4;
      Object.assign(this.cell.style, { translate: `${x - 2}px ${y - 2}px`, width: `${width}px`, height: `${this.tall + 3}px` });
      if (!isActive) return;
      const [name, ...lines] = this.grid.words(point);
      this.tip.replaceChildren(make("strong", {}, name), ...lines.map((line) => make("span", {}, line)));
      const room = this.field.clientWidth;
      const left = x + 14 + this.tip.offsetWidth > room ? x - this.tip.offsetWidth - 10 : x + 14;
      this.tip.style.translate = `${Math.max(0, Math.min(left, room - this.tip.offsetWidth))}px ${y + this.tall + 6}px`;
    }
  }

  class Grid {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(figure.querySelector("script[type='application/json']").textContent);
      this.data.group = unpack(this.data.group);
      for (const quantity of this.data.quantities) quantity.values = floats(quantity.values);
      [this.isSorted, this.isByRow, this.at] = [true, false, null];
      [this.from, this.shown] = [0, this.data.columns];
      this.ends = new Map();
      this.arrange();
      this.maps = [0, 1].map((place) => new Map2(this, place));
      const maps = figure.querySelector(".maps");
      maps.replaceChildren(...this.maps.map((one) => one.root));
      maps.classList.toggle("dense", this.data.columns > DENSE);
      this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
      const sorted = this.toggle("sorted by class", true, (isOn) => { this.isSorted = isOn; this.arrange(); });
      const byRow = this.toggle(`one scale per ${this.data.row}`, false, (isOn) => { this.isByRow = isOn; });
      maps.before(make("div", { class: "tools" }, sorted, byRow, ...this.zoomTools()));
      maps.after(this.spoken);
      new ResizeObserver(() => this.draw()).observe(maps);
    }

    toggle(name, isOn, act) {
      const button = make("button", { type: "button", class: "tool", "aria-pressed": String(isOn) }, name);
      button.addEventListener("click", () => {
        const next = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(next));
        act(next);
        this.draw();
      });
      return button;
    }

    zoomTools() {
      const button = (name, times) => {
        const made = make("button", { type: "button", class: "tool" }, name);
        made.addEventListener("click", () => this.zoom(times));
        return made;
      };
      [this.closer, this.wider] = [button("Zoom in", 0.5), button("Zoom out", 2)];
      this.slider = make("input", { type: "range", min: "0", value: "0", "aria-label": `First ${this.data.column} shown` });
      this.slider.addEventListener("input", () => this.view(Number(this.slider.value), this.shown));
      this.showZoom();
      return [this.closer, this.wider, this.slider];
    }

    showZoom() {
      const { columns } = this.data;
      this.closer.disabled = this.shown <= CLOSEST;
      this.wider.disabled = this.slider.hidden = this.shown >= columns;
      this.slider.max = String(columns - this.shown);
      this.slider.value = String(this.from);
    }

    /* Show so many columns from this one on. */
    view(from, shown) {
      const { columns } = this.data;
      this.shown = Math.min(columns, Math.max(CLOSEST, Math.round(shown)));
      this.from = Math.max(0, Math.min(columns - this.shown, Math.round(from)));
      this.showZoom();
      this.draw();
    }

    /* The column under the cursor stays where it is, or the middle. */
    zoom(times) {
      const share = this.at ? (this.at.at + 0.5 - this.from) / this.shown : 0.5;
      const shown = Math.min(this.data.columns, Math.max(CLOSEST, this.shown * times));
      this.view(this.from + share * (this.shown - shown), shown);
    }

    /* The columns of each row in the order in which they are shown. */
    arrange() {
      const { rows, columns, group, quantities } = this.data;
      this.order = Array.from({ length: rows }, (_, row) => {
        const all = Array.from({ length: columns }, (_unused, column) => column);
        const at = (column) => row * columns + column;
        const size = quantities[0].values;
        if (this.isSorted) all.sort((a, b) => group[at(a)] - group[at(b)] || size[at(a)] - size[at(b)] || a - b);
        return all;
      });
    }

    /* The value with the strongest colour: 99 of 100 places have at most this. One scale per kind, or per row too. */
    end(quantity, row) {
      const { columns, quantities } = this.data;
      const key = `${quantity.kind} ${this.isByRow ? row : ""}`;
      if (!this.ends.has(key)) {
        const part = (values) => (this.isByRow && row !== null ? values.subarray(row * columns, (row + 1) * columns) : values);
        const sizes = quantities.filter((one) => one.kind === quantity.kind)
          .flatMap((one) => [...part(one.values)].filter((value) => !Number.isNaN(value)).map(Math.abs)).sort((a, b) => a - b);
        const top = sizes[Math.min(sizes.length - 1, Math.floor(SHARE * sizes.length))];
        this.ends.set(key, top || sizes[sizes.length - 1] || 1);
      }
      return this.ends.get(key);
    }

    words({ row, at }) {
      const { columns, group, groups, quantities } = this.data;
      const column = this.order[row][at];
      const place = row * columns + column;
      const values = quantities.map((one) => `${one.name}: ${Number.isNaN(one.values[place]) ? "not kept" : compact(one.values[place])}`);
      return [`${this.data.row} ${row + 1}, ${this.data.column} ${column + 1}, ${groups[group[place]]}`, ...values];
    }

    point(at, map = null, isSpoken = false) {
      this.at = at;
      for (const one of this.maps) one.show(at, one === map);
      if (at && isSpoken) this.spoken.textContent = this.words(at).join(". ");
    }

    move(event, map) {
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e9], End: [0, 1e9] }[event.key] ?? [0, 0];
      if (event.key === "Escape") this.point(null);
      const times = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
      if (times && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        const at = this.at;
        this.zoom(times);
        this.point(at, map);
      }
      if (!down && !right) return;
      event.preventDefault();
      const { rows, columns } = this.data;
      const within = (value, n) => Math.max(0, Math.min(n - 1, value));
      const from = this.at ?? { row: rows - 1, at: this.from - 1 };
      const to = { row: within(this.at ? from.row + down : from.row, rows), at: within(from.at + right, columns) };
      if (to.at < this.from || to.at >= this.from + this.shown) this.view(to.at - this.shown / 2, this.shown);
      this.point(to, map, true);
    }

    draw() {
      this.point(null);
      for (const one of this.maps) one.draw();
    }
  }

  const grids = [...document.querySelectorAll("figure.grid")].map((figure) => new Grid(figure));
  const redraw = () => grids.forEach((grid) => grid.draw());
  document.addEventListener("whest-theme", redraw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", redraw);
  window.addEventListener("afterprint", redraw);
})();
