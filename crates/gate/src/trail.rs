//! What the record will say, gathered while the call is judged.

use std::borrow::Cow;

use base::record::{Finding, Judgement};
use base::{CallId, Digest, Name, Now, Refusal, Resource};
use identity::Verified;
use scan::{Action, Direction, Engine, Report, Sighting};

use crate::call::Call;
use crate::rules::Rules;

pub(crate) struct Trail<'a> {
    call: Call<'a>,
    now: Now,
    /// Who was recognised.
    verified: Option<Verified>,
    /// The gateway's own name, for calls of its own.
    own: Option<Name>,
    /// The call that this one tries again.
    first: Option<CallId>,
    policy_set: Digest,
    policies: Vec<String>,
    attributes: Vec<(String, String)>,
    /// All that the attributes were read from was scanned, and nothing was found.
    clean: bool,
    /// The server is configured: its name is the operator's and not the caller's.
    is_configured: bool,
    findings: Vec<Finding>,
    refused: Option<(&'static str, String)>,
    /// What it would have been refused for, where it passes all the same.
    observed: Option<(&'static str, String)>,
}

impl<'a> Trail<'a> {
    pub(crate) fn new(
        call: &Call<'a>,
        verified: Option<&Verified>,
        rules: &Rules,
        now: Now,
    ) -> Trail<'a> {
        Trail {
            call: *call,
            now,
            verified: verified.cloned(),
            own: None,
            first: None,
            policy_set: rules.policies.digest(),
            policies: Vec::new(),
            attributes: Vec::new(),
            clean: false,
            is_configured: rules.is_configured(call.resource),
            findings: Vec::new(),
            refused: None,
            observed: None,
        }
    }

    pub(crate) fn resource(&self) -> &'a Resource {
        self.call.resource
    }

    /// The gateway's own call, permitted by the configuration that names its target.
    pub(crate) fn own(&mut self, name: Name) {
        self.own = Some(name);
        self.policies = vec!["configuration".into()];
    }

    pub(crate) fn tries_again(&mut self, first: CallId) {
        self.first = Some(first);
    }

    pub(crate) fn is_tried_again(&self) -> bool {
        self.first.is_some()
    }

    pub(crate) fn policies(&self) -> &[String] {
        &self.policies
    }

    /// The ids of the scan's rules that matched.
    pub(crate) fn rules(&self) -> Vec<&'static str> {
        self.findings.iter().map(|finding| finding.rule).collect()
    }

    pub(crate) fn admitted(&mut self, policies: Vec<String>, attributes: Vec<(String, String)>) {
        self.policies = policies;
        self.attributes = attributes;
    }

    pub(crate) fn decided(&mut self, policies: Vec<String>) {
        self.policies = policies;
    }

    pub(crate) fn found(&mut self, findings: Vec<Finding>) {
        self.findings = findings;
    }

    /// The parameters were scanned: clean where nothing was found.
    pub(crate) fn scanned(&mut self, clean: bool) {
        self.clean = clean;
    }

    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    pub(crate) fn refused(&mut self, refusal: &Refusal) -> &mut Self {
        let why = if refusal.private.is_empty() {
            &refusal.public
        } else {
            &refusal.private
        };
        self.refused = Some((refusal.code.name, why.clone()));
        self
    }

    /// Notes the first thing that the call would have been refused for.
    pub(crate) fn observed(&mut self, refusal: &Refusal) {
        self.observed
            .get_or_insert_with(|| (refusal.code.name, refusal.public.clone()));
    }

    /// Whether the call would have been refused.
    pub(crate) fn objection(&self) -> bool {
        self.observed.is_some()
    }

    /// The record. What the agent wrote goes in only after it was looked at: a tool's name, a method or
    /// an argument that a policy reads can hold a secret too (I-05).
    pub(crate) fn to_json(&self, engine: &Engine) -> Vec<u8> {
        let cleaned: Vec<(String, String)>;
        let attributes = match self.clean {
            true => &self.attributes,
            false => {
                let all = self.attributes.iter();
                let clean =
                    |(name, json): &(String, String)| (name.clone(), clean_json(engine, json));
                cleaned = all.map(clean).collect();
                &cleaned
            }
        };
        let part = self.call.resource.part();
        let part = part.map(|(key, name)| (key, clean(engine, name)));
        let agent = self.verified.as_ref().map(|verified| &**verified.agent());
        let name = agent.map(|agent| &agent.name).or(self.own.as_ref());
        // Of a stranger nothing is kept that it may choose at will.
        let request = self.call.request.filter(|_| name.is_some());
        let request = request.map(|request| clean(engine, request));
        let trace = self.call.trace.filter(|_| name.is_some());
        let place = self.call.resource.place();
        let server = match self.is_configured {
            true => Cow::Borrowed(place),
            false => clean(engine, place),
        };
        let why = self
            .refused
            .as_ref()
            .map(|(code, why)| (*code, clean(engine, why)));
        let observed = self.observed.as_ref();
        let observed = observed.map(|(code, why)| (*code, clean(engine, why)));
        let verified = self.verified.as_ref();
        let tags = self.call.tags.iter().filter(|_| name.is_some());
        let tags: Vec<String> = tags.map(|tag| clean(engine, tag).into_owned()).collect();
        Judgement {
            call: self.call.id,
            at: self.now,
            peer: self.call.peer,
            agent: name.map(Name::as_str),
            groups: agent.map_or(&[], |agent| &agent.groups),
            behalf: verified.and_then(Verified::behalf),
            credential: verified.and_then(Verified::thumbprint),
            by: verified.map(|verified| verified.by().as_str()),
            first: self.first.or(self.call.first),
            trace: trace.filter(|trace| is_traceparent(trace)),
            lane: self.call.action.lane.name,
            action: self.call.action.name,
            method: &clean(engine, self.call.method),
            request: request.as_deref(),
            run: self.call.run,
            tags: &tags,
            server: &server,
            part: part.as_ref().map(|(key, name)| (*key, &**name)),
            policies: &self.policies,
            policy_set: self.policy_set,
            attributes,
            findings: &told_once(&self.findings),
            bytes: self.call.bytes,
            reserved: (self.call.cost.input, self.call.cost.output),
            refused: why.as_ref().map(|(code, why)| (*code, &**why)),
            observed: observed.as_ref().map(|(code, why)| (*code, &**why)),
        }
        .to_json()
    }
}

/// Whether a text is a `traceparent` of version 00 (W3C Trace Context, section 3.2): 55 characters.
fn is_traceparent(text: &str) -> bool {
    let is_hex = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    lengths == [2, 32, 16, 2] && parts[0] == "00" && parts.into_iter().all(is_hex)
}

/// A text, or in its place the rule that it met.
pub(crate) fn clean<'t>(engine: &Engine, text: &'t str) -> Cow<'t, str> {
    match engine.text(Direction::Outgoing, text, "") {
        Ok(report) if report.findings.is_empty() => Cow::Borrowed(text),
        Ok(report) => Cow::Owned(marker(&report)),
        Err(bound) => Cow::Owned(format!("({})", bound.0)),
    }
}

/// A line that a server wrote for its operator, as it may stand in a log: without secrets and personal data, whatever is done
/// about them in calls.
pub(crate) fn masked_line(engine: &Engine, line: &str) -> String {
    match engine.text(Direction::Incoming, line, "") {
        Ok(report) => String::from_utf8_lossy(&report.masked(line.as_bytes())).into_owned(),
        Err(bound) => format!("({})", bound.0),
    }
}

/// As [`clean`], for JSON: what stands in its place is JSON too.
fn clean_json(engine: &Engine, json: &str) -> String {
    match engine.json(Direction::Outgoing, json.as_bytes(), "") {
        Ok(report) if report.findings.is_empty() => json.to_owned(),
        Ok(report) => format!("\"{}\"", marker(&report)),
        Err(bound) => format!("\"({})\"", bound.0),
    }
}

fn marker(report: &Report) -> String {
    let first = &report.findings[0];
    format!(
        "({}, fingerprint {:016x})",
        first.rule.id, first.fingerprint
    )
}

/// A finding as a record keeps it: without the text that matched.
pub(crate) fn to_record(finding: &scan::Finding) -> Finding {
    Finding {
        rule: finding.rule.id,
        path: finding.path.clone(),
        action: finding.action.as_str(),
        fingerprint: finding.fingerprint,
        span: (finding.span.start, finding.span.end),
        disguise: finding.disguise,
        exempt: finding.exempt.clone(),
    }
}

/// The findings as a record tells them: a secret that several rules saw at one place is told once. Policies read them all.
fn told_once(findings: &[Finding]) -> Vec<Finding> {
    let (mut seen, mut numbers) = (Vec::new(), Vec::new());
    for (number, finding) in findings.iter().enumerate() {
        // Rules of an operator's own know what they look for.
        if let Some(sighting) = sighting(finding) {
            seen.push(sighting);
            numbers.push(number);
        }
    }
    let also = scan::distinct(&seen).into_iter().flat_map(|one| one.also);
    let also: Vec<usize> = also.map(|at| numbers[at]).collect();
    let all = findings.iter().enumerate();
    let told = all.filter(|(number, _)| !also.contains(number));
    told.map(|(_, finding)| finding.clone()).collect()
}

fn sighting(finding: &Finding) -> Option<Sighting<'_>> {
    Some(Sighting {
        rule: scan::rule(finding.rule)?,
        action: Action::named(finding.action)?,
        path: &finding.path,
        span: finding.span.0..finding.span.1,
        is_disguised: !finding.disguise.is_empty(),
        fingerprint: finding.fingerprint,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_tells_a_secret_once() {
        let finding = |rule, start, disguise| Finding {
            rule,
            path: "params.arguments.text".into(),
            action: "refuse",
            fingerprint: 7,
            span: (start, 60),
            disguise,
            exempt: None,
        };
        let all = [
            finding("password_assignment", 4, ""),
            finding("github_token", 10, ""),
            finding("encoded_token", 10, "base64"),
            finding("acme_badge", 10, ""),
        ];
        let told: Vec<&str> = told_once(&all).iter().map(|finding| finding.rule).collect();
        assert_eq!(told, ["github_token", "acme_badge"]);
    }

    #[test]
    fn only_a_traceparent_is_recorded_as_one() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        assert!(is_traceparent(&format!("00-{trace}-{span}-01")));
        for other in [
            String::new(),
            format!("01-{trace}-{span}-01"),
            format!("00-{trace}-{span}"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-01-more"),
        ] {
            assert!(!is_traceparent(&other), "{other}");
        }
    }
}
