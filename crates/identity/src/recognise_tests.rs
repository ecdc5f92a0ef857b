use std::cell::Cell;
use std::collections::HashMap;

use base::Name;
use rcgen::{CertificateParams, KeyPair, SanType};
use serde_json::{Value, json};

use super::*;
use crate::access::{NewToken, TokenKey};
use crate::dpop::NonceKey;
use crate::jose::to_base64url;
use crate::jws::KeySet;
use crate::key::sha256;
use crate::testing::TestKey;
use crate::trust::{OutsideIssuer, subject_digest};
use crate::verified::{AgentState, PresentedPeer};

const NOW: u64 = 1_700_000_000_000;
const PATH: &str = "/mcp/files";

struct World {
    trust: TokenTrust,
    key: TokenKey,
    agents: HashMap<Digest, Arc<Agent>>,
    revoked: Option<Digest>,
    asked: Cell<u32>,
}

fn agent(name: &str) -> Arc<Agent> {
    Arc::new(Agent {
        name: Name::new(name).unwrap(),
        groups: vec![],
        state: AgentState::Active,
        expires_unix_ms: None,
    })
}

impl World {
    fn new() -> World {
        let key = TokenKey::new(&[1; 32]).unwrap();
        let origins = vec!["https://gate.example".to_owned()];
        let nonces = Arc::new(NonceKey::new(&[2; 32]));
        let keys = KeySet::of([key.public()]);
        let trust = TokenTrust::new("https://gate.example".into(), origins, keys, nonces);
        World {
            trust,
            key,
            agents: HashMap::from([(thumbprint(&Digest([5; 32])), agent("build"))]),
            revoked: None,
            asked: Cell::new(0),
        }
    }

    fn token(&self, binding: Option<TokenBinding>) -> NewToken<'static> {
        NewToken {
            issuer: "https://gate.example",
            audience: "https://gate.example",
            subject: "build",
            behalf: None,
            scopes: &[],
            binding,
            root: thumbprint(&Digest([5; 32])),
            id: "id-1",
            now_unix_ms: NOW,
            life_ms: 600_000,
        }
    }

    fn ask(
        &self,
        authorization: &str,
        proof: Option<&str>,
        certificate: Option<&[u8]>,
    ) -> Result<Recognised, Refusal> {
        let presented = Presented {
            authorization: (!authorization.is_empty()).then_some(authorization),
            proof,
            fields: &[],
            method: "POST",
            target: PATH,
            peer: PresentedPeer {
                address: [127, 0, 0, 1].into(),
                certificate,
            },
        };
        let by_thumbprint = |name: &Digest| {
            self.asked.set(self.asked.get() + 1);
            self.agents.get(name).cloned()
        };
        let known = KnownCallers {
            by_key: &|_| None,
            by_thumbprint: &by_thumbprint,
            is_revoked: &|id| self.revoked == Some(*id),
            trust: Some(&self.trust),
            epoch: 3,
            now_unix_ms: NOW,
        };
        recognise(&presented, &known)
    }

    fn code(&self, authorization: &str, proof: Option<&str>) -> &'static str {
        let refusal = self.ask(authorization, proof, None).unwrap_err();
        for part in authorization.split(['.', ' ']).chain(proof) {
            let is_told =
                part.len() > 12 && format!("{refusal:?} {:?}", refusal.fields).contains(part);
            assert!(!is_told, "a part of what was sent is repeated");
        }
        refusal.code.name
    }

    fn proof(&self, signer: &TestKey, token: &str, change: impl FnOnce(&mut Value)) -> String {
        let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": signer.jwk() });
        let mut claims = json!({
            "jti": "j1", "htm": "POST", "htu": format!("https://gate.example{PATH}"),
            "iat": NOW / 1000, "ath": to_base64url(&sha256(token.as_bytes()).0),
            "nonce": self.trust.nonces.nonce(NOW),
        });
        change(&mut claims);
        signer.sign(&header.to_string(), &claims.to_string())
    }
}

#[test]
fn a_bound_token_with_its_proof_is_its_agent() {
    let (world, signer) = (World::new(), TestKey::new());
    let token = world.key.sign(&NewToken {
        behalf: Some("ann@example"),
        ..world.token(Some(TokenBinding::Key(signer.public().thumbprint())))
    });
    let authorization = format!("DPoP {token}");
    let proof = world.proof(&signer, &token, |_| ());
    let recognised = world.ask(&authorization, Some(&proof), None).unwrap();
    let verified = recognised.verified;
    assert_eq!(verified.agent().name.as_str(), "build");
    assert_eq!(
        (verified.by(), verified.behalf()),
        (Credential::AccessToken, Some("ann@example"))
    );
    assert_eq!(
        (verified.epoch(), verified.expires_unix_ms()),
        (3, Some(NOW + 600_000))
    );
    let once = recognised.once.unwrap();
    let again = world.ask(&authorization, Some(&proof), None).unwrap();
    assert_eq!(again.once.unwrap().id, once.id);

    assert_eq!(world.code(&authorization, None), "agent.proof_missing");
    assert_eq!(
        world.code(&format!("Bearer {token}"), Some(&proof)),
        "agent.proof_missing"
    );
    assert_eq!(
        world.code(&format!("Bearer {token}"), None),
        "agent.proof_missing"
    );
    let thief = world.proof(&TestKey::new(), &token, |_| ());
    assert_eq!(
        world.code(&authorization, Some(&thief)),
        "agent.proof_invalid"
    );
    let get = world.proof(&signer, &token, |claims| claims["htm"] = "GET".into());
    assert_eq!(
        world.code(&authorization, Some(&get)),
        "agent.proof_invalid"
    );
    let other = world.proof(&signer, "another", |_| ());
    assert_eq!(
        world.code(&authorization, Some(&other)),
        "agent.proof_invalid"
    );
    let old = world.proof(&signer, &token, |claims| claims["nonce"] = "x".into());
    assert_eq!(world.code(&authorization, Some(&old)), "agent.proof_nonce");
}

#[test]
fn a_token_ends_with_the_credential_that_it_was_given_for() {
    let mut world = World::new();
    let token = format!("Bearer {}", world.key.sign(&world.token(None)));
    assert!(world.ask(&token, None, None).is_ok());
    world.revoked = Some(token_id("id-1"));
    assert_eq!(world.code(&token, None), "agent.token_invalid");
    world.revoked = None;
    let other = agent("other");
    world.agents.insert(thumbprint(&Digest([5; 32])), other);
    assert_eq!(world.code(&token, None), "agent.token_invalid");
    world.agents.clear();
    assert_eq!(world.code(&token, None), "agent.token_invalid");
}

#[test]
fn tokens_for_other_places_and_of_others_are_refused() {
    let world = World::new();
    let sign = |audience| {
        world.key.sign(&NewToken {
            audience,
            ..world.token(None)
        })
    };
    for audience in [
        "https://gate.example",
        "https://gate.example/",
        "https://gate.example/mcp",
        "https://gate.example/mcp/files",
    ] {
        assert!(
            world
                .ask(&format!("Bearer {}", sign(audience)), None, None)
                .is_ok(),
            "{audience}"
        );
    }
    for audience in [
        "https://gate.example/mcp/fil",
        "https://gate.example/mcp/files/x",
        "https://gate.example/mcp/other",
        "https://other.example",
        "",
    ] {
        let code = world.code(&format!("Bearer {}", sign(audience)), None);
        assert_eq!(code, "agent.token_audience", "{audience}");
    }
    let stranger = TokenKey::new(&[9; 32]).unwrap();
    let forged = stranger.sign(&world.token(None));
    assert_eq!(
        world.code(&format!("Bearer {forged}"), None),
        "agent.token_invalid"
    );
    let elsewhere = NewToken {
        issuer: "https://evil.example",
        ..world.token(None)
    };
    let elsewhere = stranger.sign(&elsewhere);
    assert_eq!(
        world.code(&format!("Bearer {elsewhere}"), None),
        "agent.issuer_unknown"
    );
    let unbound = world.key.sign(&world.token(None));
    assert_eq!(
        world.code(&format!("DPoP {unbound}"), None),
        "agent.proof_invalid"
    );
    for garbage in [
        "DPoP",
        "DPoP x",
        "Bearer a.b.c",
        "Bearer ..",
        "DPoP eyJ.eyJ.",
    ] {
        assert_eq!(
            world.code(garbage, None),
            "agent.token_invalid",
            "{garbage}"
        );
    }
    assert_eq!(world.code("", None), "agent.key_missing");
    assert_eq!(world.code("Basic eA==", None), "agent.key_missing");
    assert_eq!(world.code("Bearer sk-live", None), "agent.key_malformed");
}

#[test]
fn a_refusal_carries_the_challenge_of_its_document() {
    let world = World::new();
    let fields = |authorization: &str| world.ask(authorization, None, None).unwrap_err().fields;
    let missing = fields("");
    let metadata =
        "resource_metadata=\"https://gate.example/.well-known/oauth-protected-resource/mcp/files\"";
    assert_eq!(
        missing[0],
        (
            "www-authenticate",
            format!("Bearer realm=\"weir\", {metadata}")
        )
    );
    assert!(
        missing[1]
            .1
            .starts_with("DPoP realm=\"weir\", algs=\"ES256 "),
        "{missing:?}"
    );
    assert_eq!(missing[2], ("dpop-nonce", world.trust.nonces.nonce(NOW)));
    let invalid = fields("Bearer a.b.c");
    assert!(
        invalid[0].1.contains("error=\"invalid_token\""),
        "{invalid:?}"
    );
    let unbound = world.key.sign(&world.token(None));
    let proof = fields(&format!("DPoP {unbound}"));
    assert!(proof[0].1.starts_with("DPoP ") && proof[0].1.contains("invalid_dpop_proof"));
    let strange = metadata_url(&world.trust, "/mcp/a\"b");
    assert_eq!(
        strange,
        "https://gate.example/.well-known/oauth-protected-resource"
    );
}

fn certificate(uri: &str) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

#[test]
fn a_certificate_is_the_agent_that_has_it_and_binds_tokens() {
    let mut world = World::new();
    let (mine, other) = (
        certificate("spiffe://example.org/agent/build"),
        certificate("spiffe://example.org/agent/build"),
    );
    let name = thumbprint(&certificate_thumbprint(&mine));
    world.agents.insert(name, agent("build"));
    let verified = world.ask("", None, Some(&mine)).unwrap().verified;
    assert_eq!(
        (verified.by(), verified.thumbprint()),
        (Credential::Certificate, Some(name))
    );
    assert_eq!(verified.expires_unix_ms(), Some(1_893_456_000_000));
    // The same name in a certificate that is not kept is nobody's.
    let refusal = world.ask("", None, Some(&other)).unwrap_err();
    assert_eq!(refusal.code, CERTIFICATE);
    let mapped = thumbprint(&spiffe_digest("spiffe://corp.example/ns/ci/sa/build"));
    world.agents.insert(mapped, agent("ci"));
    let svid = certificate("spiffe://corp.example/ns/ci/sa/build");
    assert_eq!(
        world
            .ask("", None, Some(&svid))
            .unwrap()
            .verified
            .agent()
            .name
            .as_str(),
        "ci"
    );

    let bound = TokenBinding::Certificate(certificate_thumbprint(&mine));
    let token = format!("Bearer {}", world.key.sign(&world.token(Some(bound))));
    assert!(world.ask(&token, None, Some(&mine)).is_ok());
    for certificate in [None, Some(&other[..])] {
        let refusal = world.ask(&token, None, certificate).unwrap_err();
        assert_eq!(refusal.code, PROOF_MISSING);
    }
}

#[test]
fn tokens_of_an_outside_issuer_are_the_agents_that_they_are_mapped_to() {
    let mut world = World::new();
    let signer = TestKey::new();
    let outside = |keys| OutsideIssuer {
        name: Name::new("corp").unwrap(),
        issuer: "https://idp.example".into(),
        audience: "gate".into(),
        keys,
        claim: "azp".into(),
        agents: vec![("client-7".into(), Name::new("build").unwrap())],
        is_key_sought: Arc::default(),
    };
    let keys = KeySet::of([(Some("k".to_owned()), signer.public())]);
    world.trust.outside = vec![outside(Some(Arc::new(keys)))];
    let subject = subject_digest("https://idp.example", "client-7");
    world.agents.insert(thumbprint(&subject), agent("build"));
    let token = |typ: &str, change: &dyn Fn(&mut Value)| {
        let mut claims = json!({
            "iss": "https://idp.example", "aud": "gate", "sub": "s", "azp": "client-7",
            "exp": NOW / 1000 + 300,
        });
        change(&mut claims);
        let header = json!({ "alg": "ES256", "kid": "k", "typ": typ });
        format!(
            "Bearer {}",
            signer.sign(&header.to_string(), &claims.to_string())
        )
    };
    let good = token("JWT", &|_| ());
    let verified = world.ask(&good, None, None).unwrap().verified;
    assert_eq!(verified.agent().name.as_str(), "build");
    assert!(
        world
            .ask(&token("application/at+jwt", &|_| ()), None, None)
            .is_ok()
    );
    for (change, code) in [
        (
            token("JWT", &|claims| claims["azp"] = "client-8".into()),
            "agent.subject_unknown",
        ),
        (
            token("JWT", &|claims| claims["aud"] = "other".into()),
            "agent.token_audience",
        ),
        (
            token("JWT", &|claims| claims["exp"] = (NOW / 1000 - 61).into()),
            "agent.token_expired",
        ),
        (
            token("JWT", &|claims| {
                claims["exp"] = (NOW / 1000 + 90_000).into()
            }),
            "agent.token_invalid",
        ),
        (token("dpop+jwt", &|_| ()), "agent.token_invalid"),
        (token("logout+jwt", &|_| ()), "agent.token_invalid"),
    ] {
        assert_eq!(world.code(&change, None), code);
    }
    world.trust.outside = vec![outside(None)];
    assert_eq!(world.code(&good, None), "agent.issuer_away");
}
