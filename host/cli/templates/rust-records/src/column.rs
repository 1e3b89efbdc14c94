//! A column has a name and a kind. A file stores the kind as a code, and rows represent it as an
//! Arrow type.

use tensorferry_sdk::arrow_schema::{DataType, Field};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Float,
    Text,
}

/// The kinds of columns with their codes. A code is never reused for a different kind.
const KINDS: &[(u8, Kind, DataType)] =
    &[(1, Kind::Integer, DataType::Int64), (2, Kind::Float, DataType::Float64), (3, Kind::Text, DataType::Utf8)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) code: u8,
    pub(crate) kind: Kind,
}

impl Column {
    /// Returns the column for a code. Returns `None` if no kind has this code.
    pub(crate) fn coded(code: u8, name: String) -> Option<Self> {
        let (code, kind, _) = KINDS.iter().find(|(known, ..)| *known == code)?;
        Some(Self { name, code: *code, kind: *kind })
    }

    /// Returns the column for a field. Returns `None` if a tray cannot store the field.
    pub(crate) fn of(field: &Field) -> Option<Self> {
        let (code, kind, _) = KINDS.iter().find(|(.., known)| known == field.data_type())?;
        u8::try_from(field.name().len()).ok()?;
        Some(Self { name: field.name().clone(), code: *code, kind: *kind })
    }

    pub(crate) fn field(&self) -> Field {
        let (.., data_type) = KINDS.iter().find(|(_, kind, _)| *kind == self.kind).expect("every kind is listed");
        Field::new(&self.name, data_type.clone(), true)
    }
}
