//! The probe of graphs: the first fields of a file, whatever its name.

use crate::message_kind::{self, MessageKind};
use tensorferry_sdk::{Entry, Result, Score, Source};

/// How sure it is that the source is a graph.
pub(crate) fn score(source: &dyn Source) -> Result<Score> {
    let Entry::File(name) = source.entry() else { return Ok(Score::NO) };
    Ok(match message_kind::detect(source, source.open(name)?)? {
        Some((MessageKind::Graph, _)) => Score::CERTAIN,
        _ => Score::NO,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::MemorySource;

    #[test]
    fn first_fields_decide() {
        let file = |name: &str, bytes: &[u8]| score(&MemorySource::file(name, bytes)).unwrap();
        assert_eq!(file("any.pbtxt", b"node {}"), Score::CERTAIN);
        assert_eq!(file("frozen.pb", &[0x0a, 3, 0x12, 1, b'x']), Score::CERTAIN);
        assert_eq!(file("frozen.pb", &[0x08, 1, 0x12, 0]), Score::NO);
        assert_eq!(file("frozen.pb", b""), Score::NO);
    }
}
