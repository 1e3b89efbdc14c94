//! A pickle is a program for a stack machine that builds Python objects. This module builds an
//! inert [`Graph`] instead: values in an arena, and calls that are recorded but never made.
//!
//! | File | Contents |
//! |---|---|
//! | `opcode.rs` | the instructions, with every length checked against the input |
//! | `literal.rs` | numbers and strings in the text opcodes of protocol 0 |
//! | `stream.rs` | one pickle of several in a file |
//! | `machine.rs` | execution of the instructions, which builds the graph |
//! | `memo.rs` | the table that GET and PUT use |
//! | `graph.rs` | the arena of values, and functions to access it |
//!
//! Sources: CPython's `Lib/pickletools.py` and `Modules/_pickle.c`, protocols 0 to 5.
//!
//! Safety with hostile input:
//! - No function is called and no class is looked up. A call is a value that contains the target
//!   and the arguments.
//! - GET pushes an index, so a memo cannot make a small pickle large. Every value costs at least
//!   one byte of input, and the number of values is limited by [`Limits::nodes`].
//! - No code recurses, not even to drop a graph, because containers store indices. A graph may have
//!   cycles (a list may contain itself), and code that walks the graph must handle them.
//! - If Python's own implementations treat a pickle differently (frames that split an instruction,
//!   several PROTOs, values left on the stack), the pickle is rejected. Therefore, ferry and Python
//!   cannot find different content in the same file.
//!
//! If the result of a call is unknown, the call is reported as a loss, regardless of its position
//! in the pickle. If a pickle refers to a name, chunk, array or archive repeatedly, readers process
//! the item only once. The number of values limits the number of such items. The tests in
//! `tests/tests/quick/safety` check that no call is made. Their files would create a marker file if
//! Python loaded them.

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
pub struct EvaluatedPickle {
    /// All values.
    pub graph: Graph,
    /// The value of the pickle, which remains on the stack at its end.
    pub root: ValueId,
    /// Length of the pickle in bytes. If the file contains several pickles, the next one starts
    /// here.
    pub len: usize,
}

/// Evaluates the pickle at the start of `bytes`. `base` is the offset of `bytes` in the file. It is
/// added to the offsets in errors. Instructions that need an extension registry or external buffers
/// are not supported.
pub fn evaluate(bytes: &[u8], base: u64, limits: &Limits) -> Result<EvaluatedPickle> {
    machine::run(bytes, base, limits)
}
