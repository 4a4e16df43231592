"""Options of transformers' pipelines, as Kvik has them."""
from __future__ import annotations

from typing import Any

from .errors import Error

# Parts of a pipeline that a model's folder decides here, and what only silences warnings there.
_OF_THE_FOLDER = ("tokenizer", "feature_extractor", "processor", "config", "framework", "torch_dtype", "dtype", "use_fast", "trust_remote_code")
_OF_WEIGHTS = ("attn_implementation", "low_cpu_mem_usage", "use_safetensors")
_WITHOUT_EFFECT = ("padding", "skip_special_tokens", "tokenizer", "num_workers")
# One option, several names.
_ALIASES = {
    "max_tokens": ("max_tokens", "max_new_tokens"),
    "beams": ("beams", "num_beams"),
    "stop": ("stop", "stop_strings", "stop_sequence"),
}


class Options:
    """Keyword options of one call; None means "not given". A generation_config sets what neither they nor generate_kwargs set."""

    def __init__(self, given: dict[str, Any]) -> None:
        config = given.get("generation_config")
        self._has_config = config is not None
        merged = {**_fields_of(config), **given, **(given.get("generate_kwargs") or {})}
        self._left = {name: value for name, value in merged.items() if value is not None and name not in ("generation_config", "generate_kwargs")}

    def take(self, name: str, otherwise: Any = None) -> Any:
        return self._left.pop(name, otherwise)

    def peek(self, name: str) -> Any:
        return self._left.get(name)

    def ignore(self, *names: str) -> None:
        for name in names:
            self._left.pop(name, None)

    def finish(self, task: str) -> None:
        for name in self._left:
            raise TypeError(f"{task} takes no option {name!r}")

    def decoding(self, defaults: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
        """Options of `generate`. Options that neither the call nor the model's files set are taken from `defaults`, which a generation_config replaces."""
        defaults = {} if self._has_config else defaults
        found = {name: value for name, value in self._left.items() if name not in _WITHOUT_EFFECT}
        for name, names in _ALIASES.items():
            values = [found.pop(each) for each in names if each in found]
            if values:
                found[name] = values[0]
        n_beams = found.get("beams") or file.get("num_beams")
        samples = _first(found.pop("do_sample", None), file.get("do_sample"), defaults.get("do_sample", False) and not (n_beams or 1) > 1)
        if samples:
            found["temperature"] = _first(found.get("temperature"), file.get("temperature"), defaults.get("temperature"), 1.0)
        else:
            found["temperature"] = 0.0
            found["beams"] = _first(n_beams, defaults.get("num_beams"), 1)
        return found


def _fields_of(config: Any) -> dict[str, Any]:
    """Of transformers' GenerationConfig, as far as they differ from its defaults; or of a dict."""
    fields: dict[str, Any] = config.to_diff_dict() if hasattr(config, "to_diff_dict") else dict(config or {})
    return {name: value for name, value in fields.items() if not name.startswith("_") and name != "transformers_version"}


def _first(*values: Any) -> Any:
    return next(value for value in values if value is not None)


class Encoding:
    """How prompts become token ids: options of tokenizers, and variables of the chat template."""

    def __init__(self, options: Options) -> None:
        given: dict[str, Any] = {"max_length": options.peek("max_length"), **(options.take("tokenizer_encode_kwargs") or {})}
        self.prefix: str = options.take("prefix") or ""
        self.add_special = bool(options.take("add_special_tokens", given.pop("add_special_tokens", True)))
        self.truncates = bool(options.take("truncation", given.pop("truncation", False)))
        self.max_length: int | None = given.pop("max_length")
        given.pop("padding", None)
        self.variables = given


def load_options_of(options: dict[str, Any], model_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Takes what `pipeline` passes on to `Model`; `model_kwargs` takes precedence."""
    for name in _OF_THE_FOLDER:
        options.pop(name, None)
    chosen: dict[str, Any] = {name: model_kwargs[name] for name in ("device", "device_map") if name in model_kwargs}
    for_model = {name: value for name, value in model_kwargs.items() if name not in (*_OF_THE_FOLDER, *_OF_WEIGHTS, *chosen)}
    return {**_device_of({"device": options.pop("device", None), "device_map": options.pop("device_map", None), **chosen}), **for_model}


def _device_of(options: dict[str, Any]) -> dict[str, Any]:
    device, device_map = options["device"], options["device_map"]
    if device is None:
        return {} if device_map is None else {"device": "auto"}
    if device == "auto":
        return {"device": "auto"}
    kind, _, index = str(device).partition(":")
    if kind.lstrip("-").isdigit():
        kind, index = ("cpu", "") if int(kind) < 0 else ("cuda", kind)
    if kind not in ("cpu", "cuda") or (index and not index.isdigit()):
        raise Error(f"device is {device!r}; expected a number, 'cpu', 'cuda' or 'cuda:N'", "bad_argument")
    return {"device": kind, "device_index": int(index)} if index and kind == "cuda" else {"device": kind}
