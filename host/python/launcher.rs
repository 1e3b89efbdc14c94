//! The wheel's `ferry` program. The engine is in the extension module, and a second copy in a
//! separate program would make the wheel 50 % larger. This launcher therefore loads the module
//! without Python and calls the program in it.

#![expect(unsafe_code, reason = "a library is opened, and called")]

use libloading::Library;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::process::exit;

/// Exit code if the program cannot be loaded. `ferry` uses the same code for I/O errors.
const NO_PROGRAM: i32 = 5;

type Program = unsafe extern "C" fn() -> c_int;

fn main() {
    let module = std::env::current_exe().ok().and_then(|program| module_of(&program));
    let Some(module) = module else {
        eprintln!("error: the package's extension module is missing: install tensorferry again");
        exit(NO_PROGRAM);
    };
    match program_of(&module) {
        // SAFETY: no other thread exists, and this code runs only once.
        Ok(program) => exit(unsafe { program() }),
        Err(error) => {
            eprintln!("error: {}: {error}: install tensorferry again", module.display());
            exit(NO_PROGRAM);
        }
    }
}

fn program_of(module: &Path) -> Result<Program, libloading::Error> {
    // SAFETY: the module was built and packed together with this program, and its symbol has this
    // type. The module's references to Python are weak, and only its other entry point uses them.
    unsafe {
        // The library is never closed, because threads of the program may outlive the call.
        let library = ManuallyDrop::new(Library::new(module)?);
        Ok(*library.get::<Program>(b"ferry_program")?)
    }
}

/// Returns the path of the extension module in the package that contains this program as
/// `_bin/ferry`.
fn module_of(program: &Path) -> Option<PathBuf> {
    let package = program.parent()?.parent()?;
    // The first name is for the stable ABI, which many Python versions share. The second name is
    // for a single Python version.
    let modules = ["_native.abi3.so", "_native.so"].map(|name| package.join(name));
    modules.into_iter().find(|module| module.exists())
}
