//! A library that was put into the plugin folder by mistake.

/// An example of a function that such a library exports.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> u32 {
    42
}
