"""The revisions that servers speak are found by asking them, kept, and found again where a server changed."""

import http.client
import subprocess
import sys
import time

from gateway import SERVERS, Gateway, Origin, until

MODERN, LEGACY = "2026-07-28", "2025-06-18"
# By mode: whether the server works, and what it speaks.
OVER_HTTP = {
    "legacy": ("works", [LEGACY]),
    "modern": ("works", [MODERN]),
    "dual": ("works", [LEGACY, MODERN]),
    "html": ("works", []),
    "none": ("works", []),
    "garbage": ("works", []),
    "refused": ("down", []),
}
OVER_STDIO = {
    "legacy": [LEGACY],
    "modern": [MODERN],
    "dual": [LEGACY, MODERN],
    "silent": [LEGACY],
    "leaves": [LEGACY],
}


class Eras(Origin):
    """`eras.py` over HTTP, in a mode that can be changed."""

    def __init__(self, mode):
        command = [sys.executable, str(SERVERS / "eras.py"), mode, "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[-1])
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    def change(self, mode):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("POST", "/mode", mode)
        assert connection.getresponse().status == 200


def found(gateway):
    """By server: whether it works, and what it speaks."""
    health = gateway.request("GET", "/health").json()
    return {name: (word, health["revisions"][name]) for name, word in health["servers"].items()}


def test_over_http(tmp_path):
    origins = {mode: Eras(mode) for mode in OVER_HTTP}
    try:
        with Gateway(tmp_path, {mode: {"url": origin.url} for mode, origin in origins.items()}) as gateway:
            until(lambda: found(gateway) == OVER_HTTP, "what each server speaks")
            metrics = gateway.operator("/metrics").body.decode()
            for mode, (_, revisions) in OVER_HTTP.items():
                for revision in (LEGACY, MODERN):
                    line = f'weir_mcp_server_era{{server="{mode}",revision="{revision}"}} 1'
                    assert (line in metrics) == (revision in revisions), (line, metrics)
            # The session that was begun to ask is ended, and a modern server is asked as the specification has it.
            assert "DELETE" in origins["legacy"].seen()
            asked = origins["modern"].seen()[0]["params"]["_meta"]
            assert asked["io.modelcontextprotocol/clientInfo"]["name"] == "weir"
            assert asked["io.modelcontextprotocol/clientCapabilities"] == {}
    finally:
        for origin in origins.values():
            origin.stop()


def test_over_standard_input_and_output(tmp_path):
    servers = {mode: {"command": [sys.executable, str(SERVERS / "eras.py"), mode]} for mode in OVER_STDIO}
    with Gateway(tmp_path, servers) as gateway:
        wanted = {mode: ("works", revisions) for mode, revisions in OVER_STDIO.items()}
        until(lambda: found(gateway) == wanted, "what each server speaks")


def test_a_server_that_changes(tmp_path):
    """A modern request that it does not take as one of its era makes the gateway ask again, long before it would by itself."""
    origin = Eras("modern")
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    try:
        with Gateway(tmp_path, {"web": {"url": origin.url}}) as gateway:
            until(lambda: found(gateway)["web"] == ("works", [MODERN]), "the modern era is found")
            origin.change("html")
            before = time.monotonic()
            said = gateway.post("web", ask, mcp_protocol_version=MODERN, mcp_method="tools/list")
            assert said.status == 404, said.body
            until(lambda: found(gateway)["web"] == ("works", []), "the change is found", 15)
            assert time.monotonic() - before < 15
    finally:
        origin.stop()
