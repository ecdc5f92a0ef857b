//! From an HTTP request to what is done with runs: start, list, read, cancel. Each is judged and recorded as a call of its own.
//!
//! A run belongs to the agent that started it. To every other agent it is not there. The same is done in the words of other
//! clients: `lane/` has a file for each.

mod a2a;
mod agui;
mod chat;
mod responses;
mod socket;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::record::CallEnd;
use base::{Action, CallId, Digest, Json, Name, Now, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{ActingFor, Call, CallEnding, ContentPart, Gate, PartContent, Passed, Role};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use identity::{Credential, Presented, Verified};
use net::{Body, Drain, Peer, Request, Response, origin};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use store::runs::{KeptRun, LINE_BYTES_MAX, RunFiles};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use crate::actions::{ALL, CANCEL, READ, START};
use crate::body::{RunPlan, StartBody, StartMode, invalid};
use crate::book::RunBook;
use crate::conversation::LoadedRun;
use crate::drive::drive;
use crate::event::{RunEvent, RunHead};
use crate::listen::{self, OwnWriter};
use crate::live::{LiveRun, NotTold, RunState, usage};
use crate::ports::RunPorts;
use crate::refuse::{refuse, refuse_error};
use crate::settings::Settings;

/// W3C Trace Context, section 3.2.
const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// The proof of a key that a token is bound to (RFC 9449 §4.1).
const PROOF: HeaderName = HeaderName::from_static("dpop");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const IDEMPOTENCY: HeaderName = HeaderName::from_static("idempotency-key");
/// Longest key of a caller.
const KEY_CHARS_MAX: usize = 255;
/// Runs of one page, and events.
const RUNS_PAGE_MAX: usize = 100;
const RUNS_PAGE_DEFAULT: usize = 20;
const EVENTS_PAGE_MAX: usize = 1_000;
/// Files of runs that are read at once, for whoever asks; others wait.
const READERS_MAX: usize = 4;
/// How long the answer to a cancellation waits for the run's end, in milliseconds.
const CANCEL_MS: u64 = 10_000;
/// How often is looked whether who waits for a run may still do so, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// What all threads share.
pub struct RunShared {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    pub(crate) book: RunBook,
    pub(crate) drain: Drain,
    pub(crate) readers: Semaphore,
    trouble: Mutex<Option<String>>,
}

impl RunShared {
    /// `kept` is what was found in `files`; what of it has not ended goes on once a thread serves.
    pub fn new(
        settings: Settings,
        gate: Arc<Gate>,
        drain: Drain,
        (files, kept): (RunFiles, Vec<KeptRun>),
    ) -> RunShared {
        let book = RunBook::new(files, kept);
        book.sweep(&settings);
        RunShared {
            settings,
            gate,
            book,
            drain,
            readers: Semaphore::new(READERS_MAX),
            trouble: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Now {
        (self.settings.now)()
    }

    pub(crate) fn is_in_trouble(&self, why: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_none() {
            tracing::error!(
                why,
                "events of runs cannot be kept; runs wait until they can"
            );
        }
        *trouble = Some(why.to_owned());
    }

    pub(crate) fn is_mended(&self) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        *trouble = None;
    }

    /// Why events cannot be kept, where they cannot. For the operator.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.clone()
    }

    /// How many runs have not ended, by agent of the configuration and state.
    pub fn open(&self) -> impl Iterator<Item = ((Name, RunState), u64)> {
        self.book.open_states().into_iter()
    }

    /// How many ended since this process began, by the same.
    pub fn ended(&self) -> impl Iterator<Item = ((Name, RunState), u64)> {
        self.book.ended_states().into_iter()
    }
}

/// The lane on one thread.
pub struct RunLane {
    shared: Arc<RunShared>,
    ports: RunPorts,
    drivers: RefCell<JoinSet<()>>,
}

/// One request of an agent that is known.
struct RunAsking<'a> {
    lane: &'a RunLane,
    verified: Verified,
    head: &'a Parts,
    peer: std::net::IpAddr,
    id: CallId,
    request: Option<&'a str>,
    trace: Option<&'a str>,
}

impl RunLane {
    pub fn new(shared: Arc<RunShared>, ports: RunPorts) -> RunLane {
        RunLane {
            shared,
            ports,
            drivers: RefCell::default(),
        }
    }

    /// Drives what was found open, and waits at the gateway's end until this thread's runs are parked.
    pub async fn serve(self: Rc<Self>) {
        while let Some(run) = self.shared.book.next_found() {
            self.spawn(run);
            tokio::task::yield_now().await;
        }
        self.shared.drain.started().await;
        let mut drivers = std::mem::take(&mut *self.drivers.borrow_mut());
        while drivers.join_next().await.is_some() {}
    }

    fn spawn(&self, run: Arc<LiveRun>) {
        let mut drivers = self.drivers.borrow_mut();
        while drivers.try_join_next().is_some() {}
        let driver = drive(Arc::clone(&self.shared), self.ports.clone(), run);
        drivers.spawn_local(driver);
    }

    /// Keeps a new run, says whether that could be done, and drives it. It is done whether or not its client waits: no run is left
    /// that nobody drives.
    fn spawn_new(&self, run: Arc<LiveRun>, line: String) -> oneshot::Receiver<Result<(), String>> {
        let (sender, receiver) = oneshot::channel();
        let (shared, ports) = (Arc::clone(&self.shared), self.ports.clone());
        let mut drivers = self.drivers.borrow_mut();
        while drivers.try_join_next().is_some() {}
        drivers.spawn_local(async move {
            let kept = shared.book.files.append(&run.id, &line, true).await;
            let is_kept = kept.is_ok();
            run.has_head(line.len() + 1, is_kept);
            if is_kept {
                shared.is_mended();
            } else {
                shared.book.forget(&run);
                shared.book.files.remove(&run.id);
            }
            let _ = sender.send(kept.map_err(|error| error.0));
            if is_kept {
                drive(shared, ports, run).await;
            }
        });
        receiver
    }

    /// Answers one request. `rest` is its path behind the first `*` of its route.
    pub async fn answer(&self, rest: &str, mut request: Request, id: CallId) -> Response {
        let head = request.head.clone();
        let shape = RunShape::of(head.uri.path());
        let request_id = request.id().map(str::to_owned);
        let trace = request.field(&TRACE).map(str::to_owned);
        let peer = request.peer.caller;
        let resource = Resource::Run(Name::new(ALL).expect("all is a name"));
        let call = Call {
            request: request_id.as_deref(),
            trace: trace.as_deref(),
            ..Call::new(id, peer, &READ, &resource, head.method.as_str())
        };
        let shared = &self.shared;
        let origins = &shared.settings.origins;
        let known = match head.extensions.get::<KnownAgent>() {
            Some(known) => Ok(known.0.clone()),
            None => who(&shared.gate, origins, &call, &head, &request.peer).await,
        };
        let verified = match known {
            Ok(verified) => verified,
            Err(refusal) => return shape.refuse(&refusal, id),
        };
        request.is_of_known_agent();
        let asking = RunAsking {
            lane: self,
            verified,
            head: &head,
            peer,
            id,
            request: request_id.as_deref(),
            trace: trace.as_deref(),
        };
        let answered = match shape {
            RunShape::Own => asking.route(rest, &mut request).await,
            RunShape::Socket => asking.run_socket(rest, &mut request).await,
            RunShape::Chat => asking.chat(&mut request).await,
            RunShape::ChatSocket => asking.chat_socket(&mut request).await,
            RunShape::Responses => asking.responses(rest, &mut request).await,
            RunShape::AgUi => asking.ag_ui(rest, &mut request).await,
            RunShape::A2a => asking.a2a(rest, &mut request).await,
        };
        answered.unwrap_or_else(|refusal| shape.refuse(&refusal, id))
    }
}

/// An agent that another lane of this process knows already. It travels in a request's extensions, where nothing that comes by a
/// socket can be.
#[derive(Clone)]
pub struct KnownAgent(pub Verified);

/// In whose words a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunShape {
    Own,
    Socket,
    Chat,
    ChatSocket,
    Responses,
    AgUi,
    A2a,
}

impl RunShape {
    fn of(path: &str) -> RunShape {
        match path {
            "/api/chat" => RunShape::Chat,
            "/ws/chat" => RunShape::ChatSocket,
            path if path.starts_with("/ws/") => RunShape::Socket,
            path if path.starts_with("/v1/responses") => RunShape::Responses,
            path if path.starts_with("/ag-ui/") => RunShape::AgUi,
            path if path.starts_with("/a2a/") => RunShape::A2a,
            _ => RunShape::Own,
        }
    }

    fn refuse(self, refusal: &Refusal, id: CallId) -> Response {
        match self {
            RunShape::Chat | RunShape::Responses => refuse_error(refusal, id),
            RunShape::Own
            | RunShape::Socket
            | RunShape::ChatSocket
            | RunShape::AgUi
            | RunShape::A2a => refuse(refusal, id),
        }
    }
}

/// Answers where there are no runs: an agent that is known is told why, and that is recorded.
pub async fn answer_without(
    gate: &Gate,
    origins: &[String],
    request: Request,
    id: CallId,
    why: Refusal,
) -> Response {
    let resource = Resource::Run(Name::new(ALL).expect("all is a name"));
    let method = request.head.method.as_str();
    let call = Call::new(id, request.peer.caller, &READ, &resource, method);
    let known = match request.head.extensions.get::<KnownAgent>() {
        Some(known) => Ok(known.0.clone()),
        None => who(gate, origins, &call, &request.head, &request.peer).await,
    };
    let refusal = match known {
        Ok(verified) => {
            request.is_of_known_agent();
            gate.reject(Some(&verified), &call, why).await
        }
        Err(refusal) => refusal,
    };
    RunShape::of(request.head.uri.path()).refuse(&refusal, id)
}

/// Whose request it is, once it comes from no other site's page.
async fn who(
    gate: &Gate,
    origins: &[String],
    call: &Call<'_>,
    head: &Parts,
    peer: &Peer,
) -> Result<Verified, Refusal> {
    if let Err(refusal) = origin::check(head, peer.is_tls, origins) {
        return Err(gate.turn_away(call, refusal).await);
    }
    let one = |name: &HeaderName| head.headers.get(name)?.to_str().ok();
    let mut presented = Presented {
        proof: one(&PROOF),
        method: head.method.as_str(),
        target: head.uri.path(),
        ..Presented::bearer(one(&AUTHORIZATION), call.peer)
    };
    presented.peer.certificate = peer.certificate();
    gate.verify(call, &presented).await
}

impl<'a> RunAsking<'a> {
    fn shared(&self) -> &'a Arc<RunShared> {
        &self.lane.shared
    }

    fn owner(&self) -> &Name {
        &self.verified.agent().name
    }

    fn call<'c>(
        &'c self,
        action: &'static Action,
        resource: &'c Resource,
        run: Option<&'c str>,
    ) -> Call<'c> {
        Call {
            request: self.request,
            trace: self.trace,
            run,
            ..Call::new(self.id, self.peer, action, resource, action.method)
        }
    }

    /// Records a refusal that was found before the gate was asked.
    async fn no(&self, action: &'static Action, run: Option<&str>, refusal: Refusal) -> Refusal {
        let resource = Resource::Run(Name::new(ALL).expect("all is a name"));
        let call = self.call(action, &resource, run);
        let gate = &self.shared().gate;
        gate.reject(Some(&self.verified), &call, refusal).await
    }

    /// Judges what is asked of the runs of an agent of the configuration.
    async fn pass(
        &self,
        action: &'static Action,
        agent: &Name,
        run: Option<&str>,
    ) -> Result<Passed, Refusal> {
        let resource = Resource::Run(agent.clone());
        let call = self.call(action, &resource, run);
        self.shared().gate.pass(self.verified.clone(), call).await
    }

    async fn route(&self, rest: &str, request: &mut Request) -> Result<Response, Refusal> {
        let method = &self.head.method;
        let (run, part) = rest.split_once('/').unwrap_or((rest, ""));
        let action = match *method {
            Method::DELETE => &CANCEL,
            Method::POST if part == "cancel" => &CANCEL,
            Method::POST => &START,
            _ => &READ,
        };
        match (method.as_str(), run, part) {
            ("POST", "", "") => self.start(request).await,
            ("GET", "", "") => self.list().await,
            ("GET", run, "") => self.show(run).await,
            ("GET", run, "events") => self.events(run).await,
            ("GET", run, "result") => self.result(run).await,
            ("GET", run, "transcript") => self.transcript(run).await,
            ("DELETE", run, "") | ("POST", run, "cancel") if !run.is_empty() => {
                self.cancel(run).await
            }
            _ => {
                let refusal = Refusal::new(refusal::METHOD, "runs have no such method here");
                Err(self.no(action, None, refusal).await)
            }
        }
    }

    /// An own run, and that it may be read or ended.
    async fn found(
        &self,
        action: &'static Action,
        run: &str,
    ) -> Result<(Arc<LiveRun>, Passed), Refusal> {
        let Some(run) = self.shared().book.find(self.owner(), run) else {
            let refusal = self.shared().book.why_not(self.owner(), run);
            return Err(self.no(action, None, refusal).await);
        };
        let passed = self.pass(action, &run.agent, Some(&run.id)).await?;
        Ok((run, passed))
    }

    async fn list(&self) -> Result<Response, Refusal> {
        let query = self.head.uri.query().unwrap_or_default();
        let asked = RunQuery::of(query);
        let book = &self.shared().book;
        let page = asked.page().and_then(|page| {
            let is_known = |before: &str| book.is_known(self.owner(), before);
            match asked.before.is_none_or(is_known) {
                true => Ok(page),
                false => Err(invalid("before is the id of a run of this agent")),
            }
        });
        let page = match page {
            Ok(page) => page,
            Err(refusal) => return Err(self.no(&READ, None, refusal).await),
        };
        let all = Name::new(ALL).expect("all is a name");
        let passed = self.pass(&READ, &all, None).await?;
        let wanted = |run: &LiveRun| {
            asked
                .state
                .is_none_or(|state| run.state().as_str() == state)
                && asked.agent.is_none_or(|agent| run.agent.as_str() == agent)
                && asked.thread.is_none_or(|thread| run.thread == thread)
        };
        let (runs, has_more) = book.list(self.owner(), wanted, asked.before, page);
        let runs: Vec<Value> = runs.iter().map(|run| run.shown()).collect();
        let body = json!({ "object": "list", "data": runs, "has_more": has_more });
        Ok(said(passed, StatusCode::OK, &body))
    }

    async fn show(&self, run: &str) -> Result<Response, Refusal> {
        let (run, passed) = self.found(&READ, run).await?;
        Ok(said(passed, StatusCode::OK, &run.shown()))
    }

    /// The event after which a listener wants to hear.
    fn after(&self, run: &LiveRun, query: &RunQuery<'_>) -> Result<u64, Refusal> {
        let last = self.head.headers.get(&LAST_EVENT);
        let last = last.map(|last| last.to_str().unwrap_or("?"));
        match last.or(query.after).map(str::parse::<u64>) {
            None => Ok(0),
            Some(Ok(after)) if after <= run.last() => Ok(after),
            Some(_) => Err(Refusal::new(
                refusal::RUN_EVENT_UNKNOWN,
                "the run has no event with that id",
            )),
        }
    }

    async fn events(&self, run: &str) -> Result<Response, Refusal> {
        let Some(run) = self.shared().book.find(self.owner(), run) else {
            let refusal = self.shared().book.why_not(self.owner(), run);
            return Err(self.no(&READ, None, refusal).await);
        };
        let query = RunQuery::of(self.head.uri.query().unwrap_or_default());
        let after = self.after(&run, &query);
        let limit = query.limit(EVENTS_PAGE_MAX, EVENTS_PAGE_MAX);
        let (after, limit) = match after.and_then(|after| Ok((after, limit?))) {
            Ok(read) => read,
            Err(refusal) => return Err(self.no(&READ, Some(&run.id), refusal).await),
        };
        let passed = self.pass(&READ, &run.agent, Some(&run.id)).await?;
        let accept = self.head.headers.get(http::header::ACCEPT);
        let accept = accept.and_then(|accept| accept.to_str().ok());
        if accept.is_some_and(|accept| accept.contains("text/event-stream")) {
            let writer = Box::new(OwnWriter);
            return Ok(listen::stream(self.shared(), &run, after, passed, writer));
        }
        let (lines, has_more) = match listen::page(self.shared(), &run, after, limit).await {
            Ok(page) => page,
            Err(refusal) => {
                passed.end(failed(&refusal));
                return Err(refusal);
            }
        };
        let text = format!(
            r#"{{"object":"list","data":[{lines}],"has_more":{has_more},"state":"{}"}}"#,
            run.state().as_str()
        );
        Ok(whole(passed, StatusCode::OK, text))
    }

    /// A run as its file has it.
    async fn loaded(&self, run: &LiveRun) -> Result<LoadedRun, Refusal> {
        let (shared, id) = (Arc::clone(self.shared()), Arc::clone(&run.id));
        let _one = self.shared().readers.acquire().await;
        let read = tokio::task::spawn_blocking(move || LoadedRun::read(&shared.book.files, &id));
        let unread = |why: String| {
            Refusal::new(refusal::RUN_UNRECORDED, "the run cannot be read").with_private(why)
        };
        let read = read.await.map_err(|error| unread(error.to_string()))?;
        read.map_err(|error| unread(error.to_string()))
    }

    async fn result(&self, run: &str) -> Result<Response, Refusal> {
        let (run, passed) = self.found(&READ, run).await?;
        if !run.state().is_final() {
            let refusal = Refusal::new(refusal::RUN_NOT_ENDED, "the run has not ended");
            passed.end(failed(&refusal));
            return Err(refusal);
        }
        let loaded = match self.loaded(&run).await {
            Ok(loaded) => loaded,
            Err(refusal) => {
                passed.end(failed(&refusal));
                return Err(refusal);
            }
        };
        let mut body = run.shown();
        match loaded.end {
            Some(RunEvent::Completed { output, usage: of }) => {
                body["output"] = output.into();
                body["usage"] = usage(&of);
            }
            // What it said last, though it did not come to its end.
            _ => body["output"] = loaded.talk.last_text().into(),
        }
        Ok(said(passed, StatusCode::OK, &body))
    }

    async fn transcript(&self, run: &str) -> Result<Response, Refusal> {
        let (run, passed) = self.found(&READ, run).await?;
        match self.loaded(&run).await {
            Ok(loaded) => {
                let body =
                    json!({ "id": &*run.id, "thread": run.thread, "messages": loaded.messages() });
                Ok(said(passed, StatusCode::OK, &body))
            }
            Err(refusal) => {
                passed.end(failed(&refusal));
                Err(refusal)
            }
        }
    }

    /// Ends a run. Once this is answered, nothing of it begins any more.
    async fn cancel(&self, run: &str) -> Result<Response, Refusal> {
        let (run, passed) = self.found(&CANCEL, run).await?;
        let status = end_run(&run).await;
        Ok(said(passed, status, &run.shown()))
    }

    async fn start(&self, request: &mut Request) -> Result<Response, Refusal> {
        let body = self.body(request).await?;
        let begun = self.launch(&body, &StartBody::read).await?;
        let BegunRun { run, passed, words } = begun;
        let mut response = match words.stream {
            true => listen::stream(self.shared(), &run, 0, passed, Box::new(OwnWriter)),
            false => said(passed, StatusCode::ACCEPTED, &run.shown()),
        };
        response.headers_mut().insert(LOCATION, location(&run));
        Ok(response)
    }

    /// The body of a request to start a run.
    async fn body(&self, request: &mut Request) -> Result<Bytes, Refusal> {
        let bytes_max = self.shared().settings.body_bytes_max;
        request.bound_body(bytes_max);
        let body = request.body().await.and_then(|body| {
            // What another lane read has the bound of that lane.
            let public = format!("the request is larger than {bytes_max} bytes");
            let fits = body.len() <= bytes_max;
            fits.then_some(body)
                .ok_or_else(|| Refusal::new(refusal::BODY_TOO_LARGE, public))
        });
        match body {
            Ok(body) => Ok(body),
            Err(refusal) => Err(self.no(&START, None, refusal).await),
        }
    }

    /// Starts a run of a body that `read` reads, or says it to one.
    async fn launch(&self, body: &Bytes, read: ReadStart<'_>) -> Result<BegunRun, Refusal> {
        let settings = &self.shared().settings;
        let asked = read(body).and_then(|start| Ok((start, self.key(body)?)));
        let (mut start, key) = match asked {
            Ok(asked) => asked,
            Err(refusal) => return Err(self.no(&START, None, refusal).await),
        };
        if let Some(previous) = &start.previous {
            match self.thread_of(previous) {
                Ok(thread) => start.thread = Some(thread),
                Err(refusal) => return Err(self.no(&START, None, refusal).await),
            }
        }
        let (mode, thread) = (start.mode, start.thread.clone());
        let words = StartWords {
            stream: start.stream,
            background: start.background,
        };
        let text = start.text().map(str::to_owned);
        let plan = match start.plan(settings) {
            Ok(plan) => plan,
            Err(refusal) => return Err(self.no(&START, None, refusal).await),
        };
        let steered = match mode {
            StartMode::Steer => Some(self.at_work(thread.as_deref(), &plan.agent).await?),
            StartMode::Followup | StartMode::Interrupt => None,
        };
        // What is said to a run is judged as its start: by its agent, and as its own.
        let run = match &steered {
            Some(run) => run.id.to_string(),
            None => new_id(settings),
        };
        let (passed, plan, text) = self.judge_start((&run, body), read, plan, text).await?;
        let started = match steered {
            Some(run) => self.steer(run, text).await,
            None => self.begin(run, plan, thread, key, mode).await,
        };
        match started {
            Ok(run) => Ok(BegunRun { run, passed, words }),
            Err(refusal) => {
                passed.end(failed(&refusal));
                Err(refusal)
            }
        }
    }

    /// The thread of an own run that is its last.
    fn thread_of(&self, run: &str) -> Result<String, Refusal> {
        let book = &self.shared().book;
        let Some(run) = book.find(self.owner(), run) else {
            let public = "no run of this agent has the id that is said to be before";
            return Err(Refusal::new(refusal::RUN_UNKNOWN, public));
        };
        match book.is_last(&run) {
            true => Ok(run.thread.clone()),
            false => Err(invalid(
                "another run of that thread came after the one that is said to be before",
            )),
        }
    }

    /// Waits for the end of a run, as long as its caller may.
    async fn wait(&self, run: &LiveRun, passed: &Passed) -> Result<(), Refusal> {
        loop {
            let look = tokio::time::sleep(Duration::from_millis(LOOK_MS));
            tokio::select! {
                () = run.ended() => return Ok(()),
                () = self.shared().drain.started() => {
                    let public = "the gateway is stopping; the run goes on when it starts again";
                    return Err(Refusal::new(refusal::DRAINING, public));
                }
                () = look => passed.in_force()?,
            }
        }
    }

    /// Has it judged that a run starts with what the body says, and reads the body again where the scan took something out.
    async fn judge_start(
        &self,
        (run, body): (&str, &Bytes),
        read: ReadStart<'_>,
        plan: RunPlan,
        text: Result<String, Refusal>,
    ) -> Result<(Passed, RunPlan, Result<String, Refusal>), Refusal> {
        let agent = Name::new(&plan.agent).ok_or_else(|| invalid("agent is no name"))?;
        let json = match Json::read(body) {
            Ok(json) => json,
            Err(error) => {
                let refusal = invalid(format!("the body: {error:?}"));
                return Err(self.no(&START, None, refusal).await);
            }
        };
        let content = [ContentPart {
            role: Role::User,
            path: "",
            content: PartContent::Json(json.root()),
        }];
        let resource = Resource::Run(agent);
        let call = Call {
            content: &content,
            bytes: body.len() as u64,
            ..self.call(&START, &resource, Some(run))
        };
        let gate = &self.shared().gate;
        // A step is a call of the key that began the run, and of nothing else: a token is limited to its scopes, its person and
        // its time, and a step would not be. What is not found by its thumbprint could do nothing once the run has begun.
        let is_key = self.verified.by() == Credential::Key;
        let thumbprint = self.verified.thumbprint().filter(|_| is_key);
        let acting = thumbprint.map(|thumbprint| ActingFor {
            agent: self.owner().clone(),
            thumbprint,
            run: run.into(),
        });
        let can = acting.map(|acting| gate.recall(&acting));
        if can.is_none_or(|can| can.is_err()) {
            let public = "runs are started with a key of weir: another credential cannot be asked again later";
            let refusal = Refusal::new(refusal::KEY_MALFORMED, public);
            return Err(gate.reject(Some(&self.verified), &call, refusal).await);
        }
        let passed = gate.pass(self.verified.clone(), call).await?;
        let Some(redacted) = passed.redacted(0) else {
            return Ok((passed, plan, text));
        };
        let again = read(redacted).and_then(|start| {
            let text = start.text().map(str::to_owned);
            Ok((start.plan(&self.shared().settings)?, text))
        });
        match again {
            Ok((plan, text)) => Ok((passed, plan, text)),
            Err(refusal) => {
                passed.end(failed(&refusal));
                Err(refusal)
            }
        }
    }

    /// The SHA-256 of the caller's key, and that of the body.
    fn key(&self, body: &Bytes) -> Result<Option<(String, String)>, Refusal> {
        let Some(key) = self.head.headers.get(&IDEMPOTENCY) else {
            return Ok(None);
        };
        let key = key.to_str().ok().filter(|key| {
            (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_graphic())
        });
        let key = key.ok_or_else(|| {
            invalid(format!(
                "Idempotency-Key is a text of 1 to {KEY_CHARS_MAX} visible characters"
            ))
        })?;
        // Nobody scans a key, and a file keeps it: its hash finds the run as well.
        let hash = |of: &[u8]| Digest(Sha256::digest(of).into()).to_string();
        Ok(Some((hash(key.as_bytes()), hash(body))))
    }

    /// The run of a thread that is at work, where it is one of this agent of the configuration.
    async fn at_work(&self, thread: Option<&str>, agent: &str) -> Result<Arc<LiveRun>, Refusal> {
        let book = &self.shared().book;
        let run = thread.and_then(|thread| book.at_work(self.owner(), thread));
        match run.filter(|run| run.agent.as_str() == agent) {
            Some(run) if run.is_kept().await => Ok(run),
            _ => Err(self.no(&START, None, not_at_work()).await),
        }
    }

    /// Says something to a run that is at work.
    async fn steer(
        &self,
        run: Arc<LiveRun>,
        text: Result<String, Refusal>,
    ) -> Result<Arc<LiveRun>, Refusal> {
        let content = text?;
        let shared = Arc::clone(self.shared());
        let told = Arc::clone(&run);
        // A client that goes away does not leave a line half told.
        let told = tokio::task::spawn_local(async move {
            let added = RunEvent::Added { content };
            told.tell(&shared.book.files, shared.now(), &added).await
        });
        match told.await {
            Ok(Ok(())) => Ok(run),
            Ok(Err(NotTold::Disk(error))) => Err(self.unkept(&error.0)),
            Ok(Err(NotTold::TooLarge)) => Err(invalid(
                "the run takes no more: what is said to it is too much",
            )),
            Ok(Err(_)) => Err(not_at_work()),
            Err(error) => Err(self.unkept(&error.to_string())),
        }
    }

    fn unkept(&self, why: &str) -> Refusal {
        self.shared().is_in_trouble(why);
        Refusal::new(refusal::RUN_UNRECORDED, "the run cannot be kept").with_private(why)
    }

    /// Keeps a new run, and has it driven.
    async fn begin(
        &self,
        run: String,
        plan: RunPlan,
        thread: Option<String>,
        key: Option<(String, String)>,
        mode: StartMode,
    ) -> Result<Arc<LiveRun>, Refusal> {
        let shared = self.shared();
        if shared.drain.is_started() {
            return Err(Refusal::new(refusal::DRAINING, "the gateway is stopping"));
        }
        let owner = self.owner();
        let thumbprint = self.verified.thumbprint();
        let mut head = RunHead {
            owner: owner.to_string(),
            thumbprint: thumbprint.map_or_else(String::new, |of| of.to_string()),
            peer: self.peer,
            created_ms: shared.now().unix_ms,
            agent: plan.agent,
            thread: thread.unwrap_or_else(|| run.clone()),
            after: None,
            model: plan.model,
            instructions: plan.instructions,
            tools: plan.tools,
            limits: plan.limits,
            input: plan.input,
            key,
            run,
        };
        let bytes = serde_json::to_string(&head).map_or(usize::MAX, |line| line.len());
        if bytes > LINE_BYTES_MAX / 2 {
            return Err(invalid("the run is larger than is kept"));
        }
        let interrupts = mode == StartMode::Interrupt;
        let run = match shared.book.admit(&shared.settings, &mut head, interrupts)? {
            Ok(run) => run,
            Err(known) if known.is_kept().await => return Ok(known),
            Err(_) => return Err(self.unkept("the run with this key could not be kept")),
        };
        let line = serde_json::to_string(&head).expect("it was written before");
        let kept = self.lane.spawn_new(Arc::clone(&run), line);
        match kept.await {
            Ok(Ok(())) => Ok(run),
            Ok(Err(why)) => Err(self.unkept(&why)),
            Err(_closed) => Err(Refusal::new(refusal::DRAINING, "the gateway is stopping")),
        }
    }
}

/// Reads the body of a request to start a run, in the words of one shape.
type ReadStart<'a> = &'a dyn Fn(&[u8]) -> Result<StartBody, Refusal>;

/// How the answer to a start is wanted.
#[derive(Clone, Copy)]
struct StartWords {
    stream: bool,
    background: bool,
}

/// A run that was started or said something to, and the call that did it.
struct BegunRun {
    run: Arc<LiveRun>,
    passed: Passed,
    words: StartWords,
}

/// Ends a run, and waits until nothing of it begins any more.
async fn end_run(run: &LiveRun) -> StatusCode {
    run.cancel();
    let ended = tokio::time::timeout(Duration::from_millis(CANCEL_MS), run.ended());
    match ended.await {
        Ok(()) => StatusCode::OK,
        // The disk takes nothing: the run does nothing either, and ends when it does.
        Err(_late) => StatusCode::ACCEPTED,
    }
}

/// Where a run is read.
fn location(run: &LiveRun) -> HeaderValue {
    let location = HeaderValue::try_from(format!("/v1/runs/{}", run.id));
    location.expect("an id is visible")
}

/// What a query asks for.
#[derive(Default)]
struct RunQuery<'q> {
    state: Option<&'q str>,
    agent: Option<&'q str>,
    thread: Option<&'q str>,
    before: Option<&'q str>,
    after: Option<&'q str>,
    limit: Option<&'q str>,
    /// The first member that is none of these.
    unknown: Option<&'q str>,
}

impl<'q> RunQuery<'q> {
    fn of(query: &'q str) -> RunQuery<'q> {
        let mut asked = RunQuery::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "state" => asked.state = Some(value),
                "agent" => asked.agent = Some(value),
                "thread" => asked.thread = Some(value),
                "before" => asked.before = Some(value),
                "after" => asked.after = Some(value),
                "limit" => asked.limit = Some(value),
                _ => asked.unknown = asked.unknown.or(Some(name)),
            }
        }
        asked
    }

    fn limit(&self, most: usize, usual: usize) -> Result<usize, Refusal> {
        if let Some(name) = self.unknown {
            let name: String = name.chars().take(64).collect();
            return Err(invalid(format!("nothing is asked for by {name:?} here")));
        }
        let wrong = || invalid(format!("limit is a number from 1 to {most}"));
        let Some(limit) = self.limit else {
            return Ok(usual);
        };
        let limit: usize = limit.parse().map_err(|_| wrong())?;
        Some(limit)
            .filter(|limit| (1..=most).contains(limit))
            .ok_or_else(wrong)
    }

    fn page(&self) -> Result<usize, Refusal> {
        let is_state = |state: &str| RunState::ALL.iter().any(|of| of.as_str() == state);
        if self.state.is_some_and(|state| !is_state(state)) {
            let states: Vec<&str> = RunState::ALL.iter().map(|state| state.as_str()).collect();
            return Err(invalid(format!("state is one of {}", states.join(", "))));
        }
        self.limit(RUNS_PAGE_MAX, RUNS_PAGE_DEFAULT)
    }
}

/// An id that is nobody's yet: its first digits are the time, so that ids stand in the order in which runs were started.
fn new_id(settings: &Settings) -> String {
    let random = (settings.new_id)().to_string();
    format!("run_{:012x}{}", (settings.now)().unix_ms, &random[..20])
}

fn not_at_work() -> Refusal {
    let public = "no run of that agent is at work in that thread";
    Refusal::new(refusal::RUN_ENDED, public)
}

fn failed(refusal: &Refusal) -> CallEnding<'_> {
    CallEnding {
        status: refusal.code.status,
        why: Some((refusal.code.name, &refusal.private)),
        ..CallEnding::of(CallEnd::Failed)
    }
}

fn said(passed: Passed, status: StatusCode, body: &Value) -> Response {
    whole(passed, status, body.to_string())
}

fn whole(passed: Passed, status: StatusCode, text: String) -> Response {
    passed.end(CallEnding {
        status: status.as_u16(),
        bytes: text.len() as u64,
        ..CallEnding::of(CallEnd::Complete)
    });
    let mut response = Response::new(Body::Full(text.into()));
    *response.status_mut() = status;
    let fields = response.headers_mut();
    let kind = HeaderValue::from_static("application/json");
    fields.insert(CONTENT_TYPE, kind);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
