"""What 10,000 idle connections cost the gateway in memory: plain, and by TLS. About two minutes.

Each connection has had one request answered and then stays open. What is counted is how much the resident memory of the
gateway grows by, over the number of connections, after it has settled; every kind has a gateway of its own. The kernel's
memory for sockets is not counted. It prints the figures and where they come from; `tests/blackbox/test_idle.py` holds
bounds with fewer connections. A measure is no verdict: it ends with 1 only where something was wrong.
"""

import argparse
import os
import resource
import shutil
import sys
from pathlib import Path

import figures

WORK = figures.ROOT / "target/bench/idle_connections"
# Files of this process and of the gateway beside those of the connections.
FILES_BESIDE = 500


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True, help="the binary to measure")
    parser.add_argument("--count", type=int, default=10_000, help="connections of each kind")
    return parser.parse_args()


options = parse_options()
# The black-box tests' tools take the binary from the environment.
os.environ["WEIR_BIN"] = str(options.weir.resolve())
sys.path.insert(0, str(figures.ROOT / "tests/blackbox"))

import test_idle as idle  # noqa: E402
from gateway import Origin  # noqa: E402


def measure(kind, origin):
    folder = WORK / kind
    folder.mkdir(parents=True)
    running = idle.gateway_for(folder, origin, options.count)
    try:
        ports = {"plain": (running.gateway.port, None), "TLS": (running.port, running.context())}
        return idle.bytes_each(running.gateway, *ports[kind], options.count)
    finally:
        running.gateway.stop()


def main():
    files = options.count + FILES_BESIDE
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < files:
        sys.exit(f"bench: {files} open files are needed: ulimit -n {files}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    shutil.rmtree(WORK, ignore_errors=True)
    origin = Origin()
    try:
        rows = [f"| {kind} | {measure(kind, origin) / 1024:.1f} KB |" for kind in idle.BYTES_MAX]
    finally:
        origin.stop()
    print(f"{figures.measured()}; {options.count} connections.\n\n| idle connections | memory each |\n|---|---|")
    print("\n".join(rows))


main()
