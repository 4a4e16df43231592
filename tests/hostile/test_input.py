"""Standard input that cannot be read, that stays open, or that is larger than memory should be."""
import json
import os
import subprocess
import sys

import pytest
from command_line import FABLE, KVIK, ROOT, TRANSLATOR, kvik, succeed

READERS = {
    "run": ("run", FABLE, "-", "-n", 2),
    "chat": ("chat", FABLE, "-n", 2),
    "translate": ("translate", TRANSLATOR),
    "score": ("score", FABLE),
    "tokenize": ("tokenize", FABLE),
    "tokenize --decode": ("tokenize", FABLE, "--decode"),
    "tokenize --json-lines": ("tokenize", FABLE, "--json-lines"),
    "render": ("render", "--template", ROOT / "tests" / "hostile" / "template.jinja"),
}


@pytest.mark.parametrize("name", READERS)
def test_an_input_that_cannot_be_read_is_a_failure_and_one_sentence(name, tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    done = kvik(*READERS[name], stdin=folder)
    os.close(folder)
    assert done.returncode == 1 and done.stderr == "kvik: standard input could not be read: Is a directory\n"


@pytest.mark.parametrize("name", READERS)
def test_a_closed_input_is_a_failure_and_one_sentence(name):
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" <&-', KVIK, *map(str, READERS[name])], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr == "kvik: standard input could not be read: Bad file descriptor\n"


def test_chat_in_json_without_input_prints_one_object():
    answer = json.loads(succeed("chat", FABLE, "--json", text=""))
    assert answer["messages"] == [] and answer["backend"] == "native"
    answer = json.loads(succeed("chat", FABLE, "--json", "-n", 3, text="The king\n/quit\n"))
    assert [message["role"] for message in answer["messages"]] == ["user", "assistant"]


def test_a_line_is_translated_while_the_input_stays_open():
    """Nothing here waits for a time: the answer is read before the next line is written."""
    expected = [succeed("translate", TRANSLATOR, line) for line in ("Hello!", "How are you today?")]
    process = subprocess.Popen([KVIK, "translate", str(TRANSLATOR)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    answers = []
    for line in ("Hello!\n", "How are you today?\n"):
        process.stdin.write(line)
        process.stdin.flush()
        answers.append(process.stdout.readline())
    process.stdin.close()
    assert answers == expected and process.stdout.read() == "" and process.wait() == 0


@pytest.mark.parametrize("arguments,lines", [
    (("tokenize", FABLE, "--json-lines"), ['{"text":"a"}\n', '{"text":"b"}\n']),
    (("render", "--template", ROOT / "tests" / "hostile" / "template.jinja"), ['{"messages":[]}\n', '{"messages":[{"role":"user","content":"a"}]}\n']),
])
def test_every_line_is_answered_while_the_input_stays_open(arguments, lines):
    process = subprocess.Popen([KVIK, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in lines:
        process.stdin.write(line)
        process.stdin.flush()
        assert process.stdout.readline().startswith("{")
    process.stdin.close()
    assert process.wait() == 0


def test_lines_that_arrive_in_pieces_are_one_line():
    process = subprocess.Popen([KVIK, "tokenize", str(FABLE), "--json-lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    os.write(process.stdin.fileno(), b'{"text":')
    os.write(process.stdin.fileno(), b'"ab"}\r')
    os.write(process.stdin.fileno(), b"\n")
    assert json.loads(process.stdout.readline()) == json.loads(succeed("tokenize", FABLE, "--json", "ab"))
    os.write(process.stdin.fileno(), b'{"text":"ab"}')  # a last line without an end
    process.stdin.close()
    assert json.loads(process.stdout.read()) == json.loads(succeed("tokenize", FABLE, "--json", "ab"))
    assert process.wait() == 0


def long_text(n_bytes):
    story = (ROOT / "tests" / "fixtures" / "models-expected" / "fable" / "heldout.txt").read_text()
    return (story * (n_bytes // len(story) + 1))[:n_bytes]


# In a process of its own: Linux counts the memory of whoever starts a program as the program's.
MEASURE = """
import os, sys
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
print(usage.ru_maxrss if status == 0 else "failed", file=sys.stderr)
"""


def peak_kilobytes(arguments, text, tmp_path):
    """The most memory that one run takes."""
    (tmp_path / "text").write_text(text)
    with open(tmp_path / "text") as file:
        done = subprocess.run([sys.executable, "-S", "-c", MEASURE, KVIK, *map(str, arguments)], stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return int(done.stderr)


@pytest.mark.parametrize("model", [FABLE, TRANSLATOR])
def test_memory_does_not_grow_with_the_text_that_is_encoded(model, tmp_path):
    small = peak_kilobytes(("tokenize", model), long_text(3 << 20), tmp_path)
    large = peak_kilobytes(("tokenize", model), long_text(12 << 20), tmp_path)
    assert large < small + (16 << 10)


def test_memory_does_not_grow_with_the_ids_that_are_decoded(tmp_path):
    small = peak_kilobytes(("tokenize", FABLE, "--decode"), "65 66 " * (1 << 18), tmp_path)
    large = peak_kilobytes(("tokenize", FABLE, "--decode"), "65 66 " * (1 << 22), tmp_path)
    assert large < small + (4 << 10)


@pytest.mark.parametrize("special", ["--special", "--no-special"])
def test_a_text_that_is_encoded_in_parts_gives_the_ids_of_the_whole(special):
    """--json-lines encodes a text as a whole; standard input is encoded in parts of a megabyte."""
    text = long_text(3 << 20).replace("the", "th\u00e9") + " \n\n  the end"
    whole = json.loads(succeed("tokenize", FABLE, special, "--json-lines", text=json.dumps({"text": text}) + "\n"))
    assert json.loads(succeed("tokenize", FABLE, special, "--json", text=text)) == whole


def test_a_text_that_is_encoded_in_parts_by_scores_is_the_same_text():
    """A unigram tokenizer adds the scores of a whole text in 32 bits, which cannot tell pieces apart after a megabyte; in parts it can."""
    text = long_text(3 << 20)
    whole = json.loads(succeed("tokenize", TRANSLATOR, "--json-lines", text=json.dumps({"text": text}) + "\n"))["ids"]
    parts = json.loads(succeed("tokenize", TRANSLATOR, "--json", text=text))["ids"]
    assert len(parts) == len(whole) and parts[:300000] == whole[:300000] and parts[-1] == whole[-1]
    decoded = [succeed("tokenize", TRANSLATOR, "--decode", text=" ".join(map(str, ids))) for ids in (whole, parts)]
    assert decoded[0] == decoded[1]


def test_a_text_without_a_place_to_cut_is_encoded_all_the_same():
    text = "a" * (3 << 19)
    whole = json.loads(succeed("tokenize", TRANSLATOR, "--json-lines", text=json.dumps({"text": text}) + "\n"))
    assert json.loads(succeed("tokenize", TRANSLATOR, "--json", text=text)) == whole


def test_ids_that_arrive_in_parts_are_decoded_as_the_whole():
    ids = json.loads(succeed("tokenize", FABLE, "--json", "--no-special", text=long_text(1 << 19)))["ids"]
    whole = json.loads(succeed("tokenize", FABLE, "--json-lines", text=json.dumps({"ids": ids}) + "\n"))["text"]
    assert succeed("tokenize", FABLE, "--decode", text=" ".join(map(str, ids))) == whole + "\n"
    assert json.loads(succeed("tokenize", FABLE, "--decode", "--json", text=str(ids)))["text"] == whole
