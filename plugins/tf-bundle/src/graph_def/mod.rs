//! A frozen graph is a `GraphDef` whose variables have become constants. The whole model is in a
//! single file, in wire form (`.pb`) or text form (`.pbtxt`). Its tensors are the constants of the
//! graph and of its functions. ferry does not convert the computation that the graph describes.
//!
//! In wire form, the content of a constant is stored in a range of the file.

mod constants;
mod read;

pub(crate) use read::GraphReader;

#[cfg(test)]
mod tests;
