//! Where clients find out how to get a token: RFC 8414 of the authorization server, RFC 9728 of each resource.

use identity::public_key::JWS_ALGORITHMS;
use serde_json::{Value, json};

use super::shared::IdentityShared;

/// The metadata of the token service (RFC 8414 §2).
pub(super) fn server(shared: &IdentityShared) -> Value {
    let issuer = issuer(shared);
    json!({
        "issuer": issuer,
        // Nobody logs in here; clients that were written for people ask for this member all the same.
        "authorization_endpoint": format!("{issuer}/oauth/authorize"),
        "token_endpoint": format!("{issuer}/oauth/token"),
        "jwks_uri": format!("{issuer}/oauth/jwks"),
        "introspection_endpoint": format!("{issuer}/oauth/introspect"),
        "revocation_endpoint": format!("{issuer}/oauth/revoke"),
        "grant_types_supported": [
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ],
        "response_types_supported": [],
        "token_endpoint_auth_methods_supported": ["private_key_jwt", "tls_client_auth"],
        "token_endpoint_auth_signing_alg_values_supported": JWS_ALGORITHMS,
        "introspection_endpoint_auth_methods_supported": ["private_key_jwt", "tls_client_auth"],
        "revocation_endpoint_auth_methods_supported": ["private_key_jwt", "tls_client_auth"],
        "dpop_signing_alg_values_supported": JWS_ALGORITHMS,
        "tls_client_certificate_bound_access_tokens": true,
        "scopes_supported": scopes(),
    })
}

/// The metadata of the resource whose path follows the well-known one (RFC 9728 §2).
pub(super) fn resource(shared: &IdentityShared, path: &str) -> Value {
    let issuer = issuer(shared);
    let below = path.strip_prefix("/.well-known/oauth-protected-resource");
    let mut servers = vec![issuer.clone()];
    let trust = shared.trust();
    servers.extend(
        trust
            .iter()
            .flat_map(|trust| trust.outside.iter().map(|one| one.issuer.clone())),
    );
    json!({
        "resource": format!("{issuer}{}", below.unwrap_or_default()),
        "authorization_servers": servers,
        "scopes_supported": scopes(),
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": JWS_ALGORITHMS,
        "tls_client_certificate_bound_access_tokens": true,
        "resource_name": "weir",
    })
}

fn issuer(shared: &IdentityShared) -> String {
    shared
        .trust()
        .map_or_else(String::new, |trust| trust.issuer.clone())
}

/// The names of lanes and of their actions.
fn scopes() -> Vec<&'static str> {
    let mut scopes = Vec::new();
    for row in crate::lanes::ALL {
        scopes.push(row.lane.name);
        scopes.extend(row.lane.actions.iter().map(|action| action.name));
    }
    scopes
}
