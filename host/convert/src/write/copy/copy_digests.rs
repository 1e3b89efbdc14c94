//! Computes digests for a receipt from the bytes in the copy's buffers. These are digests of the
//! tensors' content and, if the algorithm is BLAKE3, of the input and output files. Bytes that are
//! not in the buffers, or whose form in the buffers differs, are read afterwards.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::OnceLock;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{
    ByteOrder, CatalogView, Content, Data, FileId, Layout, Order, PlacedSegment, Result, Segment, Source,
    StorageId, TensorId, TensorPart,
};
use tensorferry_tensors::content::{self, Algorithm, ContentDigest};
use tensorferry_tensors::copy_plan::tensor_of;
use tensorferry_tensors::hash_tree::HashTree;
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::stored::Stored;

/// The hashed parts of an input's files.
pub type InputTrees = BTreeMap<FileId, HashTree>;

/// The hashed parts of all tensors and files that have a digest in the receipt.
pub struct CopyDigests {
    /// The hashed parts of each tensor's content, in the order of the tensors.
    contents: Vec<OnceLock<ContentDigestState>>,
    inputs: InputTrees,
    /// The hashed parts of each output file; `None` for files that are not copied.
    outputs: Vec<Option<HashTree>>,
}

enum ContentDigestState {
    Whole(ContentDigest),
    Parts(Box<ContentParts>),
}

/// The hashed parts of a tensor whose bytes are in several windows.
struct ContentParts {
    header: Vec<u8>,
    tree: HashTree,
}

impl CopyDigests {
    /// Returns a state in which no bytes are hashed. `algorithm` is used for the file digests.
    /// SHA-256 needs the bytes of a file in order, so the copy does not compute SHA-256 digests.
    pub(super) fn new(layout: &Layout, logical: &Logical<'_>, algorithm: Algorithm) -> Result<Self> {
        let contents = logical.tensor_ids().map(|_| OnceLock::new()).collect();
        if algorithm == Algorithm::Sha256 {
            return Ok(Self { contents, inputs: InputTrees::new(), outputs: Vec::new() });
        }
        let source = logical.stored().source();
        let input = |name: &str| {
            let file = source.open(name)?;
            Ok((file, HashTree::new(source.len(file))))
        };
        let is_copied = |content: &Content| matches!(content, Content::Copied(_));
        let outputs = layout.files().iter();
        Ok(Self {
            contents,
            inputs: source.opened().into_iter().map(input).collect::<Result<_>>()?,
            outputs: outputs.map(|file| is_copied(&file.content).then(|| HashTree::new(file.len))).collect(),
        })
    }

    /// Adds bytes of a storage in their stored form.
    pub(super) fn add_read(
        &self,
        stored: &Stored<'_>,
        storage: StorageId,
        from: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let Some((file, start)) = stored.place_in_file(storage) else { return Ok(()) };
        let Some(tree) = self.inputs.get(&file) else { return Ok(()) };
        tree.add_piece(start + from, bytes, |at, rest| stored.source().read_at(file, at, rest))
    }

    /// Adds a written window. `runs` are the filled parts of the window, and `segments` are the
    /// segments of its file.
    pub(super) fn add_window(
        &self,
        logical: &Logical<'_>,
        (file, segments): (usize, &[PlacedSegment]),
        start: u64,
        bytes: &[u8],
        runs: &[Range<u64>],
    ) -> Result<()> {
        let tree = self.outputs.get(file).and_then(Option::as_ref);
        let part = |range: &Range<u64>| &bytes[size(range.start - start)..size(range.end - start)];
        for run in runs {
            let mut final_from = run.start;
            let first = segments.partition_point(|placed| placed.offset + placed.len <= run.start);
            for placed in segments[first..].iter().take_while(|placed| placed.offset < run.end) {
                let inside = placed.offset.max(run.start)..(placed.offset + placed.len).min(run.end);
                match &placed.segment {
                    Segment::Deferred(_) => {
                        if let Some(tree) = tree {
                            tree.add(final_from, part(&(final_from..inside.start)));
                        }
                        final_from = inside.end;
                    }
                    Segment::Tensor(tensor) => {
                        self.add_content(logical, tensor, inside.start - placed.offset, part(&inside))?;
                    }
                    _ => {}
                }
            }
            if let Some(tree) = tree {
                tree.add(final_from, part(&(final_from..run.end)));
            }
        }
        Ok(())
    }

    /// Adds bytes of a tensor, if the written bytes are the tensor's logical bytes.
    fn add_content(&self, logical: &Logical<'_>, part: &TensorPart, at: u64, bytes: &[u8]) -> Result<()> {
        let id = part.tensor;
        let tensor = tensor_of(logical.catalog(), id)?;
        let is_whole = part.region.as_ref().is_none_or(|region| region.is_whole(&tensor.shape));
        let is_row_major = part.order == Order::C || tensor.shape.len() < 2;
        let is_logical = is_whole && is_row_major && part.byte_order == ByteOrder::Little;
        if !is_logical || logical.tied_to(id) != id {
            return Ok(());
        }
        let content = &self.contents[id.0 as usize];
        if bytes.len() as u64 == tensor.bytes {
            let mut hasher = blake3::Hasher::new();
            hasher.update(&content::header(logical, id)?).update(bytes);
            let _ = content.set(ContentDigestState::Whole(hasher.finalize().into()));
            return Ok(());
        }
        // If the tensor consists of blocks, each missing byte would require a gather of the whole
        // tensor.
        if !matches!(tensor.data, Data::Whole { .. }) {
            return Ok(());
        }
        let header = content::header(logical, id)?;
        let len = header.len() as u64 + tensor.bytes;
        let parts = || ContentDigestState::Parts(Box::new(ContentParts { header, tree: HashTree::new(len) }));
        let ContentDigestState::Parts(parts) = content.get_or_init(parts) else { return Ok(()) };
        let at = parts.header.len() as u64 + at;
        parts.tree.add_piece(at, bytes, |at, rest| parts.read(logical, id, at, rest))
    }

    /// Returns the digests of all tensors, in order. Reads the bytes that have not passed through
    /// the buffers.
    pub fn contents(&self, logical: &Logical<'_>) -> Result<Vec<ContentDigest>> {
        let session = logical.stored().session();
        content::each_of(logical, |id| match self.contents[id.0 as usize].get() {
            Some(ContentDigestState::Whole(digest)) => Ok(*digest),
            Some(ContentDigestState::Parts(parts)) => {
                parts.tree.finish(session, |at, bytes| parts.read(logical, id, at, bytes))
            }
            None => {
                session.will_check(logical.tensor(id).bytes);
                content::tensor(logical, id, Algorithm::Blake3)
            }
        })
    }

    /// Returns the hashed parts of the input's files.
    #[must_use]
    pub fn inputs(&self) -> &InputTrees {
        &self.inputs
    }

    /// Returns the hashed parts of an output file.
    #[must_use]
    pub fn output(&self, place: usize) -> Option<&HashTree> {
        self.outputs.get(place)?.as_ref()
    }
}

impl ContentParts {
    /// Reads bytes that a tensor's digest covers: the header, then the tensor's bytes.
    fn read(&self, logical: &Logical<'_>, id: TensorId, at: u64, bytes: &mut [u8]) -> Result<()> {
        let header = self.header.get(size(at)..).unwrap_or_default();
        let (of_header, of_tensor) = bytes.split_at_mut(header.len().min(bytes.len()));
        of_header.copy_from_slice(&header[..of_header.len()]);
        let from = at + of_header.len() as u64 - self.header.len() as u64;
        if of_tensor.is_empty() { Ok(()) } else { logical.read(id, from, of_tensor) }
    }
}
