//! A loss is input content that the output does not contain. All losses are reported to the user.

use crate::Result;
use std::fmt;

/// The kind of a loss. `--allow-loss` accepts the [`word`](Self::word) of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LossKind {
    /// A whole tensor.
    Tensor,
    /// The precision of values.
    Precision,
    /// Non-tensor state: scalars, lists, objects.
    State,
    /// The tie between two names of one tensor.
    Alias,
    /// The name of a tensor.
    Name,
    /// A file that is part of the model.
    Sidecar,
    /// A computation graph.
    Graph,
    /// Key-value metadata.
    Metadata,
    /// The sparsity of a tensor, or the layout of a sparse tensor.
    Sparse,
    /// A record, or part of a record.
    Record,
    /// A tensor's attribute or shape.
    Attribute,
    /// An entry of the input that was not read. Only the host reports losses of this kind.
    Input,
}

impl LossKind {
    /// All kinds of losses.
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

    /// Returns the word for this kind in options and reports.
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

    /// Returns the kind with the given word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Returns the default severity of losses of this kind.
    #[must_use]
    pub fn usual_severity(self) -> Severity {
        match self {
            Self::Precision | Self::Alias | Self::Name | Self::Sparse => Severity::Changed,
            _ => Severity::Lost,
        }
    }
}

/// The severity of a loss. The worst severity is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Content is missing from the output.
    Lost,
    /// The output contains the content in a different form, for example with a different precision,
    /// dtype, shape or name.
    Changed,
    /// No content is affected. The entry is only information.
    Note,
}

impl Severity {
    /// All severities.
    pub const ALL: [Self; 3] = [Self::Lost, Self::Changed, Self::Note];

    /// Returns the word for this severity in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Changed => "changed",
            Self::Note => "note",
        }
    }

    /// Returns the severity with the given word, or the worst severity if the word is unknown.
    #[must_use]
    pub fn named(word: &str) -> Self {
        Self::ALL.into_iter().find(|severity| severity.word() == word).unwrap_or(Self::Lost)
    }
}

/// A piece of content that the output does not contain, or contains only in a changed form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Loss {
    /// Kind of the content.
    pub kind: LossKind,
    /// Severity of the loss.
    pub severity: Severity,
    /// Whether the user requested the loss, for example by requesting a cast that rounds values.
    pub requested: bool,
    /// The affected tensor, path in the tree, or file, by name.
    pub what: String,
    /// The reason for the loss, and how to avoid it if that is possible.
    pub why: String,
}

impl Loss {
    /// Creates a loss of `what` with the reason `why`. The loss has the [usual
    /// severity](LossKind::usual_severity) of its kind, and is not marked as requested by the user.
    pub fn new(kind: LossKind, what: impl Into<String>, why: impl Into<String>) -> Self {
        let severity = kind.usual_severity();
        Self { kind, severity, requested: false, what: what.into(), why: why.into() }
    }

    /// Sets the severity.
    #[must_use]
    pub fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    /// Marks the loss as requested by the user.
    #[must_use]
    pub fn requested_by_user(mut self) -> Self {
        self.requested = true;
        self
    }
}

/// Receives losses where they are found. The sink is a catalog while an input is read, a layout
/// while an output is planned, and a list for records.
pub trait LossSink {
    /// Reports content of the input that the catalog or the output will not contain.
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
