//! What a request to start a run says, held against what there may be.

use base::{Refusal, refusal};
use serde::Deserialize;

use crate::actions::OWN;
use crate::event::RunMessage;
use crate::settings::{RunAgent, RunLimits, Settings};

/// Longest name of a thread.
const THREAD_CHARS_MAX: usize = 128;
/// Patterns of tools that a request may bring, and longest of one.
const PATTERNS_MAX: usize = 256;
const PATTERN_CHARS_MAX: usize = 256;
/// Longest name of a model.
const MODEL_CHARS_MAX: usize = 256;
const NANOS_PER_DOLLAR: f64 = 1e9;

/// The body of `POST /v1/runs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBody {
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    tools: Option<Vec<String>>,
    input: StartInput,
    #[serde(default)]
    limits: StartLimits,
    #[serde(default)]
    pub(crate) thread: Option<String>,
    #[serde(default)]
    pub(crate) mode: StartMode,
    #[serde(default)]
    pub(crate) stream: bool,
    /// Whether the answer is wanted at once, where a shape has that.
    #[serde(skip)]
    pub(crate) background: bool,
    /// The run of a thread that is to be followed, where a shape names it in place of the thread.
    #[serde(skip)]
    pub(crate) previous: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum StartInput {
    Text(String),
    Messages(Vec<RunMessage>),
}

/// Bounds that the request asks for, within those that there are.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StartLimits {
    steps: Option<u64>,
    tokens: Option<u64>,
    /// In dollars.
    money: Option<f64>,
    time_ms: Option<u64>,
}

/// What becomes of a request to a thread that is busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StartMode {
    /// It waits for the run before it.
    #[default]
    Followup,
    /// It is the next message of the run at work.
    Steer,
    /// It ends the runs of the thread that have not ended.
    Interrupt,
}

/// What a run is made of.
#[derive(Debug)]
pub(crate) struct RunPlan {
    pub(crate) agent: String,
    pub(crate) model: String,
    pub(crate) instructions: String,
    pub(crate) tools: Vec<String>,
    pub(crate) limits: RunLimits,
    pub(crate) input: Vec<RunMessage>,
}

impl StartBody {
    /// Of an agent of the configuration, in the words of another shape.
    pub(crate) fn of_agent(agent: String, input: Vec<RunMessage>) -> StartBody {
        StartBody {
            agent: Some(agent),
            model: None,
            instructions: None,
            tools: None,
            input: StartInput::Messages(input),
            limits: StartLimits::default(),
            thread: None,
            mode: StartMode::Followup,
            stream: false,
            background: false,
            previous: None,
        }
    }

    /// The same with one text, which may also be said to a run at work.
    pub(crate) fn of_text(agent: String, text: String) -> StartBody {
        StartBody {
            input: StartInput::Text(text),
            ..StartBody::of_agent(agent, Vec::new())
        }
    }

    pub(crate) fn read(body: &[u8]) -> Result<StartBody, Refusal> {
        let read: StartBody =
            serde_json::from_slice(body).map_err(|error| invalid(format!("the body: {error}")))?;
        if read
            .thread
            .as_ref()
            .is_some_and(|thread| !is_thread(thread))
        {
            return Err(invalid(format!(
                "thread is a text of 1 to {THREAD_CHARS_MAX} characters"
            )));
        }
        if read.mode != StartMode::Followup && read.thread.is_none() {
            return Err(invalid("steer and interrupt need a thread"));
        }
        Ok(read)
    }

    /// What it says, where it is said to a run.
    pub(crate) fn text(&self) -> Result<&str, Refusal> {
        match &self.input {
            StartInput::Text(text) => Ok(text),
            StartInput::Messages(_) => Err(invalid("to steer, input is a text")),
        }
    }

    /// What the run is to be made of.
    ///
    /// # Errors
    /// `run.agent_unknown`, `run.invalid`, `run.limit`.
    pub(crate) fn plan(self, settings: &Settings) -> Result<RunPlan, Refusal> {
        let input = match self.input {
            StartInput::Text(content) => vec![RunMessage::User { content }],
            StartInput::Messages(messages) => messages,
        };
        if !matches!(input.last(), Some(RunMessage::User { .. })) {
            return Err(invalid("the last message of input is of the user"));
        }
        let has_own = self.model.is_some() || self.instructions.is_some() || self.tools.is_some();
        match &self.agent {
            Some(_) if has_own => Err(invalid(
                "agent stands alone: it has its model, instructions and tools",
            )),
            Some(name) => of_agent(name, settings, &self.limits, input),
            None => of_own(
                self.model,
                self.instructions,
                self.tools,
                settings,
                &self.limits,
                input,
            ),
        }
    }
}

/// Whether a thread may have this name.
pub(crate) fn is_thread(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= THREAD_CHARS_MAX && !text.contains(char::is_control)
}

fn of_agent(
    name: &str,
    settings: &Settings,
    asked: &StartLimits,
    input: Vec<RunMessage>,
) -> Result<RunPlan, Refusal> {
    let mut agents = settings.agents.iter();
    let agent: Option<&RunAgent> = agents.find(|agent| agent.name.as_str() == name);
    let agent = agent.ok_or_else(|| {
        let name: String = name.chars().take(64).collect();
        let public = format!("no agent of runs is named {name:?}");
        Refusal::new(refusal::RUN_AGENT_UNKNOWN, public)
    })?;
    Ok(RunPlan {
        agent: name.to_owned(),
        model: agent.model.clone(),
        instructions: agent.instructions.clone(),
        tools: agent.tools.clone(),
        limits: limits(asked, &agent.limits)?,
        input,
    })
}

fn of_own(
    model: Option<String>,
    instructions: Option<String>,
    tools: Option<Vec<String>>,
    settings: &Settings,
    asked: &StartLimits,
    input: Vec<RunMessage>,
) -> Result<RunPlan, Refusal> {
    let model = model.filter(|model| (1..=MODEL_CHARS_MAX).contains(&model.len()));
    let model = model.ok_or_else(|| invalid("name an agent, or a model"))?;
    let tools = tools.unwrap_or_default();
    if tools.len() > PATTERNS_MAX {
        return Err(invalid(format!("tools has more than {PATTERNS_MAX} rows")));
    }
    for pattern in &tools {
        let server = pattern.split_once('/').map(|(server, _)| server);
        let is_known = server.is_some_and(|server| {
            let mut servers = settings.servers.iter();
            servers.any(|known| known.as_str() == server)
        });
        if !is_known || pattern.len() > PATTERN_CHARS_MAX {
            let pattern: String = pattern.chars().take(PATTERN_CHARS_MAX).collect();
            return Err(invalid(format!(
                "{pattern:?} is no server/tool of a server that is configured"
            )));
        }
    }
    Ok(RunPlan {
        agent: OWN.to_owned(),
        model,
        instructions: instructions.unwrap_or_default(),
        tools,
        limits: limits(asked, &settings.own)?,
        input,
    })
}

/// The bounds that are asked for, which are no wider than those that there are.
fn limits(asked: &StartLimits, most: &RunLimits) -> Result<RunLimits, Refusal> {
    let money = asked.money.map(|dollars| {
        let nanos = dollars * NANOS_PER_DOLLAR;
        let is_amount = nanos.is_finite() && nanos >= 0.0;
        is_amount
            .then_some(nanos as u64)
            .ok_or_else(|| invalid("limits.money is no amount of dollars"))
    });
    Ok(RunLimits {
        steps: within("steps", asked.steps, Some(most.steps))?.unwrap_or(most.steps),
        tokens: within("tokens", asked.tokens, most.tokens)?,
        money: within("money", money.transpose()?, most.money)?,
        time_ms: within("time_ms", asked.time_ms, Some(most.time_ms))?.unwrap_or(most.time_ms),
    })
}

fn within(name: &str, asked: Option<u64>, most: Option<u64>) -> Result<Option<u64>, Refusal> {
    match (asked, most) {
        (Some(0), _) => Err(invalid(format!("limits.{name} is 0"))),
        (Some(asked), Some(most)) if asked > most => Err(Refusal::new(
            refusal::RUN_LIMIT,
            match name {
                "money" => format!(
                    "limits.money is more than the {} dollars that it may be",
                    most as f64 / NANOS_PER_DOLLAR
                ),
                _ => format!("limits.{name} is more than the {most} that it may be"),
            },
        )),
        (asked, most) => Ok(asked.or(most)),
    }
}

pub(crate) fn invalid(public: impl Into<String>) -> Refusal {
    Refusal::new(refusal::RUN_INVALID, public)
}

#[cfg(test)]
pub(crate) mod tests {
    use base::{CallId, Name, Now};

    use super::*;

    pub(crate) fn settings() -> Settings {
        let limits = RunLimits {
            steps: 20,
            tokens: None,
            money: Some(1_500_000_000),
            time_ms: 60_000,
        };
        Settings {
            agents: vec![RunAgent {
                name: Name::new("triage").unwrap(),
                model: "smart".into(),
                instructions: "be brief".into(),
                tools: vec!["tracker/*".into()],
                limits,
                callback: None,
            }],
            own: limits,
            servers: vec![Name::new("tracker").unwrap()],
            at_once: 1,
            agent_at_once: 1,
            keep_ms: 1,
            bytes_max: 1,
            body_bytes_max: 1,
            origins: Vec::new(),
            public_url: None,
            new_id: || CallId([0; 16]),
            now: || Now {
                unix_ms: 0,
                mono_ms: 0,
            },
        }
    }

    fn plan(body: &str) -> Result<RunPlan, Refusal> {
        StartBody::read(body.as_bytes())?.plan(&settings())
    }

    #[test]
    fn a_run_is_of_an_agent_or_brings_its_own() {
        let of = plan(r#"{"agent":"triage","input":"What broke?"}"#).unwrap();
        assert_eq!((&*of.model, of.limits.steps), ("smart", 20));
        let own = r#"{"model":"m","tools":["tracker/read"],"input":[{"role":"user","content":"x"}],
                      "limits":{"steps":2,"money":1.5}}"#;
        let own = plan(own).unwrap();
        assert_eq!((&*own.agent, own.limits.steps), ("own", 2));
        assert_eq!(own.limits.money, Some(1_500_000_000));
    }

    #[test]
    fn what_is_wider_or_wrong_is_refused_with_its_code() {
        for (body, code) in [
            (r#"{"agent":"nobody","input":"x"}"#, "run.agent_unknown"),
            (r#"{"input":"x"}"#, "run.invalid"),
            (
                r#"{"agent":"triage","model":"m","input":"x"}"#,
                "run.invalid",
            ),
            (r#"{"agent":"triage","input":"x","imput":1}"#, "run.invalid"),
            (
                r#"{"agent":"triage","agent":"triage","input":"x"}"#,
                "run.invalid",
            ),
            (r#"{"agent":"triage","input":[]}"#, "run.invalid"),
            (
                r#"{"agent":"triage","input":[{"role":"assistant","content":"x"}]}"#,
                "run.invalid",
            ),
            (
                r#"{"model":"m","tools":["web/*"],"input":"x"}"#,
                "run.invalid",
            ),
            (
                r#"{"model":"m","tools":["read"],"input":"x"}"#,
                "run.invalid",
            ),
            (
                r#"{"agent":"triage","input":"x","limits":{"steps":21}}"#,
                "run.limit",
            ),
            (
                r#"{"agent":"triage","input":"x","limits":{"money":1.51}}"#,
                "run.limit",
            ),
            (
                r#"{"agent":"triage","input":"x","limits":{"steps":0}}"#,
                "run.invalid",
            ),
            (
                r#"{"agent":"triage","input":"x","limits":{"money":-1}}"#,
                "run.invalid",
            ),
            (
                r#"{"agent":"triage","input":"x","mode":"steer"}"#,
                "run.invalid",
            ),
            (
                r#"{"agent":"triage","input":"x","thread":""}"#,
                "run.invalid",
            ),
            ("[]", "run.invalid"),
            ("", "run.invalid"),
        ] {
            assert_eq!(plan(body).unwrap_err().code.name, code, "{body}");
        }
    }
}
