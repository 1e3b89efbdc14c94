//! A library is a plugin's file, once it has been opened and found fit.
//!
//! Unsafe: opening a library runs its constructors, and what its symbols are is known only from its manifest.
//! The folders that libraries come from are therefore trusted ones ([`super::search`]).
#![expect(unsafe_code, reason = "symbols of a foreign library have no types")]

use crate::formats::refusal::Refusal;
use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};
use std::path::Path;
use tensorferry_abi::abi_stable::StableAbi;
use tensorferry_abi::abi_stable::abi_stability::abi_checking::{
    AbiInstabilityError, AbiInstabilityErrors, CheckingGlobals, check_layout_compatibility_with_globals,
};
use tensorferry_abi::abi_stable::library::lib_header_from_path;
use tensorferry_abi::abi_stable::type_layout::{TLFieldOrFunction, TypeLayout};
use tensorferry_abi::{FormatBox, MANIFEST_SYMBOL, Manifest, PluginRef, REVISION};

/// A library that may be called.
pub(super) struct Library {
    pub(super) manifest: Manifest,
    pub(super) formats: Vec<FormatBox>,
}

/// Opens a library and asks it for its formats. It is never unloaded.
pub(super) fn open(path: &Path) -> Result<Library, Refusal> {
    let manifest = read_manifest(path)?;
    if manifest.revision().0 != REVISION.0 {
        return Err(Refusal::OtherRevision { found: manifest.revision() });
    }
    let refused = |e: &dyn std::fmt::Display| Refusal::OtherLayout(first_line(&e.to_string()));
    let header = lib_header_from_path(path).map_err(|e| refused(&e))?;
    let theirs = header.layout().ok_or_else(|| Refusal::OtherLayout("it carries no layout".to_owned()))?;
    check_both_ways(<PluginRef as StableAbi>::LAYOUT, theirs)?;
    // SAFETY: the layouts were compared above, in whichever direction the older one is the prefix.
    let plugin =
        unsafe { header.init_root_module_with_unchecked_layout::<PluginRef>() }.map_err(|e| refused(&e))?;
    let formats =
        plugin.formats()().into_result().map_err(|e| Refusal::InitFailed(e.message.into_string()))?;
    Ok(Library { manifest, formats: formats.into_vec() })
}

/// Reads the manifest before any function of the plugin is called. All symbols are bound now, so
/// that a missing one is named here and not in the middle of a conversion.
fn read_manifest(path: &Path) -> Result<Manifest, Refusal> {
    // SAFETY: runs the library's constructors; the caller vouches for the folder that it lies in.
    let library = unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|e| Refusal::CannotOpen(source_message(&e)))?;
    // SAFETY: the symbol, where it exists, is a `Manifest`: its layout is fixed for ever, and its
    // magic is checked before anything else of it is used.
    let manifest =
        unsafe { library.get::<*const Manifest>(MANIFEST_SYMBOL.as_bytes()).map(|symbol| **symbol) };
    let manifest = manifest.ok().filter(Manifest::is_valid).ok_or(Refusal::NotAPlugin)?;
    std::mem::forget(library);
    Ok(manifest)
}

/// `abi_stable` compares one way: an interface with an implementation that may have more. An older
/// plugin has less than this host, so that it is the interface then.
fn check_both_ways(ours: &'static TypeLayout, theirs: &'static TypeLayout) -> Result<(), Refusal> {
    // Fresh globals for each check: the process-wide ones remember the fields of whatever was loaded
    // before, and refuse a plugin of this revision after one of an older.
    let check = |interface, plugin| {
        check_layout_compatibility_with_globals(interface, plugin, &CheckingGlobals::new())
    };
    check(ours, theirs)
        .or_else(|forward| check(theirs, ours).map_err(|_| Refusal::OtherLayout(first_error(&forward))))
}

/// The first difference, named; the whole text can be 16 KB.
fn first_error(errors: &AbiInstabilityErrors) -> String {
    let Some(first) = errors.errors.iter().find(|error| !error.errs.is_empty()) else {
        return first_line(&errors.to_string());
    };
    let place = place(first);
    let what = first.errs.first().map(|e| first_line(&format!("{e:?}"))).unwrap_or_default();
    let text = if place.is_empty() { what } else { format!("in {place}: {what}") };
    text.chars().take(400).collect()
}

/// The way to the difference, as in `formats > __returns > probe > __returns`: what wrappers and
/// vtables call their own fields says nothing.
fn place(error: &AbiInstabilityError) -> String {
    let fields = error.stack_trace.iter().filter_map(|step| match step.found {
        TLFieldOrFunction::Field(field) => Some(field.name()),
        TLFieldOrFunction::Function(_) => None,
    });
    let says_something = |name: &&str| {
        let is_numbered = name.trim_start_matches("field_").starts_with(|c: char| c.is_ascii_digit());
        !is_numbered && !["buffer", "obj", "vtable"].contains(name)
    };
    fields.filter(says_something).collect::<Vec<_>>().join(" > ")
}

fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

fn source_message(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.unwrap_or_else(|| error.to_string())
}
