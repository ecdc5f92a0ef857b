"""Many agents, hosts and sockets through the web lane at once, for seconds; `make certify-web` does it for ten minutes."""

import os
import socket

from test_relay_mutual import Authority, server
from test_web import House
from websoak import AGENTS, POLICY, Origin, Soak, host, settings

HOSTS, SOCKETS, SECONDS = 120, 60, 12


class Certified:
    """What `House` asks of a site: whom it is signed by."""

    def __init__(self):
        self.authority = Authority()


def free_port():
    """One that is free at every address of this machine."""
    with socket.create_server(("", 0)) as made:
        return made.getsockname()[1]


def soaked(folder, hosts, sockets, seconds, settle_s=2):
    """Runs the load; `before` and `left` are the gateway's descriptors before it, and after it within `settle_s`."""
    certified, ports = Certified(), (free_port(), free_port())
    server(certified.authority, folder, "origin", *[host(number) for number in range(hosts)])
    origin = Origin(folder, hosts, ports)
    agents = {name: {} for name in AGENTS}
    try:
        with House(folder / "weir", certified, intercept=True, policy=POLICY, internal=["127.0.0.0/8"], agents=agents,
                   **settings(hosts, sockets)) as house:
            before = len(os.listdir(f"/proc/{house.gateway.process.pid}/fd"))
            soak = Soak(house, hosts, sockets, ports, seconds).run()
            soak.before = before + 8
            soak.left = soak.settled(soak.before, settle_s)
            # What one agent asked is nobody else's in the log either.
            soak.recorded = {record.get("agent") for record in house.records()} - {None}
    finally:
        origin.stop()
    return soak


def test_agents_hosts_and_sockets_at_once(tmp_path):
    soak = soaked(tmp_path, HOSTS, SOCKETS, SECONDS)
    assert not soak.wrong and not soak.failed, (soak.wrong[:3], soak.failed[:3])
    assert soak.open == SOCKETS and soak.done["messages"] > SOCKETS, soak.done
    assert len(soak.asked) == 2 * HOSTS and soak.done["looked into"] > HOSTS, (len(soak.asked), soak.done)
    assert soak.recorded == set(AGENTS)
    # Connections to sites are kept for a minute, so that seconds show bounds alone: two of each site on each thread and site,
    # and three descriptors for a socket.
    idle = 2 * 2 * len(os.sched_getaffinity(0)) * HOSTS
    held = soak.holdings.judge(SECONDS * 0.5)
    assert held["descriptors_peak"] <= soak.before + idle + 3 * SOCKETS + 64, held
    assert soak.left <= soak.before + idle, (soak.left, soak.before)
