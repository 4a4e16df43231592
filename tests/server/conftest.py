import json
import shutil

import httpx
import ollama
import openai
import pytest
from command_line import FABLE, FORMS, ROOT
from running_server import RunningServer

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
{%- if add_generation_prompt %}<|assistant|>{% endif -%}"""


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Models of every kind: one that chats with tools, one that embeds, one that transcribes."""
    folder = tmp_path_factory.mktemp("models")
    shutil.copytree(FABLE, folder / "talker")
    (folder / "talker" / "chat_template.jinja").write_text(TEMPLATE)
    shutil.copytree(ROOT / "tests/fixtures/zoo/bert", folder / "embedder")
    shutil.copy(ROOT / "tests/fixtures/tokenizers/wordpiece/tokenizer.json", folder / "embedder" / "tokenizer.json")
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    (folder / "embedder" / "modules.json").write_text(json.dumps(modules))
    (folder / "embedder" / "1_Pooling").mkdir()
    (folder / "embedder" / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    shutil.copytree(FORMS / "speech", folder / "listener")
    sound = {"feature_size": 8, "n_fft": 400, "hop_length": 800, "chunk_length": 1, "sampling_rate": 16000}
    (folder / "listener" / "preprocessor_config.json").write_text(json.dumps(sound))
    return folder


@pytest.fixture(scope="session")
def server(models):
    with RunningServer("fable", "en-zh", *sorted(models.iterdir()), "--max-sequences", "32") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture(scope="session")
def llama(server):
    return ollama.Client(host=server.url, timeout=60)


@pytest.fixture(scope="session")
def http(server):
    with httpx.Client(base_url=server.url, timeout=60) as plain:
        yield plain
