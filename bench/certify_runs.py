"""`make certify-runs`: runs that are killed at `KILLS` (300) points by chance, and cancelled at every one.

A gateway of its own, a model that plays scripts, a server of tools each of whose calls leaves a line in a file. Killed and started again
with runs in the middle of words, of calls that have effects, of calls that may be repeated: no call that has effects is made twice, none that
was acknowledged is lost, no event that was told is lost, every run ends, usage adds up, the log verifies. Then a run is cancelled behind each of its
events: the provider sees its connection close within 100 ms, the tool its cancellation, nothing begins and nothing follows. The same is played
for seconds by the black-box tests (tests/blackbox/runs_killed.py).

It prints a line for each check, writes target/bench/certify_runs/certify.json and ends with 1 when anything failed.
"""

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "target/bench/certify_runs"
# Kills of one gateway; the next ones are of another, so that lists stay short.
TOGETHER = 30


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=Path, required=True, help="the binary to certify")
    parser.add_argument("--kills", type=int, default=300, help="how often the gateway is killed")
    return parser.parse_args()


options = parse_options()
# The black-box tests' tools take the binary from the environment.
os.environ["WEIR_BIN"] = str(options.weir.resolve())
sys.path.insert(0, str(ROOT / "tests/blackbox"))

import runs_killed  # noqa: E402
from checks import Table  # noqa: E402
from test_runs import House  # noqa: E402


def house(name, durability):
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return House(folder, durability=durability)


def main():
    WORK.mkdir(parents=True, exist_ok=True)
    begun, table, left = time.monotonic(), Table(WORK / "certify.json"), options.kills
    while left > 0:
        kills, seed = min(left, TOGETHER), left
        left -= kills
        durability = "fsync" if (left // TOGETHER) % 2 else "os"
        with house(f"kills-{seed}", durability) as one:
            name = f"{kills} kills, log on {durability}"
            for what, is_so in runs_killed.play(one, kills, seed).items():
                table.add(f"{name}: {what}", is_so, f"{kills * runs_killed.RUNS} runs")
    with house("cancel", "os") as one:
        for what, is_so in runs_killed.cancel_everywhere(one).items():
            table.add(f"cancel: {what}", is_so, f"at {one.cancelled['points']} points, {one.cancelled['longest_ms']:.0f} ms at most")
    sys.exit(table.write(time.monotonic() - begun))


main()
