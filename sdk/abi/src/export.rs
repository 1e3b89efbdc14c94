//! The symbol through which `abi_stable` finds a library's root module.
//!
//! `#[export_root_module]` names `::abi_stable` in the crate that uses it; a plugin has only the
//! SDK, so its macro emits the symbol from here.

use crate::PluginRef;
pub use abi_stable::library::LibHeader;
use abi_stable::library::{__call_root_module_loader, CheckTypeLayout, RootModuleResult};

/// Makes a library's root module.
pub trait Provide {
    /// The root module.
    fn plugin() -> PluginRef;
}

extern "C" fn root_module<P: Provide>() -> RootModuleResult {
    __call_root_module_loader(P::plugin)
}

/// The header that a library exports as `_1as_0lib_1header_0root_bmodule_bloader`.
#[must_use]
pub const fn header<P: Provide>() -> LibHeader {
    // SAFETY: `root_module` returns an erased `PluginRef`, as its type parameter and this one say.
    unsafe { LibHeader::from_constructor::<PluginRef>(root_module::<P>, CheckTypeLayout::Yes) }
}
