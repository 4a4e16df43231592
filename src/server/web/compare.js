// Two continuations of one text, side by side.
import { Meter, add_settings, element, stream } from "/web/api.js";

const sides = ["first", "second"];
const read_settings = {};
let running = null;

async function run_side(side, prompt, signal) {
  const answer = element(`${side}-answer`), facts = element(`${side}-facts`);
  answer.textContent = "";
  facts.textContent = "";
  const meter = new Meter();
  try {
    const body = { model: element(`${side}-model`).value, prompt, ...read_settings[side]() };
    for await (const chunk of stream("/v1/completions", body, signal)) {
      if (chunk.usage) meter.usage = chunk.usage;
      const piece = chunk.choices[0]?.text;
      if (!piece) continue;
      meter.token();
      answer.textContent += piece;
    }
    facts.textContent = meter.describe();
  } catch (error) {
    facts.textContent = error.name === "AbortError" ? "stopped" : error.message;
  }
}

async function run(event) {
  event.preventDefault();
  running?.abort();
  const mine = (running = new AbortController());
  element("compare-stop").disabled = false;
  await Promise.all(sides.map((side) => run_side(side, element("compare-input").value, mine.signal)));
  if (running === mine) element("compare-stop").disabled = true;
}

export function start_compare() {
  for (const side of sides) read_settings[side] = add_settings(element(`${side}-settings`));
  element("compare-form").addEventListener("submit", run);
  element("compare-stop").addEventListener("click", () => running?.abort());
}
