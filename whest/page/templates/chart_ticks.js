"use strict";
/* Ticks of an axis: round values, and only as many as have room for their labels. */
const whestTicks = (() => {
  const FINEST = 24;
  const decade = (value) => Math.floor(Math.log10(value) + 1e-9);
  const minus = (text) => text.replace(/-/g, "\u2212");

  /* A number with few digits: 0.012, 35, 1.5e−6. */
  const compact = (value, digits = 4) => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e-3 && size < 1e6) return minus(String(Number(value.toPrecision(digits))));
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    return minus(`${Number(mantissa)}e${Number(exponent)}`);
  };

  /* The labels of a linear axis have as many decimals as its step, and one power of ten. */
  const label = (value, step, largest) => {
    const power = largest >= 1e6 || largest < 1e-3 ? decade(largest) : 0;
    const decimals = Math.max(0, power - decade(step));
    if (Math.abs(value) < step / 2) return "0";
    return minus((value / 10 ** power).toFixed(decimals) + (power ? `e${power}` : ""));
  };

  const multiples = (low, high, step) => {
    const first = Math.ceil(low / step - 1e-9);
    const last = Math.floor(high / step + 1e-9);
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
  };

  function* linear(low, high, whole) {
    const largest = Math.max(Math.abs(low), Math.abs(high));
    const start = decade((high - low) / FINEST);
    for (let i = 0; i < 40; i += 1) {
      const step = [1, 2, 5][i % 3] * 10 ** (start + Math.floor(i / 3));
      if (whole && step < 1) continue;
      yield multiples(low, high, step).map((value) => [value, label(value, step, largest)]);
    }
  }

  function* powers(low, high) {
    const [first, last] = [decade(low), decade(high)];
    const sets = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 5], [1, 3], [1]];
    const strides = [[sets[0], 1], [sets[1], 1], [sets[2], 1], [sets[3], 1]];
    for (const stride of [2, 3, 4, 5, 6, 8, 10, 20, 50, 100]) strides.push([sets[3], stride]);
    for (const [factors, stride] of strides) {
      const found = [];
      for (let power = first; power <= last; power += 1) {
        if (power % stride) continue;
        for (const factor of factors) {
          const value = Number(`${factor}e${power}`);
          if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) found.push([value, compact(value)]);
        }
      }
      yield found;
    }
  }

  /* The finest ticks whose labels have room. `fits` takes pairs of a value and its label. */
  const choose = (low, high, isLog, whole, fits) => {
    if (isLog) {
      let isFirst = true;
      for (const ticks of powers(low, high)) {
        if (isFirst && ticks.length < 2) break;
        if (fits(ticks) && ticks.length > 1) return ticks;
        isFirst = false;
      }
    }
    for (const ticks of linear(low, high, whole)) if (fits(ticks)) return ticks;
    return [];
  };

  return { choose, compact };
})();
