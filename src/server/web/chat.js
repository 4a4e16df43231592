// A conversation that streams. Editing or retrying sends the shorter conversation again: the server finds its beginning in the cache.
import { Meter, add_settings, element, make, notice, stream } from "/web/api.js";

const messages = [];  // {role, content, facts}
let running = null;
let read_settings;

function button(label, action) {
  const made = make("button", { type: "button" }, label);
  made.addEventListener("click", action);
  return made;
}

function show(index) {
  const { role, content, facts } = messages[index];
  const text = make("p", {}, content);
  const actions = make("div", { class: "actions" });
  if (role === "user") actions.append(button("Edit", () => edit(index)));
  if (role === "assistant") actions.append(button("Retry", () => retry(index)));
  const article = make("article", { class: role }, make("h2", {}, role === "user" ? "You" : element("chat-model").value), text,
                       ...(role === "assistant" ? [make("p", { class: "facts" }, facts ?? "")] : []), actions);
  element("chat-log").append(article);
  return article;
}

function show_all() {
  element("chat-log").replaceChildren();
  messages.forEach((_, index) => show(index));
  element("chat-log").scrollTop = element("chat-log").scrollHeight;
}

function edit(index) {
  running?.abort();
  element("chat-input").value = messages[index].content;
  messages.length = index;
  show_all();
  element("chat-input").focus();
}

async function retry(index) {
  running?.abort();
  messages.length = index;
  show_all();
  await answer();
}

async function answer() {
  const system = element("chat-system").value.trim();
  const sent = [...(system ? [{ role: "system", content: system }] : []), ...messages.map(({ role, content }) => ({ role, content }))];
  const reply = { role: "assistant", content: "" };
  messages.push(reply);
  const article = show(messages.length - 1);
  const text = article.querySelector("p");
  const log = element("chat-log");
  const meter = new Meter();
  const mine = new AbortController();
  running = mine;
  article.classList.add("writing");
  element("chat-stop").disabled = false;
  try {
    const body = { model: element("chat-model").value, messages: sent, ...read_settings() };
    for await (const chunk of stream("/v1/chat/completions", body, mine.signal)) {
      if (chunk.usage) meter.usage = chunk.usage;
      const piece = chunk.choices[0]?.delta?.content;
      if (!piece) continue;
      meter.token();
      reply.content += piece;
      text.textContent = reply.content;
      log.scrollTop = log.scrollHeight;
    }
    reply.facts = meter.describe();
  } catch (error) {
    reply.facts = error.name === "AbortError" ? "stopped" : error.message;
  } finally {
    article.classList.remove("writing");
    article.querySelector(".facts").textContent = reply.facts;
    if (running === mine) {
      running = null;
      element("chat-stop").disabled = true;
    }
  }
}

async function send(event) {
  event?.preventDefault();
  const text = element("chat-input").value;
  if (!text.trim() || running) return;
  notice("");
  element("chat-input").value = "";
  messages.push({ role: "user", content: text });
  show_all();
  await answer();
}

export function start_chat() {
  read_settings = add_settings(element("chat-settings"));
  element("chat-form").addEventListener("submit", send);
  element("chat-stop").addEventListener("click", () => running?.abort());
  element("chat-input").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
    if (event.key === "Escape") running?.abort();
  });
  element("chat-new").addEventListener("click", () => {
    running?.abort();
    messages.length = 0;
    show_all();
    element("chat-input").focus();
  });
}
