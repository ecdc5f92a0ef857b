"""Budgets of models: money to the last token, whatever breaks; what was used, by the log; prices; and what was scanned before."""

import csv
import http.client
import io
import json
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway import Gateway, Origin, until

# Of the provider of the tests: 8 tokens in, 3 read from a cache, 7 out.
PRICE = {"input": 1000, "cached_read": 100, "output": 2000}
COST = (8 * 1000 + 3 * 100 + 7 * 2000) / 1e6
POLICY = """
@id("list") permit (principal, action == Action::"llm:list", resource);
@id("chat") permit (principal, action == Action::"llm:chat", resource in Provider::"main");
"""
AGENTS = {"dev": {"groups": ["engineers"]}, "ann": {"groups": ["engineers"]}, "guest": {}}
# No scanner takes this file for a leak: the secret is put together here.
SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"


class Priced:
    """A gateway with budgets before a provider that counts the same for each answer."""

    def __init__(self, folder, budgets, prices=None, **settings):
        self.upstream = Origin(program="provider.py")
        prices = {"say": PRICE, "slow": PRICE, "cut": PRICE, "status-500": PRICE} if prices is None else prices
        main = {"kind": "vllm", "url": f"http://127.0.0.1:{self.upstream.port}/v1", "prices": prices}
        self.gateway = Gateway(folder, {}, AGENTS, POLICY, llm={"providers": {"main": main}}, budgets=budgets, **settings)

    def __enter__(self):
        self.gateway.start()
        return self

    def __exit__(self, *_):
        try:
            self.gateway.verify()
            self.gateway.stop()
        finally:
            self.upstream.stop()

    def ask(self, model="say", agent="dev", connection=None, **more):
        body = {"model": f"main/{model}", "messages": [{"role": "user", "content": "how high is the river"}], "max_tokens": 10, **more}
        headers = self.gateway.headers(agent)
        return self.gateway.request("POST", "/v1/chat/completions", json.dumps(body).encode(), headers, connection)

    def usage(self, agent="dev"):
        answer = self.gateway.request("GET", "/v1/usage", None, self.gateway.headers(agent))
        assert answer.status == 200, answer.body
        return answer.json()

    def budget(self, name, agent="dev"):
        return next(b for b in self.usage(agent)["budgets"] if b["name"] == name)

    def answered(self):
        return len([seen for seen in self.upstream.seen() if "body" in seen])


def code(answer):
    return answer.json()["error"]["code"]


def test_money_is_spent_to_the_last_token_and_no_more(tmp_path):
    # A third of the calls is within the budget. WEIR_CALLS=10000 is the long form.
    calls = int(os.environ.get("WEIR_CALLS", "640"))
    money = max(1, round(calls * COST * 0.35))
    budgets = {"day": {"group": "engineers", "money": money, "per": "day"}, "other": {"agent": "guest", "tokens": 5, "per": "month"}}
    with Priced(tmp_path, budgets) as house:
        passed, refused = [], []

        def many(number):
            connection = house.gateway.connect()
            for _ in range(calls // 16):
                answer = house.ask(agent=["dev", "ann"][number % 2], connection=connection)
                (passed if answer.status == 200 else refused).append(answer)

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(many, range(16)))
        assert {(answer.status, code(answer)) for answer in refused} == {(429, "limit.budget")}
        message = refused[0].json()["error"]["message"]
        assert "day (money a day)" in message and int(refused[0].headers["retry-after"]) <= 86_400, message
        day = house.budget("day")
        spent = len(passed) * COST
        assert day["spent"] == pytest.approx(spent, abs=1e-9) and day["spent"] <= money and day["reserved"] == 0
        page = house.gateway.operator("/metrics").body.decode()
        assert f'weir_budget_limit{{budget="day",unit="dollars",per="day",agent=""}} {money:.1f}' in page, page
        # What is left is less than one call may cost.
        assert day["left"] < 0.2 and len(passed) == house.answered()
        assert house.usage("dev")["month"][0]["calls"] + house.usage("ann")["month"][0]["calls"] == len(passed)
        # A budget of others takes nothing of theirs, and one that is too small for any call says so.
        answer = house.ask(agent="guest")
        assert (answer.status, code(answer)) == (403, "limit.too_dear")
        assert "retry-after" not in answer.headers


def test_a_kill_in_the_middle_gives_nothing_away(tmp_path):
    kills = int(os.environ.get("WEIR_KILLS", "5"))
    # Each kill may cost what was under way, and calls go on until the kill: the budget lasts however many were made before it is seen
    # that the provider was asked.
    money = 1000 * kills
    budgets = {"month": {"money": money, "per": "month"}, "minute": {"tokens": 1_000_000_000, "per": "minute"}}
    with Priced(tmp_path, budgets) as house:
        for _ in range(kills):
            stop = threading.Event()

            def load():
                while not stop.is_set():
                    try:
                        house.ask()
                    except (OSError, http.client.HTTPException):
                        return

            threads = [threading.Thread(target=load) for _ in range(6)]
            for thread in threads:
                thread.start()
            before = house.answered()
            wanted = before + random.randrange(3, 12)
            until(lambda: house.answered() > wanted, "the provider is asked")
            house.gateway.kill()
            stop.set()
            for thread in threads:
                thread.join()
            house.gateway.start()
            month = house.budget("month")
            assert month["reserved"] == 0 and house.answered() * COST <= month["spent"] + 1e-9, month
        spent = house.budget("month")["spent"]
        rows = json.loads(house.gateway.weir("usage", "--json").stdout)["rows"]
        assert rows[0]["dollars"] == pytest.approx(spent, abs=1e-6)


@pytest.mark.parametrize("more", [{"n": 100.0}, {"n": "100"}, {"n": 1e2}, {"best_of": 100}, {"max_tokens": 1000.0}, {"max_tokens": "1000"},
                                  {"max_tokens": 10**30}, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {
                                      "url": "https://a.example/river.png"}}]}]}])
def test_amounts_are_reserved_as_a_lenient_provider_would_read_them(tmp_path, more):
    with Priced(tmp_path, {"day": {"tokens": 900, "per": "day"}}) as house:
        answer = house.ask(**more)
        assert (answer.status, code(answer)) == (403, "limit.too_dear"), answer.body
        assert house.answered() == 0
        assert house.ask().status == 200


def test_what_breaks_is_paid_for_and_what_failed_is_not(tmp_path):
    with Priced(tmp_path, {"day": {"money": 100, "per": "day"}, "few": {"agent": "ann", "at_once": 1}}) as house:
        assert house.ask("status-500").status in (500, 502, 503)
        assert house.budget("day")["spent"] == 0
        answer = house.ask("cut", stream=True)
        assert b"llm.provider_failed" in answer.body
        # Nobody counted it, so what was reserved is taken: more than a whole answer of this provider costs.
        broken = house.budget("day")["spent"]
        assert broken > COST
        assert house.usage()["today"][0]["estimated"] > 18
        # Clients go at random: what was reserved comes back, or is spent.
        for _ in range(6):
            connection = house.gateway.connect()
            body = {"model": "main/slow", "stream": True, "max_tokens": 10, "messages": [{"role": "user", "content": "slow and long river"}]}
            connection.request("POST", "/v1/chat/completions", json.dumps(body), house.gateway.headers("dev"))
            response = connection.getresponse()
            response.read(random.randrange(1, 80))
            response.close()
            connection.close()
        until(lambda: house.budget("day")["reserved"] == 0, "what was reserved is settled")
        # One call at once, and then the next.
        connection = house.gateway.connect()
        body = {"model": "main/slow", "stream": True, "messages": [{"role": "user", "content": "slow and long river"}]}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), house.gateway.headers("ann"))
        response = connection.getresponse()
        answer = house.ask(agent="ann")
        assert (answer.status, code(answer)) == (429, "limit.budget") and "at once" in answer.json()["error"]["message"]
        response.close()
        connection.close()
        until(lambda: house.budget("few", "ann")["reserved"] == 0, "the call ends")
        assert house.ask(agent="ann").status == 200


def test_a_stream_that_nobody_counts_costs_its_text(tmp_path):
    with Priced(tmp_path, {"day": {"tokens": 1_000_000, "per": "day"}}) as house:
        said = 4_000 * len("river ") // 4
        answer = house.ask("uncounted", stream=True, messages=[{"role": "user", "content": "4000"}])
        events = [line[6:] for line in answer.body.decode().splitlines() if line.startswith("data: {")]
        choices = [choice for event in events for choice in json.loads(event)["choices"]]
        assert "".join(choice["delta"].get("content", "") for choice in choices).count("river") == 4_000
        whole = until(lambda: house.budget("day")["spent"], "it is settled")
        assert said <= whole < said + 200
        # The log tells the same after a start.
        house.gateway.stop()
        house.gateway.start()
        assert house.budget("day")["spent"] == whole


def test_what_was_used_is_told_by_the_log(tmp_path):
    with Priced(tmp_path, {}) as house:
        assert house.ask().status == house.ask(agent="ann").status == house.ask(agent="ann").status == 200
        page = house.gateway.operator("/metrics").body.decode()
        labels = 'gen_ai_operation_name="chat",gen_ai_provider_name="main",gen_ai_request_model="(other)"'
        assert f'gen_ai_client_token_usage_sum{{{labels},gen_ai_token_type="input"}} 33.0' in page, page
        assert "gen_ai_client_operation_duration_seconds_count{" + labels in page

        def counted():
            rows = list(csv.DictReader(io.StringIO(house.gateway.weir("usage", "--by", "agent,group,model", "--csv").stdout)))
            return rows if sum(int(row["estimated"]) for row in rows) == 0 else None

        # An outcome is written a moment after its answer.
        rows = until(counted, "all outcomes are written")
        assert [(r["agent"], r["group"], r["model"], r["calls"], r["cached_read"]) for r in rows] == [
            ("ann", "engineers", "main/say", "2", "6"), ("dev", "engineers", "main/say", "1", "3")]
        assert float(rows[1]["dollars"]) == pytest.approx(COST, abs=1e-4)
        text = house.gateway.weir("usage", "--by", "day", "--agent", "ann").stdout
        assert time.strftime("%Y-%m-%d", time.gmtime()) in text and "ann" not in text
        assert "no model was used" in house.gateway.weir("usage", "--since", "2999-01-01").stdout
        # No price of the model is known: it may be used, but not on a budget of money.
    with Priced(tmp_path / "unpriced", {"day": {"money": 5, "per": "day"}}, prices={}) as house:
        answer = house.ask()
        assert (answer.status, code(answer)) == (403, "limit.price_unknown")


def test_budgets_change_while_serving(tmp_path):
    with Priced(tmp_path, {}) as house:
        for _ in range(3):
            assert house.ask().status == 200
        file = tmp_path / "weir.yaml"
        settings = json.loads(file.read_text())
        settings["budgets"] = {"day": {"each": "agent", "calls": 4, "per": "day"}}
        file.write_text(json.dumps(settings))
        until(lambda: house.usage()["budgets"], "the budget is in force")
        # A budget that is new counts what was used before it was there.
        assert house.budget("day")["spent"] == 3 and house.budget("day", "ann")["spent"] == 0
        assert [house.ask().status, house.ask().status, house.ask(agent="ann").status] == [200, 429, 200]


def test_prices_are_shown_and_imported(tmp_path):
    with Priced(tmp_path, {}) as house:
        weir = house.gateway.weir
        shown = json.loads(weir("prices", "show", "main/say", "--json").stdout)
        assert shown["prices"][0]["output"] == 2000
        assert "claude-opus-5" in weir("prices", "show", "anthropic/claude-opus-5-20260401").stdout
        assert weir("prices", "show", "main/unheard", check=False).returncode == 1
        other = {"gpt-x": {"litellm_provider": "openai", "input_cost_per_token": 2e-06, "output_cost_per_token": 8e-06}, "odd": {}}
        (tmp_path / "other.json").write_text(json.dumps(other))
        out = tmp_path / "prices.csv"
        assert "1 prices, 1 models left out" in weir("prices", "import", str(tmp_path / "other.json"), "--out", str(out)).stdout
        settings = json.loads((tmp_path / "weir.yaml").read_text())
        settings["llm"]["prices"] = "prices.csv"
        settings["llm"]["providers"]["openai"] = {}
        (tmp_path / "weir.yaml").write_text(json.dumps(settings))
        shown = json.loads(weir("prices", "show", "openai/gpt-x", "--json").stdout)
        assert shown["prices"][0]["input"] == 2
        out.write_text("openai,is,gpt,1,1,1,1\n")
        failed = weir("config", "check", check=False)
        assert failed.returncode == 1 and "cannot be read as prices: line 1" in failed.stderr


@pytest.mark.parametrize("budget, what", [
    ({"money": 5}, "needs per: minute, day or month"),
    ({"per": "day"}, "says no amount"),
    ({"money": "a lot", "per": "day"}, "must be dollars"),
    ({"group": "enginers", "money": 5, "per": "day"}, 'no agent\'s group is named "enginers"; did you mean engineers?'),
    ({"agent": "bob", "calls": 5, "per": "day"}, 'no agent is named "bob"'),
    ({"provider": "mian", "calls": 5, "per": "day"}, 'no provider is named "mian"; did you mean main?'),
    ({"tokens": 5, "per": "week"}, "minute"),
    ({"tokens": 0, "per": "day"}, "must be a whole number from 1"),
])
def test_budgets_that_cannot_be_are_told(tmp_path, budget, what):
    house = Priced(tmp_path, {"b": budget})
    house.upstream.stop()
    failed = house.gateway.weir("config", "check", check=False)
    assert failed.returncode == 1 and what in failed.stderr, failed.stderr


def test_a_history_is_known_until_a_byte_of_it_changes(tmp_path):
    def turns(count):
        roles = ["user", "assistant"]
        return [{"role": roles[i % 2], "content": f"turn {i}: the river rose by {i} centimetres"} for i in range(count)]

    with Priced(tmp_path, {}, scan={"secrets": {"outgoing": "refuse"}}) as house:
        say = lambda messages: house.ask(messages=messages)
        history = turns(201)
        assert say(history).status == say(history).status == 200
        # The same history with a secret in an early turn, one behind it, and one over the seam of what is known and what is new.
        changed = turns(201)
        changed[2]["content"] += f" and the key is {SECRET}"
        assert code(say(changed)) == "scan.secret"
        assert code(say([*history, {"role": "user", "content": f"my key is {SECRET}"}])) == "scan.secret"
        half = len(SECRET) // 2
        seam = [*history, {"role": "user", "content": f"AWS key: {SECRET[:half]}"}]
        assert say(seam).status == 200
        assert code(say([*seam, {"role": "user", "content": SECRET[half:]}])) == "scan.secret"
        assert say([*history, {"role": "user", "content": "and now?"}]).status == 200
    with Priced(tmp_path / "redacts", {}, scan={"secrets": {"outgoing": "redact"}}) as house:
        # A secret in an early turn is redacted in every turn alike, and the conversation goes on.
        changed[2]["content"] = f"the key is {SECRET}"
        for more in range(3):
            assert house.ask(messages=[*changed, *turns(2 * more)]).status == 200
        bodies = [seen["body"] for seen in house.upstream.seen() if "body" in seen]
        assert all(SECRET not in body and body.count("[redacted:") == 1 for body in bodies)


def test_tags_are_counted_and_decide_nothing(tmp_path):
    with Priced(tmp_path, {}) as house:
        def ask(tags=None, agent="dev", **fields):
            body = {"model": "main/say", "max_tokens": 20, "messages": [{"role": "user", "content": "the river"}]}
            if tags is not None:
                body["metadata"] = {"tags": tags, "note": "kept"}
            return house.gateway.request("POST", "/v1/chat/completions", json.dumps(body), house.gateway.headers(agent, **fields))

        assert ask(["rivers", "team:a"]).status == 200
        sent = json.loads(house.upstream.seen()[-1]["body"])
        # The list is for the gateway; what else stands there is the provider's.
        assert sent["metadata"] == {"note": "kept"}
        assert ask(["rivers"], **{"x-litellm-tags": "rivers, lakes"}).status == 200
        assert "x-litellm-tags" not in house.upstream.seen()[-1]["fields"]
        assert ask(agent="ann").status == 200
        before = len(house.upstream.seen())
        # Tags are judged as all that is asked.
        assert ask([SECRET]).json()["error"]["code"] == "scan.secret"
        for bad in (["a b"], ["x" * 65], [1], [str(n) for n in range(9)]):
            assert ask(bad).json()["error"]["code"] == "llm.body_invalid", bad
        assert ask(**{"x-litellm-tags": "a;b"}).status == 400
        assert len(house.upstream.seen()) == before

        def counted():
            rows = json.loads(house.gateway.weir("usage", "--by", "tag", "--json").stdout)["rows"]
            return {row["tag"]: row for row in rows} if sum(row["calls"] for row in rows) >= 5 and not any(row["estimated"] for row in rows) else None

        rows = until(counted, "all outcomes are written")
        counts = {tag: row["calls"] for tag, row in rows.items() if tag in ("", "rivers", "lakes", "team:a")}
        assert counts == {"": 1, "rivers": 2, "lakes": 1, "team:a": 1}, rows
        # A tag that is a secret is in no record.
        assert all(SECRET not in tag for tag in rows)
        assert all(SECRET not in json.dumps(record) for record in house.gateway.records())
        # The sum has each call once.
        text = house.gateway.weir("usage", "--by", "tag").stdout.splitlines()
        assert text[-1].split()[:2] == ["all", "3"], text
        only = json.loads(house.gateway.weir("usage", "--tag", "lakes", "--json").stdout)["rows"]
        assert [(row["agent"], row["calls"]) for row in only] == [("dev", 1)]
        own = {row["tag"]: row["calls"] for row in house.usage()["month_by_tag"]}
        assert own["rivers"] == 2 and own["lakes"] == 1 and "" not in own and SECRET not in own
        assert house.usage("ann")["month_by_tag"] == house.usage("ann")["today_by_tag"] == []
