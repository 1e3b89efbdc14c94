//! Conversion of tensors and records between file formats: the engine of `ferry`, as a library.
#![deny(unsafe_code)]

mod bridge;
mod context;
mod convert;
mod formats;
mod publish;
mod read;
mod receipt;
mod records;
mod steps;
mod tensors;
mod write;

#[cfg(feature = "records")]
mod c_stream;
mod conversion;
#[cfg(feature = "mmap")]
mod mapped;
mod model;
#[cfg(feature = "records")]
mod scan;

#[cfg(feature = "records")]
pub use c_stream::ArrowArrayStream;
pub use context::session::Session;
pub use conversion::Conversion;
pub use convert::report::Report;
pub use formats::registry::{PluginIdentity, PluginLibrary, RegisteredFormat, Registry};
#[cfg(feature = "mmap")]
pub use mapped::Mapped;
pub use model::{Model, OpenOptions, Tensor};
#[cfg(feature = "records")]
pub use scan::Scan;
pub use tensorferry_sdk::{Dtype, Error, ErrorKind, Format, Limits, Loss, LossKind, Result};

/// The rooms of the engine, for `ferry` itself. They are no part of the promise that versions make.
#[doc(hidden)]
pub mod engine {
    pub mod context {
        pub use crate::context::*;
    }
    pub mod formats {
        pub use crate::formats::*;
    }
    pub mod read {
        pub use crate::read::*;
    }
    pub mod publish {
        pub use crate::publish::*;
    }
    pub mod tensors {
        pub use crate::tensors::*;
    }
    pub mod steps {
        pub use crate::steps::*;
    }
    pub mod write {
        pub use crate::write::*;
    }
    pub mod records {
        pub use crate::records::*;
    }
    pub mod bridge {
        pub use crate::bridge::*;
    }
    pub mod receipt {
        pub use crate::receipt::*;
    }
    pub mod convert {
        pub use crate::convert::*;
    }
}
