//! Tells a secret once: of rules that found the same secret at the same place, the one that says most of it.
//!
//! A token of GitHub under the name `API_KEY` is found by its own form, by the name, and by its randomness. That is one
//! secret. Two secrets are never told as one: rules that know a form hide only rules that do not, or the same bytes.

use std::ops::Range;

use crate::report::Finding;
use crate::rule::{Action, Class, Rule};

/// Rules that know no form: they go by the name beside a value, or by its randomness. The last says least.
const GENERAL: [&str; 21] = [
    "url_password",
    "cli_password",
    "registry_login",
    "netrc_login",
    "session_cookie",
    "basic_auth",
    "bearer_token",
    "auth_header",
    "url_login",
    "query_secret",
    "query_login",
    "env_value",
    "call_secret",
    "told_password",
    "password_assignment",
    "password_value",
    "weak_password_value",
    "jwk_private_member",
    "jwt_other",
    "private_key_body",
    "encoded_token",
];

/// What is asked of a finding.
#[derive(Clone, Debug)]
pub struct Sighting<'f> {
    pub rule: &'static Rule,
    pub action: Action,
    /// The field path.
    pub path: &'f str,
    /// Bytes of the input.
    pub span: Range<usize>,
    /// Whether an encoding was undone to see it: then its span is that of all that was encoded.
    pub is_disguised: bool,
    /// Keyed hash of what matched.
    pub fingerprint: u64,
}

/// A secret at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distinct {
    /// The number of the sighting that says most.
    pub told: usize,
    /// The numbers of the others, which say the same of it.
    pub also: Vec<usize>,
}

impl<'f> From<&'f Finding> for Sighting<'f> {
    fn from(finding: &'f Finding) -> Sighting<'f> {
        Sighting {
            rule: finding.rule,
            action: finding.action,
            path: &finding.path,
            span: finding.span.clone(),
            is_disguised: !finding.disguise.is_empty(),
            fingerprint: finding.fingerprint,
        }
    }
}

/// Each secret once, in the order in which the sightings that are told of it came.
pub fn distinct(sightings: &[Sighting<'_>]) -> Vec<Distinct> {
    let mut ranked: Vec<usize> = (0..sightings.len()).collect();
    // What is done about it comes first: no refusal hides behind a warning.
    ranked.sort_by_key(|number| {
        let one = &sightings[*number];
        let general = place_of(one.rule);
        (
            std::cmp::Reverse(one.action),
            general,
            std::cmp::Reverse(one.rule.severity),
            one.is_disguised,
            *number,
        )
    });
    let mut told: Vec<Distinct> = Vec::new();
    for number in ranked {
        let one = &sightings[number];
        let same = |known: &&mut Distinct| is_same(&sightings[known.told], one);
        match told.iter_mut().find(same) {
            Some(known) => known.also.push(number),
            None => told.push(Distinct {
                told: number,
                also: Vec::new(),
            }),
        }
    }
    told.sort_by_key(|distinct| distinct.told);
    told
}

/// How little a rule says of what it found; 0 where it knows its form.
fn place_of(rule: &Rule) -> usize {
    let at = GENERAL.iter().position(|general| *general == rule.id);
    at.map_or(0, |at| at + 1)
}

/// Whether the secret that is told is the one that another rule saw.
fn is_same(told: &Sighting<'_>, other: &Sighting<'_>) -> bool {
    let private = |class| matches!(class, Class::Secret | Class::Personal);
    let inside =
        |one: &Range<usize>, other: &Range<usize>| one.start <= other.start && other.end <= one.end;
    let place = told.path == other.path
        && (inside(&told.span, &other.span) || inside(&other.span, &told.span));
    let same_rule = told.rule.id == other.rule.id;
    let plain = !told.is_disguised && !other.is_disguised;
    private(told.rule.class)
        && told.rule.class == other.rule.class
        && place
        && match same_rule {
            // One run may encode several. Where one of both is plain, the other put it together with what stands beside it.
            true => {
                plain
                    || told.is_disguised != other.is_disguised
                    || told.fingerprint == other.fingerprint
            }
            false => plain || place_of(other.rule) > 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(rule: &str, span: Range<usize>, disguised: bool, print: u64) -> Sighting<'static> {
        Sighting {
            rule: crate::patterns::rule(rule).expect("the rule is one of ours"),
            action: Action::Refuse,
            path: "params.arguments.text",
            span,
            is_disguised: disguised,
            fingerprint: print,
        }
    }

    fn told(sightings: &[Sighting<'_>]) -> Vec<(&'static str, usize)> {
        let all = distinct(sightings).into_iter();
        all.map(|one| (sightings[one.told].rule.id, one.also.len()))
            .collect()
    }

    #[test]
    fn general_rules_are_rules() {
        let unknown = GENERAL
            .iter()
            .filter(|id| crate::patterns::rule(id).is_none());
        let unknown: Vec<&&str> = unknown.collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn a_secret_is_told_by_the_rule_that_knows_it() {
        let all = [
            sighting("password_assignment", 4..60, false, 1),
            sighting("github_token", 10..60, false, 2),
            sighting("encoded_token", 10..60, true, 3),
        ];
        assert_eq!(told(&all), [("github_token", 2)]);
        let joined = [
            sighting("github_token", 0..90, true, 1),
            sighting("github_token", 10..60, false, 2),
        ];
        assert_eq!(told(&joined), [("github_token", 1)]);
        assert_eq!(distinct(&joined)[0].told, 1);
    }

    #[test]
    fn two_secrets_stay_two() {
        let apart = [
            sighting("github_token", 0..40, false, 1),
            sighting("github_token", 50..90, false, 1),
        ];
        assert_eq!(told(&apart).len(), 2);
        let in_one_run = [
            sighting("github_token", 0..90, true, 1),
            sighting("aws_access_key_id", 0..90, true, 2),
            sighting("github_token", 0..90, true, 3),
            sighting("encoded_token", 0..90, true, 4),
        ];
        assert_eq!(told(&in_one_run).len(), 3);
    }

    #[test]
    fn a_refusal_hides_behind_no_warning() {
        let mut all = [
            sighting("password_assignment", 4..60, false, 1),
            sighting("github_token", 10..60, false, 2),
        ];
        all[1].action = Action::Warn;
        assert_eq!(told(&all), [("password_assignment", 1)]);
    }
}
