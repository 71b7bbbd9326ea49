const data = JSON.parse(document.getElementById("data").textContent);
const element = id => document.getElementById(id);
const number = value => (data.offcpu ? value / 1000 : value).toLocaleString("en", { maximumFractionDigits: 1 });
const unit = data.offcpu ? " ms" : " samples";
const named = d => d.data.mark ? d.data.name + " " + d.data.mark : d.data.name;
let chart;

function label(d, total) {
  const share = 100 * d.value / total;
  const text = named(d) + ": " + number(d.value) + unit + ", " + share.toFixed(2) + "%";
  if (!data.differential) return text;
  return text + ", change " + (d.delta > 0 ? "+" : "") + number(d.delta) + " (" +
    (d.delta > 0 ? "+" : "") + (100 * d.delta / total).toFixed(2) + "% of all)";
}

function draw(index) {
  const tree = data.graphs[index].tree;
  element("chart").replaceChildren();
  chart = flamegraph()
    .width(Math.max(400, element("chart").clientWidth || 1200))
    .cellHeight(18)
    .minFrameSize(1)
    .sort(true)
    .transitionDuration(0)
    .resetHeightOnZoom(true)
    .getName(named)
    .label(d => label(d, tree.value))
    .setDetailsElement(element("details"));
  if (data.differential) {
    // Under another name than its own: where a node's changes add up to 0, the library would take that of the node alone.
    chart.getDelta(d => d.data.change).computeDelta(true).setColorMapper(
      (d, own) => d.highlight || d.data.certain ? flamegraph.colorMapper.differentialColorMapper(d, own) : "rgb(220,220,220)");
  }
  d3.select("#chart").datum(structuredClone(tree)).call(chart);
}

data.graphs.forEach((graph, index) => element("width").add(new Option(graph.label, index)));
element("width").hidden = data.graphs.length < 2;
element("width").addEventListener("change", event => draw(Number(event.target.value)));
element("reset").addEventListener("click", () => { chart.resetZoom(); chart.clear(); element("search").value = ""; });
element("controls").addEventListener("submit", event => {
  event.preventDefault();
  const term = element("search").value;
  if (term) chart.search(term); else chart.clear();
});
draw(0);
