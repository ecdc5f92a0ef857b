//! What only shows from inside: how many slices are kept, and that one is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::limit::SLICES_MAX;
use base::{Name, Resource};
use mcp::actions::{CALL, USE};

use crate::{Policies, Principal, Source};

fn load(text: &str) -> Policies {
    let sources = [Source {
        file: "p.cedar",
        text,
    }];
    Policies::load(&[&mcp::LANE], &sources, &BTreeMap::new()).unwrap()
}

#[test]
fn the_slices_kept_are_bounded() {
    let text = "permit(principal in Group::\"g\", action, resource);";
    let policies = load(text);
    let groups = vec![Name::new("g").unwrap()];
    let who = Arc::new(Principal {
        name: Name::new("a").unwrap(),
        groups,
    });
    let tool = |tool: usize| Resource::tool(Name::new("s").unwrap(), &format!("tool{tool}"));
    let first = policies.slice(&who, &CALL, &tool(0)).unwrap();
    let twin = Arc::new(Principal::clone(&who));
    let again = policies.slice(&twin, &CALL, &tool(0)).unwrap();
    assert!(Arc::ptr_eq(&first, &again));
    // Agents choose tools, and no policy here can tell one from another.
    for number in 0..SLICES_MAX + 2000 {
        let slice = policies.slice(&who, &CALL, &tool(number)).unwrap();
        assert!(slice.listable(&tool(number)));
    }
    assert_eq!(policies.slices(), 1);
    for number in 0..SLICES_MAX + 2000 {
        let name = Name::new(&format!("a{number}")).unwrap();
        let groups = who.groups.clone();
        let other = Arc::new(Principal { name, groups });
        assert!(policies.slice(&other, &CALL, &tool(0)).is_ok());
    }
    assert!(policies.slices() <= SLICES_MAX, "{}", policies.slices());
    assert!(policies.slices() > SLICES_MAX / 2, "{}", policies.slices());
}

#[test]
fn a_policy_that_looks_closer_is_asked_about_the_tool_itself() {
    let policies = load(
        "permit(principal, action, resource) when { resource.name == principal.name };
         permit(principal, action, resource)
         when { resource.name == context.method };",
    );
    let who = Arc::new(Principal {
        name: Name::new("dev").unwrap(),
        groups: vec![],
    });
    let tool = |tool: &str| Resource::tool(Name::new("s").unwrap(), tool);
    let context = crate::Context {
        method: "m",
        peer: [127, 0, 0, 1].into(),
        unix_ms: 0,
        arguments: None,
    };
    for (name, may) in [
        ("other", false),
        ("dev", true),
        ("m", true),
        ("third", false),
    ] {
        let slice = policies.slice(&who, &CALL, &tool(name)).unwrap();
        let admission = slice.admit(&tool(name), &context);
        assert_eq!(admission.is_ok(), may, "{name}");
    }
    let slice = policies.slice(&who, &CALL, &tool("dev")).unwrap();
    assert!(slice.listable(&tool("dev")) && slice.listable(&tool("other")));
    assert_eq!(policies.slices(), 1);
}

#[test]
fn changed_groups_make_a_new_slice() {
    let text = "permit(principal in Group::\"g\", action, resource);";
    let policies = load(text);
    let server = Resource::server(Name::new("s").unwrap());
    for (groups, listable) in [(vec!["g"], true), (vec![], false), (vec!["h", "g"], true)] {
        let groups = groups
            .into_iter()
            .map(|group| Name::new(group).unwrap())
            .collect();
        let who = Arc::new(Principal {
            name: Name::new("a").unwrap(),
            groups,
        });
        let slice = policies.slice(&who, &USE, &server).unwrap();
        assert_eq!(slice.listable(&server), listable);
        assert_eq!(policies.slices(), 1);
    }
}
