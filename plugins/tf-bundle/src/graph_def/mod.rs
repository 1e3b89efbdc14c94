//! A frozen graph is a `GraphDef` in which variables have become constants: a model in one file, in
//! wire form (`.pb`) or in text form (`.pbtxt`). Its tensors are its constants, wherever they are in
//! the graph; the graph itself is a computation, and is not carried.
//!
//! A constant's content is a range of the file, if that is in wire form.

mod constants;
mod read;

pub(crate) use read::GraphReader;

#[cfg(test)]
mod tests;
