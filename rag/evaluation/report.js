"use strict";
for (const table of document.querySelectorAll("table.questions")) {
  const bodies = [...table.tBodies];
  const status = document.getElementById(table.dataset.status);
  const value = (body, column) => {
    const cell = body.rows[0].cells[column];
    return "v" in cell.dataset ? Number(cell.dataset.v) : cell.textContent.toLowerCase();
  };
  const order = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

  for (const body of bodies) {
    const button = body.querySelector("td button");
    const more = body.rows[1];
    const show = (open) => {
      more.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    };
    button.addEventListener("click", () => show(more.hidden));
    show(false);
  }

  table.tHead.querySelectorAll("th").forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      bodies.sort((a, b) => (up ? 1 : -1) * order(value(a, column), value(b, column)));
      table.append(...bodies);
    });
  });

  for (const choice of document.querySelectorAll(`input[name="${table.id}"]`)) {
    choice.addEventListener("change", () => {
      let shown = 0;
      for (const body of bodies) {
        body.hidden = choice.value !== "all" && !body.dataset.is.split(" ").includes(choice.value);
        shown += !body.hidden;
      }
      status.textContent = `${shown} of ${bodies.length} shown`;
    });
  }
}
