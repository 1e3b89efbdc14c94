//! Quantization. This module selects the tensors and their types, and encodes values as blocks.
//!
//! K and IQ types are not supported, because their encoders search for the best scales, and good
//! quality also requires an importance matrix. Use `llama-quantize` for these types.

mod blocks;

use crate::types::GgmlType;
use globset::{Glob, GlobMatcher};
use half::{bf16, f16};
use std::collections::HashMap;
use tensorferry_sdk::{Dtype, Error, Result};

/// A quantization target.
#[derive(Debug)]
pub(crate) struct Method {
    /// Option value. In uppercase, it is the name of the tensor type.
    word: &'static str,
    encode: Encode,
}

/// A function that encodes values and appends the blocks. The values must fill whole blocks.
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

/// Rules that assign quantization targets to tensors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// Targets by glob. The first matching glob applies.
    globs: Vec<(GlobMatcher, &'static Method)>,
    /// Targets by exact name, for tensors that no glob matches.
    names: HashMap<String, &'static Method>,
    /// Target of all other tensors, except those that llama.cpp does not quantize.
    pub(crate) rest: Option<&'static Method>,
}

/// The new type of a float tensor.
pub(crate) struct QuantizedTensor {
    pub(crate) ggml_type: GgmlType,
    pub(crate) encode: Encode,
    /// Reason why the type differs from the type in the rules, if it does.
    pub(crate) instead: Option<&'static str>,
}

impl Method {
    pub(crate) fn ggml_type(&self) -> Result<GgmlType> {
        GgmlType::named(&self.word.to_ascii_uppercase())
            .ok_or_else(|| Error::plugin(format!("no type {}", self.word)))
    }
}

impl Rules {
    /// Parses rules from option values. Each value contains one or several rules, such as `q4_0` or
    /// `*.ffn_*=q4_0,*=q8_0`.
    pub(crate) fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, String> {
        let mut rules = Self::default();
        for rule in texts.iter().flat_map(|text| text.as_ref().split(',')) {
            let (glob, word) = match rule.rsplit_once('=') {
                Some((glob, word)) => (Some(glob), word),
                None => (None, rule),
            };
            let words = || METHODS.map(|method| method.word).join(", ");
            let method =
                METHODS.iter().find(|method| method.word.eq_ignore_ascii_case(word)).ok_or_else(words)?;
            match glob {
                Some(glob) => {
                    let glob = Glob::new(glob)
                        .map_err(|error| format!("a valid glob before {word}: {}", error.kind()))?;
                    rules.globs.push((glob.compile_matcher(), method));
                }
                None if rules.rest.is_some() => return Err("at most one type without a glob".to_owned()),
                None => rules.rest = Some(method),
            }
        }
        Ok(rules)
    }

    /// Adds a rule for one tensor, if `word` is a quantization target.
    pub(crate) fn add_name(&mut self, name: &str, word: &str) {
        if let Some(method) = METHODS.iter().find(|method| method.word == word) {
            self.names.insert(name.to_owned(), method);
        }
    }

    /// Returns the type that the user requested for a tensor.
    pub(crate) fn requested_type(&self, name: &str) -> Result<Option<GgmlType>> {
        self.of_glob(name).or(self.rest).map(Method::ggml_type).transpose()
    }

    /// Returns whether a glob matches a tensor that llama.cpp loads only as F32.
    pub(crate) fn overrules(&self, name: &str, shape: &[u64]) -> bool {
        self.of_glob(name).is_some() && f32_only(name, shape).is_some()
    }

    /// Returns the rules whose globs do not match any tensor, in the syntax of the option.
    pub(crate) fn unmatched(&self, names: &[&str]) -> Vec<String> {
        let is_none = |(glob, _): &&(GlobMatcher, _)| !names.iter().any(|name| glob.is_match(name));
        let text = |(glob, method): &(GlobMatcher, &Method)| format!("{}={}", glob.glob(), method.word);
        self.globs.iter().filter(is_none).map(text).collect()
    }

    fn of_glob(&self, name: &str) -> Option<&'static Method> {
        self.globs.iter().find(|(glob, _)| glob.is_match(name)).map(|(_, method)| *method)
    }

    /// Returns the new type of a tensor, or `None` if the tensor is not changed. A tensor that
    /// llama.cpp loads only as F32 becomes F32, even if a glob matches it. If the rows of a tensor
    /// are not whole blocks, the tensor becomes F16, as in llama.cpp's `convert_hf_to_gguf.py`. If
    /// a glob or an exact name matches a tensor with such rows, returns an error instead.
    pub(crate) fn of(&self, name: &str, dtype: Dtype, shape: &[u64]) -> Result<Option<QuantizedTensor>> {
        if !FLOATS.contains(&dtype) {
            return Ok(None);
        }
        let named = self.of_glob(name).or_else(|| self.names.get(name).copied());
        let Some(method) = named.or(self.rest) else { return Ok(None) };
        let ggml_type = method.ggml_type()?;
        let plain = |dtype, encode, why| QuantizedTensor {
            ggml_type: GgmlType::Plain(dtype),
            encode,
            instead: Some(why),
        };
        if let Some(why) = f32_only(name, shape) {
            return Ok(Some(plain(Dtype::F32, blocks::f32, why)));
        }
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
            Err(_) => {
                plain(Dtype::F16, blocks::f16, "F16, as in llama.cpp, because its rows are not whole blocks")
            }
            Ok(_) => QuantizedTensor { ggml_type, encode: method.encode, instead: None },
        }))
    }
}

/// Parts of the names of matrices that llama.cpp loads only as F32 or never quantizes. Sources:
/// llama.cpp's `tensor_allows_quantization` (`src/llama-quant.cpp`) and `conversion/base.py`.
const F32_NAMES: [&str; 20] = [
    "_norm.",
    "ffn_gate_inp.",
    "ffn_gate_inp_shexp.",
    "position_embd",
    "pos_embd",
    "token_types",
    "ssm_conv1d",
    "shortconv.conv",
    "attn_rel_b",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "patch_embd",
    "patch_merger",
    "rel_pos",
    "sam.neck.",
    "sam.net_",
    "posnet.",
    "convnext.",
    "conv1d",
];
/// Prefix of RWKV matrix names, and the words that follow the prefix in the names of large
/// matrices. Only large matrices are quantized. Small matrices become F32.
const RWKV: (&str, [&str; 5]) = ("time_mix_", ["key", "value", "receptance", "gate", "output"]);

/// Returns the reason why llama.cpp requires a tensor to be F32, or `None` if other types are
/// allowed.
pub(crate) fn f32_only(name: &str, shape: &[u64]) -> Option<&'static str> {
    if shape.len() <= 1 {
        return Some("F32, because llama.cpp does not quantize one-dimensional tensors");
    }
    let is_small_of_rwkv = name.split_once(RWKV.0).is_some_and(|(_, rest)| {
        !RWKV.1.iter().any(|word| rest.strip_prefix(word).is_some_and(|rest| rest.starts_with('.')))
    });
    if is_small_of_rwkv || F32_NAMES.iter().any(|part| name.contains(part)) {
        return Some(
            "F32, because llama.cpp does not quantize norms, routers, convolutions and similar tensors",
        );
    }
    let is_of_layer = name.starts_with("blk.") || name.contains(".blk.");
    (name.ends_with(".bias") || is_of_layer && !name.ends_with("weight"))
        .then_some("F32, because llama.cpp quantizes only tensors whose names end in \"weight\"")
}

/// Dtypes that can be quantized.
const FLOATS: [Dtype; 4] = [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64];

/// Decodes numbers from little-endian bytes. `dtype` must be one of the [`FLOATS`].
pub(crate) fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        Dtype::F16 => bytes.as_chunks().0.iter().map(|&x| f16::from_le_bytes(x).to_f32()).collect(),
        Dtype::BF16 => bytes.as_chunks().0.iter().map(|&x| bf16::from_le_bytes(x).to_f32()).collect(),
        #[expect(clippy::cast_possible_truncation, reason = "ggml also quantizes from F32")]
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
        assert_eq!(named("x.b", &[2, 64]).unwrap(), Some("Q4_0"));
        assert_eq!(named("y", &[2, 32]).unwrap(), Some("Q5_1"));
        assert_eq!(named("y", &[2, 33]).unwrap(), Some("F16"));
        assert_eq!(named("x.b", &[2, 33]).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(rules.of("x.a", Dtype::I32, &[2, 32]).unwrap().is_none());
        assert_eq!(rules.unmatched(&["y.a"]), ["x.*=q4_0"]);
        assert!(Rules::parse(&["*.a=q8_0"]).unwrap().of("b", Dtype::F32, &[2, 32]).unwrap().is_none());
    }

    #[test]
    fn what_llama_cpp_needs_as_f32_is_not_quantized() {
        let rules = [Rules::parse(&["*=q4_0"]).unwrap(), Rules::parse(&["q4_0"]).unwrap()];
        let found = |rules: &Rules, name: &str, shape: &[u64]| {
            rules.of(name, Dtype::BF16, shape).unwrap().map(|found| found.ggml_type.name())
        };
        for (name, shape) in [
            ("y", &[32][..]),
            ("y", &[33]),
            ("y", &[]),
            ("blk.0.attn_norm.weight", &[32]),
            ("blk.0.attn_q_norm.weight", &[2, 32]),
            ("blk.0.ffn_gate_inp.weight", &[4, 32]),
            ("blk.0.ffn_gate_exps.bias", &[4, 32]),
            ("blk.0.ssm_a", &[4, 32]),
            ("blk.0.ssm_conv1d.weight", &[4, 32]),
            ("blk.0.shortconv.conv.weight", &[4, 32]),
            ("blk.0.time_mix_w1.weight", &[4, 32]),
            ("position_embd.weight", &[4, 32]),
            ("token_types.weight", &[4, 32]),
        ] {
            for rules in &rules {
                assert_eq!(found(rules, name, shape), Some("F32"), "{name}");
            }
        }
        for name in
            ["blk.0.attn_q.weight", "blk.0.ffn_gate_exps.weight", "blk.0.time_mix_key.weight", "a.Q4_0"]
        {
            for rules in &rules {
                assert_eq!(found(rules, name, &[4, 32]), Some("Q4_0"), "{name}");
            }
        }
    }

    #[test]
    fn a_rule_has_a_type_that_can_be_written() {
        assert!(Rules::parse::<&str>(&[]).unwrap().requested_type("a").unwrap().is_none());
        for wrong in ["", "q4_k", "q4_0,q8_0", "a[=q4_0", "a="] {
            assert!(Rules::parse(&[wrong]).is_err(), "{wrong}");
        }
    }
}
