//! A column of a file: its kind, whether it holds lists, and its name.

use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, Field};

/// What the values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Int,
    Float,
    Bytes,
}

/// A column of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) is_list: bool,
}

/// What is added to a kind's code for lists.
const LIST: u8 = 16;

impl Column {
    /// For a field of Arrow's, if it has a place here.
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

    /// The column of a code.
    pub(crate) fn coded(code: u8, name: String) -> Option<Self> {
        let kind = match code % LIST {
            0 => Kind::Int,
            1 => Kind::Float,
            2 => Kind::Bytes,
            _ => return None,
        };
        (code < 2 * LIST).then_some(Self { name, kind, is_list: code >= LIST })
    }

    /// The code of its kind.
    pub(crate) fn code(&self) -> u8 {
        let kind = match self.kind {
            Kind::Int => 0,
            Kind::Float => 1,
            Kind::Bytes => 2,
        };
        kind + if self.is_list { LIST } else { 0 }
    }

    /// What it is in Arrow.
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
