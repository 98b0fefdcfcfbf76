// Inside the frame without an origin: draws what it is sent, and sends the picture back.
(function () {
  "use strict";
  var next = Promise.resolve();

  function settings(dark) {
    var plain = { useMaxWidth: false, htmlLabels: false };
    return {
      startOnLoad: false, securityLevel: "strict", suppressErrorRendering: true, htmlLabels: false,
      theme: dark ? "dark" : "neutral", maxTextSize: 50000, maxEdges: 500,
      fontFamily: "system-ui, sans-serif",
      flowchart: { useMaxWidth: false, htmlLabels: false, wrappingWidth: 200 }, sequence: plain, class: plain, state: plain, er: plain, gantt: plain,
    };
  }

  /** The picture as well-formed XML that knows its own size, as an image must. */
  function sized(svg) {
    var root = new DOMParser().parseFromString(svg, "text/html").querySelector("svg");
    var box = (root.getAttribute("viewBox") || "").split(/[\s,]+/).map(Number);
    if (box.length === 4 && box[2] > 0) {
      root.setAttribute("width", Math.ceil(box[2]));
      root.setAttribute("height", Math.ceil(box[3]));
    }
    root.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return new XMLSerializer().serializeToString(root);
  }

  var LABEL = /(?<=[[({|]\s*)"[^"]*"(?=\s*[\])}|])/g;
  var TAG = /(?<!<)<(?!\/?br\b\s*\/?>)([a-z!/?][^<>"|\n]*)((?<![-=.~])>)?/gi;

  /**
   * The text without HTML but line breaks: mermaid makes elements of what looks like a tag in a label, and drops
   * the `>` of others. An arrow is neither.
   */
  function withoutTags(text) {
    return text
      .replace(LABEL, function (label) { return label.replace(/(?<!<\/?br\s*\/?)>/gi, "#gt;"); })
      .replace(TAG, function (_, inner, end) { return "#lt;" + inner + (end ? "#gt;" : ""); });
  }

  async function draw(asked) {
    try {
      window.mermaid.initialize(settings(asked.dark));
      var drawn = await window.mermaid.render("d" + asked.id, withoutTags(asked.text));
      parent.postMessage({ id: asked.id, svg: sized(drawn.svg) }, "*");
    } catch (error) {
      parent.postMessage({ id: asked.id, error: String((error && error.message) || error).slice(0, 500) }, "*");
    }
  }

  addEventListener("message", function (event) {
    if (event.source !== parent || typeof event.data.text !== "string") return;
    next = next.then(function () { return draw(event.data); });
  });
  parent.postMessage({ ready: true }, "*");
})();
