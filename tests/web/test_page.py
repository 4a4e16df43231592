"""The web page in a real browser: what a person would do with it."""
import shutil
import wave

import pytest
from command_line import FORMS, KVIK
from playwright.sync_api import expect, sync_playwright
from running_server import RunningServer

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCREENSHOTS = KVIK.parent / "screenshots"  # to look at


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    listener = tmp_path_factory.mktemp("models") / "listener"
    shutil.copytree(FORMS / "speech", listener)
    sound = '{"feature_size": 8, "n_fft": 400, "hop_length": 800, "chunk_length": 1, "sampling_rate": 16000}'
    (listener / "preprocessor_config.json").write_text(sound)
    with RunningServer("fable", "en-zh", listener) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    assert BROWSER, "chromium is missing; ./dev test installs it"
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"]
        running = playwright.chromium.launch(executable_path=BROWSER, args=options)
        yield running
        running.close()


@pytest.fixture
def page(browser, server):
    context = browser.new_context(viewport={"width": 1000, "height": 800}, permissions=["microphone"])
    opened = context.new_page()
    opened.problems = []
    opened.on("console", lambda message: opened.problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on("request", lambda request: opened.problems.append(request.url) if not request.url.startswith((server.url, "blob:", "data:")) else None)
    opened.goto(server.url)
    expect(opened.locator("#chat-model option").first).to_be_attached()
    yield opened
    assert opened.problems == []  # nothing failed, was blocked by the content security policy, or came from another host
    context.close()


def screenshot(page, name):
    SCREENSHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def say(page, text):
    page.fill("#chat-input", text)
    page.press("#chat-input", "Enter")


def set_chat(page, tokens=24, seed=5):
    page.click("summary")
    page.fill("#chat-settings [name=max_tokens]", str(tokens))
    page.fill("#chat-settings [name=seed]", str(seed))


def test_chat_streams_edits_and_retries(page):
    set_chat(page)
    say(page, "Once upon a time, in a deep forest,")
    facts = page.locator("article.assistant .facts")
    expect(facts).to_contain_text("tokens/s", timeout=30000)
    first = page.locator("article.assistant p").first.text_content()
    assert first.strip()
    page.click("text=Retry")
    expect(facts).to_contain_text("positions reused", timeout=30000)
    assert page.locator("article.assistant p").first.text_content() == first  # the same seed
    assert int(facts.text_content().split("after")[1].split(", ")[1].split(" of ")[0]) > 0  # the prompt was not computed again
    page.click("article.user >> text=Edit")
    expect(page.locator("#chat-input")).to_have_value("Once upon a time, in a deep forest,")
    expect(page.locator("article")).to_have_count(0)
    say(page, "A fox met a crow")
    expect(facts).to_contain_text("tokens", timeout=30000)
    screenshot(page, "chat")


def test_an_answer_can_be_stopped(page):
    set_chat(page, tokens=100000)
    # Clicked by the page itself as soon as there is text: a small model may end before a click from outside arrives.
    page.evaluate("""() => new MutationObserver(() => {
        const stop = document.querySelector("#chat-stop"), text = document.querySelector("article.assistant p");
        if (!stop.disabled && text && text.textContent) stop.click();
    }).observe(document.querySelector("#chat-log"), {childList: true, subtree: true, characterData: true})""")
    say(page, "Once")
    expect(page.locator("article.assistant .facts")).to_have_text("stopped", timeout=30000)
    expect(page.locator("#chat-stop")).to_be_disabled()


def test_two_settings_are_compared(page):
    page.click("#tab-compare")
    for side in ("first", "second"):
        page.fill(f"#{side}-settings [name=max_tokens]", "16")
    page.fill("#first-settings [name=temperature]", "0")
    page.fill("#second-settings [name=temperature]", "0")
    page.click("text=Run both")
    for side in ("first", "second"):
        expect(page.locator(f"#{side}-facts")).to_contain_text("16 tokens", timeout=30000)
    assert page.locator("#first-answer").text_content() == page.locator("#second-answer").text_content() != ""
    screenshot(page, "compare")


def test_lines_are_translated(page):
    page.click("#tab-translate")
    page.fill("#translate-input", "How are you today?\nI am fine.")
    page.click("#translate-form button")
    expect(page.locator("#translate-facts")).to_contain_text("2 lines in", timeout=30000)
    lines = page.locator("#translate-answer").text_content().split("\n")
    assert len(lines) == 2 and all(any("\u4e00" <= c <= "\u9fff" for c in line) for line in lines)
    screenshot(page, "translate")


def test_a_recording_is_transcribed(page, tmp_path):
    with wave.open(str(tmp_path / "tone.wav"), "wb") as tone:
        tone.setparams((1, 2, 8000, 0, "NONE", ""))
        tone.writeframes(b"\x00\x10\x00\xf0" * 4000)
    page.click("#tab-transcribe")
    page.set_input_files("#transcribe-file", tmp_path / "tone.wav")
    page.click("text=Transcribe the file")
    expect(page.locator("#transcribe-facts")).to_contain_text("s of sound", timeout=30000)
    page.click("#transcribe-record")
    page.click("text=Stop and transcribe")
    expect(page.locator("#transcribe-record")).to_have_text("Record")
    screenshot(page, "transcribe")


def test_the_dashboard_shows_the_machine_and_charts(page):
    page.click("#tab-dashboard")
    expect(page.locator("#machine")).to_contain_text("Instruction set")
    expect(page.locator("#models tbody tr")).to_have_count(3)
    expect(page.locator("#charts svg")).to_have_count(8, timeout=30000)
    screenshot(page, "dashboard")


def test_the_benchmark_compares_with_and_without_the_cache(page):
    page.click("#tab-benchmark")
    page.fill("#benchmark-tokens", "24")
    page.click("#benchmark-form button:has-text('Run')")
    expect(page.locator("#benchmark-facts")).to_contain_text("the texts are the same", timeout=60000)
    expect(page.locator("#benchmark-chart path.second")).to_have_count(1)
    screenshot(page, "benchmark")


def test_tabs_work_from_the_keyboard_and_are_named(page):
    page.focus("#tab-chat")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-compare")).to_be_focused()
    expect(page.locator("#compare")).to_be_visible()
    expect(page.locator("#chat")).to_be_hidden()
    page.keyboard.press("End")
    expect(page.get_by_role("tab", name="Benchmark")).to_have_attribute("aria-selected", "true")
    unnamed = page.evaluate("""() => [...document.querySelectorAll('input, select, textarea, button')]
        .filter((each) => !each.labels?.length && !each.textContent.trim() && !each.getAttribute('aria-label')).map((each) => each.outerHTML)""")
    assert unnamed == []


def test_the_page_fits_a_phone(browser, server):
    context = browser.new_context(viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(server.url)
    for tab in page.locator("[role=tab]").all():
        tab.tap()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab.text_content()
    screenshot(page, "phone")
    context.close()


def test_a_key_is_asked_for_once(browser):
    with RunningServer("fable", "--api-key", "secret") as server:
        context = browser.new_context()
        page = context.new_page()
        page.goto(server.url)
        page.fill("#key", "secret")
        page.press("#key", "Enter")
        expect(page.locator("#chat-model")).to_have_value("fable")
        context.close()
