//! Descriptions of a model beyond its list of tensors: architecture, quantization and tokenizer.

pub use tensorferry_tensors::describe::composite::Composite;
pub use tensorferry_tensors::describe::pipeline::Pipeline;
pub use tensorferry_tensors::describe::tokenizer::Tokenizer;
pub use tensorferry_tensors::describe::{ModelDescription, Quantization, describe};
