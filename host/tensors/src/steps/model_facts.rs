//! Facts that a step may use about the model whose tensors it changes, in addition to its catalog.

use super::model_config::ModelConfig;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::input::Input;

/// A model that was read.
pub struct ModelFacts<'a> {
    /// The contents of the files next to its weights.
    pub config: ModelConfig,
    pub input: &'a Input,
    pub session: &'a Session,
}
