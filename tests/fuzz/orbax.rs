//! Parts of an Orbax checkpoint. In each target, one part is hostile and the others are valid.

use std::sync::LazyLock;
use tensorferry_orbax::Orbax;
use tensorferry_sdk::crc32c;
use tensorferry_test_kit::ocdbt::{Kv, MANIFEST, NODE, frame, leaf, store};
use tensorferry_tests::fuzz;

/// The other files of a store. They ensure that the root exists for any manifest.
static STORE: LazyLock<super::Files> = LazyLock::new(|| fuzz::files_of("orbax/ocdbt_minimal_writer/db"));

/// A leaf with an array of four bytes, as the child of a root.
pub(crate) static LEAF: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let array = described(4, "null").into_bytes();
    leaf("", &[(b"w/.zarray", Kv::Inline(array)), (b"w/0", Kv::Inline(vec![1; 4]))], false)
});

/// The description of a shard with four chunks of one byte each.
const SHARDED: &str = r#"{"zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "uint8", "fill_value": 0,
    "chunk_key_encoding": {"name": "default"},
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
    "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "index_location": "end",
        "codecs": [{"name": "bytes"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}}]}"#;

/// The length of the shard's index without its checksum. The index contains the offset and the
/// length of each chunk.
const SHARD_INDEX: usize = 4 * 16;

/// Reads an OCDBT store three times. The bytes are used as the manifest, as the body of the
/// manifest, and as the body of the root node. Both bodies get a correct checksum.
pub(super) fn read_store(bytes: &[u8]) -> bool {
    let is_manifest = fuzz::read_among(&Orbax, &STORE, "manifest.ocdbt", bytes);
    let is_body = fuzz::read_among(&Orbax, &STORE, "manifest.ocdbt", &frame(MANIFEST, bytes, false));
    let node = frame(NODE, bytes, false);
    let data = [&LEAF[..], &node].concat();
    let height = bytes.first().copied().unwrap_or_default();
    let files: super::Files = store(&data, LEAF.len(), node.len(), height).into_iter().collect();
    fuzz::read_among(&Orbax, &files, "d/x", &data) || is_body || is_manifest
}

/// Reads an array with the bytes as its description, first in zarr 2 and then in zarr 3.
pub(super) fn read_description(bytes: &[u8]) -> bool {
    let files = ["w/0", "w/0.0", "w/c/0", "w/c/0/0"].map(|name| (name.to_owned(), vec![1; 64]));
    let is_second = fuzz::read_among(&Orbax, &files, "w/.zarray", bytes);
    fuzz::read_among(&Orbax, &files, "w/zarr.json", bytes) || is_second
}

/// Reads the bytes as the only chunk of an array, in two ways: as a blosc chunk, and as a shard.
/// The index of the shard gets a correct checksum.
pub(super) fn read_chunk(bytes: &[u8]) -> bool {
    let is_blosc = fuzz::read_among(&Orbax, &chunk_of_blosc(bytes), "w/0", bytes);
    let index = &bytes[bytes.len().saturating_sub(SHARD_INDEX)..];
    let shard = [bytes, &crc32c(index).to_le_bytes()].concat();
    fuzz::read_among(&Orbax, &[("w/zarr.json".to_owned(), SHARDED.into())], "w/c/0", &shard) || is_blosc
}

/// Returns an array with only this chunk. The array has the length that the chunk states, because
/// otherwise every input would be rejected for a wrong length.
pub(crate) fn chunk_of_blosc(chunk: &[u8]) -> super::Files {
    let len = chunk.get(4..8).and_then(|len| len.try_into().ok()).map_or(1, u32::from_le_bytes);
    let blosc = r#"{"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}"#;
    let array = described(len.clamp(1, 1 << 16), blosc).into_bytes();
    vec![("w/.zarray".to_owned(), array), ("w/0".to_owned(), chunk.to_vec())]
}

/// Returns the description of an array of bytes in one chunk.
fn described(len: u32, compressor: &str) -> String {
    format!(
        r#"{{"zarr_format": 2, "shape": [{len}], "chunks": [{len}], "dtype": "|u1", "fill_value": 0, "order": "C",
            "filters": null, "compressor": {compressor}}}"#
    )
}
