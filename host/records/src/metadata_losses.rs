//! Reports the metadata of a schema and its columns as lost if the target record format cannot
//! store the metadata.

use tensorferry_sdk::arrow_schema::{DataType, Field, Metadata, Schema};
use tensorferry_sdk::{Capabilities, Loss, LossKind};

/// Maximum number of losses that are listed one by one. Any further losses are only counted.
const MAX_LISTED: usize = 200;

/// Key prefixes of metadata entries that only describe the layout of rows in a file: ferry's own
/// entries, Parquet's field numbers, and Arrow's types.
const LAYOUT_PREFIXES: [&str; 3] = ["ferry.", "PARQUET:", "ARROW:"];

/// Returns losses for the metadata entries that a format with these capabilities cannot store.
pub(crate) fn unsupported_metadata(schema: &Schema, capabilities: Capabilities) -> Vec<Loss> {
    if capabilities.has(Capabilities::METADATA) {
        return Vec::new();
    }
    let mut left = Vec::new();
    entries("", schema.metadata(), &mut left);
    schema.fields().iter().for_each(|field| column(field.name(), field, &mut left));
    let why = "the target has no place for the metadata of rows and columns";
    let more = left.len().saturating_sub(MAX_LISTED);
    left.truncate(MAX_LISTED);
    left.extend((more > 0).then(|| format!("{more} more entries")));
    left.into_iter().map(|what| Loss::new(LossKind::Metadata, what, why)).collect()
}

/// Adds the metadata entries of a column and of the fields in the column.
fn column(path: &str, field: &Field, left: &mut Vec<String>) {
    entries(path, field.metadata(), left);
    if let DataType::Struct(fields) = field.data_type() {
        fields.iter().for_each(|field| column(&format!("{path}.{}", field.name()), field, left));
    }
}

fn entries(path: &str, metadata: &Metadata, left: &mut Vec<String>) {
    let mut keys: Vec<&str> = metadata.iter().map(|(key, _)| key.as_str()).collect();
    keys.retain(|key| !LAYOUT_PREFIXES.iter().any(|start| key.starts_with(start)));
    keys.sort_unstable();
    left.extend(
        keys.into_iter().map(|key| if path.is_empty() { key.to_owned() } else { format!("{path}: {key}") }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_told_by_its_place_unless_the_target_keeps_it() {
        let with = |field: Field, key: &str| field.with_metadata([(key, "v")]);
        let inner = with(Field::new("x", DataType::Int64, true), "unit");
        let own = with(Field::new("t", DataType::Int64, true), "ferry.part");
        let fields = vec![with(Field::new("s", DataType::Struct(vec![inner].into()), true), "of"), own];
        let schema = Schema::new_with_metadata(fields, [("about", "v")]);
        let told = |capabilities| {
            unsupported_metadata(&schema, capabilities).into_iter().map(|loss| loss.what).collect::<Vec<_>>()
        };
        assert_eq!(told(Capabilities::WRITE_RECORDS), ["about", "s: of", "s.x: unit"]);
        assert_eq!(told(Capabilities::WRITE_RECORDS | Capabilities::METADATA), [""; 0]);
        let many = (0..MAX_LISTED + 3).map(|n| (n.to_string(), String::new())).collect::<Metadata>();
        let schema = Schema::new_with_metadata(Vec::<Field>::new(), many);
        let losses = unsupported_metadata(&schema, Capabilities::WRITE_RECORDS);
        assert_eq!((losses.len(), &*losses[MAX_LISTED].what), (MAX_LISTED + 1, "3 more entries"));
    }
}
