// Continues a text with a model of this server, as it is generated.
const element = (id) => document.getElementById(id);
let running = null;

async function list_models() {
  const answer = await fetch("/v1/models");
  const models = (await answer.json()).data ?? [];
  for (const model of models) element("model").add(new Option(model.id, model.id));
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) if (part !== "data: [DONE]") yield JSON.parse(part.slice("data: ".length));
  }
}

async function generate(event) {
  event.preventDefault();
  running?.abort();
  running = new AbortController();
  element("stop").disabled = false;
  const answer = element("answer");
  answer.textContent = "";
  try {
    const body = { model: element("model").value, prompt: element("prompt").value, max_tokens: 200, stream: true };
    const response = await fetch("/v1/completions", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal: running.signal,
    });
    if (!response.ok) throw new Error((await response.json()).error.message);
    for await (const chunk of events(response)) {
      if (chunk.error) throw new Error(chunk.error.message);
      answer.textContent += chunk.choices[0]?.text ?? "";
    }
  } catch (error) {
    if (error.name !== "AbortError") answer.textContent += `\n${error.message}`;
  } finally {
    element("stop").disabled = true;
  }
}

element("form").addEventListener("submit", generate);
element("stop").addEventListener("click", () => running?.abort());
list_models();
