//! Indices of the leaf columns of a field.

use parquet::schema::types::{SchemaDescriptor, Type};
use std::ops::Range;
use tensorferry_sdk::{Error, Result};

/// Returns the indices of the leaf columns below a field.
pub(super) fn of(schema: &SchemaDescriptor, path: &[usize]) -> Result<Range<usize>> {
    let mut first = 0;
    let mut group = schema.root_schema();
    for &place in path {
        let fields = if group.is_group() { group.get_fields() } else { &[] };
        let field = fields.get(place).ok_or_else(|| Error::plugin("no such column").found(place))?;
        first += fields[..place].iter().map(|field| count(field)).sum::<usize>();
        group = field;
    }
    Ok(first..first + count(group))
}

/// The recursion is bounded, because the limits restrict the depth of the footer's schema.
fn count(field: &Type) -> usize {
    if field.is_group() { field.get_fields().iter().map(|field| count(field)).sum() } else { 1 }
}
