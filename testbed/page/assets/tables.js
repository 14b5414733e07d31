// Tables that the reader sorts by any column and filters by words.

const kUnits = { "": 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/// "1 234.5", "64K", "–": a number where the cell is one, null where it is empty, otherwise its text.
export function sortKey(text) {
  const plain = text.replace(/\u202f/g, "").trim();
  if (plain === "" || plain === "–") return null;
  const size = /^(-?\d+(?:\.\d+)?)([KMGT]?)(?:iB)?$/.exec(plain);
  return size ? Number(size[1]) * kUnits[size[2]] : plain.toLowerCase();
}

/// Numbers before texts, both ascending.
function compare(left, right) {
  if (typeof left === typeof right) return left < right ? -1 : left > right ? 1 : 0;
  return typeof left === "number" ? -1 : 1;
}

function sortBy(table, column, descending) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => ({ row, key: sortKey(row.cells[column].textContent) }));
  rows.sort((left, right) => {
    // Empty cells stay last in both directions.
    if (left.key === null || right.key === null) return (left.key === null) - (right.key === null);
    return descending ? compare(right.key, left.key) : compare(left.key, right.key);
  });
  body.append(...rows.map((each) => each.row));
}

function addSorting(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.querySelector("[data-sort]").childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortBy(table, column, descending);
    });
  });
}

function addFilter(table) {
  const rows = [...table.tBodies[0].rows];
  const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
  const box = document.createElement("p");
  box.className = "filter";
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.type = "search";
  label.append("Filter ", input);
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !words.every((word) => texts[index].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  input.addEventListener("input", show);
  show();
  box.append(label, count);
  table.parentElement.before(box);
}

export function makeTablesSortable(tables) {
  for (const table of tables) {
    addSorting(table);
    addFilter(table);
  }
}
