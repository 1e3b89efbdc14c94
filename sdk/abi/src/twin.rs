//! The twin describes the tables of the boundary to `abi_stable`. The tables of the twin are never
//! called; only their layout is compared.

use crate::boundary::{Format, Host, Registrar};
use crate::error_sink::ErrorSink;
use crate::manifest::{Init, Library, init};
use abi_stable::StableAbi;
use abi_stable::abi_stability::abi_checking::{
    AbiInstabilityError, AbiInstabilityErrors, CheckingGlobals, check_layout_compatibility_with_globals,
};
use abi_stable::library::{__call_root_module_loader, CheckTypeLayout, RootModule, RootModuleResult};
pub use abi_stable::library::{AbiHeaderRef, LibHeader, ROOT_MODULE_LOADER_NAME_WITH_NUL};
use abi_stable::prefix_type::{PrefixTypeTrait, WithMetadata};
use abi_stable::sabi_types::VersionStrings;
use abi_stable::type_layout::{TLFieldOrFunction, TypeLayout};

/// The root module of a library in Rust. `abi_stable` finds all other types through the parameters
/// of `init` and through the object kinds that `init` may add.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = TwinRef)))]
pub struct Twin {
    /// The `init` function from the manifest.
    pub init: unsafe extern "C" fn(host: Host, registrar: Registrar, err: ErrorSink) -> i32,
    /// The object kind `format`. The field is always null, because only its type is needed.
    #[sabi(last_prefix_field)]
    pub format: Option<unsafe extern "C" fn(format: Format) -> i32>,
}

impl RootModule for TwinRef {
    abi_stable::declare_root_module_statics! {TwinRef}
    const BASE_NAME: &'static str = "ferry_plugin";
    const NAME: &'static str = "ferry plugin";
    const VERSION_STRINGS: VersionStrings = abi_stable::package_version_strings!();
}

struct Make<L>(std::marker::PhantomData<L>);

impl<L: Library> Make<L> {
    const TWIN: &'static WithMetadata<Twin> = &WithMetadata::new(Twin { init: init::<L>, format: None });
}

extern "C" fn root_module<L: Library>() -> RootModuleResult {
    __call_root_module_loader(|| TwinRef(Make::<L>::TWIN.static_as_prefix()))
}

/// Returns the header that a library must export as `_1as_0lib_1header_0root_bmodule_bloader`.
#[must_use]
pub const fn twin<L: Library>() -> LibHeader {
    // SAFETY: `root_module` returns a type-erased `TwinRef`, and `TwinRef` is the type parameter of
    // this call.
    unsafe { LibHeader::from_constructor::<TwinRef>(root_module::<L>, CheckTypeLayout::Yes) }
}

/// Compares a library's twin with this side's tables, and returns the library's `init`. Either side
/// may be older than the other.
///
/// # Errors
/// Returns the first difference between the layouts, and the path to that difference.
pub fn check(header: &'static LibHeader) -> Result<Init, String> {
    let theirs = header.layout().ok_or("the library has no layout information")?;
    check_both_ways(<TwinRef as StableAbi>::LAYOUT, theirs)?;
    // SAFETY: the layouts were compared above, with the older layout as the prefix.
    let root = unsafe { header.init_root_module_with_unchecked_layout::<TwinRef>() };
    Ok(root.map_err(|error| first_line(&error.to_string()))?.init())
}

/// Compares the layouts in both directions. `abi_stable` compares an interface with an
/// implementation that may have additional fields. If the plugin is older than this host, it has
/// fewer fields, so it acts as the interface.
fn check_both_ways(ours: &'static TypeLayout, theirs: &'static TypeLayout) -> Result<(), String> {
    // Each check uses fresh globals. The process-wide globals remember the fields of all libraries
    // that have been loaded. After an older plugin, they would therefore reject a plugin of this
    // revision.
    let check = |interface, plugin| {
        check_layout_compatibility_with_globals(interface, plugin, &CheckingGlobals::new())
    };
    check(ours, theirs).or_else(|forward| check(theirs, ours).map_err(|_| first_error(&forward)))
}

/// Returns only the first difference, because the full error message can be 62 KB long.
fn first_error(errors: &AbiInstabilityErrors) -> String {
    let Some(first) = errors.errors.iter().find(|error| !error.errs.is_empty()) else {
        return first_line(&errors.to_string());
    };
    let place = place(first);
    let what = first.errs.first().map(|e| first_line(&format!("{e:?}"))).unwrap_or_default();
    let text = if place.is_empty() { what } else { format!("in {place}: {what}") };
    text.chars().take(400).collect()
}

/// Returns the path to the difference, for example `format > format > probe`.
fn place(error: &AbiInstabilityError) -> String {
    let fields = error.stack_trace.iter().filter_map(|step| match step.found {
        TLFieldOrFunction::Field(field) => Some(field.name()),
        TLFieldOrFunction::Function(_) => None,
    });
    let says_something =
        |name: &&str| !name.chars().next().is_none_or(|first| first.is_ascii_digit()) && *name != "table";
    fields.filter(says_something).collect::<Vec<_>>().join(" > ")
}

fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

const _: () = assert!(size_of::<<Twin as PrefixTypeTrait>::PrefixRef>() == size_of::<usize>());
