"""Ctrl-C ends what runs and leaves the session usable."""
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest

from command_line import FABLE, TRANSLATOR

CALLS = {
    "iterate": "for piece in session.generate('Once', max_tokens=900, ignore_eos=True, min_new_tokens=900): ready()",
    "beams": "ready(); session.generate('Once', max_tokens=900, beams=8, min_new_tokens=900).text()",
    "append": "ready(); [(session.append(ids), session.reset()) for _ in range(10**6)]",
    "stream": "ready(); [kvik.Engine(model).submit('Once', max_tokens=900, ignore_eos=True).text() for _ in range(10**6)]",
    "score": "ready(); model.score(ids * 100)",
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_call_and_leaves_the_session_usable(call):
    program = textwrap.dedent(f"""
        import os, kvik
        model = kvik.Model({str(FABLE)!r}, threads=1, reuse_prefixes=False)
        session = model.session()
        ids = model.tokenize("Once upon a time, there was a king ") * 80
        ready = lambda: os.write(1, b"r")
        try:
            {CALLS[call]}
        except KeyboardInterrupt:
            session.reset()
            print("|" + session.generate("Once upon a time", max_tokens=6).text())
    """)
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.read(1) == "r", process.stderr.read()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.split("|")[1] == " there lived a king who had\n"


def test_a_program_ends_while_generations_run():
    program = f"""
import asyncio, threading, kvik
model = kvik.Model({str(FABLE)!r}, threads=1)
engine = kvik.Engine(model)
streams = [engine.submit("Once", max_tokens=900, ignore_eos=True) for _ in range(8)]
threading.Thread(target=lambda: model.generate("Once", max_tokens=900, ignore_eos=True).text(), daemon=True).start()
server = kvik.serve({str(TRANSLATOR)!r}, port=0)
next(streams[0])
print("done")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
