//! Defines the macro that turns a library into a plugin.
//!
//! All plugin libraries export the same two symbols, so two plugin libraries cannot be linked into
//! one program. A format's crate therefore exports the symbols only if its feature `plugin` is
//! enabled, for building a separate library.

use crate::mirror::lend_formats;
use crate::{Format, Result};
use tensorferry_abi::{Failure, FormatTable, Owned};

/// The formats that a library exports. [`export_plugin!`](crate::export_plugin) implements this
/// trait.
pub trait Exported: 'static {
    /// Creates the formats of the library.
    ///
    /// # Errors
    /// Returns an error if the library cannot work. The host then refuses the library and reports
    /// the error.
    fn formats() -> Result<Vec<Box<dyn Format>>>;
}

/// The library that exports the formats of `E`, in the form that the boundary requires.
pub struct Root<E>(std::marker::PhantomData<E>);

impl<E: Exported> Library for Root<E> {
    fn formats() -> std::result::Result<Vec<Owned<FormatTable>>, Failure> {
        Ok(lend_formats(E::formats()?))
    }
}

/// Turns a library (`crate-type = ["cdylib"]`) into a plugin by exporting its formats to the host.
///
/// | Form | Exports |
/// |---|---|
/// | `export_plugin!(MyFormat, OtherFormat)` | the arguments, which are expressions of types that implement [`Format`] |
/// | `export_plugin!(try make_formats)` | the formats that a fallible `fn() -> Result<Vec<Box<dyn Format>>>` returns |
/// | `export_plugin!(named "my-formats", from my_formats::formats)` | the formats that a `fn() -> Vec<Box<dyn Format>>` of another crate returns; users see the given name |
///
/// The third form is for formats in a crate that programs also link. A separate crate then exports
/// the symbols, so one program can contain several such formats.
#[macro_export]
macro_rules! export_plugin {
    (try $make:expr) => {
        $crate::export_plugin!(@export env!("CARGO_PKG_NAME"), $make);
    };
    (named $name:literal, from $make:path) => {
        $crate::export_plugin!(@export $name, || ::std::result::Result::Ok($make()));
    };
    (@export $name:expr, $make:expr) => {
        // The SDK must catch the panics of a plugin at the boundary, which is impossible if panics
        // abort.
        #[cfg(not(panic = "unwind"))]
        compile_error!("a ferry plugin must be built with panic = \"unwind\"");

        const _: () = {
            struct FerryPlugin;

            impl $crate::export::Exported for FerryPlugin {
                fn formats() -> $crate::Result<::std::vec::Vec<::std::boxed::Box<dyn $crate::Format>>> {
                    ($make)()
                }
            }

            #[unsafe(no_mangle)]
            pub static FERRY_PLUGIN: $crate::export::Manifest = $crate::export::Manifest::new::<
                $crate::export::Root<FerryPlugin>,
            >($name, env!("CARGO_PKG_VERSION"), $crate::VERSION);

            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals, reason = "the symbol that abi_stable looks for")]
            pub static _1as_0lib_1header_0root_bmodule_bloader: $crate::export::LibHeader =
                $crate::export::twin::<$crate::export::Root<FerryPlugin>>();
        };
    };
    ($($format:expr),+ $(,)?) => {
        $crate::export_plugin!(try || {
            ::std::result::Result::Ok(::std::vec![
                $(::std::boxed::Box::new($format) as ::std::boxed::Box<dyn $crate::Format>),+
            ])
        });
    };
}

pub use tensorferry_abi::twin::{LibHeader, twin};
pub use tensorferry_abi::{Library, Manifest};
