//! What sites ask of programs that fetch pages by themselves (RFC 9309), for `/fetch` where `web.fetch.robots` is written.
//!
//! A site's robots.txt is asked for as the agent's own call, so policies, addresses, bounds and the record are those of any
//! other. A file that says no is a refusal; so is a site that fails to say anything (5xx, unreachable, refused), while one that
//! has no such file (4xx) lets all be fetched. It is kept for each agent and site, for a day at most, and of a large file the first
//! 500 KiB are read.
//!
//! Example: after `User-agent: *` and `Disallow: /private/`, `/private/x` is not fetched.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use base::record::CallEnd;
use base::{CallId, Name, Refusal, Site, refusal};
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderMap, HeaderValue, USER_AGENT};
use http::{Method, StatusCode};
use net::UpstreamAnswer;

use crate::bounds::AgentPlace;
use crate::exchange::{SiteRequest, end, of_send};
use crate::fetch::redirect;
use crate::lane::{Caller, WebLane};
use crate::meter::SiteWay;
use crate::site::AskedUrl;

/// Bytes of a file that are read (RFC 9309 §2.5).
const ROBOTS_BYTES_MAX: usize = 500 << 10;
/// Redirects of a file that are followed (RFC 9309 §2.3.1.2).
const REDIRECTS_MAX: usize = 5;
/// How long a file is kept, in milliseconds (RFC 9309 §2.4: a day at most).
const KEPT_MS: u64 = 24 * 3_600_000;
/// How long it is remembered that a site did not say, in milliseconds.
const UNSAID_MS: u64 = 60_000;
/// Files that are kept at once.
const FILES_MAX: usize = 1_024;
/// Rules of one file that are read, and the longest of them.
const RULES_MAX: usize = 10_000;
const RULE_BYTES_MAX: usize = 2_048;

/// What a site asks of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    is_allowed: bool,
    path: String,
}

impl Robots {
    /// Reads a file, for the program of this product token: its own groups, or else those of `*` (RFC 9309 §2.2.1).
    pub fn read(text: &[u8], product: &str) -> Robots {
        let text = &text[..text.len().min(ROBOTS_BYTES_MAX)];
        let text = String::from_utf8_lossy(text);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let (mut has_own, mut is_own, mut is_other, mut is_in_rules) = (false, false, false, true);
        for line in text.split(['\n', '\r']) {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    // A group begins with one line or several of whom it is for.
                    if std::mem::take(&mut is_in_rules) {
                        (is_own, is_other) = (false, false);
                    }
                    let named = token(value);
                    is_own |= !named.is_empty() && named.eq_ignore_ascii_case(product);
                    is_other |= value == "*";
                    has_own |= is_own;
                }
                "allow" | "disallow" => {
                    is_in_rules = true;
                    // An empty rule says nothing.
                    if value.is_empty() || value.len() > RULE_BYTES_MAX {
                        continue;
                    }
                    let rule = Rule {
                        is_allowed: key == "allow",
                        path: normal(value),
                    };
                    if is_own && own.len() < RULES_MAX {
                        own.push(rule.clone());
                    }
                    if is_other && others.len() < RULES_MAX {
                        others.push(rule);
                    }
                }
                _ => {}
            }
        }
        Robots {
            rules: if has_own { own } else { others },
        }
    }

    /// Whether a path with its query may be fetched: the longest rule that matches decides, and of two that are as long the one
    /// that allows (RFC 9309 §2.2.2).
    pub fn allows(&self, path: &str) -> bool {
        if path == "/robots.txt" {
            return true;
        }
        let path = normal(path);
        let matching = self.rules.iter().filter(|rule| matches(&rule.path, &path));
        let best = matching.max_by_key(|rule| (rule.path.len(), rule.is_allowed));
        best.is_none_or(|rule| rule.is_allowed)
    }
}

/// The product token that a text begins with.
fn token(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphabetic() && c != '_' && c != '-');
    &text[..end.unwrap_or(text.len())]
}

/// A path as paths are compared: what needs no percent-encoding has none, and what needs it is in upper case.
fn normal(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut normal = String::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let coded = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let coded = coded.and_then(|hex| std::str::from_utf8(hex).ok());
        let coded = coded.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let (byte, width) = coded.map_or((bytes[at], 1), |byte| (byte, 3));
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match (is_plain, coded) {
            (true, _) => normal.push(char::from(byte)),
            (false, None) if byte.is_ascii_graphic() => normal.push(char::from(byte)),
            (false, _) => {
                normal.push('%');
                for nibble in [byte >> 4, byte & 15] {
                    let digit = char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                    normal.push(digit.to_ascii_uppercase());
                }
            }
        }
        at += width;
    }
    normal
}

/// Whether a rule matches the beginning of a path: `*` is any text, and `$` at the end is the end. No step is taken back further
/// than the last `*`, so that no rule costs more than its length times the path's.
fn matches(rule: &str, path: &str) -> bool {
    let (rule, is_whole) = match rule.strip_suffix('$') {
        Some(rule) => (rule.as_bytes(), true),
        None => (rule.as_bytes(), false),
    };
    let path = path.as_bytes();
    let (mut at, mut here) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    loop {
        if at == rule.len() && (!is_whole || here == path.len()) {
            return true;
        }
        let is_star = rule.get(at) == Some(&b'*');
        if is_star {
            at += 1;
            last_star = Some((at, here));
            continue;
        }
        if at < rule.len() && here < path.len() && rule[at] == path[here] {
            at += 1;
            here += 1;
            continue;
        }
        match last_star {
            Some((after, from)) if from < path.len() => {
                (at, here) = (after, from + 1);
                last_star = Some((after, here));
            }
            _ => return false,
        }
    }
}

/// What a site said.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Said {
    Rules(Robots),
    /// It has no such file.
    All,
    /// It did not say.
    Nothing,
}

/// Files that are kept.
#[derive(Default)]
pub(crate) struct KeptRobots(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    files: HashMap<Key, (Arc<Said>, u64)>,
    order: VecDeque<Key>,
}

/// Of whom and of what: a site may say something else to each agent.
type Key = (Name, Box<str>);

impl KeptRobots {
    fn get(&self, key: &Key, now_ms: u64) -> Option<Arc<Said>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, at) = kept.files.get(key)?;
        let for_ms = match **said {
            Said::Nothing => UNSAID_MS,
            Said::Rules(_) | Said::All => KEPT_MS,
        };
        (now_ms.saturating_sub(*at) < for_ms).then(|| Arc::clone(said))
    }

    fn keep(&self, key: Key, said: Arc<Said>, now_ms: u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.files.insert(key.clone(), (said, now_ms)).is_none() {
            kept.order.push_back(key);
        }
        if kept.order.len() > FILES_MAX
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.files.remove(&oldest);
        }
    }
}

impl WebLane {
    /// Asks the site whether this page may be fetched; `id` is the call that fetches it.
    ///
    /// # Errors
    /// `web.robots`.
    pub(crate) async fn ask_robots(
        &self,
        caller: &Caller,
        id: CallId,
        url: &AskedUrl,
    ) -> Result<(), Refusal> {
        if !self.settings().fetch.asks_robots {
            return Ok(());
        }
        let origin = Site {
            path: "/".into(),
            ..url.site.clone()
        };
        let key = (caller.agent().clone(), origin.to_string().into_boxed_str());
        let now_ms = (self.settings().now_ms)();
        let said = match self.shared.robots.get(&key, now_ms) {
            Some(said) => said,
            None => {
                let said = Arc::new(self.robots_of(caller, id, url).await);
                self.shared.robots.keep(key, Arc::clone(&said), now_ms);
                said
            }
        };
        let public = match &*said {
            Said::All => return Ok(()),
            Said::Rules(robots) if robots.allows(url.path.as_str()) => return Ok(()),
            Said::Rules(_) => "the site's robots.txt asks that this page is not fetched",
            Said::Nothing => {
                "the site does not give its robots.txt, so that nothing of it is fetched"
            }
        };
        Err(Refusal::new(refusal::WEB_ROBOTS, public))
    }

    /// Asks for the file, and for where it leads.
    async fn robots_of(&self, caller: &Caller, first: CallId, url: &AskedUrl) -> Said {
        let Ok(mut next) = url.join("/robots.txt") else {
            return Said::Nothing;
        };
        for _ in 0..=REDIRECTS_MAX {
            let asked = self.robots_request(next);
            let id = (self.settings().new_id)();
            // Whatever refuses it has been recorded.
            let Ok(mut judged) = self.judge(caller, id, Some(first), &asked).await else {
                return Said::Nothing;
            };
            let mut answer = match self.send(&judged, &Method::GET, &asked.url).await {
                Ok(answer) => answer,
                Err(refusal) => {
                    end(judged.passed, CallEnd::Failed, 0, 0, Some(&refusal));
                    return Said::Nothing;
                }
            };
            let status = answer.head.status;
            let location = redirect(status, &answer.head.headers, &mut judged.scrub);
            let read = match location {
                Some(_) => Ok(Vec::new()),
                None => self.read_robots(&judged.place, &mut answer).await,
            };
            let bytes = read.as_ref().map_or(0, |text| text.len() as u64);
            let (how, why) = match &read {
                Ok(_) => (CallEnd::Complete, None),
                Err(refusal) => (CallEnd::Failed, Some(refusal)),
            };
            end(judged.passed, how, status.as_u16(), bytes, why);
            match (location, read) {
                (Some(location), _) => match asked.url.join(&location) {
                    Ok(url) => next = url,
                    Err(_) => return Said::Nothing,
                },
                (None, Ok(text)) => return self.said(status, &text),
                (None, Err(_)) => return Said::Nothing,
            }
        }
        // More redirects than are followed are no file.
        Said::All
    }

    fn said(&self, status: StatusCode, text: &[u8]) -> Said {
        match status {
            status if status.is_success() => {
                let product = token(&self.settings().fetch.user_agent);
                Said::Rules(Robots::read(text, product))
            }
            status if status.is_client_error() => Said::All,
            _ => Said::Nothing,
        }
    }

    fn robots_request(&self, url: AskedUrl) -> SiteRequest {
        let mut fields = HeaderMap::new();
        if let Ok(agent) = HeaderValue::from_str(&self.settings().fetch.user_agent) {
            fields.insert(USER_AGENT, agent);
        }
        fields.insert(ACCEPT, HeaderValue::from_static("text/plain, */*;q=0.1"));
        fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        SiteRequest {
            way: SiteWay::Robots,
            service: None,
            ..SiteRequest::new(Method::GET, url, &fields)
        }
    }

    /// The beginning of the file.
    async fn read_robots(
        &self,
        place: &AgentPlace,
        answer: &mut UpstreamAnswer,
    ) -> Result<Vec<u8>, Refusal> {
        let silence = std::time::Duration::from_millis(self.settings().silence_ms);
        let slow = || Refusal::new(refusal::WEB_SLOW, "the site is silent in its robots.txt");
        let mut text = Vec::new();
        while text.len() < ROBOTS_BYTES_MAX {
            let piece = tokio::time::timeout(silence, answer.chunk()).await;
            let Some(piece) = piece.map_err(|_| slow())?.map_err(of_send)? else {
                answer.reuse();
                break;
            };
            place.came(piece.len() as u64)?;
            text.extend_from_slice(&piece);
        }
        // Of a longer file the rest is left with its connection.
        text.truncate(ROBOTS_BYTES_MAX);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# a file\nUser-agent: other\nUser-Agent: Weir # us\nDisallow: /private/\nAllow: /private/open\nDisallow: *.gif$\n\n\
        user-agent: *\ndisallow: /\n";

    #[test]
    fn a_program_has_its_own_groups_or_those_of_all() {
        let robots = Robots::read(FILE.as_bytes(), "weir");
        for (path, is_allowed) in [
            ("/", true),
            ("/private", true),
            ("/private/x", false),
            ("/private/open/x", true),
            ("/a.gif", false),
            ("/a.gif?x", true),
        ] {
            assert_eq!(robots.allows(path), is_allowed, "{path}");
        }
        let others = Robots::read(FILE.as_bytes(), "else");
        assert!(!others.allows("/x") && others.allows("/robots.txt"));
        let none = Robots::read(b"User-agent: x\nDisallow: /\n", "weir");
        assert!(none.allows("/x"));
        // Groups of one program add up.
        let twice = b"User-agent: weir\nDisallow: /a\nUser-agent: weir\nDisallow: /b\n";
        let twice = Robots::read(twice, "weir");
        assert!(!twice.allows("/a") && !twice.allows("/b") && twice.allows("/c"));
    }

    #[test]
    fn rules_match_as_the_standard_says() {
        for (rule, path, does) in [
            ("/fish", "/fish.html", true),
            ("/fish", "/Fish", false),
            ("/fish*", "/fishheads", true),
            ("/fish/", "/fish", false),
            ("/*.php", "/folder/any.php?x=y", true),
            ("/*.php$", "/any.php", true),
            ("/*.php$", "/any.php?x", false),
            ("/fish*.php", "/fishes/a.php", true),
            ("*", "/x", true),
            ("/a*b*c$", "/axbxxcxbc", true),
            ("/a*b*c$", "/axbxxcxb", false),
            ("/$", "/", true),
            ("/$", "/a", false),
        ] {
            assert_eq!(matches(rule, path), does, "{rule} {path}");
        }
        // Coded or not, it is the same path (RFC 9309 §2.2.2).
        for (rule, path) in [
            ("/a%3cd.html", "/a%3Cd.html"),
            ("/%7Ejoe/", "/~joe/x"),
            ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
        ] {
            assert!(matches(&normal(rule), &normal(path)), "{rule} {path}");
        }
        assert!(!matches(&normal("/a%2Fb"), &normal("/a/b")));
    }

    #[test]
    fn no_file_costs_more_than_its_bounds() {
        let many = format!(
            "User-agent: *\n{}",
            "Disallow: /a*b*c*d*e$\n".repeat(40_000)
        );
        let robots = Robots::read(many.as_bytes(), "weir");
        assert!(robots.rules.len() <= RULES_MAX);
        assert!(robots.allows(&"/a".repeat(1_000)));
        let rule = format!("/{}", "*a".repeat(1_000));
        let robots = Robots::read(
            format!("User-agent: *\nDisallow: {rule}\n").as_bytes(),
            "weir",
        );
        assert!(robots.allows(&format!("/{}", "b".repeat(10_000))));
        assert_eq!(
            Robots::read(b"\xef\xbb\xbfUser-agent:*\rDisallow:/", "w")
                .rules
                .len(),
            1
        );
    }

    #[test]
    fn what_is_kept_is_bounded_and_each_agents_own() {
        let (kept, dev) = (KeptRobots::default(), Name::new("dev").unwrap());
        let key = |site: usize| (dev.clone(), format!("https://{site}").into_boxed_str());
        for site in 0..FILES_MAX + 10 {
            kept.keep(key(site), Arc::new(Said::All), 0);
        }
        assert!(kept.get(&key(0), 0).is_none() && kept.get(&key(FILES_MAX), 0).is_some());
        assert!(kept.get(&key(FILES_MAX), KEPT_MS).is_none());
        let other = (Name::new("eve").unwrap(), key(FILES_MAX).1);
        assert!(kept.get(&other, 0).is_none());
        kept.keep(key(1), Arc::new(Said::Nothing), 0);
        assert!(kept.get(&key(1), 10).is_some() && kept.get(&key(1), UNSAID_MS).is_none());
    }
}
