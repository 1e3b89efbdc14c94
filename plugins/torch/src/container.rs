//! A container is what torch has put a pickle and its storages into, over the years. It shows in the
//! first bytes.
//!
//! | Bytes | Container |
//! |---|---|
//! | `PK\3\4` at 0 | a zip archive (torch 1.6 and later; TorchScript; torch.export) |
//! | `80 P`, from protocol 4 on a frame (`95`, u64), `8a 0a 6c fc 9c 46 f9 20 6a a8 50 19 2e` at 0 | a stream of pickles, then the storages (`_use_new_zipfile_serialization=False`, and before 1.6) |
//! | `ustar` at 257, a first member of a known name | a tar archive (torch 0.1) |
//! | `PYTORCH1` at 0 | a preview format that was never released |
//!
//! Source of the facts: `torch/serialization.py`, `caffe2/serialize/inline_container.cc`.

use crate::SUFFIXES;
use crate::archive;
use tensorferry_sdk::{Entry, Error, FileId, Result, Source};

/// The first pickle of a stream, from behind its protocol: the number 0x1950a86a20f9469cfc6c, and STOP.
const LEGACY: &[u8; 13] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
const PREVIEW: &[u8; 8] = b"PYTORCH1";
const TAR: &[u8; 5] = b"ustar";
const TAR_AT: usize = 257;
const TAR_MEMBERS: [&str; 4] = ["sys_info", "pickle", "tensors", "storages"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    Zip,
    Legacy,
    Tar,
    Preview,
    Unknown,
}

impl Container {
    /// Why this container cannot be read.
    pub(crate) fn refusal(self) -> Error {
        let again = "load it with torch and save it again: torch.save writes zip archives";
        match self {
            Self::Zip => Error::plugin("a zip archive is read"),
            Self::Legacy => Error::unsupported(format!(
                "a checkpoint in torch's stream format, from before torch 1.6; {again}"
            )),
            Self::Tar => Error::unsupported(format!("a checkpoint in the tar format of torch 0.1; {again}")),
            Self::Preview => {
                Error::unsupported("a preview format of torch that was never released (PYTORCH1)")
            }
            Self::Unknown => Error::malformed("not a PyTorch checkpoint").offset(0).expected("a zip archive"),
        }
    }
}

/// What the Hugging Face libraries call a model's file.
pub(crate) const FILE_OF_A_FOLDER: &str = "pytorch_model.bin";

/// The checkpoint that the user means: the file, or the one of a folder.
///
/// # Errors
/// Malformed, if a folder has none; usage, if it has several; i/o.
pub(crate) fn file_of(source: &dyn Source) -> Result<String> {
    match source.entry() {
        Entry::File(name) => return Ok(name.clone()),
        Entry::Prefix(name) => return Err(Error::usage("a PyTorch checkpoint is one file").file(name)),
        Entry::Folder => {}
    }
    if source.contains(FILE_OF_A_FOLDER) {
        return Ok(FILE_OF_A_FOLDER.to_owned());
    }
    let mut names = source.list("")?;
    names.retain(|name| !name.starts_with('.') && SUFFIXES.iter().any(|suffix| name.ends_with(suffix)));
    match &*names {
        [one] => Ok(one.clone()),
        [] => Err(Error::malformed("no PyTorch checkpoint in the folder").expected(FILE_OF_A_FOLDER)),
        _ => Err(Error::usage("several checkpoints in the folder: name one").found(names.join(", "))),
    }
}

/// The container, from the file's first bytes.
pub(crate) fn detect(source: &dyn Source, file: FileId) -> Result<Container> {
    let mut start = [0; TAR_AT + TAR.len()];
    let len = usize::try_from(source.len(file)).map_or(start.len(), |len| len.min(start.len()));
    let start = &mut start[..len];
    source.read_at(file, 0, start)?;
    let first_member = start.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(if start.starts_with(archive::MAGIC) {
        Container::Zip
    } else if is_legacy(start) {
        Container::Legacy
    } else if start.starts_with(PREVIEW) {
        Container::Preview
    } else if start.get(TAR_AT..) == Some(TAR)
        && TAR_MEMBERS.iter().any(|name| name.as_bytes() == first_member)
    {
        Container::Tar
    } else {
        Container::Unknown
    })
}

fn is_legacy(start: &[u8]) -> bool {
    let [0x80, _, rest @ ..] = start else { return false };
    let unframed = match rest {
        [0x95, _, _, _, _, _, _, _, _, rest @ ..] => rest,
        _ => rest,
    };
    unframed.starts_with(LEGACY)
}
