//! The macro that makes a library a plugin.

use crate::mirror::lend_formats;
use crate::{Format, Result};
use tensorferry_abi::{Failure, FormatTable, Owned};

/// What a library exports; [`export_plugin!`](crate::export_plugin) implements it.
pub trait Exported: 'static {
    /// Makes the library's formats.
    ///
    /// # Errors
    /// Whatever keeps the library from working at all; the host refuses it and says so.
    fn formats() -> Result<Vec<Box<dyn Format>>>;
}

/// The library that exports `E`, as the boundary knows it.
pub struct Root<E>(std::marker::PhantomData<E>);

impl<E: Exported> Library for Root<E> {
    fn formats() -> std::result::Result<Vec<Owned<FormatTable>>, Failure> {
        Ok(lend_formats(E::formats()?))
    }
}

/// Makes a library (`crate-type = ["cdylib"]`) a plugin: exports its formats to the host.
///
/// | Form | What it exports |
/// |---|---|
/// | `export_plugin!(MyFormat, OtherFormat)` | each argument is an expression of a type that implements [`Format`] |
/// | `export_plugin!(try make_formats)` | what a `fn() -> Result<Vec<Box<dyn Format>>>` returns, where that can fail |
/// | `export_plugin!(named "my-formats", from my_formats::formats)` | what a `fn() -> Vec<Box<dyn Format>>` of another crate returns, shown to users under that crate's name |
///
/// The third form is for a crate that programs also link in: the exported symbols are in a crate of their
/// own then, and several such formats can be in one program.
#[macro_export]
macro_rules! export_plugin {
    (try $make:expr) => {
        $crate::export_plugin!(@export env!("CARGO_PKG_NAME"), $make);
    };
    (named $name:literal, from $make:path) => {
        $crate::export_plugin!(@export $name, || ::std::result::Result::Ok($make()));
    };
    (@export $name:expr, $make:expr) => {
        // The host tells a plugin's panic from its own by catching it here, which an abort prevents.
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
