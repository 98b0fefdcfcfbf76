// Draws the calls around a definition as SVG. Each node is a link to its lines; the colours come from the style sheet.

import { plural, svg } from "./dom.js";

const BOX = { height: 46, gap: 10, padding: 12, radius: 9 };
const GUTTER = 26;
/** From this width on, callers, subject and callees are next to each other. */
const WIDE_PX = 640;
const MAX_WIDTH_PX = 1100;
const MAX_FLOW_PX = 720;
const INDENT = { step: 20, most: 110 };
const COLUMN_GAP = 64;
const FONTS = { name: "600 13px ui-monospace, monospace", place: "11.5px ui-monospace, monospace" };
const measured = document.createElement("canvas").getContext("2d");

/**
 * Return a diagram as an element of this width.
 *
 * `href(node)` is the address of the lines of a node; `open(node)` shows them in the page.
 */
export function drawCalls(diagram, width, { href, open }) {
  const placed = (diagram.view === "flow" ? flow : width >= WIDE_PX ? columns : stacked)(diagram, Math.floor(width));
  const counts = callCounts(diagram);
  return svg("svg", { class: "calls", width: placed.width, height: placed.height, viewBox: `0 0 ${placed.width} ${placed.height}`, role: "group", "aria-label": diagram.caption },
    svg("defs", {}, svg("marker", { id: "arrow-head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" }, svg("path", { d: "M1 1l6 3l-6 3", class: "call-head" }))),
    placed.paths.map(({ d, certain, ends = true }) => svg("path", { d, class: certain ? "call-line" : "call-line possible", "marker-end": ends ? "url(#arrow-head)" : null })),
    diagram.nodes.map((node, n) => box(node, placed.boxes[n], counts[n], { href, open })));
}

/** Return the number of calls to show for each node, and whether they are certain. */
function callCounts({ nodes, arrows }) {
  const found = nodes.map(() => null);
  for (const arrow of arrows) found[nodes[arrow.source].depth < 0 ? arrow.source : arrow.target] = arrow;
  return found;
}

function box(node, { x, y, width }, arrow, { href, open }) {
  const place = `${node.path}:${node.start_line}`;
  const calls = arrow && arrow.count > 1 ? ` · ${plural(arrow.count, "call")}` : "";
  const role = node.depth < 0 ? (arrow?.certain === false ? "possible caller" : "caller") : node.depth > 0 ? "is called" : "";
  const inner = width - 2 * BOX.padding;
  return svg("a", {
    href: href(node), class: `call-node ${node.depth === 0 ? "subject" : node.kind}`,
    onclick: (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      open(node);
    },
  },
  svg("title", {}, `${node.name}, ${place}${calls}${role && ` (${role})`}`), // its accessible name
  svg("rect", { x: x + 0.5, y: y + 0.5, width: width - 1, height: BOX.height - 1, rx: BOX.radius }),
  svg("text", { x: x + BOX.padding, y: y + 19.5, class: "call-name" }, shortened(node.name, inner, FONTS.name)),
  svg("text", { x: x + BOX.padding, y: y + 36, class: "call-place" }, shortened(place, inner - textWidth(calls, FONTS.place), FONTS.place) + calls));
}

/** Callers above the subject, what it calls below it; the lines run along the edges. */
function stacked({ nodes, arrows }, width) {
  const subject = nodes.findIndex((one) => one.depth === 0);
  const gap = GUTTER - BOX.gap;
  const boxes = nodes.map(({ depth }, n) => ({
    x: depth > 0 ? GUTTER : 0,
    y: n * (BOX.height + BOX.gap) + (depth > 0 ? 2 * gap : depth === 0 && subject > 0 ? gap : 0),
    width: depth === 0 ? width : width - GUTTER,
  }));
  const top = boxes[subject].y;
  const right = width - GUTTER / 2;
  const left = GUTTER / 2;
  const paths = arrows.map(({ source, target, certain }) => (target === subject
    ? { d: `M${width - GUTTER} ${middle(boxes[source])}H${right - 6}q6 0 6 6V${top - 1}`, certain }
    : { d: `M${left} ${top + BOX.height}V${middle(boxes[target]) - 6}q0 6 6 6H${GUTTER - 1}`, certain }));
  return { width, height: heightOf(boxes), boxes, paths };
}

/** Callers, the subject, and what it calls as three columns. */
function columns({ nodes, arrows }, available) {
  const width = Math.min(available, MAX_WIDTH_PX);
  const present = [-1, 0, 1].filter((depth) => nodes.some((one) => one.depth === depth));
  const column = (width - 2 * COLUMN_GAP) / 3;
  const rows = Math.max(...present.map((depth) => nodes.filter((one) => one.depth === depth).length));
  const next = {};
  const boxes = nodes.map(({ depth }) => {
    const number = (next[depth] = (next[depth] ?? -1) + 1);
    const before = (rows - nodes.filter((one) => one.depth === depth).length) / 2;
    return { x: present.indexOf(depth) * (column + COLUMN_GAP), y: (before + number) * (BOX.height + BOX.gap), width: column };
  });
  const paths = arrows.map(({ source, target, certain }) => {
    const [from, to] = [boxes[source], boxes[target]];
    const [x1, x2] = [from.x + from.width, to.x - 1];
    return { d: `M${x1} ${middle(from)}C${x1 + COLUMN_GAP / 2} ${middle(from)} ${x2 - COLUMN_GAP / 2} ${middle(to)} ${x2} ${middle(to)}`, certain };
  });
  return { width: present.length * (column + COLUMN_GAP) - COLUMN_GAP, height: heightOf(boxes), boxes, paths };
}

/** One row for each call, in their order, indented by depth. */
function flow({ nodes, arrows }, available) {
  const width = Math.min(available, MAX_FLOW_PX);
  const step = Math.min(INDENT.step, INDENT.most / Math.max(1, ...nodes.map((one) => one.depth)));
  const boxes = nodes.map(({ depth }, n) => ({ x: depth * step, y: n * (BOX.height + BOX.gap), width: width - depth * step }));
  const paths = arrows.map(({ source, target, certain }) => {
    const x = boxes[source].x + step / 2;
    const bend = Math.min(6, step / 2 - 1);
    return { d: `M${x} ${boxes[source].y + BOX.height}V${middle(boxes[target]) - bend}q0 ${bend} ${bend} ${bend}H${boxes[target].x}`, certain, ends: false };
  });
  return { width, height: heightOf(boxes), boxes, paths };
}

const middle = ({ y }) => y + BOX.height / 2;
const heightOf = (boxes) => Math.max(...boxes.map(({ y }) => y)) + BOX.height;

function textWidth(text, font) {
  measured.font = font;
  return measured.measureText(text).width;
}

/** Return the end of a text that fits, where the name, the file and the line are. */
function shortened(text, width, font) {
  if (textWidth(text, font) <= width) return text;
  const characters = Array.from(text);
  let [few, many] = [0, Math.min(characters.length, 200)];
  while (few < many) {
    const half = Math.ceil((few + many) / 2);
    if (textWidth(`…${characters.slice(-half).join("")}`, font) <= width) few = half;
    else many = half - 1;
  }
  return few ? `…${characters.slice(-few).join("")}` : "…";
}
