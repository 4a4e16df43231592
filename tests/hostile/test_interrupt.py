"""Ctrl-C: every command ends with status 130 and prints what is finished; chat only stops its answer. Nothing here waits for a time:
the signal is sent once the command has printed or logged that it is at work."""
import json
import os
import pty
import signal
import subprocess

import pytest
from command_line import FABLE, FORMS, KVIK, ROOT, TRANSLATOR, succeed

INTERRUPTED = 130
SLOW = ("--backend", "reference")


def start(*arguments, **streams):
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([KVIK, *map(str, arguments)], text=True, **streams)


def wait_for_log(process, sentence):
    for line in process.stderr:
        if sentence in line:
            return
    raise AssertionError(f"it never logged '{sentence}'")


def finish(process):
    output, errors = process.communicate(timeout=300)
    assert "terminate called" not in errors
    return process.returncode, output


def test_run_keeps_the_text_it_has_printed():
    arguments = ("run", FABLE, "Once upon a time", "-n", 900, "--ignore-eos", "--quiet")
    process = subprocess.Popen([KVIK, *map(str, arguments + SLOW)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    first = process.stdout.read(1)  # generation has begun, and takes minutes on the reference backend
    process.send_signal(signal.SIGINT)
    text = (first + process.communicate(timeout=300)[0]).decode().rstrip("\n")
    whole = succeed(*arguments)
    assert process.returncode == INTERRUPTED and whole.startswith(text) and 0 < len(text) < len(whole) / 2


@pytest.mark.parametrize("beams", [1, 3])
def test_run_prints_one_json_object_that_says_it_was_cancelled(beams):
    process = start("run", FABLE, "Once upon a time", "-n", 900, "--ignore-eos", "--beams", beams, *SLOW, "--json", "--log-level", "info")
    wait_for_log(process, "generating")
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    assert status == INTERRUPTED and json.loads(output)["finish"] == "cancelled"


def test_translate_prints_the_lines_that_are_finished():
    process = start("translate", TRANSLATOR, "--batch", 1)
    process.stdin.write("Hello!\n")
    process.stdin.flush()
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)  # it waits for the next line
    status, output = finish(process)
    assert line.strip() and status == INTERRUPTED and output == ""


def test_translate_prints_json_of_what_is_finished():
    process = start("translate", TRANSLATOR, "--batch", 1, "--json", "--log-level", "info")
    wait_for_log(process, "translating")
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    assert status == INTERRUPTED and json.loads(output)["results"] == []


def test_score_prints_the_windows_that_are_finished():
    process = start("score", FABLE, "--window", 8, "--json", *SLOW, "--log-level", "info")
    process.stdin.write("Once upon a time there was a king. " * 2000)
    process.stdin.close()
    process.stdin = None
    wait_for_log(process, "scoring")
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    answer = json.loads(output)
    assert status == INTERRUPTED and answer["finish"] == "cancelled" and len(answer["logprobs"]) == answer["scored"] <= answer["tokens"]


def test_bench_prints_the_figures_that_are_finished():
    process = start("bench", FABLE, *SLOW, "--rounds", 100, "--json", "--log-level", "info")
    wait_for_log(process, "measuring")
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    assert status == INTERRUPTED and isinstance(json.loads(output)["results"], list)


def test_verify_prints_the_laws_that_are_finished():
    process = start("verify", FABLE, *SLOW, "--against", "none", "--ids", ",".join(map(str, range(1, 20))))
    header = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    assert header.startswith("reference on cpu") and status == INTERRUPTED
    assert "FAILS" not in output


def test_transcribe_prints_json_of_what_is_finished(tmp_path):
    process = start("transcribe", FORMS / "speech", long_recording(tmp_path), "--batch", 1, "--json", "--log-level", "info", *SLOW)
    wait_for_log(process, "transcribing")
    process.send_signal(signal.SIGINT)
    status, output = finish(process)
    answer = json.loads(output)
    assert status == INTERRUPTED and answer["finish"] == "cancelled" and isinstance(answer["windows"], list)


def long_recording(folder):
    """Ten minutes of silence at 16 kHz."""
    n_bytes = 2 * 16000 * 600
    size = lambda n: n.to_bytes(4, "little")
    head = b"RIFF" + size(36 + n_bytes) + b"WAVEfmt " + size(16) + b"\1\0\1\0" + size(16000) + size(32000) + b"\2\0\x10\0data" + size(n_bytes)
    path = folder / "silence.wav"
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + n_bytes)
    return path


@pytest.mark.parametrize("arguments,line", [
    (("tokenize", FABLE, "--json-lines"), '{"text":"a"}\n'),
    (("render", "--template", ROOT / "tests" / "hostile" / "template.jinja"), '{"messages":[]}\n'),
])
def test_commands_that_answer_line_by_line_stop_between_two_lines(arguments, line):
    process = start(*arguments)
    process.stdin.write(line)
    process.stdin.flush()
    answer = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert finish(process) == (INTERRUPTED, "") and json.loads(answer)


def test_a_command_that_waits_for_its_prompt_ends():
    process = start("run", FABLE, "-", "--log-level", "info")
    wait_for_log(process, "reading the prompt")
    process.send_signal(signal.SIGINT)
    assert finish(process) == (INTERRUPTED, "")


def test_chat_goes_on_after_an_answer_was_stopped():
    process = start("chat", FABLE, "-n", 900, "--ignore-eos", *SLOW)
    process.stdin.write("Once upon a time\n")
    process.stdin.flush()
    first = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    process.stdin.write("/stats\n/quit\n")
    process.stdin.flush()
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0 and first and output.endswith("\n") and "tokens in the context" in errors


def test_chat_at_its_prompt_prints_a_new_prompt():
    user, terminal = pty.openpty()
    process = start("chat", FABLE, stdin=terminal)
    os.close(terminal)
    text = ""
    while not text.endswith("> "):
        text += process.stderr.read(1)
    process.send_signal(signal.SIGINT)
    text = ""
    while not text.endswith("> "):
        text += process.stderr.read(1)
    assert "/quit or Ctrl-D" in text
    os.write(user, b"/quit\n")
    assert process.wait(timeout=60) == 0
    os.close(user)


def test_a_signal_that_the_parent_ignores_stays_ignored():
    process = start("tokenize", FABLE, "--json-lines", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    for _ in range(2):
        process.stdin.write('{"text":"a"}\n')
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
    assert finish(process)[0] == 0
