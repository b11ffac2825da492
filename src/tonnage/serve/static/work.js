"use strict";
// Long work: what pages do while they wait for it.

const Work = {
  pause: 400, // milliseconds between questions at first; longer, the longer it takes
  longest: 3000,

  show(id, text) {
    const element = document.getElementById(id);
    element.textContent = text;
    element.hidden = !text;
  },

  fail(said) {
    Work.show("problem", said.hint ? `${said.error} (${said.hint})` : said.error);
    document.getElementById("progress").hidden = true;
  },

  progress(done, total, doing) {
    document.getElementById("progress").hidden = false;
    const bar = document.getElementById("bar");
    if (total > 0) bar.value = done / total;
    else bar.removeAttribute("value");
    document.getElementById("doing").textContent = doing;
  },

  // Returns the answer of the server as an object, whatever its status; with an error where it cannot be had.
  async answer(response) {
    try {
      const said = await response.json();
      if (!response.ok && !said.error) said.error = `the server answered ${response.status}`;
      if (response.status === 401) said.hint = "log in at /login";
      return said;
    } catch {
      return { error: `the server answered ${response.status}` };
    }
  },

  async ask(address, options) {
    try {
      return await Work.answer(await fetch(address, options));
    } catch {
      return { error: "the server does not answer", hint: "is it running?" };
    }
  },

  // Asks until a piece of work has ended, and returns what came of it.
  async follow(piece) {
    let pause = Work.pause;
    while (piece.state === "waiting" || piece.state === "working") {
      Work.progress(piece.done, piece.total, piece.state === "waiting" ? "waiting for other work" : piece.doing);
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(pause * 1.2, Work.longest);
      const next = await Work.ask(`/api/work/${encodeURIComponent(piece.id)}`);
      if (next.state === undefined) return { state: "failed", error: next.error, hint: next.hint };
      piece = next;
    }
    document.getElementById("progress").hidden = true;
    return piece;
  },

  // A row of a table: texts stay texts.
  row(cells) {
    const row = document.createElement("tr");
    for (const { text, value } of cells) {
      const cell = row.appendChild(document.createElement("td"));
      cell.textContent = text;
      if (value !== undefined) {
        cell.className = "number";
        cell.dataset.value = value;
      }
    }
    return row;
  },
};
