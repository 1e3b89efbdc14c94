//! Plans a new HDF5 file in the simplest form that the HDF5 library, h5py and Keras can read.
//! Everything except the tensors' bytes is at the start of the file.
//!
//! ```text
//! superblock 2, [a global heap with the string that marks BF16], object headers of version 2, each at a multiple of 8;
//! tensors, each at a multiple of 64
//! ```

use super::file::SIGNATURE;
use hdf5_reader::checksum::jenkins_lookup3;
use std::collections::BTreeMap;
use tensorferry_sdk::{Dtype, Error, Result};

const SUPERBLOCK_LEN: u64 = 48;
const HEAP_LEN: u64 = 4096;
const ALIGNMENT: u64 = 64;
const UNDEFINED_ADDRESS: u64 = u64::MAX;
/// Maximum length of a link's name in bytes. This limit ensures that a link message fits in 64 KiB.
pub(crate) const MAX_NAME_BYTES: usize = 60_000;

/// A dataset to write.
pub(crate) struct NewDataset<'a> {
    pub(crate) path: &'a str,
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [u64],
    /// Length of all elements in bytes.
    pub(crate) len: u64,
    /// Index of an earlier dataset with the same data. If set, `path` becomes a second link to that
    /// dataset.
    pub(crate) same_as: Option<usize>,
}

/// A planned HDF5 file.
pub(crate) struct NewFile {
    /// All bytes that precede the tensors.
    pub(crate) front: Vec<u8>,
    /// Offset of the elements of each dataset.
    pub(crate) offsets: Vec<u64>,
}

/// Returns an error if a name is not valid as a path in an HDF5 file.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    let is_name =
        |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0') && name.len() <= MAX_NAME_BYTES;
    if path.split('/').all(is_name) && path.split('/').count() <= 60 {
        Ok(())
    } else {
        Err("its name is not a valid path in an HDF5 file; rename it")
    }
}

/// Returns whether a dtype can be written to an HDF5 file.
pub(crate) fn has_datatype(dtype: Dtype) -> bool {
    datatype(dtype).is_some()
}

#[derive(Default)]
struct Node {
    children: BTreeMap<String, usize>,
    dataset: Option<usize>,
}

/// Plans a file that contains these datasets. [`check_path`] must accept their paths, and no
/// dataset may have the path of a group that contains another dataset.
pub(crate) fn plan(datasets: &[NewDataset<'_>]) -> Result<NewFile> {
    let mut nodes = vec![Node::default()];
    let mut node_of = vec![0; datasets.len()];
    for (number, dataset) in datasets.iter().enumerate() {
        let mut at = 0;
        let mut names = dataset.path.split('/').peekable();
        while let Some(name) = names.next() {
            let next = match (nodes[at].children.get(name), names.peek(), dataset.same_as) {
                (Some(&next), ..) => next,
                (None, None, Some(same)) => node_of[same],
                (None, ..) => {
                    nodes.push(Node::default());
                    nodes.len() - 1
                }
            };
            nodes[at].children.insert(name.to_owned(), next);
            at = next;
        }
        node_of[number] = at;
        nodes[at].dataset.get_or_insert(number);
    }
    let has_heap = datasets.iter().any(|dataset| dataset.dtype == Dtype::BF16);
    // The length of a header does not depend on addresses, so build the headers with dummy
    // addresses first to measure them.
    let nowhere = vec![UNDEFINED_ADDRESS; nodes.len().max(datasets.len())];
    let mut end = SUPERBLOCK_LEN + if has_heap { HEAP_LEN } else { 0 };
    let mut addresses = Vec::with_capacity(nodes.len());
    for node in &nodes {
        addresses.push(end);
        end = (end + header(node, datasets, &nowhere, &nowhere).len() as u64).next_multiple_of(8);
    }
    let front_len = end;
    let mut offsets = Vec::with_capacity(datasets.len());
    for dataset in datasets {
        let too_long = || Error::unsupported("the length of the file does not fit in 64 bits");
        let offset = match dataset.same_as {
            Some(same) => offsets[same],
            None => {
                let offset = end.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_long)?;
                end = offset.checked_add(dataset.len).ok_or_else(too_long)?;
                offset
            }
        };
        offsets.push(offset);
    }
    let mut front = superblock(end, addresses[0]);
    if has_heap {
        front.extend(heap());
    }
    for node in &nodes {
        front.extend(header(node, datasets, &addresses, &offsets));
        front.resize(front.len().next_multiple_of(8), 0);
    }
    debug_assert_eq!(front.len() as u64, front_len);
    Ok(NewFile { front, offsets })
}

fn superblock(end: u64, root: u64) -> Vec<u8> {
    let mut bytes = SIGNATURE.to_vec();
    bytes.extend([2, 8, 8, 0]);
    for number in [0, UNDEFINED_ADDRESS, end, root] {
        bytes.extend(number.to_le_bytes());
    }
    with_checksum(bytes)
}

/// Builds a global heap that contains the string "bfloat16". Keras recognizes the attribute `dtype`
/// only if its value is a string of variable length, which is stored in a heap.
fn heap() -> Vec<u8> {
    let mut bytes = b"GCOL\x01\0\0\0".to_vec();
    bytes.extend(HEAP_LEN.to_le_bytes());
    bytes.extend([1, 0, 1, 0, 0, 0, 0, 0]);
    bytes.extend(8_u64.to_le_bytes());
    bytes.extend(b"bfloat16");
    let free = HEAP_LEN - bytes.len() as u64;
    bytes.extend([0; 8]);
    bytes.extend(free.to_le_bytes());
    bytes.resize(4096, 0);
    bytes
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = jenkins_lookup3(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Builds the object header of a group or dataset.
fn header(node: &Node, datasets: &[NewDataset<'_>], addresses: &[u64], offsets: &[u64]) -> Vec<u8> {
    let mut messages = Vec::new();
    let mut push = |kind: u8, data: &[u8]| {
        messages.push(kind);
        // The length always fits in 16 bits, because link messages are the longest messages and the
        // length of names is limited.
        messages.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_le_bytes());
        messages.push(0);
        messages.extend(data);
    };
    match node.dataset {
        Some(number) => {
            let dataset = &datasets[number];
            let mut space = vec![2, u8::try_from(dataset.shape.len()).unwrap_or(u8::MAX), 0];
            space.push((!dataset.shape.is_empty()).into());
            space.extend(dataset.shape.iter().flat_map(|dim| dim.to_le_bytes()));
            push(1, &space);
            push(3, &datatype(dataset.dtype).unwrap_or_default());
            push(5, &[3, 10]);
            let mut layout = vec![3, 1];
            let offset = if dataset.len == 0 { UNDEFINED_ADDRESS } else { offsets[number] };
            layout.extend(offset.to_le_bytes());
            layout.extend(dataset.len.to_le_bytes());
            push(8, &layout);
            if dataset.dtype == Dtype::BF16 {
                push(12, &dtype_attribute());
            }
        }
        None => {
            push(2, &[[0; 2].as_slice(), &[0xff; 16]].concat());
            push(10, &[0, 0]);
            for (name, &child) in &node.children {
                let mut link = match u8::try_from(name.len()) {
                    Ok(len) => vec![1, 0x10, 1, len],
                    Err(_) => {
                        let len = u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes();
                        vec![1, 0x11, 1, len[0], len[1]]
                    }
                };
                link.extend(name.as_bytes());
                link.extend(addresses[child].to_le_bytes());
                push(6, &link);
            }
        }
    }
    let mut bytes = b"OHDR\x02\x02".to_vec();
    bytes.extend(u32::try_from(messages.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend(messages);
    with_checksum(bytes)
}

/// Builds the attribute `dtype` with the value `bfloat16`.
fn dtype_attribute() -> Vec<u8> {
    let mut bytes = vec![3, 0, 6, 0, 16, 0, 4, 0, 1];
    bytes.extend(b"dtype\0");
    bytes.extend([0x19, 1, 1, 0, 16, 0, 0, 0, 0x13, 0x10, 0, 0, 1, 0, 0, 0]);
    bytes.extend([2, 0, 0, 0]);
    bytes.extend(8_u32.to_le_bytes());
    bytes.extend(SUPERBLOCK_LEN.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes
}

fn datatype(dtype: Dtype) -> Option<Vec<u8>> {
    let integer = |bits: u8, width: u8| vec![0x10, bits, 0, 0, width, 0, 0, 0, 0, 0, 8 * width, 0];
    let complex = |part: Dtype, width: u8| {
        let part = datatype(part)?;
        let mut bytes = vec![0x36, 2, 0, 0, 2 * width, 0, 0, 0];
        for (name, offset) in [(b'r', 0), (b'i', width)] {
            bytes.extend([name, 0, offset]);
            bytes.extend(&part);
        }
        Some(bytes)
    };
    Some(match dtype {
        Dtype::I8 => integer(8, 1),
        Dtype::I16 => integer(8, 2),
        Dtype::I32 => integer(8, 4),
        Dtype::I64 => integer(8, 8),
        Dtype::U8 => integer(0, 1),
        Dtype::U16 => integer(0, 2),
        Dtype::U32 => integer(0, 4),
        Dtype::U64 => integer(0, 8),
        Dtype::F16 => vec![0x11, 0x20, 15, 0, 2, 0, 0, 0, 0, 0, 16, 0, 10, 5, 0, 10, 15, 0, 0, 0],
        Dtype::F32 => vec![0x11, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0],
        Dtype::F64 => vec![0x11, 0x20, 63, 0, 8, 0, 0, 0, 0, 0, 64, 0, 52, 11, 0, 52, 255, 3, 0, 0],
        Dtype::BF16 => vec![0x15, 0, 0, 0, 2, 0, 0, 0],
        Dtype::BOOL => {
            let mut bytes = vec![0x18, 2, 0, 0, 1, 0, 0, 0];
            bytes.extend(integer(8, 1));
            bytes.extend(b"FALSE\0\0\0TRUE\0\0\0\0\0\x01");
            bytes
        }
        Dtype::C64 => return complex(Dtype::F32, 4),
        Dtype::C128 => return complex(Dtype::F64, 8),
        _ => return None,
    })
}
