"use strict";
// A live page: it reloads itself and shows what has changed. Elements with data-live are replaced, pictures are
// redrawn. It continues as long as an element is data-under-way.

(() => {
  const PAUSE = 1500; // milliseconds; longer if the server is slow
  const AT_MOST = 30000;

  async function refresh() {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok) return;
    takeOver(new DOMParser().parseFromString(await response.text(), "text/html"));
  }

  function takeOver(fresh) {
    document.title = fresh.title;
    for (const element of document.querySelectorAll("[data-live]")) {
      const other = fresh.getElementById(element.id);
      if (!other) continue;
      element.toggleAttribute("data-under-way", other.hasAttribute("data-under-way"));
      if (other.innerHTML !== element.innerHTML) element.replaceChildren(...other.childNodes);
    }
    for (const div of document.querySelectorAll(".picture[data-figure]")) {
      const holder = document.getElementById(div.dataset.figure);
      const other = fresh.getElementById(div.dataset.figure);
      if (!holder || !other || other.textContent === holder.textContent) continue;
      holder.textContent = other.textContent;
      const frame = div.closest("figure");
      const appears = frame.hidden;
      frame.hidden = other.textContent === "null"; // nothing has run yet
      if (!frame.hidden && (appears || div.classList.contains("js-plotly-plot"))) draw(div, JSON.parse(other.textContent));
    }
  }

  async function keepUp() {
    let pause = PAUSE;
    while (document.querySelector("[data-under-way]")) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (document.hidden) continue; // the page is not visible
      const begun = performance.now();
      try {
        await refresh();
        pause = Math.min(Math.max(PAUSE, 3 * (performance.now() - begun)), AT_MOST);
      } catch {
        pause = Math.min(2 * pause, AT_MOST); // the server is unavailable, and may come back
      }
    }
  }

  window.takeOver = takeOver;
  document.addEventListener("DOMContentLoaded", keepUp);
})();
