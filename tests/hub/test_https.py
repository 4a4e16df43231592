"""kvik pull over HTTPS, with a certificate that was made for the test."""
import json
import ssl
import subprocess

import pytest
from command_line import ROOT, refusal, succeed
from small_hub import Hub, Repository, serving

NAME = "org/tiny-model"
GRAPH = (ROOT / "tests/fixtures/zoo/qwen2/model.onnx").read_bytes()


def certificate(folder, names):
    """A certificate that signs itself, and its key."""
    files = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=hub",
                    "-addext", f"subjectAltName={names}", "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


@pytest.fixture
def tls(tmp_path):
    def make(names):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate(tmp_path, names))
        return context
    return make


@pytest.fixture
def hub():
    hub = Hub()
    hub.repositories[NAME] = Repository({"config.json": b"{}", "model.onnx": GRAPH}, large=["model.onnx"], page=1)
    return hub


@pytest.fixture
def at(tmp_path, monkeypatch):
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    return {"HF_HOME": str(tmp_path / "home"), "HF_TOKEN": "right", "HOME": str(tmp_path), "KVIK_MODELS": "", "no_proxy": "*"}


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_hub_whose_certificate_is_trusted(hub, tls, at, tmp_path, variable):
    with serving(hub, tls("IP:127.0.0.1,DNS:localhost")) as endpoint:
        found = json.loads(succeed("pull", NAME, "--json", environment=at | {"HF_ENDPOINT": endpoint, variable: str(tmp_path / "certificate.pem")}))
    assert found["downloaded_bytes"] == len(GRAPH) + 2
    tokens = {(host.split(":")[0], headers.get("authorization")) for host, _, headers in hub.requests}
    assert tokens == {("127.0.0.1", "Bearer right"), ("localhost", None)}


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(hub, tls, at):
    with serving(hub, tls("IP:127.0.0.1,DNS:localhost")) as endpoint:
        assert "certificate" in refusal("pull", NAME, environment=at | {"HF_ENDPOINT": endpoint})
    assert not hub.requests


def test_a_certificate_of_another_host_is_refused(hub, tls, at, tmp_path):
    with serving(hub, tls("IP:127.0.0.1")) as endpoint:  # the large file is at localhost
        sentence = refusal("pull", NAME, environment=at | {"HF_ENDPOINT": endpoint, "SSL_CERT_FILE": str(tmp_path / "certificate.pem")})
    assert "certificate" in sentence or "SSL" in sentence
    assert not list((tmp_path / "home").rglob("snapshots/*/model.onnx"))


def test_a_redirect_to_plain_http_is_refused(hub, tls, at, tmp_path):
    hub.storage_scheme = "http"
    with serving(hub, tls("IP:127.0.0.1,DNS:localhost")) as endpoint:
        sentence = refusal("pull", NAME, environment=at | {"HF_ENDPOINT": endpoint, "SSL_CERT_FILE": str(tmp_path / "certificate.pem")})
    assert "protocol" in sentence


def test_a_file_of_certificates_that_is_missing_is_named(at, tmp_path):
    missing = str(tmp_path / "nothing.pem")
    assert missing in refusal("pull", NAME, environment=at | {"HF_ENDPOINT": "https://127.0.0.1:9", "SSL_CERT_FILE": missing})
