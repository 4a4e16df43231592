// Live charts of /metrics, and what the server runs on.
import { element, get, get_text, make, notice } from "/web/api.js";
import { plot, short } from "/web/plot.js";

const seconds_shown = 120;
let timer = null;
let last = null;  // the sums of the poll before
const history_of = new Map();

// Sums of every metric over its labels.
function parse(text) {
  const sums = new Map();
  for (const line of text.split("\n")) {
    const found = /^([a-z_]+)(\{.*\})? (\S+)$/.exec(line);
    if (found && !found[1].endsWith("_bucket")) sums.set(found[1], (sums.get(found[1]) ?? 0) + Number(found[3]));
  }
  return sums;
}

// Each reads the sums now and those of the poll before.
const change = (now, before, name) => (now.get(name) ?? 0) - (before.get(name) ?? 0);
const mean_ms = (now, before, name) => {
  const n = change(now, before, `${name}_count`);
  return n > 0 ? (change(now, before, `${name}_sum`) / n) * 1000 : 0;
};
const charts = [
  ["Running generations", "", (now) => now.get("kvik_running") ?? 0],
  ["Waiting in the queue", "", (now) => now.get("kvik_waiting") ?? 0],
  ["Generated tokens per second", "", (now, before, s) => change(now, before, "kvik_generated_tokens_total") / s],
  ["First token", " ms", (now, before) => mean_ms(now, before, "kvik_first_token_seconds")],
  ["Time per token", " ms", (now, before) => mean_ms(now, before, "kvik_token_seconds")],
  ["KV cache pages in use", "B", (now) => now.get("kvik_cache_used_bytes") ?? 0],
  ["Positions reused per second", "", (now, before, s) => change(now, before, "kvik_reused_tokens_total") / s],
  ["Refused requests", "", (now) => now.get("kvik_rejections_total") ?? 0],
];

async function poll() {
  const now = { time: performance.now() / 1000, sums: parse(await get_text("/metrics")) };
  const before = last;
  last = now;
  if (!before) return;
  const figures = charts.map(([title, unit, read]) => {
    const value = read(now.sums, before.sums, now.time - before.time);
    const line = [...(history_of.get(title) ?? []), [now.time, value]].filter(([time]) => now.time - time < seconds_shown);
    history_of.set(title, line);
    const caption = make("figcaption", {}, `${title} `, make("strong", {}, `${short(value)}${unit}`));
    return make("figure", {}, caption, plot([line], `${title}: ${short(value)}${unit}`));
  });
  element("charts").replaceChildren(...figures);
}

function describe_machine(machine, version) {
  const facts = { Version: version, Processor: machine.processor, Cores: machine.cores, "Instruction set": machine.isa, Memory: `${short(machine.memory_bytes)}B` };
  element("machine").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
}

function describe_models(models) {
  const head = make("tr", {}, ...["Name", "Task", "Backend", "Device", "Weights"].map((name) => make("th", { scope: "col" }, name)));
  const rows = models.map((model) => make("tr", {}, make("th", { scope: "row" }, model.name), make("td", {}, model.task),
    make("td", {}, model.loaded ? model.backend : "not loaded"), make("td", {}, model.device ?? ""), make("td", { class: "number" }, `${short(model.weights_bytes)}B`)));
  element("models").replaceChildren(make("caption", {}, "Models"), make("thead", {}, head), make("tbody", {}, ...rows));
}

async function describe() {
  const status = await get("/v1/status");
  describe_machine(status.machine, status.version);
  describe_models(status.models);
}

const tell = (error) => notice(error.message);

export function show_dashboard(shown) {
  clearInterval(timer);
  timer = null;
  if (!shown) return;
  last = null;
  describe().catch(tell);
  poll().catch(tell);
  timer = setInterval(() => poll().catch(tell), 1000);
}

export function start_dashboard() {
  document.addEventListener("visibilitychange", () => {
    if (!element("dashboard").hidden) show_dashboard(!document.hidden);
  });
}
