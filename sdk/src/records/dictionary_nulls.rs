//! Moves nulls from the values of dictionaries to their keys. Arrow allows nulls in the keys or in
//! the values of a dictionary. Code that checks only the keys would treat null values as valid.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowDictionaryKeyType;
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, downcast_dictionary_array, make_array};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// Returns the column with all nulls of its dictionaries moved to their keys, at every nesting
/// depth. Readers must call this function for batches that were created by other code, because
/// writers check only the keys.
///
/// # Errors
/// Returns an error if Arrow rejects the parts of a nested column.
pub fn nulls_in_keys(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !needs_change(column.as_ref()) {
        return Ok(column.clone());
    }
    let array = column.as_ref();
    downcast_dictionary_array!(
        array => marked(array),
        _ => {
            let data = array.to_data();
            let parts = data.child_data().iter();
            let parts = parts.map(|part| Ok(nulls_in_keys(&make_array(part.clone()))?.to_data()));
            let parts = parts.collect::<Result<_, ArrowError>>()?;
            data.into_builder().child_data(parts).build().map(make_array)
        }
    )
}

/// Returns whether any dictionary in a column contains nulls in its values.
fn needs_change(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            values.logical_null_count() > 0 || needs_change(values.as_ref())
        }
        data_type if data_type.is_nested() => {
            let data = array.to_data();
            data.child_data().iter().any(|part| needs_change(make_array(part.clone()).as_ref()))
        }
        _ => false,
    }
}

fn marked<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> Result<ArrayRef, ArrowError> {
    let values = nulls_in_keys(array.values())?;
    let keys = PrimitiveArray::<K>::try_new(array.keys().values().clone(), array.logical_nulls())?;
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use arrow_array::types::Int8Type;
    use arrow_array::{Int8Array, StringArray, StructArray};
    use arrow_schema::Field;

    #[test]
    fn a_key_of_a_null_is_null_at_every_depth() {
        let values = Arc::new(StringArray::from(vec![Some("x"), None]));
        let keys = Int8Array::from(vec![Some(0), Some(1), None]);
        let words: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::try_new(keys, values).unwrap());
        let field = Field::new("s", words.data_type().clone(), true);
        let structs: ArrayRef =
            Arc::new(StructArray::try_new(vec![field].into(), vec![words.clone()], None).unwrap());
        let inner = nulls_in_keys(&structs).unwrap().as_struct().column(0).clone();
        for column in [nulls_in_keys(&words).unwrap(), inner] {
            let keys = column.as_dictionary::<Int8Type>().keys();
            assert_eq!(keys.iter().collect::<Vec<_>>(), [Some(0), None, None]);
        }
    }
}
