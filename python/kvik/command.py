"""The `kvik` command that the package contains."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from .errors import Error


def path() -> pathlib.Path:
    """The program."""
    program = pathlib.Path(__file__).resolve().parent / "bin" / "kvik"
    packaged = pathlib.Path(__file__).parent / "bin" / "kvik"  # of a build folder, where this file is a link
    for file in (packaged, program):
        if file.is_file():
            return file
    raise Error(f"{packaged} is missing; install kvik again", "io")


def main() -> None:
    """Becomes the program: the `kvik` command of a wheel."""
    program = str(path())
    os.execv(program, [program, *sys.argv[1:]])


def run_json(*arguments: str) -> Any:
    """Standard output of `kvik … --json`; if the program fails, the Error has its message."""
    done = subprocess.run([str(path()), *arguments, "--json"], capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        sentence = lines[-1].removeprefix("kvik: ") if lines else f"kvik {arguments[0]} ended with status {done.returncode}"
        raise Error(sentence, "bad_argument" if done.returncode == 2 else "io")
    return json.loads(done.stdout)
