// The tabs of the page, and what they share.
import { get, notice } from "/web/api.js";
import { start_benchmark } from "/web/benchmark.js";
import { start_chat } from "/web/chat.js";
import { start_compare } from "/web/compare.js";
import { show_dashboard, start_dashboard } from "/web/dashboard.js";
import { start_transcribe } from "/web/transcribe.js";
import { start_translate } from "/web/translate.js";

const tabs = [...document.querySelectorAll("[role=tab]")];

function select(tab) {
  for (const each of tabs) {
    const is_selected = each === tab;
    each.setAttribute("aria-selected", String(is_selected));
    each.tabIndex = is_selected ? 0 : -1;
    document.getElementById(each.getAttribute("aria-controls")).hidden = !is_selected;
  }
  history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
  show_dashboard(tab.id === "tab-dashboard");
}

function move(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const to = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1 : step && (tabs.indexOf(event.target) + step + tabs.length) % tabs.length;
  if (to === undefined) return;
  event.preventDefault();
  tabs[to].focus();
  select(tabs[to]);
}

// Which models a tab offers.
const tasks = {
  "chat-model": ["text"], "first-model": ["text"], "second-model": ["text"], "benchmark-model": ["text"],
  "translate-model": ["translation"], "transcribe-model": ["transcription"],
};

async function fill_models() {
  const { models } = await get("/v1/status");
  for (const [id, wanted] of Object.entries(tasks)) {
    const list = document.getElementById(id);
    const fitting = models.filter((model) => wanted.includes(model.task));
    for (const model of fitting) list.add(new Option(model.name, model.name));
    if (fitting.length === 0) list.add(new Option("none on this server", "", true, true));
    list.disabled = fitting.length === 0;
  }
  const second = document.getElementById("second-model");
  if (second.length > 1) second.selectedIndex = 1;
}

for (const tab of tabs) {
  tab.addEventListener("click", () => select(tab));
  tab.addEventListener("keydown", move);
}
for (const start of [start_chat, start_compare, start_translate, start_transcribe, start_dashboard, start_benchmark]) start();
select(tabs.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash) ?? tabs[0]);
fill_models().catch((error) => notice(error.message));
