//! Is it still the tool, prompt or resource that was approved: asked for each definition in a list, and for each call.
//!
//! A definition is trusted when it is first seen. One that changed is left out of the list, and its item
//! is not called, until a person approves it. What is approved is kept by the port `Pins`.

use std::borrow::Cow;
use std::sync::Mutex;

use base::record::Finding;
use base::{Digest, ItemKind, Name, Refusal, ServerItem, refusal};
use scan::tool::{Definition, Judged, Likeness, Names, Wrong};
use scan::{Action, Direction};

use crate::admit::Permitted;
use crate::judge::Case;
use crate::passed::Passed;
use crate::ports::{HeldItem, HoldReason, Pins, SeenDefinition, Standing, Trust};

/// The names of all tools that are remembered, made when the first new tool comes.
#[derive(Default)]
pub(crate) struct ApprovedNames(Mutex<Option<Names>>);

/// One item of a server's list.
pub(crate) struct Listed<'l> {
    pub(crate) item: &'l ServerItem,
    /// Its definition as it came.
    pub(crate) json: &'l [u8],
    /// The definition without what the scan found private in it; absent where it was not wholly scanned.
    pub(crate) shown: Option<Cow<'l, [u8]>>,
}

/// The proof that what is asked of is what was approved, where that is asked for.
pub struct Approved {
    pub(crate) permitted: Permitted,
}

impl Case<'_> {
    /// Refuses the call of an item that is held.
    ///
    /// # Errors
    /// `scan.tool` where it is.
    pub fn approve(&mut self, permitted: Permitted) -> Result<Approved, Refusal> {
        let item = self.call.resource.as_item();
        let item = item.filter(|_| self.call.action.is_pinned);
        let (Some(pins), Some((server, item))) = (&self.gate.ports.pins, item) else {
            return Ok(Approved { permitted });
        };
        let Some(held) = pins.held(server, item) else {
            return Ok(Approved { permitted });
        };
        let place = scan::Place {
            direction: Direction::Description,
            lane: self.call.action.lane.name,
            target: server.as_str(),
            agent: permitted.principal.name.as_str(),
            now_s: self.now.unix_ms / 1000,
        };
        let judged = self.rules.engine.tool_is(wrong(held.why), place);
        if judged.action != Action::Refuse {
            return Ok(Approved { permitted });
        }
        let path = match item.kind {
            ItemKind::Tool | ItemKind::Prompt => "params.name",
            ItemKind::Resource => "params.uri",
            ItemKind::Card => "card",
        };
        self.trail
            .found(vec![finding(judged, path.into(), &held.digest)]);
        Err(refuse(judged, item.kind, &held))
    }
}

fn wrong(why: HoldReason) -> Wrong {
    match why {
        HoldReason::Changed => Wrong::Changed,
        HoldReason::Lookalike => Wrong::Like(Likeness::Confusable),
        HoldReason::Refused => Wrong::Refused,
    }
}

/// A definition is no secret, so the fingerprint is the start of its digest: what is told in a list and
/// what is told of a call can be joined.
fn finding(judged: Judged, path: String, digest: &Digest) -> Finding {
    let start = digest.0[..8].try_into().expect("a digest has 32 bytes");
    Finding {
        rule: judged.rule.id,
        path,
        action: judged.action.as_str(),
        fingerprint: u64::from_be_bytes(start),
        span: (0, 0),
        disguise: "",
        exempt: None,
    }
}

fn refuse(judged: Judged, kind: ItemKind, held: &HeldItem) -> Refusal {
    let why = match &held.rule {
        Some(rule) => format!("{}: its definition met {rule}", judged.rule.id),
        None => judged.rule.id.to_owned(),
    };
    Refusal::new(
        refusal::TOOL_CHANGED,
        format!("the {} waits for approval ({why})", kind.as_str()),
    )
}

/// Whether what is known of a definition still goes with what the scan says of it now: rules can change.
fn is_current(standing: &Standing, refused: Option<&str>) -> bool {
    match standing {
        Standing::Held(held) => held.rule.as_deref() == refused,
        Standing::Approved => refused.is_none(),
        Standing::Accepted | Standing::New => true,
    }
}

impl Passed {
    /// Takes notice of one item's definition. `refused` is the rule of the scan that refused it, where one
    /// did. Refuses what is held, and what there is no room to remember; gives whether a person accepted
    /// what the scan refused.
    pub(crate) fn pin(
        &mut self,
        listed: &Listed<'_>,
        root: &str,
        refused: Option<&'static str>,
    ) -> Result<bool, Refusal> {
        let pins = self.gate().ports.pins.clone();
        let server = self.resource().as_server().cloned();
        let Some((pins, server)) = pins.zip(server) else {
            return Ok(false);
        };
        let bytes = Digest(scan::tool::digest(listed.json));
        let standing = match pins.known(&server, listed.item, &bytes) {
            Some(standing) if is_current(&standing, refused) => standing,
            _ => self.look(&*pins, &server, (listed, bytes), root, refused)?,
        };
        let held = match standing {
            Standing::Held(held) => held,
            Standing::Accepted => return Ok(true),
            Standing::New | Standing::Approved => return Ok(false),
        };
        let judged = self.judged(wrong(held.why));
        if judged.action != Action::Off {
            self.note(finding(judged, root.to_owned(), &held.digest));
        }
        match judged.action {
            Action::Refuse => Err(refuse(judged, listed.item.kind, &held)),
            Action::Redact | Action::Warn | Action::Off => Ok(false),
        }
    }

    fn judged(&self, wrong: Wrong) -> Judged {
        let now = self.now();
        let place = self.place(Direction::Description, now);
        self.rules.engine.tool_is(wrong, place)
    }

    /// Whether the scan finds something private in a name, or cannot look.
    fn is_private(&self, name: &str) -> bool {
        let place = self.place(Direction::Description, self.now());
        let report = self.rules.engine.text(place, name, "");
        report.map_or(true, |report| {
            matches!(report.masked(name.as_bytes()), Cow::Owned(_))
        })
    }

    /// Reads a definition that was not seen since the start.
    fn look(
        &mut self,
        pins: &dyn Pins,
        server: &Name,
        (listed, bytes): (&Listed<'_>, Digest),
        root: &str,
        refused: Option<&'static str>,
    ) -> Result<Standing, Refusal> {
        let item = listed.item;
        let is_tool = item.kind == ItemKind::Tool;
        let read = match item.kind {
            ItemKind::Tool | ItemKind::Prompt | ItemKind::Card => Definition::read,
            ItemKind::Resource => Definition::read_resource,
        };
        let definition = read(listed.json)
            .map_err(|error| Refusal::new(refusal::ANSWER_INVALID, error.to_string()))?;
        let shown = match &listed.shown {
            Some(Cow::Borrowed(_)) => Some(definition.clone()),
            Some(Cow::Owned(masked)) => read(masked).ok(),
            None => None,
        };
        let sight = SeenDefinition {
            server,
            item,
            is_private: match &shown {
                Some(shown) => shown.name() != definition.name(),
                None => self.is_private(&item.name),
            },
            digest: Digest(definition.digest()),
            definition: shown.as_ref().map(Definition::as_str),
            bytes,
        };
        // Models choose tools by their names; prompts and resources are chosen by people, and by lists.
        let names = Some(&self.gate().approved_names).filter(|_| is_tool);
        let like = names.and_then(|names| names.find(pins, sight.server, &item.name));
        let trust = match (&like, refused) {
            (_, Some(rule)) => Trust::Refused(rule.into()),
            (Some((likeness, what)), None)
                if self.judged(Wrong::Like(*likeness)).action == Action::Refuse =>
            {
                Trust::Hold(what.clone())
            }
            _ => Trust::FirstUse,
        };
        let now = self.now();
        let standing = pins.see(&sight, trust, now).map_err(|_full| {
            let what = "the server lists more items than are remembered";
            Refusal::new(refusal::ANSWER_TOO_LARGE, what)
        })?;
        if standing == Standing::New {
            if is_tool && !sight.is_private {
                self.gate().approved_names.add(sight.server, &item.name);
            }
            let judged = like.map(|(likeness, _)| self.judged(Wrong::Like(likeness)));
            if let Some(judged) = judged.filter(|judged| judged.action != Action::Off) {
                self.note(finding(judged, format!("{root}.name"), &sight.digest));
            }
        }
        Ok(standing)
    }
}

impl ApprovedNames {
    /// What a tool can be taken for, in words too.
    fn find(&self, pins: &dyn Pins, server: &Name, tool: &str) -> Option<(Likeness, String)> {
        self.with(pins, |names| {
            let (likeness, server, other) = names.find(server.as_str(), tool)?;
            let what = match likeness {
                Likeness::Disguised => "its name hides characters".to_owned(),
                _ => format!("its name looks like {other} of {server}"),
            };
            Some((likeness, what))
        })
    }

    fn add(&self, server: &Name, tool: &str) {
        let mut names = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        if let Some(names) = &mut *names {
            names.add(server.as_str(), tool);
        }
    }

    fn with<T>(&self, pins: &dyn Pins, ask: impl FnOnce(&Names) -> T) -> T {
        let mut names = self.0.lock().unwrap_or_else(|broken| broken.into_inner());
        ask(names.get_or_insert_with(|| {
            let mut names = Names::default();
            pins.names(&mut |server, tool| names.add(server.as_str(), tool));
            names
        }))
    }
}
