//! What the record will say, gathered while the call is judged.

use base::record::{Finding, Judgement};
use base::{Digest, Now, Refusal};
use identity::Verified;
use scan::Report;

use crate::pass::{Call, Rules};

pub(crate) struct Trail<'a> {
    call: Call<'a>,
    now: Now,
    agent: Option<base::Name>,
    credential: Option<Digest>,
    policy_set: Digest,
    policies: Vec<String>,
    attributes: Vec<(String, String)>,
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

    pub(crate) fn to_json(&self) -> Vec<u8> {
        Judgement {
            call: self.call.id,
            at: self.now,
            peer: self.call.peer,
            agent: self.agent.as_ref().map(base::Name::as_str),
            credential: self.credential,
            lane: self.call.lane,
            action: self.call.action,
            method: self.call.method,
            request: self.call.request,
            server: self.call.target.server.as_str(),
            tool: self.call.target.tool.as_deref(),
            policies: &self.policies,
            policy_set: self.policy_set,
            attributes: &self.attributes,
            findings: &self.findings,
            bytes: self.call.bytes,
            refused: self
                .refused
                .as_ref()
                .map(|(code, why)| (*code, why.as_str())),
        }
        .to_json()
    }
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
        })
        .collect()
}
