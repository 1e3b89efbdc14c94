//! A registry is the set of formats that a program can use. The set consists of the formats that
//! the program links, and the formats in the plugin libraries that it loads. No library is searched
//! for or opened unless the program requests it.

use crate::context::suggest::suggest;
use crate::formats::data_names::DataNames;
#[cfg(feature = "dynamic")]
use crate::formats::lazy::LazyFormat;
use crate::formats::options;
use crate::formats::plugin::{PluginIdentity, PluginLibrary};
use std::sync::{Arc, OnceLock};
use tensorferry_sdk::{
    Capabilities, Context, Description, Error, Format, Options, Result, Score, Side, Source, TensorReader,
    TensorWriter,
};

/// A format in a registry. Clones are cheap, and refer to the same format.
#[derive(Clone)]
#[non_exhaustive]
pub struct RegisteredFormat {
    format: Arc<dyn Format>,
    pub description: Arc<Description>,
    built_in: bool,
    /// The library that the format was loaded from; `None` if the format is linked into the
    /// program.
    library: Option<FromLibrary>,
}

#[derive(Clone)]
struct FromLibrary {
    /// The index of the library in [`Formats::libraries`].
    index: usize,
    #[cfg(feature = "dynamic")]
    format: Arc<LazyFormat>,
}

impl RegisteredFormat {
    /// Registers a format that is linked into the program.
    pub fn linked(format: Box<dyn Format>) -> Self {
        let description = Arc::new(format.describe());
        Self { format: format.into(), description, built_in: true, library: None }
    }

    #[cfg(feature = "dynamic")]
    fn loaded(format: LazyFormat, index: usize, built_in: bool) -> Self {
        let format = Arc::new(format);
        let description = format.description.clone();
        Self { format: format.clone(), description, built_in, library: Some(FromLibrary { index, format }) }
    }

    /// Returns the index of the format's library in [`Formats::libraries`], if the format was
    /// loaded from a library.
    #[must_use]
    pub fn library(&self) -> Option<usize> {
        self.library.as_ref().map(|library| library.index)
    }

    /// Returns whether this is one of the program's own formats: linked, or from a folder of the
    /// program's own formats.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.built_in
    }

    /// Returns the format's score for a source, or `None` if the format has no probe.
    pub(crate) fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        self.format.probe(source, context)
    }

    /// Returns a tensor reader with these options.
    pub fn reader(&self, given: &[(String, String)], context: &dyn Context) -> Result<Box<dyn TensorReader>> {
        self.create(Side::Reader, given, context, |format, options| format.reader(options))
    }

    /// Returns a tensor writer with these options.
    pub fn writer(&self, given: &[(String, String)], context: &dyn Context) -> Result<Box<dyn TensorWriter>> {
        self.create(Side::Writer, given, context, |format, options| format.writer(options))
    }

    /// Returns a record reader with these options.
    #[cfg(feature = "records")]
    pub fn record_reader(
        &self,
        given: &[(String, String)],
        context: &dyn Context,
    ) -> Result<Box<dyn tensorferry_sdk::records::RecordReader>> {
        self.create(Side::Reader, given, context, |format, options| format.record_reader(options))
    }

    /// Returns a record writer with these options.
    #[cfg(feature = "records")]
    pub fn record_writer(
        &self,
        given: &[(String, String)],
        context: &dyn Context,
    ) -> Result<Box<dyn tensorferry_sdk::records::RecordWriter>> {
        self.create(Side::Writer, given, context, |format, options| format.record_writer(options))
    }

    /// Checks the options and creates a reader or writer. Errors from the plugin include the
    /// plugin's name.
    fn create<T>(
        &self,
        side: Side,
        given: &[(String, String)],
        context: &dyn Context,
        make: impl FnOnce(&dyn Format, &Options) -> Result<T>,
    ) -> Result<T> {
        let options = options::check(&self.description, side, given)?;
        let made = make(&*self.format, &options).map_err(|error| self.attribute_error(error))?;
        self.report_messages(context);
        self.check_faults()?;
        Ok(made)
    }

    /// Returns whether the format's record reader or writer accepts these options.
    pub(crate) fn takes(&self, side: Side, given: &[(String, String)]) -> bool {
        let options = Options::check(&self.description.options, side, given);
        #[cfg(feature = "records")]
        let options = options.and_then(|options| match side {
            Side::Reader => self.format.record_reader(&options).map(drop),
            Side::Writer => self.format.record_writer(&options).map(drop),
        });
        options.is_ok()
    }

    /// Returns the format itself, for the conformance suite.
    #[must_use]
    pub fn unchecked(&self) -> &dyn Format {
        &*self.format
    }

    /// Returns a plugin error if one of the plugin's destructors has misbehaved since the last
    /// call.
    pub fn check_faults(&self) -> Result<()> {
        #[cfg(feature = "dynamic")]
        if let Some(faults) = self.library.as_ref().and_then(|library| library.format.faults()) {
            return faults.check();
        }
        Ok(())
    }

    /// Returns the faults of the plugin's destructors, or `None` if its library was not opened. The
    /// faults remain available after the format is dropped.
    #[cfg(feature = "dynamic")]
    #[must_use]
    pub fn faults(&self) -> Option<Arc<tensorferry_sdk::mirror::PluginFaults>> {
        self.library.as_ref()?.format.faults().cloned()
    }

    /// Reports, at most once, the messages that the plugin produced when its library was opened. A
    /// format that the user names needs this call, because it is never probed.
    fn report_messages(&self, context: &dyn Context) {
        #[cfg(feature = "dynamic")]
        if let Some(library) = &self.library {
            library.format.report_messages(context);
        }
        #[cfg(not(feature = "dynamic"))]
        let _ = context;
    }

    /// Adds the plugin's name to an error that the plugin caused.
    #[must_use]
    pub fn attribute_error(&self, error: Error) -> Error {
        #[cfg(feature = "dynamic")]
        if let Some(faults) = self.library.as_ref().and_then(|library| library.format.faults()) {
            return faults.attribute_error(error);
        }
        error
    }
}

impl std::fmt::Debug for RegisteredFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RegisteredFormat")
            .field("id", &self.description.id)
            .field("library", &self.library())
            .finish()
    }
}

/// Returns whether a format contains only records. If such a format also provides tensors, its
/// reader creates the tensors from the records.
#[must_use]
pub fn holds_records(description: &Description) -> bool {
    let has = |capability| description.capabilities.has(capability);
    (has(Capabilities::READ_RECORDS) || has(Capabilities::WRITE_RECORDS))
        && !has(Capabilities::READ)
        && !has(Capabilities::WRITE)
}

/// The formats that a program can use. Clones share the libraries, and are so cheap that each call
/// can create one.
#[derive(Debug, Clone, Default)]
pub struct Formats {
    libraries: Vec<PluginLibrary>,
    formats: Vec<RegisteredFormat>,
    notes: Vec<String>,
    data_names: Arc<OnceLock<Result<Arc<DataNames>>>>,
}

impl Formats {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a format that is linked into the program. If a format with the same ID was added
    /// before, the earlier format is kept.
    #[must_use]
    pub fn with(mut self, format: Box<dyn Format>) -> Self {
        let format = RegisteredFormat::linked(format);
        if let Some(known) = self.find(&format.description.id) {
            let known = self.place_of(known);
            self.notes.push(format!(
                "format {} is already registered{known}; the first one is used",
                format.description.id
            ));
        } else {
            self.push(format);
        }
        self
    }

    fn push(&mut self, format: RegisteredFormat) {
        self.formats.push(format);
        self.data_names = Arc::default();
    }

    /// Adds a format as if it came from a third-party library, for tests.
    #[must_use]
    pub fn with_foreign(mut self, format: Box<dyn Format>) -> Self {
        self.push(RegisteredFormat { built_in: false, ..RegisteredFormat::linked(format) });
        self
    }

    /// Adds several formats, as returned by the function `formats()` of a format's crate.
    #[must_use]
    pub fn with_all(self, formats: impl IntoIterator<Item = Box<dyn Format>>) -> Self {
        formats.into_iter().fold(self, Self::with)
    }

    /// Adds a format that is linked into the program, unless a library has a format with this ID.
    #[cfg(feature = "dynamic")]
    pub(super) fn add_linked(&mut self, format: RegisteredFormat) {
        if self.find(&format.description.id).is_none() {
            self.push(format);
        }
    }

    /// Adds a library, and its formats whose IDs are not taken yet.
    #[cfg(feature = "dynamic")]
    pub(super) fn add_library(&mut self, library: PluginLibrary, formats: Vec<LazyFormat>) {
        let index = self.libraries.len();
        for format in formats {
            let format = RegisteredFormat::loaded(format, index, library.built_in);
            if let Some(known) = self.find(&format.description.id) {
                let (id, known) = (&format.description.id, self.place_of(known));
                self.notes.push(format!(
                    "{}: format {id} is already registered{known}; this one is left out",
                    library.path.display()
                ));
            } else {
                self.push(format);
            }
        }
        self.libraries.push(library);
    }

    #[cfg(feature = "dynamic")]
    pub(super) fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn find(&self, id: &str) -> Option<&RegisteredFormat> {
        self.formats.iter().find(|format| format.description.id == id)
    }

    fn place_of(&self, format: &RegisteredFormat) -> String {
        let library = format.library().and_then(|index| self.libraries.get(index));
        library.map(|library| format!(" from {}", library.path.display())).unwrap_or_default()
    }

    /// Returns all inspected plugin libraries, in the order of the search.
    #[must_use]
    pub fn libraries(&self) -> &[PluginLibrary] {
        &self.libraries
    }

    /// Returns the identity of the library that a format was loaded from.
    #[must_use]
    pub fn plugin_of(&self, format: &RegisteredFormat) -> Option<&PluginIdentity> {
        self.libraries.get(format.library()?)?.outcome.as_ref().ok()
    }

    /// Returns all formats of the registry.
    #[must_use]
    pub fn formats(&self) -> &[RegisteredFormat] {
        &self.formats
    }

    /// Returns the file names that readable formats declare.
    pub fn data_names(&self) -> Result<Arc<DataNames>> {
        let readers = self.formats.iter().map(|format| &*format.description).filter(|format| format.reads());
        self.data_names.get_or_init(|| DataNames::of(readers).map(Arc::new)).clone()
    }

    /// Returns notes for the user about the plugin search: folders that were skipped, duplicate
    /// IDs.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the format with this ID, if it supports this side (reading or writing). The error
    /// lists the IDs of the formats that do.
    pub fn format(&self, id: &str, side: Side) -> Result<&RegisteredFormat> {
        self.check_any()?;
        let format = self.find(id);
        let able = |f: &&RegisteredFormat| f.description.has(side);
        format.filter(able).ok_or_else(|| {
            let ids: Vec<&str> =
                self.formats.iter().filter(able).map(|f| f.description.id.as_str()).collect();
            let verb = if side == Side::Writer { "written" } else { "read" };
            let problem = match format {
                Some(_) => format!("format {id} cannot be {verb}"),
                None => match suggest(id, ids.iter().copied()) {
                    Some(near) => format!("no format {id:?}; did you mean {near:?}?"),
                    None => format!("no format {id:?}{}", self.refusals()),
                },
            };
            Error::usage(problem).expected(format!("one of {}", ids.join(", ")))
        })
    }

    /// Returns a hint, in parentheses, that libraries were refused, because a refused library may
    /// contain the missing format.
    pub(super) fn refusals(&self) -> String {
        match self.libraries.iter().filter(|library| library.outcome.is_err()).count() {
            0 => String::new(),
            1 => " (one plugin library was refused: see `ferry plugin list`)".to_owned(),
            count => format!(" ({count} plugin libraries were refused: see `ferry plugin list`)"),
        }
    }

    /// Returns an I/O error if no format is available. The error lists the folders that were
    /// searched for plugins, and the libraries that were refused.
    pub fn check_any(&self) -> Result<()> {
        if !self.formats.is_empty() {
            return Ok(());
        }
        let refusals = self.libraries.iter();
        let refused: Vec<String> = refusals
            .filter_map(|l| l.outcome.as_ref().err().map(|why| format!("{}: {why}", l.path.display())))
            .chain(self.notes.iter().cloned())
            .collect();
        let why = if refused.is_empty() { String::new() } else { format!(": {}", refused.join("; ")) };
        Err(Error::io(format!("no format plugin was found{why}; see `ferry plugin list`")))
    }
}
