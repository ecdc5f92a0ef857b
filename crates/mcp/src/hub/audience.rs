//! Who wants to hear of which changes: the open streams of clients of many servers, and the resources they subscribed to.
//!
//! All of it is kept by agent, so that no notification that one agent's link to a server brings can reach another agent. What
//! changed waits in the stream that is to tell it: a list that changed ten times is told once.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::{Name, Refusal, refusal};
use identity::Verified;
use tokio::sync::Notify;

use super::HubState;
use super::watch::ChangeKinds;
use crate::upstream::lock;

/// Resources that one session, or one stream of the modern era, may be subscribed to.
pub(super) const URIS_MAX: usize = 1_000;
/// Resources that all sessions of one agent may be subscribed to.
const AGENT_URIS_MAX: usize = 4_000;
/// Updates that wait in one stream; of more, the client is told when these were told.
const UPDATES_WAITING_MAX: usize = 1_000;

/// Subscriptions: the server of each URI.
pub(super) type Subscribed = BTreeMap<String, Name>;

/// The open streams and the subscriptions of all agents.
#[derive(Default)]
pub(crate) struct Audience {
    agents: Mutex<HashMap<Name, AgentAudience>>,
    /// Told when a stream is opened: more servers may have to be listened to.
    opened: Notify,
    keepers: AtomicU64,
}

/// The same of one agent.
#[derive(Default)]
struct AgentAudience {
    /// As many as the agent has connections, which the edge bounds.
    streams: BTreeMap<u64, ClientStream>,
    /// The subscriptions of sessions of the legacy era, the oldest session first.
    sessions: VecDeque<(String, Subscribed)>,
    /// The feeds that are open, by server.
    feeds: HashMap<Name, FeedEntry>,
    /// URIs that a server of the legacy era was told, in weir's session for the agent.
    told: HashMap<Name, BTreeSet<String>>,
    /// Numbers streams and feeds.
    next: u64,
}

/// One stream of a client.
pub(super) struct ClientStream {
    /// The set of servers that it hears of; all where there is nothing.
    pub(super) set: Option<Name>,
    /// Its session of the legacy era, by number.
    pub(super) session: Option<String>,
    /// What it is subscribed to by itself, in the modern era.
    pub(super) subscribed: Subscribed,
    pub(super) wants: ChangeKinds,
    /// What servers are asked as, for this stream.
    pub(super) verified: Verified,
    pub(super) peer: IpAddr,
    pub(super) waiting: WaitingChanges,
    pub(super) wake: Arc<Notify>,
}

/// What a stream is to tell its client.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WaitingChanges {
    pub(super) lists: ChangeKinds,
    /// Resources that were updated.
    pub(super) updated: Subscribed,
}

impl WaitingChanges {
    fn is_empty(&self) -> bool {
        self.lists == ChangeKinds::default() && self.updated.is_empty()
    }
}

/// A feed that is open: weir's own stream to one server for one agent.
struct FeedEntry {
    number: u64,
    /// Who opened it.
    keeper: u64,
    wake: Arc<Notify>,
}

/// A feed that is to be opened.
pub(super) struct NewFeed {
    pub(super) agent: Name,
    pub(super) server: Name,
    pub(super) number: u64,
    pub(super) wake: Arc<Notify>,
}

/// What a feed is for.
pub(super) struct FeedWant {
    pub(super) verified: Verified,
    pub(super) peer: IpAddr,
    pub(super) uris: BTreeSet<String>,
}

/// What a server of the legacy era is to be told so that it knows the subscriptions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SubscriptionChanges {
    pub(super) subscribe: Vec<String>,
    pub(super) unsubscribe: Vec<String>,
}

/// A subscription that was taken back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unsubscribed {
    pub(super) server: Name,
    /// Nobody else of the agent is subscribed to the URI.
    pub(super) is_last: bool,
}

impl AgentAudience {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn of_session(&self, session: &str) -> Option<&Subscribed> {
        let found = self.sessions.iter().find(|(number, _)| number == session);
        found.map(|(_, subscribed)| subscribed)
    }

    /// All that is subscribed to with one server.
    fn uris(&self, server: &Name) -> BTreeSet<String> {
        let sessions = self.sessions.iter().map(|(_, subscribed)| subscribed);
        let streams = self.streams.values().map(|stream| &stream.subscribed);
        let all = sessions.chain(streams).flatten();
        let of_server = all.filter(|(_, of)| *of == server);
        of_server.map(|(uri, _)| uri.clone()).collect()
    }

    fn is_subscribed(&self, server: &Name, uri: &str) -> bool {
        let has = |subscribed: &Subscribed| subscribed.get(uri) == Some(server);
        self.sessions.iter().any(|(_, subscribed)| has(subscribed))
            || self.streams.values().any(|stream| has(&stream.subscribed))
    }

    /// Makes room for one more subscription of `session`: the oldest sessions that have no stream open lose theirs.
    fn make_room(&mut self, session: &str) -> Result<(), Refusal> {
        let full = |public: &str| Err(Refusal::new(refusal::SESSION_BUSY, public));
        let own = self.of_session(session).map_or(0, BTreeMap::len);
        if own >= URIS_MAX {
            return full(
                "the session is subscribed to 1,000 resources, which is as many as it may be",
            );
        }
        let count = |sessions: &VecDeque<(String, Subscribed)>| -> usize {
            sessions
                .iter()
                .map(|(_, subscribed)| subscribed.len())
                .sum()
        };
        while count(&self.sessions) >= AGENT_URIS_MAX {
            let is_open = |number: &str| {
                let mut streams = self.streams.values();
                streams.any(|stream| stream.session.as_deref() == Some(number))
            };
            let unused = |(number, _): &(String, Subscribed)| number != session && !is_open(number);
            let Some(at) = self.sessions.iter().position(unused) else {
                return full(
                    "this agent's sessions are subscribed to as many resources as they may be",
                );
            };
            self.sessions.remove(at);
        }
        Ok(())
    }

    fn is_unused(&self) -> bool {
        self.streams.is_empty()
            && self.sessions.is_empty()
            && self.feeds.is_empty()
            && self.told.is_empty()
    }
}

impl Audience {
    fn agents(&self) -> MutexGuard<'_, HashMap<Name, AgentAudience>> {
        lock(&self.agents)
    }

    /// Does something to what is kept of an agent, and forgets it where nothing is left.
    fn with<T>(&self, agent: &Name, change: impl FnOnce(&mut AgentAudience) -> T) -> T {
        let mut agents = self.agents();
        let of_agent = agents.entry(agent.clone()).or_default();
        let done = change(of_agent);
        if of_agent.is_unused() {
            agents.remove(agent);
        }
        done
    }

    /// Opens a stream of a client, which hears of changes until what is given back is dropped.
    pub(super) fn open(hub: &Arc<HubState>, agent: &Name, stream: ClientStream) -> OpenStream {
        let wake = Arc::clone(&stream.wake);
        let number = hub.audience.with(agent, |of_agent| {
            let number = of_agent.number();
            of_agent.streams.insert(number, stream);
            of_agent.wake_feeds();
            number
        });
        hub.audience.opened.notify_one();
        OpenStream {
            hub: Arc::clone(hub),
            agent: agent.clone(),
            number,
            wake,
        }
    }

    /// Waits until a stream was opened.
    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// The number of a new [`missing`](Audience::missing).
    pub(super) fn keeper(&self) -> u64 {
        self.keepers.fetch_add(1, Ordering::Relaxed)
    }

    /// Feeds that have to be opened so that each stream hears of all servers of its set. `servers` are those that there are, and
    /// `has` says whether one is in a set. `keeper` is another number where settings changed: feeds of others are opened anew.
    pub(super) fn missing(
        &self,
        keeper: u64,
        servers: &[&Name],
        has: impl Fn(Option<&Name>, &Name) -> bool,
    ) -> Vec<NewFeed> {
        let mut missing = Vec::new();
        for (agent, of_agent) in self.agents().iter_mut() {
            for server in servers {
                let mut streams = of_agent.streams.values();
                if !streams.any(|stream| has(stream.set.as_ref(), server)) {
                    continue;
                }
                let open = of_agent.feeds.get(*server);
                if open.is_some_and(|open| open.keeper == keeper) {
                    continue;
                }
                let (number, wake) = (of_agent.number(), Arc::<Notify>::default());
                let entry = FeedEntry {
                    number,
                    keeper,
                    wake: Arc::clone(&wake),
                };
                if let Some(before) = of_agent.feeds.insert((*server).clone(), entry) {
                    before.wake.notify_one();
                }
                missing.push(NewFeed {
                    agent: agent.clone(),
                    server: (*server).clone(),
                    number,
                    wake,
                });
            }
            // Feeds of servers that are not there any more end.
            let gone = of_agent
                .feeds
                .extract_if(|server, _| !servers.contains(&server));
            gone.for_each(|(_, feed)| feed.wake.notify_one());
        }
        missing
    }

    /// What a feed is for; nothing where it is to end. It is forgotten then.
    pub(super) fn wanted(
        &self,
        feed: &NewFeed,
        has: impl Fn(Option<&Name>, &Name) -> bool,
    ) -> Option<FeedWant> {
        self.with(&feed.agent, |of_agent| {
            let open = of_agent.feeds.get(&feed.server)?;
            if open.number != feed.number {
                return None;
            }
            let mut streams = of_agent.streams.values().rev();
            let newest = streams.find(|stream| has(stream.set.as_ref(), &feed.server));
            let Some(newest) = newest else {
                of_agent.feeds.remove(&feed.server);
                return None;
            };
            Some(FeedWant {
                verified: newest.verified.clone(),
                peer: newest.peer,
                uris: of_agent.uris(&feed.server),
            })
        })
    }

    /// Notes for all agents that lists changed, as when a server comes or goes.
    pub(crate) fn note(&self, kinds: ChangeKinds) {
        for of_agent in self.agents().values_mut() {
            for stream in of_agent.streams.values_mut() {
                stream.note(kinds);
            }
        }
    }

    /// Notes that lists of a server changed, as one agent was told.
    pub(super) fn lists_changed(
        &self,
        agent: &Name,
        server: &Name,
        kinds: ChangeKinds,
        has: impl Fn(Option<&Name>, &Name) -> bool,
    ) {
        let mut agents = self.agents();
        let streams = agents.get_mut(agent).map(|of_agent| &mut of_agent.streams);
        for stream in streams.into_iter().flat_map(BTreeMap::values_mut) {
            if has(stream.set.as_ref(), server) {
                stream.note(kinds);
            }
        }
    }

    /// Notes that a resource of a server was updated, as one agent was told.
    pub(super) fn updated(&self, agent: &Name, server: &Name, uri: &str) {
        let mut agents = self.agents();
        let Some(of_agent) = agents.get_mut(agent) else {
            return;
        };
        let is_meant = |subscribed: &Subscribed| {
            let mut subscribed = subscribed.iter();
            subscribed.any(|(of, from)| from == server && covers(of, uri))
        };
        let sessions = of_agent.sessions.iter();
        let meant: BTreeSet<String> = sessions
            .filter(|(_, subscribed)| is_meant(subscribed))
            .map(|(number, _)| number.clone())
            .collect();
        for stream in of_agent.streams.values_mut() {
            let session = stream.session.as_ref();
            if session.is_some_and(|number| meant.contains(number)) || is_meant(&stream.subscribed)
            {
                stream.note_update(uri, server);
            }
        }
    }

    /// Subscribes a session of the legacy era. Its server is told by the caller where `tells`.
    ///
    /// # Errors
    /// `mcp.session_busy` where the session or its agent has no subscription left.
    pub(super) fn subscribe(
        &self,
        agent: &Name,
        session: &str,
        (uri, server): (&str, &Name),
        tells: bool,
    ) -> Result<(), Refusal> {
        self.with(agent, |of_agent| {
            let known = of_agent.of_session(session);
            if known.is_none_or(|known| !known.contains_key(uri)) {
                of_agent.make_room(session)?;
            }
            let (uri, server) = (uri.to_owned(), server.clone());
            if tells {
                let told = of_agent.told.entry(server.clone()).or_default();
                told.insert(uri.clone());
            }
            let at = of_agent.sessions.iter().position(|(of, _)| of == session);
            match at {
                Some(at) => of_agent.sessions[at].1.insert(uri, server.clone()),
                None => {
                    let subscribed = BTreeMap::from([(uri, server.clone())]);
                    of_agent
                        .sessions
                        .push_back((session.to_owned(), subscribed));
                    None
                }
            };
            of_agent.wake_feed(&server);
            Ok(())
        })
    }

    /// Takes a subscription of a session back; nothing where there is none.
    pub(super) fn unsubscribe(
        &self,
        agent: &Name,
        session: &str,
        uri: &str,
    ) -> Option<Unsubscribed> {
        self.with(agent, |of_agent| {
            let at = of_agent.sessions.iter().position(|(of, _)| of == session)?;
            let server = of_agent.sessions[at].1.remove(uri)?;
            if of_agent.sessions[at].1.is_empty() {
                of_agent.sessions.remove(at);
            }
            let is_last = !of_agent.is_subscribed(&server, uri);
            if is_last {
                // The caller tells the server.
                of_agent.untold(&server, uri);
            }
            of_agent.wake_feed(&server);
            Some(Unsubscribed { server, is_last })
        })
    }

    /// Forgets the subscriptions of a session that ended; gives the servers that they were with.
    pub(super) fn end_session(&self, agent: &Name, session: &str) -> BTreeSet<Name> {
        self.with(agent, |of_agent| {
            let servers = of_agent.of_session(session);
            let servers = servers.into_iter().flat_map(|of| of.values().cloned());
            let servers = servers.collect();
            of_agent.sessions.retain(|(of, _)| of != session);
            of_agent.wake_feeds();
            servers
        })
    }

    /// What a server of the legacy era has to be told still. It counts as told from now on.
    pub(super) fn to_tell(&self, agent: &Name, server: &Name) -> SubscriptionChanges {
        self.with(agent, |of_agent| {
            let wanted = of_agent.uris(server);
            let told = of_agent.told.remove(server).unwrap_or_default();
            let changes = SubscriptionChanges {
                subscribe: wanted.difference(&told).cloned().collect(),
                unsubscribe: told.difference(&wanted).cloned().collect(),
            };
            if !wanted.is_empty() {
                of_agent.told.insert(server.clone(), wanted);
            }
            changes
        })
    }

    /// A server has forgotten what it was told, or may have.
    pub(super) fn forget_told(&self, agent: &Name, server: &Name) {
        self.with(agent, |of_agent| of_agent.told.remove(server));
    }
}

impl AgentAudience {
    fn wake_feed(&self, server: &Name) {
        if let Some(feed) = self.feeds.get(server) {
            feed.wake.notify_one();
        }
    }

    fn wake_feeds(&self) {
        for feed in self.feeds.values() {
            feed.wake.notify_one();
        }
    }

    fn untold(&mut self, server: &Name, uri: &str) {
        let Some(told) = self.told.get_mut(server) else {
            return;
        };
        told.remove(uri);
        if told.is_empty() {
            self.told.remove(server);
        }
    }
}

impl ClientStream {
    fn note(&mut self, kinds: ChangeKinds) {
        let kinds = kinds.and(self.wants);
        if kinds != ChangeKinds::default() {
            self.waiting.lists = self.waiting.lists.or(kinds);
            self.wake.notify_one();
        }
    }

    fn note_update(&mut self, uri: &str, server: &Name) {
        let waiting = &mut self.waiting.updated;
        if waiting.len() < UPDATES_WAITING_MAX || waiting.contains_key(uri) {
            waiting.insert(uri.to_owned(), server.clone());
            self.wake.notify_one();
        }
    }
}

/// Whether an update of `uri` is one of what was subscribed to: of the resource itself, or of a part of it (MCP 2025-11-25,
/// "Resources", "ResourceUpdatedNotification"). Example: `file:///a` covers `file:///a/b`, and not `file:///ab`.
fn covers(subscribed: &str, uri: &str) -> bool {
    let Some(rest) = uri.strip_prefix(subscribed) else {
        return false;
    };
    rest.is_empty() || subscribed.ends_with('/') || rest.starts_with(['/', '?', '#'])
}

/// A client's stream in the audience, until it is dropped.
pub(super) struct OpenStream {
    hub: Arc<HubState>,
    agent: Name,
    number: u64,
    wake: Arc<Notify>,
}

impl OpenStream {
    /// Waits until something may have changed.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    fn with<T>(&self, change: impl FnOnce(&mut ClientStream) -> T) -> Option<T> {
        let mut agents = self.hub.audience.agents();
        let stream = agents.get_mut(&self.agent)?.streams.get_mut(&self.number)?;
        Some(change(stream))
    }

    pub(super) fn has_changes(&self) -> bool {
        self.with(|stream| !stream.waiting.is_empty())
            .unwrap_or_default()
    }

    /// What is to be told now.
    pub(super) fn take_changes(&self) -> WaitingChanges {
        self.with(|stream| std::mem::take(&mut stream.waiting))
            .unwrap_or_default()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.hub.audience.with(&self.agent, |of_agent| {
            of_agent.streams.remove(&self.number);
            of_agent.wake_feeds();
        });
    }
}

#[cfg(test)]
mod tests {
    use base::CallId;
    use identity::{Agent, Credential};

    use super::*;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn hub() -> Arc<HubState> {
        Arc::new(HubState::new(CallId([1; 16])))
    }

    fn stream(agent: &Name, session: Option<&str>, subscribed: &[(&str, &str)]) -> ClientStream {
        let agent = Agent {
            name: agent.clone(),
            groups: Vec::new(),
            state: Default::default(),
            expires_unix_ms: None,
        };
        let subscribed = subscribed.iter();
        ClientStream {
            set: None,
            session: session.map(str::to_owned),
            subscribed: subscribed
                .map(|(uri, server)| ((*uri).to_owned(), name(server)))
                .collect(),
            wants: ChangeKinds::ALL,
            verified: Verified::by_lane(Arc::new(agent), Credential::Key, None, 0),
            peer: [127, 0, 0, 1].into(),
            waiting: WaitingChanges::default(),
            wake: Arc::default(),
        }
    }

    fn all(_: Option<&Name>, _: &Name) -> bool {
        true
    }

    #[test]
    fn a_subscription_ends_with_the_last_who_has_it() {
        let hub = hub();
        let (audience, dev, web) = (&hub.audience, name("dev"), name("web"));
        let subscribe = |session: &str, uri: &str| {
            let of = (uri, &web);
            audience.subscribe(&dev, session, of, true).unwrap();
        };
        let is_last = |session: &str, uri: &str| {
            let ended = audience.unsubscribe(&dev, session, uri);
            ended.map(|ended| ended.is_last)
        };
        subscribe("s1", "a");
        subscribe("s1", "a");
        subscribe("s2", "a");
        assert_eq!(is_last("s3", "a"), None);
        assert_eq!(is_last("s1", "a"), Some(false));
        assert_eq!(is_last("s1", "a"), None);
        let open = Audience::open(&hub, &dev, stream(&dev, None, &[("a", "web")]));
        assert_eq!(is_last("s2", "a"), Some(false));
        // The server was told of it, and is told that it ended.
        assert_eq!(audience.to_tell(&dev, &web), SubscriptionChanges::default());
        drop(open);
        let told = audience.to_tell(&dev, &web);
        assert_eq!(
            (told.subscribe, told.unsubscribe),
            (vec![], vec!["a".to_owned()])
        );
        // Nothing is kept of an agent without streams and subscriptions.
        assert!(audience.agents().is_empty());
    }

    #[test]
    fn a_server_that_forgot_is_told_again() {
        let hub = hub();
        let (audience, dev, web) = (&hub.audience, name("dev"), name("web"));
        audience.subscribe(&dev, "s1", ("a", &web), true).unwrap();
        audience.subscribe(&dev, "s2", ("b", &web), false).unwrap();
        assert_eq!(audience.to_tell(&dev, &web).subscribe, ["b"]);
        assert_eq!(audience.to_tell(&dev, &web).subscribe, [""; 0]);
        audience.forget_told(&dev, &web);
        assert_eq!(audience.to_tell(&dev, &web).subscribe, ["a", "b"]);
        let ended = audience.end_session(&dev, "s1");
        assert_eq!(ended, BTreeSet::from([web.clone()]));
        assert_eq!(audience.to_tell(&dev, &web).unsubscribe, ["a"]);
    }

    #[test]
    fn subscriptions_have_a_bound() {
        let hub = hub();
        let (audience, dev, web) = (&hub.audience, name("dev"), name("web"));
        let subscribe = |session: &str, number: usize| {
            let uri = format!("test://{number}");
            let done = audience.subscribe(&dev, session, (&uri, &web), false);
            done.map_err(|refusal| refusal.code.name)
        };
        for number in 0..URIS_MAX {
            assert_eq!(subscribe("s0", number), Ok(()));
        }
        assert_eq!(subscribe("s0", URIS_MAX), Err("mcp.session_busy"));
        assert_eq!(subscribe("s0", 0), Ok(()));
        // The agent's oldest session without a stream makes room; one with a stream does not.
        let open = Audience::open(&hub, &dev, stream(&dev, Some("s0"), &[]));
        for session in ["s1", "s2", "s3"] {
            for number in 0..URIS_MAX {
                assert_eq!(subscribe(session, number), Ok(()));
            }
        }
        assert_eq!(subscribe("s4", 0), Ok(()));
        let left = |session: &str| {
            let agents = audience.agents();
            agents[&dev].of_session(session).map(BTreeMap::len)
        };
        assert_eq!((left("s0"), left("s1")), (Some(URIS_MAX), None));
        drop(open);
        for number in 1..URIS_MAX {
            assert_eq!(subscribe("s4", number), Ok(()));
        }
        assert_eq!(subscribe("s5", 0), Ok(()));
        assert_eq!((left("s0"), left("s2")), (None, Some(URIS_MAX)));
    }

    #[test]
    fn a_stream_hears_what_it_wants_and_its_agent_alone() {
        let hub = hub();
        let (audience, dev, eve) = (&hub.audience, name("dev"), name("eve"));
        let (web, code) = (name("web"), name("code"));
        let one = Audience::open(&hub, &dev, stream(&dev, Some("s1"), &[]));
        let two = Audience::open(&hub, &dev, stream(&dev, None, &[("test://a", "code")]));
        let other = Audience::open(&hub, &eve, stream(&eve, None, &[("test://a", "web")]));
        audience
            .subscribe(&dev, "s1", ("test://a", &web), true)
            .unwrap();
        audience.updated(&dev, &web, "test://a");
        audience.updated(&dev, &web, "test://a/part");
        audience.updated(&dev, &code, "test://ab");
        assert_eq!(one.take_changes().updated.len(), 2);
        assert!(!one.has_changes() && !two.has_changes() && !other.has_changes());
        let tools = ChangeKinds::told_by("notifications/tools/list_changed");
        audience.lists_changed(&dev, &web, tools, |_, server| *server == web);
        audience.lists_changed(&dev, &code, tools, |_, server| *server == web);
        audience.lists_changed(&dev, &web, tools, all);
        assert_eq!(
            (one.take_changes().lists, two.take_changes().lists),
            (tools, tools)
        );
        assert!(!one.has_changes() && !other.has_changes());
        audience.note(ChangeKinds::ALL);
        assert_eq!(other.take_changes().lists, ChangeKinds::ALL);
    }

    #[test]
    fn a_feed_lasts_as_long_as_a_stream_needs_it() {
        let hub = hub();
        let (audience, dev, web) = (&hub.audience, name("dev"), name("web"));
        let opened = |keeper: u64| audience.missing(keeper, &[&web], all);
        assert!(opened(0).is_empty());
        let one = Audience::open(&hub, &dev, stream(&dev, None, &[("a", "web")]));
        let first = opened(0);
        assert_eq!(first.len(), 1);
        let two = Audience::open(&hub, &dev, stream(&dev, None, &[("b", "web")]));
        assert!(opened(0).is_empty());
        let want = audience.wanted(&first[0], all).unwrap();
        assert_eq!(want.uris, ["a", "b"].map(str::to_owned).into());
        drop(one);
        assert!(audience.wanted(&first[0], all).is_some());
        // By other settings there is another feed in its place.
        let second = opened(1);
        assert!(second.len() == 1 && audience.wanted(&first[0], all).is_none());
        assert!(audience.wanted(&second[0], all).is_some());
        drop(two);
        assert!(audience.wanted(&second[0], all).is_none());
        assert!(audience.agents().is_empty());
    }
}
