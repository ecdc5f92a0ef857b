//! The control data of a request that came in HTTP/1.1.
//!
//! It exists so that the authority has one source: the target where it names one (RFC 9112 §3.2.2), Host elsewhere. It
//! refuses targets that only name a host (CONNECT), and a query without a path, which would have to be mended.

use super::{Fault, RequestLine, rules};

/// The scheme by which the origin is spoken to, for targets that name none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// As it stands in the control data.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Scheme::Http => b"http",
            Scheme::Https => b"https",
        }
    }
}

/// Makes the control data of the parts of a request line and of Host.
///
/// # Errors
/// [`Fault::Connect`] (501), and [`Fault::Method`], [`Fault::Authority`] or [`Fault::Path`] (400).
pub fn request_line<'a>(
    method: &'a [u8],
    target: &'a [u8],
    host: Option<&'a [u8]>,
    scheme: Scheme,
) -> Result<RequestLine<'a>, Fault> {
    let line = match absolute(target) {
        Some((scheme, rest)) => {
            let end = rest
                .iter()
                .position(|byte| matches!(byte, b'/' | b'?' | b'#'));
            let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
            RequestLine {
                method,
                scheme: scheme.name(),
                authority,
                path: whole(method, path),
            }
        }
        None => {
            let authority = host.unwrap_or_default();
            RequestLine {
                method,
                scheme: scheme.name(),
                authority,
                path: target,
            }
        }
    };
    rules::request(&line)?;
    Ok(line)
}

/// The scheme of a target in absolute form, and what stands behind `://`.
fn absolute(target: &[u8]) -> Option<(Scheme, &[u8])> {
    let strip = |prefix: &[u8], scheme| {
        let (head, rest) = target.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some((scheme, rest))
    };
    strip(b"http://", Scheme::Http).or_else(|| strip(b"https://", Scheme::Https))
}

/// The path of a target in absolute form that has none (RFC 9112 §3.2.1, §3.2.4).
fn whole<'a>(method: &[u8], path: &'a [u8]) -> &'a [u8] {
    match (path.is_empty(), method) {
        (true, b"OPTIONS") => b"*",
        (true, _) => b"/",
        (false, _) => path,
    }
}
