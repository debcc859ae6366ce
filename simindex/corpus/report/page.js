// The report: reads the data and shows it.

const PAGE = 100; // clusters that are shown in one go

// ---- counts and charts ----

function showOverview() {
  byId("source").textContent = `${escaped(data.source)} \u00b7 ${data.measure}`;
  byId("title").textContent = data.title;
  byId("clusters-title").textContent = data.clusters_title;
  for (const [name, figure] of data.figures) {
    byId("figures").append(make("div", {}, make("dt", {}, name), make("dd", {}, figure)));
  }
  byId("limits").textContent = data.notes.join(" ");
  byId("limits").hidden = !data.notes.length;
  document.querySelector(".charts").hidden = !data.histogram.length;
  if (!data.histogram.length) return;
  const [labels, pairs] = [data.histogram.map((bar) => bar[0]), data.histogram.map((bar) => bar[1])];
  const highest = Math.max(...pairs, 1);
  byId("histogram-title").textContent = `${data.histogram_title}, up to ${count(highest, "pair")} a bar`;
  chart(byId("histogram"), pairs, highest, labels.map((label, n) => `${label}: ${count(pairs[n], "pair")}`),
    labels.map((label, n) => `${label}: ${pairs[n]}`).join(", "), labels[0] ?? "", labels.at(-1) ?? "");
  byId("fresh-title").textContent = `${data.fresh_title}, up to 100 %`;
  const percent = data.fresh.map((part) => `${Math.round(100 * part)} %`);
  chart(byId("fresh"), data.fresh, 1, percent, `${data.fresh_title}, in equal parts: ${percent.join(", ")}`, `first ${data.noun}`, "last");
}

// ---- clusters ----

const searched = data.clusters.map((cluster) =>
  cluster.members.map((member) => [member.key, member.metadata ?? "", member.form?.text ?? ""].join("\n")).join("\n").toLowerCase());
let shown = data.clusters.map((_, number) => number);
let opened = null;

// How the text of a document begins, on one line; of its metadata where there is no text.
function excerpt(member) {
  const text = (member.form?.text ?? member.metadata ?? "").slice(0, 600).replace(/\s+/g, " ").trim();
  return escaped(Array.from(text).slice(0, 160).join(""));
}

function list(from) {
  const items = shown.slice(from, from + PAGE).map((number) => {
    const cluster = data.clusters[number];
    const button = make("button", {type: "button", class: "open", "aria-expanded": "false"},
      make("span", {class: "count"}, count(cluster.size, data.noun)),
      make("span", {class: "key"}, escaped(cluster.members[0].key)),
      make("span", {class: "excerpt"}, excerpt(cluster.members[0])));
    const item = make("li", {"data-cluster": number}, button);
    button.addEventListener("click", () => { location.hash = opened === number ? "" : `cluster=${number}`; });
    return item;
  });
  byId("clusters").append(...items);
  byId("more").hidden = from + PAGE >= shown.length;
}

function search() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = [];
  searched.forEach((text, number) => { if (words.every((word) => text.includes(word))) shown.push(number); });
  byId("found").textContent = words.length ? count(shown.length, "cluster") : "";
  byId("clusters").replaceChildren();
  list(0);
  showOpened();
}

function memberRow(cluster, member, number, chosen, choose) {
  const cells = ["a", "b"].map((side) => {
    const radio = make("input", {type: "radio", name: `side-${side}`, value: number,
      "aria-label": `${side === "a" ? "left" : "right"}: ${escaped(member.key)}`});
    radio.checked = chosen[side] === number;
    radio.addEventListener("change", () => choose(side, number));
    return make("td", {class: "choice"}, radio);
  });
  const name = make("td", {}, make("span", {class: "key"}, escaped(member.key)));
  if (member.metadata) name.append(make("span", {class: "metadata"}, escaped(member.metadata)));
  const like = make("td", {}, make("span", {class: "number"}, member.figures));
  if (member.like !== null) like.append(" to ", make("span", {class: "key"}, escaped(cluster.members[member.like].key)));
  if (!member.figures && number) like.append("alike to later ones only");
  return make("tr", {}, ...cells, name, like);
}

function detail(cluster, chosen, choose) {
  const head = ["left", "right"].map((side) => make("th", {class: "choice", scope: "col"}, side));
  const names = [data.noun, data.column].map((name) => make("th", {scope: "col"}, name));
  const rows = cluster.members.map((member, number) => memberRow(cluster, member, number, chosen, choose));
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...head, ...names)), make("tbody", {}, ...rows));
  const element = make("div", {class: "detail"}, make("div", {class: "members", tabindex: "0"}, table));
  if (cluster.size > cluster.members.length) {
    element.append(make("p", {class: "soft"}, `The first ${cluster.members.length} of ${count(cluster.size, data.noun)}.`));
  }
  element.append(sideBySide(cluster.members[chosen.a], cluster.members[chosen.b]));
  return element;
}

// ---- two texts side by side ----

function sideBySide(a, b) {
  const pair = make("div", {class: "pair"});
  const texts = [a, b].map((member) => member.form && unpack(member.form));
  [a, b].forEach((member, side) => {
    const [own, other] = [texts[side], texts[1 - side]];
    const column = make("section", {}, make("span", {class: "key"}, escaped(member.key)));
    if (!own) {
      column.append(make("p", {class: "soft"}, data.with_texts
        ? `The text of this ${data.noun} is not in the page.` : "An index keeps no texts; --texts INPUT brings them into the page."));
    } else {
      const marks = other ? passages(own, other, data.least ?? 1) : new Uint32Array(own.starts.length);
      const share = marks.length ? marks.filter(Boolean).length / marks.length : 0;
      const cut = member.cut ? `, the first ${count(own.characters.length, "character")} of ${member.cut.toLocaleString("en")}` : "";
      column.append(make("span", {class: "soft"}, ` ${Math.round(100 * share)} % shared${cut}`), markedText(own, marks));
    }
    pair.append(column);
  });
  return pair;
}

// ---- the place in the page: #cluster=NUMBER&a=MEMBER&b=MEMBER ----

function showOpened() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  document.querySelectorAll(".detail").forEach((element) => element.remove());
  document.querySelectorAll(".open[aria-expanded=true]").forEach((button) => button.setAttribute("aria-expanded", "false"));
  const number = wanted.has("cluster") ? Number(wanted.get("cluster")) : null;
  opened = null;
  if (!(number in data.clusters)) return;
  while (!document.querySelector(`li[data-cluster="${number}"]`) && !byId("more").hidden) {
    list(byId("clusters").children.length);
  }
  const item = document.querySelector(`li[data-cluster="${number}"]`);
  if (!item) return;
  opened = number;
  const cluster = data.clusters[number];
  const member = (name, other) => {
    const found = wanted.has(name) ? Number(wanted.get(name)) : other;
    return found in cluster.members ? found : other;
  };
  const chosen = {a: member("a", 0), b: member("b", Math.min(1, cluster.members.length - 1))};
  const choose = (side, place) => {
    chosen[side] = place;
    history.replaceState(null, "", `#cluster=${number}&a=${chosen.a}&b=${chosen.b}`);
    item.querySelector(".pair").replaceWith(sideBySide(cluster.members[chosen.a], cluster.members[chosen.b]));
  };
  item.querySelector(".open").setAttribute("aria-expanded", "true");
  item.append(detail(cluster, chosen, choose));
}

// "/" goes to the search, j and k to the next cluster and the one before, Escape closes.
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { location.hash = ""; return; }
  if (event.target === byId("search")) return;
  if (event.key === "/") { event.preventDefault(); byId("search").focus(); }
  if (event.key === "j" || event.key === "k") {
    const buttons = [...document.querySelectorAll(".open")];
    const at = buttons.indexOf(document.activeElement.closest("li")?.querySelector(".open"));
    buttons[Math.max(0, Math.min(buttons.length - 1, at + (event.key === "j" ? 1 : -1)))]?.focus();
  }
}

showOverview();
list(0);
if (!location.hash && data.clusters.length === 1) history.replaceState(null, "", "#cluster=0");
showOpened();
if (opened !== null) document.querySelector(`li[data-cluster="${opened}"]`).scrollIntoView();
byId("search").addEventListener("input", search);
byId("more").addEventListener("click", () => list(byId("clusters").children.length));
addEventListener("hashchange", showOpened);
addEventListener("keydown", onKey);
document.documentElement.dataset.ready = "yes";
