// Tables that can be sorted and filtered: `<table class="sortable">`. A header sorts by a click or by Enter, numbers by
// data-value. `<input class="filter" aria-controls="ID">` shows only the rows that contain each of its words, and
// `<output for="ID">` says how many those are. Rows of large tables are in `<script type="application/json">`, whose
// id the table names in data-rows: [[cell, ...], ...], where a cell is a text or [text, value]; data-link in a header
// turns its cells into links: it is the prefix of their addresses, before the text of the cell.
"use strict";

(() => {
  function cellOf(content, header) {
    const [text, value] = Array.isArray(content) ? content : [content, null];
    const cell = document.createElement("td");
    const shown = text === null || text === undefined ? "" : String(text);
    if (header && header.dataset.link !== undefined && shown) {
      const link = document.createElement("a");
      link.href = header.dataset.link + encodeURIComponent(shown);
      link.textContent = shown;
      cell.append(link);
    } else {
      cell.textContent = shown;
    }
    if (shown.length > 40) {
      cell.title = shown; // the text is too long for its column
    }
    if (value !== null && value !== undefined) {
      cell.dataset.value = value;
    }
    cell.className = header ? header.className : "";
    return cell;
  }

  function fill(table) {
    const holder = document.getElementById(table.dataset.rows);
    if (!holder) {
      return;
    }
    const headers = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0] || table.createTBody();
    body.replaceChildren(...JSON.parse(holder.textContent).map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map((content, place) => cellOf(content, headers[place])));
      return row;
    }));
  }

  function keyOf(row, place) {
    const cell = row.cells[place];
    if (!cell) {
      return "";
    }
    const text = cell.dataset.value !== undefined ? cell.dataset.value : cell.textContent.trim();
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
  }

  // Numbers come before texts, and unknown values last, in both directions.
  function compare(first, second, sign) {
    if (first === "" || second === "") {
      return (first === "") - (second === "");
    }
    if (typeof first !== typeof second) {
      return typeof first === "number" ? -sign : sign;
    }
    if (typeof first === "number") {
      return sign * (first - second);
    }
    return sign * first.localeCompare(second, undefined, { numeric: true });
  }

  function sort(table, header) {
    const place = header.cellIndex;
    const numbers = header.classList.contains("number");
    const before = header.getAttribute("aria-sort");
    // Users look for large numbers, but for texts in alphabetical order.
    const direction = before ? (before === "ascending" ? "descending" : "ascending") : (numbers ? "descending" : "ascending");
    for (const other of table.tHead.rows[0].cells) {
      other.removeAttribute("aria-sort");
    }
    header.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [keyOf(row, place), row]);
    rows.sort((one, other) => compare(one[0], other[0], sign));
    body.append(...rows.map((one) => one[1]));
  }

  function filter(table, words) {
    const rows = [...table.tBodies[0].rows];
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    const output = table.id && document.querySelector(`output[for="${CSS.escape(table.id)}"]`);
    if (output) {
      output.textContent = words.length
        ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`
        : `${rows.length.toLocaleString("en")} rows`;
    }
  }

  function wordsOf(input) {
    return input.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  function tableOf(input) {
    const named = document.getElementById(input.getAttribute("aria-controls") || "");
    return named || [...document.querySelectorAll("table.sortable")]
      .find((table) => input.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING);
  }

  function prepare(table) {
    if (table.dataset.rows) {
      fill(table);
    }
    for (const header of table.tHead ? table.tHead.rows[0].cells : []) {
      if (!header.querySelector("button") && header.textContent.trim()) {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...header.childNodes);
        header.append(button);
        button.addEventListener("click", () => sort(table, header));
      }
    }
  }

  function prepareTables(root) {
    const within = root || document;
    within.querySelectorAll("table.sortable").forEach(prepare);
    within.querySelectorAll("input.filter").forEach((input) => {
      const table = tableOf(input);
      if (table) {
        input.addEventListener("input", () => filter(table, wordsOf(input)));
        filter(table, wordsOf(input));
      }
    });
  }

  document.addEventListener("DOMContentLoaded", () => prepareTables());
  window.prepareTables = prepareTables;
})();
