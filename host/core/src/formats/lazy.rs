//! A lazy library is opened only when one of its formats is used. Its formats are known from an
//! earlier inspection.

use crate::formats::plugin::{OpenPlugin, open};
use crate::formats::refusal::Refusal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tensorferry_sdk::mirror::{PluginFaults, RemoteFormat};
use tensorferry_sdk::{
    Context, Description, Error, Format, Level, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// A library, and the descriptions of its formats from the time of its inspection.
pub(super) struct LazyLibrary {
    path: PathBuf,
    name: String,
    declared: Vec<Arc<Description>>,
    formats: OnceLock<Result<Vec<RemoteFormat>, Refusal>>,
    /// Messages for the user that the library produced when it was opened.
    lines: OnceLock<Vec<(Level, String)>>,
    /// Whether the messages in `lines` were already reported.
    is_told: AtomicBool,
}

impl LazyLibrary {
    pub(super) fn closed(path: PathBuf, name: String, declared: Vec<Arc<Description>>) -> Self {
        Self {
            path,
            name,
            declared,
            formats: OnceLock::new(),
            lines: OnceLock::new(),
            is_told: AtomicBool::new(false),
        }
    }

    pub(super) fn opened(path: PathBuf, plugin: OpenPlugin) -> Self {
        let declared = plugin.formats.iter().map(|format| Arc::new(format.describe())).collect();
        Self {
            path,
            name: plugin.identity.name,
            declared,
            formats: Ok(plugin.formats).into(),
            lines: plugin.lines.into(),
            is_told: AtomicBool::new(false),
        }
    }

    /// Returns the library's formats, each with its description.
    pub(super) fn formats(self) -> Vec<LazyFormat> {
        let library = Arc::new(self);
        let formats = library.declared.iter().enumerate();
        formats
            .map(|(place, declared)| LazyFormat {
                library: library.clone(),
                place,
                description: declared.clone(),
            })
            .collect()
    }

    fn open(&self) -> Result<Vec<RemoteFormat>, Refusal> {
        let OpenPlugin { formats, lines, .. } = open(&self.path)?;
        let _ = self.lines.set(lines);
        let is_same =
            |(format, declared): (&RemoteFormat, &Arc<Description>)| format.describe() == **declared;
        // Options, limits and receipts depend on the known descriptions. A library whose
        // descriptions have changed is therefore refused.
        if formats.len() != self.declared.len() || !formats.iter().zip(&self.declared).all(is_same) {
            return Err(Refusal::OtherFormats);
        }
        Ok(formats)
    }
}

pub(super) struct LazyFormat {
    library: Arc<LazyLibrary>,
    place: usize,
    pub(super) description: Arc<Description>,
}

impl LazyFormat {
    fn get(&self) -> Result<&RemoteFormat> {
        let library = &*self.library;
        let refused = |why: &Refusal| {
            Error::plugin(format!("plugin {}: {why}", library.name)).file(library.path.display().to_string())
        };
        let formats = library.formats.get_or_init(|| library.open()).as_ref().map_err(refused)?;
        formats.get(self.place).ok_or_else(|| refused(&Refusal::OtherFormats))
    }

    /// Reports, at most once, the messages that the library produced when it was opened.
    pub(super) fn report_messages(&self, context: &dyn Context) {
        let lines = self.library.lines.get().map_or(&[][..], Vec::as_slice);
        if lines.is_empty() || self.library.is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        for (level, line) in lines {
            context.log(*level, &format!("plugin {}: {line}", self.library.name));
        }
    }

    /// Returns the faults that the library's destructors caused, or `None` if the library has not
    /// been used yet.
    pub(super) fn faults(&self) -> Option<&Arc<PluginFaults>> {
        let formats = self.library.formats.get()?.as_ref().ok()?;
        formats.get(self.place).map(RemoteFormat::faults)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Format for LazyFormat {
    fn describe(&self) -> Description {
        (*self.description).clone()
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        let format = self.get()?;
        self.report_messages(context);
        format.probe(source, context)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        self.get()?.reader(options)
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        self.get()?.writer(options)
    }

    #[cfg(feature = "records")]
    fn record_reader(&self, options: &Options) -> Result<Box<dyn tensorferry_sdk::records::RecordReader>> {
        self.get()?.record_reader(options)
    }

    #[cfg(feature = "records")]
    fn record_writer(&self, options: &Options) -> Result<Box<dyn tensorferry_sdk::records::RecordWriter>> {
        self.get()?.record_writer(options)
    }
}
