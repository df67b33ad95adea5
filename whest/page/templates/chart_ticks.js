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

  /* A moment, in seconds since 1970, as a date and a time of UTC. */
  const moment = (seconds) => {
    const date = new Date(seconds * 1000);
    return Number.isNaN(date.getTime()) ? "–" : date.toISOString().slice(0, 16).replace("T", " ");
  };

  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
  const [MINUTE, HOUR, DAY] = [60, 3600, 86400];
  const day = (date) => `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  const clock = (date) => date.toISOString().slice(11, 16);

  /* The first of every so many months. */
  const months = (low, high, stride) => {
    const [first, last] = [new Date(low * 1000), new Date(high * 1000)];
    const count = (date) => 12 * date.getUTCFullYear() + date.getUTCMonth();
    return multiples(count(first), count(last), stride).map((month) => Date.UTC(Math.floor(month / 12), month % 12) / 1000)
      .filter((value) => value >= low && value <= high);
  };

  function* dates(low, high) {
    const steps = [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE).concat([1, 2, 3, 6, 12].map((n) => n * HOUR), [1, 2, 5, 10].map((n) => n * DAY));
    for (const step of steps) {
      if ((high - low) / step > 60) continue;
      const name = (date) => (step >= DAY || date.getTime() % (DAY * 1000) === 0 ? day(date) : clock(date));
      yield multiples(low, high, step).map((value) => [value, name(new Date(value * 1000))]);
    }
    for (const stride of [1, 3, 6, 12, 24, 60, 120, 600]) {
      const name = (date) => (stride >= 12 ? String(date.getUTCFullYear()) : `${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`);
      yield months(low, high, stride).map((value) => [value, name(new Date(value * 1000))]);
    }
  }

  /* The finest ticks whose labels have room. `fits` takes pairs of a value and its label. */
  const choose = (low, high, isLog, whole, fits, isTime = false) => {
    if (isTime) {
      for (const ticks of dates(low, high)) if (fits(ticks)) return ticks;
      return [];
    }
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

  return { choose, compact, moment };
})();
