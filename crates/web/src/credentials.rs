//! Credentials that agents never have: put in at the proxy, and taken out of what comes back.
//!
//! An agent has a placeholder, or nothing. The real value goes into the credential's field after the request was judged
//! and recorded, for the hosts and agents that it is for, and only where nobody between can read it. A placeholder
//! anywhere else is refused: it shows that somebody wants the real value to go there.

use std::borrow::Cow;

use base::{Name, Refusal, Secret, refusal};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE};

use crate::site::AskedUrl;

/// What stands in the place of a value that came back.
const SCRUBBED: &[u8] = b"[credential]";
/// Credentials that one request can have.
const PUT_IN_MAX: usize = 16;

/// One credential.
#[derive(Clone)]
pub struct SiteCredential {
    pub name: Name,
    /// The hosts that it is for.
    pub hosts: HostNames,
    /// The agents that may use it; all where none is named.
    pub agents: Vec<Name>,
    pub field: HeaderName,
    pub value: Secret,
    /// What an agent writes in the field in place of the value.
    pub placeholder: String,
    /// The field's value around the secret where the agent sends none: `Bearer ` before it.
    pub before: String,
}

impl PartialEq for SiteCredential {
    fn eq(&self, other: &SiteCredential) -> bool {
        let all = |of: &SiteCredential| {
            let (hosts, agents, field) = (of.hosts.clone(), of.agents.clone(), of.field.clone());
            let texts = [
                of.value.expose().to_owned(),
                of.placeholder.clone(),
                of.before.clone(),
            ];
            (of.name.clone(), hosts, agents, field, texts)
        };
        all(self) == all(other)
    }
}

/// Host names: `api.example.com`, or all below a name, `*.example.com`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames(Vec<Box<str>>);

impl HostNames {
    /// Reads the names. `*.` before a name means all below it.
    ///
    /// # Errors
    /// What is no name of a host, and a name below which strangers have theirs: `*.com`, `*.co.uk`.
    pub fn read<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<HostNames, String> {
        let mut read = Vec::new();
        for name in names {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let below = name.strip_prefix("*.");
            let host = below.unwrap_or(&name);
            let parsed = url::Host::parse(host).map(|parsed| parsed.to_string());
            let is_plain =
                !host.contains('*') && parsed.as_deref().is_ok_and(|parsed| parsed == host);
            if !is_plain {
                return Err(format!(
                    "`{name}` is no name of a host; write it in lower case, without port"
                ));
            }
            // What is registered has a label below the suffix, so a suffix is its own registrable part.
            if below.is_some() && (!host.contains('.') || is_public_suffix(host)) {
                return Err(format!(
                    "`{name}` would be for the hosts of strangers; name one site"
                ));
            }
            read.push(name.into());
        }
        Ok(HostNames(read))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a host is one of these.
    pub fn hold(&self, host: &str) -> bool {
        let holds = |name: &str| match name.strip_prefix("*.") {
            None => name == host,
            Some(above) => host
                .strip_suffix(above)
                .is_some_and(|below| below.len() > 1 && below.ends_with('.')),
        };
        self.0.iter().any(|name| holds(name))
    }
}

/// Whether strangers register their names below this one.
fn is_public_suffix(host: &str) -> bool {
    // One label below a suffix is all of what is registered; below anything else it is not.
    let below = format!("x.{host}");
    scan::registrable(&below) == below
}

impl SiteCredential {
    fn is_for(&self, agent: &Name, url: &AskedUrl) -> bool {
        let is_agent = self.agents.is_empty() || self.agents.contains(agent);
        is_agent && self.hosts.hold(&url.site.host) && url.is_secured()
    }

    /// Whether the placeholder stands in a text, also inside of Basic credentials.
    fn stands_in(&self, text: &[u8]) -> bool {
        let find = |text: &[u8]| memchr::memmem::find(text, self.placeholder.as_bytes()).is_some();
        find(text) || basic(text).is_some_and(|inside| find(&inside))
    }

    /// The field's value with the secret in the place of the placeholder.
    fn fill(&self, field: &HeaderValue) -> Option<HeaderValue> {
        let value = self.value.expose();
        let text = std::str::from_utf8(field.as_bytes()).ok()?;
        let filled = match basic(text.as_bytes()) {
            Some(inside) if !text.contains(&self.placeholder) => {
                let inside = String::from_utf8(inside).ok()?;
                format!(
                    "Basic {}",
                    STANDARD.encode(inside.replace(&self.placeholder, value))
                )
            }
            _ => text.replace(&self.placeholder, value),
        };
        secret_value(&filled)
    }
}

/// What stands inside of a field of the Basic scheme (RFC 7617).
fn basic(field: &[u8]) -> Option<Vec<u8>> {
    let (scheme, coded) = std::str::from_utf8(field).ok()?.split_once(' ')?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    is_basic
        .then(|| STANDARD.decode(coded.trim()).ok())
        .flatten()
}

fn secret_value(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Refuses placeholders that stand where their value must not go. `texts` is all that the request says beside its fields.
///
/// # Errors
/// `web.credential`.
pub(crate) fn check(
    credentials: &[SiteCredential],
    agent: &Name,
    url: &AskedUrl,
    fields: &HeaderMap,
    texts: &[&[u8]],
) -> Result<(), Refusal> {
    for credential in credentials {
        let no = |where_: &str| {
            let name = &credential.name;
            let public = format!("the placeholder of credential {name} stands {where_}");
            Err(Refusal::new(refusal::WEB_CREDENTIAL, public))
        };
        if texts.iter().any(|text| credential.stands_in(text)) {
            return no("in the URL or the body");
        }
        for (name, value) in fields {
            if !credential.stands_in(value.as_bytes()) {
                continue;
            }
            match *name == credential.field && credential.is_for(agent, url) {
                true => {}
                false if *name != credential.field => return no("in a field that is not its own"),
                false => {
                    return no("in a request that it is not for: by host, agent, or without https");
                }
            }
        }
    }
    Ok(())
}

/// What a field of a request says to the judge. A login in `Authorization` is where it belongs, so that what the agent sends
/// there is judged as in any other field: without its scheme, Basic out of its coding. A placeholder in Basic's coding stands
/// where its value goes, in each field that is a credential's.
pub(crate) fn judged_as<'f>(
    credentials: &[SiteCredential],
    name: &HeaderName,
    value: &'f HeaderValue,
) -> Cow<'f, [u8]> {
    let value = value.as_bytes();
    let is_login = *name == AUTHORIZATION;
    let inside = basic(value).filter(|inside| {
        let mut are_its = credentials.iter().filter(|of| of.field == *name);
        is_login
            || are_its.any(|of| memchr::memmem::find(inside, of.placeholder.as_bytes()).is_some())
    });
    match inside {
        Some(inside) => Cow::Owned(inside),
        None if is_login => Cow::Borrowed(without_scheme(value)),
        None => Cow::Borrowed(value),
    }
}

/// What stands behind the scheme of a login (RFC 9110 §11.4); all of it where that is nothing. Basic whose coding cannot be
/// undone keeps its scheme, by which the scan knows it.
fn without_scheme(value: &[u8]) -> &[u8] {
    let Some(end) = value.iter().position(|byte| *byte == b' ') else {
        return value;
    };
    let (scheme, rest) = (&value[..end], value[end..].trim_ascii());
    match rest.is_empty() || scheme.eq_ignore_ascii_case(b"basic") {
        true => value,
        false => rest,
    }
}

/// Puts the values in, and gives what has to be taken out of the answer.
pub(crate) fn put_in(
    credentials: &[SiteCredential],
    agent: &Name,
    url: &AskedUrl,
    fields: &mut HeaderMap,
) -> Scrub {
    let mut scrub = Scrub::default();
    let are_for = credentials.iter().filter(|of| of.is_for(agent, url));
    for credential in are_for.take(PUT_IN_MAX) {
        let sent = fields.get(&credential.field);
        let value = match sent {
            Some(sent) if credential.stands_in(sent.as_bytes()) => credential.fill(sent),
            // What the agent sends of its own stays.
            Some(_) => continue,
            None => secret_value(&format!(
                "{}{}",
                credential.before,
                credential.value.expose()
            )),
        };
        if let Some(value) = value {
            fields.insert(credential.field.clone(), value);
            scrub.add(credential.value.expose());
        }
    }
    if !scrub.is_idle() {
        // A value that comes back in two parts could not be found.
        fields.remove(RANGE);
        fields.remove(IF_RANGE);
    }
    scrub
}

/// What is usual before a secret in this field.
pub fn usual_before(field: &HeaderName) -> &'static str {
    match *field == AUTHORIZATION {
        true => "Bearer ",
        false => "",
    }
}

/// Takes values out of bytes that come in pieces: as they are, in strings of JSON, percent-encoded, and in base64 wherever
/// they start in it.
#[derive(Default)]
pub(crate) struct Scrub {
    forms: Vec<Vec<u8>>,
    longest: usize,
    /// What may be the beginning of a value.
    held: Vec<u8>,
    /// Something was taken out.
    pub(crate) has_found: bool,
}

impl Scrub {
    /// Looks for this value too, in every form that it may have.
    pub(crate) fn add(&mut self, value: &str) {
        let mut forms: Vec<Vec<u8>> = Vec::new();
        let in_json = serde_json::Value::from(value).to_string();
        let in_json = in_json.trim_matches('"');
        for text in [value, in_json, &in_json.replace('/', "\\/")] {
            forms.push(text.as_bytes().to_vec());
        }
        for escaped in percent_encoded(value) {
            forms.push(lower_hex(&escaped).into_bytes());
            forms.push(escaped.into_bytes());
        }
        for (before, engine) in (0..3).flat_map(|before| [(before, STANDARD), (before, URL_SAFE)]) {
            let text = [&vec![0; before], value.as_bytes()].concat();
            let coded = engine.encode(&text).trim_end_matches('=').to_owned();
            // Characters that hold bits of what stands around it are not its own.
            let start = (before * 8).div_ceil(6);
            let end = text.len() * 8 / 6;
            if let Some(form) = coded.get(start..end).filter(|form| form.len() >= 8) {
                forms.push(form.as_bytes().to_vec());
            }
        }
        forms.sort_by(|one, other| (other.len(), other).cmp(&(one.len(), one)));
        forms.dedup();
        let longest = forms.first().map_or(0, Vec::len);
        self.longest = self.longest.max(longest);
        self.forms.extend(forms);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.forms.is_empty()
    }

    /// Takes the next bytes, and gives those that may go on.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.is_idle() {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut text = self.replaced(&held);
        // A value may begin in the last bytes.
        let keep = (self.longest - 1).min(text.len());
        let keep = (1..=keep).rev().find(|keep| {
            let tail = &text[text.len() - keep..];
            self.forms.iter().any(|form| form.starts_with(tail))
        });
        self.held = text.split_off(text.len() - keep.unwrap_or(0));
        text
    }

    /// Gives what was held: no more comes.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }

    fn replaced(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut text = bytes.to_vec();
        for form in &self.forms {
            let found: Vec<usize> = memchr::memmem::find_iter(&text, form).collect();
            if found.is_empty() {
                continue;
            }
            self.has_found = true;
            let (mut replaced, mut from) = (Vec::with_capacity(text.len()), 0);
            for at in found {
                replaced.extend_from_slice(&text[from..at]);
                replaced.extend_from_slice(SCRUBBED);
                from = at + form.len();
            }
            replaced.extend_from_slice(&text[from..]);
            text = replaced;
        }
        text
    }

    /// A field of the answer without the values.
    pub(crate) fn field(&mut self, value: &HeaderValue) -> HeaderValue {
        if self.is_idle() {
            return value.clone();
        }
        let scrubbed = self.replaced(value.as_bytes());
        match scrubbed == value.as_bytes() {
            true => value.clone(),
            false => HeaderValue::from_bytes(&scrubbed)
                .unwrap_or_else(|_| HeaderValue::from_static("[credential]")),
        }
    }
}

/// A value in each way in which programs percent-encode: as forms do, with `%20` for a space, as RFC 3986 has it, and as
/// JavaScript's `encodeURIComponent` does.
fn percent_encoded(value: &str) -> [String; 4] {
    let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let spaced = form.replace('+', "%20");
    let strict = spaced.replace('*', "%2A").replace("%7E", "~");
    let mut component = spaced.replace("%7E", "~");
    for (escape, plain) in [("%21", "!"), ("%27", "'"), ("%28", "("), ("%29", ")")] {
        component = component.replace(escape, plain);
    }
    [form, spaced, strict, component]
}

/// Escapes with small letters: `%2f` for `%2F`.
fn lower_hex(escaped: &str) -> String {
    let mut parts = escaped.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        lower.push('%');
        lower.push_str(&hex.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

impl Drop for Scrub {
    fn drop(&mut self) {
        for form in &mut self.forms {
            form.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "real+value/of=the_operator";

    fn credential() -> SiteCredential {
        SiteCredential {
            name: Name::new("github").unwrap(),
            hosts: HostNames::read(["api.example.com"]).unwrap(),
            agents: vec![Name::new("dev").unwrap()],
            field: AUTHORIZATION,
            value: Secret::new(VALUE.to_owned()),
            placeholder: "weir-credential-github".to_owned(),
            before: "Bearer ".to_owned(),
        }
    }

    fn fields(authorization: Option<&str>) -> HeaderMap {
        let mut fields = HeaderMap::new();
        if let Some(value) = authorization {
            fields.insert(AUTHORIZATION, value.parse().unwrap());
        }
        fields
    }

    fn filled(url: &str, agent: &str, sent: Option<&str>) -> Option<String> {
        let (all, agent) = ([credential()], Name::new(agent).unwrap());
        let url = AskedUrl::read(url).unwrap();
        let mut fields = fields(sent);
        check(&all, &agent, &url, &fields, &[url.text.as_bytes()]).ok()?;
        put_in(&all, &agent, &url, &mut fields);
        let value = fields.get(AUTHORIZATION);
        Some(value.map_or(String::new(), |value| value.to_str().unwrap().to_owned()))
    }

    #[test]
    fn a_value_goes_to_its_hosts_for_its_agents_by_https() {
        let to = |url, agent, sent| filled(url, agent, sent);
        let real = Some(format!("Bearer {VALUE}"));
        let placeholder = Some("token weir-credential-github");
        assert_eq!(to("https://api.example.com/x", "dev", None), real);
        let token = Some(format!("token {VALUE}"));
        assert_eq!(to("https://api.example.com/x", "dev", placeholder), token);
        let coded = format!("Basic {}", STANDARD.encode("x:weir-credential-github"));
        let real = Some(format!("Basic {}", STANDARD.encode(format!("x:{VALUE}"))));
        assert_eq!(to("https://api.example.com/x", "dev", Some(&coded)), real);
        // Elsewhere nothing is put in, and a placeholder is refused.
        for (url, agent) in [
            ("https://api.example.com.evil.example/", "dev"),
            ("https://evil.example/api.example.com", "dev"),
            ("http://api.example.com/", "dev"),
            ("https://api.example.com/", "eve"),
        ] {
            assert_eq!(to(url, agent, None), Some(String::new()), "{url} {agent}");
            assert_eq!(to(url, agent, placeholder), None, "{url} {agent}");
            assert_eq!(to(url, agent, Some(&coded)), None, "{url} {agent}");
        }
        assert_eq!(
            to(
                "https://api.example.com/?a=weir-credential-github",
                "dev",
                None
            ),
            None
        );
        let sent: HeaderValue = coded.parse().unwrap();
        let judged = |name| judged_as(&[credential()], name, &sent).into_owned();
        assert_eq!(judged(&AUTHORIZATION), b"x:weir-credential-github");
        assert_eq!(judged(&http::header::COOKIE), coded.as_bytes());
        for (sent, is_judged) in [
            ("Bearer abc.def", "abc.def"),
            ("token  abc", "abc"),
            ("Digest username=\"a\", b=c", "username=\"a\", b=c"),
            ("Basic YTpi", "a:b"),
            ("basic %%%", "basic %%%"),
            ("abc", "abc"),
            ("Bearer ", "Bearer "),
        ] {
            let sent: HeaderValue = sent.parse().unwrap();
            assert_eq!(judged_as(&[], &AUTHORIZATION, &sent), is_judged.as_bytes());
            assert_eq!(
                judged_as(&[], &http::header::COOKIE, &sent),
                sent.as_bytes()
            );
        }
        let own = Some("Bearer mine");
        assert_eq!(
            to("https://api.example.com/x", "dev", own),
            own.map(str::to_owned)
        );
    }

    #[test]
    fn a_value_that_comes_back_is_taken_out_wherever_it_is_cut() {
        let coded = STANDARD.encode(format!("user:{VALUE}"));
        let escaped: String = url::form_urlencoded::byte_serialize(VALUE.as_bytes()).collect();
        let text = format!("a {VALUE} b {coded} c {escaped} d {VALUE}");
        for cut in 0..text.len() {
            let mut scrub = Scrub::default();
            scrub.add(VALUE);
            let mut out = scrub.push(&text.as_bytes()[..cut]);
            out.extend(scrub.push(&text.as_bytes()[cut..]));
            out.extend(scrub.finish());
            let out = String::from_utf8(out).unwrap();
            assert!(out.starts_with("a [credential] b "), "{out}");
            assert!(out.ends_with(" c [credential] d [credential]"), "{out}");
            assert!(scrub.has_found && !out.contains(&coded[8..30]), "{out}");
        }
    }

    #[test]
    fn a_value_is_taken_out_in_every_way_it_is_written() {
        let value = "a/b c+d~e\"f(g)*h?>?>?>";
        let coded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value);
        for text in [
            value,
            r#"a/b c+d~e\"f(g)*h?>?>?>"#,
            r#"a\/b c+d~e\"f(g)*h?>?>?>"#,
            "a%2Fb+c%2Bd%7Ee%22f%28g%29*h%3F%3E%3F%3E%3F%3E",
            "a%2fb%20c%2bd~e%22f%28g%29%2ah%3f%3e%3f%3e%3f%3e",
            "a%2Fb%20c%2Bd~e%22f(g)*h%3F%3E%3F%3E%3F%3E",
            &coded,
        ] {
            let mut scrub = Scrub::default();
            scrub.add(value);
            let mut out = scrub.push(text.as_bytes());
            out.extend(scrub.finish());
            let out = String::from_utf8(out).unwrap();
            assert!(
                scrub.has_found && out.starts_with("[credential]"),
                "{text}: {out}"
            );
        }
    }

    #[test]
    fn a_part_is_not_asked_for_where_a_value_goes() {
        let (all, agent) = ([credential()], Name::new("dev").unwrap());
        let url = AskedUrl::read("https://api.example.com/").unwrap();
        let mut fields = fields(None);
        fields.insert(RANGE, "bytes=0-9".parse().unwrap());
        put_in(&all, &agent, &url, &mut fields);
        assert!(fields.contains_key(AUTHORIZATION) && !fields.contains_key(RANGE));
    }

    #[test]
    fn no_names_of_strangers() {
        assert!(HostNames::read(["*.example.com", "api.example.com"]).is_ok());
        for bad in [
            "*",
            "a*.example",
            "*.com",
            "*.co.uk",
            "https://a.example",
            "a.example:443",
            "a b",
            "*.*.a.example",
        ] {
            assert!(HostNames::read([bad]).is_err(), "{bad}");
        }
        let names = HostNames::read(["*.example.com"]).unwrap();
        assert!(names.hold("a.b.example.com") && !names.hold("example.com"));
        assert!(!names.hold("notexample.com") && !names.hold(".example.com"));
    }
}
