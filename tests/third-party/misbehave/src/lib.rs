//! A plugin that breaks its contract on request. `FERRY_MISBEHAVE` contains one of these requests:
//!
//! | request | what happens |
//! |---|---|
//! | `init` | creating the formats fails with an error |
//! | `init-abort`, `init-loop` | creating the formats aborts the process, or never returns |
//! | `init-panic`, `describe`, `probe`, `reader`, `read`, `decode`, `writer`, `plan`, `stream`, `seal` | that call panics |
//! | `drop-format`, `drop-reader`, `drop-writer`, `drop-plan` | that object's destructor panics |
//! | `extent` | a storage extends beyond the end of its file |
//! | `left-out` | the layout leaves a tensor out |
//! | `deferred` | there is one more deferred byte than was reserved |
//! | `decode-short`, `decode-long` | an encoded storage decodes to one byte less or more |
//!
//! The input requests faults that end or block the process. The request directly follows the magic:
//! `!abort` aborts the process, `!loop` never returns, and `!eat` allocates without end.
//!
//! Without a request, the plugin works. A file contains `MISBEHAVE` followed by bytes. The tensor
//! `plain` consists of these bytes, read directly from the file. The tensor `encoded` consists of
//! the same bytes, but the reader decodes them. A written file contains the bytes of all tensors in
//! sequence.
#![forbid(unsafe_code)]

mod request;

use request::{Misbehaving, is_requested, panic_if_requested, ruin};
use tensorferry_sdk::{
    ByteSink, Capabilities, CatalogSink, CatalogView, Context, DeferredId, Description, Digests, Dtype,
    Encoded, EncodedId, Entry, Error, Format, LayoutSink, Options, OutputId, Result, Role, Score, SealSink,
    Source, Storage, Target, TensorDecoder, TensorId, TensorPart, TensorPlan, TensorReader, TensorWriter,
};

const MAGIC: &[u8; 9] = b"MISBEHAVE";
const MAGIC_LEN: u64 = MAGIC.len() as u64;

tensorferry_sdk::export_plugin!(try formats);

fn formats() -> Result<Vec<Box<dyn Format>>> {
    panic_if_requested("init-panic");
    for (request, what) in [("init-abort", b"!abort".as_slice()), ("init-loop", b"!loop")] {
        if is_requested(request) {
            ruin(what);
        }
    }
    if is_requested("init") {
        return Err(Error::unsupported("this library was asked not to start"));
    }
    Ok(vec![Box::new(Misbehave { _drop: Misbehaving("drop-format") })])
}

/// The format `misbehave`.
struct Misbehave {
    _drop: Misbehaving,
}

impl Format for Misbehave {
    fn describe(&self) -> Description {
        panic_if_requested("describe");
        Description::new("misbehave", "misbehaviour on request")
            .suffixes([".misbehave"])
            .magic(0, MAGIC)
            .capabilities(Capabilities::READ | Capabilities::WRITE)
            .output_revision(1)
    }

    fn probe(&self, _source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        panic_if_requested("probe");
        Ok(None)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        panic_if_requested("reader");
        Ok(Box::new(Reader { _drop: Misbehaving("drop-reader") }))
    }

    fn writer(&self, _options: &Options) -> Result<Box<dyn TensorWriter>> {
        panic_if_requested("writer");
        Ok(Box::new(Writer { _drop: Misbehaving("drop-writer") }))
    }
}

struct Reader {
    _drop: Misbehaving,
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        panic_if_requested("read");
        let Entry::File(path) = source.entry() else { return Err(Error::usage("one file")) };
        let file = source.open(path)?;
        let len = source.len(file).saturating_sub(MAGIC_LEN);
        ruin(&source.read_vec(file, MAGIC_LEN, len.min(6), context.limits())?);
        let past_the_end = u64::from(is_requested("extent"));
        let plain = catalog.storage(Storage::file(file, MAGIC_LEN, len + past_the_end))?;
        catalog.tensor("plain", Dtype::U8, &[len], plain, 0)?;
        let encoded = catalog.storage(Storage::encoded(file.0.into(), len))?;
        catalog.tensor("encoded", Dtype::U8, &[len], encoded, 0)?;
        Ok(Box::new(Decoder))
    }
}

struct Decoder;

impl TensorDecoder for Decoder {
    fn decode(
        &self,
        source: &dyn Source,
        _handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        panic_if_requested("decode");
        let file = source.open(source.entry().name())?;
        let len = source.len(file) - MAGIC_LEN;
        let bytes = source.read_vec(
            file,
            MAGIC_LEN,
            len - u64::from(is_requested("decode-short")),
            context.limits(),
        )?;
        output.write(&bytes)?;
        if is_requested("decode-long") {
            output.write(&[0])?;
        }
        Ok(())
    }
}

struct Writer {
    _drop: Misbehaving,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        panic_if_requested("plan");
        let Target::File(path) = target else { return Err(Error::usage("one file")) };
        let tensors: Vec<TensorId> =
            catalog.tensor_ids().skip(usize::from(is_requested("left-out"))).collect();
        let plan = |magic| Box::new(Plan { magic, _drop: Misbehaving("drop-plan") });
        if is_requested("stream") {
            layout.streamed_file(path, Role::Data, &tensors)?;
            return Ok(plan(None));
        }
        let file = layout.file(path, Role::Data)?;
        let magic = layout.deferred(file, MAGIC_LEN)?;
        for tensor in tensors {
            if ["encode", "encode-short", "encode-long"].into_iter().any(is_requested) {
                let len = catalog.tensor(tensor).bytes;
                layout.encoded(file, Encoded::tensors([tensor]).of_len(len))?;
            } else {
                layout.tensor(file, TensorPart::whole(tensor))?;
            }
        }
        Ok(plan(Some(magic)))
    }
}

struct Plan {
    magic: Option<DeferredId>,
    _drop: Misbehaving,
}

impl TensorPlan for Plan {
    fn stream(
        &self,
        _file: OutputId,
        _catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        _context: &dyn Context,
    ) -> Result<()> {
        output.write(MAGIC)?;
        panic_if_requested("stream");
        Ok(())
    }

    /// The second tensor, "b", has two bytes.
    fn encode(
        &self,
        id: EncodedId,
        _catalog: &dyn CatalogView,
        output: &mut dyn ByteSink,
        _context: &dyn Context,
    ) -> Result<Vec<u8>> {
        panic_if_requested("encode");
        let lie = if is_requested("encode-short") { 1 } else { 3 };
        output.write(&vec![0; if id.0 == 1 { lie } else { 3 }])?;
        Ok(Vec::new())
    }

    fn seal(&self, _digests: &dyn Digests, output: &mut dyn SealSink, _context: &dyn Context) -> Result<()> {
        panic_if_requested("seal");
        let Some(magic) = self.magic else { return Ok(()) };
        let mut bytes = MAGIC.to_vec();
        if is_requested("deferred") {
            bytes.push(b'!');
        }
        output.deferred(magic, &bytes)
    }
}
