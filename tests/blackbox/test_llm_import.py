"""`weir init --from litellm` and `--from agentgateway`: what is taken over serves, and what is not is told."""

import json
import subprocess
import sys

import pytest

from gateway import SERVERS, WEIR, Gateway, Origin

sys.path.insert(0, str(SERVERS))
import cloud  # noqa: E402

# The words of the makers' own examples, with what they call keys.
LITELLM = """
model_list:
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://my-endpoint-europe.openai.azure.com/
      api_key: "os.environ/AZURE_API_KEY_EU"
      api_version: "2023-07-01-preview"
      rpm: 6
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-ca
      api_base: https://my-endpoint-canada.openai.azure.com/
      api_key: "os.environ/AZURE_API_KEY_CA"
      rpm: 6
  - model_name: bedrock-claude
    litellm_params:
      model: bedrock/us-east-1/anthropic.claude-opus-5-v1:0
  - model_name: vertex-claude
    litellm_params: { model: vertex_ai/claude-opus-5, vertex_project: rivers, vertex_location: europe-west4, vertex_credentials: ./account.json }
  - model_name: local
    litellm_params: { model: openai/llama, api_base: "http://127.0.0.1:@PORT@/v1", api_key: sk-do-not-copy, input_cost_per_token: 0.000001, output_cost_per_token: 0.000002 }
  - model_name: "openai/*"
    litellm_params: { model: "openai/*", api_key: os.environ/OPENAI_API_KEY }
  - model_name: pictures
    litellm_params: { model: stability/sd }
litellm_settings:
  drop_params: True
  success_callback: ["langfuse"]
  request_timeout: 60
  fallbacks: [{"bedrock-claude": ["vertex-claude", "local"]}]
  context_window_fallbacks: [{"gpt-4o": ["local"]}]
  max_budget: 200
  budget_duration: 30d
router_settings:
  routing_strategy: usage-based-routing
  model_group_alias: {"claude": "bedrock-claude"}
  num_retries: 2
  redis_host: os.environ/REDIS_HOST
general_settings:
  master_key: sk-1234-do-not-copy
  database_url: "postgresql://do-not-copy"
environment_variables:
  OPENAI_API_KEY: sk-do-not-copy
"""
AGENTGATEWAY = """
llm:
  port: 4000
  models:
  - { name: smart, provider: openAI, params: { model: gpt-4o-mini, apiKey: "$OPENAI_API_KEY" } }
  - { name: "*", provider: anthropic, params: { apiKey: "replace-me-do-not-copy" } }
  - { name: "gemini-*", provider: vertex, params: { vertexProject: rivers, vertexRegion: global } }
binds:
- port: 3000
  listeners:
  - routes:
    - backends:
      - ai: { name: local, hostOverride: "models.example:443", provider: { openAI: { model: llama } } }
      policies: { cors: { allowOrigins: ["*"] } }
"""


def take(tmp_path, kind, text, *more):
    (tmp_path / "theirs.yaml").write_text(text)
    made = subprocess.run([str(WEIR), "init", "--from", kind, "theirs.yaml", "weir", *more], cwd=tmp_path, capture_output=True, text=True)
    return made


def test_a_proxy_of_litellm_is_taken_over_and_serves(tmp_path, monkeypatch):
    upstream = Origin(program="provider.py")
    try:
        text = LITELLM.replace("@PORT@", str(upstream.port))
        made = take(tmp_path, "litellm", text, "--json")
        assert made.returncode == 0, made.stderr
        told = json.loads(made.stdout)
        written = (tmp_path / "weir" / "weir.yaml").read_text()
        assert "do-not-copy" not in written + made.stdout
        # Two deployments of one name share its calls, and a fallback goes behind.
        assert 'gpt-4o: ["azure/gpt-4o-eu 1", "azure-2/gpt-4o-ca 1"]' in written
        assert 'bedrock-claude: ["bedrock/anthropic.claude-opus-5-v1:0", "vertex/claude-opus-5", "vllm/llama"]' in written
        assert "claude: [" in written and "answer_ms: 60000" in written and "money: 200, per: month" in written
        assert "https://my-endpoint-europe.openai.azure.com/openai/v1" in written and "calls: 6, per: minute" in written
        not_taken = {one["name"]: one["what"] for one in told["without"]}
        for path in ["model_list[6]", "litellm_settings.drop_params", "litellm_settings.success_callback", "litellm_settings.context_window_fallbacks",
                     "router_settings.routing_strategy", "router_settings.num_retries", "router_settings.redis_host",
                     "general_settings.master_key", "general_settings.database_url", "model_list[0].litellm_params.api_version"]:
            assert not_taken[path] and not_taken[path] != "has no counterpart", (path, not_taken)
        needed = {one["name"] for one in told["exports"]}
        assert {"AZURE_API_KEY_EU", "AZURE_API_KEY_CA", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "VLLM_API_KEY"} <= needed
        # What was written is a good configuration once the file and the variables are there.
        account = {"type": "service_account", "project_id": "rivers", "private_key_id": "k", "private_key": cloud.PRIVATE_PEM,
                   "client_email": "a@rivers.example", "token_uri": "https://oauth2.googleapis.com/token"}
        (tmp_path / "weir" / "account.json").write_text(json.dumps(account))
        (tmp_path / "weir" / "account.json").chmod(0o600)
        env = {**{name: "kkkkkkkkkkkkkkkk" for name in needed if name.isidentifier()}, "PATH": "/usr/bin:/bin"}
        checked = subprocess.run([str(WEIR), "config", "check", "weir.yaml"], cwd=tmp_path / "weir", capture_output=True, text=True, env=env)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        text = written.replace("127.0.0.1:8700", "127.0.0.1:0") + "\nlogs: { format: json, level: info }\n"
        (tmp_path / "weir" / "weir.yaml").write_text(text)
        gateway = Gateway.__new__(Gateway)
        gateway.folder, gateway.exit_code, gateway.stdout, gateway.port = tmp_path / "weir", 0, subprocess.DEVNULL, 0
        gateway.state, gateway.keys = tmp_path / "weir" / "state", {"dev": told["key"]}
        for name in env:
            if name != "PATH":
                monkeypatch.setenv(name, env[name])
        try:
            gateway.start()
            body = json.dumps({"model": "local", "max_tokens": 9, "messages": [{"role": "user", "content": "say"}]})
            answer = gateway.request("POST", "/v1/chat/completions", body, gateway.headers())
            assert answer.status == 200 and answer.json()["choices"][0]["message"]["content"] == "say", answer.body
        finally:
            gateway.stop()
    finally:
        upstream.stop()


def test_agentgateway_is_taken_over(tmp_path):
    made = take(tmp_path, "agentgateway", AGENTGATEWAY)
    assert made.returncode == 0, made.stderr
    written = (tmp_path / "weir" / "weir.yaml").read_text()
    assert 'smart: ["openai/gpt-4o-mini"]' in written and "do-not-copy" not in written + made.stdout
    assert 'local: ["openai-2/llama"]' in written and "https://models.example:443" in written
    for told in ["llm.port: weir listens where listen says", "binds[0].port", "binds[0].listeners[0].routes[0].policies", "vertex-account.json", "ANTHROPIC_API_KEY"]:
        assert told in made.stdout, made.stdout


@pytest.mark.parametrize("kind, text, told", [
    ("litellm", "model_list: []\n", "there is no model to take over"),
    ("litellm", "[1]", "is no map of keys"),
    ("litellm", "a: [", "cannot be read at line"),
    ("agentgateway", "llm: { models: [{ name: x, provider: nobody }] }", "none of the kinds"),
    ("litellms", "a: 1", "is not known"),
])
def test_what_cannot_be_taken_over_writes_nothing(tmp_path, kind, text, told):
    made = take(tmp_path, kind, text)
    assert made.returncode == 2 and told in made.stderr, made.stderr
    assert not (tmp_path / "weir").exists()
