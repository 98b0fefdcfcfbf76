// Runs in the sandboxed frame: renders the diagrams it receives, and sends the images back.
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

  /** Return the diagram as well-formed XML with an explicit size, as images need it. */
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
   * Escape HTML except line breaks: mermaid turns tags in labels into elements, and drops the `>` of others.
   * Arrows are left unchanged.
   */
  function escapedTags(text) {
    return text
      .replace(LABEL, function (label) { return label.replace(/(?<!<\/?br\s*\/?)>/gi, "#gt;"); })
      .replace(TAG, function (_, inner, end) { return "#lt;" + inner + (end ? "#gt;" : ""); });
  }

  async function render(request) {
    try {
      window.mermaid.initialize(settings(request.dark));
      var result = await window.mermaid.render("d" + request.id, escapedTags(request.text));
      parent.postMessage({ id: request.id, svg: sized(result.svg) }, "*");
    } catch (error) {
      parent.postMessage({ id: request.id, error: String((error && error.message) || error).slice(0, 500) }, "*");
    }
  }

  addEventListener("message", function (event) {
    if (event.source !== parent || typeof event.data.text !== "string") return;
    next = next.then(function () { return render(event.data); });
  });
  parent.postMessage({ ready: true }, "*");
})();
