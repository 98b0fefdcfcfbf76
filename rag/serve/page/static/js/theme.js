// Runs before the first rendering, so that the page does not flash in the wrong theme.
(function () {
  "use strict";
  var chosen = null;
  try { chosen = localStorage.getItem("rag.theme"); } catch { /* private mode: the system's theme */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
