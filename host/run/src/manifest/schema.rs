//! Generates the JSON Schema of manifests from the manifest types. Editors use the schema, and so
//! do programs that write manifests.

use super::types::Manifest;

/// Returns the JSON Schema of manifests, as published in `docs/manifest.schema.json`.
#[must_use]
pub fn schema() -> String {
    let schema = schemars::schema_for!(Manifest);
    // The schema contains only strings and lists, so serialization cannot fail.
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    /// Set the variable `FERRY_UPDATE_SCHEMA` to update the published file.
    #[test]
    fn the_published_schema_is_fresh() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/manifest.schema.json");
        if std::env::var_os("FERRY_UPDATE_SCHEMA").is_some() {
            std::fs::write(path, super::schema()).expect("the source folder is writable");
        }
        let published = std::fs::read_to_string(path).expect("the schema file exists");
        assert_eq!(published, super::schema(), "run this test once with FERRY_UPDATE_SCHEMA=1");
    }
}
