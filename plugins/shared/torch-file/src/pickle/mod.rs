//! A pickle is a program for a stack machine that builds Python objects. This module builds an
//! inert [`Graph`] instead: values in an arena, and calls that are recorded but never made.
//!
//! | File | Contents |
//! |---|---|
//! | `opcode.rs` | the instructions, with every length checked against the input |
//! | `literal.rs` | numbers and strings in the text opcodes of protocol 0 |
//! | `stream.rs` | one pickle of several in a file |
//! | `machine.rs` | the graph, from the instructions |
//! | `memo.rs` | the table of GET and PUT |
//! | `graph.rs` | the arena, and access to it |
//!
//! Sources: CPython's `Lib/pickletools.py` and `Modules/_pickle.c`, protocols 0 to 5.
//!
//! Safety on hostile input:
//! - No function is called and no class is looked up. A call is a node with its target and
//!   arguments.
//! - GET pushes an index, so a memo cannot make a small pickle large. Every value costs at least
//!   one byte of input, and the number of values is limited by [`Limits::nodes`].
//! - Nothing recurses, not even dropping: containers hold indices. A graph may have cycles (a list
//!   may contain itself), which code that walks it must handle.
//! - If Python's own implementations differ (frames that split an instruction, several PROTOs,
//!   values left on the stack), the pickle is rejected. A file can therefore not show one content
//!   here and another elsewhere.
//!
//! A call whose result is unknown is a loss, wherever it is in the pickle. Names, chunks, arrays
//! and archives that a pickle refers to repeatedly cost only once, and their number is limited by
//! the number of values. The tests in `tests/tests/quick/safety` check this with files that leave a
//! marker if Python loads them.

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

/// The result of evaluating a pickle.
#[derive(Debug)]
pub struct Evaluated {
    /// All values.
    pub graph: Graph,
    /// The value that the pickle leaves on the stack.
    pub root: ValueId,
    /// Length of the pickle in bytes. In a file of several pickles, the next one starts there.
    pub len: usize,
}

/// Evaluates the pickle at the start of `bytes`. `base` is the offset of `bytes` in their file, for
/// the offsets in errors. Instructions that need a registry or external buffers are not supported.
pub fn evaluate(bytes: &[u8], base: u64, limits: &Limits) -> Result<Evaluated> {
    machine::run(bytes, base, limits)
}
