"""Requests that no client of good will sends: each gets one sentence or a closed connection, and the server goes on."""
import json
import socket
import struct

import httpx
import pytest
from running_server import RunningServer

BODY = b'{"model": "fable", "prompt": "Once", "max_tokens": 2}'
HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


def send(server, *parts, timeout=30, close=False):
    """What the server answers to raw bytes, until it closes the connection or the answer is complete."""
    with socket.create_connection(("127.0.0.1", server.port), timeout) as connection:
        for part in parts:
            connection.sendall(part)
        if close:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                break
            if not part:
                break
            answer += part
            head, _, body = answer.partition(b"\r\n\r\n")
            length = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            if length and len(body) >= int(length[0].split(b":")[1]):
                break
        return answer.decode(errors="replace")


def status(answer):
    return int(answer.split(" ", 2)[1]) if answer else 0


@pytest.mark.parametrize("raw, expected", [
    (b"\x00\x01\x02\x03\r\n\r\n", 400),
    (b"GET\r\n\r\n", 400),
    (b"GET / HTTP/9.9\r\n\r\n", 400),
    (b"GET http://other/ HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    (b"GET /%zz HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    (b"GET /a%00b HTTP/1.1\r\nhost: localhost\r\n\r\n", 400),
    (b"GET /../../etc/passwd HTTP/1.1\r\nhost: localhost\r\n\r\n", 404),
    (b"GET /web/../serve.cc HTTP/1.1\r\nhost: localhost\r\n\r\n", 404),
    (b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost: other\r\n\r\n", 400),
    (b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    (b"GET /health HTTP/1.1\r\nhost: evil.example\r\n\r\n", 421),
    (b"GET /health HTTP/1.1\r\nhost: localhost\r\norigin: http://evil.example\r\n\r\n", 403),
    (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n", 413),
    (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 12000000\r\n\r\n", 413),
    (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
    (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n{}", 415),
    (b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n\x1f\x8b", 415),
    (b"DELETE /v1/completions HTTP/1.1\r\nhost: localhost\r\n\r\n", 405),
    (b"BREW /health HTTP/1.1\r\nhost: localhost\r\n\r\n", 405),
    (b"POST /v1/nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}", 404),
])
def test_a_malformed_request_is_refused(server, raw, expected):
    assert status(send(server, raw)) == expected


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"5", b"\xff\xfe", b'{"model": "fable", "prompt": "\xff"}', b'{"a": 1e99999}', b"[" * 100_000, b'{"model":' + b'{"a":' * 200 + b"1" + b"}" * 201,
    b"{" + b",".join(b'"k%d":1' % i for i in range(20_000)) + b"}",
    b'{"model": {}}', b'{"model": "fable", "max_tokens": 1e300}', b'{"model": "fable", "max_tokens": -1}', b'{"model": "fable", "max_tokens": 1.5}',
    b'{"model": "fable", "prompt": [[]]}', b'{"model": "fable", "prompt": [-1]}', b'{"model": "fable", "prompt": [1, "a"]}', b'{"model": "fable", "stop": [1]}',
    b'{"model": "fable", "logit_bias": {"99999999": 1}}', b'{"model": "fable", "logit_bias": {"1": 1e9}}', b'{"model": "fable", "logit_bias": {"1": null}}',
    b'{"model": "fable", "seed": 9223372036854775808}', b'{"model": "fable", "seed": 9223372036854775808.0}', b'{"model": "fable", "seed": -1e19}', b'{"model": "fable", "seed": "x"}', b'{"model": "fable", "stream": 1}',
])
def test_a_malformed_body_is_a_400(server, body):
    answer = send(server, HEAD % len(body) + body)
    assert status(answer) == 400, answer
    assert json.loads(answer.split("\r\n\r\n", 1)[1])["error"]["message"]


def test_an_answer_in_one_piece_is_bounded(http):
    body = {"model": "fable", "prompt": ["Once"] * 64, "n": 16, "logprobs": 20, "max_tokens": 10_000}
    refused = http.post("/v1/completions", json=body)
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "logprobs"
    assert http.post("/v1/completions", json={**body, "max_tokens": 1, "n": 1, "prompt": "Once"}).status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings", "/v1/translations", "/api/generate", "/api/chat", "/api/embed", "/api/show", "/api/pull"])
def test_values_of_any_type_are_a_4xx_or_an_answer(http, path):
    values = [None, True, -1, 1.5, "", "x", [], [[]], {}, {"a": 1}, "fable", 10**30]
    names = ["model", "messages", "prompt", "input", "tools", "tool_choice", "response_format", "format", "options", "keep_alive", "context", "stop", "n"]
    for name in names:
        for value in values:
            body = {"model": "fable", "messages": [{"role": "user", "content": "x"}], "prompt": "x", "max_tokens": 1, "options": {"num_predict": 1}}
            if name == "options" and value in (None, {}, {"a": 1}):
                continue  # would fill the context
            answer = http.post(path, json={**body, name: value})
            assert answer.status_code < 500, (path, name, value, answer.text)


@pytest.mark.parametrize("form", [b"", b"--x", b"--x\r\n\r\n", b"--x\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\nabc\r\n--x--", b"--x--",
                                  b"--x\r\ncontent-disposition: form-data\r\n\r\nabc\r\n--x--"])
def test_a_malformed_form_is_a_400(http, form):
    assert http.post("/v1/audio/transcriptions", content=form, headers={"content-type": "multipart/form-data; boundary=x"}).status_code == 400


def test_a_request_in_single_bytes_and_two_at_once_are_understood(server):
    request = HEAD % len(BODY) + BODY
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(request)):
            connection.sendall(request[i:i + 1])
        first = connection.recv(65536)
        assert b"200 OK" in first
        connection.sendall(request + request)
        answer = b""
        while answer.count(b"text_completion") < 2:
            part = connection.recv(65536)
            assert part
            answer += part


def test_a_body_in_chunks_and_http_1_0(server):
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(BODY[i:i + 7]), BODY[i:i + 7]) for i in range(0, len(BODY), 7)) + b"0\r\n\r\n"
    head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
    answer = send(server, head, chunks, close=False)
    assert "200 OK" in answer and "text_completion" in answer
    stream = BODY.replace(b"}", b', "stream": true}')
    answer = send(server, (HEAD % len(stream)).replace(b"HTTP/1.1", b"HTTP/1.0") + stream)
    assert "transfer-encoding" not in answer and answer.endswith("data: [DONE]\n\n")


def test_a_body_whose_length_is_not_told_is_bounded_too(server):
    """JSON may have a quarter of what a recording may."""
    head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    text = b'{"model": "fable", "prompt": "x", "max_tokens": 1, "filler": "' + b"x" * 9_000_000 + b'"}'
    assert status(send(server, head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(text), text))) == 413


def test_texts_to_translate_or_embed_are_bounded(http):
    for path, body in (("/v1/translations", {"model": "en-zh", "input": ["word " * 1000] * 1000}), ("/v1/embeddings", {"model": "embedder", "input": "word " * 1_000_000}),
                       ("/v1/completions", {"model": "fable", "prompt": "word " * 1_000_000}),
                       ("/v1/chat/completions", {"model": "fable", "messages": [{"role": "user", "content": "word " * 1_000_000}]})):
        assert http.post(path, json=body).status_code == 413, path


def test_no_length_penalty_makes_scores_overflow(http):
    body = {"model": "en-zh", "input": "How are you?", "beams": 4, "max_tokens": 500}
    for penalty, expected in ((-10, 200), (10, 200), (-100, 400), (10.5, 400)):
        assert http.post("/v1/translations", json={**body, "length_penalty": penalty}).status_code == expected, penalty


def test_a_client_that_is_too_slow_is_cut(tmp_path):
    with RunningServer("fable", "--header-timeout-ms", 300, "--body-timeout-ms", 300) as server:
        assert status(send(server, b"GET /health HT")) == 408
        assert status(send(server, HEAD % 100 + b"{")) == 408
        # One that asks for a lot and reads nothing.
        body = json.dumps({"model": "fable", "prompt": "Once", "max_tokens": 900, "n": 16, "logprobs": 20, "stream": True, "ignore_eos": True, "temperature": 1}).encode()
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(HEAD % len(body) + body)
            for _ in range(3000):
                text = httpx.get(server.url + "/metrics").text
                if "kvik_connections_cut_total 3" in text:
                    break
            else:
                pytest.fail("it was not cut")


def test_a_key_is_needed_if_one_is_set():
    with RunningServer("fable", environment={"KVIK_API_KEY": "secret"}) as server:
        assert httpx.get(server.url + "/health").status_code == 200
        assert httpx.get(server.url + "/v1/models").status_code == 401
        for path in ("/v1/completions", "/v1/chat/completions", "/api/generate", "/api/pull"):
            assert httpx.post(server.url + path, json={"model": "fable", "prompt": "x", "max_tokens": 1}).status_code == 401
        assert httpx.get(server.url + "/v1/models", headers={"authorization": "Bearer wrong!"}).json()["error"]["code"] == "invalid_api_key"
        assert httpx.get(server.url + "/v1/models", headers={"authorization": "Bearer secret"}).status_code == 200
        assert httpx.get(server.url + "/metrics", headers={"x-api-key": "secret"}).status_code == 200


def test_other_machines_need_a_key():
    from command_line import refusal
    assert "--api-key" in refusal("serve", "fable", "--host", "0.0.0.0", "--port", 0)
    assert "listen" in refusal("serve", "fable", "--host", "192.0.2.1", "--port", 0, "--insecure")
    assert "nothing-there" in refusal("serve", "nothing-there")


def test_origins_that_are_allowed():
    with RunningServer("fable", "--cors", "https://page.example") as server:
        origin = {"origin": "https://page.example"}
        assert httpx.options(server.url + "/v1/models", headers=origin).headers["access-control-allow-origin"] == "https://page.example"
        assert httpx.get(server.url + "/v1/models", headers=origin).headers["access-control-allow-origin"] == "https://page.example"
        refused = httpx.get(server.url + "/v1/nothing", headers=origin)  # the page can read why
        assert refused.status_code == 404 and refused.headers["access-control-allow-origin"] == "https://page.example"
        assert httpx.get(server.url + "/v1/models", headers={"origin": "https://other.example"}).status_code == 403


def test_ids_and_traces_are_passed_through(http, server):
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    answer = http.post("/v1/completions", json={"model": "fable", "prompt": "my secret text", "max_tokens": 3}, headers={"x-request-id": "mine-1", "traceparent": trace})
    assert answer.headers["x-request-id"] == "mine-1" and answer.headers["traceparent"] == trace
    assert http.get("/health").headers["x-request-id"].startswith("req_")
    line = server.logged_request("mine-1")
    assert line["trace"] == trace and line["model"] == "fable" and line["completion_tokens"] == 3 and line["status"] == 200
    assert "secret text" not in "".join(server.log)


def test_the_page_and_its_policy(http):
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html") and "script-src 'self'" in page.headers["content-security-policy"]
    for name in ("style.css", "page.js"):
        assert http.get(f"/web/{name}").status_code == 200
    assert http.head("/").text == "" and int(http.head("/").headers["content-length"]) == len(page.content)
    paths = http.get("/openapi.json").json()["paths"]
    assert {"/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/audio/transcriptions", "/v1/translations", "/v1/models",
            "/api/generate", "/api/chat", "/api/tags", "/api/show", "/api/ps", "/api/version", "/api/embed", "/api/pull", "/health", "/metrics"} <= set(paths)
