"""Runs as tasks of A2A: the card of an agent of runs, with official clients of 1.0 and of 0.3."""

import json

import pytest

from test_a2a import BEFORE, TODAY, client, refused
from test_runs import SECRET, House

WORDS = json.dumps([{"say": "the weir holds the river", "pace": 0.01}])
HANGS = json.dumps([{"say": "mine", "hang": 20}])


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with House(tmp_path_factory.mktemp("runs-a2a")) as house:
        yield house


def rpc(house, method, params, who="dev", agent="talker"):
    return house.ask("POST", f"/a2a/{agent}", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, who)


def text(words, **more):
    return {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": words}], **more}}


def sent(house, words, who="dev", **more):
    answer = rpc(house, "SendMessage", {**text(words), "configuration": {"returnImmediately": True}, **more}, who)
    return answer.json()["result"]["task"]


@pytest.mark.parametrize("sdk,version", [(TODAY, "-"), (TODAY, "0.3"), (BEFORE, "-")])
def test_the_official_clients_start_follow_and_end_a_run(house, sdk, version):
    url = f"http://127.0.0.1:{house.gateway.port}/a2a/talker"
    told = client(sdk, url, house.gateway.keys["dev"], version, WORDS, HANGS)
    assert told["card"]["name"] == "talker" and "streaming" in json.dumps(told["card"])
    for part in ("stream", "whole"):
        assert "".join(told[part]["texts"]) == "the weir holds the river", told[part]
        assert (told[part]["state"], told[part]["get"]) == ("completed", "completed")
        run = house.show(told[part]["task"])
        assert (run["state"], run["thread"]) == ("completed", told[part]["context"])
    assert told["stream"]["events"] > 3
    assert (told["cancel"], told["followed"]["state"]) == ("canceled", "canceled")


def test_a_call_of_a_tool_is_told(house):
    script = json.dumps([{"calls": [["add", {"text": "x"}]]}, {"say": "done"}])
    answer = rpc(house, "SendStreamingMessage", text(script), agent="worker")
    results = [message["result"] for message in answer.messages()]
    assert results[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED", results[-1]
    told = [result["statusUpdate"]["status"].get("message") for result in results if "statusUpdate" in result]
    data = [message["parts"][0]["data"] for message in told if message]
    assert [("arguments" in said, "result" in said) for said in data] == [(True, False), (False, True)], data
    assert data[0]["arguments"] == {"text": "x"} and data[0]["call"] == data[1]["call"]


def test_a_context_is_a_thread(house):
    first = sent(house, WORDS)
    house.ended(first["id"])
    second = sent(house, WORDS, message={**text(WORDS)["message"], "contextId": first["contextId"]})
    assert second["contextId"] == first["contextId"] and second["id"] != first["id"]
    house.ended(second["id"])
    listed = rpc(house, "ListTasks", {"contextId": first["contextId"]}).json()["result"]["tasks"]
    assert [task["id"] for task in listed] == [second["id"], first["id"]]
    # A task that has ended takes no more.
    assert refused(rpc(house, "SendMessage", text(WORDS, taskId=first["id"])))[1] == "run.ended"


def test_a_task_of_another_is_not_there(house):
    task = sent(house, HANGS)["id"]
    for method in ("GetTask", "CancelTask", "SubscribeToTask", "tasks/get"):
        for asked in (rpc(house, method, {"id": task}, "other"), rpc(house, method, {"id": "run_none"}),
                      rpc(house, method, {"id": task}, agent="worker")):
            assert refused(asked) == (-32001, "run.unknown")
    assert refused(rpc(house, "SendMessage", text(WORDS, taskId=task), "other")) == (-32001, "run.unknown")
    assert rpc(house, "ListTasks", {}, "other").json()["result"]["tasks"] == []
    assert rpc(house, "CancelTask", {"id": task}).json()["result"]["status"]["state"] == "TASK_STATE_CANCELED"


def test_what_a_run_does_not_take_is_refused(house):
    def code(method, params, **more):
        return refused(rpc(house, method, params, **more))[1]

    assert code("SendMessage", text(f"say {SECRET}")) == "scan.secret"
    assert code("SendMessage", {"message": {"parts": [{"url": "https://a.example/f"}]}}) == "run.invalid"
    assert code("SendMessage", {**text("x"), "configuration": {"taskPushNotificationConfig": {"url": "https://a.example"}}}) == "a2a.push"
    assert code("CreateTaskPushNotificationConfig", {}) == "a2a.push"
    assert code("GetExtendedAgentCard", {}) == "a2a.extended_card"
    assert code("tasks/send", {}) == "a2a.method"
    assert code("SendMessage", text("x"), who="guest") == "policy.forbidden"
    card = house.ask("GET", "/a2a/talker/.well-known/agent-card.json", agent="guest")
    assert card.status == 200 and card.json()["url"].endswith("/a2a/talker")
    assert house.ask("GET", "/a2a/talker/.well-known/agent-card.json", agent=None).status == 401
    assert house.ask("POST", "/a2a/nobody", {}).status == 404
