"use strict";
// What pages share: the data, elements, charts, and the passages that two texts share, marked. Text comes in by
// textContent alone, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// An element with text and children: make("td", {class: "key"}, "text", child).
function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
  element.append(...children);
  return element;
}

// What a screen would not show, or would turn around, is written out.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]/gu;
const escaped = (text) => text.replace(HIDDEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
// In texts lines stay; each other control is a sign of its own, so that places stay, too.
const visible = (text) => text.replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
  .replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

// ---- charts ----

function chart(element, heights, highest, titles, label, first, last) {
  heights.forEach((height, place) => {
    const bar = make("i", {title: titles[place]});
    bar.style.height = height ? `max(2px, ${(100 * height) / highest}%)` : "0";
    element.append(bar);
  });
  element.setAttribute("aria-label", label);
  element.after(make("div", {class: "axis"}, make("span", {}, first), make("span", {}, last)));
}

// ---- what two texts share ----

// The code points of a text, the start and end of each token, the number of each shingle.
function unpack(form) {
  const [starts, ends, numbers] = [[], [], []];
  let at = 0;
  for (let i = 0; i < form.tokens.length; i += 3) {
    for (let times = form.tokens[i + 2]; times > 0; times--) {
      starts.push(at + form.tokens[i]);
      at = at + form.tokens[i] + form.tokens[i + 1];
      ends.push(at);
    }
  }
  for (let i = 0; i < form.runs.length; i += 2) {
    for (let n = 0; n < form.runs[i + 1]; n++) numbers.push(form.runs[i] && form.runs[i] + n);
  }
  return {characters: Array.from(form.text), starts, ends, numbers, size: form.size};
}

// For each token of `text` the number of the passage that it is in, from 1 on, or 0; a passage is a run of
// shingles that follow each other in `other`, too, of so many tokens at least. Of the places where one could begin a
// few are tried.
function passages(text, other, least = 1) {
  const places = new Map();
  other.numbers.forEach((number, place) => {
    if (number) places.has(number) ? places.get(number).push(place) : places.set(number, [place]);
  });
  const marks = new Uint32Array(text.starts.length);
  let [passage, behind] = [0, 0];
  for (let place = 0; place < text.numbers.length;) {
    const found = places.get(text.numbers[place]);
    if (!text.numbers[place] || !found) { place++; continue; }
    const next = found.findIndex((candidate) => candidate >= behind);
    const tried = [...(next < 0 ? [] : found.slice(next, next + 4)), ...found.slice(0, 4)];
    let [length, start] = [0, 0];
    for (const candidate of tried) {
      let n = 1;
      while (place + n < text.numbers.length && text.numbers[place + n] && text.numbers[place + n] === other.numbers[candidate + n]) n++;
      if (n > length) [length, start] = [n, candidate];
    }
    const last = Math.min(place + length - 1 + text.size, marks.length);
    if (last - place >= least) {
      passage++;
      for (let token = place; token < last; token++) if (!marks[token]) marks[token] = passage;
    }
    place += length;
    behind = start + length;
  }
  return marks;
}

function markedText(text, marks) {
  const box = make("div", {class: "text", tabindex: "0"});
  const piece = (from, to) => visible(text.characters.slice(from, to).join(""));
  let done = 0;
  for (let token = 0; token < marks.length;) {
    if (!marks[token]) { token++; continue; }
    let last = token;
    while (last + 1 < marks.length && marks[last + 1] === marks[token]) last++;
    const from = Math.max(done, text.starts[token]);
    if (text.ends[last] > from) {
      box.append(piece(done, from), make("mark", {}, piece(from, text.ends[last])));
      done = text.ends[last];
    }
    token = last + 1;
  }
  box.append(piece(done, text.characters.length));
  return box;
}
