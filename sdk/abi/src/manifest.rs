//! A manifest is what a library says of itself before any of its functions is called: plain bytes
//! under one symbol.

/// The symbol under which a library exports its [`Manifest`].
pub const MANIFEST_SYMBOL: &str = "FERRY_PLUGIN_MANIFEST";

/// The ABI's revision: major (another one is refused) and minor (additions).
pub const REVISION: (u32, u32) =
    (number(env!("CARGO_PKG_VERSION_MAJOR")), number(env!("CARGO_PKG_VERSION_MINOR")));

const MAGIC: [u8; 16] = *b"ferry plugin\0\0\0\x01";

/// The layout is fixed for ever, also across revisions: it is read to learn the revision. Texts are
/// UTF-8, cut to fit, padded with zeros.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Manifest {
    magic: [u8; 16],
    revision_major: u32,
    revision_minor: u32,
    name: [u8; 64],
    version: [u8; 32],
    sdk_version: [u8; 32],
}

impl Manifest {
    /// The manifest of a library of this crate's revision.
    #[must_use]
    pub const fn new(name: &str, version: &str, sdk_version: &str) -> Self {
        Self {
            magic: MAGIC,
            revision_major: REVISION.0,
            revision_minor: REVISION.1,
            name: padded(name),
            version: padded(version),
            sdk_version: padded(sdk_version),
        }
    }

    /// Whether the symbol is a manifest at all.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.magic == MAGIC
    }

    /// The revision that the library was built for.
    #[must_use]
    pub fn revision(&self) -> (u32, u32) {
        (self.revision_major, self.revision_minor)
    }

    /// The library's package.
    #[must_use]
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// The package's version.
    #[must_use]
    pub fn version(&self) -> String {
        text(&self.version)
    }

    /// The version of the SDK that it was built with.
    #[must_use]
    pub fn sdk_version(&self) -> String {
        text(&self.sdk_version)
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

const fn padded<const N: usize>(text: &str) -> [u8; N] {
    let bytes = text.as_bytes();
    let mut padded = [0; N];
    let mut i = 0;
    while i < bytes.len() && i < N {
        padded[i] = bytes[i];
        i += 1;
    }
    padded
}

const fn number(text: &str) -> u32 {
    let digits = text.as_bytes();
    let mut value = 0;
    let mut i = 0;
    while i < digits.len() {
        value = value * 10 + (digits[i] - b'0') as u32;
        i += 1;
    }
    value
}
