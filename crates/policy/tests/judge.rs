//! Policy texts in, decisions and problems out.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use base::{Action, ItemKind, Json, Lane, Name, Refusal, Resource};
use mcp::actions::{CALL, LIST, USE};
use policy::{ArgumentType, Context, Decision, Policies, Principal, Problem, Slice, Source};

static LANES: &[&Lane] = &[&mcp::LANE, &relay::LANE];

fn declared() -> BTreeMap<String, ArgumentType> {
    let kinds = [
        ("path", "String"),
        ("amount", "Long"),
        ("tags", "Set<String>"),
    ];
    kinds
        .into_iter()
        .map(|(name, kind)| (name.to_string(), kind.parse().unwrap()))
        .collect()
}

fn load(text: &str) -> Result<Policies, Vec<Problem>> {
    Policies::load(
        LANES,
        &[Source {
            file: "p.cedar",
            text,
        }],
        &declared(),
    )
}

fn resource(tool: Option<&str>) -> Resource {
    let server = Name::new("files").unwrap();
    match tool {
        Some(tool) => Resource::tool(server, tool),
        None => Resource::server(server),
    }
}

fn read() -> Resource {
    resource(Some("read"))
}

fn slice(policies: &Policies, action: &'static Action, tool: Option<&str>) -> Arc<Slice> {
    ask(policies, action, tool).unwrap()
}

fn ask(
    policies: &Policies,
    action: &'static Action,
    tool: Option<&str>,
) -> Result<Arc<Slice>, Refusal> {
    policies.slice(&dev(), action, &resource(tool))
}

fn dev() -> Arc<Principal> {
    let groups = vec![Name::new("engineers").unwrap()];
    Arc::new(Principal {
        name: Name::new("dev").unwrap(),
        groups,
    })
}

fn context(arguments: Option<&str>) -> Context<'static> {
    // A context borrows what it reads: in a test that may stay.
    let arguments = arguments.map(|text| &*Box::leak(text.to_owned().into_boxed_str()));
    let arguments = arguments.map(|text| Json::read(text.as_bytes()).unwrap());
    let arguments = arguments.map(|json| &*Box::leak(Box::new(json)));
    Context {
        method: "tools/call",
        peer: IpAddr::from([10, 1, 2, 3]),
        unix_ms: 1_795_271_130_123,
        arguments: arguments.map(Json::root),
    }
}

/// Calls the tool `read` with these arguments, all the way: early policies, then late ones.
fn call(text: &str, arguments: &str, findings: &[&str]) -> Result<Vec<String>, Refusal> {
    let policies = load(text).unwrap();
    let slice = slice(&policies, &CALL, Some("read"));
    let admission = slice.admit(&read(), &context(Some(arguments)))?;
    assert_eq!(admission.pending, slice.has_late());
    if admission.pending {
        slice.decide(&read(), &context(Some(arguments)), findings)
    } else {
        Ok(admission.policies)
    }
}

fn code(result: Result<Vec<String>, Refusal>) -> &'static str {
    result.unwrap_err().code.name
}

const ALL: &str = "@id(\"all\") permit(principal, action, resource);\n";

#[test]
fn nothing_is_permitted_by_default() {
    let refusal = call("", "{}", &[]).unwrap_err();
    assert_eq!(refusal.code.name, "policy.forbidden");
    let public = "agent dev may not mcp:call on tool \"read\" of server files: \
                  no policy permits it";
    assert_eq!(refusal.public, public);
    assert_eq!(
        code(call(
            "permit(principal == Agent::\"x\", action, resource);",
            "{}",
            &[]
        )),
        "policy.forbidden"
    );
}

#[test]
fn decisions_name_their_policies() {
    let text = format!("{ALL}\npermit(principal in Group::\"engineers\", action, resource);");
    assert_eq!(call(&text, "{}", &[]).unwrap(), ["all", "p.cedar:3"]);
}

#[test]
fn forbid_wins_and_its_name_is_private() {
    let text = format!(
        "{ALL} @id(\"no-reading\") forbid(principal, action == Action::\"mcp:call\", \
         resource == Tool::\"files/read\");"
    );
    let refusal = call(&text, "{}", &[]).unwrap_err();
    assert_eq!(refusal.code.name, "policy.forbidden");
    assert!(
        refusal.public.ends_with(": a policy forbids it"),
        "{}",
        refusal.public
    );
    assert!(!refusal.public.contains("no-reading"));
    assert_eq!(refusal.private, "forbidden by no-reading");
    let policies = load(&text).unwrap();
    assert!(!slice(&policies, &CALL, Some("read")).listable(&read()));
    assert!(slice(&policies, &CALL, Some("write")).listable(&read()));
    assert!(
        slice(&policies, &LIST, None)
            .admit(&read(), &context(None))
            .is_ok()
    );
}

#[test]
fn broken_refuses_everything() {
    let policies = Policies::broken(LANES);
    for action in mcp::LANE.actions {
        let kind = match action.name {
            "mcp:read" => ItemKind::Resource,
            "mcp:prompt" => ItemKind::Prompt,
            _ => ItemKind::Tool,
        };
        let of = Resource::item(Name::new("files").unwrap(), kind, "read");
        let slice = policies.slice(&dev(), action, &of).unwrap();
        assert!(!slice.listable(&of));
        let context = context(Some("{}"));
        let admitted = slice.admit(&of, &context);
        assert_eq!(admitted.unwrap_err().code.name, "policy.broken");
        assert_eq!(code(slice.decide(&of, &context, &[])), "policy.broken");
    }
    assert!(policies.is_empty());
    assert_ne!(policies.digest(), load("").unwrap().digest());
}

#[test]
fn a_tool_call_without_a_tool_is_refused() {
    let refused = ask(&load(ALL).unwrap(), &CALL, None).err().unwrap();
    assert_eq!(refused.code.name, "policy.forbidden");
}

#[test]
fn arguments_are_judged_by_their_type() {
    let text = "@id(\"small\") permit(principal, action == Action::\"mcp:call\", resource)
        when { context.arguments has amount && context.arguments.amount < 100 };
        @id(\"tmp\") forbid(principal, action == Action::\"mcp:call\", resource)
        when { context.arguments has path && context.arguments.path like \"/etc/*\" };";
    assert_eq!(
        call(text, r#"{"amount":5,"other":{}}"#, &[]).unwrap(),
        ["small"]
    );
    assert_eq!(
        code(call(text, r#"{"amount":100}"#, &[])),
        "policy.forbidden"
    );
    assert_eq!(code(call(text, "{}", &[])), "policy.forbidden");
    let escaped = r#"{"amount":5,"p\u0061th":"/et\u0063/passwd"}"#;
    assert_eq!(code(call(text, escaped, &[])), "policy.forbidden");
    // Another type is refused: taken as absent, it would pass the forbid.
    let refusal = call(text, r#"{"amount":5,"path":["/etc/passwd"]}"#, &[]).unwrap_err();
    assert_eq!(refusal.code.name, "policy.argument_type");
    assert_eq!(refusal.public, "the argument \"path\" is not a string");
    assert_eq!(
        code(call(text, r#"{"amount":"5"}"#, &[])),
        "policy.argument_type"
    );
    // No policy reads tags; they are declared, so they are of their type all the same.
    assert_eq!(
        code(call(text, r#"{"amount":5,"tags":7}"#, &[])),
        "policy.argument_type"
    );
    assert!(call(text, r#"{"amount":5,"tags":["a"]}"#, &[]).is_ok());
    let policies = load(text).unwrap();
    let slice = slice(&policies, &CALL, Some("read"));
    assert_eq!(slice.arguments(), ["amount", "path"]);
    let admission = slice
        .admit(
            &read(),
            &context(Some(r#"{"path":"\u002ftmp", "amount": 5}"#)),
        )
        .unwrap();
    let kept = [
        ("amount".to_string(), "5".to_string()),
        ("path".into(), "\"/tmp\"".into()),
    ];
    assert_eq!(admission.attributes, kept);
}

#[test]
fn policies_that_read_findings_wait_for_them() {
    let text = format!(
        "{ALL} @id(\"clean\") forbid(principal, action, resource)
         when {{ context has findings && context.findings.contains(\"github_token\") }};"
    );
    let policies = load(&text).unwrap();
    let slice = slice(&policies, &CALL, Some("read"));
    assert!(slice.has_late() && slice.listable(&read()));
    assert!(slice.admit(&read(), &context(None)).unwrap().pending);
    assert_eq!(slice.decide(&read(), &context(None), &[]).unwrap(), ["all"]);
    assert_eq!(
        slice.decide(&read(), &context(None), &["other"]).unwrap(),
        ["all"]
    );
    let refusal = slice
        .decide(&read(), &context(None), &["other", "github_token"])
        .unwrap_err();
    assert_eq!(refusal.private, "forbidden by clean");
    // A late permit alone lets a call be admitted, and decides.
    let late = "@id(\"l\") permit(principal, action, resource)
        when { context has findings && context.findings.isEmpty() };";
    assert_eq!(call(late, "{}", &[]).unwrap(), ["l"]);
    assert_eq!(code(call(late, "{}", &["x"])), "policy.forbidden");
    // A late forbid alone does not.
    let policies = load(&text.replace(ALL, "")).unwrap();
    let slice = self::slice(&policies, &CALL, Some("read"));
    assert_eq!(
        slice.admit(&read(), &context(None)).unwrap_err().code.name,
        "policy.forbidden"
    );
}

#[test]
fn a_policy_that_cannot_be_evaluated_refuses() {
    let overflow = "when { context.at * 9223372036854775807 > 0 };";
    for effect in ["permit", "forbid"] {
        let text = format!("{ALL} @id(\"bad\") {effect}(principal, action, resource) {overflow}");
        let refusal = call(&text, "{}", &[]).unwrap_err();
        assert_eq!(refusal.code.name, "policy.forbidden");
        assert!(
            refusal.public.ends_with("a policy cannot be evaluated"),
            "{}",
            refusal.public
        );
        assert!(refusal.private.contains("bad") && refusal.private.contains("overflow"));
    }
    let fixed = format!(
        "{ALL} forbid(principal, action, resource)
         unless {{ principal.name like \"d*\" && 9223372036854775807 + 1 > 0 }};"
    );
    assert!(
        call(&fixed, "{}", &[])
            .unwrap_err()
            .public
            .ends_with("cannot be evaluated")
    );
}

#[test]
fn the_whole_context_can_be_read() {
    for condition in [
        "context.lane == \"mcp\"",
        "context.method == \"tools/call\"",
        "context.peer.isInRange(ip(\"10.0.0.0/8\"))",
        "context.at == 1795271130",
        "resource.server == \"files\" && resource.name == \"read\"",
        "principal.name == \"dev\" && principal in Group::\"engineers\"",
        "context.arguments has path && [context.arguments].contains(context.arguments)",
    ] {
        let scope = "principal, action == Action::\"mcp:call\", resource";
        let text = format!("permit({scope}) when {{ {condition} }};");
        assert!(
            call(&text, "{\"path\":\"/tmp\"}", &[]).is_ok(),
            "{condition}"
        );
        let text = format!("{ALL} forbid({scope}) when {{ {condition} }};");
        assert_eq!(
            code(call(&text, "{\"path\":\"/tmp\"}", &[])),
            "policy.forbidden"
        );
    }
}

#[test]
fn an_ipv4_peer_of_an_ipv6_listener_is_ipv4() {
    let text = "permit(principal, action, resource)
        when { context.peer.isInRange(ip(\"10.0.0.0/8\")) };";
    let policies = load(text).unwrap();
    let slice = slice(&policies, &USE, None);
    let mut context = context(None);
    for (peer, permitted) in [
        ("::ffff:10.1.2.3", true),
        ("10.9.9.9", true),
        ("::ffff:11.1.2.3", false),
        ("::1", false),
    ] {
        context.peer = peer.parse().unwrap();
        assert_eq!(slice.admit(&read(), &context).is_ok(), permitted, "{peer}");
    }
}

#[test]
fn every_problem_is_said_at_once_with_its_place() {
    let first = "permit(principal, action, resource)\nwhen { context.arguments.pth == \"x\" };";
    let second = "\n  permit(principal, action, resource) when { principal.nme == \"x\" };\n\
                  @id(\"one\") permit(principal, action == Action::\"mcp:cal\", resource);";
    let third = "permit(principal, action, resource) when { ;";
    let sources = [("a.cedar", first), ("b.cedar", second), ("c.cedar", third)];
    let sources = sources.map(|(file, text)| Source { file, text });
    let problems = Policies::load(LANES, &sources, &declared()).err().unwrap();
    let at = |file: &str, line: usize| {
        problems
            .iter()
            .any(|problem| problem.file == file && problem.line == line)
    };
    assert!(
        at("a.cedar", 2) && at("b.cedar", 2) && at("b.cedar", 3),
        "{problems:#?}"
    );
    assert!(at("c.cedar", 1), "{problems:#?}");
    assert!(
        problems
            .iter()
            .all(|problem| problem.column > 0 && !problem.message.is_empty())
    );
}

#[test]
fn what_does_not_load() {
    for (text, says) in [
        ("permit(principal, action, resource)", "unexpected end"),
        (
            "permit(principal == ?principal, action, resource);",
            "template",
        ),
        (
            "permit(principal == Server::\"x\", action, resource);",
            "unable to find",
        ),
        (
            "permit(principal, action == Action::\"mcp:list\", resource is Tool);",
            "unable to find",
        ),
        (
            "permit(principal, action, resource) when { context.arguments.x == 1 };",
            "arguments",
        ),
        (
            "permit(principal, action == Action::\"mcp:call\", resource) \
             when { context.arguments.path == \"x\" };",
            "path",
        ),
        (
            "permit(principal, action == Action::\"mcp:call\", resource) \
             when { context.arguments has undeclared };",
            "impossible",
        ),
        (
            "permit(principal, action, resource) when { context.findings.isEmpty() };",
            "findings",
        ),
        (
            "permit(principal, action, resource) when { 1 == 2 };",
            "impossible",
        ),
        (
            "permit(principal, action, resource) when { principal.name > 1 };",
            "type",
        ),
        ("@id(\"\") permit(principal, action, resource);", "@id"),
        ("@id permit(principal, action, resource);", "@id"),
    ] {
        let problems = load(text)
            .err()
            .unwrap_or_else(|| panic!("it loads: {text}"));
        let said = problems
            .iter()
            .any(|problem| problem.to_string().contains(says));
        assert!(said, "{text}\n{problems:#?}");
        let inner = problems
            .iter()
            .any(|problem| problem.to_string().contains("policy0"));
        assert!(!inner, "{problems:#?}");
    }
}

#[test]
fn two_policies_of_one_name_do_not_load() {
    let sources = [
        Source {
            file: "a",
            text: ALL,
        },
        Source {
            file: "b",
            text: ALL,
        },
    ];
    let problems = Policies::load(LANES, &sources, &declared()).err().unwrap();
    let text = problems[0].to_string();
    assert!(
        text.starts_with("b:1:1: a policy at a:1:1 is named \"all\" too"),
        "{text}"
    );
    // Unnamed policies are named by their line, so two in one line are one name too.
    let one = "permit(principal, action, resource);";
    let problems = load(&format!("{one} {one}")).err().unwrap();
    assert_eq!(problems[0].column, one.len() + 2);
}

#[test]
fn bad_declarations_do_not_load() {
    for name in ["", "a b", "a\"?: Long, \"b"] {
        let declared = BTreeMap::from([(name.to_string(), ArgumentType::Long)]);
        let problems = Policies::load(LANES, &[], &declared).err().unwrap();
        assert_eq!(problems[0].file, "policy.arguments");
    }
    let many = (0..257)
        .map(|i| (format!("a{i}"), ArgumentType::Bool))
        .collect();
    assert!(Policies::load(LANES, &[], &many).is_err());
}

#[test]
fn the_digest_is_of_all_that_decides() {
    let digest = |file: &str, text: &str, declared: &BTreeMap<_, _>| {
        Policies::load(LANES, &[Source { file, text }], declared)
            .unwrap()
            .digest()
    };
    let base = digest("a", ALL, &declared());
    assert_eq!(base, digest("a", ALL, &declared()));
    assert_ne!(base, digest("b", ALL, &declared()));
    assert_ne!(base, digest("a", &format!("{ALL} "), &declared()));
    assert_ne!(base, digest("a", ALL, &BTreeMap::new()));
}

#[test]
fn an_explanation_names_each_policy() {
    let text = format!(
        "{ALL}
        @id(\"other\") permit(principal == Agent::\"other\", action, resource);
        @id(\"early\") permit(principal, action, resource) when {{ context.at < 5 }};
        @id(\"late\") forbid(principal, action, resource)
        when {{ context has findings && context.findings.contains(\"x\") }};
        @id(\"read\") forbid(principal, action, resource) when {{ resource.name == \"read\" }};
        @id(\"bad\") permit(principal, action, resource)
        when {{ context.at * 9223372036854775807 > 0 }};"
    );
    let policies = load(&text).unwrap();
    let who = Arc::new(Principal {
        name: Name::new("dev").unwrap(),
        groups: vec![],
    });
    let tool = |tool: &str| resource(Some(tool));
    let context = context(Some("{}"));
    let explained = policies.explain(&who, &CALL, &tool("read"), &context);
    assert!(matches!(explained.decision, Decision::Refused(_)));
    assert_eq!(explained.permitted, ["all"]);
    assert_eq!(explained.forbade, ["read"]);
    assert_eq!(explained.unsatisfied, ["early"]);
    assert_eq!(explained.late, ["late"]);
    assert_eq!(explained.errors[0].0, "bad");
    let policies = load(&text.replace("9223372036854775807", "1")).unwrap();
    let explained = policies.explain(&who, &CALL, &tool("list"), &context);
    assert!(matches!(explained.decision, Decision::AfterScan));
    assert_eq!(explained.permitted, ["all", "bad"]);
    assert_eq!(explained.unsatisfied, ["early", "read"]);
}

#[test]
fn policies_are_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Policies>();
    shared::<Slice>();
}
