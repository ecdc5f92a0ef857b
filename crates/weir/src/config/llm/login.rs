//! What stands in the place of a provider's key: a key of AWS that signs, or a service account of Google.

use ::config::{Check, Path as Key, Text, Url};
use base::Name;
use llm::section::{AwsSection, GoogleSection, ProviderSection};
use llm::{AwsKey, GOOGLE_TOKEN_URL, ProviderKind, ProviderLogin, ServiceAccount};

use crate::config::settings::TokenPlace;

/// Largest file of a service account.
const ACCOUNT_BYTES_MAX: usize = 64 << 10;
/// A project, where the file that names it was not there to be read.
const UNREAD: &str = "unread";
/// Behind a provider's name, what its place of tokens is called among all targets.
const TOKEN_SUFFIX: &str = ".token";

/// A login, before it is known where its provider is.
pub(super) struct FoundLogin {
    /// Absent where its secrets are not there, and nobody needs them.
    login: Option<ProviderLogin>,
    /// What stands for names in a kind's address.
    words: Vec<(&'static str, String)>,
}

impl FoundLogin {
    /// The address of a kind with this login's names in it.
    pub(super) fn address(&self, address: &str) -> String {
        let words = self.words.iter();
        words.fold(address.to_owned(), |address, (name, word)| {
            address.replace(&format!("{{{name}}}"), word)
        })
    }

    /// The login for a provider that is here.
    pub(super) fn at(self, url: &Url) -> Option<ProviderLogin> {
        Some(match self.login? {
            ProviderLogin::Aws(key) => ProviderLogin::Aws(AwsKey {
                host: url.authority(),
                base: url.path.clone(),
                ..key
            }),
            google @ ProviderLogin::Google(_) => google,
        })
    }
}

/// The login that is written, and where its tokens are got.
pub(super) fn login(
    name: &str,
    written: &ProviderSection,
    kind: &ProviderKind,
    at: &Key,
    check: &mut Check<'_>,
) -> (Option<FoundLogin>, Option<TokenPlace>) {
    let has_key = check.wrote(&at.key("key")) || check.wrote(&at.key("keys"));
    let both = written.aws.is_some() && written.google.is_some();
    for (key, is_written, is_taken) in [
        ("aws", written.aws.is_some(), kind.sigv4.is_some()),
        ("google", written.google.is_some(), kind.service_account),
    ] {
        if is_written && !is_taken {
            check.say(&at.key(key), "is nothing that this kind of provider takes");
        } else if is_written && (has_key || both) {
            check.say(
                &at.key(key),
                "stands beside another key; keep one of the two",
            );
        }
    }
    match (&written.aws, &written.google, &kind.sigv4) {
        (Some(aws), None, Some(service)) => (of_aws(aws, service, &at.key("aws"), check), None),
        (None, Some(google), _) if kind.service_account => {
            let found = of_google(name, google, &at.key("google"), check);
            found.map_or((None, None), |(login, place)| (Some(login), Some(place)))
        }
        _ => (None, None),
    }
}

fn of_aws(
    written: &AwsSection,
    service: &str,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<FoundLogin> {
    let region = word(&written.region, &at.key("region"), check);
    let key_id = check.secret(&written.key_id, &at.key("key_id"));
    let secret = check.secret(&written.secret, &at.key("secret"));
    let session = check.of(
        &written.session_token,
        &at.key("session_token"),
        Check::secret,
    );
    let region = region?;
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if key_id
        .as_ref()
        .is_some_and(|id| !id.expose().bytes().all(is_id))
    {
        check.say(
            &at.key("key_id"),
            "names something that is no key's name of AWS",
        );
        return None;
    }
    let login = key_id.zip(secret).map(|(key_id, secret)| {
        ProviderLogin::Aws(AwsKey {
            region: region.clone(),
            service: service.to_owned(),
            key_id: key_id.expose().to_owned(),
            secret,
            session,
            host: String::new(),
            base: String::new(),
        })
    });
    Some(FoundLogin {
        words: vec![("region", region)],
        login,
    })
}

fn of_google(
    name: &str,
    written: &GoogleSection,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<(FoundLogin, TokenPlace)> {
    let location = word(&written.location, &at.key("location"), check);
    let own = check.of(
        &written.project,
        &at.key("project"),
        |check, project, at| word(project, at, check),
    );
    let token_url = match &written.token_url {
        Some(url) => url.clone(),
        None => ::config::url::parse(GOOGLE_TOKEN_URL).expect("a test reads it"),
    };
    if !token_url.https && !token_url.is_loopback() {
        let message =
            "is http, and the statement would cross the network in the clear; use an https url";
        check.say(&at.key("token_url"), message);
    }
    let target = Name::new(&format!("{name}{TOKEN_SUFFIX}"));
    let target = target.ok_or_else(|| {
        format!(
            "the provider's name has more than {} letters",
            Name::CHARS_MAX - TOKEN_SUFFIX.len()
        )
    });
    let target = check.good(at, target)?;
    let file = at.key("service_account");
    let text = check.text(&written.service_account.0, ACCOUNT_BYTES_MAX);
    let written_url = format!("{}{}", token_url.origin(), token_url.path);
    let account = text.and_then(|text| {
        ServiceAccount::read(&text, target.clone(), &written_url)
            .map_err(|why| format!("the file {why}"))
    });
    let account = check.good_secret(&file, account);
    let location = location?;
    let of_account = account.as_ref().and_then(|account| account.project.clone());
    let project = match (own.or(of_account), &account) {
        (Some(project), _) => project,
        // It is nobody's to ask.
        (None, None) => UNREAD.to_owned(),
        (None, Some(_)) => {
            check.say(
                at,
                "names no project, and the account's file does not either",
            );
            return None;
        }
    };
    if !is_word(&project) {
        check.say(&file, "names a project that cannot be one");
        return None;
    }
    let place = TokenPlace {
        name: target,
        url: token_url,
        is_own: written.token_url.is_some(),
    };
    let login = FoundLogin {
        words: vec![
            ("host", vertex_host(&location)),
            ("project", project),
            ("location", location),
        ],
        login: account.map(ProviderLogin::Google),
    };
    Some((login, place))
}

/// The host of a location (Vertex AI, "Locations"): regions have one each, and so have those that span several.
fn vertex_host(location: &str) -> String {
    match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
        region => format!("{region}-aiplatform.googleapis.com"),
    }
}

/// A name that stands in a host or a path.
fn word(text: &Text, at: &Key, check: &mut Check<'_>) -> Option<String> {
    if !is_word(&text.0) {
        check.say(
            at,
            "has other than small letters, digits and hyphens, such as us-east-1",
        );
        return None;
    }
    Some(text.0.clone())
}

fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(is_plain) && !text.starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_location_has_its_host() {
        assert!(::config::url::parse(GOOGLE_TOKEN_URL).is_ok());
        for (location, host) in [
            ("global", "aiplatform.googleapis.com"),
            ("eu", "aiplatform.eu.rep.googleapis.com"),
            ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
        ] {
            assert_eq!(vertex_host(location), host);
        }
        for odd in ["", "-a", "a.b", "a/b", "A"] {
            assert!(!is_word(odd), "{odd}");
        }
    }
}
