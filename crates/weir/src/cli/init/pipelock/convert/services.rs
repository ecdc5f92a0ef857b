//! What stands behind Pipelock by itself: the service of its reverse proxy, and agents that speak A2A.

use std::net::{IpAddr, SocketAddr};

use config::Path;
use serde_json::{Value, json};

use super::Convert;

/// What the service behind the reverse proxy is called. Pipelock has one, without a name.
pub(in crate::cli::init::pipelock) const SERVICE: &str = "upstream";

impl Convert {
    /// `reverse_proxy` becomes a service of `web.reverse`.
    pub(super) fn reverse(&mut self) {
        let group = Path::of("reverse_proxy");
        let [enabled, listen, upstream] =
            ["enabled", "listen", "upstream"].map(|key| group.key(key));
        let is_on = self.source.switch(&enabled) == Some(true);
        if !is_on {
            for path in [&listen, &upstream] {
                if self.source.get(path).is_some() {
                    self.source.lacks(path, "the reverse proxy is off");
                }
            }
            if self.source.get(&enabled).is_some() {
                self.source.took(&enabled, "no web.reverse");
            }
            return;
        }
        let at = format!("web.reverse.{SERVICE}");
        let (Some(url), Some(place)) = (
            self.service_url(&upstream, &at),
            self.service_place(&listen, &at),
        ) else {
            self.source.lacks(
                &enabled,
                "needs an upstream and a listen; write web.reverse",
            );
            return;
        };
        let mut service = json!({ "listen": place.to_string(), "url": url.text });
        if let Some(range) = url.range {
            service["addresses"] = json!([range]);
        }
        super::below(&mut self.web, "reverse").insert(SERVICE.to_owned(), service);
        self.reaching.has_service = true;
        self.source.differs(
            &enabled,
            format!("{at}: who asks shows a key, as Authorization: Bearer; see docs/web.md"),
        );
    }

    fn service_url(&mut self, upstream: &Path, at: &str) -> Option<ServiceUrl> {
        let written = self.source.text(upstream)?;
        match ServiceUrl::read(&written) {
            Some(url) if url.is_named => {
                let what = format!(
                    "{at}.url; if its name is of a private address, write that network in {at}.addresses"
                );
                self.source.differs(upstream, what);
                Some(url)
            }
            Some(url) => {
                self.source.took(upstream, format!("{at}.url"));
                Some(url)
            }
            None => {
                self.source.lacks(
                    upstream,
                    "is no http or https URL without user and query, so that it names no service",
                );
                None
            }
        }
    }

    /// A place of its own: no other listener of the file has its port.
    fn service_place(&mut self, listen: &Path, at: &str) -> Option<SocketAddr> {
        let written = self.source.text(listen)?;
        let place = self.listen(listen, &written, &format!("{at}.listen"));
        let ports = [self.other.get("listen"), self.web.get("listen")];
        let ports = ports.into_iter().flatten().filter_map(Value::as_str);
        let mut ports = ports.filter_map(|text| text.parse::<SocketAddr>().ok());
        if ports.any(|other| other.port() == place.port()) {
            self.source.lacks(
                listen,
                "is the place of another listener; give it a port of its own",
            );
            return None;
        }
        Some(place)
    }

    /// `a2a_scanning`: agents of others are named one by one in `a2a`, and always judged.
    pub(super) fn agents_of_others(&mut self) {
        let group = Path::of("a2a_scanning");
        let of = |key: &str| group.key(key);
        let enabled = of("enabled");
        match self.source.switch(&enabled) {
            Some(true) => {
                self.reaching.has_a2a = true;
                let what = "a2a: name each agent with its url, which the file does not say; what goes to others by the proxy is judged as any request";
                self.source.differs(&enabled, what);
            }
            Some(false) => self.source.lacks(
                &enabled,
                "what agents say to each other is always judged; agents are reached by A2A only where a2a names them",
            ),
            None => {}
        }
        let action = of("action");
        match self.source.text(&action).as_deref() {
            Some("block") => self.source.took(&action, "what is found is refused"),
            Some(_) => self.source.differs(
                &action,
                "what is found is refused; scan.overrides with lane: a2a lets one rule pass",
            ),
            None => {}
        }
        for (key, what) in [
            (
                "scan_agent_cards",
                "each card is judged as definitions of tools are",
            ),
            (
                "session_smuggling_detection",
                "a task and its context belong to the agent that began it",
            ),
            (
                "scan_raw_parts",
                "parts of each kind are judged, base64 undone",
            ),
        ] {
            let path = of(key);
            match self.source.switch(&path) {
                Some(true) => self.source.took(&path, format!("always so: {what}")),
                Some(false) => self.source.lacks(&path, format!("always so: {what}")),
                None => {}
            }
        }
        self.drift(&of("detect_card_drift"));
        for (key, why) in [
            (
                "max_context_messages",
                "messages of a context are not counted; limits.agent_per_minute bounds those of an agent",
            ),
            (
                "max_contexts",
                "the last 10,000 tasks and contexts of each agent are known",
            ),
            (
                "max_raw_size",
                "a part is as large as limits.body_bytes_max lets a message be",
            ),
        ] {
            let path = of(key);
            if self.source.get(&path).is_some() {
                self.source.lacks(&path, why);
            }
        }
    }

    /// Cards and tools are pinned by the same key: what holds one of them is not taken away for the other.
    fn drift(&mut self, path: &Path) {
        match self.source.switch(path) {
            Some(true) if self.scan.get("pins") == Some(&Value::Bool(false)) => {
                self.scan.insert("pins".to_owned(), true.into());
                self.source.differs(path, "scan.pins: true, for tools of MCP too");
            }
            Some(true) => self.source.took(path, "scan.pins, which is on"),
            Some(false) => self.source.lacks(
                path,
                "scan.pins holds changed cards and changed tools alike; write scan.pins: false for neither",
            ),
            None => {}
        }
    }
}

/// Where a service is.
struct ServiceUrl {
    text: String,
    /// The one address that may be dialled, where the URL names one that is not public.
    range: Option<String>,
    /// A name, whose addresses the file does not tell.
    is_named: bool,
}

impl ServiceUrl {
    fn read(written: &str) -> Option<ServiceUrl> {
        let text = written.trim_end_matches('/').to_owned();
        // As the configuration reads one, and as the lane does.
        let url = config::url::parse(&text).ok()?;
        web::read_url(&format!("{text}/")).ok()?;
        if url.path.contains('?') {
            return None;
        }
        let address = url.host.parse::<IpAddr>().ok();
        let inside = address.filter(|ip| !url.is_loopback() && scan::internal(*ip).is_some());
        let bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
        Some(ServiceUrl {
            range: inside.map(|ip| format!("{ip}/{}", bits(ip))),
            is_named: address.is_none() && !url.is_loopback(),
            text,
        })
    }
}
