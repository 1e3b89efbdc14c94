//! A library that somebody put into the plugin folder by mistake.

/// Something that such a library may export.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> u32 {
    42
}
