//! Another file (`-o like=`) whose metadata, order and types an output has. What it has and the output has not, or the
//! other way round, is told.

use crate::ARCHITECTURE_KEY;
use crate::header::Header;
use crate::quantize::Rules;
use crate::set::Set;
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::{Context, Error, LayoutSink, Loss, LossKind, Result, Severity, Value};

pub(crate) struct Like {
    path: String,
    pub(crate) metadata: BTreeMap<String, Value>,
    /// For each tensor its place in the list, and the word for its type, if it can be quantised to.
    tensors: HashMap<String, (usize, String)>,
}

impl Like {
    /// Reads the headers of a file, or of the files of a split.
    pub(crate) fn open(path: &str, context: &dyn Context) -> Result<Self> {
        let source = context.open(path)?;
        let mut set =
            Set::open(&*source, false, context).map_err(|error| error.context(format!("-o like={path}")))?;
        let (metadata, _) = set.metadata();
        let headers = set.files.iter().map(|member| &member.header);
        let tensors = headers.flat_map(|Header { tensors, .. }| tensors);
        let place = |(place, tensor): (usize, &crate::header::Entry)| {
            (tensor.name.to_string(), (place, tensor.ggml_type.name().to_ascii_lowercase()))
        };
        let tensors = tensors.enumerate().map(place).collect();
        Ok(Self { path: path.to_owned(), metadata, tensors })
    }

    /// Checks that the input is of the same architecture, where both say one.
    pub(crate) fn check_architecture(&self, own: Option<&str>) -> Result<()> {
        let other = self.metadata.get(ARCHITECTURE_KEY).and_then(Value::as_text);
        match (own, other) {
            (Some(own), Some(other)) if own != other => {
                Err(Error::usage("option like: the file is of another architecture than the input")
                    .file(&*self.path)
                    .expected(format!("{own}, or -o set={ARCHITECTURE_KEY}=string:NAME"))
                    .found(other))
            }
            _ => Ok(()),
        }
    }

    /// Checks that some tensor is in both.
    pub(crate) fn check_names<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> Result<()> {
        let Some(first) = names.next() else { return Ok(()) };
        let is_there = |name: &str| self.tensors.contains_key(name);
        if self.tensors.is_empty() || is_there(first) || names.any(is_there) {
            return Ok(());
        }
        let some = self.tensors.keys().min().map_or("", String::as_str);
        Err(Error::usage("option like: the file has no tensor of a name that the input's have")
            .file(&*self.path)
            .expected(format!("names such as {first}"))
            .found(some))
    }

    /// Where a tensor stands; those that the other file does not have come last.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.tensors.get(name).map_or(usize::MAX, |(place, _)| *place)
    }

    /// The type that a tensor has there, of one that it can be quantised to.
    pub(crate) fn add_rules(&self, rules: &mut Rules) {
        for (name, (_, word)) in &self.tensors {
            rules.add_name(name, word);
        }
    }

    /// Tells of tensors that only one of the two has, and of types that are not made.
    pub(crate) fn tell<'n>(
        &self,
        written: impl Iterator<Item = (&'n str, &'static str)>,
        layout: &mut dyn LayoutSink,
    ) -> Result<()> {
        let mut left: HashMap<&str, &str> =
            self.tensors.iter().map(|(name, (_, word))| (name.as_str(), word.as_str())).collect();
        let mut told = Vec::new();
        for (name, is) in written {
            match left.remove(name) {
                None => {
                    told.push((name, "the file of -o like= has no such tensor: it comes last".to_owned()));
                }
                Some(word) if !word.eq_ignore_ascii_case(is) => {
                    told.push((
                        name,
                        format!(
                            "it is {} in the file of -o like=, and stays {is} here",
                            word.to_ascii_uppercase()
                        ),
                    ));
                }
                Some(_) => {}
            }
        }
        let mut left: Vec<&str> = left.into_keys().collect();
        left.sort_unstable();
        let missing = "the file of -o like= has it, and the input has not".to_owned();
        told.extend(left.into_iter().map(|name| (name, missing.clone())));
        told.into_iter().try_for_each(|(name, why)| {
            layout.loss(Loss::new(LossKind::Tensor, name, why).severity(Severity::Note))
        })
    }
}
