//! Tokens of Google for a service account: a signed statement is exchanged for one (RFC 7523, section 2.1), which is kept until shortly
//! before it is no longer good.
//!
//! The exchange is a call of the gateway's own: judged, recorded, and sent to no other address than the configured one, whatever the
//! account's file says. Many calls that wait for a token wait for one exchange.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use base::record::CallEnd;
use base::{Name, Resource, Secret};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use gate::{Call, CallEnding};
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::json;

use crate::actions::TOKEN;
use crate::lane::LlmLane;

/// What the token is good for at Google.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
/// Where Google exchanges statements.
pub const GOOGLE_TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// How long a statement is good, in seconds: as long as Google takes.
const STATEMENT_S: u64 = 3_600;
/// How long the exchange may take, in milliseconds, and its largest answer.
const EXCHANGE_MS: u64 = 10_000;
const EXCHANGE_BYTES_MAX: usize = 64 << 10;
/// Longest token, and longest time for which one is kept, in seconds.
const TOKEN_BYTES_MAX: usize = 16 << 10;
const TOKEN_S_MAX: u64 = 12 * 3_600;
/// How long before its end a token is got anew, in seconds; half of its time where that is less.
const EARLY_S: u64 = 300;
/// How long nobody asks again after an exchange that failed, in milliseconds.
const FAILED_MS: u64 = 1_000;

/// A service account, and where its statements are exchanged.
#[derive(Clone)]
pub struct ServiceAccount {
    pub email: String,
    /// The project that it is of, as its file says.
    pub project: Option<String>,
    key_id: Option<String>,
    key: Arc<KeyPair>,
    /// The key as it was written, by which a reload sees that it is another.
    pem: Secret,
    /// Where statements are exchanged, by its name among the gateway's targets.
    pub target: Name,
    /// The same as a URL, for which the statement is.
    pub token_url: String,
}

impl PartialEq for ServiceAccount {
    fn eq(&self, other: &ServiceAccount) -> bool {
        (&self.email, &self.project, &self.key_id, &self.pem)
            == (&other.email, &other.project, &other.key_id, &other.pem)
            && (&self.target, &self.token_url) == (&other.target, &other.token_url)
    }
}

/// A service account's file.
#[derive(Deserialize)]
struct AccountFile {
    #[serde(rename = "type")]
    kind: String,
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    project_id: Option<String>,
    token_uri: Option<String>,
}

impl ServiceAccount {
    /// Reads the file that Google gives for a service account.
    ///
    /// # Errors
    /// Why it cannot be used, without anything of the key.
    pub fn read(json: &str, target: Name, token_url: &str) -> Result<ServiceAccount, String> {
        let file: AccountFile = serde_json::from_str(json)
            .map_err(|_| "is no service account's file as Google gives it".to_owned())?;
        if file.kind != "service_account" {
            return Err("is of another kind of account than service_account".to_owned());
        }
        if let Some(other) = file.token_uri.filter(|uri| uri != token_url) {
            return Err(format!(
                "wants tokens from {other:?}, and they are got from {token_url} alone; write token_url where that is right"
            ));
        }
        let der = der(&file.private_key).ok_or("holds no private key as PEM (PKCS #8)")?;
        let key = KeyPair::from_pkcs8(&der);
        let key =
            key.map_err(|_| "holds a private key that is none of RSA with 2048 bits or more")?;
        Ok(ServiceAccount {
            email: file.client_email,
            project: file.project_id,
            key_id: file.private_key_id,
            key: Arc::new(key),
            pem: Secret::new(file.private_key),
            target,
            token_url: token_url.to_owned(),
        })
    }

    /// The signed statement (RFC 7519, RS256 of RFC 7518).
    fn statement(&self, unix_s: u64) -> Option<String> {
        let mut header = json!({ "alg": "RS256", "typ": "JWT" });
        if let Some(id) = &self.key_id {
            header["kid"] = id.as_str().into();
        }
        let claims = json!({
            "iss": self.email,
            "scope": SCOPE,
            "aud": self.token_url,
            "iat": unix_s,
            "exp": unix_s + STATEMENT_S,
        });
        let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
        let signed = format!("{}.{}", part(header), part(claims));
        let mut signature = vec![0; self.key.public_modulus_len()];
        let random = SystemRandom::new();
        let key = &self.key;
        key.sign(
            &RSA_PKCS1_SHA256,
            &random,
            signed.as_bytes(),
            &mut signature,
        )
        .ok()?;
        Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The request for a token, at a time in Unix seconds; nothing where it cannot be signed.
    pub fn request(&self, unix_s: u64) -> Option<http::Request<Bytes>> {
        let grant = GRANT.replace(':', "%3A");
        let body = format!("grant_type={grant}&assertion={}", self.statement(unix_s)?);
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        http::Request::post("/")
            .header(CONTENT_TYPE, form)
            .header(ACCEPT, "application/json")
            .body(Bytes::from(body))
            .ok()
    }

    /// The token of an answer to that, where it is one.
    pub fn token(answer: &[u8]) -> Option<Secret> {
        token_of(answer).map(|(token, _)| token)
    }

    /// Asks for a token: the token, and for how many seconds it is good.
    async fn exchange(&self, lane: &LlmLane) -> Result<(Secret, u64), String> {
        let resource = Resource::server(self.target.clone());
        let id = (lane.settings().new_id)();
        let call = Call::new(
            id,
            Ipv4Addr::LOCALHOST.into(),
            &TOKEN,
            &resource,
            TOKEN.method,
        );
        let passed = lane.shared.gate.own(call).await;
        let passed = passed.map_err(|refusal| refusal.public)?;
        let answered = self.ask(lane, &passed).await;
        let (end, why) = match &answered {
            Ok(_) => (CallEnd::Complete, None),
            Err(why) => (CallEnd::Failed, Some(("llm.provider_failed", why.as_str()))),
        };
        passed.end(CallEnding {
            why,
            ..CallEnding::of(end)
        });
        answered
    }

    async fn ask(&self, lane: &LlmLane, passed: &gate::Passed) -> Result<(Secret, u64), String> {
        let request = self.request((lane.settings().unix_ms)() / 1_000);
        let request = request.ok_or("the statement cannot be signed")?;
        let sent = lane.upstreams.send(passed, request, EXCHANGE_MS).await;
        let mut answer = sent.map_err(|error| error.to_string())?;
        let body = answer.whole(EXCHANGE_BYTES_MAX, EXCHANGE_MS).await;
        let body = body.map_err(|error| error.to_string())?;
        answer.reuse();
        let status = answer.head.status;
        match status.is_success() {
            true => token_of(&body).ok_or_else(|| "it gave no token that can be used".to_owned()),
            false => Err(format!(
                "it answered {}{}",
                status.as_u16(),
                error_of(&body)
            )),
        }
    }
}

/// The token of an answer (RFC 6749, section 5.1).
fn token_of(body: &[u8]) -> Option<(Secret, u64)> {
    #[derive(Deserialize)]
    struct Given {
        access_token: String,
        token_type: String,
        expires_in: u64,
    }
    let given: Given = serde_json::from_slice(body).ok()?;
    let is_token = (1..=TOKEN_BYTES_MAX).contains(&given.access_token.len())
        && given
            .access_token
            .bytes()
            .all(|byte| byte.is_ascii_graphic());
    let is_bearer = given.token_type.eq_ignore_ascii_case("bearer") && given.expires_in > 0;
    (is_token && is_bearer).then(|| {
        let for_s = given.expires_in.min(TOKEN_S_MAX);
        (Secret::new(given.access_token), for_s)
    })
}

/// The word that an error of OAuth has (RFC 6749, section 5.2), where it is one.
fn error_of(body: &[u8]) -> String {
    let said: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let word = said.as_ref().and_then(|said| said.get("error")?.as_str());
    let is_word = |word: &&str| {
        word.len() <= 64
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    word.filter(is_word)
        .map_or(String::new(), |word| format!(" ({word})"))
}

/// The bytes of a private key in PEM (RFC 7468).
fn der(pem: &str) -> Option<Vec<u8>> {
    let inner = pem.split_once("-----BEGIN PRIVATE KEY-----")?.1;
    let inner = inner.split_once("-----END PRIVATE KEY-----")?.0;
    let text: String = inner.split_ascii_whitespace().collect();
    STANDARD.decode(text).ok()
}

/// The token of one provider.
#[derive(Default)]
pub(crate) struct TokenCache {
    known: Mutex<KnownTokens>,
    /// Held by the one call that exchanges; the others wait for it.
    exchanging: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct KnownTokens {
    /// The token, and until when it is sent, on the monotonic clock in milliseconds.
    good: Option<(Secret, u64)>,
    /// The one before, which calls under way were sent with.
    before: Option<Secret>,
    /// Why the last exchange failed, and until when nobody asks again.
    failed: Option<(String, u64)>,
}

impl TokenCache {
    /// A token that is good.
    ///
    /// # Errors
    /// Why none was given.
    pub(crate) async fn get(
        &self,
        lane: &LlmLane,
        account: &ServiceAccount,
    ) -> Result<Secret, String> {
        let now_ms = lane.settings().now_ms;
        if let Some(known) = self.known(now_ms()) {
            return known;
        }
        let _one = self.exchanging.lock().await;
        // Another call may have got it while this one waited.
        if let Some(known) = self.known(now_ms()) {
            return known;
        }
        let given = account.exchange(lane).await;
        let now_ms = now_ms();
        let mut known = self.lock();
        match given {
            Ok((token, for_s)) => {
                let early_s = EARLY_S.min(for_s / 2);
                let last = known.good.take().map(|(token, _)| token);
                *known = KnownTokens {
                    good: Some((token.clone(), now_ms + (for_s - early_s) * 1_000)),
                    before: last.or(known.before.take()),
                    failed: None,
                };
                Ok(token)
            }
            Err(why) => {
                let why = format!("gave no token: {why}");
                known.failed = Some((why.clone(), now_ms + FAILED_MS));
                Err(why)
            }
        }
    }

    fn known(&self, now_ms: u64) -> Option<Result<Secret, String>> {
        let known = self.lock();
        if let Some((token, _)) = known.good.as_ref().filter(|(_, until)| now_ms < *until) {
            return Some(Ok(token.clone()));
        }
        let failed = known.failed.as_ref().filter(|(_, until)| now_ms < *until);
        failed.map(|(why, _)| Err(why.clone()))
    }

    /// The provider does not take the token: the next call gets another.
    pub(crate) fn forget(&self, token: &Secret) {
        let mut known = self.lock();
        if known.good.as_ref().is_some_and(|(good, _)| good == token) {
            known.before = known.good.take().map(|(token, _)| token);
        }
    }

    /// Tokens that calls under way may have been sent with.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let known = self.lock();
        let good = known.good.as_ref().map(|(token, _)| token);
        good.into_iter().chain(&known.before).cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, KnownTokens> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_service_accounts_is_refused_without_its_key() {
        let read = |json: &str| {
            let name = Name::new("t").unwrap();
            let read = ServiceAccount::read(json, name, GOOGLE_TOKEN_URL);
            read.map(drop).unwrap_err()
        };
        let file = |kind: &str, key: &str, uri: &str| {
            json!({ "type": kind, "client_email": "a@b", "private_key": key, "token_uri": uri })
                .to_string()
        };
        for (json, why) in [
            ("{}".to_owned(), "no service account's file"),
            (
                file("authorized_user", "k", GOOGLE_TOKEN_URL),
                "another kind",
            ),
            (
                file("service_account", "kept", "https://evil.example/token"),
                "evil.example",
            ),
            (
                file("service_account", "kept", GOOGLE_TOKEN_URL),
                "no private key",
            ),
            (
                file(
                    "service_account",
                    "-----BEGIN PRIVATE KEY-----\nkept\n-----END PRIVATE KEY-----",
                    GOOGLE_TOKEN_URL,
                ),
                "none of RSA",
            ),
        ] {
            let said = read(&json);
            assert!(said.contains(why) && !said.contains("kept"), "{said}");
        }
    }

    #[test]
    fn a_token_is_one_that_a_field_can_hold() {
        let of = |json: serde_json::Value| token_of(json.to_string().as_bytes()).map(|of| of.1);
        let good = json!({ "access_token": "ya29.x", "token_type": "Bearer", "expires_in": 3599 });
        assert_eq!(of(good.clone()), Some(3_599));
        for (member, value) in [
            ("access_token", json!("a b")),
            ("access_token", json!("")),
            ("token_type", json!("mac")),
            ("expires_in", json!(0)),
            ("expires_in", json!(-1)),
        ] {
            let mut odd = good.clone();
            odd[member] = value;
            assert_eq!(of(odd), None, "{member}");
        }
        let mut long = good;
        long["expires_in"] = u64::MAX.into();
        assert_eq!(of(long), Some(TOKEN_S_MAX));
        assert_eq!(
            error_of(br#"{"error":"invalid_grant"}"#),
            " (invalid_grant)"
        );
        assert_eq!(error_of(br#"{"error":"my key is x"}"#), "");
    }
}
