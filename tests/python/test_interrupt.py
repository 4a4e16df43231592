"""Ctrl-C ends what runs and leaves the session usable."""
import signal
import subprocess
import sys
import textwrap

import pytest

from command_line import FABLE, TRANSLATOR

CALLS = {
    "iterate": "[list(model.generate('Once', max_tokens=900, ignore_eos=True)) for _ in range(10**6)]",
    "stream": "[engine.submit('Once', max_tokens=900, ignore_eos=True).text() for _ in range(10**6)]",
    # These take many minutes in one call: only the call itself can notice the signal.
    "score": "model.score(ids)",
    "task": "engine.score(ids).result()",
    "translate": "model.translate(['How are you today?'] * 100_000, beams=4)",
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_a_call_and_leaves_the_model_usable(call):
    """Another thread sends the signal once the call has computed something."""
    name, check = (FABLE, "model.session().generate('Once upon a time', max_tokens=6).text()") if call != "translate" else (TRANSLATOR, "model.translate('Yes.').text")
    program = textwrap.dedent(f"""
        import os, signal, threading, kvik
        model = kvik.Model({str(name)!r}, threads=1, reuse_prefixes=False)
        session, engine = (model.session(), kvik.Engine(model)) if {call != "translate"} else (None, None)
        ids = model.tokenize("Once upon a time, there was a king ") * 320_000
        def interrupt(before=model.cache_use.used_bytes):
            while model.cache_use.used_bytes == before: pass
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            {CALLS[call]}
        except KeyboardInterrupt:
            print("stopped:" + {check})
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stdout.startswith("stopped:"), done.stderr
    assert len(done.stdout) > len("stopped:\n")


def test_ctrl_c_between_pieces_leaves_the_session_usable(fable):
    session = fable.session()
    with pytest.raises(KeyboardInterrupt):
        for i, piece in enumerate(session.generate("Once upon a time", max_tokens=50)):
            if i == 3:
                signal.raise_signal(signal.SIGINT)
    assert 4 < len(session) < 20
    session.reset()
    assert session.generate("Once upon a time", max_tokens=6).text() == " there lived a king who had"


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
