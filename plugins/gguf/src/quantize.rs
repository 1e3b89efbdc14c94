//! Quantising: which tensors become blocks of which type, and how a stretch of numbers becomes blocks.
//!
//! K and IQ types need a search, and an importance matrix to be good: they are left to `llama-quantize`.

mod blocks;

use crate::types::GgmlType;
use globset::{Glob, GlobMatcher};
use half::{bf16, f16};
use std::collections::HashMap;
use tensorferry_sdk::{Dtype, Error, Result};

/// A type that numbers can be quantised to.
#[derive(Debug)]
pub(crate) struct Method {
    /// As users write it; in upper case it is the type's name.
    word: &'static str,
    encode: Encode,
}

/// Appends the blocks of some numbers, which are whole ones.
pub(crate) type Encode = fn(&[f32], &mut Vec<u8>);

const METHODS: [Method; 8] = [
    Method { word: "q8_0", encode: blocks::q8_0 },
    Method { word: "q4_0", encode: blocks::q4_0 },
    Method { word: "q4_1", encode: blocks::q4_1 },
    Method { word: "q5_0", encode: blocks::q5_0 },
    Method { word: "q5_1", encode: blocks::q5_1 },
    Method { word: "tq1_0", encode: blocks::tq1_0 },
    Method { word: "tq2_0", encode: blocks::tq2_0 },
    Method { word: "mxfp4", encode: blocks::mxfp4 },
];

/// Which tensors are quantised, and to what.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// Tensors of a name that the glob matches; the first that does counts.
    globs: Vec<(GlobMatcher, &'static Method)>,
    /// Tensors of these very names, which no glob matches.
    names: HashMap<String, &'static Method>,
    /// All others, as llama.cpp has it.
    pub(crate) rest: Option<&'static Method>,
}

/// What becomes of a tensor of floats.
pub(crate) struct Quantised {
    pub(crate) ggml_type: GgmlType,
    /// From its numbers to its bytes.
    pub(crate) encode: Encode,
    /// Why it is not of the type that was asked for.
    pub(crate) instead: Option<&'static str>,
}

impl Method {
    /// The type that it makes.
    ///
    /// # Errors
    /// A plugin error: there is none of its name.
    pub(crate) fn ggml_type(&self) -> Result<GgmlType> {
        GgmlType::named(&self.word.to_ascii_uppercase())
            .ok_or_else(|| Error::plugin(format!("no type {}", self.word)))
    }
}

impl Rules {
    /// Rules from what a user says, one or several at once: `q4_0`, or `*.ffn_*=q4_0,*=q8_0`.
    ///
    /// # Errors
    /// What is expected instead.
    pub(crate) fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, String> {
        let mut rules = Self::default();
        for rule in texts.iter().flat_map(|text| text.as_ref().split(',')) {
            let (glob, word) = match rule.rsplit_once('=') {
                Some((glob, word)) => (Some(glob), word),
                None => (None, rule),
            };
            let words = || METHODS.map(|method| method.word).join(", ");
            let method = METHODS.iter().find(|method| method.word == word).ok_or_else(words)?;
            match glob {
                Some(glob) => {
                    let glob =
                        Glob::new(glob).map_err(|error| format!("a glob before {word}: {}", error.kind()))?;
                    rules.globs.push((glob.compile_matcher(), method));
                }
                None if rules.rest.is_some() => return Err("one type without a glob".to_owned()),
                None => rules.rest = Some(method),
            }
        }
        Ok(rules)
    }

    /// Has a tensor be of a type, if it is one that numbers can be quantised to.
    pub(crate) fn add_name(&mut self, name: &str, word: &str) {
        if let Some(method) = METHODS.iter().find(|method| method.word == word) {
            self.names.insert(name.to_owned(), method);
        }
    }

    /// The type that a tensor is to have, as the user says.
    ///
    /// # Errors
    /// As of [`Method::ggml_type`].
    pub(crate) fn asked(&self, name: &str) -> Result<Option<GgmlType>> {
        self.of_glob(name).or(self.rest).map(Method::ggml_type).transpose()
    }

    /// What the rules say of globs that no name matches, as the user wrote them.
    pub(crate) fn unmatched(&self, names: &[&str]) -> Vec<String> {
        let is_none = |(glob, _): &&(GlobMatcher, _)| !names.iter().any(|name| glob.is_match(name));
        let text = |(glob, method): &(GlobMatcher, &Method)| format!("{}={}", glob.glob(), method.word);
        self.globs.iter().filter(is_none).map(text).collect()
    }

    fn of_glob(&self, name: &str) -> Option<&'static Method> {
        self.globs.iter().find(|(glob, _)| glob.is_match(name)).map(|(_, method)| *method)
    }

    /// What becomes of a tensor; `None`, if it stays as it is. What a glob names is of that type. Of the rest, what
    /// has one dimension, or is a norm, becomes F32, and what has no rows of whole blocks F16, as
    /// `convert_hf_to_gguf.py` of llama.cpp does it.
    ///
    /// # Errors
    /// Unsupported: a glob names a tensor that has no rows of whole blocks.
    pub(crate) fn of(&self, name: &str, dtype: Dtype, shape: &[u64]) -> Result<Option<Quantised>> {
        if !FLOATS.contains(&dtype) {
            return Ok(None);
        }
        let named = self.of_glob(name).or_else(|| self.names.get(name).copied());
        let Some(method) = named.or(self.rest) else { return Ok(None) };
        let ggml_type = method.ggml_type()?;
        let plain =
            |dtype, encode, why| Quantised { ggml_type: GgmlType::Plain(dtype), encode, instead: Some(why) };
        Ok(Some(match ggml_type.bytes_of(shape) {
            Err(error) if named.is_some() => {
                return Err(Error::unsupported(format!("option quantize: {}", error.message()))
                    .tensor(name)
                    .expected(format!(
                        "rows of a multiple of {} elements for {}",
                        ggml_type.block().0,
                        method.word
                    ))
                    .found(format!("shape {shape:?}")));
            }
            _ if named.is_none() && (shape.len() <= 1 || name.ends_with("_norm.weight")) => {
                plain(Dtype::F32, blocks::f32, "one dimension, or a norm: F32, as llama.cpp has it")
            }
            Err(_) => {
                plain(Dtype::F16, blocks::f16, "its rows are no whole blocks: F16, as llama.cpp has it")
            }
            Ok(_) => Quantised { ggml_type, encode: method.encode, instead: None },
        }))
    }
}

/// The dtypes that can be quantised.
const FLOATS: [Dtype; 4] = [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64];

/// The numbers in little-endian bytes of one of the [`FLOATS`].
pub(crate) fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Dtype::F16 => bytes.as_chunks().0.iter().map(|&x| f16::from_le_bytes(x).to_f32()).collect(),
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|&x| bf16::from_le_bytes(x).to_f32()).collect(),
        #[expect(clippy::cast_possible_truncation, reason = "blocks are made of F32, as ggml makes them")]
        Dtype::F64 => bytes.as_chunks().0.iter().map(|&x| f64::from_le_bytes(x) as f32).collect(),
        _ => bytes.as_chunks().0.iter().map(|&x| f32::from_le_bytes(x)).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn the_first_glob_counts_and_the_rest_is_as_llama_cpp_has_it() {
        let rules = Rules::parse(&["*.a=q8_0,x.*=q4_0", "q5_1"]).unwrap();
        let named = |name: &str, shape: &[u64]| {
            rules.of(name, Dtype::BF16, shape).map(|found| found.map(|found| found.ggml_type.name()))
        };
        assert_eq!(named("x.a", &[2, 32]).unwrap(), Some("Q8_0"));
        assert_eq!(named("x.b", &[64]).unwrap(), Some("Q4_0"));
        assert_eq!(named("y", &[2, 32]).unwrap(), Some("Q5_1"));
        assert_eq!(named("y", &[2, 33]).unwrap(), Some("F16"));
        for (name, shape) in [("y", &[32][..]), ("y", &[]), ("q_norm.weight", &[2, 32])] {
            assert_eq!(named(name, shape).unwrap(), Some("F32"), "{name}");
        }
        assert_eq!(named("x.b", &[33]).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(rules.of("x.a", Dtype::I32, &[2, 32]).unwrap().is_none());
        assert_eq!(rules.unmatched(&["y.a"]), ["x.*=q4_0"]);
        assert!(Rules::parse(&["*.a=q8_0"]).unwrap().of("b", Dtype::F32, &[2, 32]).unwrap().is_none());
    }

    #[test]
    fn a_rule_has_a_type_that_can_be_written() {
        assert!(Rules::parse::<&str>(&[]).unwrap().asked("a").unwrap().is_none());
        for wrong in ["", "q4_k", "q4_0,q8_0", "a[=q4_0", "a=", "Q4_0"] {
            assert!(Rules::parse(&[wrong]).is_err(), "{wrong}");
        }
    }
}
