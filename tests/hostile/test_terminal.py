"""Names that try to steer a terminal or to look like something else: no message and no table prints them raw."""
import os
import shutil
import subprocess

import onnx
import pytest
from command_line import FABLE, FORMS, KVIK, kvik, succeed

# A terminal escape, a forged second line, the C1 form of an escape, a right-to-left override, bytes that are not UTF-8.
NAMES = {
    "escape": b"\x1b[2Jx",
    "newline": b"x\nkvik: all is well",
    "c1": "\u009b2Jx".encode(),
    "bidi": "\u202etxt.x".encode(),
    "line separator": "x\u2028kvik: all is well".encode(),
    "raw c1": b"\x9b2Jx",
    "delete": b"x\x7f",
}
ESCAPES = {
    "escape": "\\x1b[2Jx",
    "newline": "x\\nkvik: all is well",
    "c1": "\\u009b2Jx",
    "bidi": "\\u202etxt.x",
    "line separator": "x\\u2028kvik: all is well",
    "raw c1": "\\x9b2Jx",
    "delete": "x\\x7f",
}


def run(*arguments, **more):
    """Arguments as bytes; output as bytes, as a terminal gets them."""
    return subprocess.run([os.fsencode(KVIK), *(a if isinstance(a, bytes) else os.fsencode(str(a)) for a in arguments)], capture_output=True, timeout=120, **more)


def assert_harmless(output, name):
    """`output` shows the name, and escaped."""
    text = output.decode("utf-8")  # and never a byte that is not UTF-8
    assert ESCAPES[name] in text, text
    for character in text:
        code = ord(character)
        assert character == "\n" or not (code < 0x20 or 0x7F <= code < 0xA0 or 0x2028 <= code <= 0x202E), text
    assert "\nkvik: all is well" not in text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arguments", [
    ("run", "{}", "x"), ("inspect", "{}"), ("tokenize", "{}", "x"), ("render", "{}"), ("translate", "{}", "x"), ("transcribe", FORMS / "speech", "{}.wav"),
    ("score", FABLE, "{}"), ("verify", "{}"), ("bench", "{}"), ("chat", "{}"), ("manual", "{}"),
    ("run", FABLE, "x", "--backend", "ort", "--ort-lib", "{}"), ("run", FABLE, "x", "--no-fuse", "{}"), ("run", FABLE, "x", "--variant", "{}"),
    ("translate", "en-zh", "x", "--language", "{}"), ("manual", "--folder", "{}"),
], ids=lambda arguments: " ".join(str(a).rsplit("/", 1)[-1] for a in arguments))
def test_errors_escape_names(arguments, name, tmp_path):
    given = [a.encode().replace(b"{}", NAMES[name]) if isinstance(a, str) else a for a in arguments]
    done = run(*given, cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == b"", (done.stdout, done.stderr)
    assert_harmless(done.stderr, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("arguments", [("{}",), ("run", FABLE, "x", "--{}"), ("run", FABLE, "x", "{}"), ("run", FABLE, "x", "--backend", "{}"), ("run", FABLE, "x", "-n", "{}"),
                                       ("completion", "{}")], ids=str)
def test_usage_errors_escape_words(arguments, name):
    done = run(*(a.encode().replace(b"{}", NAMES[name]) if isinstance(a, str) else a for a in arguments))
    assert done.returncode == 2 and done.stdout == b""
    assert_harmless(done.stderr, name)


def model_with_names(folder, word):
    """The plain decoder, in a folder with this name, whose graph names and producer carry it too."""
    model = onnx.load(FORMS / "plain" / "model.onnx")
    model.producer_name = word
    for node in model.graph.node:
        for i, output in enumerate(node.output):
            if output == "logits":
                node.output[i] = "logits" + word
    for output in model.graph.output:
        if output.name == "logits":
            output.name = "logits" + word
    folder.mkdir()
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for file in (FORMS / "plain").iterdir():
        if file.suffix == ".json":
            shutil.copy(file, folder)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "raw c1"])  # names in a graph are UTF-8
def test_inspect_and_models_print_names_out_of_files_escaped(name, tmp_path):
    word = NAMES[name].decode()
    model_with_names(tmp_path / word, word)
    environment = {**os.environ, "KVIK_MODELS": str(tmp_path)}
    for arguments in (("inspect", os.fsencode(tmp_path / word)), ("models",)):
        done = run(*arguments, env=environment)
        assert done.returncode == 0, done.stderr
        assert_harmless(done.stdout, name)


def test_text_that_a_model_generates_is_printed_as_it_is():
    """It is the result, not a message."""
    assert succeed("tokenize", FABLE, "--decode", " ".join(succeed("tokenize", FABLE, "--no-special", "a\tb").split())) == "a\tb\n"


def test_chat_escapes_names(tmp_path):
    done = kvik("chat", FABLE, text="/\x1b[2J\n/load \x1b[2J\n/save /no/such/folder/\x1b[2J\n/quit\n")
    assert done.stderr.count("\\x1b[2J") == 3 and "\x1b" not in done.stderr
