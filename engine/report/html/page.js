"use strict";
// Tables can be copied as tab-separated values; charts are drawn when they come into view, or are to be printed.
const clean = value => String(value ?? "").replace(/[\t\r\n]+/g, " ").trim();
const tsv = rows => rows.map(row => row.map(clean).join("\t")).join("\n") + "\n";

const textsOf = table => [...table.rows].map(row => [...row.cells].map(cell => cell.textContent.replace(/\s+/g, " ")));

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  button.textContent = "copied";
  setTimeout(() => { button.textContent = "copy TSV"; }, 1500);
}

function copyButton(what, rows) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "copy TSV";
  button.setAttribute("aria-label", `copy ${what} as TSV`);
  button.addEventListener("click", () => copy(button, tsv(rows())));
  return button;
}

function tableOf(found) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const column of found.columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = column;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of found.rows) {
    const line = body.insertRow();
    for (const value of row) line.insertCell().textContent = typeof value === "number" ? digits(value) : clean(value);
  }
  return table;
}

function draw(figure) {
  const [kind, ...rest] = figure.dataset.chart.split(" ");
  const step = figure.dataset.step === undefined ? report : { ...report.steps[figure.dataset.step], flames: report.flames[figure.dataset.step] };
  const place = figure.querySelector(".plot"), width = Math.max(280, Math.floor(place.clientWidth));
  const found = drawings[kind](step, width, figure, rest.join(" "));
  place.replaceChildren(found.node);
  for (const svg of place.querySelectorAll("svg")) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${figure.getAttribute("aria-label")}; ${found.count}; the table below has the figures`);
  }
  figure.querySelector(".count").textContent = `(${found.count})`;
  figure.dataset.drawn = width;
  figure.found = found;
}

const figures = [...document.querySelectorAll("figure[data-chart]")];
for (const figure of figures) {
  if (/^(rate|heat|flame|trend)/.test(figure.dataset.chart)) figure.classList.add("wide");
  const details = figure.querySelector("details");
  details.addEventListener("toggle", () => {
    if (!figure.found) draw(figure);
    const what = figure.getAttribute("aria-label");
    details.replaceChildren(details.firstElementChild);
    if (!details.open) return;
    const box = document.createElement("div");
    box.className = "scroll";
    box.tabIndex = 0;
    box.append(tableOf(figure.found));
    details.append(copyButton(what, () => [figure.found.columns, ...figure.found.rows]), box);
  });
}
for (const table of document.querySelectorAll(".table table")) {
  table.closest(".table").append(copyButton(table.caption.textContent, () => textsOf(table)));
}
const seen = new IntersectionObserver(entries => {
  for (const entry of entries) if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
}, { rootMargin: "600px" });
for (const figure of figures) seen.observe(figure);
const drawable = figure => figure.offsetParent !== null;  // not in a step that is folded
addEventListener("beforeprint", () => { for (const figure of figures) if (drawable(figure) && !figure.dataset.drawn) draw(figure); });

const folds = [...document.querySelectorAll(".fold")], unfold = document.querySelector("#unfold");
const openTarget = () => {
  const fold = folds.find(each => each.parentElement.id === decodeURIComponent(location.hash.slice(1)));
  if (fold) fold.open = true;
};
addEventListener("hashchange", openTarget);
for (const link of document.querySelectorAll("a[href^='#']")) link.addEventListener("click", () => setTimeout(openTarget));
openTarget();
if (unfold) {
  unfold.hidden = false;
  unfold.addEventListener("click", () => {
    const all = folds.every(each => each.open);
    for (const each of folds) each.open = !all;
    unfold.textContent = all ? "open all" : "close all";
  });
}
let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => {
    for (const figure of figures) {
      const width = Math.max(280, Math.floor(figure.querySelector(".plot").clientWidth));
      if (drawable(figure) && figure.dataset.drawn && Number(figure.dataset.drawn) !== width) draw(figure);
    }
  }, 150);
});
