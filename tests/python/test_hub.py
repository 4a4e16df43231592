"""Downloads from a hub, and models of its cache."""
import kvik
import pytest

from command_line import FABLE
from small_hub import Hub, Repository, serving


@pytest.fixture
def hub(tmp_path, monkeypatch):
    hub = Hub()
    hub.repositories["tales/fable"] = Repository({file.name: file.read_bytes() for file in FABLE.iterdir()}, large=["model.onnx"])
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    with serving(hub) as endpoint:
        for name, value in {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path), "HF_TOKEN": "", "no_proxy": "*"}.items():
            monkeypatch.setenv(name, value)
        yield hub


def test_from_pretrained_downloads_what_is_not_in_the_cache(hub, monkeypatch):
    with pytest.raises(kvik.Error) as error:
        kvik.from_pretrained("tales/fable", local_files_only=True)
    assert error.value.code == "io" and not hub.requests
    model = kvik.from_pretrained("tales/fable", threads=1)
    assert model.generate("Once upon a time", max_tokens=3).text() == " there lived a"
    n_requests = len(hub.requests)
    assert kvik.from_pretrained("tales/fable", threads=1).vocab_size == model.vocab_size
    assert len(hub.requests) == n_requests  # the cache has it


def test_pull_returns_the_folder_and_failures_are_one_sentence(hub):
    folder = kvik.pull("tales/fable")
    assert (folder / "model.onnx").stat().st_size == (FABLE / "model.onnx").stat().st_size
    assert kvik.Model("tales/fable", threads=1).has_tokenizer
    with pytest.raises(kvik.Error, match="tales/none") as error:
        kvik.pull("tales/none")
    assert error.value.code == "io"
