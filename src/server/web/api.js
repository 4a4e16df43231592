// Requests to the server that sent this page.
const key_name = "kvik-api-key";

export const element = (id) => document.getElementById(id);

export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function notice(text) {
  element("notice").textContent = text;
  element("notice").hidden = !text;
}

function headers() {
  const key = sessionStorage.getItem(key_name);
  return key ? { authorization: `Bearer ${key}` } : {};
}

function ask_for_key() {
  return new Promise((resolve) => {
    const dialog = element("key-dialog");
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(key_name, element("key").value);
      resolve();
    }, { once: true });
    dialog.showModal();
  });
}

// One dialog, however many requests need the key.
let asking = null;

async function send(path, options = {}) {
  for (;;) {
    const response = await fetch(path, { ...options, headers: { ...options.headers, ...headers() } });
    if (response.status === 401) {
      asking ??= ask_for_key().finally(() => { asking = null; });
      await asking;
      continue;
    }
    if (response.ok) return response;
    const answer = await response.json().catch(() => null);
    throw new Error(answer?.error?.message ?? `${path}: status ${response.status}`);
  }
}

export const get = async (path) => (await send(path)).json();
export const get_text = async (path) => (await send(path)).text();

const as_json = (body, signal) => ({ method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal });
export const post = async (path, body, signal) => (await send(path, as_json(body, signal))).json();
export const post_form = async (path, form, signal) => (await send(path, { method: "POST", body: form, signal })).json();

// The events of a streamed answer.
export async function* stream(path, body, signal) {
  const response = await send(path, as_json({ ...body, stream: true, stream_options: { include_usage: true } }, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const events = held.split("\n\n");
    held = events.pop();
    for (const event of events) {
      if (!event.startsWith("data: ") || event === "data: [DONE]") continue;
      const chunk = JSON.parse(event.slice("data: ".length));
      if (chunk.error) throw new Error(chunk.error.message);
      yield chunk;
    }
  }
}

// Counts and times a stream: call token() for each chunk with text, then describe().
export class Meter {
  start = performance.now();
  first = 0;
  last = 0;
  usage = null;

  token() {
    this.last = performance.now();
    this.first ||= this.last;
  }
  // Without the prompt, unless the tokens came so fast that some of them were read together.
  get tokens_per_s() {
    const n = this.usage?.completion_tokens ?? 0;
    if (n > 1 && this.last - this.first > 20) return ((n - 1) * 1000) / (this.last - this.first);
    return n > 0 && this.last > this.start ? (n * 1000) / (this.last - this.start) : 0;
  }
  describe() {
    if (!this.usage) return "";
    const reused = this.usage.prompt_tokens_details?.cached_tokens ?? 0;
    const parts = [`${this.usage.completion_tokens} tokens`];
    if (this.tokens_per_s > 0) parts.push(`${this.tokens_per_s.toFixed(0)} tokens/s`);
    if (this.first) parts.push(`first after ${(this.first - this.start).toFixed(0)} ms`);
    parts.push(`${reused} of ${this.usage.prompt_tokens} positions reused`);
    return parts.join(", ");
  }
}

// What a person may choose about sampling. Returns a function that reads the choice.
const settings = [
  ["temperature", "Temperature", { type: "number", min: 0, max: 2, step: 0.1, placeholder: "model" }],
  ["top_p", "Top p", { type: "number", min: 0, max: 1, step: 0.05, placeholder: "model" }],
  ["max_tokens", "Most tokens", { type: "number", min: 1, max: 100000, step: 1, value: 256 }],
  ["seed", "Seed", { type: "number", min: 0, step: 1, placeholder: "random" }],
];

export function add_settings(parent) {
  const inputs = settings.map(([name, label, attributes]) => {
    const input = make("input", { ...attributes, name });
    parent.append(make("label", {}, `${label} `, input));
    return [name, input];
  });
  return () => Object.fromEntries(inputs.filter(([, input]) => input.value !== "").map(([name, input]) => [name, Number(input.value)]));
}
