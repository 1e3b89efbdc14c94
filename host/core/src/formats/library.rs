//! A plugin library file that has been opened and checked.
//!
//! Opening a library is unsafe: it runs the library's constructors, and only the manifest describes
//! the library's symbols. The file is therefore checked before it is opened (`trust.rs`).
//!
//! The manifest is plain data under one symbol, which is read before any function is called. A
//! library of a different major revision, or one that needs a later minor revision, is refused at
//! this point. A Rust library also exports its tables as an `abi_stable` module, its twin. The
//! twin's layout is compared with the host's in both directions, because the check in `abi_stable`
//! accepts only libraries that are newer than the host. The twin must have the same `init` as the
//! manifest. A library in C has only its manifest and the sizes of its tables. Libraries are never
//! unloaded.
#![expect(unsafe_code, reason = "symbols of a foreign library have no types")]

use crate::formats::refusal::Refusal;
use libloading::os::unix::{Library as Opened, RTLD_LOCAL, RTLD_NOW};
use std::path::Path;
use tensorferry_abi::twin::{self, AbiHeaderRef, ROOT_MODULE_LOADER_NAME_WITH_NUL};
use tensorferry_abi::{
    FormatTable, Init, MANIFEST_SYMBOL, Manifest, Owned, PREVIEW_SYMBOL, REVISION, formats_of,
};
use tensorferry_sdk::mirror::level;
use tensorferry_sdk::{Error, Level};

pub(super) struct Library {
    pub(super) manifest: Manifest,
    pub(super) formats: Vec<Owned<FormatTable>>,
    /// Messages for the user that the library produced when it was opened.
    pub(super) lines: Vec<(Level, String)>,
}

/// Opens a library and queries its formats. The library is never unloaded.
pub(super) fn open(path: &Path) -> Result<Library, Refusal> {
    // `RTLD_NOW` binds all symbols immediately. A missing symbol is therefore reported here and not
    // during a conversion.
    // SAFETY: this call runs the library's constructors; the caller has checked that the library's
    // folder is trusted.
    let library = unsafe { Opened::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|e| Refusal::CannotOpen(source_message(&e)))?;
    let manifest = manifest(&library)?;
    let init = manifest.init().ok_or_else(|| Refusal::BadManifest("has no init".to_owned()))?;
    check_twin(&library, &manifest, init)?;
    // SAFETY: the code above has checked that the manifest has the supported revision, and that a
    // Rust library's tables match.
    let formats = unsafe { formats_of(init) };
    let (formats, lines) = formats.map_err(|failure| Refusal::by_init(&Error::from(failure)))?;
    std::mem::forget(library);
    let lines = lines.into_iter().map(|(number, text)| (level(number), text)).collect();
    Ok(Library { manifest, formats, lines })
}

/// Reads the manifest before any function of the plugin is called.
fn manifest(library: &Opened) -> Result<Manifest, Refusal> {
    // SAFETY: this call looks up the symbol's address, and does not dereference it.
    let symbol = unsafe { library.get::<*const Manifest>(MANIFEST_SYMBOL.as_bytes()) };
    let Ok(symbol) = symbol else {
        // SAFETY: this call looks up the symbol's address, and does not dereference it.
        let preview = unsafe { library.get::<*const u8>(PREVIEW_SYMBOL.as_bytes()) };
        return Err(if preview.is_ok() { Refusal::Preview } else { Refusal::NotAPlugin });
    };
    // SAFETY: a symbol of this name points to a manifest, or to data whose magic and size show that
    // it is not a manifest.
    let manifest = unsafe { Manifest::read(*symbol) }.map_err(Refusal::BadManifest)?;
    let (found, needs) = (manifest.revision(), manifest.needs());
    if found.0 != REVISION.0 || needs > REVISION {
        return Err(Refusal::OtherRevision { found: if needs > REVISION { needs } else { found } });
    }
    Ok(manifest)
}

/// Compares a Rust library's tables with this program's tables. A library whose manifest declares
/// no twin is checked by its manifest and the sizes of its tables.
fn check_twin(library: &Opened, manifest: &Manifest, init: Init) -> Result<(), Refusal> {
    // SAFETY: a symbol of this name is an `abi_stable` header, which is checked before it is used.
    let header = unsafe { library.get::<AbiHeaderRef>(ROOT_MODULE_LOADER_NAME_WITH_NUL.as_bytes()) };
    let header = match (header, manifest.has_twin()) {
        (Ok(header), true) => *header,
        (Err(_), false) => return Ok(()),
        (Err(_), true) => {
            return Err(Refusal::OtherLayout("its manifest declares a twin, which is missing".to_owned()));
        }
        (Ok(_), false) => {
            return Err(Refusal::OtherLayout("it has a twin that its manifest does not declare".to_owned()));
        }
    };
    let header = header.upgrade().map_err(|e| Refusal::OtherLayout(first_line(&e.to_string())))?;
    let of_twin = twin::check(header).map_err(Refusal::OtherLayout)?;
    if std::ptr::fn_addr_eq(of_twin, init) {
        Ok(())
    } else {
        Err(Refusal::OtherLayout("its twin has a different init function".to_owned()))
    }
}

fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

fn source_message(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    source.unwrap_or_else(|| error.to_string())
}
