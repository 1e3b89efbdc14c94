//! Information on a model that a step may use in addition to the catalog.

use super::model_config::ModelConfig;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::input::TensorInput;

/// A model that was read, and the session that reads it.
pub struct ModelFacts<'a> {
    /// The contents of the JSON files next to the model's weights.
    pub config: ModelConfig,
    pub input: &'a TensorInput,
    pub session: &'a Session,
}
