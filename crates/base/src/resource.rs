//! What a call is asked of: an item of a server, a model, a site, a route of the relay, a run, a setting.

use std::fmt;

use crate::Name;

/// What a call is asked of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A configured server, and the item of it that the call names.
    Server {
        server: Name,
        item: Option<ServerItem>,
    },
    /// The servers that one URL stands for, all of them or a set that the configuration names; and the item that was asked of
    /// them, where none of them has it.
    Toolset { set: Name, item: Option<ServerItem> },
    /// A model of a configured provider. Its name is the agent's to choose: `meta/llama:70b`.
    Model { provider: Name, model: Box<str> },
    /// A place on the web that the agent names.
    Site(Site),
    /// A peer or an origin of the relay.
    Route(Name),
    /// An agent's run, by its id.
    Run(Name),
    /// A part of the gateway's own settings.
    Setting(Name),
}

/// An item that a server offers, by the name that the agent gave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerItem {
    pub kind: ItemKind,
    pub name: Box<str>,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    Tool,
    Prompt,
    /// By its URI, or its template of URIs.
    Resource,
    /// What an agent of others says of itself, as a whole (A2A). It goes by one name: [`CARD`].
    Card,
}

/// The name of the one card of an agent.
pub const CARD: &str = "agent-card";

/// Scheme, host, port and path of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Lower case: `https`.
    pub scheme: Box<str>,
    /// Lower case; an IPv6 address stands without brackets.
    pub host: Box<str>,
    pub port: u16,
    /// Starts with `/`; without the query.
    pub path: Box<str>,
}

/// Where a call goes, as `net` finds its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// By a name of the configuration.
    Configured(&'a Name),
    /// By a URL that an agent named.
    Site(&'a Site),
    /// Nowhere: the gateway answers itself.
    Gateway,
}

impl Resource {
    /// A server as a whole.
    pub fn server(server: Name) -> Resource {
        Resource::Server { server, item: None }
    }

    /// The servers of one URL, without an item.
    pub fn toolset(set: Name) -> Resource {
        Resource::Toolset { set, item: None }
    }

    /// An agent of others, by its card.
    pub fn card(server: Name) -> Resource {
        Resource::item(server, ItemKind::Card, CARD)
    }

    /// A tool of a server.
    pub fn tool(server: Name, tool: &str) -> Resource {
        Resource::item(server, ItemKind::Tool, tool)
    }

    /// An item of a server.
    pub fn item(server: Name, kind: ItemKind, name: &str) -> Resource {
        let name = name.into();
        let item = Some(ServerItem { kind, name });
        Resource::Server { server, item }
    }

    /// The server that it is of.
    pub fn as_server(&self) -> Option<&Name> {
        match self {
            Resource::Server { server, .. } => Some(server),
            _ => None,
        }
    }

    /// The item that it is, with its server.
    pub fn as_item(&self) -> Option<(&Name, &ServerItem)> {
        match self {
            Resource::Server { server, item } => Some((server, item.as_ref()?)),
            _ => None,
        }
    }

    /// Where a call to it goes.
    pub fn destination(&self) -> Destination<'_> {
        match self {
            Resource::Server { server: name, .. }
            | Resource::Model { provider: name, .. }
            | Resource::Route(name) => Destination::Configured(name),
            Resource::Site(site) => Destination::Site(site),
            Resource::Toolset { .. } | Resource::Run(_) | Resource::Setting(_) => {
                Destination::Gateway
            }
        }
    }

    /// The name of the configuration that it goes by, or the host of a site: for records, metrics and settings that
    /// are made for some targets. Only a configured name is the operator's; a host or a run is the agent's to choose.
    pub fn place(&self) -> &str {
        match self {
            Resource::Server { server: name, .. }
            | Resource::Model { provider: name, .. }
            | Resource::Toolset { set: name, .. }
            | Resource::Route(name)
            | Resource::Run(name)
            | Resource::Setting(name) => name.as_str(),
            Resource::Site(site) => &site.host,
        }
    }

    /// The part of it that the agent named, with the word for it: `("tool", "read_file")`.
    pub fn part(&self) -> Option<(&'static str, &str)> {
        match self {
            Resource::Server { item, .. } | Resource::Toolset { item, .. } => {
                // An agent has one card, so its name says all.
                let item = item.as_ref().filter(|item| item.kind != ItemKind::Card)?;
                Some((item.kind.as_str(), &item.name))
            }
            Resource::Model { model, .. } => Some(("model", model)),
            Resource::Site(site) => Some(("path", &site.path)),
            Resource::Route(_) | Resource::Run(_) | Resource::Setting(_) => None,
        }
    }
}

impl ItemKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ItemKind::Tool => "tool",
            ItemKind::Prompt => "prompt",
            ItemKind::Resource => "resource",
            ItemKind::Card => "card",
        }
    }
}

/// The configured name, or the site.
impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Destination::Configured(name) => write!(f, "{name}"),
            Destination::Site(site) => write!(f, "{site}"),
            Destination::Gateway => f.write_str("the gateway"),
        }
    }
}

/// As refusals say it: `tool "read" of server files`.
impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Resource::Server { server, item: None } => write!(f, "server {server}"),
            Resource::Server {
                server,
                item:
                    Some(ServerItem {
                        kind: ItemKind::Card,
                        ..
                    }),
            } => write!(f, "remote agent {server}"),
            Resource::Server {
                server,
                item: Some(ServerItem { kind, name }),
            } => write!(f, "{} {name:?} of server {server}", kind.as_str()),
            Resource::Toolset { set, .. } => write!(f, "toolset {set}"),
            Resource::Model { provider, model } => {
                write!(f, "model {model:?} of provider {provider}")
            }
            Resource::Site(site) => write!(f, "{site}"),
            Resource::Route(name) => write!(f, "server {name}"),
            Resource::Run(name) => write!(f, "run {name}"),
            Resource::Setting(name) => write!(f, "setting {name}"),
        }
    }
}

/// Scheme, host and port, as browsers write an origin. The path may hold what is nobody else's to read.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Site {
            scheme, host, port, ..
        } = self;
        match host.contains(':') {
            true => write!(f, "{scheme}://[{host}]:{port}"),
            false => write!(f, "{scheme}://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_says_what_it_is_and_where_it_goes() {
        let name = |text: &str| Name::new(text).expect("a name");
        let site = Site {
            scheme: "https".into(),
            host: "2001:db8::1".into(),
            port: 8443,
            path: "/secret".into(),
        };
        let cases = [
            (Resource::server(name("files")), "server files", None),
            (
                Resource::tool(name("files"), "read"),
                "tool \"read\" of server files",
                Some(("tool", "read")),
            ),
            (
                Resource::Model {
                    provider: name("local"),
                    model: "meta/llama:70b".into(),
                },
                "model \"meta/llama:70b\" of provider local",
                Some(("model", "meta/llama:70b")),
            ),
            (
                Resource::Site(site),
                "https://[2001:db8::1]:8443",
                Some(("path", "/secret")),
            ),
            (Resource::Run(name("r1")), "run r1", None),
            (Resource::toolset(name("desk")), "toolset desk", None),
        ];
        for (resource, text, part) in &cases {
            assert_eq!(
                (resource.to_string().as_str(), resource.part()),
                (*text, *part)
            );
        }
        assert_eq!(cases[1].0.as_item().unwrap().1.kind, ItemKind::Tool);
        assert_eq!(cases[4].0.destination(), Destination::Gateway);
    }
}
