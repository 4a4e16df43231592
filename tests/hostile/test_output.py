"""Standard output or standard error that is full or closed: no result is lost silently, from any command."""
import json
import os
import subprocess

import pytest
from command_line import FABLE, FORMS, KVIK, ROOT, TRANSLATOR, kvik, refusal

PLAIN = FORMS / "plain"

# Every command, with every kind of output it has. The second part is what it reads.
COMMANDS = {
    "run": (("run", FABLE, "The king", "-n", 4), ""),
    "run --json": (("run", FABLE, "The king", "-n", 4, "--json"), ""),
    "run --beams": (("run", FABLE, "The king", "-n", 4, "--beams", 2), ""),
    "run by ids": (("run", PLAIN, "--ids", "1,2", "-n", 4), ""),
    "chat": (("chat", FABLE, "-n", 4, "--quiet"), "The king\n"),
    "chat --json": (("chat", FABLE, "-n", 4, "--quiet", "--json"), "The king\n"),
    "translate": (("translate", TRANSLATOR, "-n", 8), "Hello!\nHow are you?\n"),
    "translate --json": (("translate", TRANSLATOR, "-n", 8, "--json"), "Hello!\n"),
    "inspect": (("inspect", PLAIN), ""),
    "inspect --json": (("inspect", PLAIN, "--json"), ""),
    "models": (("models",), ""),
    "models --json": (("models", "--json"), ""),
    "verify": (("verify", PLAIN, "--against", "none"), ""),
    "verify --json": (("verify", PLAIN, "--against", "none", "--json"), ""),
    "bench": (("bench", PLAIN, "--prompt", 4, "--tokens", 2, "--rounds", 1), ""),
    "bench --json": (("bench", PLAIN, "--prompt", 4, "--tokens", 2, "--rounds", 1, "--json"), ""),
    "score": (("score", FABLE), "Once upon a time there was a king."),
    "score --json": (("score", FABLE, "--json"), "Once upon a time there was a king."),
    "tokenize": (("tokenize", FABLE), "Once upon a time"),
    "tokenize --json": (("tokenize", FABLE, "--json"), "Once upon a time"),
    "tokenize --decode": (("tokenize", FABLE, "--decode"), "65 66"),
    "tokenize --json-lines": (("tokenize", FABLE, "--json-lines"), '{"text":"a"}\n'),
    "render": (("render", "--template", ROOT / "tests" / "hostile" / "template.jinja"), '{"messages":[{"role":"user","content":"a"}]}\n'),
    "completion bash": (("completion", "bash"), ""),
    "completion zsh": (("completion", "zsh"), ""),
    "completion fish": (("completion", "fish"), ""),
    "manual": (("manual",), ""),
    "manual run": (("manual", "run"), ""),
    "--version": (("--version",), ""),
    "--help": (("--help",), ""),
    "--help-all": (("--help-all",), ""),
    "run --help": (("run", "--help"), ""),
}


def sentences(errors):
    return [line for line in errors.splitlines() if not line.startswith("kvik: warning:")]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_standard_output_is_a_failure_and_one_sentence(name):
    arguments, text = COMMANDS[name]
    with open("/dev/full", "w") as full:
        done = kvik(*arguments, text=text, stdout=full)
    assert done.returncode == 1
    assert sentences(done.stderr) == ["kvik: standard output could not be written: No space left on device"]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_standard_output_is_a_failure_and_one_sentence(name):
    arguments, text = COMMANDS[name]
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', KVIK, *map(str, arguments)], input=text, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 1
    assert sentences(done.stderr) == ["kvik: standard output could not be written: Bad file descriptor"]


@pytest.mark.parametrize("arguments", [("tokenize", FABLE, "--json-lines"), ("tokenize", FABLE)])
def test_output_that_fills_up_on_the_way_is_a_failure(arguments, tmp_path):
    """A file that may not grow past 16 KB: the first bytes are written, the rest cannot be."""
    lines = '{"text":"Once upon a time"}\n' * 4000
    limited = 'ulimit -f 16; trap "" XFSZ; exec "$0" "$@"'
    with open(tmp_path / "output", "w") as output:
        done = subprocess.run(["bash", "-c", limited, KVIK, *map(str, arguments)], input=lines, stdout=output, stderr=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == 1
    assert sentences(done.stderr) == ["kvik: standard output could not be written: File too large"]
    assert 0 < os.path.getsize(tmp_path / "output") <= 16 << 10


@pytest.mark.parametrize("stream", ["2>/dev/full", "2>&-"])
def test_a_standard_error_that_cannot_be_written_changes_no_result(stream):
    def status_and_output(*arguments, text=""):
        done = subprocess.run(["sh", "-c", f'exec "$0" "$@" {stream}', KVIK, *map(str, arguments)], input=text, stdout=subprocess.PIPE, text=True, timeout=120)
        return done.returncode, done.stdout

    assert status_and_output("run", FABLE, "The king", "-n", 4) == (0, kvik("run", FABLE, "The king", "-n", 4).stdout)
    assert status_and_output("translate", TRANSLATOR, text="Hello!\n") == (0, kvik("translate", TRANSLATOR, text="Hello!\n").stdout)
    assert status_and_output("run", "no-such-model", "x") == (1, "")
    assert status_and_output("run") == (2, "")
    assert status_and_output("inspect", PLAIN, "--log-level", "debug")[0] == 0


def test_a_closed_standard_output_never_writes_into_a_file_that_is_opened_later(tmp_path):
    """The descriptor of a closed stream is the first that a new file would get."""
    saved = tmp_path / "talk.json"
    talk = tmp_path / "talk.txt"
    talk.write_text(f"/save {saved}\nThe king\n/quit\n")
    with open(talk) as lines:
        subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', KVIK, "chat", str(FABLE), "-n", "4"], stdin=lines, stderr=subprocess.PIPE, timeout=120)
    assert json.loads(saved.read_text()) == []


@pytest.mark.parametrize("target", ["/dev/full", "/dev/null", "folder", "pipe"])
def test_files_of_results_are_never_written_over_what_is_no_file(tmp_path, target):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    path = target if target.startswith("/") else tmp_path / target
    before = os.stat(path).st_mode
    assert "a regular file or a new name was expected" in refusal("bench", PLAIN, "--prompt", 4, "--tokens", 2, "--rounds", 1, "--plot", path)
    done = kvik("chat", FABLE, "-n", 2, text=f"/save {path}\n/quit\n")
    assert "a regular file or a new name was expected" in done.stderr
    assert os.stat(path).st_mode == before


def test_a_manual_that_cannot_be_written_is_a_sentence(tmp_path):
    os.mkfifo(tmp_path / "kvik.1")
    assert "it is a pipe" in refusal("manual", "--folder", tmp_path)
    assert "could not be written" in refusal("manual", "--folder", tmp_path / "absent")
