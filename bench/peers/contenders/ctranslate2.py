"""CTranslate2: its generator on the shapes, and its translator on en-zh. Reports the times between the tokens it hands out."""
import pathlib
import shutil
import sys
import time

import numpy as np

from contenders import commands
from contenders.peer import MODELS, Load, PythonPeer
from contenders.process import Process
from models import translation
from models.random_weights import random_matrix
from models.shapes import EPSILON, ROPE_BASE, SHAPES, Shape

TYPES = {"f32": "float32", "int8": "int8"}


class CTranslate2(PythonPeer):
    name, module, package = "CTranslate2", "ctranslate2", "ctranslate2"
    formats = {"f32": ["f32"], "q8": ["int8"]}

    def folder(self, load: Load) -> pathlib.Path:
        return MODELS / load.shape.name / "ctranslate2"

    def write(self, load: Load) -> None:
        write_model(self.folder(load), lambda: decoder_spec(load.shape))

    def start_translator(self, form: str, threads: int) -> Process:
        folder = MODELS / "en-zh" / "ctranslate2"
        write_model(folder, translator_spec)
        return self.start_module(["en-zh", str(folder), form, str(threads)], threads)

    def arguments(self, load: Load) -> list[str]:
        return [load.shape.name, str(self.folder(load)), load.form, str(load.threads)]

    def bytes_of(self, load: Load) -> tuple[float, float]:
        return load.shape.n_weights() * (4 if load.form == "f32" else 1), 4 * load.shape.cache_numbers()

    def thread_counts(self, threads: int) -> list[int]:
        return [threads, 1] if threads > 1 else [1]


def write_model(folder: pathlib.Path, spec) -> None:
    if folder.exists():
        return
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    model = spec()
    model.validate()
    model.optimize(quantization="float32")
    model.save(str(part))
    part.rename(folder)


def word(i: int) -> str:
    return f"w{i}"


def decoder_spec(shape: Shape):
    from ctranslate2.specs import common_spec, transformer_spec
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        shape.layers, shape.heads, activation=common_spec.Activation.SWISH, pre_norm=True, ffn_glu=True, rms_norm=True, rotary_dim=0, rotary_interleave=False,
        rotary_base=ROPE_BASE, num_heads_kv=shape.kv_heads)
    sizes = {name: (rows, columns) for name, rows, columns in shape.matrices()}

    def linear(target, *kinds: str) -> None:
        target.weight = np.concatenate([random_matrix(kind, *sizes[kind]) for kind in kinds])
        if shape.bias and "attn_q" in kinds:
            target.bias = np.zeros(target.weight.shape[0], np.float32)

    ones = np.ones(shape.width, np.float32)
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = random_matrix("embedding", shape.vocab, shape.width)
    decoder.projection.weight = decoder.embeddings.weight
    decoder.layer_norm.gamma = ones
    for layer in decoder.layer:
        layer.self_attention.layer_norm.gamma = layer.ffn.layer_norm.gamma = ones
        linear(layer.self_attention.linear[0], "attn_q", "attn_k", "attn_v")
        linear(layer.self_attention.linear[1], "attn_output")
        linear(layer.ffn.linear_0, "ffn_gate")
        linear(layer.ffn.linear_0_noact, "ffn_up")
        linear(layer.ffn.linear_1, "ffn_down")
    spec.register_vocabulary([word(i) for i in range(shape.vocab)])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = word(1), word(2), word(0)
    spec.config.layer_norm_epsilon = EPSILON
    return spec


def translator_spec():
    """From the weights of the ONNX files. The target starts from its own embedding, as in the files, so that translations are the reference's."""
    from ctranslate2.specs import common_spec, transformer_spec
    weights = translation.Weights()
    config = weights.config
    spec = transformer_spec.TransformerSpec.from_config((config["encoder_layers"], config["decoder_layers"]), config["encoder_attention_heads"], pre_norm=False,
                                                        activation=common_spec.Activation.SWISH)

    def linear(target, *names: str) -> None:
        target.weight = np.concatenate([weights.matrix(name) for name in names])
        target.bias = np.concatenate([weights.vector(name + ".bias") for name in names])

    def norm(target, name: str) -> None:
        target.gamma, target.beta = weights.vector(name + ".weight"), weights.vector(name + ".bias")

    def attention(target, name: str, crossed: bool) -> None:
        q, k, v, out = (f"{name}.{which}_proj" for which in ("q", "k", "v", "out"))
        if crossed:
            linear(target.linear[0], q)
            linear(target.linear[1], k, v)
        else:
            linear(target.linear[0], q, k, v)
        linear(target.linear[-1], out)
        norm(target.layer_norm, name + "_layer_norm")

    for stage, target in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        embeddings = target.embeddings[0] if isinstance(target.embeddings, list) else target.embeddings
        embeddings.weight = weights.embedding()
        target.position_encodings.encodings = weights.vector(f"{stage}.embed_positions.weight")
        target.scale_embeddings = True
        for i, layer in enumerate(target.layer):
            name = f"{stage}.layers.{i}"
            attention(layer.self_attention, name + ".self_attn", crossed=False)
            if stage == "decoder":
                attention(layer.attention, name + ".encoder_attn", crossed=True)
            linear(layer.ffn.linear_0, name + ".fc1")
            linear(layer.ffn.linear_1, name + ".fc2")
            norm(layer.ffn.layer_norm, name + ".final_layer_norm")
    spec.decoder.start_from_zero_embedding = False
    spec.decoder.projection.weight = weights.embedding()
    spec.decoder.projection.bias = weights.vector("final_logits_bias").reshape(-1)
    pieces = translation.pieces()
    spec.register_source_vocabulary(pieces)
    spec.register_target_vocabulary(pieces)
    spec.config.eos_token, spec.config.unk_token = pieces[config["eos_token_id"]], "<unk>"
    spec.config.bos_token = spec.config.decoder_start_token = pieces[config["decoder_start_token_id"]]
    spec.config.add_source_eos = False
    return spec


class Generator(commands.Contender):
    def __init__(self, shape: Shape, folder: str, form: str, threads: int):
        self.shape, self.folder, self.form = shape, folder, form
        self.set_threads(threads)

    def set_threads(self, n: int) -> None:
        import ctranslate2
        self.generator = ctranslate2.Generator(self.folder, device="cpu", compute_type=TYPES[self.form], intra_threads=n, inter_threads=1)

    def times(self, n_sequences: int, depth: int, n_tokens: int) -> list[float]:
        """Of each token that is handed out, in milliseconds since the start."""
        prompts = [[word(i) for i in commands.prompt_tokens(depth, sequence, self.shape.vocab)] for sequence in range(n_sequences)]
        found: dict[int, float] = {}
        begin = time.perf_counter()

        def at(step) -> bool:
            found[step.step] = (time.perf_counter() - begin) * 1e3
            return False

        self.generator.generate_batch(prompts, max_batch_size=n_sequences, max_length=n_tokens, min_length=n_tokens, beam_size=1, sampling_topk=1,
                                      include_prompt_in_result=False, end_token=[], callback=at)
        return list(found.values())

    def prefill(self, n: int) -> list[float]:
        return self.times(1, n, 1)[:1]

    def decode(self, n_sequences: int, depth: int, n_steps: int) -> list[float]:
        times = self.times(n_sequences, depth, n_steps + 1)
        return [after - before for before, after in zip(times, times[1:])]


class Translator(translation.Translator):
    def __init__(self, folder: str, form: str, threads: int):
        import ctranslate2
        super().__init__()
        self.translator = ctranslate2.Translator(folder, device="cpu", compute_type=TYPES[form], intra_threads=threads, inter_threads=1)
        self.pieces = translation.pieces()
        self.ids = {piece: i for i, piece in enumerate(self.pieces)}

    def translate(self, sources: list[list[int]], beams: int) -> list[list[int]]:
        rows = [[self.pieces[i] for i in source] for source in sources]
        results = self.translator.translate_batch(rows, beam_size=beams, max_decoding_length=translation.MAX_NEW, length_penalty=1.0, return_end_token=True)
        return [[self.ids[piece] for piece in result.hypotheses[0]] for result in results]


def main(shape: str, folder: str, form: str, threads: str) -> None:
    if shape == "en-zh":
        translation.run(lambda: Translator(folder, form, int(threads)))
    else:
        commands.run(lambda: (Generator(SHAPES[shape], folder, form, int(threads)), {}))


if __name__ == "__main__":
    main(*sys.argv[1:])
