//! The interface that the host offers to plugins while they read an input or plan an output, and
//! the additional inputs that plugins open.
//!
//! The size of an input determines its expansion limits. Every plugin applies the limits, and they
//! are applied again when a catalog crosses the plugin boundary. Headers and pages are limited by
//! `--memory`. If the user passes `--memory`, this option also limits values, tensors and entries.

use crate::context::session::Session;
use crate::formats::registry::holds_records;
use crate::read::account::{Account, EntryClass, InputScope};
use crate::read::cancellable::CancellableSource;
use crate::read::folder::LEADS_OUT;
use crate::read::identity::FileIdentity;
use crate::read::source::FileSource;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tensorferry_sdk::{
    Capabilities, Context, Description, Level, Limits, Loss, LossKind, Purpose, Result, Source,
};

/// The context in which plugins read one input. The context contains the purpose of reading the
/// input, and the session's limits.
pub struct ReadContext<'a> {
    session: &'a Session,
    purpose: Purpose,
    output_is_new: bool,
    /// The model's folder, if the input is a folder.
    folder: Option<FileSource>,
    /// The entries that the user named, which the account of the input classifies.
    scope: Option<Arc<InputScope>>,
    /// Whether unreadable entries are losses instead of errors, or `None` if the command has no
    /// option for this choice.
    allows_unreadable: Option<bool>,
    account: OnceLock<Account>,
    /// The additional inputs, each with the path under which it was opened.
    additional_inputs: Mutex<Vec<(String, Arc<FileSource>)>>,
}

impl<'a> ReadContext<'a> {
    #[must_use]
    pub fn new(session: &'a Session, purpose: Purpose) -> Self {
        Self {
            session,
            purpose,
            output_is_new: false,
            folder: None,
            scope: None,
            allows_unreadable: None,
            account: OnceLock::new(),
            additional_inputs: Mutex::default(),
        }
    }

    /// Sets whether the output is a folder that does not exist yet.
    #[must_use]
    pub fn with_new_output(self, output_is_new: bool) -> Self {
        Self { output_is_new, ..self }
    }

    #[must_use]
    pub fn with_folder(self, folder: Option<FileSource>) -> Self {
        Self { folder, ..self }
    }

    /// Sets the scope of the input's account.
    #[must_use]
    pub fn with_scope(self, scope: Option<Arc<InputScope>>) -> Self {
        Self { scope, ..self }
    }

    /// Sets whether unreadable entries are losses instead of errors. `None` means that the command
    /// has no option for this choice.
    #[must_use]
    pub fn allowing_unreadable(self, allows: Option<bool>) -> Self {
        Self { allows_unreadable: allows, ..self }
    }

    /// Creates the account of an input that has a scope, after the input's reader has opened the
    /// files. Returns the losses that the account reports.
    pub fn take_account(
        &self,
        source: &FileSource,
        format: &Description,
        is_read: &dyn Fn(&str) -> bool,
    ) -> Result<&[Loss]> {
        let Some(scope) = &self.scope else { return Ok(&[]) };
        let account = scope.account(source, &format.id, holds_records(format), is_read)?;
        account.check(self.allows_unreadable)?;
        Ok(self.account.get_or_init(|| account).losses())
    }

    /// Returns a loss for each requested file that was not read because the file is a link that
    /// leads out of its folder. These files may belong to the input or to additional inputs. Files
    /// that the account already lists are not included.
    pub fn unfollowed(&self, source: &FileSource) -> Vec<Loss> {
        let told =
            |name: &String| self.account().is_some_and(|it| it.sample(EntryClass::LeftOut).contains(name));
        let own = source.unfollowed().into_iter().filter(|name| !told(name));
        let mut names: BTreeSet<String> = own.collect();
        for other in self.additional_inputs() {
            let is_same = other.folder() == source.folder();
            let of_other = other.unfollowed().into_iter().filter(|name| !is_same || !told(name));
            names.extend(
                of_other.map(|name| if is_same { name } else { other.path(&name).display().to_string() }),
            );
        }
        let loss = |name| Loss::new(LossKind::Input, name, format!("the entry {LEADS_OUT}"));
        names.into_iter().map(loss).collect()
    }

    /// Stores the account that was created during the search for companions.
    pub fn keep_account(&self, account: Account) {
        self.account.get_or_init(|| account);
    }

    /// Returns the account of the input, or `None` if the account has not been created.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        self.account.get()
    }

    /// Returns a source that fails when the session is canceled.
    pub fn cancellable(&self, source: Arc<FileSource>) -> Arc<CancellableSource> {
        CancellableSource::new(source, self.session)
    }

    /// Returns whether a plugin has opened a file in the model's folder as an additional input.
    #[must_use]
    pub fn has_read(&self, name: &str) -> bool {
        let folder = self.folder.as_ref().map(FileSource::folder);
        let is_folder = |source: &&Arc<FileSource>| Some(source.folder()) == folder;
        self.additional_inputs().iter().filter(is_folder).any(|source| source.is_open(name))
    }

    /// Returns the additional inputs, such as a schema, that plugins have opened because options
    /// name them.
    #[must_use]
    pub fn additional_inputs(&self) -> Vec<Arc<FileSource>> {
        let inputs = self.additional_inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.iter().map(|(_, source)| source.clone()).collect()
    }

    /// Returns the files of the additional inputs, each with its path and identity, as
    /// [`FileSource::stamped`] does.
    #[must_use]
    pub fn additional_files(&self) -> Vec<(PathBuf, FileIdentity)> {
        let inputs = self.additional_inputs();
        inputs.iter().flat_map(|source| source.stamped()).map(|(path, id)| (path.to_owned(), id)).collect()
    }

    /// Checks that the additional inputs have not changed since they were opened.
    pub fn check_additional_inputs(&self) -> Result<()> {
        self.additional_inputs().iter().try_for_each(|source| source.check_unchanged())
    }
}

/// Returns the purpose for which a conversion between these formats reads its input.
#[must_use]
pub fn purpose(source: &Description, target: &Description) -> Purpose {
    if source.id == target.id {
        Purpose::COPY
    } else if target.capabilities.has(Capabilities::TREE) {
        Purpose::NESTED
    } else {
        Purpose::FLAT
    }
}

/// Bytes of tensors and records to allow per byte of an input, in addition to the limit
/// `expanded_bytes`. This additional amount is at most `MAX_EXPANSION`, because a sparse file may
/// have any length.
const EXPANSION: u64 = 1_000;
const MAX_EXPANSION: u64 = 60 << 30;
/// The limit `shared_bytes` is at least this many bytes for each byte of an input.
const SHARING: u64 = 4;

/// The context in which one source is opened. Its expansion limit grows with the size of the
/// source.
pub struct SourceContext<'a> {
    context: &'a ReadContext<'a>,
    limits: Limits,
}

impl<'a> SourceContext<'a> {
    /// Returns the context for a reader of this source.
    pub fn new(context: &'a ReadContext<'a>, source: &FileSource) -> Self {
        let mut limits = context.limits().clone();
        let paid = source.bytes().saturating_mul(EXPANSION).min(MAX_EXPANSION);
        limits.expanded_bytes = limits.expanded_bytes.saturating_add(paid);
        let shared = source.bytes().saturating_mul(SHARING).min(MAX_EXPANSION);
        limits.shared_bytes = limits.shared_bytes.max(shared);
        Self { context, limits }
    }
}

#[deny(clippy::missing_trait_methods, reason = "every call but one is forwarded to the input's context")]
impl Context for SourceContext<'_> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn is_cancelled(&self) -> bool {
        self.context.is_cancelled()
    }

    fn log(&self, level: Level, message: &str) {
        self.context.log(level, message);
    }

    fn note(&self, message: &str) {
        self.context.note(message);
    }

    fn progress(&self, done: u64, total: u64) {
        self.context.progress(done, total);
    }

    fn purpose(&self) -> Purpose {
        self.context.purpose()
    }

    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        self.context.open(path)
    }

    fn input_folder(&self) -> Result<Option<Arc<dyn Source>>> {
        self.context.input_folder()
    }

    fn output_is_new(&self) -> bool {
        self.context.output_is_new()
    }

    fn threads(&self) -> usize {
        self.context.threads()
    }

    fn check_cancelled(&self) -> Result<()> {
        self.context.check_cancelled()
    }
}

#[deny(clippy::missing_trait_methods, reason = "every call is forwarded to the session or answered here")]
impl Context for ReadContext<'_> {
    fn limits(&self) -> &Limits {
        self.session.limits()
    }

    fn is_cancelled(&self) -> bool {
        self.session.is_cancelled()
    }

    fn log(&self, level: Level, message: &str) {
        self.session.log(level, message);
    }

    fn note(&self, message: &str) {
        self.session.note(message);
    }

    fn progress(&self, done: u64, total: u64) {
        self.session.progress_of_call(done, total);
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        let mut inputs = self.additional_inputs.lock().unwrap_or_else(PoisonError::into_inner);
        // Planning and copying must use the same files, so an input that is already open is reused.
        if let Some((_, source)) = inputs.iter().find(|(known, _)| known == path) {
            return Ok(source.clone());
        }
        let source = Arc::new(FileSource::open_companions(Path::new(path), self.session)?);
        inputs.push((path.to_owned(), source.clone()));
        Ok(source)
    }

    fn input_folder(&self) -> Result<Option<Arc<dyn Source>>> {
        let Some(folder) = &self.folder else { return Ok(None) };
        let mut inputs = self.additional_inputs.lock().unwrap_or_else(PoisonError::into_inner);
        // The NUL byte distinguishes this key from every path that a plugin can open.
        let key = format!("\0{}", folder.folder().display());
        if let Some((_, source)) = inputs.iter().find(|(known, _)| *known == key) {
            return Ok(Some(source.clone()));
        }
        let source = Arc::new(folder.of_companions());
        inputs.push((key, source.clone()));
        Ok(Some(source))
    }

    fn output_is_new(&self) -> bool {
        self.output_is_new
    }

    fn threads(&self) -> usize {
        self.session.threads()
    }

    fn check_cancelled(&self) -> Result<()> {
        self.session.check_cancelled()
    }
}
