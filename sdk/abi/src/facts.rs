//! What a declaration says of itself: for the header in C and the list of where everything lies.

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
    /// What this side takes of such a structure of the other one's.
    #[cfg(test)]
    pub(crate) adopted: fn(&[u64]) -> Result<Vec<u64>, crate::failure::Failure>,
}

/// What a declaration says of itself.
pub(crate) trait Described {
    /// It.
    const FACTS: ObjectFacts;
}
