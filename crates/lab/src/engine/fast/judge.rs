//! Judges an answer while it streams by: status, fields, and every byte of the body where that is asked.
//!
//! Nothing of a body is kept but the few bytes around the first difference, and what a text that is looked
//! for could have begun with at the end of a piece.

use std::ops::Range;

use httparse::Header;
use memchr::memmem;

use crate::plan::{BodyCheck, Expect};
use crate::tally::Fault;

use super::answer::Listener;

/// Most bytes that are shown around the first wrong one.
const SHOWN_BYTES_MAX: usize = 32;
/// Of these, most that come before it.
const SHOWN_BEFORE_MAX: usize = 8;

/// What was sent and has to come back.
pub(super) struct Sent<'a> {
    pub body: &'a [u8],
    /// The value of `weir-lab-id`; empty if it was not sent.
    pub id: &'a [u8],
    pub content_type: Option<&'a [u8]>,
}

/// What is known of an answer so far.
#[derive(Default)]
pub(super) struct Findings {
    pub status: u16,
    /// Bytes of the body until now.
    pub body_bytes: u64,
    wrong: Option<Box<Difference>>,
    /// The text that is looked for was there.
    found: bool,
    /// The end of the last piece, as long as the text that is looked for could have begun in it.
    tail: Vec<u8>,
}

/// What was wrong first.
pub(super) struct Difference {
    pub fault: Fault,
    pub what: String,
    /// Of the first wrong byte in the body, with the bytes around it.
    pub at: Option<(u64, Vec<u8>, Vec<u8>)>,
}

impl Findings {
    /// Makes ready for the next answer.
    pub(super) fn clear(&mut self) {
        self.status = 0;
        self.body_bytes = 0;
        self.wrong = None;
        self.found = false;
        self.tail.clear();
    }

    /// What is wrong with the answer, now that it is complete. The status comes first: who answers 503 owes no echo.
    pub(super) fn verdict(
        &mut self,
        expect: &Expect,
        sent: &Sent,
    ) -> Result<(), Option<Box<Difference>>> {
        if !expect.status(self.status) {
            return Err(None);
        }
        if self.wrong.is_none() {
            self.wrong = self.missing(expect, sent);
        }
        self.wrong
            .take()
            .map_or(Ok(()), |difference| Err(Some(difference)))
    }

    /// What of the body did not come, if nothing else is wrong.
    fn missing(&self, expect: &Expect, sent: &Sent) -> Option<Box<Difference>> {
        let (fault, due) = match &expect.body {
            BodyCheck::Any => return None,
            BodyCheck::Contains(_) if self.found => return None,
            BodyCheck::Contains(text) if text.is_empty() => return None,
            BodyCheck::Contains(_) => {
                return Some(Box::new(Difference {
                    fault: Fault::Check,
                    what: "the body does not hold the text that was expected".to_owned(),
                    at: None,
                }));
            }
            BodyCheck::Echo => (Fault::Integrity, sent.body),
            BodyCheck::Exact(body) => (Fault::Check, body.as_slice()),
        };
        let got = self.body_bytes as usize;
        (got < due.len()).then(|| {
            let shown = shown(due, got);
            Box::new(Difference {
                fault,
                what: format!("the body ends after {got} bytes, not {}", due.len()),
                at: Some((got as u64, due[shown].to_vec(), Vec::new())),
            })
        })
    }
}

/// The bytes to show around one, so that at least this one is in it if there is one.
fn shown(bytes: &[u8], at: usize) -> Range<usize> {
    let begin = at.saturating_sub(SHOWN_BEFORE_MAX);
    begin..bytes.len().min(begin + SHOWN_BYTES_MAX)
}

/// Compares one answer with what is expected of it.
pub(super) struct Judge<'a> {
    pub expect: &'a Expect,
    pub sent: Sent<'a>,
    pub findings: &'a mut Findings,
}

impl Judge<'_> {
    fn wrong(&mut self, fault: Fault, what: String) {
        self.findings.wrong.get_or_insert_with(|| {
            Box::new(Difference {
                fault,
                what,
                at: None,
            })
        });
    }

    /// Compares a piece with what is due at its place.
    fn compare(findings: &mut Findings, fault: Fault, due: &[u8], piece: &[u8]) {
        let offset = usize::try_from(findings.body_bytes).unwrap_or(usize::MAX);
        let rest = due.get(offset..).unwrap_or_default();
        if findings.wrong.is_some() || rest.starts_with(piece) {
            return;
        }
        let same = rest.iter().zip(piece).take_while(|(a, b)| a == b).count();
        let what = if same == rest.len() {
            format!("the body goes on after its {} bytes", due.len())
        } else {
            format!("the body differs at byte {}", offset + same)
        };
        // The same bytes of both, so that the two columns stand under each other.
        let (expected, received) = (shown(rest, same), shown(piece, same));
        findings.wrong = Some(Box::new(Difference {
            fault,
            what,
            at: Some((
                (offset + same) as u64,
                rest[expected].to_vec(),
                piece[received].to_vec(),
            )),
        }));
    }

    /// Looks for a text in a piece and over the border to the piece before.
    fn search(findings: &mut Findings, text: &[u8], piece: &[u8]) {
        if findings.found || text.is_empty() {
            return;
        }
        let reach = text.len() - 1;
        // The border: at most `reach` bytes of either side.
        let tail = &mut findings.tail;
        let before = tail.len();
        tail.extend_from_slice(&piece[..piece.len().min(reach)]);
        findings.found = memmem::find(tail, text).is_some() || memmem::find(piece, text).is_some();
        if piece.len() >= reach {
            tail.clear();
            tail.extend_from_slice(&piece[piece.len() - reach..]);
        } else {
            let surplus = (before + piece.len()).saturating_sub(reach);
            tail.drain(..surplus);
        }
    }
}

impl Listener for Judge<'_> {
    fn wants_fields(&self) -> bool {
        self.expect.body == BodyCheck::Echo || !self.expect.headers.is_empty()
    }

    fn head(&mut self, status: u16, fields: &[Header<'_>]) {
        self.findings.status = status;
        if !self.expect.status(status) {
            return;
        }
        let expect = self.expect;
        for (name, value) in &expect.headers {
            if !has(fields, name, value.as_bytes()) {
                let what =
                    format!("the field {name} is not there with the value that was expected");
                self.wrong(Fault::Check, what);
            }
        }
        if expect.body != BodyCheck::Echo {
            return;
        }
        if !has(fields, "weir-lab-id", self.sent.id) {
            let what = "the field weir-lab-id did not come back as it was sent".to_owned();
            self.wrong(Fault::Integrity, what);
        }
        if let Some(sent) = self.sent.content_type
            && !has(fields, "content-type", sent)
        {
            let what = "the field content-type did not come back as it was sent".to_owned();
            self.wrong(Fault::Integrity, what);
        }
    }

    fn body(&mut self, piece: &[u8]) {
        match &self.expect.body {
            BodyCheck::Any => {}
            _ if !self.expect.status(self.findings.status) => {}
            BodyCheck::Echo => {
                Judge::compare(self.findings, Fault::Integrity, self.sent.body, piece);
            }
            BodyCheck::Exact(body) => Judge::compare(self.findings, Fault::Check, body, piece),
            BodyCheck::Contains(text) => Judge::search(self.findings, text, piece),
        }
        self.findings.body_bytes += piece.len() as u64;
    }
}

/// Whether a field is there, with exactly this value, and with no other.
fn has(fields: &[Header<'_>], name: &str, value: &[u8]) -> bool {
    let mut values = fields
        .iter()
        .filter(|field| field.name.eq_ignore_ascii_case(name));
    values.next().is_some_and(|field| field.value == value) && values.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

    /// Judges a body that comes in pieces of one size.
    fn judged(check: BodyCheck, body: &[u8], piece: usize) -> Result<(), Difference> {
        let expect = Expect {
            body: check,
            ..Expect::default()
        };
        let sent = || Sent {
            body: SENT,
            id: b"x-1",
            content_type: Some(b"text/plain"),
        };
        let mut findings = Findings::default();
        let mut judge = Judge {
            expect: &expect,
            sent: sent(),
            findings: &mut findings,
        };
        let field = |name, value| Header { name, value };
        let fields = [
            field("Weir-Lab-Id", b"x-1".as_slice()),
            field("Content-Type", b"text/plain"),
        ];
        judge.head(200, &fields);
        body.chunks(piece).for_each(|piece| judge.body(piece));
        let verdict = findings.verdict(&expect, &sent());
        verdict.map_err(|difference| *difference.expect("the status is good"))
    }

    #[test]
    fn one_wrong_byte_is_found_wherever_it_is_and_however_it_comes() {
        let exact = BodyCheck::Exact(SENT.to_vec());
        for (check, fault) in [(BodyCheck::Echo, Fault::Integrity), (exact, Fault::Check)] {
            for piece in 1..=SENT.len() {
                assert!(judged(check.clone(), SENT, piece).is_ok());
                for at in 0..SENT.len() {
                    let mut body = SENT.to_vec();
                    body[at] ^= 1;
                    let found = judged(check.clone(), &body, piece).unwrap_err();
                    let (offset, expected, received) = found.at.unwrap();
                    assert_eq!((found.fault, offset), (fault, at as u64));
                    assert!(expected.contains(&SENT[at]) && received.contains(&body[at]));
                }
                let short = judged(check.clone(), &SENT[..30], piece).unwrap_err();
                assert_eq!(short.at.unwrap().0, 30);
                let long = judged(check.clone(), &[SENT, b"!"].concat(), piece).unwrap_err();
                assert_eq!(long.at.unwrap().0, 36);
            }
        }
    }

    #[test]
    fn a_text_is_found_over_every_border() {
        let contains = |text: &[u8]| BodyCheck::Contains(text.to_vec());
        for piece in 1..=SENT.len() {
            for text in [&SENT[..1], &SENT[7..19], &SENT[30..], SENT, b""] {
                assert!(judged(contains(text), SENT, piece).is_ok(), "{piece}");
            }
            for text in [
                b"9b".as_slice(),
                b"xyz0",
                b"0123456789abcdefghijklmnopqrstuvwxyz0",
            ] {
                let found = judged(contains(text), SENT, piece).unwrap_err();
                assert_eq!(found.fault, Fault::Check);
            }
        }
    }

    #[test]
    fn fields_are_compared_and_the_status_comes_first() {
        let expect = Expect {
            headers: vec![("x-part".into(), "a".into())],
            body: BodyCheck::Echo,
            ..Expect::default()
        };
        let check = |status, fields: &[Header<'_>]| {
            let mut findings = Findings::default();
            let sent = || Sent {
                body: b"",
                id: b"x-1",
                content_type: None,
            };
            let mut judge = Judge {
                expect: &expect,
                sent: sent(),
                findings: &mut findings,
            };
            judge.head(status, fields);
            let verdict = findings.verdict(&expect, &sent());
            verdict.map_err(|difference| difference.map(|found| found.fault))
        };
        let field = |name, value: &'static str| Header {
            name,
            value: value.as_bytes(),
        };
        let (id, part) = (field("weir-lab-id", "x-1"), field("X-Part", "a"));
        assert_eq!(check(200, &[id, part]), Ok(()));
        assert_eq!(check(200, &[id]), Err(Some(Fault::Check)));
        assert_eq!(check(200, &[part]), Err(Some(Fault::Integrity)));
        assert_eq!(check(200, &[id, id, part]), Err(Some(Fault::Integrity)));
        let other = field("weir-lab-id", "x-2");
        assert_eq!(check(200, &[other, part]), Err(Some(Fault::Integrity)));
        assert_eq!(check(503, &[]), Err(None));
    }
}
