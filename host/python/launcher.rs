//! The program `ferry` of the wheel. It is a part of the extension module, since both have the engine in them: two files of it
//! would make the wheel half as large again. This opens the module without Python, and calls it.

#![expect(unsafe_code, reason = "a library is opened, and called")]

use libloading::Library;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process::exit;

/// What is given where the program cannot be had; ferry's own code of i/o.
const NO_PROGRAM: i32 = 5;

type Program = unsafe extern "C" fn() -> c_int;

fn main() {
    let module = std::env::current_exe().ok().and_then(|program| module_of(&program));
    let Some(module) = module else {
        eprintln!("error: the package's extension module is missing: install tensorferry again");
        exit(NO_PROGRAM);
    };
    match program_of(&module) {
        // SAFETY: it is called once, by the only thread.
        Ok(program) => exit(unsafe { program() }),
        Err(error) => {
            eprintln!("error: {}: {error}: install tensorferry again", module.display());
            exit(NO_PROGRAM);
        }
    }
}

fn program_of(module: &Path) -> Result<Program, libloading::Error> {
    // SAFETY: the module was built and packed together with this program, with this symbol of this type. What it needs of
    // Python is weak in it, and only its other entry uses that.
    unsafe {
        // It stays open to the end: threads of the program may outlive the call.
        let library = ManuallyDrop::new(Library::new(module)?);
        Ok(*library.get::<Program>(b"ferry_program")?)
    }
}

/// The module that lies in the package whose `_bin/ferry` this is.
fn module_of(program: &Path) -> Option<PathBuf> {
    let package = program.parent()?.parent()?;
    // For any Python from one version on, or for one alone.
    let modules = ["_native.abi3.so", "_native.so"].map(|name| package.join(name));
    modules.into_iter().find(|module| module.exists())
}
