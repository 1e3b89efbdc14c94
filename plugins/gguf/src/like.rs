//! The file passed as `-o like=`. It determines the output's metadata, tensor order and tensor
//! types. Differences between the tensors of this file and those of the output are reported.

use crate::ARCHITECTURE_KEY;
use crate::header::Header;
use crate::quantize::Rules;
use crate::set::Set;
use std::collections::{BTreeMap, HashMap};
use tensorferry_sdk::{Context, Error, LayoutSink, Loss, LossKind, Result, Severity, Value};

pub(crate) struct Like {
    path: String,
    pub(crate) metadata: BTreeMap<String, Value>,
    /// Position and type of each tensor. The type is in lowercase, as in option values.
    tensors: HashMap<String, (usize, String)>,
}

impl Like {
    /// Reads the header of the file. If the file is part of a split, reads the headers of all files
    /// in the split.
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

    /// Checks that the file and the input have the same architecture, if both specify an
    /// architecture.
    pub(crate) fn check_architecture(&self, own: Option<&str>) -> Result<()> {
        let other = self.metadata.get(ARCHITECTURE_KEY).and_then(Value::as_text);
        match (own, other) {
            (Some(own), Some(other)) if own != other => Err(Error::usage(format!(
                "option like: the file has architecture {other}, but the input has {own}"
            ))
            .file(&*self.path)
            .hint(format!("set the architecture with -o set={ARCHITECTURE_KEY}=string:NAME"))),
            _ => Ok(()),
        }
    }

    /// Checks that the file and the input have at least one tensor name in common.
    pub(crate) fn check_names<'n>(&self, mut names: impl Iterator<Item = &'n str>) -> Result<()> {
        let Some(first) = names.next() else { return Ok(()) };
        let is_there = |name: &str| self.tensors.contains_key(name);
        if self.tensors.is_empty() || is_there(first) || names.any(is_there) {
            return Ok(());
        }
        let some = self.tensors.keys().min().map_or("", String::as_str);
        Err(Error::usage(format!(
            "option like: the file and the input have no tensor name in common, such as {some:?} and {first:?}"
        ))
        .file(&*self.path))
    }

    /// Returns the position of a tensor in the output. Tensors that are missing from the `-o like=`
    /// file are last.
    pub(crate) fn place(&self, name: &str) -> usize {
        self.tensors.get(name).map_or(usize::MAX, |(place, _)| *place)
    }

    /// Adds a rule for each tensor of this file whose type is a quantization target.
    pub(crate) fn add_rules(&self, rules: &mut Rules) {
        for (name, (_, word)) in &self.tensors {
            rules.add_name(name, word);
        }
    }

    /// Reports tensors that are only in this file or only in the output, and tensors whose types
    /// differ.
    pub(crate) fn report_differences<'n>(
        &self,
        written: impl Iterator<Item = (&'n str, &'static str)>,
        layout: &mut dyn LayoutSink,
    ) -> Result<()> {
        let mut left: HashMap<&str, &str> =
            self.tensors.iter().map(|(name, (_, word))| (name.as_str(), word.as_str())).collect();
        let mut reported = Vec::new();
        for (name, is) in written {
            match left.remove(name) {
                None => {
                    reported.push((name, "missing from the -o like= file; written last".to_owned()));
                }
                Some(word) if !word.eq_ignore_ascii_case(is) => {
                    reported.push((
                        name,
                        format!(
                            "its type is {} in the -o like= file, but remains {is} in the output",
                            word.to_ascii_uppercase()
                        ),
                    ));
                }
                Some(_) => {}
            }
        }
        let mut left: Vec<&str> = left.into_keys().collect();
        left.sort_unstable();
        let missing = "in the -o like= file, but missing from the input".to_owned();
        reported.extend(left.into_iter().map(|name| (name, missing.clone())));
        reported.into_iter().try_for_each(|(name, why)| {
            layout.loss(Loss::new(LossKind::Tensor, name, why).severity(Severity::Note))
        })
    }
}
