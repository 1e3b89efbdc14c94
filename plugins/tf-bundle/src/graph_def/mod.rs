//! A frozen graph is a `GraphDef` whose variables have become constants: a model in a single file,
//! in wire form (`.pb`) or text form (`.pbtxt`). Its tensors are the constants of the graph and of
//! its functions. The graph itself is a computation, which ferry does not convert.
//!
//! In wire form, the content of a constant is stored in a range of the file.

mod constants;
mod read;

pub(crate) use read::GraphReader;

#[cfg(test)]
mod tests;
