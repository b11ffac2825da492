"use strict";

(() => {
  const form = document.getElementById("upload");
  const button = form.querySelector("button");

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    Work.show("problem", "");
    document.getElementById("found").hidden = true;
    button.disabled = true;
    const piece = await send(new FormData(form), document.getElementById("token").value.trim());
    if (piece.state === undefined) Work.fail(piece);
    else {
      const ended = await Work.follow(piece);
      if (ended.state === "done") show(ended.result.sources);
      else Work.fail(ended.error ? ended : { error: "It was stopped." });
    }
    button.disabled = false;
  });

  // Not fetch, which reports no upload progress.
  function send(body, token) {
    return new Promise((resolve) => {
      const request = new XMLHttpRequest();
      request.open("POST", "/api/uploads");
      if (token) request.setRequestHeader("Authorization", `Bearer ${token}`);
      request.upload.addEventListener("progress", (event) => Work.progress(event.loaded, event.total, "sending"));
      request.addEventListener("error", () => resolve({ error: "the server does not answer, or took no more of it" }));
      request.addEventListener("load", () => {
        try {
          resolve(JSON.parse(request.responseText));
        } catch {
          resolve({ error: `the server answered ${request.status}` });
        }
      });
      request.send(body);
    });
  }

  function show(sources) {
    const count = (number) => ({ text: number.toLocaleString("en"), value: number });
    document.querySelector("#sources tbody").replaceChildren(
      ...sources.map((one) =>
        Work.row([
          { text: one.source },
          { text: one.format },
          count(one.read),
          count(one.stored),
          count(one.duplicates),
          count(one.skipped),
        ]),
      ),
    );
    const reasons = sources.flatMap((one) => Object.entries(one.reasons));
    document.getElementById("reasons").replaceChildren(
      ...reasons.map(([reason, number]) => {
        const item = document.createElement("li");
        item.textContent = `${number.toLocaleString("en")} skipped: ${reason}`;
        return item;
      }),
    );
    document.getElementById("found").hidden = false;
  }
})();
