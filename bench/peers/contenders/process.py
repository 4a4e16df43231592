"""A contender that runs in a process of its own: loads once, then answers commands (commands.h) on standard input."""
import json
import os
import subprocess


class Unsupported(Exception):
    """Why a contender cannot do what it was asked, in one sentence."""


class Process:
    def __init__(self, command: list[str], environment: dict[str, str] | None = None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        try:
            self.facts = json.loads(self.line())
        except json.JSONDecodeError as error:
            self.close()
            raise Unsupported(f"its first line was not JSON: {error}") from error

    def line(self) -> str:
        line = self.process.stdout.readline()
        if line:
            return line
        sentence = (self.process.stderr.read().strip().splitlines() or ["it ended without a word"])[-1]
        self.close()
        raise Unsupported(f"{sentence} (exit status {self.process.returncode})")

    def ask(self, command: str) -> list[float]:
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Unsupported("it has ended") from error
        answer = self.line()
        if answer.startswith("!"):
            raise Unsupported(answer[1:].strip())
        return [float(word) for word in answer.split()]

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
