//! Builds HDF5 files by hand.

use hdf5_reader::checksum::jenkins_lookup3;

pub(crate) const UNDEFINED_ADDRESS: [u8; 8] = [0xff; 8];
/// Types of messages in an object header.
pub(crate) const SPACE: u16 = 1;
pub(crate) const TYPE: u16 = 3;
pub(crate) const LINK: u16 = 6;
pub(crate) const LAYOUT: u16 = 8;
pub(crate) const ATTRIBUTE: u16 = 12;
pub(crate) const U8: &[u8] = &[0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];
/// Datatypes: a one-byte string, and a string of variable length in a heap.
pub(crate) const FIXED: &[u8] = &[0x13, 0, 0, 0, 1, 0, 0, 0];
pub(crate) const VARIABLE: &[u8] = &[0x19, 1, 1, 0, 16, 0, 0, 0, 0x13, 0x10, 0, 0, 1, 0, 0, 0];

pub(crate) type Messages = Vec<(u16, Vec<u8>)>;

/// An HDF5 file under construction.
pub(crate) struct H5(Vec<u8>);

impl H5 {
    pub(crate) fn new() -> Self {
        Self(vec![0; 48])
    }

    /// Appends bytes and returns their address.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> u64 {
        let address = self.0.len() as u64;
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        address
    }

    /// Appends an object header of version 1, which has no checksum.
    pub(crate) fn object(&mut self, messages: &Messages) -> u64 {
        let mut bytes = Vec::new();
        for (kind, message) in messages {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(u16::try_from(message.len()).unwrap().to_le_bytes());
            bytes.extend([0; 4]);
            bytes.extend(message);
        }
        let mut header = vec![1, 0, 0, 0, 1, 0, 0, 0];
        header.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        header.extend([0; 4]);
        header.extend(bytes);
        self.put(&header)
    }

    pub(crate) fn dataset(&mut self, datatype: &[u8], count: u64, layout: Vec<u8>) -> u64 {
        self.object(&vec![(SPACE, space(count)), (TYPE, datatype.to_vec()), (LAYOUT, layout)])
    }

    /// Appends the object header of a dataset that contains these elements.
    pub(crate) fn elements(&mut self, datatype: &[u8], count: u64, elements: &[u8]) -> u64 {
        let at = self.put(elements).to_le_bytes();
        let len = (elements.len() as u64).to_le_bytes();
        self.dataset(datatype, count, [&[3, 1], &at[..], &len].concat())
    }

    /// Appends a global heap that contains these strings. The last string has the index 1.
    pub(crate) fn heap(&mut self, texts: &[&[u8]]) -> u64 {
        let mut objects = Vec::new();
        for (text, number) in texts.iter().zip((1..=texts.len()).rev()) {
            objects.extend(u16::try_from(number).unwrap().to_le_bytes());
            objects.extend([0; 6]);
            objects.extend((text.len() as u64).to_le_bytes());
            objects.extend(*text);
            objects.resize(objects.len().next_multiple_of(8), 0);
        }
        let len = (objects.len() as u64 + 16).to_le_bytes();
        self.put(&[b"GCOL\x01\0\0\0", &len[..], &objects].concat())
    }

    pub(crate) fn end(mut self, root: u64) -> Vec<u8> {
        let mut superblock = b"\x89HDF\r\n\x1a\n\x02\x08\x08\0".to_vec();
        for number in [0, u64::MAX, self.0.len() as u64, root] {
            superblock.extend(number.to_le_bytes());
        }
        superblock.extend(jenkins_lookup3(&superblock).to_le_bytes());
        self.0[..48].copy_from_slice(&superblock);
        self.0
    }
}

pub(crate) fn space(count: u64) -> Vec<u8> {
    [&[2, 1, 0, 1], &count.to_le_bytes()[..]].concat()
}

pub(crate) fn link(name: &str, address: u64) -> (u16, Vec<u8>) {
    let len = u16::try_from(name.len()).unwrap().to_le_bytes();
    (LINK, [&[1, 0x11, 1], &len[..], name.as_bytes(), &address.to_le_bytes()].concat())
}

pub(crate) fn links(count: usize, address: u64) -> Messages {
    (0..count).map(|number| link(&number.to_string(), address)).collect()
}

pub(crate) fn attribute(name: &str, datatype: &[u8], count: u64, data: &[u8]) -> (u16, Vec<u8>) {
    let space = space(count);
    let lens =
        [name.len() + 1, datatype.len(), space.len()].map(|len| u16::try_from(len).unwrap().to_le_bytes());
    (ATTRIBUTE, [&[3, 0], &lens.concat()[..], &[1], name.as_bytes(), &[0], datatype, &space, data].concat())
}

/// Builds the layout message of a dataset with chunks of one byte and a B-tree at this address.
pub(crate) fn chunked(address: [u8; 8]) -> Vec<u8> {
    [&[3, 2, 2], &address[..], &1_u32.to_le_bytes(), &1_u32.to_le_bytes()].concat()
}
