"""Runs `kvik serve` on a free port for as long as a test needs it."""
import json
import os
import signal
import subprocess
import threading

from command_line import KVIK


class RunningServer:
    def __init__(self, *arguments, environment=None):
        command = [KVIK, "serve", *map(str, arguments), "--port", "0", "--json"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.log = []
        self._line_arrived = threading.Condition()
        threading.Thread(target=self._read_log, daemon=True).start()
        line = self.process.stdout.readline()
        assert line, "the server did not start: " + "".join(self.log)
        self.url = json.loads(line)["url"]
        self.port = json.loads(line)["port"]

    def _read_log(self):
        for line in self.process.stderr:
            with self._line_arrived:
                self.log.append(line)
                self._line_arrived.notify_all()

    def logged_request(self, request_id, timeout=30):
        """The line of the request log with this id, which may arrive after the answer does."""
        def find():
            return next((entry for entry in map(json.loads, (line for line in self.log if line.startswith("{"))) if entry["id"] == request_id), None)
        with self._line_arrived:
            entry = self._line_arrived.wait_for(find, timeout)
        assert entry, f"no request {request_id} in the log: " + "".join(self.log)
        return entry

    def stop(self, how=signal.SIGTERM, timeout=30):
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(timeout)
        self.process.stdout.close()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            self.process.kill()
