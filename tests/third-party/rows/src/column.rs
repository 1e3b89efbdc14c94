//! A column of a file: its kind, whether it contains lists, and its name.

use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field};

/// The type of the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Float,
    Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) is_list: bool,
}

/// For lists, this number is added to the code of the kind.
const LIST: u8 = 16;

impl Column {
    /// Returns the column for an Arrow field, if the format supports it.
    pub(crate) fn of(field: &Field) -> Option<Self> {
        let (leaf, is_list) = match field.data_type() {
            DataType::List(item) => (item.data_type(), true),
            other => (other, false),
        };
        let kind = match leaf {
            DataType::Int64 => Kind::Int,
            DataType::Float32 => Kind::Float,
            DataType::Binary => Kind::Bytes,
            _ => return None,
        };
        Some(Self { name: field.name().clone(), kind, is_list })
    }

    /// Returns the column for a code and a name.
    pub(crate) fn coded(code: u8, name: String) -> Option<Self> {
        let kind = match code % LIST {
            0 => Kind::Int,
            1 => Kind::Float,
            2 => Kind::Bytes,
            _ => return None,
        };
        (code < 2 * LIST).then_some(Self { name, kind, is_list: code >= LIST })
    }

    pub(crate) fn code(&self) -> u8 {
        let kind = match self.kind {
            Kind::Int => 0,
            Kind::Float => 1,
            Kind::Bytes => 2,
        };
        kind + if self.is_list { LIST } else { 0 }
    }

    /// Returns the Arrow field.
    pub(crate) fn field(&self) -> Field {
        let leaf = match self.kind {
            Kind::Int => DataType::Int64,
            Kind::Float => DataType::Float32,
            Kind::Bytes => DataType::Binary,
        };
        let list = |leaf| DataType::List(Arc::new(Field::new_list_field(leaf, true)));
        Field::new(&self.name, if self.is_list { list(leaf) } else { leaf }, true)
    }
}
