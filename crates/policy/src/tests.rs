//! What only shows from inside: how many slices are kept, and that one is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::limit::SLICES_MAX;
use base::{Action, Name, Target};

use crate::{Policies, Principal, Source};

#[test]
fn the_slices_kept_are_bounded() {
    let text = "permit(principal in Group::\"g\", action, resource);";
    let sources = [Source {
        file: "p.cedar",
        text,
    }];
    let policies = Policies::load(&sources, &BTreeMap::new()).unwrap();
    let groups = vec![Name::new("g").unwrap()];
    let who = Arc::new(Principal {
        name: Name::new("a").unwrap(),
        groups,
    });
    let target = |tool: usize| Target {
        server: Name::new("s").unwrap(),
        tool: Some(format!("tool{tool}")),
    };
    let first = policies.slice(&who, Action::McpCall, &target(0));
    assert!(Arc::ptr_eq(
        &first,
        &policies.slice(&who, Action::McpCall, &target(0))
    ));
    let twin = Arc::new(Principal::clone(&who));
    assert!(Arc::ptr_eq(
        &first,
        &policies.slice(&twin, Action::McpCall, &target(0))
    ));
    for tool in 0..SLICES_MAX + 2000 {
        assert!(
            policies
                .slice(&who, Action::McpCall, &target(tool))
                .listable()
        );
    }
    assert!(policies.slices() <= SLICES_MAX, "{}", policies.slices());
    assert!(policies.slices() > SLICES_MAX / 2, "{}", policies.slices());
}

#[test]
fn changed_groups_make_a_new_slice() {
    let text = "permit(principal in Group::\"g\", action, resource);";
    let sources = [Source {
        file: "p.cedar",
        text,
    }];
    let policies = Policies::load(&sources, &BTreeMap::new()).unwrap();
    let target = Target {
        server: Name::new("s").unwrap(),
        tool: None,
    };
    for (groups, listable) in [(vec!["g"], true), (vec![], false), (vec!["h", "g"], true)] {
        let groups = groups
            .into_iter()
            .map(|group| Name::new(group).unwrap())
            .collect();
        let who = Arc::new(Principal {
            name: Name::new("a").unwrap(),
            groups,
        });
        assert_eq!(
            policies.slice(&who, Action::McpUse, &target).listable(),
            listable
        );
        assert_eq!(policies.slices(), 1);
    }
}
