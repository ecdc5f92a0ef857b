"""Two gateways that share a store of used proofs: a proof passes once over both, whatever is sent where."""

import shutil
import signal
import threading
import time

import pytest
from gateway import child_server, until
from identity import Identities
from relay import free_port
from stores import Store

# What a store that was just started makes gateways wait for.
RUN_S = 6


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    store = Store(folder / "store")
    public = "https://weir.example"
    (folder / "url").write_text(store.url)
    settings = {"identity": {"once": "redis"}, "public_url": public, "cache": {"redis": f"file:{folder}/url"}}
    first = Identities(folder / "a", {"child": child_server()}, **settings)
    with first:
        key = first.enrol("build")
    # The same token key and directory, as replicas have them.
    second = Identities(folder / "b", {"child": child_server()}, **settings)
    shutil.copytree(first.state, second.state, ignore=shutil.ignore_patterns("log*", "*.lock", "lock"), dirs_exist_ok=True)
    time.sleep(max(0, store.began + RUN_S + 1 - time.time()))
    with first, second:
        yield first, second, key, store
    store.stop()


def test_a_proof_passes_once_over_both(both):
    first, second, key, _ = both
    token = until(lambda: token_of(first, key), "a token")
    for gate, other in ((first, second), (second, first)):
        # A nonce of one is good at the other.
        proof = key.proof("GET", f"{gate.base}/whoami", token, gate.nonce())
        assert gate.whoami(f"DPoP {token}", proof).status == 200
        for again in (other, gate):
            assert again.whoami(f"DPoP {token}", proof).refusal()[0] == "agent.key_used"


def token_of(gate, key):
    answer = gate.token("build", key, key, check=False)
    return answer.status == 200 and answer.json()["access_token"]


def test_a_caught_proof_is_sent_to_both_at_once(both):
    first, second, key, _ = both
    token = until(lambda: token_of(second, key), "a token")
    proof, passed, lock = key.proof("GET", f"{first.base}/whoami", token, first.nonce()), [], threading.Lock()

    def send(gate):
        status = gate.whoami(f"DPoP {token}", proof, connection=gate.connect() if hasattr(gate, "connect") else None).status
        with lock:
            passed.append(status)

    threads = [threading.Thread(target=send, args=(gate,)) for _ in range(30) for gate in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(passed) == 60 and passed.count(200) == 1, passed


def test_without_the_store_nobody_can_say(both):
    first, second, key, store = both
    token = until(lambda: token_of(first, key), "a token")
    store.signal(signal.SIGSTOP)
    try:
        refused = first.bound(token, key)
        assert (refused.status, refused.refusal()[0]) == (503, "once.unavailable"), refused.body
    finally:
        store.signal(signal.SIGCONT)
    until(lambda: first.bound(token, key).status == 200, "proofs pass again")


def test_what_the_store_forgot_does_not_pass_again(both):
    first, second, key, store = both
    token = until(lambda: token_of(first, key), "a token")
    proof = key.proof("GET", f"{first.base}/whoami", token, first.nonce())
    assert first.whoami(f"DPoP {token}", proof).status == 200
    store.kill()
    store.start()
    deadline, said = time.monotonic() + RUN_S + 3, set()
    while time.monotonic() < deadline:
        for gate in (first, second):
            answer = gate.whoami(f"DPoP {token}", proof)
            assert answer.status != 200
            said.add(answer.refusal()[0])
        time.sleep(0.1)
    assert "once.unavailable" in said, said
    until(lambda: second.bound(token, key).status == 200, "new proofs pass")
