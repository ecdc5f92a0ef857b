//! Signature Version 4 (AWS IAM User Guide, "AWS Signature Version 4 for API requests"), in the `Authorization` field.
//!
//! What is signed is read from the request as it will be sent, so that no path is encoded by one function and signed by another. It
//! signs the host, the content's type, the time, the session's token and the body; other fields may be changed on the way.

use aws_lc_rs::{digest, hmac};
use base::{Secret, clock, hex};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};

use super::put_secret;

static DATE: HeaderName = HeaderName::from_static("x-amz-date");
static SESSION: HeaderName = HeaderName::from_static("x-amz-security-token");
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// A key of AWS, and what it signs for.
#[derive(Clone, PartialEq)]
pub struct AwsKey {
    pub region: String,
    /// The name of the service in signatures: `bedrock`.
    pub service: String,
    /// Names the key; it stands in each request.
    pub key_id: String,
    pub secret: Secret,
    /// Of credentials that are good for a time.
    pub session: Option<Secret>,
    /// As the `Host` field has it.
    pub host: String,
    /// The path of the provider's URL, which each request's path stands behind.
    pub base: String,
}

/// Signs a request whose URI is a path behind the provider's own. Nothing where the key cannot stand in a field.
pub(crate) fn sign(request: &mut http::Request<Bytes>, key: &AwsKey, unix_ms: u64) -> Option<()> {
    let at = time(unix_ms);
    let fields = request.headers_mut();
    fields.insert(&DATE, HeaderValue::try_from(&at).ok()?);
    if let Some(session) = &key.session {
        put_secret(fields, SESSION.clone(), session.expose())?;
    }
    let (canonical, signed) = canonical(request, key)?;
    let scope = format!("{}/{}/{}/aws4_request", &at[..8], key.region, key.service);
    let text = format!(
        "{ALGORITHM}\n{at}\n{scope}\n{}",
        sha256(canonical.as_bytes())
    );
    let first = format!("AWS4{}", key.secret.expose());
    let parts = [&at[..8], &key.region, &key.service, "aws4_request", &text];
    let signature = parts.iter().fold(first.into_bytes(), |key, part| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        hmac::sign(&key, part.as_bytes()).as_ref().to_vec()
    });
    let value = format!(
        "{ALGORITHM} Credential={}/{scope}, SignedHeaders={signed}, Signature={}",
        key.key_id,
        hex::encode(&signature)
    );
    put_secret(request.headers_mut(), AUTHORIZATION, &value)
}

/// The canonical request, and the names of its signed fields.
fn canonical(request: &http::Request<Bytes>, key: &AwsKey) -> Option<(String, String)> {
    let path = format!("{}{}", key.base.trim_end_matches('/'), request.uri().path());
    // In the order of their names.
    let mut fields = String::new();
    let mut names = Vec::new();
    for name in ["content-type", "host", DATE.as_str(), SESSION.as_str()] {
        let value = match name {
            "host" => key.host.as_str(),
            _ => match request.headers().get(name) {
                Some(value) => value.to_str().ok()?,
                None => continue,
            },
        };
        let value: Vec<&str> = value.split_ascii_whitespace().collect();
        fields.push_str(&format!("{name}:{}\n", value.join(" ")));
        names.push(name);
    }
    debug_assert!(request.headers().contains_key(CONTENT_TYPE) || request.body().is_empty());
    let names = names.join(";");
    let canonical = format!(
        "{}\n{}\n{}\n{fields}\n{names}\n{}",
        request.method(),
        encoded(&path),
        query(request.uri().query().unwrap_or_default()),
        sha256(request.body()),
    );
    Some((canonical, names))
}

/// A path as it is signed: what was encoded to be sent is encoded once more, for all services but S3.
fn encoded(path: &str) -> String {
    let mut whole = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            true => whole.push(char::from(byte)),
            false => whole.push_str(&format!("%{byte:02X}")),
        }
    }
    whole
}

/// A query as it is signed: its pairs in order. What is sent is encoded already.
fn query(sent: &str) -> String {
    let mut pairs: Vec<String> = sent
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| match pair.contains('=') {
            true => pair.to_owned(),
            false => format!("{pair}="),
        })
        .collect();
    pairs.sort_unstable();
    pairs.join("&")
}

/// `20150830T123600Z`
fn time(unix_ms: u64) -> String {
    let text = clock::rfc3339(unix_ms);
    let whole = text.split('.').next().unwrap_or_default();
    format!("{}Z", whole.replace(['-', ':'], ""))
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(digest::digest(&digest::SHA256, bytes).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of AWS's own examples, put together here so that no scanner takes it for a leak.
    fn key(session: Option<&str>) -> AwsKey {
        AwsKey {
            region: "us-east-1".to_owned(),
            service: "service".to_owned(),
            key_id: "AKID".to_owned() + "EXAMPLE",
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+".to_owned() + "bPxRfiCYEXAMPLEKEY"),
            session: session.map(|text| Secret::new(text.to_owned())),
            host: "example.amazonaws.com".to_owned(),
            base: "/".to_owned(),
        }
    }

    fn signature(request: &http::Request<Bytes>) -> &str {
        let value = request.headers()[AUTHORIZATION].to_str().unwrap();
        value.rsplit_once("Signature=").unwrap().1
    }

    #[test]
    fn a_request_is_signed_as_in_awss_examples() {
        // AWS Signature Version 4 test suite: get-vanilla and get-vanilla-query-order-key-case.
        let at = 1_440_938_160_000;
        for (path, signed) in [
            (
                "/",
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "/?Param2=value2&Param1=value1",
                "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
            ),
        ] {
            let mut request = http::Request::get(path).body(Bytes::new()).unwrap();
            sign(&mut request, &key(None), at).unwrap();
            assert_eq!(signature(&request), signed, "{path}");
        }
    }

    #[test]
    fn what_was_encoded_is_signed_encoded_again() {
        assert_eq!(encoded("/model/a%3Ab/invoke"), "/model/a%253Ab/invoke");
        assert_eq!(time(1_440_938_160_999), "20150830T123600Z");
        let mut request = http::Request::post("/x")
            .header(CONTENT_TYPE, "application/json")
            .body(Bytes::from_static(b"{}"))
            .unwrap();
        sign(&mut request, &key(Some("session")), 0).unwrap();
        let value = request.headers()[AUTHORIZATION].clone();
        assert!(value.is_sensitive() && request.headers()[&SESSION].is_sensitive());
        let names = "SignedHeaders=content-type;host;x-amz-date;x-amz-security-token,";
        assert!(value.to_str().unwrap().contains(names));
    }
}
