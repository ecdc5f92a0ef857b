//! What clients can read from a server besides its tools, and be told of when it changes.
//!
//! Questions go the way of calls, to the process that has the engine, as calls of tools whose names no client can name. A
//! session with subscriptions asks for the revision of what they are about, and tells its client where that is another one.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::Service;
use super::call::{Ask, Call, Problem, Said, arguments};
use super::desk::{Desk, progress};

/// What the names of questions begin with; no tool's name has a slash.
pub(super) const ASKED: &str = "resources/";
/// How often revisions are asked for, in milliseconds.
const LOOK_MS: u64 = 500;
/// Resources that one session is told of, at most.
pub const SUBSCRIPTIONS_MAX: usize = 64;

/// What a server can be read by.
pub struct Resources<S: Service> {
    /// Those there are.
    pub list: fn(&Call<'_, S>) -> Result<Vec<Resource>, Problem>,
    /// The form of their addresses, with its name and what it is (RFC 6570).
    pub templates: &'static [Resource<&'static str>],
    /// One of them, as text.
    pub read: fn(&Call<'_, S>, uri: &str) -> Result<String, Problem>,
    /// A number that is another whenever one of them is.
    pub revision: fn(&Call<'_, S>, uri: &str) -> Result<u64, Problem>,
    /// What the text of each is.
    pub media_type: &'static str,
}

/// One resource.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Resource<T = String> {
    /// Its address, or the form of addresses.
    pub uri: T,
    /// What it is called.
    pub name: T,
    /// What it is.
    pub description: T,
}

/// A question about one resource.
#[derive(Deserialize)]
struct OfOne {
    uri: String,
}

/// Answers a question about resources, where the engine is.
pub(super) fn answer<S: Service>(
    call: &Call<'_, S>,
    question: &str,
    asked: &Map<String, Value>,
) -> Result<Said, Problem> {
    let resources = S::RESOURCES.ok_or_else(|| Problem::argument("there are no resources"))?;
    let uri = || arguments::<OfOne>(asked.clone()).map(|of| of.uri);
    let mut said = Said::default();
    match question {
        "list" => said.value = serde_json::json!((resources.list)(call)?),
        "read" => said.text = (resources.read)(call, &uri()?)?,
        "revision" => said.value = (resources.revision)(call, &uri()?)?.into(),
        _ => return Err(Problem::argument("there is no such question")),
    }
    Ok(said)
}

/// Asks the engine about resources.
pub(super) async fn ask<S: Service>(
    desk: &Desk<S>,
    session: super::call::Session,
    question: &str,
    uri: Option<&str>,
) -> Result<Said, Problem> {
    let ask = Ask {
        tool: format!("{ASKED}{question}"),
        arguments: uri
            .map(|uri| ("uri".to_owned(), Value::from(uri)))
            .into_iter()
            .collect(),
        session,
        ..Ask::default()
    };
    let (told, _jobs) = progress();
    desk.call(ask, told).await
}

/// Tells the addresses of resources that changed, of those that `watched` gives each time, until nobody listens.
pub(super) async fn watch<S: Service>(
    desk: Desk<S>,
    session: super::call::Session,
    watched: impl Fn() -> Vec<String>,
    changed: mpsc::Sender<String>,
) {
    let mut known: HashMap<String, u64> = HashMap::new();
    loop {
        let uris = watched();
        known.retain(|uri, _| uris.contains(uri));
        for uri in uris {
            let revision = ask(&desk, session.clone(), "revision", Some(&uri)).await;
            let Some(revision) = revision.ok().and_then(|said| said.value.as_u64()) else {
                continue;
            };
            let before = known.insert(uri.clone(), revision);
            if before.is_some_and(|before| before != revision) && changed.send(uri).await.is_err() {
                return;
            }
        }
        tokio::select! {
            () = changed.closed() => return,
            () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
        }
    }
}
