//! What the record will say, gathered while the call is judged.

use std::borrow::Cow;

use base::record::{Finding, Judgement};
use base::{Digest, Now, Refusal};
use identity::Verified;
use scan::{Direction, Engine, Report};

use crate::pass::{Call, Rules};

pub(crate) struct Trail<'a> {
    call: Call<'a>,
    now: Now,
    agent: Option<base::Name>,
    credential: Option<Digest>,
    policy_set: Digest,
    policies: Vec<String>,
    attributes: Vec<(String, String)>,
    /// All that the attributes were read from was scanned, and nothing was found.
    clean: bool,
    /// The server is configured: its name is the operator's and not the caller's.
    server_is_known: bool,
    findings: Vec<Finding>,
    refused: Option<(&'static str, String)>,
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
            agent: verified.map(|v| v.agent().name.clone()),
            credential: verified.map(Verified::thumbprint),
            policy_set: rules.policies.digest(),
            policies: Vec::new(),
            attributes: Vec::new(),
            clean: false,
            server_is_known: rules.reach.contains_key(&call.target.server),
            findings: Vec::new(),
            refused: None,
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.now
    }

    pub(crate) fn server(&self) -> &'a base::Name {
        &self.call.target.server
    }

    pub(crate) fn agent(&mut self, name: base::Name) {
        self.agent = Some(name);
    }

    pub(crate) fn credential(&mut self, credential: Option<Digest>) {
        self.credential = credential;
    }

    /// The thumbprint of the agent's key.
    pub(crate) fn thumbprint(&self) -> Option<Digest> {
        self.credential
    }

    /// The gateway's own call, permitted by the configuration that names its target.
    pub(crate) fn own(&mut self, agent: base::Name) {
        self.agent = Some(agent);
        self.policies = vec!["configuration".into()];
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
        let tool = self
            .call
            .target
            .tool
            .as_deref()
            .map(|tool| clean(engine, tool));
        // Of a stranger nothing is kept that it may choose at will.
        let request = self.call.request.filter(|_| self.agent.is_some());
        let request = request.map(|request| clean(engine, request));
        let server = self.call.target.server.as_str();
        let server = match self.server_is_known {
            true => Cow::Borrowed(server),
            false => clean(engine, server),
        };
        let why = self
            .refused
            .as_ref()
            .map(|(code, why)| (*code, clean(engine, why)));
        Judgement {
            call: self.call.id,
            at: self.now,
            peer: self.call.peer,
            agent: self.agent.as_ref().map(base::Name::as_str),
            credential: self.credential,
            lane: self.call.lane,
            action: self.call.action,
            method: &clean(engine, self.call.method),
            request: request.as_deref(),
            server: &server,
            tool: tool.as_deref(),
            policies: &self.policies,
            policy_set: self.policy_set,
            attributes,
            findings: &self.findings,
            bytes: self.call.bytes,
            refused: why.as_ref().map(|(code, why)| (*code, &**why)),
        }
        .to_json()
    }
}

/// A text, or in its place the rule that it met.
fn clean<'t>(engine: &Engine, text: &'t str) -> Cow<'t, str> {
    match engine.text(Direction::Outgoing, text, "") {
        Ok(report) if report.findings.is_empty() => Cow::Borrowed(text),
        Ok(report) => Cow::Owned(marker(&report)),
        Err(bound) => Cow::Owned(format!("({})", bound.0)),
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

/// Findings as a record keeps them: without the text that matched.
pub(crate) fn to_record(report: &Report) -> Vec<Finding> {
    report
        .findings
        .iter()
        .map(|finding| Finding {
            rule: finding.rule.id,
            path: finding.path.clone(),
            action: finding.action.as_str(),
            fingerprint: finding.fingerprint,
            span: (finding.span.start, finding.span.end),
            disguise: finding.disguise,
            exempt: finding.exempt.clone(),
        })
        .collect()
}
