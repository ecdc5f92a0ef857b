"""What the scan costs a governed tools/call: the same gateway with all of the scan, and with all of it off, in turns.

Both stand before the same server and answer the calls of `bench.py`. What is counted is the CPU time of the whole
process from /proc, over the requests that the load tool counted. Everything is on 127.0.0.1, bounded in count and time.

    python bench/call_scan.py --weir target/dist/weir --pairs 8
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

import bench
import calls

OFF = {"secrets": "off", "personal": "off", "injection": "off", "commands": "off", "tools": "off", "chains": "off",
       "pins": "off", "urls": {"action": "off", "entropy": "off"}}


def gateway(weir, name, scan, origin_port):
    configuration = {**bench.configuration("os", origin_port), "state": f"state-{name}"}
    if scan is not None:
        configuration["scan"] = scan
    path = bench.WORK / f"{name}.yaml"
    path.write_text(json.dumps(configuration, indent=1))
    return bench.start([weir, "serve", "-c", str(path)], stderr=subprocess.PIPE)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--weir", required=True, help="the binary to measure")
    options.add_argument("--pairs", type=int, default=8)
    options.add_argument("--seconds", type=int, default=4)
    options = options.parse_args()
    weir = str(Path(options.weir).resolve())
    bench.WORK = bench.ROOT / "target/bench/call-scan"
    origin, origin_port = bench.prepare()
    started = [origin]
    try:
        gateways = {}
        for name, scan in (("scanned", None), ("off", OFF)):
            gateways[name] = gateway(weir, name, scan, origin_port)
            started.append(gateways[name][0])
            port = gateways[name][1]
            sessions = [calls.open_session(port, i) for i in range(calls.AGENTS)]
            calls.write_requests(bench.WORK / f"{name}.lua", calls.Way(), sessions)
            bench.load(port, 2, table=name)
        costs = {name: [] for name in gateways}
        for pair in range(options.pairs):
            # Every other pair goes the other way round.
            for name in list(gateways) if pair % 2 == 0 else reversed(list(gateways)):
                process, port = gateways[name]
                costs[name].append(bench.measured(process, port, options.seconds, table=name).cpu_us)
            said = "  ".join(f"{name} {values[-1]:.1f} µs" for name, values in costs.items())
            print(f"call_scan: pair {pair + 1}: {said}", flush=True)
    finally:
        bench.end(started)
    differences = [a - b for a, b in zip(costs["scanned"], costs["off"])]
    for name, values in {**costs, "the scan, by pair": differences}.items():
        print(f"{name}: {bench.spread(values)} CPU µs a call")
    print(f"the medians differ by {statistics.median(costs['scanned']) - statistics.median(costs['off']):.1f} µs")


if __name__ == "__main__":
    main()
