//! Completes an output. The writer receives the digests and lengths of the copied and encoded
//! bytes, and returns the bytes that depend on them.

use crate::write::copy::Copied;
use crate::write::encode::Notes;
use tensorferry_publish::output_bytes::OutputBytes;
use tensorferry_sdk::{
    Content, Context, DeferredId, Digest, DigestId, Digests, EncodedId, EncodedLocation, Error, Layout,
    OutputId, Result, SealSink, TensorPlan,
};

/// Lets the plan write its deferred bytes and late files. Returns the final length of each file.
/// Returns a plugin error if the plugin writes bytes twice, or writes more or fewer bytes than
/// required.
pub fn seal(
    layout: &Layout,
    plan: &dyn TensorPlan,
    copied: &Copied,
    notes: &Notes,
    context: &dyn Context,
    files: &[OutputBytes],
) -> Result<Vec<u64>> {
    let mut sealing =
        SealWriter { layout, files, lens: copied.lens.clone(), given: vec![false; layout.deferred().len()] };
    plan.seal(&KnownDigests { layout, copied, notes }, &mut sealing, context)?;
    if let Some(missing) = sealing.given.iter().position(|given| !given) {
        let (file, range) = &layout.deferred()[missing];
        return Err(Error::plugin("the writer did not write all deferred bytes")
            .file(layout.files()[file.0 as usize].path.clone())
            .offset(range.start)
            .expected(format!("{} bytes", range.end - range.start)));
    }
    Ok(sealing.lens)
}

struct KnownDigests<'a> {
    layout: &'a Layout,
    copied: &'a Copied,
    notes: &'a Notes,
}

impl Digests for KnownDigests<'_> {
    fn get(&self, id: DigestId) -> Result<Digest> {
        let digest = self.copied.digests.get(id.0 as usize).cloned();
        digest.ok_or_else(|| Error::plugin(format!("digest {} was not requested", id.0)))
    }

    fn encoded(&self, id: EncodedId) -> Result<EncodedLocation> {
        let index = id.0 as usize;
        let (Some(placed), Some(note)) = (self.layout.encoded().get(index), self.notes.get(index)) else {
            return Err(Error::plugin(format!("no encoded segment {}", id.0)));
        };
        let (offset, len) = (placed.range.start, placed.range.end - placed.range.start);
        Ok(EncodedLocation { offset, len, note: note.clone() })
    }

    fn file_len(&self, file: OutputId) -> Result<u64> {
        match self.layout.files().get(file.0 as usize).map(|file| &file.content) {
            None => Err(Error::plugin(format!("no file {}", file.0))),
            Some(Content::Late) => Err(Error::plugin(format!("file {} has no length yet", file.0))),
            Some(_) => Ok(self.copied.lens[file.0 as usize]),
        }
    }
}

struct SealWriter<'a> {
    layout: &'a Layout,
    files: &'a [OutputBytes],
    lens: Vec<u64>,
    given: Vec<bool>,
}

impl SealSink for SealWriter<'_> {
    fn deferred(&mut self, id: DeferredId, bytes: &[u8]) -> Result<()> {
        let index = id.0 as usize;
        let place = self.layout.deferred().get(index);
        let (file, range) = place.ok_or_else(|| Error::plugin(format!("no deferred segment {}", id.0)))?;
        let path = || self.layout.files()[file.0 as usize].path.clone();
        if bytes.len() as u64 != range.end - range.start {
            return Err(Error::plugin("deferred bytes have a different length than reserved")
                .file(path())
                .offset(range.start)
                .expected(range.end - range.start)
                .found(bytes.len()));
        }
        if std::mem::replace(&mut self.given[index], true) {
            return Err(Error::plugin("deferred bytes are written twice").file(path()).offset(range.start));
        }
        self.files[file.0 as usize].write_late_at(bytes, range.start).map_err(|e| e.file(path()))
    }

    fn late(&mut self, file: OutputId, bytes: &[u8]) -> Result<()> {
        let output = self.layout.files().get(file.0 as usize).filter(|f| f.content == Content::Late);
        let output = output.ok_or_else(|| Error::plugin(format!("file {} is not a late file", file.0)))?;
        let len = &mut self.lens[file.0 as usize];
        self.files[file.0 as usize].write_all_at(bytes, *len).map_err(|e| e.file(&output.path))?;
        *len += bytes.len() as u64;
        Ok(())
    }
}
