//! What calls do, asked as clients ask: by the table, with arguments as JSON.

mod compat;
mod crowd;
mod entities;
mod exchange;
mod hostile;
mod leases;
mod schemas;
mod work;

use std::cell::RefCell;
use std::sync::Arc;

use ::postgres::Target;
use serde_json::{Value, json};
use tools::serve::Cancel;
use tools::serve::call::{Ask, Problem, Said, Session, Waits};
use tools::serve::table::run;

use crate::service::Call;
use crate::store::{Database, Durability, Store, StorePlace};

/// A store of its own, and who calls.
#[derive(Clone)]
struct House {
    store: Store,
    place: StorePlace,
    folder: Arc<tempfile::TempDir>,
}

/// One caller.
struct Agent {
    house: House,
    session: RefCell<Session>,
}

/// A tenant of its own in the PostgreSQL database that `WEIR_FLOW_POSTGRES` names, or else a file of SQLite: what calls do
/// is the same on both.
fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    let place = match std::env::var("WEIR_FLOW_POSTGRES") {
        Ok(url) => {
            let tenant = format!("test-{:016x}", fastrand::u64(..));
            let target = Target::read(&url).unwrap();
            StorePlace::Postgres(Box::new(Database::new(target, &tenant).unwrap()))
        }
        Err(_) => StorePlace::Folder(folder.path().into(), Durability::Os),
    };
    House {
        store: Store::open(&place).unwrap(),
        place,
        folder: Arc::new(folder),
    }
}

/// Whether this is a test of files, on PostgreSQL.
fn has_no_file() -> bool {
    std::env::var_os("WEIR_FLOW_POSTGRES").is_some()
}

/// A house with a project that `ada` works in.
fn ada() -> Agent {
    let ada = house().agent("ada");
    ada.ok("project", json!({"action": "create", "name": "Shop"}));
    ada
}

impl House {
    fn agent(&self, name: &str) -> Agent {
        Agent {
            house: self.clone(),
            session: RefCell::new(Session {
                id: format!("session of {name}"),
                actor: name.to_owned(),
                project: None,
            }),
        }
    }
}

impl Agent {
    /// Another caller who chose the same project.
    fn with(&self, name: &str) -> Agent {
        let other = self.house.agent(name);
        other.session.borrow_mut().project = self.session.borrow().project.clone();
        other
    }

    fn call(&self, tool: &str, arguments: Value) -> Result<Said, Problem> {
        self.request(tool, arguments, "")
    }

    fn request(&self, tool: &str, arguments: Value, request: &str) -> Result<Said, Problem> {
        let session = self.session.borrow().clone();
        let call = Call {
            engine: &self.house.store,
            session: &session,
            request,
            compat: false,
            cancel: &Cancel::new(),
            progress: &|_| {},
            waits: &Waits::default(),
        };
        let said = run(
            &call,
            Ask {
                tool: tool.to_owned(),
                arguments: arguments.as_object().cloned().unwrap_or_default(),
                session: session.clone(),
                ..Ask::default()
            },
        )?;
        if let Some(session) = &said.session {
            *self.session.borrow_mut() = session.clone();
        }
        Ok(said)
    }

    #[track_caller]
    fn ok(&self, tool: &str, arguments: Value) -> Value {
        match self.call(tool, arguments.clone()) {
            Ok(said) => said.value,
            Err(problem) => panic!("{tool} {arguments}: {problem:?}"),
        }
    }

    #[track_caller]
    fn refused(&self, tool: &str, arguments: Value, code: &str) -> Problem {
        match self.call(tool, arguments.clone()) {
            Ok(said) => panic!("{tool} {arguments} answers {}", said.value),
            Err(problem) => {
                assert_eq!(problem.code, code, "{tool} {arguments}: {problem:?}");
                problem
            }
        }
    }

    /// Makes a task and gives its id.
    #[track_caller]
    fn task(&self, title: &str) -> String {
        text(&self.ok("work_item_create", json!({"title": title}))["item"]["id"])
    }

    /// An item as it is now.
    #[track_caller]
    fn item(&self, id: &str) -> Value {
        self.ok("work_item_get", json!({"id": id}))["item"].clone()
    }

    /// Changes fields of an item at its current version.
    #[track_caller]
    fn set(&self, id: &str, mut fields: Value) -> Value {
        fields["id"] = id.into();
        fields["version"] = self.item(id)["version"].clone();
        self.ok("work_item_update", fields)["item"].clone()
    }

    /// Checks that the events make the same rows again, byte for byte.
    #[track_caller]
    fn replays(&self) {
        let standing = self.house.store.replay().unwrap();
        assert!(standing.events > 0);
        assert_eq!(
            standing.kept, standing.replayed,
            "{} events",
            standing.events
        );
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The titles of a list.
fn titles(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().or(answer["hits"].as_array());
    items
        .unwrap()
        .iter()
        .map(|item| text(&item["title"]))
        .collect()
}
