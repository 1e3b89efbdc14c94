//! Passes a [`Format`] across the boundary.

use super::context::{LentContext, RemoteContext};
use super::description::{self, LentDescription};
use super::faults::{PluginFaults, PluginObject};
use super::reader::{RemoteReader, lend_reader};
#[cfg(feature = "arrow-60")]
use super::records;
use super::source::{LentSource, RemoteSource};
use super::writer::{RemoteWriter, lend_writer};
use crate::{
    Context, Description, Error, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};
use std::sync::Arc;
use tensorferry_abi::{
    Borrowed, ContextTable, DescriptionTable, Failure, FormatCalls, FormatTable, Owned, Pair,
    RecordReaderTable, RecordWriterTable, SourceTable, TensorReaderTable, TensorWriterTable,
};

/// Wraps the formats of a library so that the host can call them.
pub(crate) fn lend_formats(formats: Vec<Box<dyn Format>>) -> Vec<Owned<FormatTable>> {
    formats.into_iter().map(|format| Owned::give(LentFormat(format))).collect()
}

struct LentFormat(Box<dyn Format>);

fn options(pairs: &[Pair<'_>]) -> Options {
    Options::from_checked(pairs.iter().map(|pair| (pair.key().to_owned(), pair.value().to_owned())))
}

impl FormatCalls for LentFormat {
    fn describe(&self, description: Borrowed<'_, DescriptionTable>) -> Result<(), Failure> {
        description::send(&self.0.describe(), &description)
    }

    fn probe(
        &self,
        source: Borrowed<'_, SourceTable>,
        context: Borrowed<'_, ContextTable>,
    ) -> Result<i64, Failure> {
        let score = self.0.probe(&RemoteSource::new(source)?, &RemoteContext::new(context)?)?;
        Ok(score.map_or(-1, |score| i64::from(score.0)))
    }

    fn tensor_reader(&self, given: &[Pair<'_>]) -> Result<Owned<TensorReaderTable>, Failure> {
        Ok(lend_reader(self.0.reader(&options(given))?))
    }

    fn tensor_writer(&self, given: &[Pair<'_>]) -> Result<Owned<TensorWriterTable>, Failure> {
        Ok(lend_writer(self.0.writer(&options(given))?))
    }

    #[cfg(feature = "arrow-60")]
    fn record_reader(&self, given: &[Pair<'_>]) -> Result<Owned<RecordReaderTable>, Failure> {
        Ok(records::lend_record_reader(self.0.record_reader(&options(given))?))
    }

    #[cfg(feature = "arrow-60")]
    fn record_writer(&self, given: &[Pair<'_>]) -> Result<Owned<RecordWriterTable>, Failure> {
        Ok(records::lend_record_writer(self.0.record_writer(&options(given))?))
    }

    #[cfg(not(feature = "arrow-60"))]
    fn record_reader(&self, _given: &[Pair<'_>]) -> Result<Owned<RecordReaderTable>, Failure> {
        Err(Error::unsupported("this format does not read records").into())
    }

    #[cfg(not(feature = "arrow-60"))]
    fn record_writer(&self, _given: &[Pair<'_>]) -> Result<Owned<RecordWriterTable>, Failure> {
        Err(Error::unsupported("this format does not write records").into())
    }
}

/// A format from a loaded library.
pub struct RemoteFormat {
    object: Arc<PluginObject<FormatTable>>,
    description: Description,
}

impl RemoteFormat {
    /// Wraps a format of the library named `plugin`, and reads the description of the format.
    ///
    /// # Errors
    /// Returns a plugin error if the format panics or its description is invalid.
    pub fn new(plugin: &str, object: Owned<FormatTable>) -> Result<Self> {
        let object = PluginObject::new(object, Arc::new(PluginFaults::of(plugin)));
        let mut lent = LentDescription(Description::default());
        object.result(object.describe(Borrowed::sink(&mut lent)))?;
        let description = lent.0;
        let id_is_sane = !description.id.is_empty()
            && description.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if !id_is_sane {
            let error = Error::plugin("invalid format id").expected("lowercase letters, digits and dashes");
            let error = error.found(format!("{:?}", description.id));
            return Err(object.attribute_error(error));
        }
        Ok(Self { object, description })
    }

    /// Returns the faults in this format's destructor and in its objects' destructors.
    #[must_use]
    pub fn faults(&self) -> &Arc<PluginFaults> {
        &self.object.faults
    }
}

fn pairs(options: &Options) -> Vec<Pair<'_>> {
    options.iter().map(|(key, value)| Pair::new(key, value)).collect()
}

impl Format for RemoteFormat {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        let (source, context) = (LentSource(source), LentContext(context));
        let score = self.object.probe(Borrowed::shared(&source), Borrowed::shared(&context));
        if score.as_ref().is_err_and(Failure::is_missing) {
            return Ok(None);
        }
        Ok(u32::try_from(self.object.result(score)?).ok().map(Score))
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(RemoteReader(self.object.child(self.object.tensor_reader(&pairs(options)))?)))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(RemoteWriter(self.object.child(self.object.tensor_writer(&pairs(options)))?)))
    }

    #[cfg(feature = "arrow-60")]
    fn record_reader(&self, options: &Options) -> Result<Box<dyn crate::records::RecordReader>> {
        let reader = self.object.child(self.object.record_reader(&pairs(options)))?;
        Ok(Box::new(records::RemoteRecordReader(reader)))
    }

    #[cfg(feature = "arrow-60")]
    fn record_writer(&self, options: &Options) -> Result<Box<dyn crate::records::RecordWriter>> {
        let writer = self.object.child(self.object.record_writer(&pairs(options)))?;
        Ok(Box::new(records::RemoteRecordWriter(writer)))
    }
}
