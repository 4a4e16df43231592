"""What an installed wheel must do on a machine that has nothing else: run in an empty virtual environment."""
import asyncio
import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import kvik

STORY = " there lived a king who had a son"

model = kvik.Model("fable", weights="q8")
assert "".join(model.generate("Once upon a time", max_tokens=9)).startswith(" there lived a king"), "generate"


async def together() -> list[str]:
    return await asyncio.gather(*(model.generate("Once upon a time", max_tokens=9) for _ in range(4)))


assert len(set(asyncio.run(together()))) == 1, "async"
session = model.session()
session.append(model.tokenize("Once upon a time"))
assert session.fork().logits.argmax() == session.logits.argmax(), "logits"
assert kvik.Model("en-zh").translate("How are you today?", beams=4).text == "你今天怎么样？", "translate"
with kvik.serve("fable", port=0) as server:
    assert json.load(urllib.request.urlopen(server.url + "/health"))["status"] == "ok", "serve"
command = str(pathlib.Path(sys.executable).parent / "kvik")
printed = subprocess.run([command, "run", "fable", "Once upon a time", "-n", "9"], capture_output=True, text=True, check=True).stdout
assert printed.startswith(STORY), "command"
assert "fable" in subprocess.run([command, "models"], capture_output=True, text=True, check=True).stdout, "models"
refused = subprocess.run([command, "pull", "no/such", "--quiet"], capture_output=True, text=True, env={**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9"})
assert refused.returncode == 1 and "127.0.0.1" in refused.stderr, refused.stderr
print(f"kvik {kvik.__version__} on Python {sys.version.split()[0]}, {model.backend}: all work")
