//! How a provider knows the gateway where a key in a field will not do: AWS wants each request signed, Google a token that a service
//! account is exchanged for.
//!
//! A signature is made over the bytes that are sent, so it comes last. Secrets stand in no error and no record.

pub(crate) mod aws;
pub(crate) mod google;

use base::Secret;
use http::header::{HeaderName, HeaderValue};

use crate::lane::LlmLane;
use crate::provider::Provider;
use crate::route::ProviderState;
use aws::AwsKey;
use google::ServiceAccount;

/// What the configuration says of such a provider.
#[derive(Clone, PartialEq)]
pub enum ProviderLogin {
    Aws(AwsKey),
    Google(ServiceAccount),
}

impl ProviderLogin {
    /// What must not come back in an answer. Google's private key is sent to nobody.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> + Clone {
        let (first, second) = match self {
            ProviderLogin::Aws(key) => (Some(&key.secret), key.session.as_ref()),
            ProviderLogin::Google(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// What one try shows its provider.
pub(crate) enum Credential<'p> {
    /// It wants none.
    Nothing,
    /// A key for the field of its kind.
    Key(&'p Secret),
    /// A signature over the whole request, made at this time in Unix milliseconds.
    Signature(&'p AwsKey, u64),
    /// A token that Google gave.
    Token(Secret),
}

impl<'p> Credential<'p> {
    /// What a try with this key of the provider shows; a token is got where there is none that is good.
    ///
    /// # Errors
    /// Why there is no token, without any part of a secret.
    pub(crate) async fn of(
        lane: &LlmLane,
        provider: &'p Provider,
        state: &ProviderState,
        key: Option<usize>,
    ) -> Result<Credential<'p>, String> {
        let own = key.and_then(|key| provider.keys.get(key));
        Ok(match (own, &provider.login) {
            (Some(key), _) => Credential::Key(key),
            (None, Some(ProviderLogin::Aws(key))) => {
                Credential::Signature(key, (lane.settings().unix_ms)())
            }
            (None, Some(ProviderLogin::Google(account))) => {
                Credential::Token(state.tokens.get(lane, account).await?)
            }
            (None, None) => Credential::Nothing,
        })
    }

    /// Puts it into a request that is otherwise as it will be sent. Nothing where that cannot be written.
    pub(crate) fn put(
        &self,
        provider: &Provider,
        request: &mut http::Request<bytes::Bytes>,
    ) -> Option<()> {
        let (name, value) = match self {
            Credential::Nothing => return Some(()),
            Credential::Signature(key, unix_ms) => return aws::sign(request, key, *unix_ms),
            Credential::Key(key) => provider.kind.key.field(key),
            Credential::Token(token) => provider.kind.key.field(token),
        };
        put_secret(request.headers_mut(), name, &value)
    }
}

/// A field that no log shows.
fn put_secret(fields: &mut http::HeaderMap, name: HeaderName, value: &str) -> Option<()> {
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    fields.insert(name, value);
    Some(())
}
