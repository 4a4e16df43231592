// Lines in, translated lines out.
import { element, post } from "/web/api.js";

async function translate(event) {
  event.preventDefault();
  const lines = element("translate-input").value.split("\n");
  const facts = element("translate-facts");
  facts.textContent = "translating…";
  const language = element("translate-language").value.trim();
  const start = performance.now();
  try {
    const body = { model: element("translate-model").value, input: lines, beams: Number(element("translate-beams").value) || 1 };
    const { data } = await post("/v1/translations", language ? { ...body, language } : body);
    element("translate-answer").textContent = data.map((each) => each.text).join("\n");
    facts.textContent = `${lines.length} ${lines.length === 1 ? "line" : "lines"} in ${(performance.now() - start).toFixed(0)} ms`;
  } catch (error) {
    facts.textContent = error.message;
  }
}

export function start_translate() {
  element("translate-form").addEventListener("submit", translate);
}
