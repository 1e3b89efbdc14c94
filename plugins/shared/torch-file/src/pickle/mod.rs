//! A pickle is a program for a stack machine that builds Python objects. Here it builds an inert
//! [`Graph`] instead: values in an arena, and calls that are written down, never made.
//!
//! | File | What it yields |
//! |---|---|
//! | `opcode.rs` | one instruction after the other, every length checked against the input |
//! | `literal.rs` | numbers and strings as the text opcodes of protocol 0 spell them |
//! | `stream.rs` | one pickle of several in a file |
//! | `machine.rs` | the graph, from the instructions |
//! | `memo.rs` | the table behind GET and PUT |
//! | `graph.rs` | the arena, and how to look at it |
//!
//! Source of the facts: CPython's `Lib/pickletools.py` and `Modules/_pickle.c`, protocols 0 to 5.
//!
//! What makes it safe on hostile input:
//! - No function is called and no class is looked up. A call is a node: what, with which arguments.
//! - GET pushes an index, so a memo cannot make a small pickle large: every value costs at least
//!   one byte of input, and their number is bounded by [`Limits::nodes`].
//! - Nothing recurses, dropping included: containers hold indices. A graph may have cycles (a list
//!   may contain itself); whoever walks it has to look out for them.
//! - Where Python's own implementations differ from each other (frames that split an instruction,
//!   several PROTOs, values left on the stack), the pickle is refused, so that nobody can show one
//!   content here and another one there.

mod graph;
mod literal;
mod machine;
mod memo;
mod opcode;
mod renames;
mod stream;

pub use graph::{Call, CallKind, Global, GlobalId, Graph, Items, Text, Value, ValueId};
pub use stream::take;

use tensorferry_sdk::{Limits, Result};

/// What one pickle described.
#[derive(Debug)]
pub struct Evaluated {
    /// Every value.
    pub graph: Graph,
    /// The one that the pickle leaves on the stack.
    pub root: ValueId,
    /// How many bytes the pickle takes; files of several pickles go on there.
    pub len: usize,
}

/// Evaluates the pickle at the start of `bytes`. `base` is where `bytes` begin in their file: errors
/// name the file's offset.
///
/// # Errors
/// Malformed, with the offset of the instruction; unsupported, for instructions that need a registry
/// or buffers from outside; a limit on values, stack or marks.
pub fn evaluate(bytes: &[u8], base: u64, limits: &Limits) -> Result<Evaluated> {
    machine::run(bytes, base, limits)
}
