//! A frozen graph is a `GraphDef` in which variables have become constants: a model in one file, in
//! wire form (`.pb`) or in text form (`.pbtxt`). Its tensors are its constants, wherever they are in
//! the graph; the graph itself is a computation, and is not carried.
//!
//! A file in wire form is read where it lies: a constant's content is a range of the file. A text is
//! turned into wire form first, which the reader holds.

mod constants;
mod names;
mod probe;
mod read;

pub(crate) use probe::score;
pub(crate) use read::GraphReader;

#[cfg(test)]
mod tests;
