"""What is judged is what is carried out, also by a server that reads the names of members without regard to case.

The agent may call `echo` and nothing else. Each message here says one thing to a reader that knows a name in one
spelling only, and another to Go's encoding/json and its kin. None may reach the server.
"""

import itertools
import json
import sys

import pytest

from gateway import SERVERS, Gateway, until

POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list", Action::"mcp:read"], resource);
@id("echo") permit (principal, action == Action::"mcp:call", resource) when { resource.name == "echo" };
"""
LONG_S, KELVIN = "\u017f", "\u212a"


def message(members):
    return '{"jsonrpc":"2.0",%s}' % members


def call(params):
    return message('"id":7,"method":"tools/call","params":{%s}' % params)


def echo(more):
    return call('"name":"echo",%s' % more)


def arguments(members):
    return echo('"arguments":{%s}' % members)


def meta(members):
    return echo('"arguments":{"text":"x"},"_meta":{%s}' % members)


FORBIDDEN = '{"name":"forbidden"}'
RESULT = '{"content":[]}'

CASES = {
    # The tool's name.
    "Name beside name": call('"name":"echo","Name":"forbidden"'),
    "NAME beside name": call('"name":"echo","NAME":"forbidden"'),
    "name beside Name": call('"Name":"forbidden","name":"echo"'),
    "Name by an escape": call(r'"name":"echo","\u004eame":"forbidden"'),
    "Name alone": call('"Name":"forbidden"'),
    "Name twice": call('"Name":"echo","NAME":"forbidden"'),

    # The envelope.
    "Params beside params": message(f'"id":7,"method":"tools/call","params":{{"name":"echo"}},"Params":{FORBIDDEN}'),
    "params beside PARAMS": message(f'"id":7,"method":"tools/call","PARAMS":{FORBIDDEN},"params":{{"name":"echo"}}'),
    "params with a long s": message(f'"id":7,"method":"ping","params":{{}},"param{LONG_S}":{FORBIDDEN}'),
    "Params alone": message(f'"id":7,"method":"tools/call","Params":{FORBIDDEN}'),
    "params with a long s alone": message(f'"id":7,"method":"tools/call","param{LONG_S}":{FORBIDDEN}'),
    "Method beside method": message(f'"id":7,"method":"ping","Method":"tools/call","params":{FORBIDDEN}'),
    "method beside METHOD": message(f'"id":7,"METHOD":"tools/call","method":"ping","params":{FORBIDDEN}'),
    "Method alone": message(f'"id":7,"Method":"tools/call","params":{FORBIDDEN}'),
    "Method on a result": message(f'"id":7,"result":{RESULT},"Method":"tools/call","params":{FORBIDDEN}'),
    "ID beside id": message('"id":7,"ID":8,"method":"tools/call","params":{"name":"echo"}'),
    "Id beside id": message('"Id":8,"id":7,"method":"ping"'),
    "ID instead of id": message(f'"ID":7,"method":"tools/call","params":{FORBIDDEN}'),
    "ID on a notification": message('"ID":7,"method":"notifications/initialized"'),
    "Id on a notification": message('"Id":7,"method":"notifications/com.example/told"'),
    "jsonRPC beside jsonrpc": message('"jsonRPC":"1.0","id":7,"method":"ping"'),
    "jsonrpc with a long s": message(f'"j{LONG_S}onrpc":"1.0","id":7,"method":"ping"'),
    "jsonRPC alone": '{"jsonRPC":"2.0","id":7,"method":"ping"}',
    "Result on a request": message(f'"id":7,"method":"ping","Result":{RESULT}'),
    "Result beside result": message(f'"id":7,"result":{RESULT},"Result":{{"other":1}}'),
    "result with a long s": message(f'"id":7,"method":"ping","re{LONG_S}ult":{RESULT}'),
    "Error on a request": message('"id":7,"method":"ping","Error":{"code":1,"message":"x"}'),
    "Error beside result": message(f'"id":7,"result":{RESULT},"Error":{{"code":1,"message":"x"}}'),

    # The other members of params.
    "Arguments beside arguments": echo('"arguments":{"text":"x"},"Arguments":{"text":"y"}'),
    "arguments with a long s": echo(f'"arguments":{{"text":"x"}},"argument{LONG_S}":{{"text":"y"}}'),
    "arguments with a long s alone": echo(f'"argument{LONG_S}":{{"text":"y"}}'),
    "ARGUMENTS alone": echo('"ARGUMENTS":{"text":"y"}'),
    "_Meta beside _meta": echo('"_meta":{"progressToken":1},"_Meta":{"progressToken":2}'),
    "_Meta alone": echo('"_Meta":{"progressToken":2}'),
    "_META alone": echo('"_META":{"progressToken":2}'),
    "Task beside task": echo('"task":{"ttl":1},"Task":{"ttl":2}'),
    "task with a long s alone": echo(f'"ta{LONG_S}k":{{"ttl":1}}'),
    "task with a Kelvin sign alone": echo(f'"tas{KELVIN}":{{"ttl":1}}'),
    "URI beside uri": message('"id":7,"method":"resources/read","params":{"uri":"file:///a","URI":"file:///b"}'),
    "Uri alone": message('"id":7,"method":"resources/read","params":{"Uri":"file:///b"}'),
    "requestid beside requestId": message('"method":"notifications/cancelled","params":{"requestId":1,"requestid":2}'),
    "requestId with a long s alone": message(f'"method":"notifications/cancelled","params":{{"reque{LONG_S}tId":2}}'),
    "progresstoken beside progressToken":
        message('"method":"notifications/progress","params":{"progress":1,"progressToken":1,"progresstoken":2}'),
    "two unknown ones": echo('"x":1,"X":2'),

    # What _meta holds.
    "ProgressToken beside progressToken": meta('"progressToken":1,"ProgressToken":2'),
    "progresstoken alone": meta('"progresstoken":2'),
    "progressToken with a long s alone": meta(f'"progre{LONG_S}{LONG_S}Token":2'),
    "progressToken with a Kelvin sign alone": meta(f'"progressTo{KELVIN}en":2'),
    "Traceparent beside traceparent": meta('"traceparent":"00-a-b-01","Traceparent":"00-c-d-01"'),
    "a task in another spelling": meta('"io.modelcontextprotocol/Related-Task":{"taskId":"1"}'),
    "two of somebody's own": meta('"com.example/a":1,"com.example/A":2'),

    # The arguments. The schema declares `path`, `options` with another `path` in it, and `env`, whose names are free.
    "Path beside path": arguments('"path":"/public","Path":"/private"'),
    "path beside Path": arguments('"Path":"/private","path":"/public"'),
    "Path alone": arguments('"Path":"/private"'),
    "PATH alone": arguments('"text":"x","PATH":"/private"'),
    "a path in options": arguments('"options":{"path":"/public","Path":"/private"}'),
    "two undeclared ones": arguments('"other":1,"Other":2'),
    "two in an undeclared object": arguments('"more":{"a":1,"A":2}'),
    "two in an undeclared list": arguments('"more":[{"a":1,"A":2}]'),
    "Path alone in options": arguments('"options":{"Path":"/private"}'),
    "ENV alone": arguments('"ENV":{"HOME":"/"}'),
    "two that differ by a Kelvin sign": arguments(f'"key":1,"{KELVIN}ey":2'),
    "two among many": arguments(",".join(f'"k{i}":{i}' for i in range(40)) + ',"K7":0'),
}

HONEST = {
    "a call": echo('"arguments":{"text":"x","path":"/a"}'),
    "no arguments": call('"name":"echo"'),
    "undeclared ones": arguments('"text":"x","Other":1,"ANOTHER":2'),
    "values in any spelling": arguments('"text":"Name NAME name","path":"Path"'),
    "two in a map whose names are free": arguments('"env":{"HOME":"/","Home":"/root"}'),
    "a map whose names are its own": arguments('"env":{"PATH":"/bin","TEXT":"x","Name":"y"}'),
    "one name in two objects": arguments('"path":"/a","options":{"path":"/b"}'),
    "_meta": meta('"progressToken":"Token","com.example/Trace":"x","traceparent":"00-a-b-01"'),
    "a long s in a name of its own": arguments(f'"{LONG_S}ize":1'),
    "a notification": message('"method":"notifications/roots/list_changed"'),
    "ping": message('"id":7,"method":"ping"'),
}


def refusal_of(answer):
    """The code of the gateway's refusal, or nothing where the server answered, be it with an error of its own."""
    said = answer.messages()[-1] if answer.body else {}
    data = said.get("error", {}).get("data") if "jsonrpc" in said else said
    return data.get("code") if isinstance(data, dict) else None


class Server:
    """The caseless server behind the gateway, in one session, and the file that says what it got and ran."""

    def __init__(self, gateway, file):
        self.gateway, self.file = gateway, file
        self.session = gateway.session("caseless")
        tools = self.session.ask("tools/list", {}).messages()[-1]["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["echo"], tools
        self.marks = itertools.count()

    def post(self, text):
        """The answer to a message, and what the server logged of it."""
        before = len(self.logged())
        answer = self.gateway.post("caseless", text.encode(), **self.session.extra)
        # The server reads one line after the other: what comes before this has come.
        mark = f"mark {next(self.marks)}"
        assert mark in self.session.call("echo", mark).body.decode()
        until(lambda: any(mark in line for line in self.logged()[before:]), mark)
        lines = self.logged()[before:]
        first = next(i for i, line in enumerate(lines) if mark in line)
        return answer, [json.loads(line) for line in lines[:first]]

    def logged(self):
        """What the server logged, but for the gateway's own probe, which may come at any time."""
        lines = self.file.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if "weir:probe" not in line]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caseless")
    file = folder / "ran"
    child = {"command": [sys.executable, "-I", str(SERVERS / "caseless.py"), str(file)]}
    # A message that gets through may never be answered, which is not worth a minute.
    limits = {"answer_ms": 5000}
    with Gateway(folder / "weir", {"caseless": child}, policy=POLICY, limits=limits) as gateway:
        yield Server(gateway, file)
        assert '"ran": "forbidden"' not in file.read_text()
        gateway.verify()


@pytest.mark.parametrize("name", CASES)
def test_what_two_readers_read_differently_is_refused(server, name):
    json.loads(CASES[name])
    answer, logged = server.post(CASES[name])
    code = refusal_of(answer)
    assert not [line for line in logged if line.get("ran") == "forbidden"], logged
    assert code and not code.startswith("scan.") and not logged, (answer.status, answer.body[:300], logged)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_message_passes(server, name):
    answer, logged = server.post(HONEST[name])
    assert answer.status in (200, 202), (answer.status, answer.body[:300])
    assert answer.status == 202 or "result" in answer.messages()[-1], answer.body[:300]
    assert logged and json.loads(logged[0]["got"]).get("method") == json.loads(HONEST[name])["method"], logged
