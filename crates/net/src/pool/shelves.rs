//! The idle connections of one thread, by where they lead.
//!
//! A shelf is there while there is something on it: configured targets come and go, and agents could name any number of
//! sites, so shelves and connections are bounded over all sites.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use base::limit;

use crate::dial::{DialTarget, ShelfKey};
use crate::h1::{ClientConnection, Stream, Thread};

/// A connection that nobody uses.
pub(super) struct Idle {
    pub(super) client: Box<ClientConnection<Stream>>,
    pub(super) address: IpAddr,
    /// The tick at which it is too old.
    pub(super) until: u64,
}

/// All of them.
#[derive(Default)]
pub(super) struct Shelves {
    /// By the number of the target.
    configured: BTreeMap<u64, Vec<Idle>>,
    sites: HashMap<ShelfKey, SiteShelf>,
    /// Connections to sites.
    site_idle: usize,
    /// Counts what is put on the shelves of sites.
    kept: u64,
}

/// The idle connections to one site; never empty.
struct SiteShelf {
    target: Arc<DialTarget>,
    /// The newest is the last.
    idle: Vec<Idle>,
    /// When it was used last, in connections that were kept.
    used: u64,
}

impl Idle {
    /// Whether it is too old, has ended, or is not silent.
    pub(super) fn is_over(&mut self, thread: &Thread) -> bool {
        thread.has_passed(self.until) || !self.client.is_silent()
    }
}

impl Shelves {
    /// How many connections there are for one target.
    pub(super) fn idle(&self, shelf: &ShelfKey) -> usize {
        match shelf {
            ShelfKey::Configured(number) => self.configured.get(number).map_or(0, Vec::len),
            ShelfKey::Site(_) => self.sites.get(shelf).map_or(0, |site| site.idle.len()),
        }
    }

    /// The site as it was dialled, if there are connections to it.
    pub(super) fn site(&self, shelf: &ShelfKey) -> Option<Arc<DialTarget>> {
        let site = self.sites.get(shelf)?;
        Some(Arc::clone(&site.target))
    }

    /// Takes the newest connection that `is_good` says yes to. Others that it meets are closed.
    pub(super) fn take(
        &mut self,
        shelf: &ShelfKey,
        is_good: impl FnMut(&mut Idle) -> bool,
    ) -> Option<Idle> {
        match shelf {
            ShelfKey::Configured(number) => newest(self.configured.get_mut(number)?, is_good),
            ShelfKey::Site(_) => {
                let site = self.sites.get_mut(shelf)?;
                let before = site.idle.len();
                let taken = newest(&mut site.idle, is_good);
                self.site_idle -= before - site.idle.len();
                if site.idle.is_empty() {
                    self.sites.remove(shelf);
                }
                taken
            }
        }
    }

    /// Keeps a connection, if there is room for it.
    pub(super) fn keep(&mut self, target: &Arc<DialTarget>, idle: Idle) {
        match &target.shelf {
            ShelfKey::Configured(number) => {
                let shelf = self.configured.entry(*number).or_default();
                if shelf.len() < target.endpoint.idle_max {
                    shelf.push(idle);
                }
            }
            ShelfKey::Site(_) => self.keep_site(target, idle),
        }
    }

    fn keep_site(&mut self, target: &Arc<DialTarget>, idle: Idle) {
        if !self.sites.contains_key(&target.shelf) && self.sites.len() >= limit::SITES_POOLED_MAX {
            self.drop_oldest(usize::MAX);
        }
        self.kept += 1;
        let site = self.sites.entry(target.shelf.clone());
        let site = site.or_insert_with(|| SiteShelf {
            target: Arc::clone(target),
            idle: Vec::new(),
            used: 0,
        });
        site.used = self.kept;
        if site.idle.len() >= target.endpoint.idle_max {
            return;
        }
        site.idle.push(idle);
        self.site_idle += 1;
        if self.site_idle > limit::SITES_IDLE_MAX {
            self.drop_oldest(1);
        }
    }

    /// Closes so many connections of the site that was used longest ago.
    fn drop_oldest(&mut self, connections: usize) {
        let oldest = self.sites.iter().min_by_key(|(_, site)| site.used);
        let Some(oldest) = oldest.map(|(shelf, _)| shelf.clone()) else {
            return;
        };
        let Some(site) = self.sites.get_mut(&oldest) else {
            return;
        };
        let closed = connections.min(site.idle.len());
        site.idle.drain(..closed);
        self.site_idle -= closed;
        if site.idle.is_empty() {
            self.sites.remove(&oldest);
        }
    }

    /// Closes those that `stays` says no to.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(&mut Idle) -> bool) {
        self.configured.retain(|_, shelf| {
            shelf.retain_mut(&mut stays);
            !shelf.is_empty()
        });
        self.site_idle = 0;
        self.sites.retain(|_, site| {
            site.idle.retain_mut(&mut stays);
            self.site_idle += site.idle.len();
            !site.idle.is_empty()
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.configured.is_empty()
    }
}

fn newest(shelf: &mut Vec<Idle>, mut is_good: impl FnMut(&mut Idle) -> bool) -> Option<Idle> {
    while let Some(mut idle) = shelf.pop() {
        if is_good(&mut idle) {
            return Some(idle);
        }
    }
    None
}
