//! A2A: an agent of runs at `/a2a/AGENT`, with its card; a message starts a run, and a task is read, followed and ended as its run is.

use std::sync::Arc;

use base::{Refusal, refusal};
use gate::Passed;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION};
use http::uri::Authority;
use http::{Method, StatusCode};
use net::{Body, Request, Response};
use serde_json::{Value, json};

use super::{
    BegunRun, RUNS_PAGE_DEFAULT, RUNS_PAGE_MAX, RunAsking, end_run, failed, location, not_at_work,
    said,
};
use crate::actions::{CANCEL, READ, START};
use crate::listen;
use crate::live::LiveRun;
use crate::shapes::a2a::{self, NotATask, TaskMethod, TaskPage, TaskRequest, TaskWriter};

/// The path of a card below its agent.
const CARD: &str = ".well-known/agent-card.json";

impl RunAsking<'_> {
    /// `rest` is the path behind `/a2a/`.
    pub(super) async fn a2a(&self, rest: &str, request: &mut Request) -> Result<Response, Refusal> {
        let (agent, below) = rest.split_once('/').unwrap_or((rest, ""));
        match (below, &self.head.method) {
            (CARD, &Method::GET | &Method::HEAD) => self.card(agent, request.peer.is_tls).await,
            ("", &Method::POST) => {
                let body = self.body(request).await?;
                let asked = match a2a::read(&body) {
                    Ok(asked) => asked,
                    Err(no) => {
                        let NotATask { id, words, refusal } = *no;
                        let refusal = self.no(&START, None, refusal).await;
                        return Ok(json_rpc(&a2a::error(&id, words, &refusal, self.id)));
                    }
                };
                let answered = self.task(agent, &asked, &body).await;
                // A request that was read is answered under 200, which is what clients look into.
                Ok(answered.unwrap_or_else(|refusal| {
                    json_rpc(&a2a::error(&asked.id, asked.words, &refusal, self.id))
                }))
            }
            _ => {
                let what = "requests are posted, and the card is read by GET";
                Err(self
                    .no(&READ, None, Refusal::new(refusal::METHOD, what))
                    .await)
            }
        }
    }

    async fn card(&self, agent: &str, is_tls: bool) -> Result<Response, Refusal> {
        let agents = &self.shared().settings.agents;
        let known = agents.iter().find(|known| known.name.as_str() == agent);
        let Some(known) = known else {
            let what = "no agent of runs has this name";
            let refusal = Refusal::new(refusal::RUN_AGENT_UNKNOWN, what);
            return Err(self.no(&READ, None, refusal).await);
        };
        let url = match self.mount(agent, is_tls) {
            Some(url) => url,
            None => {
                let what = "the request names no host";
                let refusal = Refusal::new(refusal::HEAD_INVALID, what);
                return Err(self.no(&READ, None, refusal).await);
            }
        };
        let passed = self.pass(&READ, &known.name, None).await?;
        Ok(said(passed, StatusCode::OK, &a2a::card(agent, &url)))
    }

    /// The URL by which a client reaches an agent.
    fn mount(&self, agent: &str, is_tls: bool) -> Option<String> {
        if let Some(origin) = &self.shared().settings.public_url {
            return Some(format!("{origin}/a2a/{agent}"));
        }
        let host = self.head.headers.get(HOST)?;
        let host = Authority::try_from(host.as_bytes()).ok()?;
        let scheme = if is_tls { "https" } else { "http" };
        (!host.as_str().contains('@')).then(|| format!("{scheme}://{host}/a2a/{agent}"))
    }

    async fn task(
        &self,
        agent: &str,
        asked: &TaskRequest,
        body: &bytes::Bytes,
    ) -> Result<Response, Refusal> {
        match asked.method {
            TaskMethod::Send { .. } => self.send(agent, asked, body).await,
            TaskMethod::List => self.tasks(agent, asked).await,
            TaskMethod::Get => {
                let (run, passed) = self.named(&READ, agent, asked).await?;
                self.whole_task(asked, &run, passed, TaskWriter::task).await
            }
            TaskMethod::Follow => {
                let (run, passed) = self.named(&READ, agent, asked).await?;
                let writer = Box::new(TaskWriter::new(asked, &run));
                Ok(listen::stream(self.shared(), &run, 0, passed, writer))
            }
            TaskMethod::Cancel => {
                let (run, passed) = self.named(&CANCEL, agent, asked).await?;
                end_run(&run).await;
                self.whole_task(asked, &run, passed, TaskWriter::task).await
            }
        }
    }

    /// The own run that a request names, where it is one of this agent.
    async fn named(
        &self,
        action: &'static base::Action,
        agent: &str,
        asked: &TaskRequest,
    ) -> Result<(Arc<LiveRun>, Passed), Refusal> {
        let task = match asked.task() {
            Ok(task) => task,
            Err(refusal) => return Err(self.no(action, None, refusal).await),
        };
        let book = &self.shared().book;
        let is_anothers = book
            .find(self.owner(), &task)
            .is_some_and(|run| run.agent.as_str() != agent);
        if is_anothers {
            let refusal = Refusal::new(refusal::RUN_UNKNOWN, "no task of this agent has this id");
            return Err(self.no(action, None, refusal).await);
        }
        self.found(action, &task).await
    }

    async fn send(
        &self,
        agent: &str,
        asked: &TaskRequest,
        body: &bytes::Bytes,
    ) -> Result<Response, Refusal> {
        let thread = match asked.message_task() {
            Ok(None) => None,
            Ok(Some(task)) => Some(self.steered(agent, &task).await?),
            Err(refusal) => return Err(self.no(&START, None, refusal).await),
        };
        let read = |body: &[u8]| {
            let asked = a2a::read(body).map_err(|no| no.refusal)?;
            asked.start(agent, thread.as_deref())
        };
        let BegunRun { run, passed, words } = self.launch(body, &read).await?;
        let mut response = if words.stream {
            let writer = Box::new(TaskWriter::new(asked, &run));
            listen::stream(self.shared(), &run, 0, passed, writer)
        } else {
            if !words.background
                && let Err(refusal) = self.wait(&run, &passed).await
            {
                passed.end(failed(&refusal));
                return Err(refusal);
            }
            self.whole_task(asked, &run, passed, TaskWriter::sent)
                .await?
        };
        response.headers_mut().insert(LOCATION, location(&run));
        Ok(response)
    }

    /// The thread of the own run that a message is said to. A task that has ended takes no more.
    async fn steered(&self, agent: &str, task: &str) -> Result<String, Refusal> {
        let book = &self.shared().book;
        let run = book.find(self.owner(), task);
        let refusal = match run.filter(|run| run.agent.as_str() == agent) {
            Some(run) if !run.state().is_final() => return Ok(run.thread.clone()),
            Some(_) => not_at_work(),
            None => book.why_not(self.owner(), task),
        };
        Err(self.no(&START, None, refusal).await)
    }

    /// Answers with all that there is by now.
    async fn whole_task(
        &self,
        asked: &TaskRequest,
        run: &Arc<LiveRun>,
        passed: Passed,
        result: fn(&TaskWriter, crate::RunState) -> Value,
    ) -> Result<Response, Refusal> {
        let mut writer = TaskWriter::new(asked, run);
        // Asked before the events: a task that is said to have ended has all of them.
        let state = run.state();
        match listen::all(self.shared(), run, &mut writer).await {
            Ok(()) => {
                let answer = a2a::answer(&asked.id, result(&writer, state));
                Ok(said(passed, StatusCode::OK, &answer))
            }
            Err(refusal) => {
                passed.end(failed(&refusal));
                Err(refusal)
            }
        }
    }

    /// Own runs of this agent, the newest first, without what they said.
    async fn tasks(&self, agent: &str, asked: &TaskRequest) -> Result<Response, Refusal> {
        let TaskPage {
            context,
            size,
            before,
        } = match asked.listed() {
            Ok(listed) => listed,
            Err(refusal) => return Err(self.no(&READ, None, refusal).await),
        };
        let Some(name) = base::Name::new(agent) else {
            let what = "no agent of runs has this name";
            let refusal = Refusal::new(refusal::RUN_AGENT_UNKNOWN, what);
            return Err(self.no(&READ, None, refusal).await);
        };
        let passed = self.pass(&READ, &name, None).await?;
        let wanted = |run: &LiveRun| {
            run.agent == name
                && context
                    .as_ref()
                    .is_none_or(|context| run.thread == *context)
        };
        let size = size.unwrap_or(RUNS_PAGE_DEFAULT).min(RUNS_PAGE_MAX);
        let book = &self.shared().book;
        let (runs, has_more) = book.list(self.owner(), wanted, before.as_deref(), size);
        let next = runs.last().filter(|_| has_more);
        let next = next.map_or_else(String::new, |run| run.id.to_string());
        let tasks = runs
            .iter()
            .map(|run| TaskWriter::new(asked, run).task(run.state()));
        let tasks: Vec<Value> = tasks.collect();
        let result = json!({
            "pageSize": tasks.len(), "totalSize": tasks.len(), "tasks": tasks, "nextPageToken": next,
        });
        Ok(said(
            passed,
            StatusCode::OK,
            &a2a::answer(&asked.id, result),
        ))
    }
}

fn json_rpc(answer: &Value) -> Response {
    let mut response = Response::new(Body::Full(answer.to_string().into()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
