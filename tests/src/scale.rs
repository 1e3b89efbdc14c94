//! A run on thousands of machines, on paper: what its driver, its journals and its store must bear, how much is done twice, and
//! which of them ends the growth first.
//!
//! Events in order of their time: the end of a job, a node that dies, freezes or is taken away, the answer of the driver. Jobs
//! are simulated one by one, with the rules that the program has: pieces are handed out, the piece of a node that is
//! silent for too long goes to another one, a commit over an output that is there is refused. All times are whole microseconds,
//! so that the sum over all nodes is exact, and a seed gives the same answer on every machine.

mod chance;
mod cluster;
mod node;
mod outcome;
mod pages;
mod settings;

pub use cluster::simulate;
pub use outcome::{Limit, Outcome, Times};
pub use pages::tables;
pub use settings::{Settings, Way};
