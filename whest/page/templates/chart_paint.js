"use strict";
/* Painting on uPlot's canvas: lines, points, errors and guides, in the colours of the page's theme. */
const whestPaint = (() => {
  const [DOT, SPECK, MANY, CROWD] = [3, 2.2, 300, 60];
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);

  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };

  const inside = (u, paint) => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    paint(ctx, window.devicePixelRatio);
    ctx.restore();
  };

  /* Places on the canvas; NaN where a value is missing, or not positive on a log scale. */
  const place = (u, axis, value) =>
    (value == null || (u.scales[axis].distr === 3 && value <= 0) ? NaN : u.valToPos(value, axis, true));

  const places = (u, series) => series.x.map((x, i) => [place(u, "x", x), place(u, "y", series.y[i])]);
  const ends = (u, series, i) => {
    const bottom = u.bbox.top + u.bbox.height;
    const low = place(u, "y", series.low[i]);
    return [Number.isNaN(low) && series.low[i] != null ? bottom : low, place(u, "y", series.high[i])];
  };

  const line = (ctx, series, at) => {
    let isOpen = false;
    let before = 0;
    ctx.beginPath();
    for (const [x, y] of at) {
      if (Number.isNaN(x) || Number.isNaN(y)) { isOpen = false; continue; }
      if (isOpen && series.kind === "steps") ctx.lineTo(x, before);
      if (isOpen) ctx.lineTo(x, y); else ctx.moveTo(x, y);
      isOpen = true;
      before = y;
    }
    ctx.stroke();
  };

  const dots = (ctx, radius, at) => {
    ctx.beginPath();
    for (const [x, y] of at) {
      if (Number.isNaN(x) || Number.isNaN(y)) continue;
      ctx.moveTo(x + radius, y);
      ctx.arc(x, y, radius, 0, 2 * Math.PI);
    }
    ctx.fill();
  };

  const bars = (ctx, ratio, at, errors) => {
    ctx.beginPath();
    at.forEach(([x], i) => {
      const [low, high] = errors[i];
      if (Number.isNaN(x + low + high)) return;
      ctx.moveTo(x, low);
      ctx.lineTo(x, high);
      for (const y of [low, high]) { ctx.moveTo(x - 3 * ratio, y); ctx.lineTo(x + 3 * ratio, y); }
    });
    ctx.globalAlpha = at.length > CROWD ? 0.3 : 1;
    ctx.stroke();
    ctx.globalAlpha = 1;
  };

  const band = (ctx, at, errors) => {
    const known = at.map(([x], i) => [x, ...errors[i]]).filter((triple) => !triple.some(Number.isNaN));
    ctx.globalAlpha = 0.18;
    ctx.beginPath();
    for (const [x, , high] of known) ctx.lineTo(x, high);
    for (const [x, low] of known.reverse()) ctx.lineTo(x, low);
    ctx.fill();
    ctx.globalAlpha = 1;
  };

  const paint = (u, series) => inside(u, (ctx, ratio) => {
    const at = places(u, series);
    ctx.strokeStyle = colour(series.colour);
    ctx.fillStyle = ctx.strokeStyle;
    ctx.lineJoin = "round";
    ctx.lineWidth = (series.faint ? 0.8 : 1.8) * ratio;
    if (series.low.length) {
      const errors = at.map((_, i) => ends(u, series, i));
      if (series.band) band(ctx, at, errors); else bars(ctx, ratio, at, errors);
    }
    const isDense = at.length > MANY;
    if (series.faint) ctx.globalAlpha = isDense ? 0.45 : 0.65;
    if (series.dashed) ctx.setLineDash([5 * ratio, 4 * ratio]);
    if (series.kind !== "points") line(ctx, series, at);
    if (series.kind === "points" || series.kind === "both") dots(ctx, (isDense ? SPECK : DOT) * ratio, at);
  });

  const guide = (u, one) => inside(u, (ctx, ratio) => {
    const { left, top, width, height } = u.bbox;
    ctx.strokeStyle = colour(one.colour);
    ctx.lineWidth = 1.2 * ratio;
    if (one.dashed) ctx.setLineDash([3 * ratio, 3 * ratio]);
    const at = one.x != null ? place(u, "x", one.x) : place(u, "y", one.y);
    if (Number.isNaN(at)) return;
    ctx.beginPath();
    if (one.x != null) { ctx.moveTo(at, top); ctx.lineTo(at, top + height); }
    else { ctx.moveTo(left, at); ctx.lineTo(left + width, at); }
    ctx.stroke();
  });

  return { colour, paint, guide, place };
})();
