//! Limits restrict how much a hostile file can make a reader allocate or process.

/// The limits for parsing an input. The host enforces all limits when a catalog crosses the
/// boundary. Readers check the limits for their own buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size in bytes of a header, pickle, index or directory that a reader keeps in memory.
    pub header_bytes: u64,
    /// Maximum number of tensors in a catalog.
    pub tensors: u64,
    /// Maximum number of entries in an archive, of blocks in all tensors, and of storages in a
    /// catalog. The three numbers are counted separately.
    pub entries: u64,
    /// Maximum number of nodes in the tree of non-tensor state, and maximum number of values in a
    /// pickle. A node uses up to 300 bytes of memory.
    pub nodes: u64,
    /// Maximum nesting depth of the tree of non-tensor state.
    pub nesting: u64,
    /// Maximum length in bytes of a tensor name or a metadata key.
    pub name_bytes: u64,
    /// Maximum number of columns in the records of an input, including nested columns. Each row of
    /// a batch uses space for every column, so a small file with many columns could otherwise need
    /// a lot of memory and time.
    pub columns: u64,
    /// Maximum number of bytes that broadcast views and fill values may add to the stored bytes of
    /// all tensors in a catalog. The limit also applies to compressed record files. The records of
    /// such a file may exceed a thousand times the length of the file by at most this number of
    /// bytes. The host adds a thousand times the size of the user's input, up to 60 GiB.
    pub expanded_bytes: u64,
    /// Maximum memory in bytes for all data that a run reads, decodes and encodes, on all threads.
    /// Buffers whose size depends on the input count toward this limit. An example is a chunk that
    /// is encoded as a whole.
    pub memory_bytes: u64,
    /// Maximum number of bytes by which the total size of tensors and rows that share stored bytes
    /// may exceed the stored bytes. Examples of sharing are several names for one storage,
    /// overlapping views, and several views of one string. If four times the size of the user's
    /// input is larger, the host uses that number of bytes instead. Setting `expanded_bytes` also
    /// sets this limit.
    pub shared_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: 512 << 20,
            tensors: 4 << 20,
            entries: 16 << 20,
            nodes: 4 << 20,
            nesting: 256,
            name_bytes: 64 << 10,
            columns: 16 << 10,
            expanded_bytes: 4 << 30,
            memory_bytes: 256 << 20,
            shared_bytes: 64 << 20,
        }
    }
}

macro_rules! by_name {
    ($($name:ident),* $(,)?) => {
        impl Limits {
            /// Returns the value of the limit with this name. The ABI uses the same names. A host
            /// may have limits that a plugin does not know.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }

            /// The names of all limits, as users spell them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Sets the limit with this name. Returns whether the limit exists.
            #[must_use]
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                // The option `expanded_bytes` sets both limits.
                if name == "expanded_bytes" {
                    self.shared_bytes = value;
                }
                true
            }

            /// Looks up every limit in this version of the SDK. If the host does not know a limit,
            /// the limit keeps its default.
            pub(crate) fn from_lookup(mut lookup: impl FnMut(&str) -> Option<u64>) -> Self {
                let default = Self::default();
                Self { $($name: lookup(stringify!($name)).unwrap_or(default.$name),)* }
            }
        }
    };
}

by_name!(
    header_bytes,
    tensors,
    entries,
    nodes,
    nesting,
    name_bytes,
    columns,
    expanded_bytes,
    memory_bytes,
    shared_bytes
);
