//! Presents a folder in a source as a separate source.

use tensorferry_sdk::{Entry, FileId, FileRange, Result, Source};

/// The files below a folder. The folder's path is empty or ends with a slash.
pub(crate) struct Subfolder<'s> {
    pub(crate) source: &'s dyn Source,
    pub(crate) folder: String,
}

impl Subfolder<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    fn names(&self, paths: Vec<String>) -> Vec<String> {
        paths.into_iter().filter_map(|path| path.strip_prefix(&self.folder).map(str::to_owned)).collect()
    }
}

impl Source for Subfolder<'_> {
    fn entry(&self) -> &Entry {
        &Entry::Folder
    }

    fn open(&self, name: &str) -> Result<FileId> {
        self.source.open(&self.path(name))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        self.source.contains(&self.path(name))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        Ok(self.names(self.source.list(&self.path(prefix))?))
    }

    fn folders(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self.names(self.source.folders(self.path(folder).trim_end_matches('/'))?))
    }

    fn name(&self, file: FileId) -> &str {
        self.source.name(file)
    }

    fn len(&self, file: FileId) -> u64 {
        self.source.len(file)
    }

    fn read_at(&self, file: FileId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(file, offset, buffer)
    }

    fn read_ranges(&self, ranges: &[FileRange], buffer: &mut [u8]) -> Result<()> {
        self.source.read_ranges(ranges, buffer)
    }

    fn advise(&self, ranges: &[FileRange]) {
        self.source.advise(ranges);
    }
}
