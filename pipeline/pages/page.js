// Column heads of sortable tables become buttons. Without this script the page is complete.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column]?.dataset.sort ?? row.cells[column]?.textContent ?? "";
      const rows = [...body.rows].filter((row) => !("pinned" in row.dataset));
      const pinned = [...body.rows].filter((row) => "pinned" in row.dataset);
      rows.sort((a, b) => {
        const [x, y] = [key(a), key(b)];
        const [m, n] = [Number.parseFloat(x), Number.parseFloat(y)];
        if (Number.isNaN(m) !== Number.isNaN(n)) return Number.isNaN(m) ? 1 : -1;
        const order = Number.isNaN(m) ? x.localeCompare(y) : m - n;
        return down ? -order : order;
      });
      body.append(...rows, ...pinned);
    });
  });
}
