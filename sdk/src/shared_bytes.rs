//! Shared bytes may have an owner of any type, not only a `Vec`. Examples are an array from another
//! language and a device driver's buffer.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes that all clones share. The bytes do not change while a clone exists.
#[derive(Clone)]
pub struct SharedBytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl SharedBytes {
    /// Creates shared bytes from `owner`. The bytes of `owner` must not change.
    #[must_use]
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(owner))
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

impl PartialEq for SharedBytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SharedBytes {}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedBytes").field(&self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_compared_and_not_owners() {
        let (vector, array) = (SharedBytes::from(vec![1, 2]), SharedBytes::new([1_u8, 2]));
        assert_eq!(vector, array);
        assert_eq!(vector.clone().as_ptr(), vector.as_ptr());
        assert_ne!(vector, SharedBytes::new([1_u8]));
        assert_eq!(format!("{array:?}"), "SharedBytes(2)");
    }
}
