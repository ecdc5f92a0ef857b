//! One session of MCP: lists the table of tools and hands calls to the desk.
//!
//! The official SDK speaks the protocol in all its eras. A call that goes wrong is a result with `isError`, because
//! that is what models are shown; only a name that is no tool is an error of the protocol.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, ContentBlock, Implementation, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesRequestMethod, ListResourceTemplatesResult,
    ListResourcesRequestMethod, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ServerCapabilities, ServerConfig, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler, ServiceExt};
use tokio::sync::mpsc;

use super::call::{Ask, Problem, Said, Session};
use super::desk::{self, Desk};
use super::lines::Pipes;
use super::table::{self, Effect, Tool};
use super::{Job, Progress, Service};

/// One session.
pub struct Server<S: Service> {
    desk: Desk<S>,
    compat: bool,
    /// The tools as they are listed: made once for all sessions.
    listing: Arc<OnceLock<Vec<rmcp::model::Tool>>>,
    session: Mutex<Session>,
}

impl<S: Service> Server<S> {
    /// A session whose calls the desk answers; with the tools of the server that this one takes the place of listed,
    /// or not.
    pub fn new(desk: Desk<S>, compat: bool) -> Server<S> {
        Server {
            desk,
            compat,
            listing: Arc::default(),
            session: Mutex::new(begun()),
        }
    }

    /// Another session at the same desk.
    pub(super) fn another(&self) -> Server<S> {
        Server {
            desk: self.desk.clone(),
            compat: self.compat,
            listing: Arc::clone(&self.listing),
            session: Mutex::new(begun()),
        }
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
        let ask = Ask {
            tool: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            session: self.session().clone(),
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
            }),
        };
        Ok(match answer {
            Ok(said) => self.result(said),
            Err(problem) => {
                let text = format!("{}: {}", problem.code, problem.message);
                CallToolResult::error(vec![ContentBlock::text(text)])
            }
        })
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
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that was told nothing yet. Its id is that of no other; it is no secret.
fn begun() -> Session {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = || RandomState::new().build_hasher().finish();
    Session {
        id: format!("{:016x}{:016x}", random(), random()),
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
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
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
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<
            ListResourceTemplatesRequestMethod,
        >())
    }
}

/// The tools as they are listed.
pub(crate) fn listing<S: Service>(compat: bool) -> Vec<rmcp::model::Tool> {
    let listed = S::TOOLS.iter().filter(|tool| tool.is_listed(compat));
    listed.map(|tool| described(tool, compat)).collect()
}

fn described<S: Service>(tool: &Tool<S>, compat: bool) -> rmcp::model::Tool {
    let (input, output) = tool.schemas(compat);
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.effect == Effect::Reads)
        .destructive(tool.effect == Effect::Removes)
        .idempotent(true)
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
pub async fn stdio<S: Service>(desk: Desk<S>, compat: bool) -> io::Result<()> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let serving = Server::new(desk, compat)
        .serve(Pipes::new(input, output))
        .await;
    match serving {
        Ok(serving) => serving.waiting().await.map(drop).map_err(io::Error::other),
        // A client that goes before it says anything wants nothing.
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}
