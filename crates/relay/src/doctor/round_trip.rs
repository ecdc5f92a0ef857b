//! One sealed request through to the origin, and its answer.

use std::sync::Arc;

use seal::bhttp::{Decoder, Encoder, Event, Fault, Length, Limits, Reading, RequestLine};
use seal::chunk::Piece;
use seal::{Answering, Attempt, Code, Moment, Outbox, Response, Session};

use super::exchange::Way;
use super::{Findings, Request};
use crate::outer;
use crate::random;
use crate::settings::Problem;

const CHECK: &str = "round trip";

/// Who answered inside the seal.
enum Opened {
    Origin(u16),
    /// The inbound itself, which did not pass the request on or has nothing of an answer.
    Inbound(Code),
}

/// Sends the request, and says what came of it.
pub(super) async fn check(
    way: &Way,
    request: &Request<'_>,
    session: &Arc<Session>,
    findings: &mut Findings,
) -> Result<(), Problem> {
    let plain = match encoded(request) {
        Ok(plain) => plain,
        Err(fault) => {
            let mend = "Name a host and a path that a request may have.";
            findings.bad(CHECK, fault.to_string(), mend);
            return Ok(());
        }
    };
    let mut outbox = Outbox::default();
    let moment = Moment {
        now: way.now(),
        generation: 0,
    };
    let id = random::draw().map_err(|_| Problem::Random)?;
    let mut sealed = Vec::new();
    let begun = outbox.request(session, moment, || id, None, &mut sealed);
    let attempt = begun.and_then(|(attempt, mut sealing)| {
        sealing.push(&mut sealed, &plain, Piece::Last)?;
        Ok(attempt)
    });
    let attempt = match attempt {
        Ok(attempt) => attempt,
        Err(error) => {
            findings.bad(CHECK, error.message(), "This is a fault of weir; tell us.");
            return Ok(());
        }
    };
    let mend = "Look at the inbound's log, and at what stands before it: limits of bodies and of time, and what it does to POST.";
    match way.ask("POST", outer::PATH, Some(&sealed)).await {
        Err(what) => findings.bad(CHECK, what, mend),
        Ok(reply) if reply.status != 200 => {
            findings.bad(CHECK, format!("answered {} in plain", reply.status), mend);
        }
        Ok(mut reply) => match open(&mut outbox, session, attempt, &mut reply.body) {
            Ok(Opened::Origin(status)) => {
                let (Request { host, path }, ms) = (request, reply.took.as_millis());
                findings.good(CHECK, format!("HEAD {path} of {host}: {status} in {ms} ms"));
            }
            Ok(Opened::Inbound(code)) => inbound_says(code, findings),
            Err(what) => findings.bad(CHECK, what, mend),
        },
    }
    Ok(())
}

/// The request as Binary HTTP.
fn encoded(request: &Request<'_>) -> Result<Vec<u8>, Fault> {
    let line = RequestLine {
        method: b"HEAD",
        scheme: b"https",
        authority: request.host.as_bytes(),
        path: request.path.as_bytes(),
    };
    let mut plain = Vec::new();
    let limits = Limits::default();
    let encoder = Encoder::request(&mut plain, &limits, &line, [], None, Length::Whole(0))?;
    encoder.finish(&mut plain, [])?;
    Ok(plain)
}

fn open(
    outbox: &mut Outbox,
    session: &Arc<Session>,
    attempt: Attempt,
    body: &mut [u8],
) -> Result<Opened, String> {
    const HEAD: usize = seal::head::RESPONSE_BYTES;
    let short = "the answer is shorter than one";
    let (head, rest) = body.split_first_chunk_mut::<HEAD>().ok_or(short)?;
    let failed = |error: seal::Error| format!("the answer does not open: {}", error.message());
    let answering: Answering = outbox.response(session, attempt, head).map_err(failed)?;
    let length = rest.first_chunk::<4>().ok_or(short)?;
    let length = (u32::from_be_bytes(*length) & 0x7fff_ffff) as usize;
    let chunk = rest.get_mut(..4 + length).ok_or(short)?;
    match answering.first(outbox, chunk).map_err(failed)? {
        Response::Weir(answer) => Ok(Opened::Inbound(answer.code)),
        Response::Origin(_, text) => {
            let status = status(text).map_err(|fault| fault.to_string())?;
            Ok(Opened::Origin(status.ok_or(short)?))
        }
    }
}

/// The status of an answer to HEAD, in Binary HTTP; nothing where its head is not whole.
fn status(mut text: &[u8]) -> Result<Option<u16>, Fault> {
    let mut decoder = Decoder::new(Limits::default(), Reading::ResponseToHead);
    loop {
        match decoder.read(&mut text)? {
            Event::Head => return Ok(decoder.status()),
            Event::More | Event::Done => return Ok(None),
            Event::Interim | Event::Content(_) => {}
        }
    }
}

fn inbound_says(code: Code, findings: &mut Findings) {
    let mend = match code {
        Code::Stale => "The clocks differ; see above.",
        Code::Draining | Code::Overload => {
            "The inbound is ending or busy, or began less than two seconds ago; try again."
        }
        Code::Refused => {
            "The inbound's policy or routes refuse it: see its log, or name another --host and --path."
        }
        Code::NotReached | Code::Failed => {
            "The inbound works, and the origin behind it does not: look there."
        }
        Code::Claimed | Code::Malformed | Code::Cut => "See the inbound's log.",
    };
    findings.bad(CHECK, format!("the inbound says: {}", code.name()), mend);
}
