//! Calls every tool of the table by its name, on a small tree, and holds each answer to the schema that is listed.

use std::path::Path;
use std::sync::Mutex;

use serde_json::{Map, Value, json};
use tools::code::Call;
use tools::code::api::{Cancel, Engine, Job, Limits, ParseBy, Settings};
use tools::code::table::{self, Tool};
use tools::serve::call::{Ask, Problem, Said, Session, WAITS_MAX, Waits};

/// An engine over a tree of two files, and what keeps them.
struct House {
    waits: Waits,
    _dir: tempfile::TempDir,
    root: String,
    engine: Engine,
}

fn house() -> House {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let root = dir.path().join("shop");
    std::fs::create_dir_all(root.join("src")).expect("a folder");
    let write = |path: &str, text: &str| {
        std::fs::write(root.join(path), text).expect("a file");
    };
    write("src/a.py", "def weigh(apple):\n    return apple.grams\n");
    write("guide.md", "# Guide\n\nHow to weigh an apple.\n");
    let engine = Engine::open(Settings {
        data_dir: dir.path().join("index"),
        hidden: Vec::new(),
        roots: vec![root.clone()],
        tenant: "t".to_owned(),
        limits: Limits::default(),
        parse: ParseBy::Here,
        embed: None,
    });
    House {
        waits: Waits::default(),
        root: root.display().to_string(),
        engine: engine.expect("an index"),
        _dir: dir,
    }
}

impl House {
    fn call(&self, tool: &str, arguments: Value, codebase: bool) -> Result<Said, Problem> {
        self.told(tool, arguments, codebase, &|_| {})
    }

    fn told(
        &self,
        tool: &str,
        arguments: Value,
        codebase: bool,
        progress: &dyn Fn(&Job),
    ) -> Result<Said, Problem> {
        let session = Session {
            id: "s".to_owned(),
            ..Session::default()
        };
        let call = Call {
            engine: &self.engine,
            session: &session,
            request: "",
            compat: codebase,
            cancel: &Cancel::new(),
            progress,
            waits: &self.waits,
        };
        let ask = Ask {
            tool: tool.to_owned(),
            arguments: arguments.as_object().cloned().unwrap_or_default(),
            session: session.clone(),
            compat: codebase,
            ..Ask::default()
        };
        table::run(&call, ask)
    }

    fn value(&self, tool: &str, arguments: Value) -> Value {
        match self.call(tool, arguments, false) {
            Ok(said) => said.value,
            Err(problem) => panic!("{tool}: {problem:?}"),
        }
    }

    /// Arguments with which each tool has to answer.
    fn arguments(&self, tool: &Tool) -> Value {
        let of = |query: &str| {
            self.value("search_code", json!({ "query": query }))["hits"][0]["ref"].clone()
        };
        match tool.name {
            "search_code" => json!({ "query": "weigh" }),
            "find_related" => json!({ "ref": of("weigh") }),
            "get_symbol" => json!({ "name": "weigh" }),
            "read_chunk" => json!({ "ref": of("weigh") }),
            "cancel_index" => json!({ "job": self.value("index_repository", json!({}))["id"] }),
            "remove_repository" => json!({ "repository": "shop" }),
            "start_indexing_background" => json!({ "repo_path": self.root }),
            "get_indexing_status" => {
                let started = self.value(
                    "start_indexing_background",
                    json!({ "repo_path": self.root }),
                );
                json!({ "job_id": started["job_id"] })
            }
            "set_working_directory" => json!({ "directory": self.root }),
            _ => json!({}),
        }
    }
}

/// What a schema says of an object's keys: all that may be there, and those that have to be.
fn keys(schema: &Map<String, Value>) -> (Vec<&str>, Vec<&str>) {
    let all = schema["properties"].as_object().expect("properties");
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    (all.keys().map(String::as_str).collect(), required.collect())
}

#[test]
fn every_name_answers_as_its_schema_says() {
    for codebase in [false, true] {
        let house = house();
        let job = house.value("index_repository", json!({ "wait_s": 50 }));
        assert_eq!(job["state"], "done", "{job}");
        // What forgets comes last.
        let (last, first): (Vec<&Tool>, Vec<&Tool>) = table::ALL
            .iter()
            .partition(|tool| tool.name == "remove_repository");
        for tool in first.into_iter().chain(last) {
            let said = house.call(tool.name, house.arguments(tool), codebase);
            let said = said.unwrap_or_else(|problem| panic!("{}: {problem:?}", tool.name));
            assert!(!said.text.trim().is_empty(), "{} says nothing", tool.name);
            let (_, output) = tool.schemas(codebase);
            let (all, required) = keys(&output);
            let value = said.value.as_object().expect("an object");
            for key in value.keys() {
                assert!(all.contains(&key.as_str()), "{}: {key}", tool.name);
            }
            for key in required {
                assert!(value.contains_key(key), "{}: no {key}", tool.name);
            }
        }
    }
}

#[test]
fn every_argument_that_is_not_known_is_refused_by_name() {
    let house = house();
    for tool in table::ALL {
        let problem = house.call(tool.name, json!({ "colour": "red" }), false);
        let problem = problem.expect_err(tool.name);
        assert_eq!(problem.code, "bad_argument", "{}", tool.name);
        assert!(
            problem.message.contains("colour"),
            "{}: {problem:?}",
            tool.name
        );
    }
    let problem = house
        .call("drop_tables", json!({}), false)
        .expect_err("no tool");
    assert_eq!(problem.code, "no_tool");
}

#[test]
fn a_schema_knows_each_argument_that_is_taken() {
    for codebase in [false, true] {
        for tool in table::ALL {
            let (input, _) = tool.schemas(codebase);
            assert_eq!(input["additionalProperties"], false, "{}", tool.name);
        }
    }
}

#[test]
fn a_job_is_told_of_while_it_is_waited_for() {
    let house = house();
    let told = Mutex::new(Vec::new());
    let tell = |job: &Job| told.lock().expect("one thread").push(job.state);
    let said = house.told("index_repository", json!({ "wait_s": 50 }), false, &tell);
    assert_eq!(said.expect("a job").value["state"], "done");
    assert!(
        told.lock()
            .expect("one thread")
            .last()
            .is_some_and(|state| state.is_over())
    );
}

#[test]
fn calls_that_wait_are_bounded() {
    let house = house();
    let mut taken: Vec<_> = (0..WAITS_MAX).map(|_| house.waits.take()).collect();
    assert!(taken.iter().all(Option::is_some) && house.waits.take().is_none());
    let problem = house.call("index_repository", json!({ "wait_s": 1 }), false);
    let problem = problem.expect_err("no place");
    assert_eq!(problem.code, "busy");
    assert!(
        problem.message.contains("wait_s") && problem.message.contains("index_status"),
        "{problem:?}"
    );
    let status = house.value("index_status", json!({}));
    assert_eq!(status["jobs"], json!([]), "what is refused is not done");
    // Who does not wait needs no place; and a place is given back.
    let job = house.value("index_repository", json!({}));
    assert!(job["id"].is_string(), "{job}");
    drop(taken.pop());
    let job = house.value("index_repository", json!({ "wait_s": 50 }));
    assert_eq!(job["state"], "done", "{job}");
    assert!(house.waits.take().is_some(), "the call gave its place back");
}

#[test]
fn folders_outside_are_not_told_from_those_that_are_not_there() {
    let house = house();
    let parent = Path::new(&house.root)
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    for tool in ["set_working_directory", "start_indexing_background"] {
        let key = if tool == "set_working_directory" {
            "directory"
        } else {
            "repo_path"
        };
        let message = |path: &str| {
            let problem = house
                .call(tool, json!({ key: path }), false)
                .expect_err(path);
            assert_eq!(problem.code, "not_allowed", "{path}");
            problem.message.replace(path, "…")
        };
        assert_eq!(message(&parent), message("/no/such/folder"));
    }
}
