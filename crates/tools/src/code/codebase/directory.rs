//! The working directory of a session, and the configuration that names its project. It is read, and never written.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::types::{DirectoryCall, DirectorySet, ProjectInfo};
use crate::code::Call;
use crate::code::api;
use crate::serve::call::{Problem, Said, Session, arguments};
use crate::serve::table::said;

/// Folders above a working directory that are looked at for a configuration.
const PARENTS_MAX: usize = 20;
/// Bytes of that file that are read.
const CONFIG_BYTES_MAX: u64 = 64 << 10;

/// `set_working_directory`.
pub(super) fn set(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let ask: DirectoryCall = arguments(map)?;
    let path = Path::new(&ask.directory);
    if !path.is_absolute() {
        return Err(Problem::argument(format!(
            "Directory must be an absolute path: {}",
            ask.directory
        )));
    }
    let root = root_of(call, path)?;
    let config = config_of(path, &root);
    let project = config
        .as_ref()
        .map(|(_, config)| config.project.name.clone());
    let session = Session {
        project: project.clone(),
        ..call.session.clone()
    };
    let set = DirectorySet {
        session_id: session.id.clone(),
        working_directory: ask.directory.clone(),
        config_found: config.is_some(),
        config_path: config.as_ref().map(|(path, _)| {
            let below = path.strip_prefix(&root).unwrap_or(path);
            below.display().to_string()
        }),
        project_info: config.map(|(_, config)| ProjectInfo {
            name: config.project.name,
            id: config.project.id,
        }),
    };
    let text = match &set.project_info {
        Some(project) => format!("the project of this session is {}\n", project.name),
        None => "there is no .codebase-mcp/config.json; the project is default\n".to_owned(),
    };
    let mut said = said(&set, text)?;
    said.session = Some(session);
    Ok(said)
}

/// The allowed root that a directory is below of, links resolved. Outside, nothing is told about what there is.
fn root_of(call: &Call<'_>, path: &Path) -> Result<PathBuf, Problem> {
    let refused = || Problem::from(api::Error::NotAllowed(path.display().to_string()));
    let real = path.canonicalize().map_err(|_| refused())?;
    let roots = call.engine.settings().roots.iter();
    let roots = roots.filter_map(|root| root.canonicalize().ok());
    let root = roots
        .filter(|root| real.starts_with(root))
        .max_by_key(|root| root.as_os_str().len());
    match root {
        Some(root) if real.is_dir() => Ok(root),
        Some(_) => Err(Problem::argument(format!(
            "Path is not a directory: {}",
            path.display()
        ))),
        None => Err(refused()),
    }
}

#[derive(Deserialize)]
struct Config {
    project: Project,
}

#[derive(Deserialize)]
struct Project {
    name: String,
    id: Option<String>,
}

/// The configuration in a directory or above it, up to the root.
fn config_of(path: &Path, root: &Path) -> Option<(PathBuf, Config)> {
    let real = path.canonicalize().ok()?;
    let above = real.ancestors().take(PARENTS_MAX);
    let below_root = above.take_while(|dir| dir.starts_with(root));
    let mut files = below_root.map(|dir| dir.join(".codebase-mcp/config.json"));
    files.find_map(|file| {
        // A link may lead out of the root.
        let real = file
            .canonicalize()
            .ok()
            .filter(|real| real.starts_with(root))?;
        let open = std::fs::File::open(real).ok()?;
        let config: Config =
            serde_json::from_reader(std::io::Read::take(open, CONFIG_BYTES_MAX)).ok()?;
        let name = config.project.name.trim();
        (1..=255).contains(&name.len()).then_some((file, config))
    })
}
