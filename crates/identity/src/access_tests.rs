use super::*;
use crate::testing::TestKey;

const NOW: u64 = 1_700_000_000_000;

fn new_token<'t>(scopes: &'t [String], binding: Option<TokenBinding>) -> NewToken<'t> {
    NewToken {
        issuer: "https://gate.example",
        audience: "https://gate.example",
        subject: "build",
        behalf: None,
        scopes,
        binding,
        root: Digest([7; 32]),
        id: "one",
        now_unix_ms: NOW,
        life_ms: 600_000,
    }
}

fn read_at(text: &str, keys: &KeySet, now_unix_ms: u64) -> Result<AccessToken, JoseError> {
    let expected = ExpectedClaims {
        issuer: "https://gate.example",
        audiences: &["https://gate.example"],
        life_ms_max: 900_000,
        now_unix_ms,
    };
    AccessToken::read(text, keys, &expected)
}

#[test]
fn a_token_says_what_it_was_made_of() {
    let key = TokenKey::new(&[3; 32]).unwrap();
    let keys = KeySet::of([key.public()]);
    let scopes = ["mcp:files".to_owned(), "llm".to_owned()];
    for binding in [
        None,
        Some(TokenBinding::Key(Digest([1; 32]))),
        Some(TokenBinding::Certificate(Digest([2; 32]))),
    ] {
        let text = key.sign(&new_token(&scopes, binding));
        let token = read_at(&text, &keys, NOW).unwrap();
        assert_eq!(
            (token.agent.as_str(), token.behalf.as_deref()),
            ("build", None)
        );
        assert_eq!(
            (token.scopes.as_slice(), token.binding),
            (&scopes[..], binding)
        );
        assert_eq!(
            (token.root, token.claims.id.as_deref()),
            (Digest([7; 32]), Some("one"))
        );
        assert!(read_at(&text, &keys, NOW + 599_999).is_ok());
        assert_eq!(
            read_at(&text, &keys, NOW + 600_000),
            Err(JoseError::Expired)
        );
    }
    let behalf = NewToken {
        behalf: Some("ann@example"),
        ..new_token(&[], None)
    };
    let token = read_at(&key.sign(&behalf), &keys, NOW).unwrap();
    assert_eq!(
        (token.agent.as_str(), token.behalf.as_deref()),
        ("build", Some("ann@example"))
    );
}

#[test]
fn tokens_of_others_and_of_other_kinds_are_refused() {
    let key = TokenKey::new(&[3; 32]).unwrap();
    let other = TokenKey::new(&[4; 32]).unwrap();
    let keys = KeySet::of([key.public()]);
    let text = key.sign(&new_token(&[], None));
    assert_eq!(
        read_at(&text, &KeySet::of([other.public()]), NOW),
        Err(JoseError::KeyUnknown)
    );
    let forged = other.sign(&new_token(&[], None));
    assert_eq!(read_at(&forged, &keys, NOW), Err(JoseError::KeyUnknown));
    let signer = TestKey::new();
    let kid = key.public().0.unwrap();
    let header = json!({ "alg": "ES256", "kid": kid, "typ": "at+jwt" }).to_string();
    let confused = signer.sign(&header, "{}");
    assert_eq!(read_at(&confused, &keys, NOW), Err(JoseError::KeyMismatch));
    let claims = json!({ "iss": "https://gate.example" });
    let assertion = key.sign_jwt("JWT", &claims);
    assert_eq!(read_at(&assertion, &keys, NOW), Err(JoseError::Type));
    let elsewhere = NewToken {
        audience: "https://other.example",
        ..new_token(&[], None)
    };
    assert_eq!(
        read_at(&key.sign(&elsewhere), &keys, NOW),
        Err(JoseError::Audience)
    );
    let rotated = KeySet::of([other.public(), key.public()]);
    assert!(read_at(&text, &rotated, NOW).is_ok());
}

#[test]
fn bindings_that_are_not_understood_are_refused() {
    let read = |text: &str| {
        let json = crate::jose::strict_object(text.as_bytes()).unwrap();
        binding(json.root())
    };
    let zeros = "A".repeat(43);
    assert_eq!(read("{}"), Ok(None));
    let jkt = format!(r#"{{"cnf":{{"jkt":"{zeros}"}}}}"#);
    assert_eq!(read(&jkt), Ok(Some(TokenBinding::Key(Digest([0; 32])))));
    for bad in [
        r#"{"cnf":{}}"#.to_owned(),
        r#"{"cnf":null}"#.to_owned(),
        r#"{"cnf":{"jkt":"AQ"}}"#.to_owned(),
        r#"{"cnf":{"kid":"x"}}"#.to_owned(),
        format!(r#"{{"cnf":{{"jkt":"{zeros}","x5t#S256":"{zeros}"}}}}"#),
    ] {
        assert!(read(&bad).is_err(), "{bad}");
    }
}

#[test]
fn scopes_are_words_with_one_space_between() {
    assert_eq!(read_scopes(""), Some(vec![]));
    assert_eq!(
        read_scopes("a b:c"),
        Some(vec!["a".to_owned(), "b:c".to_owned()])
    );
    for bad in [" ", "a ", " a", "a  b", "a\"b", "a\\b", "a\nb", "\u{e9}"] {
        assert_eq!(read_scopes(bad), None, "{bad:?}");
    }
    assert_eq!(read_scopes(&vec!["a"; 65].join(" ")), None);
}
