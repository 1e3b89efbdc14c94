//! What one program's use of the library may take and must obey, and what goes wrong on purpose in tests.

pub mod fault;
pub mod loss;
pub mod session;
pub mod suggest;
