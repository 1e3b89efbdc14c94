//! What everything else stands on: the session with its threads, memory and limits; losses; windows of bytes;
//! files that may be read without waiting, and the stamps that tell whether they changed; faults for tests.

pub mod fault;
pub mod folder_names;
pub mod loss;
mod process_pool;
pub mod regular_file;
pub mod remote;
pub mod session;
pub mod stamp;
pub mod suggest;
pub mod windows;
