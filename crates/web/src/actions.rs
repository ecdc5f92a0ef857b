//! What agents can do in this lane, and how policies see it.

use base::{Action, Entity, Lane, Refusal, Resource, ScanAs, Site, refusal};

/// Labels of a host whose domains policies can name; of a longer one the last so many, and itself.
const DOMAINS_MAX: usize = 16;

/// Pages, requests and sockets of agents.
pub static LANE: Lane = Lane {
    name: "web",
    is_scanned: true,
    actions: &[&GET, &SEND, &TUNNEL, &SCAN],
    schema: include_str!("web.cedarschema"),
};

/// Asks a site by a method that changes nothing: GET, HEAD, OPTIONS.
pub static GET: Action = Action {
    entity: site_or_service,
    ..of_site("web:get", "GET")
};
/// Asks a site by any other method.
pub static SEND: Action = Action {
    entity: site_or_service,
    ..of_site("web:send", "POST")
};
/// Opens a tunnel into which nobody looks.
pub static TUNNEL: Action = of_site("web:tunnel", "CONNECT");
/// Has a text judged. weir answers itself.
pub static SCAN: Action = Action {
    entity: |resource| match resource {
        Resource::Setting(name) => Some(Entity::named("Scanner", name.as_str())),
        _ => None,
    },
    ..of_site("web:scan", "scan")
};

/// The action that a method is: OPTIONS changes nothing either (RFC 9110 §9.2.1), and TRACE gives fields back.
pub fn of_method(method: &str) -> &'static Action {
    match method {
        "CONNECT" => &TUNNEL,
        "GET" | "HEAD" | "OPTIONS" => &GET,
        _ => &SEND,
    }
}

/// Methods that HTTP registers (RFC 9110 §16.1.1 and IANA's registry, 2026-11), but for those that a proxy must not carry.
/// Any other token could say anything, and no site needs one.
const METHODS: &[&str] = &[
    "ACL",
    "BASELINE-CONTROL",
    "BIND",
    "CHECKIN",
    "CHECKOUT",
    "COPY",
    "DELETE",
    "GET",
    "HEAD",
    "LABEL",
    "LINK",
    "LOCK",
    "MERGE",
    "MKACTIVITY",
    "MKCALENDAR",
    "MKCOL",
    "MKREDIRECTREF",
    "MKWORKSPACE",
    "MOVE",
    "OPTIONS",
    "ORDERPATCH",
    "PATCH",
    "POST",
    "PROPFIND",
    "PROPPATCH",
    "PUT",
    "QUERY",
    "REBIND",
    "REPORT",
    "SEARCH",
    "UNBIND",
    "UNCHECKOUT",
    "UNLINK",
    "UNLOCK",
    "UPDATE",
    "UPDATEREDIRECTREF",
    "VERSION-CONTROL",
];

/// Refuses methods that are not carried: TRACE, by which a site gives back fields that were put in (RFC 9110 §9.3.8), CONNECT
/// in a tunnel, and what HTTP does not register.
///
/// # Errors
/// `web.unsupported`.
pub(crate) fn check_method(method: &str) -> Result<(), Refusal> {
    let public = match method {
        _ if METHODS.contains(&method) => return Ok(()),
        "TRACE" => "TRACE is not carried: the site would give back the fields of the request",
        "CONNECT" => "there is no CONNECT inside of a tunnel",
        _ => "the method is none that HTTP registers",
    };
    Err(Refusal::new(refusal::WEB_UNSUPPORTED, public))
}

const fn of_site(name: &'static str, method: &'static str) -> Action {
    Action {
        lane: &LANE,
        name,
        method,
        entity: site,
        has_arguments: false,
        scan_as: ScanAs::Message,
        is_pinned: false,
    }
}

/// What stands behind the reverse proxy goes by its name.
fn site_or_service(resource: &Resource) -> Option<Entity<'_>> {
    match resource {
        Resource::Server { server, .. } => Some(Entity::named("Server", server.as_str())),
        _ => site(resource),
    }
}

/// A site's id is its origin, `https://api.example.com:443`.
fn site(resource: &Resource) -> Option<Entity<'_>> {
    let Resource::Site(site) = resource else {
        return None;
    };
    let Site {
        scheme, host, path, ..
    } = site;
    Some(Entity {
        kind: "Site",
        id: site.to_string().into(),
        attributes: vec![
            ("scheme", (**scheme).into()),
            ("host", (**host).into()),
            ("port", site.port.to_string().into()),
            ("path", (**path).into()),
        ],
        parents: vec![domain(host)],
    })
}

/// The domain of a host in that above it: `api.example.com` in `example.com` in `com`.
fn domain(host: &str) -> Entity<'_> {
    let is_address = host.contains(':') || host.parse::<std::net::Ipv4Addr>().is_ok();
    let starts = host.match_indices('.').map(|(dot, _)| dot + 1);
    let above: Vec<&str> = match is_address {
        true => Vec::new(),
        false => starts.map(|start| &host[start..]).collect(),
    };
    let last = above.len().saturating_sub(DOMAINS_MAX);
    let above = above[last..].iter().rev();
    let outermost = above.fold(None, |parent: Option<Entity<'_>>, name| {
        Some(within(name, parent))
    });
    within(host, outermost)
}

fn within<'a>(name: &'a str, parent: Option<Entity<'a>>) -> Entity<'a> {
    Entity {
        parents: parent.into_iter().collect(),
        ..Entity::named("Domain", name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_in_each_domain_above_it() {
        let names = |host: &'static str| {
            let (mut entity, mut names) = (domain(host), Vec::new());
            loop {
                names.push(entity.id.to_string());
                match entity.parents.pop() {
                    Some(parent) => entity = parent,
                    None => return names,
                }
            }
        };
        assert_eq!(
            names("a.b.example"),
            ["a.b.example", "b.example", "example"]
        );
        assert_eq!(names("127.0.0.1"), ["127.0.0.1"]);
        assert_eq!(names("2001:db8::1"), ["2001:db8::1"]);
        let deep: &'static str = Box::leak("a.".repeat(100).into_boxed_str());
        assert_eq!(names(deep).len(), DOMAINS_MAX + 1);
    }
}
