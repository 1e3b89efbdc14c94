//! Limits bound what a hostile file can make a reader allocate or walk.

/// The bounds that hold while an input is parsed. Every number is enforced by the host as a
/// catalog crosses the boundary; a reader asks for those that bound its own buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one header, pickle, index or directory that a reader may hold in memory.
    pub header_bytes: u64,
    /// Tensors in one catalog.
    pub tensors: u64,
    /// Entries of an archive, blocks of all tensors, storages of one catalog: each.
    pub entries: u64,
    /// Nodes of the tree of non-tensor state, and values of a pickle: one takes up to 300 bytes of memory.
    pub nodes: u64,
    /// How deep that tree may nest.
    pub nesting: u64,
    /// Bytes of one tensor's name, or of one metadata key.
    pub name_bytes: u64,
    /// Columns that the records of one input may have, nested ones counted. A batch of rows has room for each
    /// of them in every row, so that rows times columns is work that a small file can ask for.
    pub columns: u64,
    /// Bytes that tensors may have beyond the bytes that are stored for them (broadcast views,
    /// fill values): all tensors of a catalog together. Bytes that the records of a compressed file may
    /// have beyond a thousand times its length. The host adds a thousand times the bytes of what the user named, up to
    /// 60 GiB.
    pub expanded_bytes: u64,
    /// Bytes of memory that the run may take for what it reads, decodes and encodes, on all its threads. What a call holds
    /// that grows with the input, such as a chunk that it encodes as a whole, is a part of it.
    pub memory_bytes: u64,
    /// Bytes that tensors and rows which share stored bytes may have beyond these: names of one storage, overlapping
    /// views, texts that many views are of. The host allows four times the bytes of what the user named, if that is more,
    /// and setting `expanded_bytes` sets this limit too.
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
            /// The limit of this name, as it crosses the ABI too: a host may have more than a plugin knows.
            #[must_use]
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }

            /// The names of all limits, as a user says them.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];

            /// Sets the limit of this name; whether there is one.
            #[must_use]
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                // One number raises both, whichever of them an error is about.
                if name == "expanded_bytes" {
                    self.shared_bytes = value;
                }
                true
            }

            /// Every limit that this SDK knows, asked by name; one that the host lacks keeps its default.
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
