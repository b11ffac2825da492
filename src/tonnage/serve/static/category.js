"use strict";
// The category page follows its form: another strategy or machine changes sizes and pictures in place.

(() => {
  const PAUSE = 350; // milliseconds after the last key
  const form = document.getElementById("choice");
  const away = document.getElementById("away");
  let asked = 0;
  let waiting = null;

  function address() {
    const pairs = [...new FormData(form)].filter(([name, value]) => name === "name" || value.trim());
    return `${form.getAttribute("action")}?${new URLSearchParams(pairs)}`;
  }

  async function follow() {
    clearTimeout(waiting);
    const objective = form.elements.objective;
    objective.disabled = !objective.dataset.for.split(" ").includes(form.elements.strategy.value);
    const number = ++asked;
    const wanted = address();
    document.body.toggleAttribute("data-busy", true);
    try {
      const response = await fetch(wanted, { headers: { Accept: "text/html" } });
      const text = await response.text();
      if (number !== asked) return; // something else was chosen meanwhile
      const fresh = new DOMParser().parseFromString(text, "text/html");
      if (response.ok) {
        takeOver(fresh);
        history.replaceState(null, "", wanted);
      }
      say(response.ok ? "" : (fresh.querySelector(".problem") || fresh.body).textContent.trim());
    } catch {
      if (number === asked) say("The server does not answer. Is it running?");
    }
    if (number === asked) document.body.toggleAttribute("data-busy", false);
  }

  function say(text) {
    away.textContent = text;
    away.hidden = !text;
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    follow();
  });
  form.addEventListener("change", follow);
  form.addEventListener("input", (event) => {
    if (!event.target.matches("input")) return;
    clearTimeout(waiting);
    waiting = setTimeout(follow, PAUSE);
  });
})();
