// Runs before anything is drawn, so that a chosen theme never flashes in the other one.
(function () {
  "use strict";
  var chosen = null;
  try { chosen = localStorage.getItem("rag.theme"); } catch { /* private mode: the system's theme */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
