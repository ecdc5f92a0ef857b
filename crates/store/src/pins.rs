//! Which definitions of tools, prompts and resources are approved: the gate's port `Pins`, over one file for each server.
//!
//! All answers come from memory. A thread writes what changed, and an approval that the command line wrote
//! is noticed when a tool that waits is asked for. It does not judge: what a change means is the gate's.

mod approval;
mod book;
mod folder;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::JoinHandle;

use arc_swap::ArcSwap;
use base::{Digest, Name, Now, ServerItem};
use gate::ports::{HeldItem, PinsFull, SeenDefinition, Standing, Trust};

pub use approval::{ApprovalError, Approved, Wanted, approve};
pub use book::{Book, Pin, Version};
pub use folder::{Folder, PinsError};

use book::Seen;
pub(crate) use folder::FOLDER;
use folder::Stamp;

/// Most servers whose changed books wait to be written at once; one for which there is no room waits for its next change.
const SERVERS_QUEUED_MAX: usize = 1024;

/// The pins of all configured servers.
pub struct Pins {
    shared: Arc<Shared>,
    writer: Mutex<Option<Writer>>,
}

struct Writer {
    /// Servers whose books changed; each stands here at most once.
    changed: SyncSender<Name>,
    thread: JoinHandle<()>,
}

struct Shared {
    folder: Folder,
    servers: ArcSwap<HashMap<Name, Arc<Server>>>,
}

struct Server {
    /// Items that wait: read before the lock, so that a call of a server without any costs nothing.
    held: AtomicUsize,
    /// It stands in the queue of the writer.
    queued: AtomicBool,
    state: RwLock<State>,
}

struct State {
    book: Book,
    /// The file that the book was last read from or written to.
    stamp: Option<Stamp>,
    /// For each item the definition that was seen last: the digest of its bytes, and its own. No more of each kind than the
    /// book has.
    last: HashMap<ServerItem, (Digest, Digest)>,
}

impl Server {
    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pins {
    /// Reads the books of the servers. The folder has to be there. Errors: a file that is damaged, because
    /// to begin anew would trust whatever the server says now.
    pub fn open(dir: &Path, servers: impl Iterator<Item = Name>) -> Result<Pins, PinsError> {
        let folder = Folder::new(dir);
        let shared = Arc::new(Shared {
            folder,
            servers: ArcSwap::default(),
        });
        shared.add(servers)?;
        let (changed, queue) = sync_channel(SERVERS_QUEUED_MAX);
        let writing = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("pins".into())
            .spawn(move || writing.write_all(&queue))
            .map_err(|error| PinsError::Io(dir.to_owned(), error))?;
        let writer = Mutex::new(Some(Writer { changed, thread }));
        Ok(Pins { shared, writer })
    }

    /// Reads the books of servers that came after the start. Those that are known stay as they are, and none is ever
    /// forgotten: what was approved of a server holds when it comes back. Errors: as of [`Pins::open`]; nothing was changed.
    pub fn add(&self, servers: impl Iterator<Item = Name>) -> Result<(), PinsError> {
        self.shared.add(servers)
    }

    /// Writes what is not written yet, and ends the thread that writes.
    pub fn close(&self) {
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Writer { changed, thread }) = writer {
            drop(changed);
            // A panic of the thread was printed, and there is nothing left to do for it.
            let _ = thread.join();
        }
    }

    fn queue(&self, name: &Name, server: &Server) {
        if server.queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = &*writer {
            // Where there is no room, the next change is written with this one.
            if writer.changed.try_send(name.clone()).is_err() {
                server.queued.store(false, Ordering::Release);
            }
        }
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        self.close();
    }
}

impl gate::ports::Pins for Pins {
    fn held(&self, server: &Name, item: &ServerItem) -> Option<HeldItem> {
        let servers = self.shared.servers.load();
        let (name, server) = servers.get_key_value(server)?;
        if server.held.load(Ordering::Acquire) == 0 {
            return None;
        }
        let held = || server.state().book.of_item(item).and_then(Pin::held);
        held()?;
        self.shared.look_again(name, server);
        held()
    }

    fn known(&self, server: &Name, item: &ServerItem, bytes: &Digest) -> Option<Standing> {
        let servers = self.shared.servers.load();
        let (name, server) = servers.get_key_value(server)?;
        let standing = || {
            let state = server.state();
            let (_, digest) = state.last.get(item).filter(|(last, _)| last == bytes)?;
            let pin = state.book.of_item(item)?;
            // What is neither has to be taken notice of.
            let held = || pin.held().filter(|held| held.digest == *digest);
            pin.standing(digest).or_else(|| held().map(Standing::Held))
        };
        match standing()? {
            Standing::Held(_) => {
                self.shared.look_again(name, server);
                standing()
            }
            other => Some(other),
        }
    }

    fn see(
        &self,
        sight: &SeenDefinition<'_>,
        trust: Trust,
        now: Now,
    ) -> Result<Standing, PinsFull> {
        let servers = self.shared.servers.load();
        let Some((name, server)) = servers.get_key_value(sight.server) else {
            return Ok(Standing::New);
        };
        if server.held.load(Ordering::Acquire) > 0 {
            self.shared.look_again(name, server);
        }
        let seen = Seen {
            item: sight.item,
            is_private: sight.is_private,
            digest: sight.digest,
            definition: sight.definition,
            at_ms: now.unix_ms,
        };
        let mut state = server.state_mut();
        let (standing, changed) = state.book.see(&seen, trust)?;
        let State { book, last, .. } = &mut *state;
        // Resources make room for others.
        if last.len() > book.count_items() {
            last.retain(|item, _| book.of_item(item).is_some());
        }
        if book.of_item(sight.item).is_some() {
            last.insert(sight.item.clone(), (sight.bytes, sight.digest));
        }
        if changed {
            server.held.store(state.book.held(), Ordering::Release);
            drop(state);
            self.queue(name, server);
        }
        Ok(standing)
    }

    fn definitions(&self, each: &mut dyn FnMut(&Name, &str, &str)) {
        for (name, server) in &**self.shared.servers.load() {
            let state = server.state();
            for (tool, pin) in state.book.tools() {
                let approved = pin.approved.as_ref();
                if let Some(text) = approved.and_then(|version| version.definition.as_deref()) {
                    each(name, tool, text);
                }
            }
        }
    }

    fn names(&self, each: &mut dyn FnMut(&Name, &str)) {
        for (name, server) in &**self.shared.servers.load() {
            let state = server.state();
            let approved = state.book.tools().filter(|(_, pin)| pin.approved.is_some());
            for (tool, _) in approved {
                each(name, tool);
            }
        }
    }
}

impl Shared {
    fn add(&self, servers: impl Iterator<Item = Name>) -> Result<(), PinsError> {
        let mut table = HashMap::clone(&self.servers.load());
        for name in servers {
            if table.contains_key(&name) {
                continue;
            }
            let stamp = self.folder.stamp(&name);
            let book = self.folder.read(&name)?;
            let server = Server {
                held: AtomicUsize::new(book.held()),
                queued: AtomicBool::new(false),
                state: RwLock::new(State {
                    book,
                    stamp,
                    last: HashMap::new(),
                }),
            };
            table.insert(name, Arc::new(server));
        }
        self.servers.store(Arc::new(table));
        Ok(())
    }

    /// Takes over what another process wrote since the file was last read or written.
    fn look_again(&self, name: &Name, server: &Server) {
        let stamp = self.folder.stamp(name);
        if stamp == server.state().stamp {
            return;
        }
        match self.folder.read(name) {
            Ok(stored) => {
                let mut state = server.state_mut();
                state.book.merge(stored);
                state.stamp = stamp;
                server.held.store(state.book.held(), Ordering::Release);
            }
            Err(error) => {
                // What waits goes on waiting. Said once for each such file.
                tracing::error!(server = %name, %error, "approvals cannot be read");
                server.state_mut().stamp = stamp;
            }
        }
    }

    fn write_all(&self, queue: &Receiver<Name>) {
        for name in queue {
            let Some(server) = self.servers.load().get(&name).cloned() else {
                continue;
            };
            server.queued.store(false, Ordering::Release);
            if let Err(error) = self.write(&name, &server) {
                tracing::error!(server = %name, %error, "what was seen of its items is not kept");
            }
        }
    }

    fn write(&self, name: &Name, server: &Server) -> Result<(), PinsError> {
        let _lock = self.folder.lock()?;
        if self.folder.stamp(name) != server.state().stamp {
            let stored = self.folder.read(name)?;
            let mut state = server.state_mut();
            state.book.merge(stored);
            server.held.store(state.book.held(), Ordering::Release);
        }
        let json = server.state().book.to_json(name.as_str());
        self.folder.write(name, &json)?;
        server.state_mut().stamp = self.folder.stamp(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base::ItemKind;
    use gate::ports::{HoldReason, Pins as _};
    use sha2::Digest as _;

    use super::*;

    const NOW: Now = Now {
        unix_ms: 1_800_000_000_000,
        mono_ms: 1,
    };

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn files() -> Name {
        name("files")
    }

    fn open(dir: &Path) -> Pins {
        Pins::open(dir, [name("files"), name("other")].into_iter()).unwrap()
    }

    fn digest(text: &str) -> Digest {
        Digest(sha2::Sha256::digest(text.as_bytes()).into())
    }

    fn tool(name: &str) -> ServerItem {
        let (kind, name) = (ItemKind::Tool, name.into());
        ServerItem { kind, name }
    }

    fn see(pins: &Pins, name: &str, definition: &str) -> Standing {
        let item = &tool(name);
        let (digest, bytes) = (digest(definition), digest(&format!(" {definition}")));
        let sight = SeenDefinition {
            server: &files(),
            item,
            is_private: false,
            digest,
            definition: Some(definition),
            bytes,
        };
        let standing = pins.see(&sight, Trust::FirstUse, NOW).unwrap();
        let known = pins.known(&files(), item, &bytes);
        if standing != Standing::New {
            assert_eq!(known, Some(standing.clone()));
        }
        standing
    }

    fn held(pins: &Pins, tool: &str) -> Option<HoldReason> {
        pins.held(&name("files"), &self::tool(tool))
            .map(|held| held.why)
    }

    #[test]
    fn what_was_seen_is_known_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let pins = open(dir.path());
        assert_eq!(see(&pins, "add", "one"), Standing::New);
        assert_eq!(see(&pins, "sub", "one"), Standing::New);
        assert!(matches!(see(&pins, "add", "two"), Standing::Held(_)));
        pins.close();
        let pins = open(dir.path());
        assert_eq!(held(&pins, "add"), Some(HoldReason::Changed));
        assert_eq!(held(&pins, "sub"), None);
        assert_eq!(held(&pins, "never"), None);
        assert_eq!(pins.held(&name("other"), &tool("add")), None);
        assert_eq!(see(&pins, "sub", "one"), Standing::Approved);
        assert!(matches!(see(&pins, "sub", "two"), Standing::Held(_)));
        let mut names = Vec::new();
        pins.names(&mut |server, tool| names.push(format!("{server}/{tool}")));
        assert_eq!(names, ["files/add", "files/sub"]);
    }

    #[test]
    fn a_server_that_comes_later_is_pinned_and_the_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let pins = Pins::open(dir.path(), std::iter::once(name("other"))).unwrap();
        see(&pins, "add", "one");
        assert_eq!(
            see(&pins, "add", "two"),
            Standing::New,
            "it is not known yet"
        );
        pins.add([name("files"), name("other")].into_iter())
            .unwrap();
        assert_eq!(see(&pins, "add", "one"), Standing::New);
        pins.add(std::iter::once(name("files"))).unwrap();
        assert!(matches!(see(&pins, "add", "two"), Standing::Held(_)));
        pins.close();
        assert_eq!(held(&open(dir.path()), "add"), Some(HoldReason::Changed));
        std::fs::write(dir.path().join("bad.json"), "oops").unwrap();
        let pins = open(dir.path());
        assert!(pins.add(std::iter::once(name("bad"))).is_err());
    }

    #[test]
    fn an_approval_is_noticed_and_not_lost() {
        let dir = tempfile::tempdir().unwrap();
        let pins = open(dir.path());
        see(&pins, "add", "one");
        see(&pins, "add", "two");
        pins.close();
        let pins = open(dir.path());
        assert_eq!(held(&pins, "add"), Some(HoldReason::Changed));
        let folder = Folder::new(dir.path());
        let approved = folder.change(&name("files"), |book| {
            let approved = book.approve(ItemKind::Tool, "add", 1);
            (approved.is_some(), approved)
        });
        assert_eq!(approved.unwrap(), Some(digest("two")));
        // Another tool's change is written over the approval's file, after reading it.
        assert_eq!(see(&pins, "sub", "one"), Standing::New);
        assert_eq!(held(&pins, "add"), None);
        assert_eq!(see(&pins, "add", "two"), Standing::Approved);
        pins.close();
        let book = folder.read(&name("files")).unwrap();
        assert_eq!(book.held(), 0);
        assert!(book.of_item(&tool("sub")).is_some());
    }

    #[test]
    fn a_damaged_file_is_an_error_that_says_how_to_mend_it() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let pins = open(dir.path());
        see(&pins, "add", "one");
        pins.close();
        let path = dir.path().join("files.json");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, "{}").unwrap();
        let Err(error) = Pins::open(dir.path(), [name("files")].into_iter()) else {
            panic!("a damaged file was read");
        };
        let text = error.to_string();
        assert!(
            text.contains("files.json") && text.contains("move the file away"),
            "{text}"
        );
        // Damaged while it runs, it approves nothing.
        std::fs::remove_file(&path).unwrap();
        let pins = open(dir.path());
        see(&pins, "add", "one");
        see(&pins, "add", "two");
        std::fs::write(&path, "{}").unwrap();
        assert_eq!(held(&pins, "add"), Some(HoldReason::Changed));
    }

    #[test]
    fn threads_see_one_book() {
        let dir = tempfile::tempdir().unwrap();
        let pins = open(dir.path());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let pins = &pins;
                scope.spawn(move || {
                    for i in 0..50 {
                        see(pins, &format!("tool{i}"), "one");
                        see(pins, &format!("own{thread}-{i}"), "one");
                    }
                });
            }
        });
        pins.close();
        let book = Folder::new(dir.path()).read(&name("files")).unwrap();
        assert_eq!((book.tools().count(), book.held()), (250, 0));
    }
}
