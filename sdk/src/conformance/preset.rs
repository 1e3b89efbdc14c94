//! Changes the default options of a format, so that tests can cover the effect of an option.

use crate::{Context, Description, Format, Options, Result, Score, Side, Source, TensorReader, TensorWriter};

/// A format with different defaults for some of its options, as in
/// `Preset::new(Csv).with(Side::Writer, "codec", "gzip")`.
#[derive(Debug, Clone)]
pub struct Preset<F> {
    format: F,
    given: Vec<(Side, String, String)>,
}

impl<F: Format> Preset<F> {
    /// Wraps a format without changes.
    #[must_use]
    pub fn new(format: F) -> Self {
        Self { format, given: Vec::new() }
    }

    /// Sets the default of an option.
    #[must_use]
    pub fn with(mut self, side: Side, key: &str, value: &str) -> Self {
        self.given.push((side, key.to_owned(), value.to_owned()));
        self
    }
}

#[deny(clippy::missing_trait_methods)]
impl<F: Format> Format for Preset<F> {
    fn describe(&self) -> Description {
        let mut description = self.format.describe();
        for (side, key, value) in &self.given {
            let spec = description.options.iter_mut().find(|spec| spec.side == *side && spec.key == *key);
            // Without this panic, a test with an unknown option would not test anything.
            spec.unwrap_or_else(|| panic!("the {side:?} of the format has no option {key:?}")).default =
                Some(value.clone());
        }
        description
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        self.format.probe(source, context)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        self.format.reader(options)
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        self.format.writer(options)
    }

    #[cfg(feature = "arrow-60")]
    fn record_reader(&self, options: &Options) -> Result<Box<dyn crate::records::RecordReader>> {
        self.format.record_reader(options)
    }

    #[cfg(feature = "arrow-60")]
    fn record_writer(&self, options: &Options) -> Result<Box<dyn crate::records::RecordWriter>> {
        self.format.record_writer(options)
    }
}
