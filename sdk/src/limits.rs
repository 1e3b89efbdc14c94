//! Limits bound what a hostile file can make a reader allocate or iterate over.

/// The limits while an input is parsed. The host enforces each of them when a catalog crosses the
/// boundary. Readers check those that bound their own buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum bytes of one header, pickle, index or directory that a reader may hold in memory.
    pub header_bytes: u64,
    /// Maximum tensors in one catalog.
    pub tensors: u64,
    /// Maximum entries of an archive, blocks of all tensors, and storages of one catalog; each is
    /// counted separately.
    pub entries: u64,
    /// Maximum nodes of the tree of non-tensor state, and values of a pickle. A node takes up to
    /// 300 bytes of memory.
    pub nodes: u64,
    /// Maximum nesting depth of that tree.
    pub nesting: u64,
    /// Maximum bytes of one tensor's name, or of one metadata key.
    pub name_bytes: u64,
    /// Maximum columns in the records of one input, including nested columns. A batch of rows has
    /// room for each column in every row, so a small file could otherwise cause a lot of work.
    pub columns: u64,
    /// Maximum bytes that all tensors of a catalog may have beyond their stored bytes, through
    /// broadcast views and fill values. This is also the maximum by which the records of a
    /// compressed file may exceed a thousand times the length of the file. The host adds a thousand
    /// times the size of the user's input, up to 60 GiB.
    pub expanded_bytes: u64,
    /// Maximum memory in bytes for everything that the run reads, decodes and encodes, on all its
    /// threads. Buffers of a call that grow with the input, such as a chunk that is encoded as a
    /// whole, count toward this limit.
    pub memory_bytes: u64,
    /// Maximum bytes that tensors and rows may have beyond the stored bytes that they share:
    /// several names for one storage, overlapping views, or several views of one string. The host
    /// allows four times the size of the user's input if that is more. Setting `expanded_bytes`
    /// sets this limit too.
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
            /// Returns the limit of this name, which is also its name in the ABI. A host may have
            /// limits that a plugin does not know.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }

            /// The names of all limits, as users write them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Sets the limit of this name, and returns whether it exists.
            #[must_use]
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                // The option `expanded_bytes` raises both limits.
                if name == "expanded_bytes" {
                    self.shared_bytes = value;
                }
                true
            }

            /// Looks up every limit that this SDK knows. A limit that the host lacks keeps its
            /// default.
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
