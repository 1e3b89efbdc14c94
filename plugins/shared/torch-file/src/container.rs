//! Detects, from the first bytes of a file, the container of a pickle and its storages. torch has
//! used the following containers:
//!
//! | Bytes | Container |
//! |---|---|
//! | `PK\3\4` at 0 | a zip archive (torch 1.6 and later; TorchScript; torch.export) |
//! | `80`, protocol; a frame (`95`, u64) if the protocol is 4 or higher; `8a 0a 6c fc 9c 46 f9 20 6a a8 50 19 2e`, from 0 on | a stream of pickles, then the storages (`_use_new_zipfile_serialization=False`, and before 1.6) |
//! | `L119547037146038801333356L\n.` at 0 | the same, with protocol 0 or 1 |
//! | `ustar` at 257, and a known name of the first member | a tar archive (torch 0.1) |
//! | `PYTORCH1` at 0 | a preview format that was never released |
//!
//! Sources: `torch/serialization.py`, `caffe2/serialize/inline_container.cc`.

use crate::{Extent, archive, tar};
use tensorferry_sdk::{Error, Result, Source};

/// The part of a stream's first pickle that follows the protocol number: the number
/// 0x1950a86a20f9469cfc6c, and STOP.
const LEGACY: &[u8; 13] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
const LEGACY_TEXT: &[u8; 28] = b"L119547037146038801333356L\n.";
const PREVIEW: &[u8; 8] = b"PYTORCH1";

/// The container of a pickle and its storages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    Zip,
    /// A stream of pickles, followed by the storages.
    Legacy,
    Tar,
    Preview,
    /// The file was not written by torch.
    Unknown,
}

impl Container {
    /// Detects the container from the first bytes of a file.
    pub fn detect(source: &dyn Source, file: Extent) -> Result<Self> {
        let mut start = [0; 32];
        let start = file.read_start(source, &mut start)?;
        Ok(if start.starts_with(archive::MAGIC) {
            Self::Zip
        } else if is_legacy(start) {
            Self::Legacy
        } else if start.starts_with(PREVIEW) {
            Self::Preview
        } else if tar::is_checkpoint(source, file)? {
            Self::Tar
        } else {
            Self::Unknown
        })
    }

    /// Returns the error for a container that is not supported.
    pub(crate) fn refusal(self) -> Error {
        match self {
            Self::Zip | Self::Legacy | Self::Tar => Error::plugin("this container is supported"),
            Self::Preview => Error::unsupported(
                "the file has a preview format of torch that was never released (PYTORCH1)",
            ),
            Self::Unknown => Error::malformed("not a PyTorch checkpoint").offset(0),
        }
    }
}

fn is_legacy(start: &[u8]) -> bool {
    let [0x80, _, rest @ ..] = start else { return start.starts_with(LEGACY_TEXT) };
    let unframed = match rest {
        [0x95, _, _, _, _, _, _, _, _, rest @ ..] => rest,
        _ => rest,
    };
    unframed.starts_with(LEGACY)
}
