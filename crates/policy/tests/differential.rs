//! Sliced against whole: the slice's decision is Cedar's own over all policies, with every entity and the
//! whole context, but that an error refuses. The cases are drawn from a seed; a failure prints it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use base::{Action, ItemKind, Json, Name, Resource};
use cedar_policy::{Authorizer, Entities, EntityUid, PolicyId, PolicySet, Request, Schema};
use mcp::actions::CALL;
use policy::{ArgumentType, Context, Decision, Policies, Principal, Source};
use serde_json::{Value, json};

static LANES: &[&base::Lane] = &[&mcp::LANE, &relay::LANE];

const SEED: u64 = 0x7765_6972;
const POOL: usize = 150;
const SETS: usize = 80;
const CALLS: usize = 50;

/// xorshift64*: small, and the same everywhere.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % n as u64) as usize
    }

    fn of<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }
}

const PRINCIPALS: &[&str] = &[
    "principal",
    "principal == Agent::\"a0\"",
    "principal == Agent::\"a1\"",
    "principal in Agent::\"a1\"",
    "principal in Group::\"g0\"",
    "principal in Group::\"g1\"",
    "principal is Agent",
    "principal is Agent in Group::\"g2\"",
];
const ACTIONS: &[&str] = &[
    "action",
    "action == Action::\"mcp:call\"",
    "action == Action::\"mcp:list\"",
    "action in Action::\"mcp\"",
    "action in [Action::\"mcp:call\", Action::\"mcp:read\"]",
    "action in [Action::\"mcp:use\"]",
    "action in [Action::\"mcp\", Action::\"relay\"]",
];
const RESOURCES: &[&str] = &[
    "resource",
    "resource == Server::\"s0\"",
    "resource == Tool::\"s0/t0\"",
    "resource == Tool::\"s1/t1\"",
    "resource in Server::\"s0\"",
    "resource in Server::\"s1\"",
    "resource in Tool::\"s0/t0\"",
    "resource is Tool",
    "resource is Server",
    "resource is Tool in Server::\"s1\"",
    "resource is Server in Server::\"s0\"",
];
const CONDITIONS: &[&str] = &[
    "",
    "when { principal in Group::\"g1\" }",
    "unless { principal.name == \"a0\" }",
    "when { resource.name like \"*1\" }",
    "when { resource in [Server::\"s0\", Server::\"s2\"] }",
    "when { [\"s0\", \"t0\", \"a\"].contains(resource.name) }",
    "unless { resource.name != \"t1\" }",
    "when { resource.name == principal.name }",
    "when { resource in [Server::\"s1\", Tool::\"s0/t2\"] && resource.name like \"*0\" }",
    "when { if resource is Tool then resource.name like \"*1\" else true }",
    "when { context.method == \"m1\" }",
    "unless { context.method == \"m0\" }",
    "when { context.lane == \"mcp\" && context.at > 1000 }",
    "when { context.peer.isInRange(ip(\"10.0.0.0/8\")) }",
    "when { context has arguments && context.arguments has path \
     && context.arguments.path like \"/a*\" }",
    "unless { context has arguments.count && context.arguments.count < 3 }",
    "when { context has arguments && context.arguments has tags \
     && context.arguments.tags.contains(\"x\") }",
    "when { context has arguments && context.arguments has path \
     && [context.arguments].contains(context.arguments) }",
    "when { context has findings && context.findings.contains(\"f0\") }",
    "unless { context has findings && !context.findings.isEmpty() }",
    "when { context has findings && context.method == \"m1\" }",
    "when { context.at * 9000000000000000000 > 0 || context.method == \"m1\" }",
    "when { context.method == \"m1\" && 9223372036854775807 + 1 > 0 }",
];

fn declared() -> BTreeMap<String, ArgumentType> {
    let kinds = [
        ("path", "String"),
        ("count", "Long"),
        ("tags", "Set<String>"),
    ];
    kinds
        .into_iter()
        .map(|(name, kind)| (name.to_string(), kind.parse().unwrap()))
        .collect()
}

/// Policies that load, each alone.
fn pool(draw: &mut Draw) -> Vec<String> {
    let mut pool = Vec::new();
    while pool.len() < POOL {
        let effect = draw.of(&["permit", "permit", "forbid"]);
        let (principal, action) = (draw.of(PRINCIPALS), draw.of(ACTIONS));
        let (resource, condition) = (draw.of(RESOURCES), draw.of(CONDITIONS));
        let text = format!(
            "@id(\"p{}\") {effect}({principal}, {action}, {resource}) {condition};\n",
            pool.len()
        );
        if Policies::load(
            LANES,
            &[Source {
                file: "f",
                text: &text,
            }],
            &declared(),
        )
        .is_ok()
        {
            pool.push(text);
        }
    }
    pool
}

/// One call, as both sides need it.
struct Call {
    principal: usize,
    action: &'static Action,
    server: usize,
    tool: usize,
    method: &'static str,
    peer: &'static str,
    unix_ms: u64,
    arguments: Value,
    findings: Vec<&'static str>,
}

/// Which groups each agent is in.
const GROUPS: &[&[&str]] = &[&[], &["g0"], &["g0", "g1", "g2"], &["g2", "g3"]];

fn draw_call(draw: &mut Draw) -> Call {
    let mut arguments = json!({});
    for (name, values) in [
        ("path", [json!("/a"), json!("/b"), json!("/a/b")]),
        ("count", [json!(1), json!(3), json!(-9)]),
        ("tags", [json!([]), json!(["x"]), json!(["y", "x"])]),
    ] {
        if draw.below(2) == 0 {
            arguments[name] = values[draw.below(3)].clone();
        }
    }
    let findings: BTreeSet<_> = (0..draw.below(3)).map(|_| draw.of(&["f0", "f1"])).collect();
    Call {
        principal: draw.below(GROUPS.len()),
        action: match (draw.below(2), draw.below(6)) {
            (0, _) => &CALL,
            (_, 5) => &relay::actions::PASS,
            (_, nth) => mcp::LANE.actions[nth],
        },
        server: draw.below(3),
        tool: draw.below(3),
        method: draw.of(&["m0", "m1"]),
        peer: draw.of(&["10.1.2.3", "192.0.2.1", "2001:db8::1"]),
        unix_ms: [1_000, 2_000_000][draw.below(2)],
        arguments,
        findings: findings.into_iter().collect(),
    }
}

/// Every agent, group, server and tool, with the schema's actions.
fn world(schema: &Schema) -> Entities {
    let entity = |kind: &str, id: String, attrs: Value, parents: Vec<Value>| json!({ "uid": { "type": kind, "id": id }, "attrs": attrs, "parents": parents });
    let mut all = Vec::new();
    for group in ["g0", "g1", "g2", "g3"] {
        all.push(entity(
            "Group",
            group.into(),
            json!({ "name": group }),
            vec![],
        ));
    }
    for (i, groups) in GROUPS.iter().enumerate() {
        let parents = groups
            .iter()
            .map(|group| json!({ "type": "Group", "id": group }));
        let name = format!("a{i}");
        all.push(entity(
            "Agent",
            name.clone(),
            json!({ "name": name }),
            parents.collect(),
        ));
    }
    for server in ["s0", "s1", "s2"] {
        all.push(entity(
            "Server",
            server.into(),
            json!({ "name": server }),
            vec![],
        ));
        for tool in ["t0", "t1", "t2"] {
            let parent = json!({ "type": "Server", "id": server });
            let named = json!({ "name": tool, "server": server });
            let resource = json!({ "name": tool, "server": server, "uri": tool });
            for (kind, attrs) in [
                ("Tool", named.clone()),
                ("Prompt", named),
                ("Resource", resource),
            ] {
                let id = format!("{server}/{tool}");
                all.push(entity(kind, id, attrs, vec![parent.clone()]));
            }
        }
    }
    Entities::from_json_value(Value::Array(all), Some(schema)).unwrap()
}

/// Cedar's answer over all policies: the permitting ids, or nothing.
fn whole(set: &PolicySet, world: &Entities, schema: &Schema, call: &Call) -> Option<Vec<String>> {
    let uid = |text: String| text.parse::<EntityUid>().unwrap();
    let is_call = *call.action == CALL;
    let item = |kind| uid(format!("{kind}::\"s{}/t{}\"", call.server, call.tool));
    let resource = match call.action.name {
        "mcp:call" => item("Tool"),
        "mcp:read" => item("Resource"),
        "mcp:prompt" => item("Prompt"),
        _ => uid(format!("Server::\"s{}\"", call.server)),
    };
    let mut context = json!({
        "lane": call.action.lane.name,
        "method": call.method,
        "peer": { "__extn": { "fn": "ip", "arg": call.peer } },
        "at": call.unix_ms / 1000,
        "findings": call.findings,
    });
    if is_call {
        context["arguments"] = call.arguments.clone();
    }
    let action = uid(format!("Action::\"{}\"", call.action.name));
    let context = cedar_policy::Context::from_json_value(context, Some((schema, &action))).unwrap();
    let principal = uid(format!("Agent::\"a{}\"", call.principal));
    let request = Request::new(principal, action, resource, context, Some(schema)).unwrap();
    let response = Authorizer::new().is_authorized(&request, set, world);
    let failed = response.diagnostics().errors().next().is_some();
    let mut ids: Vec<String> = response
        .diagnostics()
        .reason()
        .map(|id| AsRef::<str>::as_ref(id).into())
        .collect();
    ids.sort();
    (response.decision() == cedar_policy::Decision::Allow && !failed).then_some(ids)
}

/// The gate's way: admit, then decide where a policy waits for findings.
fn sliced(policies: &Policies, call: &Call) -> Option<Vec<String>> {
    let groups = GROUPS[call.principal]
        .iter()
        .map(|group| Name::new(group).unwrap())
        .collect();
    let name = Name::new(&format!("a{}", call.principal)).unwrap();
    let who = Arc::new(Principal { name, groups });
    let server = Name::new(&format!("s{}", call.server)).unwrap();
    let resource = match call.action.name {
        "relay:pass" => Resource::Route(server),
        "mcp:read" => Resource::item(server, ItemKind::Resource, &format!("t{}", call.tool)),
        "mcp:prompt" => Resource::item(server, ItemKind::Prompt, &format!("t{}", call.tool)),
        _ => Resource::tool(server, &format!("t{}", call.tool)),
    };
    let arguments = serde_json::to_vec(&call.arguments).unwrap();
    let arguments = Json::read(&arguments).unwrap();
    let context = Context {
        method: call.method,
        peer: call.peer.parse::<IpAddr>().unwrap(),
        unix_ms: call.unix_ms,
        arguments: Some(arguments.root()),
    };
    let slice = policies.slice(&who, call.action, &resource).unwrap();
    let admission = slice.admit(&resource, &context);
    let explained = policies.explain(&who, call.action, &resource, &context);
    match (&admission, &explained.decision) {
        (Ok(admission), Decision::Permitted | Decision::AfterScan) => {
            assert!(slice.listable(&resource), "admitted, but hidden");
            let mut permitted = explained.permitted.clone();
            permitted.sort();
            assert_eq!(permitted, admission.policies);
            assert!(explained.forbade.is_empty() && explained.errors.is_empty());
        }
        (Err(_), Decision::Refused(_)) => {}
        other => panic!("the explanation disagrees: {other:?}"),
    }
    match admission.ok()? {
        admission if admission.pending => slice.decide(&resource, &context, &call.findings).ok(),
        admission => Some(admission.policies),
    }
}

#[test]
fn a_slice_decides_as_the_whole_does() {
    let mut draw = Draw(SEED);
    let pool = pool(&mut draw);
    let (schema, _) =
        Schema::from_cedarschema_str(&policy::schema_text(LANES, &declared())).unwrap();
    let world = world(&schema);
    let (mut permitted, mut refused) = (0, 0);
    for set in 0..SETS {
        let chosen: BTreeSet<usize> = (0..1 + draw.below(16)).map(|_| draw.below(POOL)).collect();
        let text: String = chosen.iter().map(|index| pool[*index].as_str()).collect();
        let policies = Policies::load(
            LANES,
            &[Source {
                file: "f",
                text: &text,
            }],
            &declared(),
        )
        .unwrap();
        let parsed: PolicySet = text.parse().unwrap();
        let named = parsed
            .policies()
            .map(|policy| policy.new_id(PolicyId::new(policy.annotation("id").unwrap())));
        let parsed = PolicySet::from_policies(named).unwrap();
        for nth in 0..CALLS {
            let call = draw_call(&mut draw);
            let (expected, got) = (
                whole(&parsed, &world, &schema, &call),
                sliced(&policies, &call),
            );
            assert_eq!(
                got, expected,
                "seed {SEED:#x}, set {set}, call {nth}\n{text}"
            );
            if expected.is_some() {
                permitted += 1
            } else {
                refused += 1
            }
        }
    }
    // A generator that only ever permits or refuses tests nothing.
    assert!(
        permitted > 400 && refused > 400,
        "{permitted} permitted, {refused} refused"
    );
}
