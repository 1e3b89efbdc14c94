//! What a step may know of the model whose tensors it changes, beside its catalog.

use super::model_config::ModelConfig;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::input::Input;

/// A model that was read.
pub struct ModelFacts<'a> {
    /// What the files beside its weights say.
    pub config: ModelConfig,
    /// What was read.
    pub input: &'a Input,
    /// The run.
    pub session: &'a Session,
}
