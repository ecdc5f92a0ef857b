"""Calls that wait for their client at `/mcp`: what a client of 2026-07-28 is asked by a server of the eras before, by hand."""

import json
import threading

import pytest

from gateway import Gateway, until
from test_conformance import started

POLICY = '@id("all") permit (principal, action, resource);'
AGENTS = {"dev": {}, "eve": {}}
ALL = {"elicitation": {}, "sampling": {}, "roots": {}}
META = "io.modelcontextprotocol/"
ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada", "color": "red"}},
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Hello"}, "model": "m"},
    "roots/list": {"roots": [{"uri": "file:///a"}]},
}


@pytest.fixture(scope="module")
def url():
    fixture, url = started("--port", 0, "--era", "legacy")
    yield url
    fixture.kill()
    fixture.wait()
    fixture.stdout.close()


@pytest.fixture
def gateway(tmp_path, url):
    with Gateway(tmp_path / "weir", {"fixture": {"url": url}}, AGENTS, POLICY) as gateway:
        known(gateway)
        yield gateway
        gateway.verify()


def known(gateway):
    until(lambda: gateway.request("GET", "/health").json()["revisions"]["fixture"], "what the fixture speaks is known")


def call(gateway, tool, agent="dev", can=ALL, path="/mcp", **params):
    """Calls a tool as a client of 2026-07-28; gives the answer."""
    meta = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": can}
    params = {"name": tool, "arguments": {}, "_meta": meta, **params}
    fields = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = gateway.request("POST", path, json.dumps(message), {**gateway.headers(agent), **fields})
    if answer.headers["content-type"] == "text/event-stream":
        lines = [line[5:] for line in answer.body.decode().splitlines() if line.startswith("data:")]
        return json.loads(lines[-1])
    return answer.json()


def answers(result):
    return {key: ANSWERS[asked["method"]] for key, asked in result["inputRequests"].items()}


def code(answer):
    return answer["error"]["data"]["code"]


def test_three_questions_in_one_call(gateway):
    asked = call(gateway, "test_input_required_result_multiple_inputs")["result"]
    assert asked["resultType"] == "input_required"
    assert {one["method"] for one in asked["inputRequests"].values()} == set(ANSWERS)
    done = call(gateway, "test_input_required_result_multiple_inputs",
                inputResponses=answers(asked), requestState=asked["requestState"])["result"]
    assert (done["resultType"], done["content"][0]["text"]) == ("complete", "state-ok")
    # Both requests are calls in the log, and what goes on names what it goes on with.
    calls = [record for record in gateway.records() if record.get("tool") and record["kind"] == "judgement"]
    assert len(calls) == 2 and calls[1]["first"] == calls[0]["call"], calls
    told = [record for record in gateway.records() if record.get("method") == "response"]
    assert len(told) == 3 and {record["first"] for record in told} == {calls[0]["call"]}


def test_two_rounds_and_answers_one_by_one(gateway):
    tool = "test_input_required_result_multi_round"
    first = call(gateway, tool)["result"]
    second = call(gateway, tool, inputResponses=answers(first), requestState=first["requestState"])["result"]
    assert second["resultType"] == "input_required" and second["requestState"] != first["requestState"]
    assert "color" in json.dumps(second["inputRequests"])
    # A retry without an answer is asked again.
    again = call(gateway, tool, inputResponses={}, requestState=second["requestState"])["result"]
    assert again["inputRequests"] == second["inputRequests"]
    done = call(gateway, tool, inputResponses=answers(again), requestState=again["requestState"])["result"]
    assert done["content"][0]["text"] == "done"


def test_a_call_goes_on_once_and_for_its_agent(gateway):
    tool = "test_input_required_result_elicitation"
    asked = call(gateway, tool)["result"]
    state, said = asked["requestState"], answers(asked)
    for wrong in (
        call(gateway, tool, "eve", inputResponses=said, requestState=state),
        call(gateway, tool, inputResponses=said, requestState=state[:-2] + "AA"),
        call(gateway, tool, inputResponses=said, requestState=state, arguments={"other": 1}),
        call(gateway, "test_input_required_result_sampling", inputResponses=said, requestState=state),
    ):
        assert code(wrong) in ("mcp.state_invalid", "mcp.item_unknown"), wrong
    assert code(call(gateway, tool, inputResponses={"q1": 7}, requestState=state)) == "mcp.answers_invalid"
    got = []
    both = [threading.Thread(target=lambda: got.append(call(gateway, tool, inputResponses=said, requestState=state)))
            for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    done = [answer for answer in got if "result" in answer]
    refused = [answer for answer in got if "error" in answer]
    assert len(done) == 1 and done[0]["result"]["content"][0]["text"] == "Thank you."
    assert [code(answer) for answer in refused] == ["mcp.park_taken"]


def test_what_the_client_cannot_is_named(gateway):
    said = call(gateway, "test_input_required_result_sampling", can={"elicitation": {}})
    assert "sampling" in json.dumps(said) and "input_required" not in json.dumps(said)


def test_a_gateway_that_died_says_so(tmp_path, url):
    gateway = Gateway(tmp_path / "weir", {"fixture": {"url": url}}, AGENTS, POLICY)
    with gateway:
        known(gateway)
        tool = "test_input_required_result_multi_round"
        asked = call(gateway, tool)["result"]
        gateway.kill()
        gateway.start()
        known(gateway)
        gone = call(gateway, tool, inputResponses=answers(asked), requestState=asked["requestState"])
        assert code(gone) == "mcp.park_gone"
        calls = [record for record in gateway.records() if record.get("tool") == tool and record.get("decision") == "pass"]
        assert len(calls) == 1


def test_a_secret_in_an_answer_does_not_reach_the_server(gateway):
    tool = "test_input_required_result_elicitation"
    asked = call(gateway, tool)["result"]
    secret = "AKIA" + "Z7QK3M5T2W8XN4RB"
    said = {key: {"action": "accept", "content": {"name": secret}} for key in asked["inputRequests"]}
    refused = call(gateway, tool, inputResponses=said, requestState=asked["requestState"])
    assert code(refused) == "scan.secret" and secret not in json.dumps(refused)


@pytest.mark.parametrize("path", ["/mcp", "/mcp/fixture"])
def test_a_server_asks_what_the_client_can(tmp_path, path):
    fixture, url = started("--port", 0, "--era", "modern")
    try:
        with Gateway(tmp_path / "weir", {"fixture": {"url": url}}, AGENTS, POLICY) as gateway:
            known(gateway)
            tool = "test_input_required_result_sampling"
            assert call(gateway, tool, path=path)["result"]["resultType"] == "input_required"
            refused = call(gateway, tool, path=path, can={"elicitation": {}})
            assert code(refused) == "mcp.capability_missing" and "sampling" in refused["error"]["message"]
    finally:
        fixture.kill()
        fixture.wait()
        fixture.stdout.close()
