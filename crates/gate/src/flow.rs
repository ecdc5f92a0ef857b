//! Text that comes in pieces, both ways and over several channels: scanned as it flows, under the judgement of its
//! call.
//!
//! A channel is one text: the content of one choice of a model's answer, its reasoning, the arguments of one of its
//! tool calls. What may still belong to something that the rules look for is held back; the rest goes on at once.
//!
//! Example: of the pieces `my key is AK`, `IA…`, the first lets `my key is ` go, and the second refuses.

use base::{Refusal, refusal};
use scan::{Action, Finding, Stream};

use crate::call::Role;
use crate::inspect::{refuse_for, too_much};
use crate::passed::Passed;
use crate::trail::to_record;

/// One text of a call that passed, as far as it came. It ends with the call, or before it.
pub struct Channel {
    role: Role,
    /// Where the text stands in the message, for the paths of findings.
    path: String,
    stream: Stream,
    /// A finding refused: nothing goes on any more.
    is_cut: bool,
}

impl Channel {
    /// A text of which nothing came yet.
    pub fn new(role: Role, path: impl Into<String>) -> Channel {
        Channel {
            role,
            path: path.into(),
            stream: Stream::default(),
            is_cut: false,
        }
    }

    /// Takes the next piece, and adds what may go on to `out`.
    ///
    /// # Errors
    /// The refusal of a finding, or `scan.bound`: the text is to be cut, and takes nothing any more. What was added
    /// to `out` before may go on.
    pub fn push(
        &mut self,
        passed: &mut Passed,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if passed.observes() {
            out.extend_from_slice(piece);
            return self.watch(passed, |stream, engine, place, unused| {
                stream.push(engine, place, piece, unused)
            });
        }
        self.scan(passed, |stream, engine, place| {
            stream.push(engine, place, piece, out)
        })
    }

    /// Adds the rest to `out`: the text has ended.
    ///
    /// # Errors
    /// As [`Channel::push`].
    pub fn finish(&mut self, passed: &mut Passed, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if passed.observes() {
            return self.watch(passed, |stream, engine, place, unused| {
                stream.finish(engine, place, unused)
            });
        }
        self.scan(passed, |stream, engine, place| {
            stream.finish(engine, place, out)
        })
    }

    /// Scans what goes on in any case. After what would have cut the text no more of it is looked at.
    fn watch(
        &mut self,
        passed: &mut Passed,
        scan: impl FnOnce(
            &mut Stream,
            &scan::Engine,
            scan::Place<'_>,
            &mut Vec<u8>,
        ) -> Result<Vec<Finding>, scan::Bound>,
    ) -> Result<(), Refusal> {
        if self.is_cut {
            return Ok(());
        }
        let mut unused = Vec::new();
        let found = self.scan(passed, |stream, engine, place| {
            scan(stream, engine, place, &mut unused)
        });
        found.or_else(|refusal| passed.objects(refusal))
    }

    /// How many bytes of what came have gone on, or were replaced.
    pub fn gone(&self) -> usize {
        self.stream.gone()
    }

    fn scan(
        &mut self,
        passed: &mut Passed,
        scan: impl FnOnce(
            &mut Stream,
            &scan::Engine,
            scan::Place<'_>,
        ) -> Result<Vec<Finding>, scan::Bound>,
    ) -> Result<(), Refusal> {
        if self.is_cut {
            return Err(Refusal::new(refusal::FAILED, "the text was cut before"));
        }
        let now = passed.now();
        let place = passed.place(direction(self.role), now);
        let found = scan(&mut self.stream, &passed.rules.engine, place);
        let found = found.map_err(|bound| {
            self.is_cut = true;
            too_much(bound)
        })?;
        for finding in &found {
            passed.note(base::record::Finding {
                path: self.path.clone(),
                ..to_record(finding)
            });
        }
        let replaced = found
            .iter()
            .find(|finding| finding.action == Action::Redact);
        if let Some(finding) = replaced.filter(|_| passed.observes()) {
            passed.objects(refuse_for(finding, &self.path))?;
        }
        let refused = found
            .iter()
            .find(|finding| finding.action == Action::Refuse);
        refused.map_or(Ok(()), |finding| {
            self.is_cut = true;
            Err(refuse_for(finding, &self.path))
        })
    }
}

/// What a model or a server says of itself comes in, whatever it would be in a request.
fn direction(role: Role) -> scan::Direction {
    match role {
        Role::Assistant | Role::ToolResult => scan::Direction::Incoming,
        other => other.direction(),
    }
}
