//! One session of MCP: lists the table of tools and hands calls to the desk.
//!
//! The official SDK speaks the protocol in all its eras. A call that goes wrong is a result with `isError`, because
//! that is what models are shown; only a name that is no tool is an error of the protocol.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ContentBlock, Implementation, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
    ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ReadResourceRequestMethod, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ResourceContents, ResourceTemplate,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestMethod,
    SubscribeRequestParams, SubscriptionFilter, ToolAnnotations, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler, ServiceExt};
use tokio::sync::mpsc;

use super::call::{Ask, Problem, Said, Session};
use super::desk::{self, Desk};
use super::lines::Pipes;
use super::resource::{self, SUBSCRIPTIONS_MAX};
use super::table::{self, Effect, Tool};
use super::{Job, Progress, Service};

/// One session.
pub struct Server<S: Service> {
    desk: Desk<S>,
    compat: bool,
    /// The tools as they are listed: made once for all sessions.
    listing: Arc<OnceLock<Vec<rmcp::model::Tool>>>,
    session: Mutex<Session>,
    /// Who calls, in every session.
    actor: Arc<str>,
    /// Counts the calls of the session.
    calls: AtomicU64,
    /// The resources that a client of the older eras is told of; none where nobody looks after them yet.
    watched: Arc<Mutex<Option<Vec<String>>>>,
}

impl<S: Service> Server<S> {
    /// A session whose calls the desk answers; with the tools of the server that this one takes the place of listed,
    /// or not. `actor` is who calls, where the server keeps that.
    pub fn new(desk: Desk<S>, compat: bool, actor: &str) -> Server<S> {
        Server::begun(desk, compat, Arc::default(), actor.into())
    }

    fn begun(
        desk: Desk<S>,
        compat: bool,
        listing: Arc<OnceLock<Vec<rmcp::model::Tool>>>,
        actor: Arc<str>,
    ) -> Server<S> {
        Server {
            desk,
            compat,
            listing,
            session: Mutex::new(begun(&actor)),
            actor,
            calls: AtomicU64::new(0),
            watched: Arc::default(),
        }
    }

    /// Another session at the same desk.
    pub(super) fn another(&self) -> Server<S> {
        let (desk, listing) = (self.desk.clone(), Arc::clone(&self.listing));
        Server::begun(desk, self.compat, listing, Arc::clone(&self.actor))
    }

    async fn answer(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        if table::find::<S>(&request.name).is_none() {
            let what = format!("there is no tool {:?}", request.name);
            return Err(ErrorData::invalid_params(what, None));
        }
        let session = self.session().clone();
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let ask = Ask {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            request: format!("{}:{number}", session.id),
            session,
            compat: self.compat,
        };
        let token = context.meta.get_progress_token();
        let (told, jobs) = desk::progress();
        let tell = tell(context.peer.clone(), token, jobs);
        let call = self.desk.call(ask, told);
        let answer = tokio::select! {
            (answer, ()) = async { tokio::join!(call, tell) } => answer,
            // The SDK sends no answer to a call that was cancelled.
            () = context.ct.cancelled() => Err(Problem {
                code: "cancelled".to_owned(),
                message: "the call was given up".to_owned(),
                data: None,
            }),
        };
        Ok(match answer {
            Ok(said) => self.result(said),
            Err(problem) => refused(&problem),
        })
    }

    /// Begins to tell a client of the older eras what changes, once in a session.
    fn watch(&self, peer: Peer<RoleServer>) {
        let (desk, session) = (self.desk.clone(), self.session().clone());
        let watched = Arc::clone(&self.watched);
        let (changed, mut changes) = mpsc::channel(SUBSCRIPTIONS_MAX);
        let all = move || lock(&watched).clone().unwrap_or_default();
        tokio::spawn(async move {
            resource::watch(desk, session, all, changed).await;
        });
        tokio::spawn(async move {
            while let Some(uri) = changes.recv().await {
                #[allow(deprecated, reason = "that is how the older eras are told")]
                let told = peer
                    .notify_resource_updated(ResourceUpdatedNotificationParam::new(uri))
                    .await;
                if told.is_err() {
                    return;
                }
            }
        });
    }

    fn result(&self, said: Said) -> CallToolResult {
        if let Some(session) = said.session {
            *self.session() = session;
        }
        let mut result = CallToolResult::success(vec![ContentBlock::text(said.text)]);
        result.structured_content = Some(said.value);
        result
    }

    fn session(&self) -> std::sync::MutexGuard<'_, Session> {
        lock(&self.session)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A problem as models are shown it, and as JSON in a second block where there is more to say. It is not structured content:
/// official clients hold that against the schema of the tool's answers, whether the call went well or not.
fn refused(problem: &Problem) -> CallToolResult {
    let text = format!("{}: {}", problem.code, problem.message);
    let mut blocks = vec![ContentBlock::text(text)];
    if let Some(data) = &problem.data {
        let (code, message) = (&problem.code, &problem.message);
        let error = serde_json::json!({ "code": code, "message": message, "data": data });
        let more = serde_json::json!({ "error": error });
        blocks.push(ContentBlock::text(more.to_string()));
    }
    CallToolResult::error(blocks)
}

/// A problem with a question about resources.
fn not_read(problem: Problem) -> ErrorData {
    ErrorData::resource_not_found(problem.message, None)
}

/// A session that was told nothing yet. Its id is that of no other; it is no secret.
fn begun(actor: &str) -> Session {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || RandomState::new().build_hasher().finish();
    Session {
        id: format!("{:016x}{:016x}", random(), random()),
        actor: actor.to_owned(),
        project: None,
    }
}

/// Tells the client how far the job is, where it wants to know, until there is nothing more.
async fn tell<J: Job>(
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    mut jobs: mpsc::Receiver<J>,
) {
    let mut before = -1.0;
    while let Some(job) = jobs.recv().await {
        let Some(token) = token.clone() else {
            continue;
        };
        let progress = job.progress();
        let done = progress.done as f64;
        // The protocol wants each progress to be more than the one before.
        if done <= before {
            continue;
        }
        before = done;
        if peer.notify_progress(told(token, progress)).await.is_err() {
            return;
        }
    }
}

fn told(token: ProgressToken, progress: Progress) -> ProgressNotificationParam {
    let told = ProgressNotificationParam::new(token, progress.done as f64);
    let told = told.with_message(progress.message);
    match progress.total {
        Some(total) => told.with_total(total as f64),
        None => told,
    }
}

impl<S: Service> ServerHandler for Server<S> {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder().enable_tools();
        let capabilities = match S::RESOURCES {
            Some(_) => tools
                .enable_resources()
                .enable_resources_subscribe()
                .build(),
            None => tools.build(),
        };
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new(S::NAME, env!("CARGO_PKG_VERSION"));
        info.with_instructions(S::INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult {
            tools: self
                .listing
                .get_or_init(|| listing::<S>(self.compat))
                .clone(),
            ..ListToolsResult::default()
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.answer(request, context).await.map(Into::into)
    }

    // The SDK would answer these with nothing, as if they were there and empty. What is not declared is not known.

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        if S::RESOURCES.is_none() {
            return Err(ErrorData::method_not_found::<ListResourcesRequestMethod>());
        }
        let session = self.session().clone();
        let said = resource::ask(&self.desk, session, "list", None).await;
        let said = said.map_err(|problem| ErrorData::internal_error(problem.message, None))?;
        let all: Vec<resource::Resource> = serde_json::from_value(said.value).unwrap_or_default();
        let resources = all.into_iter().map(|of| {
            let listed = rmcp::model::Resource::new(of.uri, of.name);
            let listed = listed.with_description(of.description);
            S::RESOURCES.map_or(listed.clone(), |resources| {
                listed.with_mime_type(resources.media_type)
            })
        });
        Ok(ListResourcesResult {
            resources: resources.collect(),
            ..ListResourcesResult::default()
        })
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let Some(resources) = S::RESOURCES else {
            return Err(ErrorData::method_not_found::<
                ListResourceTemplatesRequestMethod,
            >());
        };
        let templates = resources.templates.iter().map(|of| {
            ResourceTemplate::new(of.uri, of.name)
                .with_description(of.description)
                .with_mime_type(resources.media_type)
        });
        Ok(ListResourceTemplatesResult {
            resource_templates: templates.collect(),
            ..ListResourceTemplatesResult::default()
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let Some(resources) = S::RESOURCES else {
            return Err(ErrorData::method_not_found::<ReadResourceRequestMethod>());
        };
        let session = self.session().clone();
        let said = resource::ask(&self.desk, session, "read", Some(&request.uri)).await;
        let text = said.map_err(not_read)?.text;
        let text = ResourceContents::text(text, request.uri).with_mime_type(resources.media_type);
        Ok(ReadResourceResult::new(vec![text]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if S::RESOURCES.is_none() {
            return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
        }
        let session = self.session().clone();
        let known = resource::ask(&self.desk, session, "revision", Some(&request.uri)).await;
        known.map_err(not_read)?;
        let mut watched = lock(&self.watched);
        let is_first = watched.is_none();
        let uris = watched.get_or_insert_default();
        if uris.len() >= SUBSCRIPTIONS_MAX {
            let what = format!("a session is told of at most {SUBSCRIPTIONS_MAX} resources");
            return Err(ErrorData::invalid_params(what, None));
        }
        if !uris.contains(&request.uri) {
            uris.push(request.uri);
        }
        drop(watched);
        if is_first {
            self.watch(context.peer);
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let Some(uris) = lock(&self.watched).as_mut() {
            uris.retain(|uri| *uri != request.uri);
        }
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        S::RESOURCES?;
        let uris = requested.resource_subscriptions.iter().flatten();
        let uris = uris.take(SUBSCRIPTIONS_MAX).cloned().collect();
        let mut accepted = SubscriptionFilter::default();
        accepted.resource_subscriptions = Some(uris);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let uris = context.accepted().resource_subscriptions.clone();
        let uris = uris.unwrap_or_default();
        let (changed, mut changes) = mpsc::channel(SUBSCRIPTIONS_MAX);
        let (desk, session) = (self.desk.clone(), self.session().clone());
        let watching = resource::watch(desk, session, move || uris.clone(), changed);
        let telling = async {
            while let Some(uri) = changes.recv().await {
                if context.sink().notify_resource_updated(uri).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = context.cancelled() => {}
            () = watching => {}
            () = telling => {}
        }
        Ok(())
    }
}

/// The tools as they are listed.
pub fn listing<S: Service>(compat: bool) -> Vec<rmcp::model::Tool> {
    let listed = S::TOOLS.iter().filter(|tool| tool.is_listed(compat));
    listed.map(|tool| described(tool, compat)).collect()
}

fn described<S: Service>(tool: &Tool<S>, compat: bool) -> rmcp::model::Tool {
    let (input, output) = tool.schemas(compat);
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.effect == Effect::Reads)
        .destructive(matches!(tool.effect, Effect::Removes | Effect::Overwrites))
        .idempotent(!matches!(tool.effect, Effect::Writes | Effect::Overwrites))
        .open_world(false);
    rmcp::model::Tool::new(tool.name, tool.doc, Arc::new(input))
        .with_title(tool.title)
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(annotations)
}

/// Serves one session over standard input and output, until the client closes it.
///
/// # Errors
///
/// Where the first message is no MCP.
pub async fn stdio<S: Service>(desk: Desk<S>, compat: bool, actor: &str) -> io::Result<()> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let serving = Server::new(desk, compat, actor)
        .serve(Pipes::new(input, output))
        .await;
    match serving {
        Ok(serving) => serving.waiting().await.map(drop).map_err(io::Error::other),
        // A client that goes before it says anything wants nothing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}
