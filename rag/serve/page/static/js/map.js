// A map of the repository: each chunk is a point, close points are similar; the sources of the turn are highlighted.

import { api } from "./api.js";
import { h, place, plural, refill } from "./dom.js";
import { freshnessOf, on, present, selectedTurn, servedName, state } from "./state.js";
import { openFile } from "./viewer.js";

const MARGIN = 26;
const REACH_PX = 9;
const LABEL = { font: "600 12px system-ui, sans-serif", height: 20, padding: 7, maxChars: 40, moves: [0, -22, 22, -44, 44] };
const ZOOM = { min: 1, max: 12, step: 1.2 };

export function drawMap(body) {
  refill(body, h("p", { class: "hollow" }, "Loading the map…"));
  const lit = highlightedPlaces();
  const paths = [...new Set(lit.map((one) => one.path))].slice(0, 50);
  const name = state.repository;
  if (!name) return;
  api.map(name, paths).then(
    (map) => { if (body.isConnected) show(body, map, lit, name); },
    (error) => refill(body, h("p", { class: "hollow" }, error.message)));
}

/** Return the current places of the selected turn's sources, because the map shows the current code. */
function highlightedPlaces() {
  const turn = selectedTurn();
  if (!turn) return [];
  const here = turn.citations.filter((one) => servedName(one.repository) === state.repository);
  return here.map((one) => present(one, freshnessOf(turn, one.n)));
}

function show(body, map, lit, name) {
  const canvas = h("canvas", { class: "map", tabindex: "0", role: "img", "aria-label": `Map of ${name}: ${plural(map.shown, "chunk")} in ${plural(map.groups.length, "folder")}, ${lit.length} of them sources of the answer` });
  const tip = h("div", { class: "map-tip", hidden: true, "aria-hidden": "true" });
  const legend = h("ul", { class: "map-legend", "aria-label": "Folders" }, map.groups.map((group, n) =>
    h("li", { class: `g${n}`, data: { group: n } }, h("i", { "aria-hidden": "true" }), group === "." ? "top" : group || "other folders")));
  const turn = selectedTurn();
  refill(body,
    turn && h("p", { class: "panel-question" }, turn.question),
    h("div", { class: "map-box" }, canvas, tip),
    legend,
    map.regions.length > 0 && h("section", {}, h("h3", {}, "Regions"), h("ul", { class: "map-regions" }, map.regions.map((one) =>
      h("li", {}, h("bdi", {}, short(one.name)), h("span", { class: "fine" }, ` ${plural(one.count, "chunk")}`))))),
    lit.length > 0 && h("section", {}, h("h3", {}, "Highlighted: the sources of the answer"), h("ol", { class: "lit-list" }, lit.map((one) =>
      h("li", {}, h("button", { type: "button", class: "place-link", onclick: () => openFile({ repository: name, path: one.path, start: one.start_line, end: one.end_line }) },
        h("b", {}, String(one.n)), " ", place(one)))))),
    h("p", { class: "fine" }, `${map.shown < map.chunks ? `${map.shown.toLocaleString("en")} of ${map.chunks.toLocaleString("en")} chunks` : plural(map.chunks, "chunk")}, placed by similarity: the first two principal components, ${Math.round(map.explained * 100)} % of the variance. Scroll to zoom, drag to move.`));
  new Drawing(canvas, tip, map, lit, legend, (n) => openFile({ repository: name, path: map.files[map.file[n]], start: map.start[n], end: map.end[n] })).start();
}

class Drawing {
  constructor(canvas, tip, map, lit, legend, open) {
    Object.assign(this, { canvas, tip, map, legend, open, zoom: 1, x: 0, y: 0, hovered: -1, only: -1 });
    this.numbers = new Map();
    /** For a source of several chunks, the chunk that shows its number. */
    this.named = new Map();
    map.x.forEach((_, n) => {
      const path = map.files[map.file[n]];
      const cited = lit.find((one) => one.path === path && one.start_line <= map.end[n] && one.end_line >= map.start[n]);
      if (!cited) return;
      this.numbers.set(n, cited.n);
      if (!this.named.has(cited.n)) this.named.set(cited.n, n);
    });
  }

  start() {
    const { canvas } = this;
    new ResizeObserver(() => this.draw()).observe(canvas);
    on("theme", () => this.draw());
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    canvas.addEventListener("pointerdown", (event) => { this.from = { x: event.offsetX, y: event.offsetY, dx: this.x, dy: this.y }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", (event) => this.released(event));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); this.zoomed(event.deltaY < 0 ? ZOOM.step : 1 / ZOOM.step, event.offsetX, event.offsetY); }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    for (const item of this.legend.children) {
      item.addEventListener("pointerenter", () => { this.only = Number(item.dataset.group); this.draw(); });
      item.addEventListener("pointerleave", () => { this.only = -1; this.draw(); });
    }
  }

  key(event) {
    const by = { "+": ZOOM.step, "=": ZOOM.step, "-": 1 / ZOOM.step }[event.key];
    const step = { ArrowLeft: [30, 0], ArrowRight: [-30, 0], ArrowUp: [0, 30], ArrowDown: [0, -30] }[event.key];
    if (by) this.zoomed(by, this.canvas.clientWidth / 2, this.canvas.clientHeight / 2);
    if (step) { this.x += step[0]; this.y += step[1]; this.draw(); event.preventDefault(); }
  }

  zoomed(by, x, y) {
    const zoom = Math.max(ZOOM.min, Math.min(ZOOM.max, this.zoom * by));
    const real = zoom / this.zoom;
    this.x = x - (x - this.x) * real;
    this.y = y - (y - this.y) * real;
    if (zoom === 1) this.x = this.y = 0;
    this.zoom = zoom;
    this.draw();
  }

  /** Return the position of a chunk in CSS pixels. */
  at(n) {
    return this.position(this.map.x[n], this.map.y[n]);
  }

  /** Return a position of the map in CSS pixels. */
  position(x, y) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    return [
      (MARGIN + ((x + 1) / 2) * (width - 2 * MARGIN)) * this.zoom + this.x,
      (MARGIN + ((1 - y) / 2) * (height - 2 * MARGIN)) * this.zoom + this.y,
    ];
  }

  draw() {
    const { canvas, map } = this;
    const { clientWidth: width, clientHeight: height } = canvas;
    const scale = devicePixelRatio || 1;
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const colours = [...this.legend.children].map((item) => getComputedStyle(item.querySelector("i")).backgroundColor);
    const ink = getComputedStyle(canvas).color;
    const ground = getComputedStyle(canvas).backgroundColor;
    const small = map.x.length > 2500 ? 1.7 : 2.6;
    const dim = this.numbers.size ? 0.38 : 0.75;
    map.x.forEach((_, n) => {
      if (this.numbers.has(n)) return;
      const group = map.group[map.file[n]];
      pen.globalAlpha = this.only < 0 ? dim : this.only === group ? 0.95 : 0.06;
      pen.fillStyle = colours[group];
      pen.beginPath();
      pen.arc(...this.at(n), small * Math.sqrt(this.zoom), 0, 7);
      pen.fill();
    });
    pen.globalAlpha = 1;
    const isNamed = ([n, number]) => this.named.get(number) === n;
    const lit = [...this.numbers].sort((a, b) => isNamed(a) - isNamed(b) || b[1] - a[1]);
    for (const [n, number] of lit) this.drawLit(pen, n, isNamed([n, number]) ? String(number) : "", colours[map.group[map.file[n]]], ink, ground);
    this.drawRegions(pen, ink, ground);
    if (this.hovered >= 0) {
      pen.strokeStyle = ink;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.arc(...this.at(this.hovered), 7, 0, 7);
      pen.stroke();
    }
  }

  /** Draw the names of the regions, largest first, near their middles; one without free space waits for a zoom. */
  drawRegions(pen, ink, ground) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const taken = [...this.named.values()].map((n) => box(...this.at(n), 20, 20));
    const labels = [];
    pen.font = LABEL.font;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    for (const region of this.map.regions) {
      const text = short(region.name);
      const wide = pen.measureText(text).width + 2 * LABEL.padding;
      const [px, y] = this.position(region.x, region.y);
      if (px < 0 || px > width || y < 0 || y > height || wide > width) continue;
      const x = Math.max(wide / 2, Math.min(width - wide / 2, px));
      const plate = LABEL.moves.map((by) => box(x, y + by, wide, LABEL.height))
        .find((one) => one.top >= 0 && one.bottom <= height && !taken.some((other) => overlap(one, other)));
      if (!plate) continue;
      taken.push(plate);
      labels.push(plate);
      pen.globalAlpha = 0.88;
      pen.fillStyle = ground;
      pen.fillRect(plate.left, plate.top, wide, LABEL.height);
      pen.globalAlpha = 1;
      pen.fillStyle = ink;
      pen.fillText(text, x, (plate.top + plate.bottom) / 2 + 0.5);
    }
    this.canvas.dataset.labels = JSON.stringify(labels);
  }

  drawLit(pen, n, number, colour, ink, ground) {
    const [x, y] = this.at(n);
    pen.globalAlpha = 0.22;
    pen.fillStyle = colour;
    pen.beginPath();
    pen.arc(x, y, number ? 15 : 9, 0, 7);
    pen.fill();
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    pen.strokeStyle = ground;
    pen.beginPath();
    pen.arc(x, y, number ? 8.5 : 4.5, 0, 7);
    pen.fillStyle = ink;
    pen.fill();
    pen.stroke();
    pen.fillStyle = ground;
    pen.font = "600 10px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(number, x, y + 0.5);
  }

  nearest(x, y) {
    let best = -1;
    let least = REACH_PX ** 2;
    this.map.x.forEach((_, n) => {
      const [px, py] = this.at(n);
      const far = (px - x) ** 2 + (py - y) ** 2 - (this.numbers.has(n) ? 60 : 0);
      if (far < least) [best, least] = [n, far];
    });
    return best;
  }

  moved(event) {
    if (this.from && event.buttons) {
      this.x = this.from.dx + event.offsetX - this.from.x;
      this.y = this.from.dy + event.offsetY - this.from.y;
      this.hover(-1);
      this.draw();
      return;
    }
    this.hover(this.nearest(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
  }

  hover(n, x = 0, y = 0) {
    this.tip.hidden = n < 0;
    if (n >= 0) {
      this.tip.textContent = place({ path: this.map.files[this.map.file[n]], start_line: this.map.start[n], end_line: this.map.end[n] });
      this.tip.style.left = `${Math.max(4, Math.min(x + 12, this.canvas.clientWidth - this.tip.offsetWidth - 4))}px`;
      this.tip.style.top = `${y + 14}px`;
    }
    this.canvas.style.cursor = n >= 0 ? "pointer" : "";
    if (n !== this.hovered) { this.hovered = n; this.draw(); }
  }

  released(event) {
    const still = this.from && Math.hypot(event.offsetX - this.from.x, event.offsetY - this.from.y) < 4;
    this.from = null;
    const n = still ? this.nearest(event.offsetX, event.offsetY) : -1;
    if (n >= 0) this.open(n);
  }
}

/** Return the name of a region, cut where a repository has words without end. */
function short(name) {
  return name.length > LABEL.maxChars ? `${name.slice(0, LABEL.maxChars)}…` : name;
}

function box(x, y, width, height) {
  return { left: x - width / 2, top: y - height / 2, right: x + width / 2, bottom: y + height / 2 };
}

function overlap(one, other) {
  return one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
}
