// The probability that a query returns a document, as simindex.tuning.match_probability works it out:
// the estimate has to reach the threshold, and one of the bands has to agree in its first bits.
(function () {
  "use strict";
  const VALUES = 256, BAND_ROWS = 8, BLOCK_ROWS = 128, ROUNDS = 3, ROUNDING = 1e-9, RECALL = 0.95;

  function logFactorials(n) {
    const sums = [0];
    for (let k = 1; k <= n; k++) sums.push(sums[k - 1] + Math.log(k));
    return sums;
  }

  // The variance of the share of agreeing rows, divided by that of independent rows.
  function spread(rows, shingles) {
    if (shingles < 2) return 1;
    const oneEmpty = (1 - 1 / BLOCK_ROWS) ** shingles, bothEmpty = (1 - 2 / BLOCK_ROWS) ** shingles;
    let sameRound = 0;
    for (let round = 0; round < ROUNDS; round++) sameRound += (1 - 2 * oneEmpty + bothEmpty) * bothEmpty ** round;
    const rest = rows % BLOCK_ROWS;
    const others = ((rows - rest) * (BLOCK_ROWS - 1) + rest * (rest - 1)) / rows;
    return 1 - (others * sameRound) / (shingles - 1);
  }

  // Logarithms of C(size, k) for k = 0..most, -Infinity beyond; the size need be no whole number.
  function logChoices(size, most) {
    const sums = logFactorials(most), found = [0];
    let sum = 0;
    for (let k = 1; k <= most; k++) {
      sum += k < size + 1 ? Math.log(size - k + 1) : -Infinity;
      found.push(sum - sums[k]);
    }
    return found;
  }

  // Probability of each number of agreeing rows, for a Jaccard similarity and the different shingles of both texts.
  function oddsOfAgreement(similarity, rows, shingles) {
    const p = similarity + (1 - similarity) / VALUES;
    if (p === 1) return Array.from({ length: rows + 1 }, (_, k) => Number(k === rows));
    let share = 1;
    if (Number.isFinite(shingles) && similarity > 0) {
      const equal = (similarity * (1 - similarity) * (1 - 1 / VALUES) ** 2) / (p * (1 - p));
      share = 1 - equal * (1 - spread(rows, shingles));
    }
    let logs;
    if (share < 1 - ROUNDING) {
      const size = (rows - share) / (1 - share);
      const agree = logChoices(size * p, rows), differ = logChoices(size * (1 - p), rows);
      logs = agree.map((log, k) => log + differ[rows - k]);
    } else {
      logs = logChoices(rows, rows).map((log, k) => log + k * Math.log(p) + (rows - k) * Math.log1p(-p));
    }
    const most = Math.max(...logs), odds = logs.map((log) => Math.exp(log - most));
    const sum = odds.reduce((all, one) => all + one);
    return odds.map((one) => one / sum);
  }

  // Leading bits of a band that a query compares: the most by which RECALL of those at the threshold are candidates.
  function comparedBits(threshold, bands) {
    for (let bits = 64; bits > 1; bits--) {
      const different = 1 - threshold, whole = Math.floor(bits / 8);
      const agree = (threshold + different / VALUES) ** whole * (threshold + different / 2 ** (bits % 8));
      if (1 - (1 - agree) ** bands >= RECALL) return roundedDown(bits);
    }
    return 1;
  }

  // From three whole rows on only whole rows are compared.
  function roundedDown(bits) {
    return bits < 3 * BAND_ROWS ? bits : bits - (bits % BAND_ROWS);
  }

  // Of rows that agree at random places, how likely do they fill the leading bits of some band?
  function candidateShares(rows, bits) {
    const whole = Math.floor(bits / 8), sums = logFactorials(Math.max(rows, 8));
    const byChance = ((VALUES >> (bits % 8)) - 1) / (VALUES - 1);
    const choose = (n, k) => Math.round(Math.exp(sums[n] - sums[k] - sums[n - k]));
    // Ways to place k agreeing rows in a band so that its prefix does not agree.
    const unfilled = [];
    for (let k = 0; k <= BAND_ROWS; k++) {
      const left = BAND_ROWS - 1 - whole, more = k - whole;
      let filled = whole === BAND_ROWS ? Number(k === BAND_ROWS) : 0;
      if (left >= 0 && more > 0 && more - 1 <= left) filled += choose(left, more - 1);
      if (left >= 0 && more >= 0 && more <= left) filled += byChance * choose(left, more);
      unfilled.push(choose(BAND_ROWS, k) - filled);
    }
    let ways = [1];
    for (let band = 0; band < rows / BAND_ROWS; band++) {
      const next = new Array(ways.length + BAND_ROWS).fill(0);
      ways.forEach((count, agree) => unfilled.forEach((more, k) => { next[agree + k] += count * more; }));
      ways = next;
    }
    return ways.map((count, agree) => 1 - count * Math.exp(-(sums[rows] - sums[agree] - sums[rows - agree])));
  }

  // The least number of agreeing rows whose estimate reaches the threshold.
  function leastAgreeing(threshold, rows) {
    for (let k = 0; k <= rows; k++) {
      if (Math.max(0, (k / rows - 1 / VALUES) / (1 - 1 / VALUES)) >= threshold - ROUNDING) return k;
    }
    return rows;
  }

  function returned(similarity, threshold, rows, shingles = Infinity) {
    const odds = oddsOfAgreement(similarity, rows, shingles);
    const shares = candidateShares(rows, comparedBits(threshold, rows / BAND_ROWS));
    let sum = 0;
    for (let k = leastAgreeing(threshold, rows); k <= rows; k++) sum += odds[k] * shares[k];
    return Math.min(1, sum);
  }

  globalThis.simindexCurve = { returned };
  const place = typeof document === "undefined" ? null : document.getElementById("s-curve");
  if (!place) return;

  const svg = place.querySelector("svg"), body = place.querySelector("tbody");
  const sliders = ["threshold", "rows", "length"].map((id) => place.querySelector("#" + id));
  const LENGTHS = [10, 20, 50, 100, 200, 500, 1000, 5000];
  // Measured: microseconds to sketch a text of these lengths with 128 rows, and for each 128 rows more.
  const SKETCHING = [0.5, 0.66, 1.31, 2.0, 3.23, 7.02, 13.2, 66.7], MORE = [0.14, 0.25, 0.51, 0.57, 0.76, 1.28, 2.26, 6.5];
  const x = (similarity) => 40 + 580 * similarity, y = (chance) => 260 - 240 * chance;

  function line(points, style) {
    return `<polyline fill="none" points="${points.map((p) => p.join(",")).join(" ")}" ${style}/>`;
  }

  function draw() {
    const [threshold, rows, place] = sliders.map((slider) => Number(slider.value)), length = LENGTHS[place];
    const shown = [threshold, rows, length];
    sliders.forEach((slider, k) => { slider.parentNode.querySelector("output").textContent = shown[k]; });
    // Two texts of so many shingles each have this many different ones together.
    const chance = (s) => returned(s, threshold, rows, Math.round((2 * length) / (1 + s)));
    const points = [];
    for (let k = 0; k <= 200; k++) points.push([x(k / 200), y(chance(k / 200))]);
    let drawn = line([[x(0), y(1)], [x(0), y(0)], [x(1), y(0)]], 'stroke="currentColor"');
    drawn += line([[x(threshold), y(0)], [x(threshold), y(1)]], 'stroke="#8a8f98" stroke-dasharray="4"');
    drawn += line(points, 'stroke="#1b6ca8" stroke-width="3"');
    for (const tick of [0, 0.2, 0.4, 0.6, 0.8, 1]) {
      drawn += `<text x="${x(tick)}" y="282" text-anchor="middle" font-size="14" fill="currentColor">${tick}</text>`;
      drawn += `<text x="32" y="${y(tick) + 5}" text-anchor="end" font-size="14" fill="currentColor">${tick}</text>`;
    }
    drawn += '<text x="330" y="298" text-anchor="middle" font-size="14" fill="currentColor">similarity</text>';
    svg.innerHTML = drawn;
    const steps = [-0.08, -0.04, 0, 0.04, 0.08].map((step) => threshold + step).filter((s) => s > 0 && s <= 1);
    body.innerHTML =
      "<tr><th>similarity</th>" + steps.map((s) => `<td>${s.toFixed(2)}</td>`).join("") + "</tr>" +
      "<tr><th>found</th>" + steps.map((s) => `<td>${chance(s).toFixed(2)}</td>`).join("") + "</tr>" +
      "<tr><th>missed</th>" + steps.map((s) => `<td>${(1 - chance(s)).toFixed(2)}</td>`).join("") + "</tr>" +
      `<tr><th>bytes</th><td colspan="${steps.length}">${rows + 12 * rows / BAND_ROWS}</td></tr>` +
      `<tr><th>time</th><td colspan="${steps.length}">${(SKETCHING[place] + MORE[place] * (rows / 128 - 1)).toFixed(1)} µs</td></tr>`;
  }

  sliders.forEach((slider) => slider.addEventListener("input", draw));
  draw();
})();
