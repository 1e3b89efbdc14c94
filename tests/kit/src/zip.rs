//! Hand-made zip archives, in which each field can be falsified.

/// An entry: the fields of its local header and its directory header, and its bytes.
#[derive(Debug, Clone)]
pub struct Entry {
    pub local: Header,
    pub central: Header,
    pub bytes: Vec<u8>,
    /// Replaces the offset in the directory.
    pub offset: Option<u32>,
    pub disk: u16,
}

#[derive(Debug, Clone)]
pub struct Header {
    pub name: Vec<u8>,
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    pub stored_len: u32,
    pub len: u32,
    pub extra: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub struct Zip {
    pub entries: Vec<Entry>,
    /// Replaces the count in the end record.
    pub count: Option<u16>,
    pub disk: u16,
    pub zip64: Option<Zip64>,
    pub after_directory: Vec<u8>,
    pub junk: Vec<u8>,
}

/// Values that a zip64 end record adds to the true values.
#[derive(Debug, Clone, Default)]
pub struct Zip64 {
    pub more_entries: u64,
    pub more_offset: u64,
}

impl Zip {
    /// Adds a member in `m/`, the folder that torch uses in an archive `m.pt`.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> &mut Entry {
        self.member(&format!("m/{name}"), bytes)
    }

    pub fn member(&mut self, name: &str, bytes: &[u8]) -> &mut Entry {
        let len = u32::try_from(bytes.len()).unwrap();
        let header = Header {
            name: name.as_bytes().to_vec(),
            flags: 0,
            method: 0,
            crc: 0,
            stored_len: len,
            len,
            extra: Vec::new(),
        };
        self.entries.push(Entry {
            local: header.clone(),
            central: header,
            bytes: bytes.to_vec(),
            offset: None,
            disk: 0,
        });
        self.entries.last_mut().unwrap()
    }

    /// Returns an archive that torch accepts: the pickle, a version, and the storages `data/0`,
    /// `data/1`, ...
    pub fn torch(pickle: &[u8], storages: &[&[u8]]) -> Self {
        let mut zip = Self::default();
        zip.add("data.pkl", pickle);
        for (index, bytes) in storages.iter().enumerate() {
            zip.add(&format!("data/{index}"), bytes);
        }
        zip.add("version", b"3\n");
        zip
    }

    pub fn entry(&mut self, name: &str) -> &mut Entry {
        let name = format!("m/{name}").into_bytes();
        self.entries.iter_mut().find(|entry| entry.central.name == name).unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut offsets = Vec::new();
        for entry in &self.entries {
            offsets.push(u32::try_from(file.len()).unwrap());
            file.extend(b"PK\x03\x04\0\0");
            entry.local.push(&mut file);
            file.extend(&entry.local.name);
            file.extend(&entry.local.extra);
            file.extend(&entry.bytes);
        }
        let directory = u32::try_from(file.len()).unwrap();
        for (entry, &offset) in self.entries.iter().zip(&offsets) {
            file.extend(b"PK\x01\x02\0\0\0\0");
            entry.central.push(&mut file);
            file.extend([0; 2]);
            file.extend(entry.disk.to_le_bytes());
            file.extend([0; 6]);
            file.extend(entry.offset.unwrap_or(offset).to_le_bytes());
            file.extend(&entry.central.name);
            file.extend(&entry.central.extra);
        }
        file.extend(&self.after_directory);
        let end = u32::try_from(file.len()).unwrap();
        let count = u16::try_from(self.entries.len()).unwrap();
        if let Some(zip64) = &self.zip64 {
            let count = u64::from(count) + zip64.more_entries;
            file.extend(b"PK\x06\x06");
            file.extend(44_u64.to_le_bytes());
            file.extend([0; 12]);
            file.extend(
                [count, count, u64::from(end - directory), u64::from(directory) + zip64.more_offset]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
            file.extend(b"PK\x06\x07\0\0\0\0");
            file.extend(u64::from(end).to_le_bytes());
            file.extend(1_u32.to_le_bytes());
        }
        let count = self.count.unwrap_or(count);
        file.extend(b"PK\x05\x06");
        file.extend([self.disk, self.disk, count, count].map(u16::to_le_bytes).concat());
        file.extend((end - directory).to_le_bytes());
        file.extend(directory.to_le_bytes());
        file.extend([0; 2]);
        file.extend(&self.junk);
        file
    }
}

impl Header {
    fn push(&self, file: &mut Vec<u8>) {
        file.extend([self.flags, self.method, 0, 0].map(u16::to_le_bytes).concat());
        file.extend([self.crc, self.stored_len, self.len].map(u32::to_le_bytes).concat());
        file.extend(u16::try_from(self.name.len()).unwrap().to_le_bytes());
        file.extend(u16::try_from(self.extra.len()).unwrap().to_le_bytes());
    }
}
