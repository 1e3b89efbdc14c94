//! Rows whose dictionary has a null for them are null. Arrow lets the keys of a row or the values of a dictionary say so;
//! who looks at the keys alone would take the first of these for values.

use std::sync::Arc;
use tensorferry_sdk::arrow_array::types::ArrowDictionaryKeyType;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, DictionaryArray, PrimitiveArray, downcast_dictionary_array,
};

/// The same column, with all nulls in its keys.
pub(super) fn in_keys(column: &ArrayRef) -> ArrayRef {
    let array = column.as_ref();
    downcast_dictionary_array!(
        array => if array.values().null_count() > 0 { marked(array) } else { column.clone() },
        _ => column.clone()
    )
}

fn marked<K: ArrowDictionaryKeyType>(array: &DictionaryArray<K>) -> ArrayRef {
    let keys = PrimitiveArray::<K>::new(array.keys().values().clone(), array.logical_nulls());
    Arc::new(DictionaryArray::new(keys, array.values().clone()))
}
