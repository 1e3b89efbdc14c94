//! A layout maps columns to features.

use crate::columns::{KEY, MESSAGE, PART, PART_LISTS, PART_RAW, Shape};
use crate::message::{Kind, MessageKind, Part};
use crate::schema_file::SchemaFile;
use arrow_schema::{DataType, Field, SchemaRef};
use std::collections::HashSet;
use std::sync::Arc;
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::{Error, Loss, LossKind, Result, Severity};

#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// The message type, or `None` if the only column contains whole records.
    pub(super) message: Option<MessageKind>,
    /// The features in the order of writing. Feature lists are at the end.
    pub(super) features: Vec<Feature>,
}

/// A feature and its column.
#[derive(Debug, Clone)]
pub(super) struct Feature {
    /// The name of the feature in the records.
    pub(super) key: String,
    /// The name of the column. The names of the structs that contain the column precede it.
    pub(super) column: String,
    /// The path to the column: its index in the schema, followed by its index in each struct.
    pub(super) path: Vec<usize>,
    /// The map that contains the feature.
    pub(super) part: Part,
    /// The kind of the feature's list.
    pub(super) kind: Kind,
    /// The required shape, if a schema sets one.
    pub(super) shape: Option<Shape>,
    /// Whether a schema requires the feature.
    pub(super) is_required: bool,
}

impl Layout {
    /// Creates the layout for rows of a schema. If there is a schema file, it selects the features.
    /// The function also returns the losses that result from the schema.
    pub(super) fn new(
        schema: &SchemaRef,
        file: Option<SchemaFile>,
        message: Option<MessageKind>,
    ) -> Result<(Self, Vec<Loss>)> {
        let is_raw = file.as_ref().map(|file| file.message.is_none());
        if let ([field], None) = (&schema.fields()[..], message)
            && is_raw.unwrap_or_else(|| field.metadata().get(PART).is_some_and(|part| part == PART_RAW))
            && kind_of(field.data_type()) == Some(Kind::Bytes)
        {
            let feature = Feature::new(field.name(), vec![0], Part::Features, Kind::Bytes);
            return Ok((Self { message: None, features: vec![feature] }, Vec::new()));
        }
        let has_parts = schema.fields().iter().any(|field| field.metadata().contains_key(PART));
        let has_lists =
            |field: &Arc<Field>| field.metadata().get(PART).is_some_and(|part| part == PART_LISTS);
        let is_sequence = match schema.metadata().get(MESSAGE).map(String::as_str) {
            Some("sequence") => true,
            Some("example") => schema.fields().iter().any(has_lists),
            _ => has_parts,
        };
        let by_rows = if is_sequence { MessageKind::Sequence } else { MessageKind::Example };
        let message = message.or(file.as_ref().and_then(|file| file.message)).unwrap_or(by_rows);
        let mut found = FeatureCollector { message, has_parts, features: Vec::new(), losses: Vec::new() };
        for (place, field) in schema.fields().iter().enumerate() {
            found.add(field, &mut vec![place], "");
        }
        let FeatureCollector { mut features, mut losses, .. } = found;
        if let Some(file) = file {
            // Columns that the schema file omits are not losses, because the user chose to omit
            // them.
            losses.retain(|loss| file.columns.iter().any(|column| column.name == loss.what));
            features = chosen(&features, file)?;
        }
        features.sort_by_key(|feature| feature.part);
        let mut keys = HashSet::new();
        for feature in &features {
            if !keys.insert((feature.part, &feature.key)) {
                return Err(Error::unsupported(format!("two columns map to the feature {:?}", feature.key))
                    .column(&feature.column));
            }
        }
        Ok((Self { message: Some(message), features }, losses))
    }
}

impl Feature {
    fn new(column: &str, path: Vec<usize>, part: Part, kind: Kind) -> Self {
        let (key, column) = (column.to_owned(), column.to_owned());
        Self { key, column, path, part, kind, shape: None, is_required: false }
    }
}

struct FeatureCollector {
    message: MessageKind,
    /// Whether the field metadata specifies the part of the message that contains each feature.
    has_parts: bool,
    features: Vec<Feature>,
    losses: Vec<Loss>,
}

impl FeatureCollector {
    /// Adds the features of a column, recursively for structs. The recursion is as deep as the
    /// schema. Arrow's own checks recurse in the same way, so a file cannot create an arbitrarily
    /// deep schema.
    fn add(&mut self, field: &Field, path: &mut Vec<usize>, prefix: &str) {
        let name = format!("{prefix}{}", field.name());
        if let DataType::Struct(fields) = field.data_type() {
            let why = format!("a struct becomes a feature for each of its fields: {name}.*");
            self.lose(LossKind::Name, &name, why);
            for (place, inner) in fields.iter().enumerate() {
                path.push(place);
                self.add(inner, path, &format!("{name}."));
                path.pop();
            }
            return;
        }
        let (depth, leaf) = depth(field.data_type());
        let Some(kind) = kind_of(leaf) else {
            // A top-level column of nulls represents a feature that no record contains.
            if *leaf != DataType::Null || depth.all > 0 {
                let why =
                    format!("a column of type {} cannot be stored in features", type_text(field.data_type()));
                self.lose(LossKind::Record, &name, why);
            }
            return;
        };
        let is_list = field.metadata().get(PART).is_some_and(|part| part == PART_LISTS);
        let is_list = is_list || (!self.has_parts && depth.ragged > 1);
        let part = if self.message == MessageKind::Sequence && is_list && depth.all > 0 {
            Part::Lists
        } else {
            Part::Features
        };
        let kept = if part == Part::Lists { 2 } else { 1 };
        if depth.ragged > kept {
            let why = "nested lists of different lengths are joined into one list";
            self.change(LossKind::Record, &name, why);
        } else if depth.all > kept {
            let why = "nested lists of fixed length are joined into one list, and their length is not stored";
            self.change(LossKind::Metadata, &name, why);
        }
        if let Some(what) = lossy_type(leaf) {
            let why =
                format!("{} is written as {what}, and the original type is not stored", type_text(leaf));
            self.change(LossKind::Metadata, &name, why);
        }
        let mut feature = Feature::new(&name, path.clone(), part, kind);
        if let Some(key) = field.metadata().get(KEY) {
            feature.key.clone_from(key);
        }
        self.features.push(feature);
    }

    fn lose(&mut self, kind: LossKind, column: &str, why: String) {
        self.losses.push(Loss::new(kind, column.to_owned(), why));
    }

    /// Reports that the values of a column are stored in a different form.
    fn change(&mut self, kind: LossKind, column: &str, why: impl Into<String>) {
        self.losses.push(Loss::new(kind, column.to_owned(), why).severity(Severity::Changed));
    }
}

/// The number of lists around a value.
struct Depth {
    all: usize,
    /// The number of variable-length lists among these lists.
    ragged: usize,
}

/// Returns the depth and the type of the values inside all lists of a column.
fn depth(mut data_type: &DataType) -> (Depth, &DataType) {
    let mut depth = Depth { all: 0, ragged: 0 };
    loop {
        data_type = match data_type {
            DataType::List(item) | DataType::LargeList(item) => {
                depth.ragged += 1;
                item.data_type()
            }
            DataType::FixedSizeList(item, _) => item.data_type(),
            leaf => return (depth, leaf),
        };
        depth.all += 1;
    }
}

/// Returns the kind of list that stores values of a type.
fn kind_of(leaf: &DataType) -> Option<Kind> {
    Some(match leaf {
        DataType::Dictionary(_, values) => return kind_of(values),
        DataType::Interval(_) => return None,
        DataType::Boolean => Kind::Int64,
        _ if leaf.is_integer() || leaf.is_temporal() => Kind::Int64,
        _ if leaf.is_floating() || leaf.is_decimal() => Kind::Float,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Kind::Bytes
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Kind::Bytes,
        _ => return None,
    })
}

/// Returns the type in which values are written, if the conversion loses their meaning.
fn lossy_type(leaf: &DataType) -> Option<&'static str> {
    match leaf {
        _ if leaf.is_temporal() => Some("int64"),
        _ if leaf.is_decimal() => Some("float32"),
        _ => None,
    }
}

/// Returns the features that a schema file specifies, in the form that the schema file requires.
fn chosen(found: &[Feature], file: SchemaFile) -> Result<Vec<Feature>> {
    let mut features = Vec::with_capacity(file.columns.len());
    for column in file.columns {
        // A column without a kind contains only nulls.
        let Some(kind) = column.kind else { continue };
        let wrong = |what: String| Err(Error::usage(format!("option schema: {what}")).column(&column.name));
        let Some(feature) = found.iter().find(|feature| feature.column == column.name) else {
            return wrong("the rows lack this column, or its type cannot be stored in features".to_owned());
        };
        if feature.kind != kind {
            return wrong(format!(
                "the values belong in {}, not {}",
                feature.kind.list_name(),
                kind.list_name()
            ));
        }
        features.push(Feature {
            key: String::from_utf8_lossy(&column.key).into_owned(),
            part: column.part,
            shape: Some(column.shape),
            is_required: matches!(column.missing, crate::columns::Missing::Refused),
            ..feature.clone()
        });
    }
    Ok(features)
}
