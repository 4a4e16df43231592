// The same tokens with and without the cache, as curves of the time per token.
import { element, make, stream } from "/web/api.js";
import { plot } from "/web/plot.js";

const prompt = "Once upon a time there was a small house at the edge of a large forest, and";
let running = null;

async function times(use_cache, n_tokens, signal, show) {
  const line = [];
  let text = "", before = performance.now();
  const body = { model: element("benchmark-model").value, prompt, max_tokens: n_tokens, temperature: 0, ignore_eos: true, use_cache };
  for await (const chunk of stream("/v1/completions", body, signal)) {
    const piece = chunk.choices[0]?.text;
    if (!piece) continue;
    const now = performance.now();
    line.push([line.length, now - before]);
    before = now;
    text += piece;
    show(line);
  }
  return { line, text };
}

const total = (line) => line.slice(1).reduce((sum, [, ms]) => sum + ms, 0);

async function run(event) {
  event.preventDefault();
  running?.abort();
  const mine = (running = new AbortController());
  const facts = element("benchmark-facts");
  const lines = [[], []];
  const show = (index) => (line) => {
    lines[index] = line;
    const caption = make("figcaption", {}, "Milliseconds per token: with the cache (solid), without (dashed)");
    element("benchmark-chart").replaceChildren(make("figure", {}, caption, plot(lines, "time per token with and without the cache")));
  };
  element("benchmark-stop").disabled = false;
  facts.textContent = "running…";
  try {
    const n_tokens = Number(element("benchmark-tokens").value) || 96;
    const cached = await times(true, n_tokens, mine.signal, show(0));
    const uncached = await times(false, n_tokens, mine.signal, show(1));
    const ratio = total(uncached.line) / total(cached.line);
    const same = cached.text === uncached.text ? "the texts are the same" : "the texts differ";
    facts.textContent = `${(total(cached.line) / 1000).toFixed(2)} s with the cache, ${(total(uncached.line) / 1000).toFixed(2)} s without: ${ratio.toFixed(1)} times as fast; ${same}`;
  } catch (error) {
    facts.textContent = error.name === "AbortError" ? "stopped" : error.message;
  } finally {
    if (running === mine) element("benchmark-stop").disabled = true;
  }
}

export function start_benchmark() {
  element("benchmark-form").addEventListener("submit", run);
  element("benchmark-stop").addEventListener("click", () => running?.abort());
}
