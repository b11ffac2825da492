"use strict";
// Background jobs: what pages do while they wait for one.

const Work = {
  pause: 400, // milliseconds between polls at first; grows with time
  longest: 3000,

  show(id, text) {
    const element = document.getElementById(id);
    element.textContent = text;
    element.hidden = !text;
  },

  fail(answer) {
    Work.show("problem", answer.hint ? `${answer.error} (${answer.hint})` : answer.error);
    document.getElementById("progress").hidden = true;
  },

  progress(done, total, doing) {
    document.getElementById("progress").hidden = false;
    const bar = document.getElementById("bar");
    if (total > 0) bar.value = done / total;
    else bar.removeAttribute("value");
    document.getElementById("doing").textContent = doing;
  },

  // Returns the server's answer as an object, whatever its status; with an error if it cannot be read.
  async answer(response) {
    try {
      const answer = await response.json();
      if (!response.ok && !answer.error) answer.error = `the server answered ${response.status}`;
      if (response.status === 401) answer.hint = "log in at /login";
      return answer;
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

  // Polls until a background job has ended, and returns its last state.
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

  // A row of a table; texts are never parsed as HTML.
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
