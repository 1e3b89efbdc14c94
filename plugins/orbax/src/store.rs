//! A store maps keys to bytes. The bytes are files in a folder, or values in an OCDBT store.

use crate::ocdbt;
use crate::span::{MANIFEST, Span, check_path};
use std::collections::BTreeMap;
use tensorferry_sdk::{Context, Error, Result, Source};

pub(crate) enum Store<'a> {
    Folder { source: &'a dyn Source, folder: String },
    Ocdbt(BTreeMap<String, Span>),
}

impl<'a> Store<'a> {
    /// Opens the store in a folder. `folder` is empty or ends with a slash.
    pub(crate) fn open(source: &'a dyn Source, folder: &str, context: &dyn Context) -> Result<Self> {
        if source.contains(&format!("{folder}{MANIFEST}"))? {
            return ocdbt::keys(source, folder, context).map(Self::Ocdbt);
        }
        Ok(Self::Folder { source, folder: folder.to_owned() })
    }

    /// Returns the value of a key, or `None` if the key does not exist.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Span>> {
        match self {
            Self::Ocdbt(keys) => Ok(keys.get(key).cloned()),
            Self::Folder { source, folder } => {
                check_path(key)?;
                let path = format!("{folder}{key}");
                if !source.contains(&path)? {
                    return Ok(None);
                }
                let file = source.open(&path)?;
                Ok(Some(Span::File { file, offset: 0, len: source.len(file) }))
            }
        }
    }

    /// Returns the names of all arrays in the store.
    pub(crate) fn arrays(&self, context: &dyn Context) -> Result<Vec<String>> {
        let ends = ["/.zarray", "/zarr.json"];
        match self {
            Self::Ocdbt(keys) => {
                let names = keys.keys().filter_map(|key| ends.iter().find_map(|end| key.strip_suffix(end)));
                Ok(names.map(str::to_owned).collect())
            }
            Self::Folder { source, folder } => {
                /// Maximum depth of nested groups.
                const MAX_DEPTH: usize = 16;
                let mut names = Vec::new();
                let mut open = vec![(String::new(), 0)];
                while let Some((at, depth)) = open.pop() {
                    context.check_cancelled()?;
                    let group = format!("{folder}{at}");
                    let chunk = source.list(&group)?.into_iter().find(|file| is_chunk(&file[group.len()..]));
                    if let Some(chunk) = chunk.filter(|_| depth > 0) {
                        let error = Error::malformed("a chunk belongs to an array without a description");
                        return Err(error.file(chunk).expected(".zarray or zarr.json above it"));
                    }
                    for below in source.folders(group.trim_end_matches('/'))?.into_iter().rev() {
                        let name = below.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
                        let path = format!("{at}{name}");
                        let mut is_array = false;
                        for end in ends {
                            is_array |= source.contains(&format!("{folder}{path}{end}"))?;
                        }
                        if is_array {
                            names.push(path);
                        } else if depth < MAX_DEPTH
                            && names.len() as u64 + (open.len() as u64) < context.limits().tensors
                        {
                            open.push((format!("{path}/"), depth + 1));
                        }
                    }
                }
                names.sort();
                Ok(names)
            }
        }
    }
}

/// Returns whether a file has the name of a chunk. Chunk names are, for example, `0` and `3.1`, or
/// `c` for the only chunk of an array.
fn is_chunk(name: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    name == "c" || name.split('.').all(is_number)
}
