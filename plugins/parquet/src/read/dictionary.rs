//! Measures the values in a dictionary of byte arrays. A few bytes of indices can repeat each value
//! many times, so the lengths limit the batch size.

use parquet::column::page::{Page, PageReader};
use tensorferry_sdk::{Error, Result};

/// Lengths of the values in a dictionary, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) mean: u64,
    pub(super) longest: u64,
}

/// Returns the value lengths of a chunk's dictionary, or `None` if the first page is not a
/// dictionary.
pub(super) fn lengths(pages: &mut dyn PageReader) -> Result<Option<Lengths>, parquet::errors::ParquetError> {
    let Some(Page::DictionaryPage { buf, .. }) = pages.get_next_page()? else { return Ok(None) };
    Ok(Some(plain_lengths(&buf).unwrap_or_default()))
}

/// Measures values in plain encoding. In this encoding, a length of four bytes precedes each value.
fn plain_lengths(mut bytes: &[u8]) -> Result<Lengths> {
    let (mut count, mut sum, mut longest) = (0, 0, 0);
    while let Some((len, rest)) = bytes.split_first_chunk() {
        let len = u32::from_le_bytes(*len);
        let rest = usize::try_from(len).ok().and_then(|len| rest.get(len..));
        bytes = rest.ok_or_else(|| Error::malformed("a dictionary ends inside a value"))?;
        let len = u64::from(len);
        (count, sum, longest) = (count + 1, sum + len, longest.max(len));
    }
    Ok(Lengths { mean: sum.checked_div(count).unwrap_or(0), longest })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn lengths_are_those_of_the_values() {
        let bytes = [&[1, 0, 0, 0, b'a'][..], &[5, 0, 0, 0], b"bcdef"].concat();
        assert_eq!(plain_lengths(&bytes).unwrap(), Lengths { mean: 3, longest: 5 });
        assert!(plain_lengths(&bytes[..bytes.len() - 1]).is_err());
        assert_eq!(plain_lengths(&[]).unwrap(), Lengths::default());
    }
}
