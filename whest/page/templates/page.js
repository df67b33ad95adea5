"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const stored = (() => { try { return localStorage.getItem("whest-theme"); } catch { return null; } })();
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => { button.textContent = isDark() ? "Light theme" : "Dark theme"; };
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  button.hidden = false;
  name();
  system.addEventListener("change", name);
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("whest-theme", root.dataset.theme); } catch { /* a sandboxed frame can't store it */ }
    name();
    document.dispatchEvent(new Event("whest-theme"));
  });

  const compare = (isNumeric) => (a, b) =>
    isNumeric ? Number(a) - Number(b) : a.localeCompare(b, undefined, { numeric: true });
  const sort = (header) => {
    const table = header.closest("table");
    const body = table.tBodies[0];
    const column = header.cellIndex;
    const direction = header.ariaSort === "ascending" ? -1 : 1;
    const order = compare(header.classList.contains("number"));
    const key = (row) => row.cells[column].dataset.sort;
    const rows = [...body.rows].sort((a, b) => {
      if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
      return direction * order(key(a), key(b));
    });
    for (const other of table.tHead.rows[0].cells) other.ariaSort = "none";
    header.ariaSort = direction === 1 ? "ascending" : "descending";
    body.append(...rows);
  };
  for (const header of document.querySelectorAll("thead th")) {
    header.querySelector("button")?.addEventListener("click", () => sort(header));
  }

  for (const choice of document.querySelectorAll(".choice")) {
    const label = choice.querySelector("label");
    const select = label.querySelector("select");
    const options = [...choice.children].filter((child) => child.className === "option");
    const show = () => options.forEach((option, i) => { option.hidden = i !== select.selectedIndex; });
    label.hidden = false;
    select.addEventListener("change", show);
    show();
  }

  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    window.getSelection().removeAllRanges();
    window.getSelection().addRange(range);
  };
  for (const copy of document.querySelectorAll("button.copy")) {
    const text = copy.nextElementSibling;
    copy.hidden = false;
    copy.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(text.textContent); copy.textContent = "Copied"; }
      catch { select(text); copy.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl+C"; }
      setTimeout(() => { copy.textContent = "Copy"; }, 2000);
    });
  }
})();
