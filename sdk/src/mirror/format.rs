//! [`Format`] across the boundary.

use super::context::{LentContext, RemoteContext};
use super::description::{self, LentDescription};
use super::faults::Faults;
use super::guard::{Held, guard, pairs, received};
use super::reader::{RemoteReader, lend_reader};
#[cfg(feature = "records")]
use super::records;
use super::source::{LentSource, RemoteSource};
use super::writer::{RemoteWriter, lend_writer};
use crate::{
    Context, Description, Error, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};
use std::sync::Arc;
use tensorferry_abi::abi_stable::erased_types::TD_Opaque;
use tensorferry_abi::abi_stable::std_types::{RSlice, RString, RVec, Tuple2};
use tensorferry_abi::abi_stable::{RMut, RRef};
use tensorferry_abi::{
    self as abi, AbiResult, Context_TO, ContextRef, DescriptionSink_TO, DescriptionSinkMut, Format_TO,
    FormatBox, Source_TO, SourceRef, TensorReaderBox, TensorWriterBox,
};

/// A library's formats, as they go to the host.
pub(crate) fn lend_formats(
    make: impl FnOnce() -> Result<Vec<Box<dyn Format>>>,
) -> AbiResult<RVec<FormatBox>> {
    guard("init", || {
        let lend = |format| Format_TO::from_value(LentFormat(Held::new(format)), TD_Opaque);
        Ok(make()?.into_iter().map(lend).collect())
    })
}

struct LentFormat(Held<dyn Format>);

fn options(pairs: &RSlice<'_, Tuple2<RString, RString>>) -> Options {
    Options::from_checked(pairs.iter().map(|Tuple2(key, value)| (key.to_string(), value.to_string())))
}

impl abi::Format for LentFormat {
    fn describe(&self, sink: DescriptionSinkMut<'_>) -> AbiResult<()> {
        guard("describe", || {
            description::send(&self.0.get()?.describe(), sink);
            Ok(())
        })
    }

    fn probe(&self, source: SourceRef<'_>, context: ContextRef<'_>) -> AbiResult<i64> {
        guard("probe", || {
            let score = self.0.get()?.probe(&RemoteSource::new(source), &RemoteContext::new(context))?;
            Ok(score.map_or(-1, |score| i64::from(score.0)))
        })
    }

    fn reader(&self, given: RSlice<'_, Tuple2<RString, RString>>) -> AbiResult<TensorReaderBox> {
        guard("reader", || Ok(lend_reader(self.0.get()?.reader(&options(&given))?)))
    }

    fn writer(&self, given: RSlice<'_, Tuple2<RString, RString>>) -> AbiResult<TensorWriterBox> {
        guard("writer", || Ok(lend_writer(self.0.get()?.writer(&options(&given))?)))
    }

    #[cfg(feature = "records")]
    fn record_reader(
        &self,
        given: RSlice<'_, Tuple2<RString, RString>>,
    ) -> AbiResult<tensorferry_abi::RecordReaderBox> {
        guard("record_reader", || {
            Ok(records::lend_record_reader(self.0.get()?.record_reader(&options(&given))?))
        })
    }

    #[cfg(feature = "records")]
    fn record_writer(
        &self,
        given: RSlice<'_, Tuple2<RString, RString>>,
    ) -> AbiResult<tensorferry_abi::RecordWriterBox> {
        guard("record_writer", || {
            Ok(records::lend_record_writer(self.0.get()?.record_writer(&options(&given))?))
        })
    }

    fn close(&mut self) -> AbiResult<()> {
        self.0.close()
    }
}

/// A format of a loaded library.
pub struct RemoteFormat {
    object: FormatBox,
    description: Description,
    faults: Arc<Faults>,
}

impl RemoteFormat {
    /// Asks a format of the library that is called `plugin` for its description.
    ///
    /// # Errors
    /// A plugin error, if it panics, or describes itself badly.
    pub fn new(plugin: &str, object: FormatBox) -> Result<Self> {
        let faults = Arc::new(Faults::of(plugin));
        let mut lent = LentDescription(Description::default());
        let sink = DescriptionSink_TO::from_ptr(RMut::new(&mut lent), TD_Opaque);
        received(object.describe(sink)).map_err(|e| faults.blame(e))?;
        let description = lent.0;
        let id_is_sane = !description.id.is_empty()
            && description.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !id_is_sane {
            return Err(faults.blame(Error::plugin("not a format id").found(format!("{:?}", description.id))));
        }
        Ok(Self { object, description, faults })
    }

    /// What its destructors said.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

impl Drop for RemoteFormat {
    fn drop(&mut self) {
        self.faults.closed(self.object.close());
    }
}

impl Format for RemoteFormat {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        let (source, context) = (LentSource(source), LentContext(context));
        let source = Source_TO::from_ptr(RRef::new(&source), TD_Opaque);
        let context = Context_TO::from_ptr(RRef::new(&context), TD_Opaque);
        let score = received(self.object.probe(source, context)).map_err(|e| self.faults.blame(e))?;
        Ok(u32::try_from(score).ok().map(Score))
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        let reader = received(self.object.reader(pairs(options.iter()).as_rslice()));
        let object = reader.map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(RemoteReader { object, faults: self.faults.clone() }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        let writer = received(self.object.writer(pairs(options.iter()).as_rslice()));
        let object = writer.map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(RemoteWriter { object, faults: self.faults.clone() }))
    }

    #[cfg(feature = "records")]
    fn record_reader(&self, options: &Options) -> Result<Box<dyn crate::records::RecordReader>> {
        let reader = received(self.object.record_reader(pairs(options.iter()).as_rslice()));
        let object = reader.map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(records::RemoteRecordReader { object, faults: self.faults.clone() }))
    }

    #[cfg(feature = "records")]
    fn record_writer(&self, options: &Options) -> Result<Box<dyn crate::records::RecordWriter>> {
        let writer = received(self.object.record_writer(pairs(options.iter()).as_rslice()));
        let object = writer.map_err(|e| self.faults.blame(e))?;
        Ok(Box::new(records::RemoteRecordWriter { object, faults: self.faults.clone() }))
    }
}
