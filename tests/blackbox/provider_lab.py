"""`weir lab target` as a provider of models: started on port 0 with a script of turns and flags, and asked what it saw."""

import http.client
import json
import signal
import subprocess

from gateway import WAIT_S, WEIR


class LabTarget:
    """A target in a process of its own. Use it as a context."""

    def __init__(self, file, script=None, *flags):
        self.command = [str(WEIR), "lab", "target", "--listen", "127.0.0.1:0", "--json", *flags]
        if script:
            # JSON is YAML, but for its pairs of surrogates.
            file.write_text(json.dumps(script, ensure_ascii=False))
            self.command += ["--script", str(file)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert line, f"the target did not start: {self.command}"
        self.url = json.loads(line)["listening"]
        self.port = int(self.url.rsplit(":", 1)[1])
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)
        self.process.stdout.close()

    def counts(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request("GET", "/lab/counts")
        return json.loads(connection.getresponse().read())

    def requests(self):
        return self.counts()["requests"]
