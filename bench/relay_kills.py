"""The part of `make certify-relay` that kills: `replay: strict`, two instances a side, while parts of it end with -9, stand still or begin anew.

Under load with unique bodies each step does one of: kill an inbound, an outbound, the balancer; have an inbound drain; stop an inbound
for five seconds and let it go on; kill the store and start it empty; stop the store. nginx sends again by itself what brought no answer,
also of methods that must not be sent twice. It passes when the origin executed nothing twice and no byte was wrong; what failed is shown.
The last line says what that bounds: with no case among n, fewer than 3 in n, at 95 %.
"""

import json
import shutil
import signal
import time

import certify_relay as relay
import generators as g
import pairs

STEP_S, STORE_AGAIN_S = 8, 8
SENDS_AGAIN = "proxy_next_upstream error timeout non_idempotent;"


class StrictInbounds(relay.Inbounds):
    """The same, with a store that both instances ask."""

    store_port = 0

    def write(self, index, port, origin_port):
        path = super().write(index, port, origin_port)
        told = json.loads(path.read_text())
        told["relay"]["inbound"]["replay"] = "strict"
        (self.folder / "store.url").write_text(f"redis://127.0.0.1:{self.store_port}")
        told["cache"] = {"redis": "file:store.url"}
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(told, indent=1))
        draft.rename(path)
        return path


class StrictFleet(relay.Fleet):
    def __init__(self, options, name):
        super().__init__(options, "request", name)
        self.store_port = g.free_port()
        self.inbounds.__class__ = StrictInbounds
        self.inbounds.store_port = self.store_port
        self.begin_store()
        # A store that was just started has nothing to say of the seconds before.
        time.sleep(6)

    def begin_store(self):
        command = [shutil.which("redis-server"), "--port", self.store_port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.store = pairs.Process(f"{self.name}-store", command, self.store_port)

    def front(self, name, port, next_ports):
        process = super().front(name, port, next_ports)
        configured = next(path for path in pairs.WORK.glob(f"{name}*.conf"))
        text = configured.read_text()
        configured.write_text(text.replace("proxy_pass ", f"{SENDS_AGAIN} proxy_pass ", 1))
        process.signal(signal.SIGHUP)
        return process

    def kill_instance(self, side, index):
        process = self.instances[side, index]
        process.process.kill()
        process.process.wait(10)
        process.log.close()
        self.start(side, index)

    def __exit__(self, *rest):
        super().__exit__(*rest)
        self.store.end()


def steps(fleet):
    """What is done to the fleet, by its name."""
    def stand_still(process):
        process.signal(signal.SIGSTOP)
        time.sleep(5)
        process.signal(signal.SIGCONT)

    def store_anew():
        fleet.store.process.kill()
        fleet.store.process.wait(10)
        fleet.begin_store()
        time.sleep(STORE_AGAIN_S)

    def drain(index):
        fleet.instances["inbound", index].end()
        fleet.start("inbound", index)

    return {
        "kill inbound a": lambda: fleet.kill_instance("inbound", 0),
        "kill inbound b": lambda: fleet.kill_instance("inbound", 1),
        "kill outbound a": lambda: fleet.kill_instance("outbound", 0),
        "inbound a stands still": lambda: stand_still(fleet.instances["inbound", 0]),
        "kill outbound b": lambda: fleet.kill_instance("outbound", 1),
        "store killed, empty": store_anew,
        "drain inbound b": lambda: drain(1),
        "store stands still": lambda: stand_still(fleet.store),
    }


def kill(options, table):
    """One load after the other, each with one step in its middle."""
    requests = 0
    with StrictFleet(options, "kills") as fleet:
        rounds = max(1, round(options.seconds / 12))
        for number in range(rounds):
            for what, step in steps(fleet).items():
                load = relay.begin(fleet, relay.STEADY, 2, STEP_S + 6)
                time.sleep(2)
                step()
                requests += judge(table, f"{what} ({number + 1})", load)
        for port in fleet.outbound_ports:
            pairs.wait_until_carried(f"http://127.0.0.1:{port}")
        load = relay.begin(fleet, relay.STEADY, 2, STEP_S)
        relay.judge(table, "afterwards nothing fails", load, STEP_S)
    bound = 3 / max(requests, 1)
    table.add("executed twice", True, f"none of {requests:,}: fewer than {bound:.1e} of all at 95 %", requests=requests)


def judge(table, what, load):
    """Nothing twice, nothing wrong; gives how many requests there were."""
    out, err = load.communicate(timeout=180)
    try:
        run = json.loads(out)
    except ValueError:
        table.add(what, False, f"the lab ended with {load.returncode}: {err.decode()[-300:]}")
        return 0
    total, origin = run["total"], run.get("origin") or {}
    twice, distinct = origin.get("duplicates", -1), origin.get("distinct", -1)
    wrong = sum(count for name, count in total.get("errors", {}).items() if "wrong" in name or "mismatch" in name or "body" in name)
    ok = total["good"] > 0 and twice == 0 and wrong == 0 and distinct >= total["good"]
    table.add(what, ok, f"{total['requests']:>8,} requests, {total['failed']} failed, {twice} executed twice; {total.get('errors', {})}",
              requests=total["requests"], failed=total["failed"], twice=twice, errors=total.get("errors", {}))
    return total["requests"]
