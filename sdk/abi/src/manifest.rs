//! A manifest describes a library before any function of the library is called. The manifest is a
//! single exported symbol that contains only plain data.

use crate::boundary::{FormatTable, Host, HostCalls, ObjectTable, Registrar, RegistrarCalls, RegistrarTable};
use crate::crossing::Argument;
use crate::error_sink::{ErrorSink, call, guard, keep_panics_quiet};
use crate::failure::{Failure, Sender, class};
use crate::object::{Borrowed, Owned, Table};
use std::sync::{Mutex, PoisonError};

/// The name of the symbol that exports the [`Manifest`] of a library.
pub const MANIFEST_SYMBOL: &str = "FERRY_PLUGIN";

/// The name of the symbol that libraries export if they were built for a preview of the boundary,
/// before revision 1.0. The preview had no stability guarantee.
pub const PREVIEW_SYMBOL: &str = "FERRY_PLUGIN_MANIFEST";

/// The revision of the boundary. The first number is the major revision, and a library with a
/// different major revision is rejected. The second number is the minor revision, which counts
/// additions.
pub const REVISION: (u32, u32) =
    (number(env!("CARGO_PKG_VERSION_MAJOR")), number(env!("CARGO_PKG_VERSION_MINOR")));

/// The flag that marks a library that exports a twin ([`crate::twin`]).
pub const HAS_TWIN: u32 = 1;

/// Name of the object kind for formats.
const FORMAT: &str = "format";

/// The function that passes all objects of a library to the registrar.
pub type Init = unsafe extern "C" fn(host: Host, registrar: Registrar, err: ErrorSink) -> i32;

const MAGIC: [u8; 16] = *b"ferry plugin\0\0\0\x02";

/// The description of a library. The layout of the manifest never changes, because the host must
/// read the manifest to determine the revision. Texts are UTF-8, truncated if they are too long,
/// and padded with zeros.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Manifest {
    magic: [u8; 16],
    size: u32,
    major: u32,
    minor_built: u32,
    minor_needed: u32,
    flags: u32,
    name: [u8; 64],
    version: [u8; 32],
    sdk: [u8; 32],
    init: Option<Init>,
}

impl Manifest {
    /// Creates the manifest of a Rust library that was built with this revision and exports a twin.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the manifest takes about 200 bytes")]
    pub const fn new<L: Library>(name: &str, version: &str, sdk: &str) -> Self {
        Self {
            magic: MAGIC,
            size: size_of::<Self>() as u32,
            major: REVISION.0,
            minor_built: REVISION.1,
            minor_needed: 0,
            flags: HAS_TWIN,
            name: padded(name),
            version: padded(version),
            sdk: padded(sdk),
            init: Some(init::<L>),
        }
    }

    /// Reads the manifest at the address of a symbol.
    ///
    /// # Safety
    /// The symbol must not be null. The symbol must point to at least the first 20 bytes of a
    /// manifest, which contain the magic and the size.
    ///
    /// # Errors
    /// Returns an error if the symbol is not a manifest. The error is intended for the author of
    /// the library.
    pub unsafe fn read(symbol: *const Self) -> Result<Self, String> {
        // SAFETY: the caller upholds this function's safety contract.
        let is_marked = symbol.is_aligned() && unsafe { (&raw const (*symbol).magic).read() } == MAGIC;
        if !is_marked {
            return Err("does not begin with its magic, FERRY_MAGIC".to_owned());
        }
        // SAFETY: the caller upholds this function's safety contract.
        let (size, least) = (unsafe { (&raw const (*symbol).size).read() } as usize, size_of::<Self>());
        if size < least {
            return Err(format!("must say its size in bytes: expected at least {least}, found {size}"));
        }
        // SAFETY: the manifest is as long as the size that it declares.
        Ok(unsafe { symbol.read() })
    }

    /// Returns the revision that the library was built for.
    #[must_use]
    pub fn revision(&self) -> (u32, u32) {
        (self.major, self.minor_built)
    }

    /// Returns the minimum revision that the host must have.
    #[must_use]
    pub fn needs(&self) -> (u32, u32) {
        (self.major, self.minor_needed)
    }

    /// Returns whether the library declares a twin.
    #[must_use]
    pub fn has_twin(&self) -> bool {
        self.flags & HAS_TWIN != 0
    }

    /// Returns the function that offers the library's objects.
    #[must_use]
    pub fn init(&self) -> Option<Init> {
        self.init
    }

    /// Returns the name of the library's package.
    #[must_use]
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// Returns the version of the package.
    #[must_use]
    pub fn version(&self) -> String {
        text(&self.version)
    }

    /// Returns the version of the SDK that the library was built with.
    #[must_use]
    pub fn sdk_version(&self) -> String {
        text(&self.sdk)
    }
}

/// Maximum number of log lines that are kept while a library starts.
const MOST_LINES: usize = 100;

/// A plugin library in Rust.
pub trait Library: 'static {
    /// Creates the formats of the library.
    fn formats() -> Result<Vec<Owned<FormatTable>>, Failure>;
}

/// Passes each format of a library to the registrar of the host.
pub(crate) unsafe extern "C" fn init<L: Library>(_host: Host, registrar: Registrar, err: ErrorSink) -> i32 {
    keep_panics_quiet();
    let run = || {
        // SAFETY: the host follows the crate's rules.
        let registrar: Borrowed<'_, RegistrarTable> = unsafe { Argument::raise(registrar) }?;
        L::formats()?.into_iter().try_for_each(|format| registrar.add(FORMAT, untyped(format)?))
    };
    // SAFETY: the host follows the crate's rules.
    unsafe { guard(err, "init", run) }
}

/// Returns the formats that a library offers, and the lines that the library logged for the user.
/// Each line has a level as in `Context.log`.
///
/// # Safety
/// `init` must follow the crate's rules.
///
/// # Errors
/// Returns the failure that `init` reported.
pub unsafe fn formats_of(init: Init) -> Result<(Vec<Owned<FormatTable>>, Vec<(u32, String)>), Failure> {
    #[derive(Default)]
    struct Program(Mutex<Vec<(u32, String)>>);

    impl HostCalls for Program {
        fn log(&self, level: u32, message: &str) -> Result<(), Failure> {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if lines.len() < MOST_LINES {
                lines.push((level, message.to_owned()));
            }
            Ok(())
        }

        fn revision(&self) -> Result<(u32, u32), Failure> {
            Ok(REVISION)
        }
    }

    struct Offered(Vec<Owned<FormatTable>>);

    impl RegistrarCalls for Offered {
        fn add(&mut self, kind: &str, object: Owned<ObjectTable>) -> Result<(), Failure> {
            if kind != FORMAT {
                let message = format!("this ferry does not accept {kind:?} from a plugin, only formats");
                return Err(Failure::new(class::UNSUPPORTED, message));
            }
            // SAFETY: the library follows the rules, so the object is of the declared kind, which
            // is `FORMAT`.
            self.0.push(unsafe { typed(object) }?);
            Ok(())
        }
    }

    let mut offered = Offered(Vec::new());
    let program = Program::default();
    let (host, registrar) = (Borrowed::shared(&program).object(), Borrowed::sink(&mut offered).object());
    // SAFETY: the caller upholds this function's safety contract. Both objects live until the call
    // returns.
    call(Sender::Plugin, |err| unsafe { init(host, registrar, err) })?;
    Ok((offered.0, program.0.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

/// Returns the formats of a library that is linked into this program, as a host would receive them.
/// This function is intended for tests.
///
/// # Errors
/// Returns the failure that the library reported.
pub fn offered_by<L: Library>() -> Result<Vec<Owned<FormatTable>>, Failure> {
    // SAFETY: `init` is a function of this crate, so it follows the rules.
    Ok(unsafe { formats_of(init::<L>) }?.0)
}

/// Converts an object to the type that all kinds of objects share. The kind of the object is passed
/// separately.
fn untyped<T: Table>(object: Owned<T>) -> Result<Owned<ObjectTable>, Failure> {
    let (table, this) = T::halves(object.into_object());
    // SAFETY: every table begins with the slots of `ObjectTable`, and ownership of the object is
    // transferred.
    unsafe { Owned::raise(ObjectTable::object(table.cast(), this)) }
}

/// Converts an object of unknown kind to an object of the kind `T`.
///
/// # Safety
/// The object must be of the kind `T`.
unsafe fn typed<T: Table>(object: Owned<ObjectTable>) -> Result<Owned<T>, Failure> {
    let (table, this) = ObjectTable::halves(object.into_object());
    // SAFETY: the caller upholds this function's safety contract. Ownership of the object is
    // transferred.
    unsafe { Owned::raise(T::object(table.cast(), this)) }
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
