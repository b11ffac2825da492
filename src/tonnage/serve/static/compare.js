"use strict";

(() => {
  const form = document.getElementById("compare");
  const stop = document.getElementById("stop");
  const percent = (part) => `${(100 * part).toFixed(1)} %`;
  let working = null;

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (working) return;
    Work.show("problem", "");
    document.getElementById("found").hidden = true;
    const fields = new FormData(form);
    const wanted = { strategies: fields.getAll("strategies") };
    for (const [name, value] of fields) if (name !== "strategies" && value) wanted[name] = value;
    if (!wanted.strategies.length) return Work.fail({ error: "Choose a strategy." });
    Work.progress(0, 0, "asking");
    const piece = await Work.ask("/api/replays", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(wanted),
    });
    if (piece.state === undefined) return Work.fail(piece);
    working = piece.id;
    stop.hidden = false;
    const ended = await Work.follow(piece);
    working = null;
    stop.hidden = true;
    if (ended.state === "done") show(ended.result, wanted);
    else if (ended.state === "failed") Work.fail(ended);
    return undefined;
  });

  stop.addEventListener("click", async () => {
    if (!working) return;
    const answer = await Work.ask(`/api/work/${encodeURIComponent(working)}`, { method: "DELETE" });
    if (answer.error) Work.fail(answer);
  });

  function show(result, wanted) {
    const rows = [...result.results].sort((a, b) => a.waste_gbh - b.waste_gbh);
    const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
    document.getElementById("unit").textContent = rows[0].waste_unit;
    document.getElementById("what").textContent =
      `${rows[0].jobs.toLocaleString("en")} jobs, ${rows[0].resource}, by ${rows[0].by}, played as ${result.protocol} says.`;
    document.querySelector("#results tbody").replaceChildren(
      ...rows.map((row) =>
        Work.row([
          { text: row.strategy },
          { text: percent(row.waste_fraction), value: row.waste_fraction },
          { text: number(row.waste_gbh), value: row.waste_gbh },
          { text: row.throughput.toFixed(2), value: row.throughput },
          { text: percent(row.oracle_share), value: row.oracle_share },
          { text: percent(row.retries_fraction), value: row.retries_fraction },
        ]),
      ),
    );
    document.getElementById("found").hidden = false;
    const upwards = [...rows].reverse();
    draw(document.getElementById("picture"), {
      title: `What each strategy wastes of ${wanted.resource || "memory"}`,
      data: [
        {
          type: "bar",
          orientation: "h",
          x: upwards.map((row) => row.waste_gbh),
          y: upwards.map((row) => row.strategy),
          marker: { color: "--committed" },
          hovertemplate: `%{y}: %{x:.4~g} ${rows[0].waste_unit}<extra></extra>`,
        },
      ],
      layout: {
        height: 90 + 26 * rows.length,
        margin: { l: 170, r: 20, t: 10, b: 42 },
        xaxis: { title: { text: `wasted (${rows[0].waste_unit})` }, rangemode: "tozero" },
      },
    });
  }
})();
