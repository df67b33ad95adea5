"use strict";
/* The words of a chart: its points in a sentence, and its data as a table. All text is set as text, never as HTML. */
const whestWords = (() => {
  const { compact, moment } = whestTicks;
  const MOST_ROWS = 400;

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  const word = (column, i) => (column.of.length ? column.words[column.of[i]] : "");
  const error = (series, i) => {
    const [low, high, value] = [series.low[i], series.high[i], series.y[i]];
    if (low == null || high == null) return "";
    const [down, up] = [value - low, high - value];
    const isEven = Math.abs(up - down) <= 0.02 * Math.max(Math.abs(up), Math.abs(down));
    return isEven ? ` ± ${compact(up, 2)}` : ` (${compact(low, 3)} to ${compact(high, 3)})`;
  };

  const across = (data, value) => (data.x.time ? moment(value) : compact(value));

  /* [name, lines]: what a point is, and its two values. */
  const describe = (data, series, i) => {
    const names = [word(series.names, i), word(series.notes, i)].filter(Boolean);
    const name = names.length ? names.join(", ") : series.name;
    const own = names.length && data.series.length > 1 ? [series.name] : [];
    const values = [
      `${data.y.label}: ${compact(series.y[i])}${error(series, i)}`,
      `${data.x.label}: ${across(data, series.x[i])}`,
    ];
    return [name, [...own, ...values]];
  };

  const row = (cells, tag = "td") => make("tr", {}, ...cells.map((cell, place) => {
    const made = make(tag, tag === "th" ? { scope: "col" } : {}, cell);
    if (place > 0 && tag === "td") made.className = "number";
    return made;
  }));

  const known = (values) => values.filter((value) => value != null);
  const spread = (values, show = compact) => {
    const found = known(values);
    const mean = found.reduce((sum, value) => sum + value, 0) / found.length;
    return found.length ? [Math.min(...found), mean, Math.max(...found)].map((value) => show(value)) : ["–", "–", "–"];
  };

  const points = (data) => data.series.flatMap((series) => series.x.map((_, i) => [series, i]))
    .filter(([series, i]) => series.y[i] != null);

  /* Every point if they are few, else each series' smallest, mean and largest value. */
  const table = (data) => {
    const all = points(data);
    const isDense = all.length > MOST_ROWS;
    const head = isDense
      ? ["series", "points", ...["x", "y"].flatMap((axis) => ["smallest", "mean", "largest"].map((what) => `${what} ${data[axis].label}`))]
      : ["series", "point", data.x.label, data.y.label];
    const rows = isDense
      ? data.series.map((series) => [series.name, String(known(series.y).length), ...spread(series.x, (value) => across(data, value)), ...spread(series.y)])
      : all.map(([series, i]) => [
        series.name,
        [word(series.names, i), word(series.notes, i)].filter(Boolean).join(", ") || "–",
        across(data, series.x[i]),
        compact(series.y[i]) + error(series, i),
      ]);
    const guides = data.guides.map((guide) => `${guide.name}: ${compact(guide.x ?? guide.y)}`).join("; ");
    const words = isDense ? `${all.length} points, in short` : `${all.length} points`;
    const caption = make("caption", {}, make("span", {}, guides ? `${words}. ${guides}.` : `${words}.`));
    const body = make("tbody", {}, ...rows.map((cells) => row(cells)));
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "the chart's data" },
      make("table", {}, caption, make("thead", {}, row(head, "th")), body));
  };

  /* A folded table, made when it is opened for the first time. */
  const fold = (data) => {
    const details = make("details", { class: "data" }, make("summary", {}, "Data as a table"));
    details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(table(data)); });
    return details;
  };

  return { make, describe, fold };
})();
