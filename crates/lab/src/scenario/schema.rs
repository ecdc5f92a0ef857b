//! The JSON Schema (2020-12) of a scenario file, for editors.
//!
//! Made from the structs that read the file. It helps while writing; what counts is `weir lab load --dry-run`.

use serde_json::Value;

use super::file::File;

/// The schema of the whole file.
pub fn schema() -> Value {
    let mut schema = schemars::schema_for!(File).to_value();
    config::schema::strip(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), "weir lab scenario".into());
    }
    schema
}
