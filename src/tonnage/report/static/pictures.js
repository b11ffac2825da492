// Draws the figures of a page with plotly: `<div class="picture" data-figure="ID">` shows the figure that the element
// ID holds as JSON: {"title", "data", "layout"}. Colours are the names of CSS variables, so that they follow the page.
"use strict";

(() => {
  const figures = new Map(); // what each picture shows
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const fingers = window.matchMedia("(pointer: coarse)");

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#888";
  }

  // Only values under a key for colours are looked up: a category can have any name, even "--ink".
  function coloured(value, key) {
    if (typeof value === "string") {
      return /color/i.test(key) && value.startsWith("--") ? colour(value) : value;
    }
    if (Array.isArray(value)) {
      return value.map((one) => coloured(one, key));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, coloured(one, name)]));
    }
    return value;
  }

  function axis(own) {
    const line = colour("--line");
    return {
      gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true,
      fixedrange: fingers.matches, // moving a finger scrolls the page
      ...own,
      title: { font: { size: 12 }, standoff: 8, ...(own && own.title) },
    };
  }

  function layoutOf(figure) {
    const own = coloured(figure.layout || {}, "");
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 50, r: 18, t: 28, b: 42 },
      hovermode: "closest",
      autosize: true,
      uirevision: "the same", // keep the zoom when numbers change
      ...own,
      height: undefined,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("--ink"), ...own.font },
      hoverlabel: {
        bgcolor: colour("--raised"), bordercolor: colour("--line"), align: "left",
        font: { color: colour("--ink"), size: 12 }, ...own.hoverlabel,
      },
      legend: { orientation: "h", traceorder: "normal", itemsizing: "constant", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 }, ...own.legend },
    };
    for (const name of new Set(["xaxis", "yaxis", ...Object.keys(own).filter((key) => /^[xy]axis\d*$/.test(key))])) {
      layout[name] = axis(own[name]);
    }
    return layout;
  }

  function draw(div, figure) {
    figures.set(div, figure);
    if (figure.layout && figure.layout.height) {
      div.style.height = `${figure.layout.height + 12}px`; // plotly fills its container
    }
    div.setAttribute("role", "img");
    div.setAttribute("aria-label", figure.title || "picture");
    return Plotly.react(div, coloured(figure.data || [], ""), layoutOf(figure), {
      displaylogo: false,
      responsive: true,
      displayModeBar: fingers.matches ? false : "hover", // on a touch screen, it would always cover the picture
      modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "toggleSpikelines"],
    });
  }

  function drawNamed(div) {
    if (!figures.has(div)) {
      const holder = document.getElementById(div.dataset.figure);
      if (holder) {
        draw(div, JSON.parse(holder.textContent));
      }
    }
  }

  function drawAll() {
    document.querySelectorAll(".picture[data-figure]").forEach(drawNamed);
  }

  function redraw() {
    for (const [div, figure] of figures) {
      if (div.isConnected) {
        draw(div, figure);
      } else {
        figures.delete(div);
      }
    }
  }

  // Pictures are drawn when they come near the viewport: a page can have many.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        near.unobserve(entry.target);
        drawNamed(entry.target);
      }
    }
  }, { rootMargin: "800px" });

  // A group of radio buttons, each of which shows one element: data-shows is its id.
  function change(event) {
    const chosen = event.target;
    if (!chosen.matches || !chosen.matches("fieldset.switch input[data-shows]")) {
      return;
    }
    for (const one of chosen.closest("fieldset").querySelectorAll("input[data-shows]")) {
      const shown = document.getElementById(one.dataset.shows);
      if (shown) {
        shown.hidden = !one.checked;
      }
    }
  }

  document.addEventListener("change", change);
  dark.addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    drawAll();
    redraw();
    document.querySelectorAll(".picture.js-plotly-plot").forEach((one) => Plotly.Plots.resize(one));
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    redraw();
  });
  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll(".picture[data-figure]").forEach((one) => near.observe(one));
  });

  window.draw = draw;
  window.drawAll = drawAll;
})();
