//! What plugins are told while they read an input or plan an output, and the other inputs that they open.

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

/// The context in which plugins read one input: what it is read for, and the session's limits.
pub struct ReadContext<'a> {
    session: &'a Session,
    purpose: Purpose,
    output_is_new: bool,
    /// The folder of the model, where it is one.
    folder: Option<FileSource>,
    /// Which entries the user named, for the account of the input.
    scope: Option<Arc<InputScope>>,
    /// Whether entries that cannot be read are losses, and not errors; `None` where the user has no option for it.
    allows_unreadable: Option<bool>,
    account: OnceLock<Account>,
    /// Each with the path that it was opened by.
    additional_inputs: Mutex<Vec<(String, Arc<FileSource>)>>,
}

impl<'a> ReadContext<'a> {
    /// For an input that is read for this purpose.
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

    /// The same, where the output is a folder that does not exist yet.
    #[must_use]
    pub fn with_new_output(self, output_is_new: bool) -> Self {
        Self { output_is_new, ..self }
    }

    /// The same, of a model that is a folder.
    #[must_use]
    pub fn with_folder(self, folder: Option<FileSource>) -> Self {
        Self { folder, ..self }
    }

    /// The same, of an input whose entries are accounted for.
    #[must_use]
    pub fn with_scope(self, scope: Option<Arc<InputScope>>) -> Self {
        Self { scope, ..self }
    }

    /// The same, where entries of the input that cannot be read are losses, or errors; `None` where the user has no
    /// option for it.
    #[must_use]
    pub fn allowing_unreadable(self, allows: Option<bool>) -> Self {
        Self { allows_unreadable: allows, ..self }
    }

    /// Takes the account of an input whose scope is known, now that its reader has opened its files.
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

    /// The files of an input, and of the others that plugins have opened, that were asked for and not read, since links in
    /// their places lead elsewhere; but for those in the account.
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

    /// Keeps an account that was taken while companions were looked for.
    pub fn keep_account(&self, account: Account) {
        self.account.get_or_init(|| account);
    }

    /// The account of the input, if it was taken.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        self.account.get()
    }

    /// A source that ends with the session.
    pub fn cancellable(&self, source: Arc<FileSource>) -> Arc<CancellableSource> {
        CancellableSource::new(source, self.session)
    }

    /// Whether a plugin has opened a file of the model's folder beside what its reader has.
    #[must_use]
    pub fn has_read(&self, name: &str) -> bool {
        let folder = self.folder.as_ref().map(FileSource::folder);
        let is_folder = |source: &&Arc<FileSource>| Some(source.folder()) == folder;
        self.additional_inputs().iter().filter(is_folder).any(|source| source.is_open(name))
    }

    /// The other inputs that plugins have opened, as options told them: a schema, say.
    #[must_use]
    pub fn additional_inputs(&self) -> Vec<Arc<FileSource>> {
        let inputs = self.additional_inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.iter().map(|(_, source)| source.clone()).collect()
    }

    /// The files of those inputs, as [`FileSource::stamped`].
    #[must_use]
    pub fn additional_files(&self) -> Vec<(PathBuf, FileIdentity)> {
        let inputs = self.additional_inputs();
        inputs.iter().flat_map(|source| source.stamped()).map(|(path, id)| (path.to_owned(), id)).collect()
    }

    /// Checks that those inputs are still what they were when they were opened.
    ///
    /// # Errors
    /// Transient, naming the file that changed.
    pub fn check_additional_inputs(&self) -> Result<()> {
        self.additional_inputs().iter().try_for_each(|source| source.check_unchanged())
    }
}

/// What a conversion from one format to another reads its input for.
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

/// What tensors and records may have for each byte of an input, beside the limit `expanded_bytes`; and all bytes
/// together, since an input may have holes.
const EXPANSION: u64 = 1_000;
const MOST_EXPANSION: u64 = 60 << 30;
/// What tensors and records that share bytes may have beyond these, for each byte of an input.
const SHARING: u64 = 4;

/// The context in which one source is opened: what it may expand to grows with its bytes.
pub struct SourceContext<'a> {
    context: &'a ReadContext<'a>,
    limits: Limits,
}

impl<'a> SourceContext<'a> {
    /// The context of a reader of this source, whose limits grow with the source's bytes.
    pub fn new(context: &'a ReadContext<'a>, source: &FileSource) -> Self {
        let mut limits = context.limits().clone();
        let paid = source.bytes().saturating_mul(EXPANSION).min(MOST_EXPANSION);
        limits.expanded_bytes = limits.expanded_bytes.saturating_add(paid);
        let shared = source.bytes().saturating_mul(SHARING).min(MOST_EXPANSION);
        limits.shared_bytes = limits.shared_bytes.max(shared);
        Self { context, limits }
    }
}

#[deny(clippy::missing_trait_methods, reason = "every question but one goes to the input's context")]
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

#[deny(clippy::missing_trait_methods, reason = "every question goes to the session or is answered here")]
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
        // What is planned and what is copied is of the same files.
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
        // No path that a plugin opens has a NUL.
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
