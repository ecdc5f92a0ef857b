"""`make certify-web`: agents through the web lane for WEB_MINUTES, over loopback alone.

Five agents ask 1,000 hosts by the forward proxy, plain and looked into, while 500 WebSockets stay open and talk, by `/ws`
and inside of TLS that is looked into. Each answer has to be that of its own request: no agent may see another's. The
gateway's memory and descriptors, looked at each second, have to stay flat once each host was asked, and nothing may stay
open when the clients are gone. tests/blackbox/websoak.py has the load; tests/blackbox/test_web_soak.py runs it for seconds.

It prints a line for each check, writes target/bench/certify_web/certify.json and ends with 1 when anything failed.
"""

import argparse
import os
import resource
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "target/bench/certify_web"
# Of the time, the part in which hosts are asked for the first time and sockets open.
WARM = 0.3
# Connections to sites are kept for a minute.
SETTLE_S = 90


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True, help="the binary to certify")
    parser.add_argument("--minutes", type=float, default=10, help="how long the load lasts")
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--sockets", type=int, default=500)
    return parser.parse_args()


options = parse_options()
# The black-box tests' tools take the binary from the environment.
os.environ["WEIR_BIN"] = str(options.weir.resolve())
sys.path.insert(0, str(ROOT / "tests/blackbox"))

from checks import Table  # noqa: E402
from test_web_soak import soaked  # noqa: E402


def main():
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    table, began = Table(WORK / "certify.json"), time.monotonic()
    soak = soaked(WORK, options.hosts, options.sockets, options.minutes * 60, SETTLE_S)
    held, done, open_ = soak.holdings.judge(soak.seconds * WARM), soak.done, soak.open
    requests = done["plain"] + done["looked into"]
    table.add("hosts asked, plain and looked into", len(soak.asked) == 2 * options.hosts, f"{len(soak.asked):,} of {2 * options.hosts:,}",
              asked=len(soak.asked))
    table.add("sockets that were open at once", open_ == options.sockets, f"{open_:,} of {options.sockets:,}", open=open_)
    table.add("each answer is that of its own request", not soak.wrong and requests > 0,
              f"{requests:,} answers ({done['looked into']:,} looked into), {done['messages']:,} messages; {soak.wrong[:3] or 'none wrong'}",
              **done)
    table.add("nothing failed", not soak.failed, f"{len(soak.failed)} failed {soak.failed[:3] or ''}", failed=len(soak.failed))
    table.add("memory and descriptors are flat", held["is_flat"],
              f"{held['mb_first']:.1f} to {held['mb_last']:.1f} MB (peak {held['mb_peak']:.1f}), {held['descriptors_first']:.0f} to "
              f"{held['descriptors_last']:.0f} descriptors (peak {held['descriptors_peak']})", **held)
    table.add("nothing is left open", soak.left <= soak.before, f"{soak.left} descriptors; {soak.before} before", left=soak.left,
              before=soak.before)
    sys.exit(table.write(time.monotonic() - began))


if __name__ == "__main__":
    main()
