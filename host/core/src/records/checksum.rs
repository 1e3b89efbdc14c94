//! A checksum of what the rows of a flow hold: so that an output that was read back can be compared with what
//! was sent, whatever batches and files the rows lie in.
//!
//! A row counts as its columns' values, taken [flat](super::encoding) and cast to the type that was read back;
//! a null is as good as no column.

use super::encoding::{RowEncoder, leaf_type};
use super::flow::Flow;
use arrow_schema::{DataType, Schema};
use std::collections::BTreeMap;
use tensorferry_sdk::{Error, Result, arrow_schema};

/// What rows hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RowsChecksum {
    /// How many.
    pub rows: u64,
    /// The sum of the rows' hashes.
    sum: u128,
}

/// The types that values are compared as, by column; columns that are not here are not compared.
pub type ComparedTypes = BTreeMap<String, DataType>;

/// The columns of `sent` in a form in which they can be compared with those of `found`, and the names of
/// those that cannot. One that only `sent` has was null throughout, or is missing: it is compared.
#[must_use]
pub fn compared_types(sent: &Schema, found: &Schema) -> (ComparedTypes, Vec<String>) {
    let (mut compared, mut left_out) = (ComparedTypes::new(), Vec::new());
    for field in sent.fields() {
        let found = found.field_with_name(field.name()).ok().map(|found| found.data_type());
        match common_type(field.data_type(), found.unwrap_or(&DataType::Null)) {
            Some(to) => drop(compared.insert(field.name().clone(), to)),
            None => left_out.push(field.name().clone()),
        }
    }
    (compared, left_out)
}

/// The type that the values below all lists of two columns are compared as, which is the second one's; `None`
/// if they cannot be.
pub(super) fn common_type(a: &DataType, b: &DataType) -> Option<DataType> {
    let (from, to) = (leaf_type(a), leaf_type(b));
    let to = if *to == DataType::Null { from } else { to };
    let can_be = from == to || *from == DataType::Null || arrow_cast::can_cast_types(from, to);
    can_be.then(|| to.clone())
}

/// The checksum of all rows of a flow. `ordered`: their order counts.
///
/// # Errors
/// Whatever the flow gives; unsupported, for values that cannot be hashed.
pub fn checksum(flow: &mut dyn Flow, compared: &ComparedTypes, ordered: bool) -> Result<RowsChecksum> {
    let mut checksum = RowsChecksum::default();
    let mut bytes = Vec::new();
    while let Some(batch) = flow.next()? {
        let mut columns = Vec::with_capacity(compared.len());
        for (name, data_type) in compared {
            let Some(column) = batch.column_by_name(name) else { continue };
            let encoder = RowEncoder::flat(column, data_type, false).map_err(|e| {
                Error::unsupported(format!("values that cannot be compared: {e}")).column(name)
            })?;
            columns.push((name, encoder));
        }
        for row in 0..batch.num_rows() {
            bytes.clear();
            if ordered {
                bytes.extend(checksum.rows.to_le_bytes());
            }
            for (name, encoder) in columns.iter().filter(|(_, encoder)| !encoder.is_missing(row)) {
                bytes.extend((name.len() as u64).to_le_bytes());
                bytes.extend(name.as_bytes());
                encoder.append(row, &mut bytes);
            }
            if let Some(half) = blake3::hash(&bytes).as_bytes().first_chunk::<16>() {
                checksum.sum = checksum.sum.wrapping_add(u128::from_le_bytes(*half));
            }
            checksum.rows += 1;
        }
    }
    Ok(checksum)
}
