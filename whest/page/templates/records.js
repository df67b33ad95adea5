"use strict";
/* Records: filter, sort, turn pages, star, write notes. All text is set as text, never as HTML. */
(() => {
  const { make } = whestWords;
  const ALL = "all";
  const text = (cell) => (cell == null ? "" : Array.isArray(cell) ? cell.join(", ") : typeof cell === "object" ? cell.t : String(cell));
  const sortKey = (cell) => (cell != null && typeof cell === "object" && !Array.isArray(cell) && "s" in cell ? cell.s : text(cell));
  const words = (cell) => (Array.isArray(cell) ? cell : text(cell) ? [text(cell)] : []);

  /* The reader's own stars and notes; lost at the end where the browser keeps nothing. */
  class Kept {
    constructor(name) {
      this.name = name;
      this.found = new Map();
      try { this.found = new Map(Object.entries(JSON.parse(localStorage.getItem(name) ?? "{}"))); } catch { /* nothing is kept */ }
    }
    of(key) {
      const found = this.found.get(key);
      return { star: found?.star === true, note: typeof found?.note === "string" ? found.note : "" };
    }
    set(key, change) {
      const now = { ...this.of(key), ...change };
      if (now.star || now.note) this.found.set(key, now); else this.found.delete(key);
      try { localStorage.setItem(this.name, JSON.stringify(Object.fromEntries(this.found))); } catch { /* a sandboxed frame */ }
    }
  }

  class Records {
    constructor(root) {
      this.root = root;
      this.data = JSON.parse(root.querySelector("script[type='application/json']").textContent);
      this.kept = new Kept(this.data.store);
      this.page = 0;
      this.sorted = null;
      this.filters = [];
      this.furnish();
      this.show();
    }

    furnish() {
      this.tools = make("div", { class: "tools", role: "search" });
      this.count = make("p", { class: "count", role: "status" });
      this.body = make("tbody");
      this.heads = [this.head("★", 0), ...this.data.columns.map((column, i) => this.head(column.name, i + 1, column)), this.head("note", this.data.columns.length + 1)];
      const caption = make("caption", {}, make("span", {}, this.root.dataset.caption));
      const table = make("table", {}, caption, make("thead", {}, make("tr", {}, ...this.heads)), this.body);
      const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": this.root.dataset.caption }, table);
      this.back = this.turn("Previous", -1);
      this.on = this.turn("Next", 1);
      this.place = make("span");
      const pager = make("nav", { class: "pager", "aria-label": "Pages" }, this.back, this.place, this.on);
      this.addFilters();
      this.root.replaceChildren(this.tools, this.count, scroll, pager);
    }

    head(name, place, column = {}) {
      const button = make("button", { type: "button" }, name);
      if (column.note) button.title = column.note;
      if (name === "★") button.setAttribute("aria-label", "starred");
      const head = make("th", { scope: "col", "aria-sort": "none" }, button);
      if (column.number) head.className = "number";
      button.addEventListener("click", () => {
        const direction = head.ariaSort === "ascending" ? -1 : 1;
        for (const other of this.heads) other.ariaSort = "none";
        head.ariaSort = direction === 1 ? "ascending" : "descending";
        this.sorted = { place, direction };
        this.page = 0;
        this.show();
      });
      return head;
    }

    turn(name, by) {
      const button = make("button", { type: "button" }, name);
      button.addEventListener("click", () => { this.page += by; this.show(); });
      return button;
    }

    /* A control of the toolbar, and the test that its value means. */
    add(name, control, test) {
      control.addEventListener("input", () => { this.page = 0; this.show(); });
      this.filters.push({ control, test });
      const label = make("label", {}, ...(control.type === "checkbox" ? [control, name] : [name, control]));
      if (control.type === "checkbox") label.className = "tick";
      this.tools.append(label);
    }

    addFilters() {
      const { columns, rows } = this.data;
      const search = make("input", { type: "search", placeholder: "any words" });
      this.add("Search", search, (row, value) => {
        const all = [...row.slice(1).map(text), this.kept.of(row[0]).note].join(" ").toLowerCase();
        return value.toLowerCase().split(/\s+/).every((word) => all.includes(word));
      });
      columns.forEach((column, i) => {
        if (column.filter) this.addChoice(column.name, rows, i + 1);
        if (!column.date) return;
        const on = (row) => String(sortKey(row[i + 1])).slice(0, 10);
        this.add("From", make("input", { type: "date" }), (row, value) => on(row) !== "" && on(row) >= value);
        this.add("To", make("input", { type: "date" }), (row, value) => on(row) !== "" && on(row) <= value);
      });
      this.add("starred only", make("input", { type: "checkbox" }), (row) => this.kept.of(row[0]).star);
      const clear = make("button", { type: "button", class: "tool" }, "Clear");
      clear.addEventListener("click", () => {
        for (const { control } of this.filters) {
          if (control.type === "checkbox") control.checked = false; else control.value = control.tagName === "SELECT" ? ALL : "";
        }
        this.page = 0;
        this.show();
      });
      this.tools.append(clear);
    }

    addChoice(name, rows, place) {
      const counts = new Map();
      for (const row of rows) for (const word of words(row[place])) counts.set(word, (counts.get(word) ?? 0) + 1);
      if (!counts.size) return;
      const options = [...counts.keys()].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
      const select = make("select", {}, make("option", { value: ALL }, ALL), ...options.map((word, i) => make("option", { value: String(i) }, `${word} (${counts.get(word)})`)));
      this.add(name, select, (row, value) => words(row[place]).includes(options[Number(value)]));
    }

    chosen() {
      const active = this.filters.map(({ control, test }) => {
        const value = control.type === "checkbox" ? (control.checked ? "on" : "") : control.value === ALL && control.tagName === "SELECT" ? "" : control.value.trim();
        return value ? (row) => test(row, value) : null;
      }).filter(Boolean);
      const rows = this.data.rows.filter((row) => active.every((test) => test(row)));
      if (!this.sorted) return rows;
      const { place, direction } = this.sorted;
      const last = this.data.columns.length + 1;
      const key = (row) => {
        if (place === 0) return this.kept.of(row[0]).star ? 0 : 1;
        return place === last ? this.kept.of(row[0]).note : sortKey(row[place]);
      };
      const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
      const isEmpty = (value) => value == null || value === "";
      return rows.map((row) => [key(row), row]).sort(([a], [b]) => {
        if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);
        return direction * order(a, b);
      }).map(([, row]) => row);
    }

    show() {
      const rows = this.chosen();
      const { size } = this.data;
      const last = Math.max(0, Math.ceil(rows.length / size) - 1);
      this.page = Math.min(Math.max(this.page, 0), last);
      const first = this.page * size;
      this.body.replaceChildren(...rows.slice(first, first + size).map((row) => this.row(row)));
      const all = this.data.rows.length;
      this.count.textContent = `${rows.length.toLocaleString("en")} of ${all.toLocaleString("en")} rows`;
      this.place.textContent = rows.length ? `${first + 1} to ${Math.min(first + size, rows.length)} of ${rows.length.toLocaleString("en")}` : "none";
      this.back.disabled = this.page === 0;
      this.on.disabled = this.page === last;
    }

    row(row) {
      const cells = this.data.columns.map((column, i) => {
        const cell = row[i + 1];
        const { h: href, o: tone } = cell ?? {};
        const made = make("td", { class: [column.number ? "number" : "", tone ?? ""].join(" ").trim() }, href ? make("a", { href }, text(cell)) : text(cell));
        made.dataset.sort = String(sortKey(cell) ?? "");
        if (text(cell).length > 30) made.title = text(cell);
        return made;
      });
      return make("tr", {}, this.star(row[0], text(row[1])), ...cells, this.note(row[0], text(row[1])));
    }

    star(key, name) {
      const button = make("button", { type: "button", class: "star" });
      const show = () => {
        const isOn = this.kept.of(key).star;
        button.textContent = isOn ? "★" : "☆";
        button.setAttribute("aria-pressed", String(isOn));
        button.setAttribute("aria-label", `star ${name}`);
      };
      button.addEventListener("click", () => { this.kept.set(key, { star: !this.kept.of(key).star }); show(); });
      show();
      return make("td", {}, button);
    }

    /* A note: a button that becomes a field. Enter keeps it, Escape does not. */
    note(key, name) {
      const cell = make("td");
      const close = (isFocused) => {
        const { note } = this.kept.of(key);
        const button = make("button", { type: "button", class: note ? "" : "empty", "aria-label": note ? `note: ${note}` : `add a note to ${name}` }, note || "add");
        if (note) button.title = note;
        button.addEventListener("click", open);
        cell.replaceChildren(button);
        if (isFocused) button.focus();
      };
      const open = () => {
        const field = make("input", { type: "text", maxlength: "500", "aria-label": `note to ${name}` });
        let isOpen = true;
        const end = (isKept, isFocused) => {
          if (!isOpen) return;
          isOpen = false;
          if (isKept) this.kept.set(key, { note: field.value.trim() });
          close(isFocused);
        };
        field.value = this.kept.of(key).note;
        field.addEventListener("keydown", (event) => {
          if (event.key !== "Enter" && event.key !== "Escape") return;
          event.preventDefault(); // or the same key would press the button that gets the focus
          end(event.key === "Enter", true);
        });
        field.addEventListener("blur", () => end(true, false));
        cell.replaceChildren(field);
        field.focus();
      };
      close(false);
      return cell;
    }
  }

  document.querySelectorAll("div.records").forEach((root) => new Records(root));
})();
