//! The port of call-backs, over the lane of the web: a URL is asked as any site is that an agent asks for, with a signature.

use std::rc::Rc;

use aws_lc_rs::hmac;
use run::{CallbackTold, Callbacks, PortCaller, PortFailure, PortFuture, RunCallback};

use super::asking::{failure, refused, request, whole};
use crate::lanes::OnThread;
use crate::routes::new_call_id;

/// The code of a receiver that does not take what it is told.
const CODE: &str = "run.callback";

/// The call-backs of one thread.
pub(super) struct LaneCallbacks {
    lane: Rc<dyn OnThread>,
}

impl LaneCallbacks {
    pub(super) fn new(lane: Rc<dyn OnThread>) -> LaneCallbacks {
        LaneCallbacks { lane }
    }
}

impl Callbacks for LaneCallbacks {
    fn tell<'a>(
        &'a self,
        caller: &'a PortCaller,
        to: &'a RunCallback,
        told: &'a CallbackTold,
    ) -> PortFuture<'a, Result<(), PortFailure>> {
        Box::pin(async move {
            let (at, signature) = (told.unix_s.to_string(), signature(to, told));
            let fields = [
                ("weir-webhook-id", told.id.as_str()),
                ("weir-webhook-timestamp", &at),
                ("weir-webhook-signature", &signature),
            ];
            let cannot = || failure(CODE, "it cannot be asked");
            let request = request(caller, "/", &fields, told.body.clone());
            let mut request = request.ok_or_else(cannot)?;
            request.head.uri = to.url.parse().map_err(|_| cannot())?;
            let response = self.lane.answer("", request, new_call_id()).await;
            let (fields, status, body) = whole(response).await?;
            match status {
                200..=299 => Ok(()),
                _ => Err(refused(&fields, status, &body, CODE)),
            }
        })
    }
}

/// `sha256=` and the HMAC of id, time and body, with points between, in hex.
fn signature(to: &RunCallback, told: &CallbackTold) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, to.secret.expose().as_bytes());
    let signed = format!("{}.{}.{}", told.id, told.unix_s, told.body);
    let tag = hmac::sign(&key, signed.as_bytes());
    format!("sha256={}", base::hex::encode(tag.as_ref()))
}
