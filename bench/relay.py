"""`make bench`, fifth part: what the sealed relay costs, beside nginx before nginx by TLS 1.3 with both certificates.

JSON that no other request has goes through a pair to the lab's origin and comes back, and every byte is compared.
Both pairs take turns before the same origin, in an order drawn anew for each round, so that a noisy neighbour meets
both. What is counted is the CPU time of both processes of a pair (nginx: its workers too) over the requests that the
lab verified. The result is written between two marks in docs/performance.md. A timing is no verdict: it ends with 1
only where something was wrong.
"""

import argparse
import hashlib
import http.client
import os
import random
import re
import socket
import statistics
import sys
import threading
from pathlib import Path

import figures
import generators as g
import pairs

SEED, SIZE_KB = 20, 10
LEVELS, MODEL_LEVEL, MODEL_KB = (8, 32, 128), 32, (2, 5, 10)
RATIO_DUE, CPU_DUE_US, ADDED_DUE_US, RSS_DUE_MB = 0.65, 65, 150, 64
BLOCK = 64 << 10
SMALL, BIG = 64 << 20, 1 << 30


# Requests of some KB

def load(options, url, connections, kb, seconds):
    """Closed load by the lab on one thread; a wrong byte or a failure ends the benchmark."""
    run = g.weir(options.load, f"{url}/echo", connections, seconds, "-t", "1", "--unique", f"{kb}KB", "--expect", "echo")
    total = run.raw["total"]
    if total["good"] != total["requests"] or total["requests"] == 0:
        sys.exit(f"bench: {total['requests']} requests, {total['good']} good")
    return run


def measured(options, pair, connections, kb):
    """CPU µs of the pair a verified request, and requests a second."""
    before = pair.cpu_s()
    run = load(options, pair.url, connections, kb, options.seconds)
    return (pair.cpu_s() - before) / run.raw["total"]["good"] * 1e6, run.rate


def rounds(options, found, what, cases):
    """Runs each case on each pair once a round. Gives by (pair, case) the list of (CPU µs, requests/s)."""
    draw, runs = random.Random(SEED), {(pair.name, case): [] for pair in found for case in cases}
    for number in range(options.rounds):
        for case in cases:
            for pair in draw.sample(found, len(found)):
                runs[pair.name, case].append(measured(options, pair, *case))
            said = ", ".join(f"{pair.name} {runs[pair.name, case][-1][0]:.1f} µs" for pair in found)
            print(f"round {number + 1}: {what} {case[0]} connections, {case[1]} KB: {said}", flush=True)
    return runs


def latencies(options, found, origin_url):
    """One connection, in turns with the origin itself. Gives the medians in µs by name."""
    draw, urls = random.Random(SEED), {"origin": origin_url} | {pair.name: pair.url for pair in found}
    seen = {name: [] for name in urls}
    for _ in range(options.rounds):
        for name in draw.sample(sorted(urls), len(urls)):
            seen[name].append(load(options, urls[name], 1, SIZE_KB, options.seconds).quantiles_us["p50"])
        print("latency, one connection: " + ", ".join(f"{n} {v[-1]:.0f} µs" for n, v in seen.items()), flush=True)
    return seen


# A body of a gibibyte

def block(number):
    """The block of that number: no two are the same, and each is made in no time."""
    return number.to_bytes(8, "big") + FILLER


FILLER = hashlib.shake_256(b"weir bench relay").digest(BLOCK - 8)


def wrong_blocks(read_into, size):
    """Reads `size` bytes of numbered blocks. Gives how many blocks were wrong."""
    buffer, wrong = memoryview(bytearray(BLOCK)), 0
    for number in range(size // BLOCK):
        have = 0
        while have < BLOCK:
            count = read_into(buffer[have:])
            if not count:
                raise ConnectionError(f"ended after {number * BLOCK + have} of {size} bytes")
            have += count
        wrong += buffer != block(number)
    return wrong


class BigOrigin:
    """A server that verifies what is sent to it (POST) and sends as much as the path asks (GET /BYTES)."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            stream, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(stream,), daemon=True).start()

    def serve(self, stream):
        reader = stream.makefile("rb", buffering=BLOCK)
        while line := reader.readline():
            method, path, _ = line.decode().split(" ")
            fields = dict(iter(lambda: tuple(reader.readline().decode().strip().lower().partition(": ")[::2]), ("", "")))
            if method == "GET":
                size = int(path[1:])
                stream.sendall(f"HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n".encode())
                for number in range(size // BLOCK):
                    stream.sendall(block(number))
                continue
            size = int(fields["content-length"])
            body = reader.read(size) if size < BLOCK else b"wrong blocks: %d" % wrong_blocks(reader.readinto, size)
            stream.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


def carry(url, size):
    """Sends that many bytes through and fetches as many. Ends the benchmark on a wrong block."""
    port = int(url.rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("POST", "/up", (block(n) for n in range(size // BLOCK)), {"content-length": str(size)})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", f"/{size}")
    answer_down = connection.getresponse()
    wrong = wrong_blocks(answer_down.readinto, size)
    connection.close()
    if (answer.status, said, answer_down.status, wrong) != (200, b"wrong blocks: 0", 200, 0):
        sys.exit(f"bench: {size} bytes: up {answer.status} {said!r}, down {answer_down.status}, {wrong} wrong blocks")


def big_bodies(make):
    """Most memory of each process of a new pair, in MB, after bodies of 64 MiB and after 1 GiB; and CPU s a GB."""
    pair = make(BigOrigin().port)
    try:
        carry(pair.url, SMALL)
        small, before = [process.rss_mb("VmHWM") for process in pair.processes], pair.cpu_s()
        carry(pair.url, BIG)
        cpu_s_gb = (pair.cpu_s() - before) / (2 * BIG / 1e9)
        return small, [process.rss_mb("VmHWM") for process in pair.processes], cpu_s_gb
    finally:
        pair.end()


# The result

def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def cost_table(names, runs):
    lines = ["| connections | pair | CPU µs a request | of nginx's, by round | requests/s |", "|--:|---|--:|--:|--:|"]
    for level in LEVELS:
        for name in names:
            of = runs.get((name, (level, SIZE_KB)))
            if not of:
                continue
            base = runs.get(("nginx", (level, SIZE_KB)))
            ratio = spread([w / n for (w, _), (n, _) in zip(of, base)], 2) if base else "–"
            lines.append(f"| {level} | {name} | {spread([c for c, _ in of])} | {ratio} | {spread([r for _, r in of], 0)} |")
    return lines


def fitted(points):
    """Least squares of µs over KB: (fixed, per KB)."""
    mean_x, mean_y = (statistics.mean(p[i] for p in points) for i in (0, 1))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return mean_y - slope * mean_x, slope


def model_table(names, runs):
    heads = " | ".join(f"{kb} KB" for kb in MODEL_KB)
    lines = [f"| pair, {MODEL_LEVEL} connections | {heads} | fixed | a KB |", "|---|" + "--:|" * (len(MODEL_KB) + 2)]
    for name in names:
        points = [(kb, statistics.median(c for c, _ in runs[name, (MODEL_LEVEL, kb)])) for kb in MODEL_KB]
        fixed, slope = fitted(points)
        cells = " | ".join(f"{value:.1f}" for _, value in points)
        lines.append(f"| {name} | {cells} | {fixed:.1f} | {slope:.2f} |")
    return lines


def rest_table(names, seen, memory, big):
    lines = ["| what | " + " | ".join(names) + " | due |", "|---|" + "--:|" * (len(names) + 1)]
    added = {n: spread([v - o for v, o in zip(seen[n], seen["origin"])], 0) for n in names}
    lines.append("| median latency added at one connection, µs | " + " | ".join(added[n] for n in names)
                 + f" | {ADDED_DUE_US} |")
    for index, side in enumerate(("outbound", "inbound")):
        lines.append(f"| most memory of the {side} side, up to 128 connections, MB | "
                     + " | ".join(f"{memory[n][index]:.1f}" for n in names) + f" | {RSS_DUE_MB} |")
    for index, side in enumerate(("outbound", "inbound")):
        cells = [f"{big[n][0][index]:.1f}, {big[n][1][index]:.1f}" for n in names]
        lines.append(f"| the same after bodies of 64 MiB, and of 1 GiB, each way, {side} side | " + " | ".join(cells)
                     + " | the same |")
    lines.append("| CPU s a GB of such bodies | " + " | ".join(f"{big[n][2]:.2f}" for n in names) + " | – |")
    return lines


def report(options, names, runs, seen, memory, big):
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    lines = [f"{figures.measured()}, on {os.cpu_count()} cores, "
             f"{model[1] if model else 'unknown'}; {options.rounds} rounds of {options.seconds} s, {options.workers} "
             "threads or workers in each process; CPU time of both processes of a pair over verified requests; median "
             "(least to most).", "", f"{SIZE_KB} KB of JSON echoed:", ""]
    lines += cost_table(names, runs)
    lines += ["", "By size, CPU µs a request (medians; a KB is one KB each way):", ""] + model_table(names, runs)
    lines += [""] + rest_table(names, seen, memory, big)
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weir", required=True, help="the binary to measure")
    parser.add_argument("--load", help="the binary whose lab makes the load (default: the one to measure)")
    parser.add_argument("--pair", choices=["both", "nginx", "weir"], default="both")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="nginx's workers and weir's threads, in each process")
    parser.add_argument("--quick", action="store_true", help="only the cost of 10 KB at each level; leave the page alone")
    parser.add_argument("--dry", action="store_true", help="print the result and leave the page alone")
    options = parser.parse_args()
    weir = str(Path(options.weir).resolve())
    options.load = str(Path(options.load or weir).resolve())
    pairs.prepare()
    makers = {}
    if options.pair in ("both", "weir"):
        keys = pairs.Keys(weir)
        makers["weir"] = lambda port: pairs.weir_pair(weir, keys, port, options.workers)
    if options.pair in ("both", "nginx"):
        makers["nginx"] = lambda port: pairs.nginx_pair(port, options.workers)
    with g.target(options.load) as origin:
        found = [make(origin.port) for make in makers.values()]
        try:
            for pair in found:
                load(options, pair.url, MODEL_LEVEL, SIZE_KB, 1)
            runs = rounds(options, found, "cost,", [(level, SIZE_KB) for level in LEVELS])
            memory = {pair.name: [process.rss_mb("VmHWM") for process in pair.processes] for pair in found}
            if options.quick:
                print("\n".join(cost_table(list(makers), runs)))
                return
            cases = [(MODEL_LEVEL, kb) for kb in MODEL_KB if kb != SIZE_KB]
            runs |= rounds(options, found, "size,", cases)
            seen = latencies(options, found, origin.url)
        finally:
            for pair in found:
                pair.end()
    big = {name: big_bodies(make) for name, make in makers.items()}
    text = report(options, list(makers), runs, seen, memory, big)
    print(text)
    if options.pair == "both" and not options.dry:
        figures.write("bench-relay", text)


if __name__ == "__main__":
    main()
