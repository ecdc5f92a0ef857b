//! The judge of texts that agents ask themselves: `POST /v1/scan`, and Pipelock's `/api/v1/scan`.
//!
//! What is sent is judged as the gate would judge it of a call of the same agent, and goes nowhere. Findings say rule and
//! place, never what was found.

use base::record::CallEnd;
use base::{CallId, Refusal, refusal};
use gate::Call;
use http::Method;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use net::{Body, Request, Response};
use scan::{Direction, Place, Subject, SubjectKind, Verdict};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::actions::SCAN;
use crate::exchange::end;
use crate::lane::{Caller, WebLane, setting};
use crate::refuse::problem;

/// Bytes of a text to judge, as JSON.
const SCAN_BYTES_MAX: usize = 4 << 20;

/// What Pipelock's clients ask.
#[derive(Deserialize)]
struct PipelockAsk {
    kind: String,
    input: PipelockInput,
    /// Who asks for whom; the key says that here.
    #[serde(default, rename = "context")]
    _context: Value,
    #[serde(default, rename = "options")]
    _options: Value,
}

#[derive(Deserialize)]
struct PipelockInput {
    url: Option<String>,
    text: Option<String>,
    content: Option<String>,
    tool_name: Option<String>,
    arguments: Option<Box<RawValue>>,
}

impl WebLane {
    /// Answers a request to `/v1/scan`.
    pub async fn scan(&self, request: Request, id: CallId) -> Response {
        match self.scanned(request, id, Subject::read).await {
            Ok(verdict) => {
                let mut told = findings(&verdict);
                told["verdict"] = if verdict.block { "block" } else { "allow" }.into();
                told["call"] = id.to_string().into();
                answer(&told)
            }
            Err(refusal) => problem(&refusal, id),
        }
    }

    /// Answers a request to `/api/v1/scan` as Pipelock does.
    pub async fn scan_for_pipelock(&self, request: Request, id: CallId) -> Response {
        let mut kind = String::new();
        let read = |text: &str| {
            let (subject, asked) = pipelock(text)?;
            kind = asked;
            Ok(subject)
        };
        match self.scanned(request, id, read).await {
            Ok(verdict) => answer(&json!({
                "status": "completed",
                "decision": if verdict.block { "deny" } else { "allow" },
                "kind": kind,
                "scan_id": id.to_string(),
                "findings": verdict.findings.iter().map(|finding| json!({
                    "scanner": finding.rule.class.as_str(),
                    "rule_id": finding.rule.id,
                    "severity": finding.rule.severity.as_str(),
                    "message": finding.rule.summary,
                })).collect::<Vec<_>>(),
            })),
            Err(refusal) => {
                let mut response = problem(&refusal, id);
                let told = json!({
                    "status": "error",
                    "scan_id": id.to_string(),
                    "errors": [{ "code": refusal.code.name, "message": refusal.public, "retryable": refusal.retry_ms.is_some() }],
                });
                *response.body_mut() = Body::Full(told.to_string().into());
                response.headers_mut().insert(CONTENT_TYPE, JSON);
                response
            }
        }
    }

    async fn scanned(
        &self,
        mut request: Request,
        id: CallId,
        read: impl FnOnce(&str) -> Result<Subject, String>,
    ) -> Result<Verdict, Refusal> {
        let caller = self.who(&request, id, "scan").await?;
        let resource = setting("scan");
        let call = Call {
            request: caller.request.as_deref(),
            trace: caller.trace.as_deref(),
            ..Call::new(id, caller.peer, &SCAN, &resource, "scan")
        };
        let (subject, bytes) = match subject(&mut request, read).await {
            Ok(read) => read,
            Err(refusal) => return Err(self.no(&caller, &call, refusal).await),
        };
        let call = Call { bytes, ..call };
        let passed = self.gate().pass(caller.verified.clone(), call).await?;
        let verdict = self.verdict(&caller, &subject);
        end(passed, CallEnd::Complete, 200, 0, None);
        Ok(verdict)
    }

    fn verdict(&self, caller: &Caller, subject: &Subject) -> Verdict {
        let rules = self.gate().rules();
        let place = Place {
            lane: crate::LANE.name,
            agent: caller.agent().as_str(),
            ..Place::from(Direction::Outgoing)
        };
        subject.judge(&rules.engine, place, None)
    }
}

async fn subject(
    request: &mut Request,
    read: impl FnOnce(&str) -> Result<Subject, String>,
) -> Result<(Subject, u64), Refusal> {
    if request.head.method != Method::POST {
        return Err(Refusal::new(refusal::METHOD, "a text is posted here"));
    }
    request.bound_body(SCAN_BYTES_MAX);
    let body = request.body().await?;
    let text = std::str::from_utf8(&body).map_err(|_| invalid("it is not UTF-8".to_owned()))?;
    let subject = read(text).map_err(invalid)?;
    Ok((subject, body.len() as u64))
}

/// What a client of Pipelock asks, as one of our subjects.
fn pipelock(text: &str) -> Result<(Subject, String), String> {
    let ask: PipelockAsk = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let input = ask.input;
    let needs = |part: Option<String>, name: &str| part.ok_or(format!("input needs {name}"));
    let subject = match ask.kind.as_str() {
        "url" => Subject::of(SubjectKind::Url, &needs(input.url, "url")?)?,
        "dlp" => Subject::of(
            SubjectKind::Text,
            &needs(input.text.or(input.content), "text")?,
        )?,
        "prompt_injection" => {
            let content = needs(input.content.or(input.text), "content")?;
            Subject::of(SubjectKind::Response, &content)?
        }
        "tool_call" => {
            let tool = needs(input.tool_name, "tool_name")?;
            let call = json!({ "tool": tool, "args": input.arguments });
            Subject::of(SubjectKind::Call, &call.to_string())?
        }
        _ => return Err("kind is none of url, dlp, prompt_injection and tool_call".to_owned()),
    };
    Ok((subject, ask.kind))
}

fn findings(verdict: &Verdict) -> Value {
    let findings = verdict.findings.iter().map(|finding| {
        json!({
            "rule": finding.rule.id,
            "action": finding.action.as_str(),
            "severity": finding.rule.severity.as_str(),
            "path": finding.path,
            "start": finding.span.start,
            "end": finding.span.end,
            "disguise": finding.disguise,
            "mention": finding.mention,
        })
    });
    json!({
        "findings": findings.collect::<Vec<_>>(),
        "bound": verdict.bound.map(|bound| bound.0),
    })
}

fn invalid(why: String) -> Refusal {
    Refusal::new(refusal::WEB_SCAN_INVALID, format!("the body: {why}"))
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn answer(told: &Value) -> Response {
    let mut response = Response::new(Body::Full(told.to_string().into()));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_pipelock_is_one_of_ours() {
        for good in [
            r#"{"kind":"url","input":{"url":"https://a.example/"}}"#,
            r#"{"kind":"dlp","input":{"text":"x"},"context":{"agent":"a"}}"#,
            r#"{"kind":"prompt_injection","input":{"content":"x"},"options":{"include_evidence":true}}"#,
            r#"{"kind":"tool_call","input":{"tool_name":"bash","arguments":{"command":"ls"}}}"#,
        ] {
            assert!(pipelock(good).is_ok(), "{good}");
        }
        for bad in [
            r#"{"kind":"url","input":{}}"#,
            r#"{"kind":"x","input":{}}"#,
            "[]",
            "",
        ] {
            assert!(pipelock(bad).is_err(), "{bad}");
        }
    }
}
