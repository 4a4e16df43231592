"""Models of every kind for tests of the server: one that chats with tools, one that embeds, two that transcribe."""
import json
import pathlib
import shutil
import struct

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Tools in the style that most templates use, written for these tests.
TEMPLATE = """{%- for message in messages -%}
{%- if message.role == 'assistant' and message.tool_calls -%}
<|assistant|>{%- for call in message.tool_calls -%}
<tool_call>
{"name": {{ call.function.name | tojson }}, "arguments": {{ call.function.arguments | tojson }}}
</tool_call>{%- endfor %}<|end|>
{% else -%}
<|{{ message.role }}|>{{ message.content }}<|end|>
{% endif -%}
{%- endfor -%}
{%- if tools %}<|tools|>{{ tools | tojson }}<|end|>
{% endif -%}
{%- if enable_thinking %}<|think|>{{ reasoning_effort }}<|end|>
{% endif -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}"""

NAMES = ["embedder", "listener", "talker", "timed"]

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                   "required": ["city", "days"], "additionalProperties": False}}}


def make_models(folder: pathlib.Path):
    """The models NAMES as folders below this one. `timed` has tokens for times and no tokenizer; `listener` has neither."""
    shutil.copytree(ROOT / "models/fable", folder / "talker")
    (folder / "talker" / "chat_template.jinja").write_text(TEMPLATE)
    shutil.copytree(ROOT / "tests/fixtures/zoo/bert", folder / "embedder")
    shutil.copy(ROOT / "tests/fixtures/tokenizers/wordpiece/tokenizer.json", folder / "embedder" / "tokenizer.json")
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (folder / "embedder" / "modules.json").write_text(json.dumps(modules))
    (folder / "embedder" / "1_Pooling").mkdir()
    (folder / "embedder" / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    shutil.copytree(ROOT / "tests/fixtures/forms/speech", folder / "listener")
    sound = {"feature_size": 8, "n_fft": 400, "hop_length": 800, "chunk_length": 1, "sampling_rate": 16000}
    (folder / "listener" / "preprocessor_config.json").write_text(json.dumps(sound))
    shutil.copytree(ROOT / "tests/fixtures/zoo/small-speech", folder / "timed")
    return folder


def recording(seconds=0.5, rate=16000):
    """A WAVE file with a square wave."""
    samples = [int(8000 * ((i * 440 // rate) % 2 * 2 - 1)) for i in range(int(seconds * rate))]
    data = struct.pack(f"<{len(samples)}h", *samples)
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16) + b"data" + struct.pack("<I", len(data)) + data
