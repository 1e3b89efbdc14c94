//! A loss is something of the input that the output does not have: it is reported to the user, never
//! dropped in silence.

use crate::Result;
use std::fmt;

/// What sort of thing was lost; `--allow-loss` takes these words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossKind {
    /// A whole tensor.
    Tensor,
    /// Digits of its values.
    Precision,
    /// Non-tensor state: scalars, lists, objects.
    State,
    /// That two names are one tensor.
    Alias,
    /// A tensor's own name.
    Name,
    /// A file that belongs to the model.
    Sidecar,
    /// A computation graph.
    Graph,
    /// Key-value metadata.
    Metadata,
    /// That a tensor is sparse, or how.
    Sparse,
    /// A record, or a part of one.
    Record,
    /// An attribute of a tensor, or its shape.
    Attribute,
    /// An entry of the input that was not read. Only the host reports it.
    Input,
}

impl LossKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::Tensor,
        Self::Precision,
        Self::State,
        Self::Alias,
        Self::Name,
        Self::Sidecar,
        Self::Graph,
        Self::Metadata,
        Self::Sparse,
        Self::Record,
        Self::Attribute,
        Self::Input,
    ];

    /// The kind's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::Precision => "precision",
            Self::State => "state",
            Self::Alias => "alias",
            Self::Name => "name",
            Self::Sidecar => "sidecar",
            Self::Graph => "graph",
            Self::Metadata => "metadata",
            Self::Sparse => "sparse",
            Self::Record => "record",
            Self::Attribute => "attribute",
            Self::Input => "input",
        }
    }

    /// The kind of this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// How bad a loss of this kind is, where nobody says otherwise.
    #[must_use]
    pub fn usual_severity(self) -> Severity {
        match self {
            Self::Precision | Self::Alias | Self::Name | Self::Sparse => Severity::Changed,
            _ => Severity::Lost,
        }
    }
}

/// How bad a loss is: the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Content is not there.
    Lost,
    /// The content is there in another form: precision, dtype, shape, names, ties.
    Changed,
    /// Nothing of the content: what a program may want to know of it.
    Note,
}

impl Severity {
    /// Every severity.
    pub const ALL: [Self; 3] = [Self::Lost, Self::Changed, Self::Note];

    /// The severity's word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Changed => "changed",
            Self::Note => "note",
        }
    }

    /// The severity of this word; one that nobody knows is the worst.
    #[must_use]
    pub fn named(word: &str) -> Self {
        Self::ALL.into_iter().find(|severity| severity.word() == word).unwrap_or(Self::Lost)
    }
}

/// One thing that could not be carried.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Loss {
    /// Its sort.
    pub kind: LossKind,
    /// How bad it is.
    pub severity: Severity,
    /// Whether it follows from what the user asked for, as a cast's rounding does.
    pub asked: bool,
    /// The thing: a tensor's name, a path in the tree, a file.
    pub what: String,
    /// Why it was not carried, and what would carry it, if anything.
    pub why: String,
}

impl Loss {
    /// A loss of `what`, because of `why`; as bad as [usual](LossKind::usual_severity), and not asked for.
    pub fn new(kind: LossKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        let severity = kind.usual_severity();
        Self { kind, severity, asked: false, what: what.into(), why: why.into() }
    }

    /// The same, of this severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// The same, as what follows from what the user asked for.
    #[must_use]
    pub fn asked_for(mut self) -> Self {
        self.asked = true;
        self
    }
}

/// Takes losses, where they are found: a catalog while an input is read, a layout while an output is
/// planned, and a list of them for records.
pub trait LossSink {
    /// Something of the input that the other side will not have.
    fn loss(&mut self, loss: Loss) -> Result<()>;
}

impl LossSink for Vec<Loss> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        self.push(loss);
        Ok(())
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}: {}", self.kind.word(), self.what, self.why)
    }
}
