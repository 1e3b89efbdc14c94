//! Compares the columns of the files in a set.

use super::type_text;
use crate::Error;
use arrow_schema::{DataType, FieldRef};

/// Maximum number of columns that an error lists.
const MAX_LISTED: usize = 20;

/// Compares the columns of a set's first file with the columns of another file. Returns the first
/// difference as an error that names both files and the column. The error is unsupported, not
/// malformed, because each file on its own is valid.
///
/// `fits` must return whether a column of the second type can be read together with a column of the
/// first type.
#[must_use]
pub fn difference(
    first: (&str, &[FieldRef]),
    own: (&str, &[FieldRef]),
    fits: &dyn Fn(&DataType, &DataType) -> bool,
) -> Option<Error> {
    let ((first_file, first), (file, own)) = (first, own);
    let named = |fields: &[FieldRef], name: &str| fields.iter().find(|field| field.name() == name).cloned();
    let error = |why: String| Error::unsupported(why).hint(format!("convert {file:?} separately")).file(file);
    if let Some(added) = own.iter().find(|own| named(first, own.name()).is_none()) {
        return Some(error(format!("a column is not in {first_file:?}")).column(added.name()));
    }
    if let Some(missing) = first.iter().find(|field| named(own, field.name()).is_none()) {
        return Some(error(format!("a column of {first_file:?} is missing")).column(missing.name()));
    }
    for field in first {
        if let Some(own) = named(own, field.name())
            && !fits(field.data_type(), own.data_type())
        {
            let (mut expected, mut found) = (type_text(field.data_type()), type_text(own.data_type()));
            // Large types have the same names as the corresponding plain types, so the two strings
            // may be equal.
            if expected == found {
                (expected, found) = (field.data_type().to_string(), own.data_type().to_string());
            }
            let error = error(format!("a column has a different type than in {first_file:?}"));
            return Some(error.column(field.name()).expected(expected).found(found));
        }
    }
    let names = |fields: &[FieldRef]| fields.iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let (expected, found) = (names(first), names(own));
    if expected == found {
        return None;
    }
    let list = |names: Vec<String>| match names.len() {
        count if count > MAX_LISTED => format!("{}, … ({count})", names[..MAX_LISTED].join(", ")),
        _ => names.join(", "),
    };
    let why = format!(
        "the columns have a different order than in {first_file:?}, and ferry does not match them by their names"
    );
    Some(error(why).expected(list(expected)).found(list(found)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::ErrorKind;
    use arrow_schema::Field;
    use std::sync::Arc;

    #[test]
    fn each_difference_is_named() {
        let of = |columns: &[(&str, DataType)]| {
            let field =
                |(name, data_type): &(&str, DataType)| Arc::new(Field::new(*name, data_type.clone(), true));
            columns.iter().map(field).collect::<Vec<FieldRef>>()
        };
        let (int, text) = (DataType::Int64, DataType::Utf8);
        let first = of(&[("a", int.clone()), ("b", text.clone())]);
        for (own, why) in [
            (of(&[("b", text.clone()), ("a", int.clone())]), "order"),
            (of(&[("a", int.clone())]), "\"one\" is missing"),
            (of(&[("a", int.clone()), ("b", text), ("c", int.clone())]), "not in \"one\""),
            (of(&[("a", int.clone()), ("b", DataType::LargeUtf8)]), "expected Utf8, found LargeUtf8"),
            (of(&[("a", int.clone()), ("b", int)]), "expected utf8, found int64"),
        ] {
            let error = difference(("one", &first), ("two", &own), &|a, b| a == b).unwrap();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
        assert!(difference(("one", &first), ("two", &first), &|a, b| a == b).is_none());
    }
}
