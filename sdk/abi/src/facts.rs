//! Describes the declarations of the boundary, for the C header and the list of offsets.

/// The description of a function in a table, or of a field in a request.
pub(crate) struct SlotFacts {
    pub(crate) name: &'static str,
    pub(crate) docs: &'static [&'static str],
    pub(crate) arguments: &'static [(&'static str, &'static str)],
    pub(crate) answers: &'static [(&'static str, &'static str)],
    pub(crate) offset: usize,
}

/// The description of an object kind or a request.
pub(crate) struct ObjectFacts {
    pub(crate) name: &'static str,
    pub(crate) docs: &'static [&'static str],
    pub(crate) slots: &'static [SlotFacts],
    pub(crate) size: usize,
    /// Returns the words that this side copies when it receives such a structure from the other
    /// side.
    #[cfg(test)]
    pub(crate) adopted: fn(&[u64]) -> Result<Vec<u64>, crate::failure::Failure>,
}

pub(crate) trait Described {
    const FACTS: ObjectFacts;
}
