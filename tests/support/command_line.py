"""Runs the program that was built, as a script would."""
import os
import pathlib
import subprocess

KVIK = pathlib.Path(os.environ["KVIK_BINARY_DIR"]) / "kvik"
ROOT = pathlib.Path(__file__).resolve().parents[2]
FABLE = ROOT / "models" / "fable"
TRANSLATOR = ROOT / "models" / "en-zh"
FORMS = ROOT / "tests" / "fixtures" / "forms"


def kvik(*arguments, text=None, environment=None, timeout=120, **more):
    """Standard output and standard error are captured unless the caller says where they go."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    if "stdin" not in streams:
        streams["input"] = "" if text is None else text
    return subprocess.run([KVIK, *map(str, arguments)], text=True, timeout=timeout, env={**os.environ, **(environment or {})}, **streams)


def succeed(*arguments, **more):
    done = kvik(*arguments, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(*arguments, status=1, **more):
    done = kvik(*arguments, **more)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.strip(), "there is no message"
    assert "terminate called" not in done.stderr
    return done.stderr
