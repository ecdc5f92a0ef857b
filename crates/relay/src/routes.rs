//! Where a request goes: by host and path, the first route that matches.
//!
//! Hosts are compared without case and port. Paths are compared as they came, byte for byte: what an origin might make
//! of `%2e` or `//` is its own matter, and a route is no place to guard one path from another. Dot segments, which some
//! origins resolve and others do not, are refused.

use base::Name;

use crate::settings::{HostMatch, Problem, ROUTES_MAX, Route, To};

/// Where a request goes, as an index into the relay's own lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Peer(usize),
    Plain(usize),
}

#[derive(Debug)]
struct Row {
    host: HostMatch,
    path: Box<[u8]>,
    way: Way,
}

/// The routes of one relay.
#[derive(Debug)]
pub(crate) struct Routes(Vec<Row>);

impl Routes {
    /// Checks routes against the names of peers and of plain targets.
    pub(crate) fn new(
        routes: &[Route],
        peers: &[&Name],
        plain: &[&Name],
    ) -> Result<Routes, Problem> {
        match routes.len() {
            0 => return Err(Problem::NoRoutes),
            1..=ROUTES_MAX => {}
            _ => return Err(Problem::TooMany("routes")),
        }
        let row = |route: &Route| {
            let (name, found) = match &route.to {
                To::Peer(name) => (name, position(peers, name).map(Way::Peer)),
                To::Plain(name) => (name, position(plain, name).map(Way::Plain)),
            };
            let host = match &route.host {
                HostMatch::Any => HostMatch::Any,
                HostMatch::Exact(host) => HostMatch::Exact(checked_host(host)?),
                HostMatch::Under(host) => HostMatch::Under(checked_host(host)?),
            };
            if !route.path.starts_with('/') {
                return Err(Problem::RouteForm(route.path.clone()));
            }
            let path = route.path.trim_end_matches('/').as_bytes().into();
            let way = found.ok_or_else(|| Problem::RouteTarget(name.clone()))?;
            Ok(Row { host, path, way })
        };
        routes.iter().map(row).collect::<Result<_, _>>().map(Routes)
    }

    /// The way of a request; nothing where no route matches, or the path has dot segments.
    pub(crate) fn find(&self, authority: &[u8], path: &[u8]) -> Option<Way> {
        let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
        if has_dot_segment(path) {
            return None;
        }
        let host = host_of(authority);
        let matches = |row: &&Row| row.matches_host(host) && row.matches_path(path);
        self.0.iter().find(matches).map(|row| row.way)
    }
}

fn position(names: &[&Name], name: &Name) -> Option<usize> {
    names.iter().position(|known| *known == name)
}

fn checked_host(host: &str) -> Result<String, Problem> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(good) {
        return Err(Problem::RouteForm(host.to_owned()));
    }
    Ok(host.to_ascii_lowercase())
}

impl Row {
    fn matches_host(&self, host: &[u8]) -> bool {
        match &self.host {
            HostMatch::Any => true,
            HostMatch::Exact(name) => host.eq_ignore_ascii_case(name.as_bytes()),
            HostMatch::Under(name) => host
                .len()
                .checked_sub(name.len())
                .and_then(|at| host.split_at_checked(at))
                .is_some_and(|(head, tail)| {
                    head.ends_with(b".") && tail.eq_ignore_ascii_case(name.as_bytes())
                }),
        }
    }

    fn matches_path(&self, path: &[u8]) -> bool {
        if self.path.is_empty() {
            return true;
        }
        let rest = path.strip_prefix(&*self.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    }
}

/// The host of an authority, without its port; of an IPv6 address with its brackets.
fn host_of(authority: &[u8]) -> &[u8] {
    if authority.ends_with(b"]") {
        return authority;
    }
    let colon = authority.iter().rposition(|byte| *byte == b':');
    &authority[..colon.unwrap_or(authority.len())]
}

/// Whether a segment is `.` or `..`, plain or percent-encoded.
fn has_dot_segment(path: &[u8]) -> bool {
    let is_dots = |segment: &[u8]| {
        let mut dots = 0;
        let mut rest = segment;
        while let Some(next) = rest.strip_prefix(b".").or_else(|| {
            let (head, tail) = rest.split_at_checked(3)?;
            head.eq_ignore_ascii_case(b"%2e").then_some(tail)
        }) {
            (dots, rest) = (dots + 1, next);
        }
        rest.is_empty() && (1..=2).contains(&dots)
    };
    path.split(|byte| *byte == b'/').any(is_dots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn route(host: HostMatch, path: &str, to: &str) -> Route {
        Route {
            host,
            path: path.into(),
            to: To::Peer(name(to)),
        }
    }

    #[test]
    fn the_first_route_that_matches_is_taken() {
        let (a, b, c) = (name("a"), name("b"), name("c"));
        let routes = [
            route(HostMatch::Exact("API.example".into()), "/v1/", "a"),
            route(HostMatch::Under("example".into()), "/", "b"),
            route(HostMatch::Any, "/open", "c"),
        ];
        let routes = Routes::new(&routes, &[&a, &b, &c], &[]).unwrap();
        for (authority, path, way) in [
            ("api.example", "/v1", Some(0)),
            ("Api.Example:8080", "/v1/x?y=/../", Some(0)),
            ("api.example", "/v10", Some(1)),
            ("api.example", "/", Some(1)),
            ("example", "/", None),
            ("notexample", "/", None),
            ("other", "/open", Some(2)),
            ("[::1]:80", "/open/x", Some(2)),
            ("[::1]", "/opened", None),
            ("other", "/open/../v1", None),
            ("other", "/open/%2E%2e/v1", None),
            ("other", "/open/.", None),
            ("other", "/open/...", Some(2)),
            ("other", "/open/.x", Some(2)),
            ("", "*", None),
        ] {
            let found = routes.find(authority.as_bytes(), path.as_bytes());
            assert_eq!(found, way.map(Way::Peer), "{authority} {path}");
        }
    }

    #[test]
    fn a_route_names_what_there_is() {
        let a = name("a");
        let problem = |route: Route| Routes::new(&[route], &[&a], &[]).unwrap_err();
        assert_eq!(
            problem(route(HostMatch::Any, "/", "b")),
            Problem::RouteTarget(name("b"))
        );
        assert_eq!(
            problem(route(HostMatch::Any, "v1", "a")),
            Problem::RouteForm("v1".into())
        );
        assert_eq!(
            problem(route(HostMatch::Exact("a b".into()), "/", "a")),
            Problem::RouteForm("a b".into())
        );
        assert_eq!(Routes::new(&[], &[&a], &[]).unwrap_err(), Problem::NoRoutes);
    }
}
