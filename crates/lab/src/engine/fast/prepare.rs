//! Makes the bytes of requests, as much as possible before the run.
//!
//! A request that never differs is made once. Of others everything that stands still is joined beforehand, so
//! that a send copies a few pieces. What is substituted is checked before it is sent: no value can begin a new
//! line, so no feed can add a field or a request.

use std::ops::Range;

use crate::exit::Failure;
use crate::plan::{BodyCheck, Request, Target, Value};
use crate::template::{At, Body, Template, decimal, id};

/// The field that carries a request's identifier.
pub(super) const ID_FIELD: &str = "weir-lab-id";
/// Fields that the generator writes itself.
const OWN_FIELDS: &[&str] = &["host", "content-length", "transfer-encoding", ID_FIELD];

/// One kind of request to one target.
pub(super) struct Prepared {
    /// The whole request, if it never differs.
    fixed: Option<Vec<u8>>,
    parts: Vec<Part>,
    /// Its answer has no body.
    pub is_head: bool,
}

enum Part {
    Bytes(Vec<u8>),
    Path,
    /// The value of the header with this index.
    Header(usize),
    Id,
    BodyLength,
}

/// Where in a request's bytes what has to come back stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    pub id: Range<usize>,
    pub content_type: Option<Range<usize>>,
    pub body: usize,
}

impl Prepared {
    /// Joins what stands still.
    ///
    /// # Errors
    ///
    /// A part that cannot be in a request.
    pub(super) fn new(
        request: &Request,
        target: &Target,
        reconnect: bool,
    ) -> Result<Prepared, Failure> {
        check_names(request)?;
        let mut parts = vec![
            Part::Bytes(format!("{} ", request.method).into_bytes()),
            Part::Path,
            Part::Bytes(format!(" HTTP/1.1\r\nHost: {}\r\n", target.authority).into_bytes()),
        ];
        for (index, (name, _)) in request.headers.iter().enumerate() {
            parts.push(Part::Bytes(format!("{name}: ").into_bytes()));
            parts.push(Part::Header(index));
            parts.push(Part::Bytes(b"\r\n".to_vec()));
        }
        if reconnect {
            parts.push(Part::Bytes(b"Connection: close\r\n".to_vec()));
        }
        // RFC 9110, section 8.6: a method that usually has content says so when there is none.
        let usual = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
        if usual || request.body != Body::None {
            parts.push(Part::Bytes(b"Content-Length: ".to_vec()));
            parts.push(Part::BodyLength);
            parts.push(Part::Bytes(b"\r\n".to_vec()));
        }
        if request.expect.body == BodyCheck::Echo {
            parts.push(Part::Bytes(format!("{ID_FIELD}: ").into_bytes()));
            parts.push(Part::Id);
            parts.push(Part::Bytes(b"\r\n".to_vec()));
        }
        parts.push(Part::Bytes(b"\r\n".to_vec()));
        let mut prepared = Prepared {
            fixed: None,
            parts: join(parts, request)?,
            is_head: request.method == "HEAD",
        };
        if let ([Part::Bytes(_)], Some(_)) = (&*prepared.parts, body_fixed(&request.body)) {
            let at = At {
                seed: 0,
                run: "",
                number: 0,
                feeds: &[],
                unix_ns: 0,
            };
            let (mut out, mut spare) = (Vec::new(), Vec::new());
            prepared.render(request, &at, &mut out, &mut spare)?;
            prepared.fixed = Some(out);
        }
        Ok(prepared)
    }

    /// The whole request, if it never differs.
    pub(super) fn fixed(&self) -> Option<&[u8]> {
        self.fixed.as_deref()
    }

    /// Makes the bytes of one request in `out`; `spare` holds a body whose length must be known first.
    ///
    /// # Errors
    ///
    /// A substitution that cannot be sent; the value is not said, as it may be a credential.
    pub(super) fn render(
        &self,
        request: &Request,
        at: &At,
        out: &mut Vec<u8>,
        spare: &mut Vec<u8>,
    ) -> Result<Places, Failure> {
        out.clear();
        spare.clear();
        let body_bytes = request.body.fixed_bytes();
        if body_bytes.is_none() {
            request.body.render(at, spare);
        }
        let mut places = Places::default();
        for part in &self.parts {
            let begin = out.len();
            match part {
                Part::Bytes(bytes) => out.extend_from_slice(bytes),
                Part::BodyLength => decimal(body_bytes.unwrap_or(spare.len()) as u64, out),
                Part::Id => {
                    id(at, out);
                    places.id = begin..out.len();
                }
                Part::Path => {
                    request.path.render(at, out);
                    check_path(&out[begin..]).map_err(|why| refused(request, at, "path", why))?;
                }
                Part::Header(index) => {
                    let (name, value) = &request.headers[*index];
                    match value {
                        Value::Text(template) => template.render(at, out),
                        Value::Secret(secret) => out.extend_from_slice(secret.expose().as_bytes()),
                    }
                    check_value(&out[begin..]).map_err(|why| refused(request, at, name, why))?;
                    if name.eq_ignore_ascii_case("content-type") {
                        places.content_type = Some(begin..out.len());
                    }
                }
            }
        }
        places.body = out.len();
        if body_bytes.is_some() {
            request.body.render(at, out);
        } else {
            out.extend_from_slice(spare);
        }
        Ok(places)
    }
}

/// Puts in what stands still, and joins neighbours.
fn join(parts: Vec<Part>, request: &Request) -> Result<Vec<Part>, Failure> {
    let echo = request.expect.body == BodyCheck::Echo;
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        let bytes = match part {
            Part::Bytes(bytes) => bytes,
            Part::Path => match still(&request.path) {
                Some(path) => {
                    check_path(path).map_err(|why| impossible(request, "path", why))?;
                    path.to_vec()
                }
                None => {
                    joined.push(Part::Path);
                    continue;
                }
            },
            Part::Header(index) => {
                let (name, value) = &request.headers[index];
                let value = match value {
                    Value::Text(template) => still(template),
                    Value::Secret(secret) => Some(secret.expose().as_bytes()),
                };
                // The content type of an echo has to be found again.
                let keep = echo && name.eq_ignore_ascii_case("content-type");
                match value.filter(|_| !keep) {
                    Some(value) => {
                        check_value(value).map_err(|why| impossible(request, name, why))?;
                        value.to_vec()
                    }
                    None => {
                        joined.push(Part::Header(index));
                        continue;
                    }
                }
            }
            Part::BodyLength if request.body.fixed_bytes().is_some() => {
                let mut digits = Vec::new();
                decimal(request.body.fixed_bytes().unwrap_or(0) as u64, &mut digits);
                digits
            }
            Part::Id | Part::BodyLength => {
                joined.push(part);
                continue;
            }
        };
        match joined.last_mut() {
            Some(Part::Bytes(last)) => last.extend_from_slice(&bytes),
            _ => joined.push(Part::Bytes(bytes)),
        }
    }
    Ok(joined)
}

fn still(template: &Template) -> Option<&[u8]> {
    template.fixed()
}

/// The body, if it never differs.
fn body_fixed(body: &Body) -> Option<&[u8]> {
    match body {
        Body::None => Some(b""),
        Body::Template(template) => template.fixed(),
        Body::Unique { .. } => None,
    }
}

fn check_names(request: &Request) -> Result<(), Failure> {
    let name = &request.name;
    if !is_token(&request.method) || request.method == "CONNECT" {
        return Err(Failure::new(
            format!(
                "request `{name}`: `{}` cannot be its method",
                request.method
            ),
            "use GET, HEAD, POST, PUT, PATCH, DELETE or another method of capital letters",
        ));
    }
    for (field, _) in &request.headers {
        if !is_token(field) {
            return Err(Failure::new(
                format!(
                    "request `{name}`: `{}` is no field name",
                    field.escape_debug()
                ),
                "use letters, digits and dashes",
            ));
        }
        if OWN_FIELDS.iter().any(|own| field.eq_ignore_ascii_case(own)) {
            return Err(Failure::new(
                format!("request `{name}`: the field {field} is written by the generator"),
                "leave it out",
            ));
        }
    }
    Ok(())
}

/// RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

fn check_path(path: &[u8]) -> Result<(), &'static str> {
    if !matches!(path.first(), Some(b'/' | b'*')) {
        return Err("does not begin with a slash");
    }
    if path.iter().all(u8::is_ascii_graphic) {
        Ok(())
    } else {
        Err("has a space, a control character or a letter that is not ASCII: percent-encode it")
    }
}

fn check_value(value: &[u8]) -> Result<(), &'static str> {
    if value
        .iter()
        .all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f))
    {
        Ok(())
    } else {
        Err("has a line break or another control character")
    }
}

fn impossible(request: &Request, what: &str, why: &str) -> Failure {
    let (name, help) = (&request.name, "mend the scenario");
    Failure::new(format!("request `{name}`: its {what} {why}"), help)
}

fn refused(request: &Request, at: &At, what: &str, why: &str) -> Failure {
    let (name, number) = (&request.name, at.number);
    Failure::new(
        format!("request `{name}`, number {number}: its {what} {why}"),
        "mend the template, or the feed that it takes values from",
    )
}
