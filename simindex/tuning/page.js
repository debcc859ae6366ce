// The page of `tune`: shows what was found, and lets a person label pairs, one after the other.

const percent = (share) => `${(100 * share).toFixed(1)} %`;

// A table of rows of cells; the first row has the titles. Lines break between words alone, never in "0.78-1.00".
function fill(id, [titles, ...rows], marked) {
  const words = (cell) => cell.split(" ").flatMap((word, n) => [n ? " " : "", make("span", {}, word)]);
  const row = (cells, kind, attributes) => make("tr", attributes, ...cells.map((cell) => make(kind, kind === "th" ? {scope: "col"} : {}, ...words(cell))));
  byId(id).append(make("thead", {}, row(titles, "th", {})),
    make("tbody", {}, ...rows.map((cells) => row(cells, "td", cells[0] === marked ? {class: "advised"} : {}))));
}

function showFindings() {
  byId("source").textContent = escaped(data.source);
  byId("sample").append(...data.sample.map(([name, figure]) => make("tr", {}, make("th", {scope: "row"}, name), make("td", {}, figure))));
  byId("notes").textContent = data.notes.join(" ");
  byId("notes").hidden = !data.notes.length;
  const most = Math.max(...data.histogram, 1);
  const titles = data.histogram.map((pairs, n) => `${(0.2 + n / 100).toFixed(2)}: ${count(pairs, "pair")}`);
  byId("histogram-title").textContent = `Pairs by exact similarity (${data.shingles}), up to ${count(most, "pair")}; heights by square root`;
  chart(byId("histogram"), data.histogram.map(Math.sqrt), Math.sqrt(most), titles, titles.join(", "), "0.20", "1.00");
  for (const pair of data.examples) {
    const text = (n) => make("p", {}, make("span", {class: "key"}, escaped(pair.keys[n])), " ", make("span", {class: "soft"}, pair.texts[n]));
    byId("examples").append(make("li", {}, make("b", {}, pair.similarity), text(0), text(1)));
  }
  byId("examples-part").hidden = !data.examples.length;
  fill("settings", data.settings, data.advised);
  byId("reason").textContent = data.reason;
  byId("paste").textContent = data.paste;
}

function drawn(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  return element;
}

// Precision and recall along the threshold, and where the advised one is; data.curve is [threshold, precision, recall].
function showCurve() {
  if (!data.curve.length) return;
  byId("curve-figure").hidden = byId("measures-part").hidden = false;
  fill("measures", data.measures, data.curve_name);
  const [first, last] = [data.curve[0][0], data.curve.at(-1)[0]];
  const x = (threshold) => (100 * (threshold - last)) / (first - last);
  const line = (place) => data.curve.map((point) => `${x(point[0]).toFixed(2)},${(100 - 100 * point[place]).toFixed(2)}`).join(" ");
  const svg = drawn("svg", {viewBox: "0 0 100 100", preserveAspectRatio: "none"});
  const at = x(data.threshold);
  svg.append(drawn("line", {x1: 0, x2: 100, y1: 100, y2: 100}), drawn("line", {x1: at, x2: at, y1: 0, y2: 100}),
    drawn("polyline", {points: line(1)}), drawn("polyline", {class: "recall", points: line(2)}));
  byId("curve").append(svg);
  byId("curve").setAttribute("aria-label", data.curve.map((point) => `${point[0]}: ${percent(point[1])}, ${percent(point[2])}`).join("; "));
  byId("curve").after(make("div", {class: "axis"}, make("span", {}, String(last)), make("span", {}, String(first))));
  byId("curve-title").textContent = `Precision, and recall (dashed), by the threshold (${data.curve_name}); advised: ${data.threshold}`;
}

// ---- labels ----

const WORDS = {y: "yes", n: "no", s: "skip"};
const STORED = `simindex tune ${data.digest}`;
let verdicts = data.pairs.map(() => null);
let at = 0;

function remember() {
  try { localStorage.setItem(STORED, JSON.stringify(verdicts)); } catch { /* the browser stores nothing for files */ }
}

function recall() {
  try { verdicts = JSON.parse(localStorage.getItem(STORED)) ?? verdicts; } catch { /* as above */ }
  const next = verdicts.indexOf(null);
  at = next < 0 ? verdicts.length : next;
}

function side(own, other, key) {
  const marks = passages(own, other);
  const share = marks.length ? marks.filter(Boolean).length / marks.length : 0;
  return make("section", {}, make("span", {class: "key"}, escaped(key)),
    make("span", {class: "soft"}, ` ${Math.round(100 * share)} % shared`), markedText(own, marks));
}

function showPair() {
  const done = verdicts.filter((verdict) => verdict !== null).length;
  const pair = data.pairs[at];
  const where = pair ? `Pair ${at + 1} of ${at < data.enough ? data.enough : data.pairs.length}` : "That was the last pair: save them";
  const enough = done >= data.enough && done < data.pairs.length
    ? ` ${data.enough} are enough, unless the least similar of them were wanted, too: the others are less similar.` : "";
  byId("progress").textContent = `${where}; ${done} done.${enough}`;
  for (const [letter, id] of Object.entries(WORDS)) {
    byId(id).disabled = !pair;
    byId(id).setAttribute("aria-pressed", String(verdicts[at] === letter));
  }
  byId("back").disabled = !at;
  byId("save").disabled = !done;
  const [a, b] = pair ? pair.forms.map(unpack) : [];
  byId("pair").replaceChildren(...(pair ? [side(a, b, pair.keys[0]), side(b, a, pair.keys[1])] : []));
}

function say(letter) {
  if (at >= data.pairs.length) return;
  verdicts[at++] = letter;
  remember();
  showPair();
}

function back() {
  if (at) at--;
  showPair();
}

// A line is what Python wrote of the pair's ids, so that no number changes on the way.
function saved() {
  return data.pairs.map((pair, n) => verdicts[n] && `${pair.line.slice(0, -1)}, "verdict": "${verdicts[n] === "s" ? "skip" : verdicts[n]}"}\n`)
    .filter(Boolean).join("");
}

function save() {
  const link = make("a", {download: "pairs.jsonl", href: URL.createObjectURL(new Blob([saved()], {type: "application/jsonl"}))});
  link.click();
  URL.revokeObjectURL(link.href);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key in WORDS) say(event.key);
  if (event.key === "b") back();
}

showFindings();
showCurve();
recall();
showPair();
for (const [letter, id] of Object.entries(WORDS)) byId(id).addEventListener("click", () => say(letter));
byId("back").addEventListener("click", back);
byId("save").addEventListener("click", save);
addEventListener("keydown", onKey);
document.documentElement.dataset.ready = "yes";
