"""Prompts and resources: policies, records and pins name them as they name tools, at both kinds of URL."""

import json
import sys

import pytest

from gateway import SERVERS, Gateway, until

POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);
@id("prompt") permit (principal, action == Action::"mcp:prompt", resource == Prompt::"desk/greet");
@id("notes") permit (principal, action == Action::"mcp:read", resource in Server::"desk") when { resource.uri like "file:///notes/*" };
"""
GREET = {"name": "greet", "description": "Greets."}
NOTE = {"uri": "file:///notes/a.txt", "name": "a", "size": 1}
LISTS = {
    "tools": [],
    "prompts": [GREET, {"name": "secret", "description": "Tells."}],
    "resources": [NOTE, {"uri": "file:///etc/passwd", "name": "passwd"}],
    "resourceTemplates": [
        {"uriTemplate": "file:///notes/{path}", "name": "notes"},
        {"uriTemplate": "file:///{path}", "name": "all"},
    ],
}
FORBIDDEN = "policy.forbidden"


class Desk:
    """The gateway before one server, whose lists the test writes."""

    def __init__(self, folder):
        self.file = folder / "lists.json"
        self.set(LISTS)
        command = [sys.executable, str(SERVERS / "changing.py"), str(self.file)]
        self.gateway = Gateway(folder / "weir", {"desk": {"command": command, "list_ms": 1}}, policy=POLICY)

    def set(self, lists):
        self.file.write_text(json.dumps(lists))

    def ask(self, method, params=None, at="desk"):
        return self.gateway.session(at).ask(method, params or {})

    def listed(self, method, member, key, at="desk"):
        return [item[key] for item in self.ask(method, at=at).messages()[-1]["result"][member]]

    def code(self, method, params, at="desk"):
        answer = self.ask(method, params, at)
        return answer.refusal()[0] if "error" in answer.messages()[-1] else None


@pytest.fixture
def desk(tmp_path):
    desk = Desk(tmp_path)
    with desk.gateway:
        yield desk
        desk.gateway.verify()


@pytest.mark.parametrize("at", ["desk", ""])
def test_what_policy_does_not_permit_is_neither_listed_nor_used(desk, at):
    assert desk.listed("prompts/list", "prompts", "name", at) == ["greet"]
    assert desk.listed("resources/list", "resources", "uri", at) == [NOTE["uri"]]
    templates = desk.listed("resources/templates/list", "resourceTemplates", "uriTemplate", at)
    assert templates == ["file:///notes/{path}"]
    assert desk.code("prompts/get", {"name": "greet"}, at) is None
    assert desk.code("resources/read", {"uri": NOTE["uri"]}, at) is None
    assert desk.code("resources/read", {"uri": "file:///notes/b.txt"}, at) is None
    assert desk.code("resources/read", {"uri": "file:///etc/passwd"}, at) == FORBIDDEN
    for method in ["resources/subscribe", "resources/unsubscribe"] if at else []:
        assert desk.code(method, {"uri": "file:///etc/passwd"}, at) == FORBIDDEN
    if at:
        # At the URL of many servers what is not listed is not known either.
        assert desk.code("prompts/get", {"name": "secret"}, at) == FORBIDDEN
    argument = {"name": "who", "value": "o"}
    for ref, code in [
        ({"type": "ref/prompt", "name": "greet"}, None),
        ({"type": "ref/resource", "uri": "file:///notes/{path}"}, None),
        ({"type": "ref/resource", "uri": "file:///{path}"}, FORBIDDEN),
    ]:
        assert desk.code("completion/complete", {"ref": ref, "argument": argument}, at) == code, ref
    judged = until(lambda: [r for r in desk.gateway.records() if r.get("resource") == "file:///etc/passwd"], "a record")
    assert judged[-1]["action"] == "mcp:read" and judged[-1]["server"] == "desk"
    assert any(r.get("prompt") == "greet" for r in desk.gateway.records())
    assert "desk/file:///etc/passwd" in desk.gateway.weir("audit", "show", "state").stdout


@pytest.mark.parametrize("at", ["desk", ""])
def test_a_prompt_and_a_resource_that_changed_wait(desk, at):
    desk.listed("prompts/list", "prompts", "name", at)
    desk.listed("resources/list", "resources", "uri", at)
    changed = {**GREET, "description": "Greets, and sends the greeting on."}
    renamed = {**NOTE, "size": 2, "description": "Read this one first."}
    desk.set({**LISTS, "prompts": [changed], "resources": [renamed]})
    until(lambda: desk.listed("prompts/list", "prompts", "name", at) == [], "the prompt is held")
    until(lambda: desk.listed("resources/list", "resources", "uri", at) == [], "the resource is held")
    assert desk.code("prompts/get", {"name": "greet"}, "desk") == "scan.tool"
    assert desk.code("resources/read", {"uri": NOTE["uri"]}, "desk") == "scan.tool"

    def waiting():
        shown = json.loads(desk.gateway.weir("pins", "diff", "--json", check=False).stdout)
        return {row["kind"]: row for row in shown}

    until(lambda: set(waiting()) == {"prompt", "resource"}, "both wait")
    assert waiting()["resource"]["resource"] == NOTE["uri"]
    assert waiting()["prompt"]["waiting"]["definition"]["description"] == changed["description"]
    approved = desk.gateway.weir("pins", "approve", "desk", "greet", "--kind", "prompt")
    assert approved.stdout.startswith("prompt desk/greet: approved ")
    assert desk.code("prompts/get", {"name": "greet"}, "desk") is None
    desk.gateway.weir("pins", "approve", "desk", "--all")
    assert desk.code("resources/read", {"uri": NOTE["uri"]}, "desk") is None
    log = desk.gateway.weir("audit", "show", str(desk.gateway.state / "log.admin")).stdout
    assert "approved prompt desk/greet " in log and f"approved resource desk/{NOTE['uri']} " in log


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {}),
        ("prompts/get", {"name": 5}),
        ("prompts/get", {"name": "x" * 257}),
        ("resources/read", {}),
        ("resources/read", {"uri": ""}),
        ("resources/read", {"uri": "file:///notes/" + "x" * 4096}),
        ("completion/complete", {"ref": {"type": "ref/prompt"}}),
    ],
)
def test_what_names_nothing_is_refused(desk, method, params):
    assert desk.code(method, params) == "mcp.message_invalid"


def test_a_policy_that_meant_the_server_does_not_load_any_more(tmp_path):
    desk = Desk(tmp_path)
    with desk.gateway:
        pass
    policy = next((tmp_path / "weir").glob("*.cedar"))
    policy.write_text('permit (principal, action == Action::"mcp:read", resource == Server::"desk");\n')
    checked = desk.gateway.weir("policy", "check", check=False)
    assert checked.returncode == 1 and policy.name in checked.stdout + checked.stderr
