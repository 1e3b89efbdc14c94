//! Basic building blocks that all other modules use: sessions, losses, byte windows, opening files
//! without blocking, stamps that detect changed files, and faults for tests.

pub mod fault;
pub mod folder_names;
pub mod human;
pub mod loss;
mod process_pool;
pub mod regular_file;
pub mod remote;
pub mod session;
pub mod stamp;
pub mod suggest;
pub mod windows;
