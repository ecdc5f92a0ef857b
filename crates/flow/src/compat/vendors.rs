//! Vendors and the project's configuration, which are entities of shipped types.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tools::serve::call::{Problem, schema};
use tools::serve::table::{Effect, Whose};

use super::entities::blank;
use super::{any_answer, theirs, translated};
use crate::model::shipped::{CONFIGURATION, CONFIGURATION_NAME, VENDOR};
use crate::model::{Entity, ObjectKind, Project, problem};
use crate::ops::entity::{self, EntityAction, EntityCall};
use crate::store::Tx;
use crate::table::{Tool, read, write};

/// Tokens of a session where the configuration says nothing.
const TOKEN_BUDGET: i64 = 200_000;

/// Arguments of `query_vendor_status`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QueryVendor {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The vendor's name, in any case of letters.
    name: String,
}

/// Arguments of `update_vendor_status`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateVendor {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The vendor's name, in any case of letters.
    name: String,
    /// The version that is changed.
    version: i64,
    /// operational or broken.
    status: Option<String>,
    /// format_support, test_results, extractor_version, manifest_compliant.
    metadata: Option<Map<String, Value>>,
    /// Taken, and not believed.
    #[allow(dead_code, reason = "the peer's clients send it")]
    updated_by: Option<String>,
}

/// Arguments of `create_vendor`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateVendor {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// The vendor's name.
    name: String,
    /// A JSON text, or an object: format_support, test_results, extractor_version, manifest_compliant.
    initial_metadata: Option<Value>,
    /// Taken, and not believed.
    #[allow(dead_code, reason = "the peer's clients send it")]
    created_by: Option<String>,
}

/// Arguments of `get_project_configuration`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetConfiguration {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
}

/// Arguments of `update_project_configuration`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateConfiguration {
    /// The id or name of the project; the session's where none is named.
    project_id: Option<String>,
    /// feature, maintenance or research.
    active_context_type: Option<String>,
    /// The id of a session item.
    current_session_id: Option<String>,
    /// A branch, in at most 100 characters.
    git_branch: Option<String>,
    /// A commit of 40 hex digits.
    git_head_commit: Option<String>,
    /// 1,000 to 1,000,000.
    default_token_budget: Option<i64>,
    /// Taken, and not believed.
    #[allow(dead_code, reason = "the peer's clients send it")]
    updated_by: Option<String>,
}

theirs!(
    QueryVendor,
    UpdateVendor,
    CreateVendor,
    GetConfiguration,
    UpdateConfiguration
);

pub(crate) const VENDOR_STATUS: Tool = Tool {
    name: "query_vendor_status",
    title: "Vendor status (workflow-mcp)",
    doc: "Shows a vendor by its name.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<QueryVendor>,
    output: any_answer,
    run: |call, map| translated(read(call, "query_vendor_status", map, vendor)),
};

pub(crate) const UPDATE_VENDOR: Tool = Tool {
    name: "update_vendor_status",
    title: "Change a vendor (workflow-mcp)",
    doc: "Changes a vendor where its version is still the one that you read.",
    effect: Effect::Overwrites,
    whose: Whose::Theirs,
    input: schema::<UpdateVendor>,
    output: any_answer,
    run: |call, map| translated(write(call, "update_vendor_status", map, update_vendor)),
};

pub(crate) const CREATE_VENDOR: Tool = Tool {
    name: "create_vendor",
    title: "Create a vendor (workflow-mcp)",
    doc: "Creates a vendor, which is broken until it is said to work.",
    effect: Effect::Writes,
    whose: Whose::Theirs,
    input: schema::<CreateVendor>,
    output: any_answer,
    run: |call, map| translated(write(call, "create_vendor", map, create_vendor)),
};

pub(crate) const GET_CONFIGURATION: Tool = Tool {
    name: "get_project_configuration",
    title: "Project configuration (workflow-mcp)",
    doc: "Shows the configuration of the project.",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<GetConfiguration>,
    output: any_answer,
    run: |call, map| translated(read(call, "get_project_configuration", map, configuration)),
};

pub(crate) const UPDATE_CONFIGURATION: Tool = Tool {
    name: "update_project_configuration",
    title: "Change the project configuration (workflow-mcp)",
    doc: "Changes the configuration of the project.",
    effect: Effect::Adds,
    whose: Whose::Theirs,
    input: schema::<UpdateConfiguration>,
    output: any_answer,
    run: |call, map| {
        translated(write(
            call,
            "update_project_configuration",
            map,
            update_configuration,
        ))
    },
};

fn named(tx: &Tx<'_>, project: &Project, of: &str, name: &str) -> Result<Option<Entity>, Problem> {
    match tx.id_of_name(Some(&project.stamp.id), ObjectKind::Entity, Some(of), name)? {
        Some(id) => tx.find(&id),
        None => Ok(None),
    }
}

fn found(tx: &Tx<'_>, project: &Project, name: &str) -> Result<Entity, Problem> {
    let found = named(tx, project, VENDOR, name)?;
    found.ok_or_else(|| {
        problem(
            "not_found",
            format!("`name`: there is no vendor {name:?}; create_vendor makes one"),
        )
    })
}

fn row(of: &Entity) -> Value {
    let mut metadata = of.data.clone();
    let status = metadata.remove("status");
    json!({
        "id": of.stamp.id, "version": of.stamp.version, "name": of.name, "status": status,
        "extractor_version": metadata.get("extractor_version"), "metadata": metadata,
        "created_at": of.stamp.created_at, "updated_at": of.stamp.updated_at, "created_by": of.stamp.created_by,
    })
}

fn vendor(tx: &Tx<'_>, project: &Project, call: &QueryVendor) -> Result<Value, Problem> {
    Ok(row(&found(tx, project, &call.name)?))
}

fn create_vendor(tx: &Tx<'_>, project: &Project, call: &CreateVendor) -> Result<Value, Problem> {
    let given = match &call.initial_metadata {
        None => Map::new(),
        Some(Value::Object(map)) => map.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| {
            Problem::argument(format!("`initial_metadata`: is no JSON object: {error}"))
        })?,
        Some(_) => {
            return Err(Problem::argument(
                "`initial_metadata`: is a JSON object, or its text",
            ));
        }
    };
    let mut data = given;
    data.insert("status".to_owned(), "broken".into());
    data.entry("extractor_version")
        .or_insert_with(|| "0.0.0".into());
    let made = entity::write(
        tx,
        project,
        &EntityCall {
            entity_type: Some(VENDOR.to_owned()),
            name: Some(call.name.clone()),
            data: Some(data),
            ..blank(EntityAction::Create)
        },
    )?;
    Ok(row(&made.entity))
}

fn update_vendor(tx: &Tx<'_>, project: &Project, call: &UpdateVendor) -> Result<Value, Problem> {
    let current = found(tx, project, &call.name)?;
    let mut patch = call.metadata.clone().unwrap_or_default();
    if let Some(status) = &call.status {
        patch.insert("status".to_owned(), status.as_str().into());
    }
    let changed = entity::write(
        tx,
        project,
        &EntityCall {
            id: Some(current.stamp.id),
            data: Some(patch),
            version: Some(call.version),
            ..blank(EntityAction::Update)
        },
    )?;
    Ok(row(&changed.entity))
}

fn configured(of: Option<&Entity>, now: &str) -> Value {
    let get = |name: &str| {
        of.and_then(|of| of.data.get(name))
            .cloned()
            .unwrap_or_default()
    };
    let budget = get("default_token_budget").as_i64().unwrap_or(TOKEN_BUDGET);
    json!({
        "id": 1,
        "active_context_type": get("active_context_type"),
        "current_session_id": get("current_session_id"),
        "git_branch": get("git_branch"),
        "git_head_commit": get("git_head_commit"),
        "default_token_budget": budget,
        "database_healthy": true,
        "last_health_check_at": now,
        "updated_at": of.map(|of| of.stamp.updated_at.clone()),
        "updated_by": of.map(|of| of.stamp.updated_by.clone()),
    })
}

fn configuration(
    tx: &Tx<'_>,
    project: &Project,
    _call: &GetConfiguration,
) -> Result<Value, Problem> {
    let of = named(tx, project, CONFIGURATION, CONFIGURATION_NAME)?;
    Ok(configured(of.as_ref(), tx.now()))
}

fn update_configuration(
    tx: &Tx<'_>,
    project: &Project,
    call: &UpdateConfiguration,
) -> Result<Value, Problem> {
    let given = [
        (
            "active_context_type",
            call.active_context_type.clone().map(Value::from),
        ),
        (
            "current_session_id",
            call.current_session_id.clone().map(Value::from),
        ),
        ("git_branch", call.git_branch.clone().map(Value::from)),
        (
            "git_head_commit",
            call.git_head_commit.clone().map(Value::from),
        ),
        (
            "default_token_budget",
            call.default_token_budget.map(Value::from),
        ),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let data = Some(given.collect());
    let of = match named(tx, project, CONFIGURATION, CONFIGURATION_NAME)? {
        Some(current) => EntityCall {
            id: Some(current.stamp.id),
            version: Some(current.stamp.version),
            data,
            ..blank(EntityAction::Update)
        },
        None => EntityCall {
            entity_type: Some(CONFIGURATION.to_owned()),
            name: Some(CONFIGURATION_NAME.to_owned()),
            data,
            ..blank(EntityAction::Create)
        },
    };
    let written = entity::write(tx, project, &of)?;
    Ok(configured(Some(&written.entity), tx.now()))
}
