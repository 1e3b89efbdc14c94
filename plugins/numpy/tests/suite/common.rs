//! Builds arrays from bytes.

/// Returns an array with this header dict and these elements. The header has the same padding as in
/// numpy.
pub(crate) fn array(dict: &str, elements: &[u8]) -> Vec<u8> {
    let width = (10 + dict.len() + 1).next_multiple_of(64) - 11;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(width + 1).unwrap().to_le_bytes());
    bytes.extend(format!("{dict:width$}\n").into_bytes());
    bytes.extend(elements);
    bytes
}

/// Returns the header dict of an array with this descr and shape.
pub(crate) fn dict(descr: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")
}
