// Line charts as SVG.
const svg_name = "http://www.w3.org/2000/svg";
const width = 320, height = 140, left = 44, bottom = 20, top = 8, right = 8;

function shape(name, attributes, text = "") {
  const made = document.createElementNS(svg_name, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

export function short(value) {
  if (value === 0) return "0";
  const [divisor, unit] = Math.abs(value) >= 1e9 ? [1e9, "G"] : Math.abs(value) >= 1e6 ? [1e6, "M"] : Math.abs(value) >= 1e4 ? [1e3, "k"] : [1, ""];
  const scaled = value / divisor;
  return `${Math.abs(scaled) >= 100 ? scaled.toFixed(0) : Math.abs(scaled) >= 1 ? scaled.toFixed(1) : scaled.toPrecision(2)}${unit}`;
}

// `lines`: lists of [x, y]; the first two have colors of their own. `label` is what a screen reader says.
export function plot(lines, label) {
  const points = lines.flat();
  const x_first = Math.min(...points.map(([x]) => x)), x_last = Math.max(...points.map(([x]) => x), x_first + 1);
  const y_last = Math.max(...points.map(([, y]) => y)) || 1;
  const x_of = (x) => left + ((x - x_first) / (x_last - x_first)) * (width - left - right);
  const y_of = (y) => height - bottom - (y / y_last) * (height - bottom - top);
  const chart = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  chart.append(shape("path", { class: "axis", fill: "none", d: `M${left} ${top}V${height - bottom}H${width - right}` }),
               shape("text", { x: left - 4, y: top + 8, "text-anchor": "end" }, short(y_last)),
               shape("text", { x: left - 4, y: height - bottom, "text-anchor": "end" }, "0"));
  lines.forEach((line, i) => {
    if (line.length === 0) return;
    const d = line.map(([x, y], n) => `${n === 0 ? "M" : "L"}${x_of(x).toFixed(1)} ${y_of(y).toFixed(1)}`).join("");
    chart.append(shape("path", { class: i === 0 ? "first" : "second", d }));
  });
  return chart;
}
