//! The facts about declarations, for the C header and the list of offsets.

/// A function of a table, or a fact of a request.
pub(crate) struct SlotFacts {
    pub(crate) name: &'static str,
    pub(crate) docs: &'static [&'static str],
    pub(crate) arguments: &'static [(&'static str, &'static str)],
    pub(crate) answers: &'static [(&'static str, &'static str)],
    pub(crate) offset: usize,
}

/// A kind of object, or a request.
pub(crate) struct ObjectFacts {
    pub(crate) name: &'static str,
    pub(crate) docs: &'static [&'static str],
    pub(crate) slots: &'static [SlotFacts],
    pub(crate) size: usize,
    /// Returns what this side adopts of such a structure of the other side.
    #[cfg(test)]
    pub(crate) adopted: fn(&[u64]) -> Result<Vec<u64>, crate::failure::Failure>,
}

pub(crate) trait Described {
    const FACTS: ObjectFacts;
}
