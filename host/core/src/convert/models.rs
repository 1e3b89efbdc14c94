//! A model is what one reader reads of the input. Most inputs are one; a folder may hold more in its
//! sub-folders (a pipeline of diffusers has one for each of its parts), and each is converted in place.

use crate::bridge;
use crate::bridge::crossing::TensorOf;
use crate::context::session::Session;
use crate::convert::Request;
use crate::convert::sidecars::{MOST_FOLDERS, Weights};
use crate::convert::sides::{check_sides, options_of};
use crate::convert::steps::divide::CrossingSteps;
use crate::formats::probe::probe;
use crate::formats::registry::{RegisteredFormat, Registry};
use crate::publish::commit::Identity;
use crate::read::context::{ReadContext, purpose};
use crate::read::input::{self, Input};
use crate::read::source::FileSource;
use crate::write::target::Resolved;
use std::path::{Path, PathBuf};
use tensorferry_sdk::{
    Capabilities, Context, Entry, Error, ErrorKind, Loss, Options, Result, Side, Source, Target,
};

/// A model of the input, read.
pub struct Model<'a> {
    /// The folder that it lies in, relative to the input's; empty for the input itself.
    pub folder: String,
    /// What it holds.
    pub input: Input<'a>,
    /// What its plugins are told.
    pub context: ReadContext<'a>,
}

impl Model<'_> {
    /// Where a name of this model lies in the input.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }

    /// A loss of this model as one of the whole input.
    #[must_use]
    pub fn place(&self, loss: &Loss) -> Loss {
        Loss { what: self.path_of(&loss.what), ..loss.clone() }
    }

    /// The files that it was read from, and what they were then.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, Identity)> {
        let own = self.input.source.stamped().map(|(path, identity)| (path.to_owned(), identity));
        own.chain(self.context.lent_files()).collect()
    }

    /// Checks that everything it was read from is still what it was.
    ///
    /// # Errors
    /// Transient, if a file changed; a plugin error, if the reader's destructor panicked.
    pub fn close(self) -> Result<()> {
        self.input.close()?;
        self.context.check_lent()
    }

    /// Whether its reader has opened the file of this name of the input.
    #[must_use]
    pub fn has_read(&self, name: &str) -> bool {
        let own = if self.folder.is_empty() {
            Some(name)
        } else {
            name.strip_prefix(&self.folder).and_then(|rest| rest.strip_prefix('/'))
        };
        own.is_some_and(|own| self.input.source.is_open(own))
    }
}

/// Reads the input as the format that probing found, and where both sides are folders, the models of its
/// sub-folders; there is at least one.
///
/// # Errors
/// Whatever is wrong with one of them.
pub fn read<'a>(
    source: &FileSource,
    probed: Result<&'a RegisteredFormat>,
    registry: &'a Registry,
    target: &Resolved<'_>,
    request: &Request,
    session: &'a Session,
) -> Result<Vec<Model<'a>>> {
    let reading = Reading { registry, target, request, session };
    let root = source.folder().to_owned();
    let may_hold_more = *source.entry() == Entry::Folder && target.target == Target::Folder;
    let mut models = Vec::new();
    let nothing_here = match probed {
        Ok(format) => {
            check_sides(request, &format.description, &target.format.description)?;
            models.push(reading.read(String::new(), source, format, &request.reader_options)?);
            None
        }
        Err(error) if may_hold_more && error.kind() == ErrorKind::Unsupported => Some(error),
        Err(error) => return Err(error),
    };
    if may_hold_more {
        reading.read_below(&root, &mut models)?;
    }
    match nothing_here {
        Some(error) if models.is_empty() => Err(error),
        _ => Ok(models),
    }
}

/// Reads an input of records as a model: what becomes of its records are its tensors.
///
/// # Errors
/// Whatever is wrong with it.
pub fn of_records<'a>(
    source: &FileSource,
    format: &'a RegisteredFormat,
    divided: &CrossingSteps<TensorOf>,
    target: &Resolved<'_>,
    request: &Request,
    session: &'a Session,
) -> Result<Model<'a>> {
    let description = &target.format.description;
    check_sides(request, &format.description, description)?;
    // Its writer would say so too, after all records have been read.
    Options::check(&description.options, Side::Writer, &request.writer_options)?;
    let context = ReadContext::new(session, purpose(&format.description, description))
        .with_new_output(target.is_new_folder());
    let how = bridge::RecordsAsTensors {
        options: &request.reader_options,
        steps: &divided.records,
        tensor_of: divided.crossing,
        keeps_metadata: description.capabilities.has(Capabilities::METADATA),
        spill: &target.spill(),
    };
    let input = bridge::read(source, format, how, &context, session)?;
    Ok(Model { folder: String::new(), input, context })
}

struct Reading<'a, 'b> {
    registry: &'a Registry,
    target: &'b Resolved<'b>,
    request: &'b Request,
    session: &'a Session,
}

impl<'a> Reading<'a, '_> {
    fn read(
        &self,
        folder: String,
        source: &FileSource,
        format: &'a RegisteredFormat,
        options: &[(String, String)],
    ) -> Result<Model<'a>> {
        let context =
            ReadContext::new(self.session, purpose(&format.description, &self.target.format.description))
                .with_new_output(self.target.is_new_folder());
        let input = input::read(source, format, options, &context)?;
        Ok(Model { folder, input, context })
    }

    /// The models of sub-folders. A folder that an outer model has read from is a part of that one.
    fn read_below(&self, root: &Path, models: &mut Vec<Model<'a>>) -> Result<()> {
        let weights = Weights::of(self.registry)?;
        let mut open = sub_folders(root, "")?;
        while let Some(folder) = open.pop() {
            self.session.check_cancelled()?;
            let names: Vec<String> = FileSource::at(root.join(&folder), Entry::Folder).list("")?;
            let is_read = |name: &String| models.iter().any(|m| m.has_read(&format!("{folder}/{name}")));
            if names.iter().any(is_read) {
                continue;
            }
            open.extend(sub_folders(root, &folder)?);
            if !names.iter().any(|name| weights.is_match(name)) {
                continue;
            }
            let source = FileSource::at(root.join(&folder), Entry::Folder);
            match probe(self.registry, &source, None, self.session) {
                Ok(format) => {
                    let options = options_of(&format.description, &self.request.reader_options);
                    let model = self.read(folder.clone(), &source, format, &options);
                    models
                        .push(model.map_err(|error| error.context(format!("in the sub-folder {folder:?}")))?);
                }
                // Its files are listed as what was not carried.
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => return Err(error.context(format!("in the sub-folder {folder:?}"))),
            }
        }
        models.sort_by(|a, b| a.folder.cmp(&b.folder));
        Ok(())
    }
}

/// The folders in a folder of the input, relative to `root`; hidden ones, links, and those too deep
/// are not entered.
fn sub_folders(root: &Path, folder: &str) -> Result<Vec<String>> {
    let path = root.join(folder);
    let failed = |e: std::io::Error| Error::from(e).file(path.display().to_string());
    if folder.split('/').count() > MOST_FOLDERS {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        if let Some(name) = entry.file_name().to_str().filter(|name| is_folder && !name.starts_with('.')) {
            found.push(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") });
        }
    }
    // The last one is taken first.
    found.sort_by(|a, b| b.cmp(a));
    Ok(found)
}
