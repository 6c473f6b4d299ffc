"use strict";
(function () {
  const form = document.getElementById("filters"), grid = document.getElementById("grid");
  const versions = [...form.elements.from.options].map((option) => option.value);
  const letters = { conforms: "c", differs: "d", "not supported": "n" };
  const columns = document.head.appendChild(document.createElement("style"));
  function apply() {
    const from = versions.indexOf(form.elements.from.value), to = versions.indexOf(form.elements.to.value);
    const chapter = form.elements.chapter.value, subject = form.elements.subject.value;
    const letter = letters[form.elements.verdict.value];
    const hidden = versions.map((_, i) => i).filter((i) => i < Math.min(from, to) || i > Math.max(from, to));
    columns.textContent = hidden.map((i) =>
      `.grid tr:not(.chapter) > :nth-child(${i + 2}) { display: none; }`).join("\n");
    let shown = 0;
    for (const body of grid.tBodies) {
      let here = 0;
      for (const row of body.rows) {
        if (row.classList.contains("chapter")) continue;
        const states = row.dataset.states.slice(Math.min(from, to), Math.max(from, to) + 1);
        row.hidden = (chapter && body.dataset.chapter !== chapter) || (subject && row.dataset.subject !== subject) ||
          (letter && !states.includes(letter)) || false;
        here += row.hidden ? 0 : 1;
      }
      body.hidden = here === 0;
      shown += here;
    }
    document.getElementById("shown").textContent = `${shown} rows`;
  }
  function close(except) {
    for (const open of document.querySelectorAll("td details[open]")) if (open !== except) open.open = false;
  }
  document.addEventListener("toggle", (event) => { if (event.target.open) close(event.target); }, true);
  const value = document.getElementById("value");
  // What resting on a cell shows, for those who can only touch it.
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("td[title]");
    value.textContent = cell ? cell.title : "";
    value.hidden = !cell;
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") { close(null); value.hidden = true; } });
  form.addEventListener("input", apply);
  form.hidden = false;
  apply();
})();
