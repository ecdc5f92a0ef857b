//! Everything that can be asked at the admin listener: one row each.

use http::Method;

use super::AdminRole;
use super::shapes;

/// Whether an action leaves a record because it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// It is recorded before it is answered.
    Asked,
    /// What it changes is recorded before it is in force, by whoever changes it.
    Change,
    /// It is asked every few seconds, and says nothing of anybody.
    No,
}

/// What an action answers where it is carried out.
#[derive(Clone, Copy)]
pub(crate) enum AdminAnswer {
    Json(u16, fn() -> serde_json::Value),
    Text(&'static str),
}

/// One action.
#[derive(Clone, Copy)]
pub(crate) struct AdminAction {
    /// As records and the OpenAPI document name it.
    pub(crate) name: &'static str,
    /// As requests write it.
    pub(crate) method: &'static str,
    /// The path; `{agent}` and `{id}` stand for one segment.
    pub(crate) path: &'static str,
    /// The least role that may do it.
    pub(crate) role: AdminRole,
    /// What it does, in one sentence.
    pub(crate) does: &'static str,
    /// The schema of the body, where it takes one.
    pub(crate) body: Option<fn() -> serde_json::Value>,
    pub(crate) answer: AdminAnswer,
    pub(crate) recorded: Recorded,
}

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An action that reads.
const fn read(
    name: &'static str,
    path: &'static str,
    does: &'static str,
    answer: fn() -> serde_json::Value,
) -> AdminAction {
    AdminAction {
        name,
        method: "GET",
        path,
        role: AdminRole::Auditor,
        does,
        body: None,
        answer: AdminAnswer::Json(200, answer),
        recorded: Recorded::Asked,
    }
}

/// An action that changes agents.
const fn change(
    name: &'static str,
    path: &'static str,
    role: AdminRole,
    does: &'static str,
    answer: AdminAnswer,
) -> AdminAction {
    AdminAction {
        name,
        method: "POST",
        path,
        role,
        does,
        body: None,
        answer,
        recorded: Recorded::Change,
    }
}

/// The table.
pub(crate) const ACTIONS: &[AdminAction] = &[
    AdminAction {
        answer: AdminAnswer::Text(METRICS_TYPE),
        recorded: Recorded::No,
        ..read(
            "metrics",
            "/metrics",
            "Shows the metrics, in the OpenMetrics text format.",
            shapes::nothing,
        )
    },
    AdminAction {
        recorded: Recorded::No,
        ..read(
            "openapi",
            "/admin/openapi.json",
            "Shows this document.",
            shapes::any_object,
        )
    },
    read(
        "stops.show",
        "/stops",
        "Says what is stopped: everything, lanes, agents.",
        shapes::of::<shapes::StopsView>,
    ),
    AdminAction {
        method: "PUT",
        role: AdminRole::Operator,
        body: Some(shapes::of::<shapes::StopsBody>),
        recorded: Recorded::Asked,
        ..read(
            "stops.set",
            "/stops",
            "Stops exactly what the body names, from the next byte of what runs; a restart keeps it.",
            shapes::of::<shapes::StopsView>,
        )
    },
    AdminAction {
        method: "DELETE",
        role: AdminRole::Operator,
        recorded: Recorded::Asked,
        ..read(
            "stops.lift",
            "/stops",
            "Lifts all stops but those of the configuration.",
            shapes::of::<shapes::StopsView>,
        )
    },
    read(
        "agents.list",
        "/admin/agents",
        "Lists all agents: those of the configuration, and those that were let in while serving.",
        shapes::of::<shapes::AgentList>,
    ),
    AdminAction {
        body: Some(shapes::of::<shapes::InviteBody>),
        ..change(
            "agents.invite",
            "/admin/agents",
            AdminRole::Admin,
            "Makes an invite, shown once, by which an agent enrols with a key of its own.",
            AdminAnswer::Json(201, shapes::of::<shapes::InviteMade>),
        )
    },
    read(
        "agents.show",
        "/admin/agents/{agent}",
        "Shows an agent, with its credentials and open invites.",
        shapes::of::<shapes::AgentView>,
    ),
    change(
        "agents.approve",
        "/admin/agents/{agent}/approve",
        AdminRole::Operator,
        "Lets an agent that has enrolled call.",
        AdminAnswer::Json(200, shapes::of::<shapes::AgentView>),
    ),
    change(
        "agents.suspend",
        "/admin/agents/{agent}/suspend",
        AdminRole::Operator,
        "Has an agent's next call refused, and ends its streams, sessions and grants, until it is resumed.",
        AdminAnswer::Json(200, shapes::of::<shapes::AgentView>),
    ),
    change(
        "agents.resume",
        "/admin/agents/{agent}/resume",
        AdminRole::Operator,
        "Lets a suspended agent call again.",
        AdminAnswer::Json(200, shapes::of::<shapes::AgentView>),
    ),
    change(
        "agents.revoke",
        "/admin/agents/{agent}/revoke",
        AdminRole::Operator,
        "Takes all that an agent has back for good: its certificates go on the list of revoked ones.",
        AdminAnswer::Json(200, shapes::of::<shapes::AgentView>),
    ),
    AdminAction {
        body: Some(shapes::of::<shapes::KeyBody>),
        ..change(
            "keys.new",
            "/admin/agents/{agent}/keys",
            AdminRole::Admin,
            "Makes a key, shown once; with `overlap_hours` in the place of the keys before. An agent that is not there is made.",
            AdminAnswer::Json(201, shapes::of::<shapes::KeyMade>),
        )
    },
    AdminAction {
        method: "DELETE",
        ..change(
            "credentials.revoke",
            "/admin/agents/{agent}/credentials/{id}",
            AdminRole::Operator,
            "Takes a key, a public key or a certificate back at once.",
            AdminAnswer::Json(200, shapes::of::<shapes::RevokedCredentials>),
        )
    },
];

/// The action that a request asks for; HEAD asks as GET does.
pub(crate) fn find(method: &Method, path: &str) -> Option<&'static AdminAction> {
    let method = match method.as_str() {
        "HEAD" => "GET",
        method => method,
    };
    ACTIONS
        .iter()
        .find(|action| action.method == method && is_of(action.path, path))
}

/// Whether a path has the form of a template.
fn is_of(template: &str, path: &str) -> bool {
    let (mut wanted, mut given) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted.starts_with('{') && !given.is_empty() => {}
            (Some(wanted), Some(given)) if wanted == given => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::{self, Open};

    #[test]
    fn a_request_asks_for_one_action_or_none() {
        let name = |method: Method, path| find(&method, path).map(|action| action.name);
        assert_eq!(name(Method::HEAD, "/metrics"), Some("metrics"));
        assert_eq!(
            name(Method::POST, "/admin/agents/a/approve"),
            Some("agents.approve")
        );
        assert_eq!(name(Method::POST, "/admin/agents/a/keys"), Some("keys.new"));
        for none in [
            "/admin/agents/",
            "/admin/agents/a/b",
            "/admin",
            "/admin/agents//approve",
            "/stops/x",
        ] {
            assert_eq!(name(Method::POST, none), None, "{none}");
        }
        assert_eq!(name(Method::PUT, "/admin/agents"), None);
        let mut names: Vec<_> = ACTIONS.iter().map(|action| action.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ACTIONS.len());
    }

    #[test]
    fn every_action_has_a_route_of_the_operator_and_every_such_route_an_action() {
        let is_reached = |action: &AdminAction| {
            let path = action.path.replace("{agent}", "a").replace("{id}", "0");
            routes::all().any(|(route, _)| {
                matches!(route.open, Open::Operator(_))
                    && routes::leads_to(route.template, &path)
                    && route.methods.iter().any(|method| method == action.method)
            })
        };
        for action in ACTIONS {
            assert!(is_reached(action), "{}", action.name);
            let changes = action.method != "GET";
            assert!(
                !changes || action.role > AdminRole::Auditor,
                "{}",
                action.name
            );
        }
        for (route, _) in routes::all().filter(|(route, _)| matches!(route.open, Open::Operator(_)))
        {
            let of_route = |action: &&AdminAction| {
                let path = action.path.replace("{agent}", "a").replace("{id}", "0");
                routes::leads_to(route.template, &path)
            };
            for method in route
                .methods
                .iter()
                .filter(|method| **method != Method::HEAD)
            {
                let has = ACTIONS
                    .iter()
                    .filter(of_route)
                    .any(|action| action.method == method.as_str());
                assert!(has, "{method} {}", route.template);
            }
        }
    }
}
