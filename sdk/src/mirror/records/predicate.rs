//! Passes the [`Comparison`]s of a scan across the boundary. Values cross as nodes. Comparisons
//! that this side does not know are dropped, because a reader may ignore any comparison.

use crate::records::{Comparator, ComparedValue, Comparison, FieldPath};
use crate::{Error, NodeKind, Result};
use tensorferry_abi::{
    Borrowed, Failure, NodeFacts, NodeSinkCalls, NodeSinkTable, PredicateCalls, PredicateTable,
};

const COMPARATORS: [Comparator; 9] = [
    Comparator::Equal,
    Comparator::Unequal,
    Comparator::Less,
    Comparator::LessOrEqual,
    Comparator::Greater,
    Comparator::GreaterOrEqual,
    Comparator::IsNull,
    Comparator::IsNotNull,
    Comparator::In,
];

pub(super) struct LentPredicate<'a>(&'a [Comparison], Vec<Vec<u32>>);

impl<'a> LentPredicate<'a> {
    pub(super) fn new(comparisons: &'a [Comparison]) -> Result<Self> {
        let paths = comparisons.iter().map(|comparison| path_numbers(&comparison.column));
        Ok(Self(comparisons, paths.collect::<Result<_>>()?))
    }
}

impl PredicateCalls for LentPredicate<'_> {
    fn count(&self) -> Result<u32, Failure> {
        Ok(u32::try_from(self.0.len()).map_err(|_| Error::plugin("too many comparisons"))?)
    }

    fn comparison(&self, index: u32, values: Borrowed<'_, NodeSinkTable>) -> Result<(&[u32], u32), Failure> {
        let place = index as usize;
        let both = self.0.get(place).zip(self.1.get(place));
        let (comparison, path) = both.ok_or_else(|| Error::plugin(format!("no comparison {index}")))?;
        for value in &comparison.values {
            let (kind, bytes) = match value {
                ComparedValue::Bool(value) => (NodeKind::BOOL, vec![u8::from(*value)]),
                ComparedValue::Int(value) => (NodeKind::INT, value.to_le_bytes().to_vec()),
                ComparedValue::Float(value) => (NodeKind::FLOAT, value.to_le_bytes().to_vec()),
                ComparedValue::Bytes(value) => (NodeKind::BYTES, value.clone()),
            };
            values.node(NodeFacts { kind: kind.0, class_name: "", bytes: &bytes, children: &[] })?;
        }
        let number = COMPARATORS.iter().position(|&comparator| comparator == comparison.comparator);
        Ok((path, number.map_or(u32::MAX, |number| u32::try_from(number).unwrap_or(u32::MAX))))
    }
}

/// Returns the received comparisons, except those that this side does not know.
pub(super) fn decode_predicate(predicate: &Borrowed<'_, PredicateTable>) -> Result<Vec<Comparison>> {
    let mut known = Vec::new();
    for index in 0..predicate.count()? {
        let mut values = PredicateValues(Some(Vec::new()));
        let (column, comparator) = predicate.comparison(index, Borrowed::sink(&mut values))?;
        let column = column.iter().map(|&place| place as usize).collect();
        let comparator = COMPARATORS.get(comparator as usize).copied();
        if let Some((comparator, values)) = comparator.zip(values.0) {
            known.push(Comparison { column, comparator, values });
        }
    }
    Ok(known)
}

/// Collects values. Becomes `None` when this side does not know a value.
struct PredicateValues(Option<Vec<ComparedValue>>);

impl NodeSinkCalls for PredicateValues {
    fn node(&mut self, node: NodeFacts<'_>) -> Result<(), Failure> {
        if let Some(values) = &mut self.0 {
            match value(NodeKind(node.kind), node.bytes) {
                Some(value) => values.push(value),
                None => self.0 = None,
            }
        }
        Ok(())
    }
}

fn value(kind: NodeKind, bytes: &[u8]) -> Option<ComparedValue> {
    Some(match (kind, bytes) {
        (NodeKind::BOOL, [bit @ (0 | 1)]) => ComparedValue::Bool(*bit == 1),
        (NodeKind::INT, [.., last]) if bytes.len() <= 16 => {
            let mut wide = [if last & 0x80 == 0 { 0 } else { 0xff }; 16];
            wide[..bytes.len()].copy_from_slice(bytes);
            ComparedValue::Int(i128::from_le_bytes(wide))
        }
        (NodeKind::FLOAT, _) => ComparedValue::Float(f64::from_le_bytes(bytes.try_into().ok()?)),
        (NodeKind::TEXT | NodeKind::BYTES, _) => ComparedValue::Bytes(bytes.to_vec()),
        _ => return None,
    })
}

fn path_numbers(path: &FieldPath) -> Result<Vec<u32>> {
    let number = |&place: &usize| u32::try_from(place).map_err(|_| Error::plugin("no such column"));
    path.iter().map(number).collect()
}

/// Encodes paths as numbers. The length of each path precedes the path.
pub(super) fn encode_paths(paths: &[FieldPath]) -> Result<Vec<u32>> {
    let mut sent = Vec::new();
    for path in paths {
        sent.push(u32::try_from(path.len()).map_err(|_| Error::plugin("no such column"))?);
        sent.extend(path_numbers(path)?);
    }
    Ok(sent)
}

/// Decodes the paths that [`encode_paths`] encoded.
pub(super) fn decode_paths(mut sent: &[u32]) -> Result<Vec<FieldPath>> {
    let mut paths = Vec::new();
    while let Some((&len, rest)) = sent.split_first() {
        let path =
            usize::try_from(len).ok().filter(|&len| len > 0).and_then(|len| rest.split_at_checked(len));
        let (path, rest) = path.ok_or_else(|| Error::plugin("the list of field paths is incomplete"))?;
        paths.push(path.iter().map(|&place| place as usize).collect());
        sent = rest;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out_and_the_rest_stays() {
        let all = [
            ComparedValue::Bool(true),
            ComparedValue::Int(i128::from(u64::MAX)),
            ComparedValue::Int(-3),
            ComparedValue::Float(0.5),
            ComparedValue::Bytes(b"ab".to_vec()),
        ];
        let comparisons: Vec<Comparison> = COMPARATORS
            .iter()
            .map(|&comparator| Comparison { column: vec![2, 0, 7], comparator, values: all.to_vec() })
            .collect();
        let lent = LentPredicate::new(&comparisons).unwrap();
        assert_eq!(decode_predicate(&Borrowed::shared(&lent)).unwrap(), comparisons);

        struct Future;
        impl PredicateCalls for Future {
            fn count(&self) -> Result<u32, Failure> {
                Ok(3)
            }
            fn comparison(
                &self,
                index: u32,
                values: Borrowed<'_, NodeSinkTable>,
            ) -> Result<(&[u32], u32), Failure> {
                // The comparisons use an unknown comparator, then an unknown kind of value, then a
                // known kind with fewer bytes.
                let kind = if index == 1 { 99 } else { NodeKind::INT.0 };
                values.node(NodeFacts { kind, class_name: "", bytes: &[0xfe], children: &[] })?;
                Ok((&[1], if index == 0 { 77 } else { 0 }))
            }
        }
        let known = decode_predicate(&Borrowed::shared(&Future)).unwrap();
        let equal =
            |value| Comparison { column: vec![1], comparator: Comparator::Equal, values: vec![value] };
        assert_eq!(known, [equal(ComparedValue::Int(-2))]);
    }

    #[test]
    fn paths_that_lie_about_their_length_are_refused() {
        let paths = vec![vec![0], vec![3, 1, 4]];
        assert_eq!(decode_paths(&encode_paths(&paths).unwrap()).unwrap(), paths);
        for wrong in [&[0_u32][..], &[2, 1], &[u32::MAX, 1], &[1, 1, 3]] {
            assert!(decode_paths(wrong).is_err(), "{wrong:?}");
        }
    }
}
