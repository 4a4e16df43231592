"""A Hugging Face hub on loopback: listings in pages, files behind redirects, ranges, and faults that a test asks for."""
import contextlib
import hashlib
import http.server
import json
import re
import threading
import urllib.parse


def git_blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Repository:
    """Files by path; those of `large` are in large-file storage, at another host."""

    def __init__(self, files: dict[str, bytes], large=(), page=1000, gated=False, listed=None):
        self.files, self.large, self.page, self.gated = files, set(large), page, gated
        self.commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.listed = listed  # entries of the listing, if it lies

    def etag(self, path: str) -> str:
        data = self.files[path]
        return hashlib.sha256(data).hexdigest() if path in self.large else git_blob(data)

    def entries(self) -> list[dict]:
        if self.listed is not None:
            return self.listed
        found = []
        for path, data in sorted(self.files.items()):
            entry = {"type": "file", "oid": git_blob(data), "size": len(data), "path": path}
            if path in self.large:
                entry["lfs"] = {"oid": self.etag(path), "size": len(data), "pointerSize": 134}
            found.append(entry)
        return found + [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "onnx"}]


class Hub:
    """`broken` has, by path, after how many bytes of an answer the connection breaks, one number per request; `statuses` by path the
    statuses that come before the file does; `wrong` the paths whose bytes are changed."""

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.broken: dict[str, list[int]] = {}
        self.statuses: dict[str, list[int]] = {}
        self.wrong: set[str] = set()
        self.ignores_ranges = False
        self.storage_scheme = None  # of redirects to the large files, if it is not the hub's own
        self.wrong_ranges: dict[str, list[int]] = {}  # by path: how far off the next answers to a range are
        self.requests: list[tuple[str, str, dict]] = []  # host, path, headers
        self.lock = threading.Lock()

    def next_of(self, queues: dict[str, list[int]], path: str):
        with self.lock:
            return queues[path].pop(0) if queues.get(path) else None

    def asked_for(self, path: str) -> list[dict]:
        return [headers for _, asked, headers in self.requests if asked.endswith(path)]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub
    scheme = "http"

    def log_message(self, *_):
        pass

    def answer(self, status: int, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        host = self.headers["Host"]
        with self.hub.lock:
            self.hub.requests.append((host, path, {name.lower(): value for name, value in self.headers.items()}))
        if path.startswith("/storage/"):
            return self.file(*self.find(path.removeprefix("/storage/")))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/(revision|tree)/([^/]+)", path):
            return self.listing(match[1], match[2], match[3], urllib.parse.parse_qs(url.query))
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.resolve(match[1], match[3])
        self.answer(404)

    def find(self, name: str):
        repository = next(r for n, r in self.hub.repositories.items() if name.startswith(n + "/"))
        return repository, name.split("/", 2)[2]

    def refused(self, repository: str):
        known = self.hub.repositories.get(repository)
        if known is None:
            self.answer(401, b"{}", X_Error_Code="RepoNotFound")
        elif known.gated and self.headers.get("Authorization") != "Bearer right":
            self.answer(403 if "Authorization" in self.headers else 401, b"{}", X_Error_Code="GatedRepo")
        else:
            return False
        return True

    def listing(self, name: str, what: str, revision: str, query):
        if self.refused(name):
            return
        repository = self.hub.repositories[name]
        if revision not in ("main", repository.commit):
            return self.answer(404, b"{}", X_Error_Code="RevisionNotFound")
        if what == "revision":
            siblings = [{"rfilename": path} for path in repository.files]
            return self.answer(200, json.dumps({"sha": repository.commit, "id": name, "siblings": siblings}).encode())
        start = int(query.get("cursor", ["0"])[0])
        entries, end = repository.entries(), start + repository.page
        more = {"Link": f'<{self.scheme}://{self.headers["Host"]}/api/models/{name}/tree/{revision}?recursive=true&cursor={end}>; rel="next"'}
        self.answer(200, json.dumps(entries[start:end]).encode(), **(more if end < len(entries) else {}))

    def resolve(self, name: str, path: str):
        if self.refused(name):
            return
        repository = self.hub.repositories[name]
        if path not in repository.files:
            return self.answer(404, b"", X_Error_Code="EntryNotFound", X_Repo_Commit=repository.commit)
        about = {"X_Repo_Commit": repository.commit, "ETag": f'"{repository.etag(path)}"'}
        if path not in repository.large:
            return self.file(repository, path, about)
        other = self.headers["Host"].replace("127.0.0.1", "localhost")  # another host, the same machine
        about |= {"X_Linked_ETag": about["ETag"], "X_Linked_Size": str(len(repository.files[path])), "ETag": '"of-the-pointer"'}
        self.answer(302, b"", Location=f"{self.hub.storage_scheme or self.scheme}://{other}/storage/{name}/{urllib.parse.quote(path)}", **about)

    def file(self, repository: Repository, path: str, about=None):
        if status := self.hub.next_of(self.hub.statuses, path):
            return self.answer(status, b"later")
        data = repository.files[path]
        if path in self.hub.wrong:
            data = b"?" + data[1:]
        first = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        if self.hub.ignores_ranges:
            first = 0
        if first >= len(data) > 0:
            return self.answer(416)
        partial = "Range" in self.headers and not self.hub.ignores_ranges
        if partial:
            first += self.hub.next_of(self.hub.wrong_ranges, path) or 0
        self.send_response(206 if partial else 200)
        for name, value in (about or {}).items():
            self.send_header(name.replace("_", "-"), value)
        if partial:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - first))
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = self.hub.next_of(self.hub.broken, path)
        self.wfile.write(data[first:] if cut is None else data[first:first + cut])
        if cut is not None:
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(2)


@contextlib.contextmanager
def serving(hub: Hub, tls=None):
    """`tls`: an ssl.SSLContext, for HTTPS."""
    scheme = "https" if tls else "http"
    handler = type("BoundHandler", (Handler,), {"hub": hub, "scheme": scheme})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that does not trust the certificate goes
    if tls:  # the handshake is for the thread of a connection
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
