//! Scores the likelihood that an input is an ONNX model. A model has no magic bytes. The probe
//! therefore checks that the fields of the model and of its graph have the right types.

use crate::SUFFIX;
use std::ops::Range;
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::file_name::has_suffix;
use tensorferry_sdk::{Entry, ErrorKind, Result, Score, Source};

/// Score of a folder. If the folder also contains a model in a different format, an ONNX file is an
/// export of this model. The score is therefore lower than the scores for such models and for GGUF,
/// but higher than the scores for arrays.
const IN_A_FOLDER: Score = Score(12);

/// Numbers of the fields in a message that must be integers, and of the fields that must be
/// length-delimited.
struct FieldTypes {
    integers: &'static [u32],
    lengths: &'static [u32],
}

const MODEL: FieldTypes = FieldTypes { integers: &[1, 5], lengths: &[2, 3, 4, 6, 7, 8, 14, 20, 25, 26] };
const GRAPH: FieldTypes = FieldTypes { integers: &[], lengths: &[1, 2, 5, 10, 11, 12, 13, 14, 15, 16] };

/// Scores a source. A file with a matching name but wrong bytes may be a broken model. The reader's
/// error then explains the problem.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    let name = match source.entry() {
        Entry::Folder => {
            let any = source.list("")?.iter().any(|name| !name.starts_with('.') && has_suffix(name, SUFFIX));
            return Ok(if any { IN_A_FOLDER } else { Score::NO });
        }
        Entry::Prefix(_) => return Ok(Score::NO),
        Entry::File(name) => name,
    };
    let is_named = has_suffix(name, SUFFIX);
    match is_model(&mut Wire::of_file(source, source.open(name)?)) {
        Ok(true) => Ok(if is_named { Score::CERTAIN } else { Score::LIKELY }),
        Err(error) if error.kind() != ErrorKind::Malformed => Err(error),
        _ => Ok(if is_named { Score::MAYBE } else { Score::NO }),
    }
}

fn is_model(wire: &mut Wire<'_>) -> Result<bool> {
    let whole = wire.whole();
    let Some(graphs) = MODEL.fields_of(wire, whole, 7)? else { return Ok(false) };
    let mut has_graph = false;
    for graph in graphs {
        match GRAPH.fields_of(wire, graph, 1)? {
            None => return Ok(false),
            Some(_) => has_graph = true,
        }
    }
    Ok(has_graph)
}

impl FieldTypes {
    /// Returns the contents of all fields with this number, or `None` if any field of the message
    /// has the wrong type. To limit the work of the probe, only the first fields are checked.
    fn fields_of(
        &self,
        wire: &mut Wire<'_>,
        mut rest: Range<u64>,
        number: u32,
    ) -> Result<Option<Vec<Range<u64>>>> {
        const MAX_FIELDS: usize = 4096;
        let mut found = Vec::new();
        for _ in 0..MAX_FIELDS {
            let Some(field) = wire.next(&mut rest)? else { break };
            let is_right = match field.value {
                Value::Varint(_) => !self.lengths.contains(&field.number),
                Value::Bytes(_) => !self.integers.contains(&field.number),
                _ => !self.lengths.contains(&field.number) && !self.integers.contains(&field.number),
            };
            match field.value {
                _ if !is_right => return Ok(None),
                Value::Bytes(range) if field.number == number => found.push(range),
                _ => {}
            }
        }
        Ok(Some(found))
    }
}
