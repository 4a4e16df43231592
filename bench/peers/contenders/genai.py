"""onnxruntime-genai, on the files of ort.py."""
import json
import os
import pathlib
import sys

import numpy as np

from contenders import commands
from contenders.ort import OnnxRuntime
from contenders.peer import MODELS, Load
from models.shapes import SHAPES, Shape


class GenAi(OnnxRuntime):
    name, module, package = "onnxruntime-genai", "genai", "onnxruntime_genai"

    def arguments(self, load: Load) -> list[str]:
        return [load.shape.name, load.form, str(load.threads)]


def write_folder(shape: Shape, form: str, threads: int) -> pathlib.Path:
    """A folder as its exporter writes it, with links to the files of MODELS."""
    source = MODELS / shape.name
    folder = source / f"genai-{form}"
    folder.mkdir(exist_ok=True)
    for file in (f"{form}.onnx", f"weights.{ {'f32': 16, 'int8': 8, 'int4': 4}[form]}.data"):
        if not (folder / file).exists():
            os.link(source / file, folder / file)
    names = {f"{when}_{which}_names": f"{word}.%d.{which}" for when, word in (("past", "past_key_values"), ("present", "present")) for which in ("key", "value")}
    decoder = {"session_options": {"provider_options": [], "intra_op_num_threads": threads}, "filename": f"{form}.onnx", "head_size": shape.head, "hidden_size": shape.width,
               "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads, "num_hidden_layers": shape.layers,
               "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask"} | {key: name for key, name in names.items() if key.startswith("past")},
               "outputs": {"logits": "logits"} | {key: name for key, name in names.items() if key.startswith("present")}}
    model = {"type": "llama", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "context_length": shape.context, "vocab_size": shape.vocab, "decoder": decoder}
    (folder / "genai_config.json").write_text(json.dumps({"model": model, "search": {"max_length": shape.context, "past_present_share_buffer": True}}, indent=1))
    return folder


class Loop(commands.Contender):
    def __init__(self, shape: Shape, form: str, threads: int):
        import onnxruntime_genai
        self.package, self.shape = onnxruntime_genai, shape
        self.model = onnxruntime_genai.Model(str(write_folder(shape, form, threads)))

    def fill(self, n_sequences: int, depth: int) -> None:
        parameters = self.package.GeneratorParams(self.model)
        parameters.set_search_options(max_length=depth + 256, batch_size=n_sequences)
        self.generator = self.package.Generator(self.model, parameters)
        self.append([commands.prompt_tokens(depth, sequence, self.shape.vocab) for sequence in range(n_sequences)])
        if n_sequences > 1:
            self.generator.generate_next_token()  # chooses from the prompt's logits

    def rewind(self, depth: int) -> None:
        if self.filled[0] == 1:
            self.generator.rewind_to(depth)
        else:
            self.filled = (0, 0)  # it rewinds one sequence only

    def step(self, token: int) -> None:
        if self.filled[0] == 1:
            self.append([[token % self.shape.vocab]])
        else:
            self.generator.generate_next_token()  # several sequences can be appended to only once

    def append(self, rows: list[list[int]]) -> None:
        self.generator.append_tokens(np.array(rows, np.int32))


def main(shape: str, form: str, threads: str) -> None:
    commands.run(lambda: (Loop(SHAPES[shape], form, int(threads)), {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
