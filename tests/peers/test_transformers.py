"""Pipelines have the shapes and the texts of transformers' pipelines, for the PyTorch model that an ONNX file was exported from."""
import pathlib

import kvik
import numpy as np
import pytest
import torch
import transformers

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
PROMPT = "Once upon a time"


class Peer(transformers.PreTrainedModel, transformers.GenerationMixin):
    """The ONNX model as transformers see it: logits from Kvik, everything else theirs. So the pipelines differ in nothing but their own code."""

    config_class = transformers.PretrainedConfig
    main_input_name = "input_ids"
    _is_stateful = False

    def __init__(self, model):
        config = transformers.PretrainedConfig(vocab_size=model.vocab_size, eos_token_id=model.eos_ids[0], bos_token_id=model.eos_ids[0], pad_token_id=0)
        config.is_encoder_decoder, config.use_cache = False, False
        super().__init__(config)
        self.generation_config = transformers.GenerationConfig(eos_token_id=model.eos_ids[0], pad_token_id=0, use_cache=False)
        self.parameter = torch.nn.Parameter(torch.zeros(1))
        self.kvik = model

    @property
    def device(self):
        return torch.device("cpu")

    def can_generate(self):
        return True

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids}

    def forward(self, input_ids, attention_mask=None, **_):
        rows = []
        for ids in input_ids:
            session = self.kvik.session()
            session.append(ids.numpy())
            rows.append(torch.from_dlpack(session.logits)[None].clone())
        return transformers.modeling_outputs.CausalLMOutput(logits=torch.stack(rows))


@pytest.fixture(scope="module")
def fable():
    return kvik.Model("fable", threads=1)


@pytest.fixture(scope="module")
def theirs(fable):
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(kvik.inspect("fable")["folder"]) + "/tokenizer.json", eos_token="<|endoftext|>")
    return transformers.pipeline("text-generation", model=Peer(fable), tokenizer=tokenizer)


@pytest.mark.parametrize(
    "options",
    [{"max_new_tokens": 8}, {"max_new_tokens": 8, "return_full_text": False}, {"max_new_tokens": 12, "repetition_penalty": 1.3}, {"max_new_tokens": 8, "num_beams": 3}],
)
@pytest.mark.parametrize("inputs", [PROMPT, [PROMPT], [PROMPT, "The fox was"]])
def test_text_generation_is_the_same(fable, theirs, inputs, options):
    found = kvik.pipeline("text-generation", model=fable)(inputs, do_sample=False, **options)
    assert found == theirs(inputs, do_sample=False, **options)


def test_logits_cross_to_torch_without_a_copy(fable):
    session = fable.session()
    session.append([5, 6])
    logits = session.logits
    assert torch.from_dlpack(logits).data_ptr() == logits.ctypes.data
    assert np.array_equal(torch.from_dlpack(logits).numpy(), logits)
