//! What a model is beside its list of tensors: its architecture, how it is quantized, its tokenizer.

pub use tensorferry_tensors::describe::composite::Composite;
pub use tensorferry_tensors::describe::pipeline::Pipeline;
pub use tensorferry_tensors::describe::tokenizer::Tokenizer;
pub use tensorferry_tensors::describe::{ModelDescription, Quantization, describe};
