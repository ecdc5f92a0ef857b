//! OpenAI's Responses of runs: start by `POST /v1/responses` with the model `run/AGENT`, read and cancel by the run's id.

use base::{Refusal, refusal};
use http::StatusCode;
use http::header::LOCATION;
use net::{Request, Response};

use super::{BegunRun, RunAsking, end_run, failed, location, said};
use crate::actions::{CANCEL, READ};
use crate::listen;
use crate::live::LiveRun;
use crate::shapes::responses::{self, ResponseWriter};

impl RunAsking<'_> {
    /// `rest` is the path behind `/v1/responses/`.
    pub(super) async fn responses(
        &self,
        rest: &str,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        let (run, part) = rest.split_once('/').unwrap_or((rest, ""));
        match (self.head.method.as_str(), run, part) {
            ("POST", "", "") => self.respond(request).await,
            ("GET", run, "") if !run.is_empty() => self.response(run).await,
            ("POST", run, "cancel") => {
                let (run, passed) = self.found(&CANCEL, run).await?;
                end_run(&run).await;
                self.whole(&run, passed).await
            }
            _ => {
                let refusal = Refusal::new(refusal::METHOD, "a response has no such method");
                Err(self.no(&READ, None, refusal).await)
            }
        }
    }

    async fn respond(&self, request: &mut Request) -> Result<Response, Refusal> {
        let body = self.body(request).await?;
        let begun = self.launch(&body, &responses::read).await?;
        let BegunRun { run, passed, words } = begun;
        let mut response = if words.stream {
            let writer = Box::new(writer(&run, None));
            listen::stream(self.shared(), &run, 0, passed, writer)
        } else {
            if !words.background
                && let Err(refusal) = self.wait(&run, &passed).await
            {
                passed.end(failed(&refusal));
                return Err(refusal);
            }
            self.whole(&run, passed).await?
        };
        response.headers_mut().insert(LOCATION, location(&run));
        Ok(response)
    }

    /// A run as a response: as it is, or its events from one on.
    async fn response(&self, run: &str) -> Result<Response, Refusal> {
        let query = self.head.uri.query().unwrap_or_default();
        let (mut is_stream, mut after) = (false, Ok(None));
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "stream" => is_stream = value == "true",
                "starting_after" => after = value.parse::<u64>().map(Some),
                _ => {}
            }
        }
        let Ok(after) = after else {
            let public = "starting_after is the sequence_number of an event";
            let refusal = Refusal::new(refusal::RUN_EVENT_UNKNOWN, public);
            return Err(self.no(&READ, None, refusal).await);
        };
        let (run, passed) = self.found(&READ, run).await?;
        match is_stream {
            true => {
                let writer = Box::new(writer(&run, after));
                Ok(listen::stream(self.shared(), &run, 0, passed, writer))
            }
            false => self.whole(&run, passed).await,
        }
    }

    /// Answers with all that there is by now.
    async fn whole(
        &self,
        run: &std::sync::Arc<LiveRun>,
        passed: gate::Passed,
    ) -> Result<Response, Refusal> {
        let mut writer = writer(run, None);
        // Asked before the events: a response that is said to have ended has all of them.
        let state = run.state();
        match listen::all(self.shared(), run, &mut writer).await {
            Ok(()) => Ok(said(passed, StatusCode::OK, &writer.response(state))),
            Err(refusal) => {
                passed.end(failed(&refusal));
                Err(refusal)
            }
        }
    }
}

fn writer(run: &LiveRun, after: Option<u64>) -> ResponseWriter {
    ResponseWriter::new(&run.id, run.agent.as_str(), run.created_ms, after)
}
