"use strict";
// Each drawing takes a step's figures and a width, and gives a picture, what it counts, and its figures as rows.
const report = JSON.parse(document.querySelector("script#data").textContent);
const subjectColour = { domain: report.subjects, range: report.subjects.map((_, i) => `var(--subject-${i % 8})`) };
const roleColours = [1, 2, 3, 4, 5, 6, 0].map(i => `var(--subject-${i})`);
const MARKS = {
  stall: ["S", "var(--worse)"], checkpoint: ["C", "var(--subject-3)"], autovacuum: ["V", "var(--subject-4)"],
  lock_wait: ["L", "var(--subject-6)"], mark: ["M", "var(--ink)"],
};
const OTHER_MARK = ["!", "var(--pale)"];
const signColour = sign => sign === "better" ? "var(--better)" : sign === "worse" ? "var(--worse)" : "var(--same)";
// Grey where nothing changed by more than chance, unless it was searched for.
const named = d => d.data.mark ? `${d.data.name} ${d.data.mark}` : d.data.name;
const beyondChance = (d, own) => d.highlight || d.data.certain ? flamegraph.colorMapper.differentialColorMapper(d, own) : "rgb(220,220,220)";
const arrow = sign => ({ better: "▲ ", worse: "▼ " })[sign] ?? (sign.trim() ? sign + " " : "");
const digits = d3.format(".4~g");
const number = value => Math.abs(value) >= 1000 ? d3.format(",.0f")(value) : digits(value);
const ratioText = value => value >= 100 ? d3.format(",.0f")(value) : d3.format(".3f")(value);
const duration = us => us >= 1e6 ? digits(us / 1e6) + " s" : us >= 1000 ? digits(us / 1000) + " ms" : digits(us) + " us";
const short = text => text.length > 22 ? text.slice(0, 20) + "…" : text;
const left = names => Math.min(190, 16 + 6.6 * (d3.max(names, name => short(name).length) ?? 0));
const style = { fontSize: "12px", background: "none" };

function legend(entries) {
  const line = document.createElement("p");
  line.className = "legend";
  for (const [name, colour, sign] of entries) {
    const entry = document.createElement("span"), swatch = document.createElement("span");
    swatch.className = "swatch";
    swatch.style.background = colour;
    entry.append(swatch, sign ? `${sign} ${name}` : name);
    line.append(entry);
  }
  return line;
}

function together(...nodes) {
  const box = document.createElement("div");
  box.append(...nodes.filter(Boolean));
  return box;
}

// A domain around 1 in which all of these are seen, as a ratio and its inverse are alike.
function ratioDomain(values) {
  const far = d3.max(values.filter(v => v > 0), v => Math.abs(Math.log(v))) ?? 0;
  const half = Math.max(1.15 * far, 2.5 * Math.log1p(report.margin));
  return [Math.exp(-half), Math.exp(half)];
}

// 1, 2 and 5 times the powers of ten, within these bounds: ticks of a logarithmic scale.
const roundNumbers = (least, most) =>
  d3.range(-6, 10).flatMap(power => [1, 2, 5].map(digit => digit * 10 ** power)).filter(d => d >= least && d <= most);

// The axis of ratios, as a scale and its marks: on its own a logarithmic scale leaves some of its ticks without a label.
function ratioAxis(domain) {
  const ticks = domain[1] > 2.5 ? roundNumbers(...domain) : d3.ticks(...domain, 5);
  return {
    scale: { type: "log", domain, axis: null },
    marks: [Plot.gridX(ticks), Plot.axisX(ticks, { text: d3.format(".3~g"), label: `ratio to ${report.base} →` })],
  };
}

// All names of a kind of figure, in the order in which the page has them: each has one colour in all steps.
function namesOf(kind, name) {
  const names = [...new Set(Object.values(report.steps).flatMap(each => (each[kind] ?? []).map(name)))];
  return { names, colour: each => roleColours[names.indexOf(each) % roleColours.length] };
}

// Shares of a whole, a bar for each role and build.
function shares(kind, step, width) {
  const given = step[kind], all = namesOf(kind, d => d.part), colour = all.colour;
  const shown = given.map(d => ({ ...d, place: `${d.role} · ${short(d.subject)}` }));
  const parts = all.names.filter(part => shown.some(d => d.part === part)), places = [...new Set(shown.map(d => d.place))];
  const node = Plot.plot({
    width, style, height: 60 + 26 * places.length, marginLeft: left(places), marginRight: 20, marginBottom: 40,
    x: { domain: [0, 100], label: "% →", ticks: 5 }, y: { type: "band", domain: places, label: null, padding: 0.2 },
    marks: [
      Plot.barX(shown, Plot.stackX({ order: parts }, {
        y: "place", x: d => 100 * d.share, z: "part", fill: d => colour(d.part), title: d => `${d.place}, ${d.part}: ${digits(100 * d.share)}%`,
      })),
      Plot.text(shown, Plot.stackX({ order: parts }, {
        y: "place", x: d => 100 * d.share, z: "part", fill: "black", text: d => d.share > 0.07 ? `${Math.round(100 * d.share)}` : "",
      })),
      Plot.ruleX([0]),
    ],
  });
  return {
    node: together(legend(parts.map(part => [part, colour(part)])), node), columns: ["role", "subject", "part", "share"],
    rows: given.map(d => [d.role, d.subject, d.part, d.share]),
  };
}

const drawings = {
  overview(all, width) {
    const known = all.overview.filter(d => d.ratio !== null);
    const names = [...new Set(known.map(d => d.subject))], one = names.length === 1;
    const shown = known.map(d => ({ ...d, place: one ? d.step : `${d.step} · ${short(d.subject)}` }));
    const domain = ratioDomain(shown.flatMap(d => [d.ratio, d.low ?? d.ratio, d.high ?? d.ratio]));
    const axis = ratioAxis(domain);
    const node = Plot.plot({
      width, style, height: 50 + 22 * shown.length, marginTop: 8, marginBottom: 40, marginLeft: left(shown.map(d => d.place)), marginRight: 16,
      x: axis.scale,
      y: { type: "band", domain: shown.map(d => d.place), label: null },
      marks: [
        ...axis.marks,
        Plot.rect([0], { x1: 1 / (1 + report.margin), x2: 1 + report.margin, fill: "currentColor", fillOpacity: 0.08 }),
        Plot.ruleX([1], { strokeOpacity: 0.6 }),
        Plot.ruleY(shown.filter(d => d.low !== null), { y: "place", x1: "low", x2: "high", strokeWidth: 2.5, stroke: d => signColour(d.sign) }),
        Plot.dot(shown, { x: "ratio", y: "place", r: 4.5, fill: d => signColour(d.sign), title: d => `${d.place}: ${arrow(d.sign)}${ratioText(d.ratio)} ${d.verdict}` }),
      ],
    });
    return {
      node, count: `n = up to ${d3.max(known, d => d.pairs)} pairs; grey band: the margin`,
      columns: ["step", "subject", "metric", "ratio", "low", "high", "verdict"],
      rows: known.map(d => [d.step, d.subject, d.metric, d.ratio, d.low, d.high, d.verdict]),
    };
  },

  waits(step, width) {
    return { ...shares("waits", step, width), count: "means of cells" };
  },

  phases(step, width) {
    return { ...shares("phases", step, width), count: "medians of cells" };
  },

  probed(step, width, figure, which) {
    const [probe, field] = which.split(" ");
    const all = step.probed.filter(d => d.probe === probe && d.field === field);
    const role = choice(figure, "role", [...new Set(all.map(d => d.role))]);
    const shown = all.filter(d => d.role === role), names = report.subjects.filter(name => shown.some(d => d.subject === name));
    const node = Plot.plot({
      width, style, height: 200, marginLeft: 50, marginRight: 16, marginBottom: 40, color: subjectColour,
      x: { type: "log", base: 2, label: "below →", tickFormat: duration, ticks: 5 },
      y: { grid: true, label: "↑ % of them", zero: true, ticks: 5 },
      marks: [
        Plot.ruleY([0]),
        Plot.lineY(shown, { z: "subject", x: "below_us", y: d => 100 * d.share, stroke: "subject", curve: "step-after" }),
        Plot.dot(shown, { x: "below_us", y: d => 100 * d.share, fill: "subject", r: 3, title: d => `${d.subject}: ${number(d.count)} below ${duration(d.below_us)}` }),
      ],
    });
    return {
      node: together(legend(names.map(name => [name, subjectColour.range[report.subjects.indexOf(name)]])), node),
      count: `n = ${d3.format(",")(d3.sum(shown, d => d.count))}`,
      columns: ["role", "subject", "below us", "count"], rows: all.map(d => [d.role, d.subject, d.below_us, d.count]),
    };
  },

  flame(step, width, figure, place) {
    const given = step.flames[Number(place)];
    const label = choice(figure, "widths", given.graphs.map(d => d.label));
    const tree = given.graphs.find(d => d.label === label).tree;
    const node = document.createElement("div"), details = document.createElement("p"), drawn = document.createElement("div");
    details.className = "legend";
    details.textContent = "A click zooms, the outermost frame shows all again.";
    node.className = "flame";
    node.append(drawn, details);
    const percent = value => (100 * value / tree.value).toFixed(1) + "%";
    const chart = flamegraph().width(width).cellHeight(17).minFrameSize(1).sort(true).transitionDuration(0).resetHeightOnZoom(true)
      .getName(named).label(d => `${named(d)}: ${number(d.value)} ${given.unit}, ${percent(d.value)}` + (given.differential ? `, change ${d.delta > 0 ? "+" : ""}${percent(d.delta)} of all` : ""))
      .setDetailsElement(details);
    if (given.differential) chart.getDelta(d => d.data.change).computeDelta(true).setColorMapper(beyondChance);
    d3.select(drawn).datum(structuredClone(tree)).call(chart);
    return {
      node, count: `${given.note}; functions below 0.2% are left out`,
      columns: ["function itself", ...(given.differential ? [`${given.unit} of the base`, given.unit, "beyond chance"] : [given.unit])],
      rows: given.functions.map(each => given.differential ? each : each.slice(0, 2)),
    };
  },

  ratio(step, width) {
    const known = step.ratios.filter(d => d.ratio !== null);
    const names = known.map(d => d.subject);
    const pairs = step.blocks.length ? step.blocks.filter(d => d.ratio !== null) : step.pairs;
    const blocks = step.blocks.flatMap(d => d.blocks.map(ratio => ({ subject: d.subject, ratio })));
    const sorted = d3.sort(blocks, d => d.ratio);
    const inner = [0.05, 0.95].map(q => d3.quantile(sorted, q, d => d.ratio)).filter(v => v !== undefined);
    const domain = ratioDomain([...known.flatMap(d => [d.low ?? d.ratio, d.high ?? d.ratio]), ...pairs.map(d => d.ratio), ...inner]);
    const within = d => d.ratio >= domain[0] && d.ratio <= domain[1];
    const axis = ratioAxis(domain);
    const node = Plot.plot({
      width, style, height: 60 + (blocks.length ? 74 : 52) * names.length, marginLeft: left(names), marginRight: 20, marginBottom: 40,
      x: axis.scale,
      y: { type: "band", domain: names, label: null, tickFormat: short, padding: 0.1 },
      marks: [
        ...axis.marks,
        Plot.rect([0], { x1: 1 / (1 + report.margin), x2: 1 + report.margin, fill: "currentColor", fillOpacity: 0.08 }),
        Plot.ruleX([1], { strokeOpacity: 0.6 }),
        Plot.tickX(blocks.filter(within), { x: "ratio", y: "subject", strokeOpacity: 0.18, insetTop: 46, stroke: "currentColor" }),
        Plot.dot(pairs.filter(within), {
          x: "ratio", y: "subject", dy: blocks.length ? 2 : 10, r: 3.5, fill: "currentColor", fillOpacity: 0.55,
          title: d => `${d.subject}, repeat ${d.repeat}: ${ratioText(d.ratio)}`,
        }),
        Plot.ruleY(known.filter(d => d.low !== null), {
          y: "subject", x1: "low", x2: "high", strokeWidth: 3, stroke: d => signColour(d.sign), dy: blocks.length ? -18 : -9,
        }),
        Plot.dot(known, {
          x: "ratio", y: "subject", r: 5, fill: d => signColour(d.sign), dy: blocks.length ? -18 : -9,
          title: d => `${d.subject}: ${arrow(d.sign)}${ratioText(d.ratio)} ${d.verdict}`,
        }),
      ],
    });
    const most = d3.max(known, d => d.pairs);
    return {
      node, count: `n = ${most} pair${most === 1 ? "" : "s"}${blocks.length ? `; ticks: ${blocks.length} blocks of slices` : ""}; grey band: the margin`,
      columns: ["subject", "repeat", "ratio", "low", "high", "verdict"],
      rows: [...known.map(d => [d.subject, "all", d.ratio, d.low, d.high, d.verdict]), ...pairs.map(d => [d.subject, d.repeat, d.ratio, null, null, ""])],
    };
  },

  cells(step, width) {
    const names = report.subjects.filter(name => step.cells.some(d => d.subject === name));
    const node = Plot.plot({
      width, style, height: 60 + 40 * names.length, marginLeft: left(names), marginRight: 20, marginBottom: 40,
      x: { grid: true, nice: true, label: (step.metric === "time_s" ? "s" : step.unit) + " →", ticks: 5 },
      y: { type: "band", domain: names, label: null, tickFormat: short },
      color: subjectColour,
      marks: [
        Plot.line(step.cells, { x: "value", y: "subject", z: d => `${d.run} ${d.repeat}`, stroke: "currentColor", strokeOpacity: 0.3 }),
        Plot.tickX(step.cells, Plot.groupY({ x: "median" }, { x: "value", y: "subject", strokeWidth: 2, strokeOpacity: 0.6 })),
        Plot.dot(step.cells, {
          x: "value", y: "subject", fill: "subject", r: 5, fillOpacity: 0.75,
          title: d => `${d.subject}, repeat ${d.repeat}: ${number(d.value)}`,
        }),
      ],
    });
    return {
      node, count: `n = ${step.cells.length} cells; tick: the median; a line joins those of a repeat`,
      columns: ["subject", "run", "repeat", step.metric === "time_s" ? "s" : step.unit],
      rows: step.cells.map(d => [d.subject, d.run, d.repeat, d.value]),
    };
  },

  causes(step, width) {
    const titles = [...new Set(step.causes.map(d => d.title))], names = [...new Set(step.causes.map(d => d.subject))];
    const one = names.length === 1;
    const shown = step.causes.map(d => ({ ...d, place: one ? d.title : `${d.title} · ${short(d.subject)}` }));
    const places = titles.flatMap(title => shown.filter(d => d.title === title).map(d => d.place));
    // What goes beyond a factor of 3 is cut: it would leave no room for the rest.
    const cut = value => Math.min(3, Math.max(1 / 3, value));
    const domain = ratioDomain(shown.flatMap(d => [d.ratio, d.low ?? d.ratio, d.high ?? d.ratio].map(cut)));
    const clip = value => Math.min(domain[1], Math.max(domain[0], value));
    const axis = ratioAxis(domain);
    const node = Plot.plot({
      width, style, height: 60 + 24 * places.length, marginLeft: left(places), marginRight: 66, marginBottom: 40,
      x: axis.scale,
      y: { type: "band", domain: places, label: null, padding: 0.25 },
      marks: [
        ...axis.marks,
        Plot.barX(shown, {
          y: "place", x1: 1, x2: d => clip(d.ratio), fill: d => signColour(d.sign),
          fillOpacity: { value: d => d.sign === "better" || d.sign === "worse" ? 0.9 : 0.4, scale: null },
          title: d => `${d.title}, ${d.subject}: ${number(d.value)} against ${number(d.base_value)}`,
        }),
        Plot.ruleY(shown.filter(d => d.low !== null), { y: "place", x1: d => clip(d.low), x2: d => clip(d.high), strokeWidth: 1.5 }),
        Plot.ruleX([1]),
        Plot.text(shown, { y: "place", frameAnchor: "right", dx: 60, textAnchor: "end", text: d => arrow(d.sign) + ratioText(d.ratio) }),
      ],
    });
    return {
      node, count: `n = ${d3.max(shown, d => d.pairs)} pairs; line: 95% interval`,
      columns: ["figure per operation", "subject", "value", "base", "ratio", "low", "high", "verdict"],
      rows: step.causes.map(d => [d.title, d.subject, d.value, d.base_value, d.ratio, d.low, d.high, d.verdict]),
    };
  },

  roles(step, width) {
    const names = report.subjects.filter(name => step.roles.some(d => d.subject === name));
    const all = namesOf("roles", d => d.role), colour = all.colour;
    const roles = all.names.filter(role => step.roles.some(d => d.role === role));
    const largest = d3.max(d3.rollup(step.roles, each => d3.sum(each, d => d.value), d => d.subject).values());
    const node = Plot.plot({
      width, style, height: 60 + 34 * names.length, marginLeft: left(names), marginRight: 20, marginBottom: 40,
      x: { grid: true, label: "us per operation →", ticks: 5 },
      y: { type: "band", domain: names, label: null, tickFormat: short, padding: 0.2 },
      marks: [
        Plot.barX(step.roles, Plot.stackX({ order: roles }, {
          y: "subject", x: "value", z: "role", fill: d => colour(d.role),
          title: d => `${d.subject}, ${d.role}: ${number(d.value)} us per operation`,
        })),
        Plot.text(step.roles, Plot.stackX({ order: roles }, {
          y: "subject", x: "value", z: "role", fill: "black", text: d => d.value > 0.1 * largest ? number(d.value) : "",
        })),
        Plot.ruleX([0]),
      ],
    });
    return {
      node: together(legend(roles.map(role => [role, colour(role)])), node), count: "medians of cells",
      columns: ["subject", "role", "us per operation"], rows: step.roles.map(d => [d.subject, d.role, d.value]),
    };
  },

  trend(step, width) {
    const points = step.points, changes = points.filter(d => step.changes.includes(d.place));
    const node = Plot.plot({
      width, style, height: 250, marginLeft: 58, marginRight: 12, marginBottom: 40,
      x: { domain: [0.5, points.length + 0.5], axis: null }, y: { grid: true, label: `↑ ${step.unit}`, ticks: 5 },
      marks: [
        Plot.ruleX(changes, { x: d => d.place - 0.5, stroke: "var(--worse)", strokeDasharray: "4,3" }),
        Plot.text(changes, { x: d => d.place - 0.5, frameAnchor: "top", dx: 4, textAnchor: "start", text: d => short(d.build) }),
        Plot.lineY(points, { x: "place", y: "value", stroke: "var(--subject-0)", strokeOpacity: 0.5 }),
        Plot.ruleY(step.levels, { x1: "from", x2: "to", y: "mean", strokeWidth: 2, title: d => `mean ${number(d.mean)}` }),
        Plot.dot(points, { x: "place", y: "value", r: 3, fill: "var(--subject-0)", title: d => `${d.build}, ${d.created.slice(0, 10)}: ${number(d.value)}` }),
        Plot.text([points[0]], { x: "place", frameAnchor: "bottom-left", dy: 24, textAnchor: "start", text: d => `${short(d.build)} ${d.created.slice(0, 10)}` }),
        Plot.text([points[points.length - 1]], { x: "place", frameAnchor: "bottom-right", dy: 24, textAnchor: "end", text: d => `${short(d.build)} ${d.created.slice(0, 10)}` }),
      ],
    });
    return {
      node, count: `${points.length} runs by ${step.by}`, columns: ["run", "created", "build", step.unit],
      rows: points.map(d => [d.run, d.created, d.build, d.value]),
    };
  },

  rate(step, width, figure) {
    const every = step.series.filter(d => d.t);
    const cells = [...new Set(every.map(d => d.repeat))].sort((a, b) => a - b);
    const align = choice(figure, "aligned by", ["time", "work done"]);
    const only = choice(figure, "show", ["all cells", ...cells.map(repeat => `repeat ${repeat}`)]);
    const series = every.filter(d => only === "all cells" || only === `repeat ${d.repeat}`).map(d => placed(d, align === "work done"));
    const end = d3.max(series, d => d.x[d.x.length - 1]);
    const names = report.subjects.filter(name => series.some(d => d.subject === name));
    const points = names.flatMap(subject => envelope(series.filter(d => d.subject === subject), end).map(d => ({ subject, ...d })));
    const label = align === "time" ? "seconds →" : `${step.unit.replace("/s", "")} done →`;
    const marks = series.flatMap(d => d.marks.map(mark => ({
      ...mark, place: `${short(d.subject)} ${d.repeat}`, at: d.of(mark.from), until: d.of(mark.to),
    })));
    const kinds = [...new Set(marks.map(d => d.kind))], look = kind => MARKS[kind] ?? OTHER_MARK;
    const places = [...new Set(marks.map(d => d.place))];
    // What every build did at the column that is pointed at.
    const readout = d => [
      align === "time" ? `${digits(d.x)} s` : `${number(d.x)} ${step.unit.replace("/s", "")}`,
      ...names.map(name => [name, d3.least(points.filter(each => each.subject === name), each => Math.abs(each.x - d.x))])
        .map(([name, at]) => `${short(name)}: ${number(at.mean)} (${number(at.min)} to ${number(at.max)})`),
    ].join("\n");
    // Of marks in the same place only the first has its letter.
    const lettered = marks.filter((d, i) => !marks.slice(0, i).some(each =>
      each.place === d.place && each.kind === d.kind && Math.abs(each.at - d.at) < 12 * end / width));
    const common = { width, style, marginLeft: Math.max(58, left(places)), marginRight: 12, marginBottom: 40, color: subjectColour };
    const x = { domain: [0, end], label: null };
    const chart = Plot.plot({
      ...common, height: 250, x: { ...x, axis: null }, y: { grid: true, zero: true, label: `↑ ${step.unit}`, ticks: 5 },
      marks: [
        Plot.areaY(points, { x: "x", z: "subject", y1: "min", y2: "max", fill: "subject", fillOpacity: 0.2, curve: "step" }),
        Plot.lineY(points, { x: "x", z: "subject", y: "mean", stroke: "subject", strokeWidth: 1.5 }),
        Plot.ruleY([0]),
        Plot.axisX({ label, ticks: 8, labelAnchor: "right" }),
        Plot.ruleX(points, Plot.pointerX({ x: "x", strokeOpacity: 0.5 })),
        Plot.tip(points, Plot.pointerX({ x: "x", y: "mean", title: readout, lineHeight: 1.3, fill: "var(--paper)", stroke: "var(--line)" })),
      ],
    });
    const events = marks.length ? Plot.plot({
      ...common, height: 8 + 19 * places.length, marginTop: 4, marginBottom: 4,
      x: { ...x, axis: null }, y: { type: "band", domain: places, label: null },
      marks: [
        Plot.ruleY(marks, { y: "place", x1: "at", x2: "until", strokeWidth: 5, strokeOpacity: 0.55, stroke: d => look(d.kind)[1], title: "text" }),
        Plot.text(lettered, { y: "place", x: "at", text: d => look(d.kind)[0], fill: d => look(d.kind)[1], fontWeight: "bold", title: "text" }),
      ],
    }) : null;
    return {
      node: together(
        legend(names.map(name => [name, subjectColour.range[report.subjects.indexOf(name)]])), chart,
        events && legend(kinds.map(kind => [kind.replace("_", " "), look(kind)[1], look(kind)[0]])), events,
      ),
      count: `n = ${series.length} cell${series.length === 1 ? "" : "s"}; line: mean, area: least to greatest second`,
      columns: ["subject", "repeat", "until s", "least", "mean", "greatest"],
      rows: series.flatMap(d => d.t.map((t, i) => [d.subject, d.repeat, t, d.min[i], d.mean[i], d.max[i]])),
    };
  },

  heat(step, width, figure, role) {
    const found = step.heat[role], names = report.subjects.filter(name => found[name]);
    const column = step.end_s / step.heat_columns;
    const rows = names.flatMap(subject => found[subject].map(([x, band, count]) => ({
      subject, from: x * column, to: (x + 1) * column, low: report.bands_us[band], high: report.bands_us[band + 1], count,
    })));
    const sums = d3.rollup(rows, each => d3.sum(each, d => d.count), d => d.subject, d => d.from);
    for (const row of rows) row.share = row.count / sums.get(row.subject).get(row.from);
    const [least, most] = [d3.min(rows, d => d.low), d3.max(rows, d => d.high)];
    const round = roundNumbers(least, most);
    const ticks = round.length < 2 ? [least, most] : round.length > 9 ? round.filter(us => Number.isInteger(Math.log10(us))) : round;
    const node = Plot.plot({
      width, style, height: 60 + 150 * names.length, marginLeft: 64, marginRight: 20, marginTop: 24, marginBottom: 40,
      fy: { domain: names, label: null, axis: null },
      x: { domain: [0, step.end_s], label: "seconds →", ticks: 6 },
      y: { type: "log", axis: null },
      marks: [
        Plot.gridY(ticks), Plot.axisY(ticks, { text: duration, label: null }),
        Plot.rect(rows, {
          fy: "subject", x1: "from", x2: "to", y1: "low", y2: "high", fill: "var(--heat)", inset: 0,
          fillOpacity: { value: d => 0.1 + 0.9 * Math.max(0, 1 + Math.log10(Math.max(d.share, 1e-4)) / 4), scale: null },
          title: d => `${d.subject}, ${number(d.from)} s: ${number(d.count)} took ${duration(d.low)} to ${duration(d.high)} (${digits(100 * d.share)}%)`,
        }),
        Plot.text(names, { fy: d => d, text: d => d, frameAnchor: "top-left", dx: 4, dy: -12, fontWeight: "bold" }),
      ],
    });
    return {
      node, count: `n = ${d3.format(",")(step.statements[role])} statements; the darker, the larger their share of the time's`,
      columns: ["subject", "from s", "to s", "from us", "to us", "statements"],
      rows: rows.map(d => [d.subject, d.from, d.to, d.low, d.high, d.count]),
    };
  },
};

// A select of a figure, made when it is first asked for; changing it draws the figure again.
function choice(figure, name, options) {
  const box = figure.querySelector(".controls");
  let select = [...box.querySelectorAll("select")].find(each => each.name === name);
  if (!select && options.length > 1) {
    const label = document.createElement("label");
    select = document.createElement("select");
    select.name = name;
    for (const option of options) select.add(new Option(option, option));
    select.addEventListener("change", () => draw(figure));
    label.append(`${name} `, select);
    box.append(label);
    box.hidden = false;
  }
  return select ? select.value : options[0];
}

// A cell's columns on the axis, and where a moment of it lies there.
function placed(cell, byWork) {
  let done = 0;
  const work = cell.t.map((t, i) => done += cell.mean[i] * (t - (i ? cell.t[i - 1] : 0)));
  const x = byWork ? work : cell.t;
  const of = t => {
    if (!byWork) return t;
    const i = Math.min(d3.bisectLeft(cell.t, t), cell.t.length - 1);
    const [t0, x0] = i ? [cell.t[i - 1], x[i - 1]] : [0, 0];
    return cell.t[i] > t0 ? x0 + (x[i] - x0) * Math.min(1, Math.max(0, (t - t0) / (cell.t[i] - t0))) : x[i];
  };
  return { ...cell, x, of };
}

// Cells of a build together: the least and the greatest of any of them, the mean of all.
function envelope(cells, end) {
  const columns = Math.min(240, d3.max(cells, d => d.x.length));
  return d3.range(columns).flatMap(place => {
    const x = end * (place + 0.5) / columns, from = end * place / columns, to = end * (place + 1) / columns;
    const found = cells
      .map(d => [d, d3.bisectLeft(d.x, from), Math.min(d3.bisectLeft(d.x, to), d.x.length - 1) + 1])
      .filter(([d, first]) => first < d.x.length);
    if (!found.length) return [];
    const each = (figure, of) => found.map(([d, first, last]) => of(d[figure].slice(first, last)));
    return [{ x, min: d3.min(each("min", d3.min)), max: d3.max(each("max", d3.max)), mean: d3.mean(each("mean", d3.mean)) }];
  });
}
