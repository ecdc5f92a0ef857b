//! AG-UI: `POST /ag-ui/AGENT` starts a run of all messages of a conversation, and tells of it as it happens.

use base::{Refusal, refusal};
use http::Method;
use http::header::LOCATION;
use net::{Request, Response};

use super::{BegunRun, RunAsking, location};
use crate::actions::START;
use crate::listen;
use crate::shapes::agui::{self, AgUiWriter};

impl RunAsking<'_> {
    pub(super) async fn ag_ui(
        &self,
        agent: &str,
        request: &mut Request,
    ) -> Result<Response, Refusal> {
        if self.head.method != Method::POST {
            let refusal = Refusal::new(refusal::METHOD, "this path is asked by POST");
            return Err(self.no(&START, None, refusal).await);
        }
        let body = self.body(request).await?;
        let names = match agui::read(&body, agent) {
            Ok((_, names)) => names,
            Err(refusal) => return Err(self.no(&START, None, refusal).await),
        };
        let read = |body: &[u8]| agui::read(body, agent).map(|(start, _)| start);
        let BegunRun { run, passed, .. } = self.launch(&body, &read).await?;
        let writer = Box::new(AgUiWriter::new(names, &run.id));
        let mut response = listen::stream(self.shared(), &run, 0, passed, writer);
        response.headers_mut().insert(LOCATION, location(&run));
        Ok(response)
    }
}
