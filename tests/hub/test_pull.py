"""kvik pull against a hub on loopback, and against what Python's huggingface_hub writes."""
import json
import os
import pathlib
import pty
import resource
import subprocess
import sys

import onnx
import pytest
from command_line import KVIK, ROOT, kvik, refusal, succeed
from small_hub import Hub, Repository, serving

NAME = "org/tiny-model"
ZOO = ROOT / "tests/fixtures/zoo"
CONFIGS = {"config.json": (ZOO / "qwen2/config.json").read_bytes(), "generation_config.json": (ZOO / "qwen2/generation_config.json").read_bytes()}
GRAPH = (ZOO / "qwen2/model.onnx").read_bytes()


def split_graph(folder: pathlib.Path, data_name: str) -> tuple[bytes, bytes]:
    """The graph with its weights in a file of its own."""
    onnx.save_model(onnx.load(str(ZOO / "qwen2/model.onnx")), str(folder / "g.onnx"), save_as_external_data=True, location=data_name, size_threshold=64)
    return (folder / "g.onnx").read_bytes(), (folder / data_name).read_bytes()


def standard() -> Repository:
    files = CONFIGS | {
        "onnx/model.onnx": GRAPH, "onnx/model_q4.onnx": GRAPH + b"", "onnx/model_fp16.onnx": b"not read", "README.md": b"# A model", "pytorch_model.bin": b"x" * 1000,
        "model.safetensors": b"y" * 1000, "model.safetensors.index.json": b"{}", "tokenizer.json": b'{"version":"1.0"}', "openvino/model.json": b"{}",
    }
    files["onnx/model_q4.onnx"] = GRAPH[:-1] + GRAPH[-1:]
    return Repository(files, large=["onnx/model.onnx", "onnx/model_q4.onnx", "onnx/model_fp16.onnx", "pytorch_model.bin"])


@pytest.fixture
def hub():
    hub = Hub()
    hub.repositories[NAME] = standard()
    with serving(hub) as endpoint:
        hub.endpoint = endpoint
        yield hub


@pytest.fixture
def at(hub, tmp_path, monkeypatch):
    """The environment of a user of this hub."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    return {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home), "HF_TOKEN": "", "HOME": str(tmp_path), "KVIK_MODELS": "", "no_proxy": "*"}


def cache(at) -> pathlib.Path:
    return pathlib.Path(at["HF_HOME"]) / "hub"


def store(at) -> pathlib.Path:
    return cache(at) / "models--org--tiny-model"


def pulled(at, *arguments):
    return json.loads(succeed("pull", NAME, *arguments, "--json", environment=at))


def tree(folder: pathlib.Path) -> dict[str, str]:
    """Every file and link below a folder: the target of a link, else the contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = "-> " + os.readlink(path)
        elif path.is_file():
            found[str(path.relative_to(folder))] = path.read_bytes().hex()
    return found


def names(result) -> set[str]:
    return {file["path"] for file in result["files"]}


def test_a_pulled_model_runs_by_its_name(hub, at):
    result = pulled(at)
    assert names(result) == {"config.json", "generation_config.json", "tokenizer.json", "onnx/model.onnx"}
    folder = pathlib.Path(result["path"])
    assert folder == store(at) / "snapshots" / hub.repositories[NAME].commit
    assert (folder / "onnx/model.onnx").read_bytes() == GRAPH
    assert (store(at) / "refs/main").read_text() == hub.repositories[NAME].commit
    case = json.loads((ZOO / "qwen2/expected.json").read_text())["cases"][0]
    (folder / "tokenizer.json").unlink()  # this one is none
    for name in (NAME, "tiny-model"):
        ids = json.loads(succeed("run", name, "--ids", ",".join(map(str, case["prompt_ids"])), "-n", 4, "--json", environment=at))["ids"]
        assert ids == case["greedy_ids"][:4]
    listed = {m["name"]: m for m in json.loads(succeed("models", "--json", environment=at))}
    assert listed[NAME]["kind"] == "decoder" and listed[NAME]["weights_bytes"] > 0


def test_a_second_pull_downloads_nothing(hub, at):
    pulled(at)
    hub.requests.clear()
    again = pulled(at)
    assert again["downloaded_bytes"] == 0 and all(file["cached"] for file in again["files"])
    assert not [path for _, path, _ in hub.requests if "/resolve/" in path or "/storage/" in path]


def test_a_variant_is_chosen_by_the_rule_of_loading(hub, at):
    assert "onnx/model_q4.onnx" in names(pulled(at, "--variant", "q4", "--dry-run"))
    assert "onnx/model.onnx" not in names(pulled(at, "--variant", "q4", "--dry-run"))
    assert "found fp16, fp32, q4" in refusal("pull", NAME, "--variant", "q2", environment=at)
    del hub.repositories[NAME].files["onnx/model.onnx"]
    assert "several precisions" in refusal("pull", NAME, environment=at)
    assert not cache(at).exists()  # a dry run and a refusal write nothing


def test_all_stages_of_a_translator_are_pulled_and_merged_files_make_others_unnecessary(hub, at):
    files = {f"onnx/{name}{variant}.onnx": b"x" for name in ("encoder_model", "decoder_model", "decoder_with_past_model", "decoder_model_merged")
             for variant in ("", "_q4")}
    hub.repositories[NAME] = Repository(files | {"onnx/encoder_model.onnx_data": b"12", "onnx/decoder_model_merged_q4.onnx_data": b"34", "source.spm": b""})
    assert names(pulled(at, "--dry-run")) == {"onnx/encoder_model.onnx", "onnx/decoder_model_merged.onnx", "onnx/encoder_model.onnx_data", "source.spm"}
    found = names(pulled(at, "--dry-run", "--variant", "q4"))
    assert found == {"onnx/encoder_model_q4.onnx", "onnx/decoder_model_merged_q4.onnx", "onnx/decoder_model_merged_q4.onnx_data", "source.spm"}


@pytest.mark.parametrize("data_name", ["model.onnx_data", "weights.bin"])
def test_weights_beside_a_graph_are_found_by_what_the_graph_names(hub, at, tmp_path, data_name):
    graph, data = split_graph(tmp_path, data_name)
    hub.repositories[NAME] = Repository(CONFIGS | {"onnx/model.onnx": graph, f"onnx/{data_name}": data}, large=[f"onnx/{data_name}"])
    result = pulled(at)
    assert (pathlib.Path(result["path"]) / "onnx" / data_name).read_bytes() == data
    assert json.loads(succeed("inspect", NAME, "--json", environment=at))["kind"] == "decoder"


def test_a_genai_folder_names_its_own_graph(hub, at):
    genai = json.dumps({"model": {"decoder": {"filename": "phi.onnx"}}}).encode()
    hub.repositories[NAME] = Repository({"cpu/int4/genai_config.json": genai, "cpu/int4/phi.onnx": GRAPH, "cpu/int4/other.onnx": b"x", "LICENSE": b""})
    assert "cpu/int4" in refusal("pull", NAME, environment=at)
    result = pulled(at, "--folder", "cpu/int4")
    assert names(result) == {"cpu/int4/genai_config.json", "cpu/int4/phi.onnx"} and result["path"].endswith("cpu/int4")


def test_modules_of_sentence_transformers_belong_to_the_model(hub, at):
    hub.repositories[NAME] = Repository({"onnx/model.onnx": GRAPH, "modules.json": b"[]", "1_Pooling/config.json": b"{}", "2_Dense/config.json": b"{}",
                                         "2_Dense/model.safetensors": b"1", "2_Dense/pytorch_model.bin": b"2", "other/config.json": b"{}"})
    assert names(pulled(at, "--dry-run")) == {
        "onnx/model.onnx", "modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"}


def test_listings_come_in_pages(hub, at):
    hub.repositories[NAME].page = 3
    assert len(names(pulled(at))) == 4
    assert len([path for _, path, _ in hub.requests if "/tree/" in path]) > 3


def test_a_broken_connection_continues_where_it_broke(hub, at):
    hub.broken["onnx/model.onnx"] = [1000, 0, 5000]
    pulled(at)
    ranges = [headers.get("range") for headers in hub.asked_for("/storage/org/tiny-model/onnx/model.onnx")]
    assert ranges == [None, "bytes=1000-", "bytes=1000-", "bytes=6000-"]
    assert (store(at) / "snapshots" / hub.repositories[NAME].commit / "onnx/model.onnx").read_bytes() == GRAPH


def test_a_later_pull_continues_what_an_earlier_one_left(hub, at):
    hub.broken["onnx/model.onnx"] = [3000] + [0] * 20
    message = refusal("pull", NAME, environment=at)
    assert "cannot be reached" in message and message.strip().count("\n") <= 4
    assert not (store(at) / "snapshots").exists() and not (store(at) / "refs").exists()
    assert [p.stat().st_size for p in (store(at) / "blobs").glob("*.incomplete")] == [3000]
    hub.broken.clear()
    hub.requests.clear()
    pulled(at)
    assert hub.asked_for("/storage/org/tiny-model/onnx/model.onnx")[0]["range"] == "bytes=3000-"
    assert not list((store(at) / "blobs").glob("*.incomplete"))


def test_a_hub_that_ignores_ranges_sends_everything_again(hub, at):
    hub.ignores_ranges = True
    hub.broken["onnx/model.onnx"] = [2000]
    pulled(at)
    assert (store(at) / "snapshots" / hub.repositories[NAME].commit / "onnx/model.onnx").read_bytes() == GRAPH


def test_a_wrong_range_from_the_hub_is_retried(hub, at):
    hub.broken["onnx/model.onnx"] = [2000]
    hub.wrong_ranges["onnx/model.onnx"] = [7]
    pulled(at)
    assert [headers.get("range") for headers in hub.asked_for("/storage/org/tiny-model/onnx/model.onnx")] == [None, "bytes=2000-", None]


@pytest.mark.parametrize("statuses", [[503, 500], [429]])
def test_a_busy_hub_is_retried(hub, at, statuses):
    hub.statuses["onnx/model.onnx"] = list(statuses)
    hub.statuses["config.json"] = list(statuses)
    pulled(at)


@pytest.mark.parametrize("path", ["onnx/model.onnx", "config.json"])
def test_a_wrong_checksum_is_never_shown(hub, at, path):
    hub.wrong.add(path)
    message = refusal("pull", NAME, environment=at)
    assert path in message and "checksum" in message
    assert not (store(at) / "snapshots").exists()
    digest = hub.repositories[NAME].etag(path)
    assert not (store(at) / "blobs" / digest).exists()
    hub.wrong.clear()
    pulled(at)


def test_what_an_earlier_pull_left_and_is_wrong_is_thrown_away(hub, at):
    blobs = store(at) / "blobs"
    blobs.mkdir(parents=True)
    (blobs / (hub.repositories[NAME].etag("onnx/model.onnx") + ".incomplete")).write_bytes(b"wrong" * 100)
    assert (pathlib.Path(pulled(at)["path"]) / "onnx/model.onnx").read_bytes() == GRAPH


def test_more_bytes_than_listed_are_refused(hub, at):
    listed = hub.repositories[NAME].entries()
    next(e for e in listed if e["path"] == "onnx/model.onnx")["lfs"]["size"] = 100
    hub.repositories[NAME].listed = listed
    assert "more bytes" in refusal("pull", NAME, environment=at)


def test_a_disk_that_is_too_small_is_found_before_anything_is_downloaded(hub, at):
    listed = hub.repositories[NAME].entries()
    next(e for e in listed if e["path"] == "onnx/model.onnx")["lfs"]["size"] = 1 << 60
    hub.repositories[NAME].listed = listed
    assert "GB free" in refusal("pull", NAME, environment=at)
    assert not hub.asked_for("onnx/model.onnx")


def test_a_disk_that_becomes_full_leaves_nothing_half_written(hub, at):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    message = refusal("pull", NAME, environment=at, preexec_fn=limit, restore_signals=False)
    assert "File too large" in message and not (store(at) / "snapshots").exists()
    pulled(at)


def test_the_error_for_a_gated_repository_explains_what_to_do(hub, at):
    hub.repositories[NAME].gated = True
    for token in ("", "wrong"):
        message = refusal("pull", NAME, environment=at | {"HF_TOKEN": token})
        assert "accept the terms" in message and "HF_TOKEN" in message
    succeed("pull", NAME, environment=at | {"HF_TOKEN": "right"})


def test_a_token_is_never_sent_to_another_host(hub, at):
    (pathlib.Path(at["HF_HOME"]) / "token").write_text("right\n")
    hub.repositories[NAME].gated = True
    pulled(at)
    own, other = (
        [headers.get("authorization") for host, _, headers in hub.requests if host.startswith(name)] for name in ("127.0.0.1", "localhost"))
    assert set(own) == {"Bearer right"} and set(other) == {None} and other


def test_unknown_names_and_revisions_are_one_sentence(hub, at):
    assert "no such repository" in refusal("pull", "org/nothing", environment=at)
    assert "no revision 'v9'" in refusal("pull", NAME, "--revision", "v9", environment=at)
    commit = hub.repositories[NAME].commit
    assert pulled(at, "--revision", commit)["commit"] == commit
    for name in ("../etc", "a/b/c", "org/..", "org/-x", "org/na--me", ""):
        assert "ORG/NAME" in refusal("pull", name, environment=at)
    assert "not a valid revision" in refusal("pull", NAME, "--revision", "../../x", environment=at)


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", "onnx/../../outside", "a//b", "a/./b", "bad\nname", "back\\slash", "", "x" * 300])
def test_a_listing_with_hostile_names_is_refused(hub, at, path):
    hub.repositories[NAME].listed = hub.repositories[NAME].entries() + [{"type": "file", "path": path, "size": 1, "oid": "a" * 40}]
    assert "the repository is not downloaded" in refusal("pull", NAME, environment=at)
    assert not store(at).exists()


@pytest.mark.parametrize("entry", [{"oid": "../../x"}, {"oid": 7}, {"size": -1}, {"size": "big"}, {"lfs": {"oid": "/abs", "size": 1}}, {"oid": "A" * 40}])
def test_a_listing_with_hostile_checksums_and_sizes_is_refused(hub, at, entry):
    hub.repositories[NAME].listed = [{"type": "file", "path": "config.json", "size": 2, "oid": "a" * 40} | entry]
    assert refusal("pull", NAME, environment=at).count("\n") == 1


def test_a_folder_of_a_snapshot_that_is_a_link_is_not_followed(hub, at, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    snapshot = store(at) / "snapshots" / hub.repositories[NAME].commit
    snapshot.mkdir(parents=True)
    (snapshot / "onnx").symlink_to(outside)
    assert "is a symbolic link" in refusal("pull", NAME, environment=at)
    assert not list(outside.iterdir())


def test_an_unreachable_hub_is_one_sentence(at):
    assert "cannot be reached" in refusal("pull", NAME, environment=at | {"HF_ENDPOINT": "http://127.0.0.1:1"})
    assert "http:// or https://" in refusal("pull", NAME, environment=at | {"HF_ENDPOINT": "ftp://127.0.0.1"})


DOWNLOAD = """
import sys
from huggingface_hub import snapshot_download
print(snapshot_download(sys.argv[1], allow_patterns=sys.argv[2:]))
"""


def with_python(at, *patterns):
    done = subprocess.run([sys.executable, "-c", DOWNLOAD, NAME, *patterns], env=os.environ | at | {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"},
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return pathlib.Path(done.stdout.strip().splitlines()[-1])


def test_the_cache_is_what_huggingface_hub_writes(hub, at, tmp_path):
    chosen = sorted(names(pulled(at)))
    theirs = at | {"HF_HOME": str(tmp_path / "theirs")}
    folder = with_python(theirs, *chosen)
    assert folder.relative_to(store(theirs)) == pathlib.Path("snapshots") / hub.repositories[NAME].commit
    ours = tree(store(at))
    for name, contents in ours.items():
        assert tree(store(theirs))[name] == contents, name
    assert {n for n in tree(store(theirs)) if n.split("/")[0] in ("blobs", "snapshots", "refs")} == set(ours)


def test_each_finds_what_the_other_downloaded(hub, at, tmp_path):
    files = sorted(names(pulled(at)))
    hub.requests.clear()
    with_python(at, *files)
    assert not [path for _, path, headers in hub.requests if "/storage/" in path]
    theirs = at | {"HF_HOME": str(tmp_path / "theirs")}
    with_python(theirs, *files)
    assert pulled(theirs)["downloaded_bytes"] == 0


def test_models_can_be_removed(hub, at):
    size = sum(file["bytes"] for file in pulled(at)["files"])
    assert json.loads(succeed("models", "--remove", NAME, "--json", environment=at))["freed_bytes"] == size
    assert not store(at).exists() and not list(cache(at).glob(".removed*"))
    assert "no repository of that name" in refusal("models", "--remove", NAME, environment=at)


def test_a_model_that_is_not_there_names_the_command(at):
    assert f"kvik pull {NAME}" in refusal("run", NAME, "Hello", environment=at)


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_run_offers_to_pull(hub, at, answer):
    leader, follower = pty.openpty()
    case = json.loads((ZOO / "qwen2/expected.json").read_text())["cases"][0]
    del hub.repositories[NAME].files["tokenizer.json"]
    command = [KVIK, "run", NAME, "--ids", ",".join(map(str, case["prompt_ids"])), "-n", "3", "--json"]
    done = subprocess.Popen(command, stdin=follower, stderr=follower, stdout=subprocess.PIPE, env=os.environ | at)
    os.write(leader, f"{answer}\n".encode())
    out, _ = done.communicate(timeout=60)
    os.close(follower)
    asked = os.read(leader, 65536).decode()
    os.close(leader)
    assert f"Download it from {hub.endpoint}" in asked
    assert done.returncode == (0 if answer == "y" else 1)
    if answer == "y":
        assert json.loads(out)["ids"] == case["greedy_ids"][:3]


def test_an_interrupt_keeps_what_is_there(hub, at):
    import signal

    hub.statuses["onnx/model.onnx"] = [503] * 50
    done = subprocess.Popen([KVIK, "pull", NAME], env=os.environ | at, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not hub.asked_for("/storage/org/tiny-model/onnx/model.onnx"):
        os.sched_yield()
    done.send_signal(signal.SIGINT)
    out, _ = done.communicate(timeout=20)
    assert out == b"" and done.returncode == 130 and not (store(at) / "snapshots").exists()
