//! Whether an answer is the right one: its head at once, its body as it comes.
//!
//! A body is compared piece by piece, so its size does not matter; only the place of the first wrong byte is kept.

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, header};
use memchr::memmem;

use super::fault::{Bad, Spot, quoted};
use crate::plan::{BodyCheck, Expect};
use crate::tally::Fault;

/// Bytes shown before and after a wrong one.
const AROUND_BYTES: usize = 16;

/// What the request was, as far as its answer repeats it.
#[derive(Clone, Default)]
pub struct Asked {
    pub body: Bytes,
    /// The field `weir-lab-id`, where it was sent.
    pub id: Option<http::HeaderValue>,
    pub content_type: Option<http::HeaderValue>,
}

/// Looks at status and fields.
///
/// # Errors
///
/// The status is not good, or a field is not as expected.
pub(super) fn head(expect: &Expect, asked: &Asked, parts: &Parts) -> Result<(), Bad> {
    let status = parts.status.as_u16();
    if !expect.status(status) {
        return Err(Bad::new(
            Fault::of_status(status),
            format!("status {status}"),
        ));
    }
    for (name, value) in &expect.headers {
        let found = parts.headers.get(name).map(http::HeaderValue::as_bytes);
        if found != Some(value.as_bytes()) {
            return Err(Bad::new(
                Fault::Check,
                format!("the field `{name}` is {}, not `{value}`", shown(found)),
            ));
        }
    }
    if expect.body == BodyCheck::Echo {
        same(&parts.headers, "weir-lab-id", asked.id.as_ref())?;
        let content_type = header::CONTENT_TYPE;
        same(
            &parts.headers,
            content_type.as_str(),
            asked.content_type.as_ref(),
        )?;
    }
    Ok(())
}

/// A field must come back as it was sent; one that was not sent may be anything.
fn same(headers: &HeaderMap, name: &str, sent: Option<&http::HeaderValue>) -> Result<(), Bad> {
    match (sent, headers.get(name)) {
        (Some(sent), found) if found != Some(sent) => Err(Bad::new(
            Fault::Integrity,
            format!(
                "the field `{name}` came back as {}, sent was {}",
                shown(found.map(http::HeaderValue::as_bytes)),
                shown(Some(sent.as_bytes())),
            ),
        )),
        _ => Ok(()),
    }
}

fn shown(value: Option<&[u8]>) -> String {
    match value {
        Some(value) => format!("`{}`", quoted(&String::from_utf8_lossy(value))),
        None => "absent".to_owned(),
    }
}

/// The body of one answer, looked at as it comes.
pub(super) struct Checker<'a> {
    want: Want<'a>,
    /// Bytes seen.
    seen: u64,
    spot: Option<Spot>,
    found: bool,
    /// The end of what was seen, shorter than what is sought.
    tail: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Want<'a> {
    Any,
    Equal { bytes: &'a [u8], fault: Fault },
    Within(&'a [u8]),
}

impl<'a> Checker<'a> {
    pub(super) fn new(expect: &'a Expect, asked: &'a Asked) -> Checker<'a> {
        let want = match &expect.body {
            BodyCheck::Any => Want::Any,
            BodyCheck::Echo => Want::Equal {
                bytes: &asked.body,
                fault: Fault::Integrity,
            },
            BodyCheck::Exact(bytes) => Want::Equal {
                bytes,
                fault: Fault::Check,
            },
            BodyCheck::Contains(bytes) => Want::Within(bytes),
        };
        Checker {
            want,
            seen: 0,
            spot: None,
            found: false,
            tail: Vec::new(),
        }
    }

    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        match self.want {
            Want::Any => {}
            Want::Equal { bytes, .. } => self.compare(bytes, piece),
            Want::Within(needle) => self.seek(needle, piece),
        }
        self.seen += piece.len() as u64;
    }

    fn compare(&mut self, expected: &[u8], piece: &[u8]) {
        let from = usize::try_from(self.seen).unwrap_or(usize::MAX);
        let rest = expected.get(from..).unwrap_or_default();
        if self.spot.is_some() || rest.get(..piece.len()) == Some(piece) {
            return;
        }
        let equal = rest.iter().zip(piece).take_while(|(a, b)| a == b).count();
        let at = from + equal;
        let begin = at.saturating_sub(AROUND_BYTES).min(expected.len());
        let until = (at + AROUND_BYTES).min(expected.len());
        let mut received = expected[begin..at.min(expected.len())].to_vec();
        received.extend(piece[equal..].iter().take(AROUND_BYTES));
        self.spot = Some(Spot {
            offset: at as u64,
            expected: expected[begin..until].to_vec(),
            received,
        });
    }

    fn seek(&mut self, needle: &[u8], piece: &[u8]) {
        if self.found {
            return;
        }
        let keep = needle.len().saturating_sub(1);
        // What straddles the border is in the tail and as much of the piece.
        self.tail.extend(piece.iter().take(keep));
        self.found =
            memmem::find(&self.tail, needle).is_some() || memmem::find(piece, needle).is_some();
        if piece.len() > keep {
            self.tail.clear();
            self.tail.extend_from_slice(&piece[piece.len() - keep..]);
        } else {
            let over = self.tail.len().saturating_sub(keep);
            self.tail.drain(..over);
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    ///
    /// It is not what was expected.
    pub(super) fn finish(self) -> Result<(), Bad> {
        match self.want {
            Want::Any => Ok(()),
            Want::Within(needle) if self.found || needle.is_empty() => Ok(()),
            Want::Within(_) => Err(Bad::new(
                Fault::Check,
                "the text that was expected is not in the body",
            )),
            Want::Equal { bytes, fault } => self.equal(bytes, fault),
        }
    }

    fn equal(self, expected: &[u8], fault: Fault) -> Result<(), Bad> {
        let (seen, whole) = (self.seen, expected.len() as u64);
        let (what, spot) = match self.spot {
            Some(spot) if spot.offset >= whole => {
                (format!("the body has {seen} bytes, not {whole}"), spot)
            }
            Some(spot) => (format!("byte {} of {whole} is wrong", spot.offset), spot),
            None if seen < whole => {
                let begin = expected.len().min(seen as usize);
                let from = begin.saturating_sub(AROUND_BYTES);
                let until = (begin + AROUND_BYTES).min(expected.len());
                let spot = Spot {
                    offset: seen,
                    expected: expected[from..until].to_vec(),
                    received: expected[from..begin].to_vec(),
                };
                (format!("the body ends after {seen} of {whole} bytes"), spot)
            }
            None => return Ok(()),
        };
        Err(Bad {
            fault,
            what,
            spot: Some(spot),
        })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{Asked, Checker};
    use crate::plan::{BodyCheck, Expect};
    use crate::tally::Fault;

    /// Checks a body in two pieces at every cut; the outcome must not depend on it. Gives fault and offset.
    fn check(body: BodyCheck, sent: &[u8], received: &[u8]) -> Option<(Fault, Option<u64>)> {
        let expect = Expect {
            body,
            ..Expect::default()
        };
        let asked = Asked {
            body: Bytes::copy_from_slice(sent),
            ..Asked::default()
        };
        let outcomes: Vec<_> = (0..=received.len())
            .map(|cut| {
                let mut checker = Checker::new(&expect, &asked);
                checker.push(&received[..cut]);
                checker.push(&received[cut..]);
                let bad = checker.finish().err()?;
                Some((bad.fault, bad.spot.map(|spot| spot.offset)))
            })
            .collect();
        assert!(outcomes.iter().all(|o| *o == outcomes[0]), "{outcomes:?}");
        outcomes[0]
    }

    #[test]
    fn a_wrong_byte_is_found_with_its_offset() {
        let sent: Vec<u8> = (0..100).collect();
        assert_eq!(check(BodyCheck::Echo, &sent, &sent), None);
        for at in [0, 1, 50, 99] {
            let mut wrong = sent.clone();
            wrong[at] ^= 1;
            let expected = Some((Fault::Integrity, Some(at as u64)));
            assert_eq!(check(BodyCheck::Echo, &sent, &wrong), expected);
        }
        let short = check(BodyCheck::Echo, &sent, &sent[..70]);
        assert_eq!(short, Some((Fault::Integrity, Some(70))));
        let long = [sent.as_slice(), b"x"].concat();
        let long = check(BodyCheck::Exact(sent), b"", &long);
        assert_eq!(long, Some((Fault::Check, Some(100))));
    }

    #[test]
    fn a_text_is_found_across_pieces() {
        let contains = |text: &str| BodyCheck::Contains(text.as_bytes().to_vec());
        assert_eq!(check(contains("needle"), b"", b"a needle in hay"), None);
        assert_eq!(check(contains("n"), b"", b"n"), None);
        assert_eq!(check(contains(""), b"", b""), None);
        let missed = Some((Fault::Check, None));
        assert_eq!(check(contains("needle"), b"", b"a needl in hay"), missed);
        assert_eq!(check(contains("aab"), b"", b"aaaab"), None);
    }

    #[test]
    fn a_text_is_found_byte_by_byte() {
        let expect = Expect {
            body: BodyCheck::Contains(b"needle".to_vec()),
            ..Expect::default()
        };
        let asked = Asked::default();
        let mut checker = Checker::new(&expect, &asked);
        b"a needle in hay"
            .chunks(1)
            .for_each(|byte| checker.push(byte));
        assert_eq!(checker.finish(), Ok(()));
    }
}
