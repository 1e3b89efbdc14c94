//! A library that was put into the plugin folder by mistake.

/// An example of an export of such a library.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> u32 {
    42
}
