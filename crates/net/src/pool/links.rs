//! Connections of one thread that speak HTTP/2, by where they lead: calls share them.
//!
//! The permit of each call is asked about the address of the connection that it is to have a part in. Who dials is alone: those
//! that come meanwhile wait for what it finds.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::time::Duration;

use base::{Permit, limit};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::dial::{DialTarget, ShelfKey};
use crate::h1::{ConnectionSettings, Stream};
use crate::http2::{Http2Link, LinkSetting};
use crate::send::SendError;

/// All of them.
pub(super) struct Http2Links {
    setting: Rc<LinkSetting>,
    places: RefCell<HashMap<ShelfKey, Rc<LinkPlace>>>,
}

/// Those to one target.
#[derive(Default)]
struct LinkPlace {
    /// Held by who dials.
    dialling: Mutex<()>,
    /// The server did not agree on HTTP/2 when it was dialled last, so nobody waits for another's connection.
    speaks_http11: Cell<bool>,
    links: RefCell<Vec<(Weak<Http2Link>, IpAddr)>>,
}

impl Http2Links {
    pub(super) fn new(bounds: &ConnectionSettings) -> Http2Links {
        Http2Links {
            setting: LinkSetting::new(bounds),
            places: RefCell::default(),
        }
    }

    /// A part in a connection to this target: in one that is there and has room, or in the one that `dialled` makes. A server
    /// that did not agree on HTTP/2 is spoken to as it can.
    pub(super) async fn open<P: Permit>(
        &self,
        target: &DialTarget,
        permit: &P,
        dialled: impl Future<Output = Result<(Stream, IpAddr), SendError>>,
        deadline: Instant,
    ) -> Result<(Stream, IpAddr), SendError> {
        let place = self.place(&target.shelf);
        if let Some(opened) = place.with_room(permit) {
            return Ok(opened);
        }
        let alone = match place.speaks_http11.get() {
            true => None,
            false => place.wait_to_dial(deadline).await,
        };
        if let Some(opened) = place.with_room(permit) {
            return Ok(opened);
        }
        let (stream, address) = dialled.await?;
        let is_http11 = target.tls.is_some() && !stream.agreed_on_http2();
        place.speaks_http11.set(is_http11);
        if is_http11 {
            return Ok((stream, address));
        }
        let link = timeout_at(deadline, Http2Link::new(stream, &self.setting)).await;
        let link = link.map_err(|_| SendError::Slow)?;
        let link = link.map_err(|error| SendError::Unreachable(format!("HTTP/2: {error}")))?;
        let opened = link.open();
        place
            .links
            .borrow_mut()
            .push((Rc::downgrade(&link), address));
        drop(alone);
        Ok((opened, address))
    }

    /// Where connections to a target are. Places that nobody has a connection to are forgotten.
    fn place(&self, shelf: &ShelfKey) -> Rc<LinkPlace> {
        let mut places = self.places.borrow_mut();
        if let Some(place) = places.get(shelf) {
            return Rc::clone(place);
        }
        places.retain(|_, place| Rc::strong_count(place) > 1 || place.has_any());
        Rc::clone(places.entry(shelf.clone()).or_default())
    }
}

impl LinkPlace {
    /// Waits until nobody else dials; no longer than a dial may take, so that a server which takes no connection is
    /// known as such in time.
    async fn wait_to_dial(&self, deadline: Instant) -> Option<MutexGuard<'_, ()>> {
        let longest = Instant::now() + Duration::from_millis(limit::DIAL_MS_MAX);
        let alone = timeout_at(deadline.min(longest), self.dialling.lock());
        alone.await.ok()
    }

    fn has_any(&self) -> bool {
        let mut links = self.links.borrow_mut();
        links.retain(|(link, _)| link.upgrade().is_some_and(|link| !link.is_over()));
        !links.is_empty()
    }

    fn with_room<P: Permit>(&self, permit: &P) -> Option<(Stream, IpAddr)> {
        if !self.has_any() {
            return None;
        }
        let links = self.links.borrow();
        links.iter().find_map(|(link, address)| {
            let link = link.upgrade()?;
            let may = link.has_room() && permit.dial(*address).is_ok();
            may.then(|| (link.open(), *address))
        })
    }
}
