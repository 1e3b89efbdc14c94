//! What a step may know of the model whose tensors it changes, beside its catalog.

use super::model_config::ModelConfig;
use crate::context::session::Session;
use crate::read::input::Input;

/// A model that was read.
pub struct ModelFacts<'a> {
    /// What the files beside its weights say.
    pub config: ModelConfig,
    /// What was read.
    pub input: &'a Input,
    /// The run.
    pub session: &'a Session,
}
