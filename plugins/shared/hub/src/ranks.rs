//! Recognizes, by name, files that contain one rank's part of a model. Programs that train or serve
//! a model on several devices write such files.
//!
//! In a pattern, `#` matches a number, `@` matches the number of ranks, `~` matches a separator or
//! nothing, and `*` matches any text. Matching is case-insensitive.

use tensorferry_sdk::{Context, Error, Limits, Purpose, Result, Source};

/// The rule that decides whether a file is a part of a model, if its name does not contain the
/// number of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoneRank {
    /// The file is always a part.
    IsPart,
    /// The file is a part if one of the numbers in its name is not 0, or if files of other ranks
    /// are in the same folder. If the file of rank 0 is the only one, it is a whole model.
    FirstIsWhole,
    /// The file is a part only if ranks 0 and 1 of its set exist. Otherwise, the number may have a
    /// different meaning, such as the rank of an adapter.
    IsWhole,
}

/// The known patterns. The first matching pattern applies, so specific patterns precede general
/// ones.
const PATTERNS: [(&str, LoneRank); 44] = [
    // DeepSpeed: ZeRO partitions, and pipeline layers.
    ("zero_pp_rank_#_*_states.pt", LoneRank::IsPart),
    ("bf16_zero_pp_rank_#_*_states.pt", LoneRank::IsPart),
    ("fp16_zero_pp_rank_#_*_states.pt", LoneRank::IsPart),
    ("layer_#-model_*-model_states.pt", LoneRank::IsPart),
    ("mp_rank_#_model_states.pt", LoneRank::FirstIsWhole),
    // Models released by Meta and Mistral.
    ("consolidated.#.pth", LoneRank::FirstIsWhole),
    ("consolidated.#.pt", LoneRank::FirstIsWhole),
    ("consolidated.#.safetensors", LoneRank::FirstIsWhole),
    // TensorRT-LLM, OLMo.
    ("rank#.safetensors", LoneRank::FirstIsWhole),
    ("rank#.npz", LoneRank::FirstIsWhole),
    ("rank#.pt", LoneRank::FirstIsWhole),
    ("rank_#.safetensors", LoneRank::FirstIsWhole),
    ("rank_#.pt", LoneRank::FirstIsWhole),
    // vLLM, SGLang.
    ("model-rank-#-part-#.safetensors", LoneRank::FirstIsWhole),
    // DeepSeek's convert.py.
    ("model#-mp@.safetensors", LoneRank::FirstIsWhole),
    // Neuron.
    ("tp#_sharded*.safetensors", LoneRank::FirstIsWhole),
    ("tp_rank_#_pp_rank_#.pt", LoneRank::FirstIsWhole),
    ("dp_rank_#_tp_rank_#_pp_rank_#.pt", LoneRank::FirstIsWhole),
    // FSDP files that verl and accelerate write, and torch's distributed checkpoints.
    ("*_world_size_@_rank_#.*", LoneRank::FirstIsWhole),
    ("pytorch_model*_rank#.bin", LoneRank::FirstIsWhole),
    ("__#_#.pt", LoneRank::FirstIsWhole),
    // nanotron. The name contains a rank for each kind of parallelism.
    ("*rank-#-of-@*rank-#-of-@*", LoneRank::FirstIsWhole),
    // FSDP in torch_xla.
    ("*rank~#~of~@*", LoneRank::FirstIsWhole),
    // metaseq, fairscale and fairseq.
    ("*-model_part-#*-shard#.pt", LoneRank::FirstIsWhole),
    ("*-model_part-#.pt", LoneRank::FirstIsWhole),
    ("checkpoint*-rank-#-shard#.pt", LoneRank::FirstIsWhole),
    ("checkpoint*-shard#.pt", LoneRank::FirstIsWhole),
    // MLX's examples.
    ("weights.#.safetensors", LoneRank::IsWhole),
    ("weights.#.npz", LoneRank::IsWhole),
    // Numbered parts whose names contain their count.
    ("*-#-of-@.*", LoneRank::IsWhole),
    ("*_#-of-@.*", LoneRank::IsWhole),
    ("*_#_of_@.*", LoneRank::IsWhole),
    // Names that other programs use.
    ("*_mp_rank_#*", LoneRank::IsWhole),
    ("*rank~#*rank~#.*", LoneRank::IsWhole),
    ("*rank~#.*", LoneRank::IsWhole),
    ("*rank#", LoneRank::IsWhole),
    // InternLM.
    ("*_tp~#_pp~#.*", LoneRank::IsWhole),
    ("*_wp~#_pp~#.*", LoneRank::IsWhole),
    ("*_tp~#.*", LoneRank::IsWhole),
    ("*shard~#.pt", LoneRank::IsWhole),
    ("*shard~#.pth", LoneRank::IsWhole),
    ("*shard~#.bin", LoneRank::IsWhole),
    ("*shard~#.safetensors", LoneRank::IsWhole),
    ("*_part~#.pt", LoneRank::IsWhole),
];

/// Name of TensorRT-LLM's configuration file, which is in the same folder as the files of the
/// ranks. `MAX_CONFIG` is the maximum number of bytes that are read from it.
const CONFIG: &str = "config.json";
const MAX_CONFIG: u64 = 1 << 20;

/// A file name that matches one of the [`PATTERNS`], and the numbers in that name.
#[derive(Debug, PartialEq, Eq)]
struct RankName {
    alone: LoneRank,
    numbers: Vec<u64>,
    count: Option<u64>,
    /// The name with `#` in place of each number, which is the same for all files of a set.
    set: String,
}

impl RankName {
    /// Parses a file name without its folder.
    fn parse(name: &str) -> Option<Self> {
        PATTERNS.iter().find_map(|&(pattern, alone)| {
            let mut found = Self { alone, numbers: Vec::new(), count: None, set: String::new() };
            found.matches(pattern, &name.to_ascii_lowercase()).then_some(found)
        })
    }

    fn matches(&mut self, pattern: &str, name: &str) -> bool {
        let mut rest = pattern.chars();
        match rest.next() {
            None => name.is_empty(),
            Some('*') => {
                let rest = rest.as_str();
                let (numbers, set, count) = (self.numbers.len(), self.set.len(), self.count);
                let ends = (0..=name.len()).filter(|&end| name.is_char_boundary(end));
                for end in ends {
                    // A match must not start in the middle of a number.
                    if rest.starts_with('#') && name[..end].ends_with(|c: char| c.is_ascii_digit()) {
                        continue;
                    }
                    self.set.push_str(&name[..end]);
                    if self.matches(rest, &name[end..]) {
                        return true;
                    }
                    self.numbers.truncate(numbers);
                    self.set.truncate(set);
                    self.count = count;
                }
                false
            }
            Some(kind @ ('#' | '@')) => {
                let digits = name.bytes().take_while(u8::is_ascii_digit).count();
                let Ok(number) = name[..digits].parse() else { return false };
                if kind == '#' {
                    self.numbers.push(number);
                    self.set.push('#');
                } else {
                    self.count = Some(self.count.unwrap_or(1).saturating_mul(number));
                    self.set.push_str(&name[..digits]);
                }
                self.matches(rest.as_str(), &name[digits..])
            }
            Some('~') => {
                let separator = usize::from(name.starts_with(['.', '-', '_']));
                self.set.push_str(&name[..separator]);
                self.matches(rest.as_str(), &name[separator..])
            }
            Some(letter) => {
                self.set.push(letter);
                name.strip_prefix(letter).is_some_and(|name| self.matches(rest.as_str(), name))
            }
        }
    }

    /// Returns the prefix that all names in the set have in common. The case of its letters is the
    /// same as in `name`.
    fn start<'n>(&self, name: &'n str) -> &'n str {
        &name[..self.set.find('#').unwrap_or(name.len())]
    }
}

/// Describes the part of a model that a file contains, based on its name and the files next to it.
/// Returns `None` if the file may be a whole model.
pub fn part_of_ranks(source: &dyn Source, name: &str) -> Result<Option<String>> {
    let base = name.rsplit('/').next().unwrap_or(name);
    let Some(rank) = RankName::parse(base) else { return Ok(None) };
    let folder = &name[..name.len() - base.len()];
    if let Some(count) = rank.count {
        let number = rank.numbers.first().copied().unwrap_or_default();
        return Ok((count > 1).then(|| format!("number {number} of {count}")));
    }
    if rank.alone == LoneRank::IsPart {
        return Ok(Some("one rank of several, according to its name".to_owned()));
    }
    if let Some(count) = count_of_config(source, folder, &rank)? {
        return Ok((count > 1).then(|| format!("one of {count} ranks, according to {CONFIG}")));
    }
    let others = others_of(&rank, source, folder, base)?;
    let is_first = rank.numbers.iter().all(|number| *number == 0);
    // If no file in the set has the number 0, the numbers might not be ranks.
    let counts = || is_first || others.iter().any(|(_, numbers)| numbers.iter().all(|number| *number == 0));
    let is_known = rank.alone == LoneRank::FirstIsWhole;
    Ok(match others.first() {
        Some((other, _)) if is_known || counts() => {
            Some(format!("one rank of several, with {other:?} next to it"))
        }
        None if is_known && !is_first => Some("not the first rank, according to its name".to_owned()),
        _ => None,
    })
}

/// Returns the number of ranks in TensorRT-LLM's configuration.
fn count_of_config(source: &dyn Source, folder: &str, rank: &RankName) -> Result<Option<u64>> {
    let config = format!("{folder}{CONFIG}");
    if rank.set != "rank#.safetensors" || !source.contains(&config)? {
        return Ok(None);
    }
    let file = source.open(&config)?;
    let bytes = source.read_vec(file, 0, source.len(file).min(MAX_CONFIG), &Limits::default())?;
    let config: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
    Ok(config.and_then(|config| config.pointer("/mapping/world_size")?.as_u64()))
}

/// Returns the other files of the set, with the numbers in their names.
fn others_of(
    rank: &RankName,
    source: &dyn Source,
    folder: &str,
    base: &str,
) -> Result<Vec<(String, Vec<u64>)>> {
    // Only files whose names start with the prefix of the set are listed.
    let names = source.list(&format!("{folder}{}", rank.start(base)))?;
    let is_other = |name: String| {
        let other = name.strip_prefix(folder)?;
        let parsed = RankName::parse(other).filter(|parsed| parsed.set == rank.set && other != base)?;
        Some((other.to_owned(), parsed.numbers))
    };
    let mut others: Vec<_> = names.into_iter().filter_map(is_other).collect();
    // Some sources cannot list files, but can open a file by its name.
    if let (true, Some(next)) = (others.is_empty(), next_name(base, rank))
        && source.contains(&format!("{folder}{next}"))?
    {
        others.push((next, vec![1]));
    }
    Ok(others)
}

/// If a file name is that of rank 0 and contains a single number, returns the file name of rank 1.
fn next_name(base: &str, rank: &RankName) -> Option<String> {
    let start = rank.start(base);
    let rest = &base[start.len()..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (rank.numbers == [0]).then(|| format!("{start}{:0digits$}{}", 1, &rest[digits..]))
}

/// Rejects a file that contains one rank's part of a model. If the model is only displayed, reports
/// a note instead.
pub fn refuse_part(source: &dyn Source, name: &str, context: &dyn Context) -> Result<()> {
    match part_of_ranks(source, name)? {
        Some(part) => refuse(name, &part, context),
        None => Ok(()),
    }
}

/// Rejects a file that contains only a part of a model. `part` describes the part. If the model is
/// only displayed, reports a note instead.
pub fn refuse(name: &str, part: &str, context: &dyn Context) -> Result<()> {
    if context.purpose().has(Purpose::SHOW) {
        context.note(&format!("{name:?} contains only a part of a model: {part}"));
        return Ok(());
    }
    Err(Error::usage(format!("the file contains only one rank's part of a model: {part}"))
        .file(name)
        .hint("pass the whole model (for DeepSpeed, its folder), or -i shard=alone to read only this part"))
}

/// Returns whether the names are those of several files, each of which contains one rank's part of
/// the same model.
#[must_use]
pub fn are_ranks_of_one_model(names: &[&str]) -> bool {
    let set = |name: &&str| RankName::parse(name).map(|rank| rank.set);
    match names.split_first() {
        Some((first, others)) if !others.is_empty() => {
            let first = set(first);
            first.is_some() && others.iter().all(|other| set(other) == first)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{Entry, ErrorKind, MemoryContext, MemorySource};

    fn part(names: &[&str]) -> Option<String> {
        let files = names.iter().map(|&name| (name.to_owned(), Vec::new())).collect();
        let source = MemorySource::new(Entry::File(names[0].to_owned()), files);
        part_of_ranks(&source, names[0]).unwrap()
    }

    #[test]
    fn a_part_is_known_by_its_name() {
        for name in [
            "zero_pp_rank_0_mp_rank_00_model_states.pt",
            "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt",
            "layer_03-model_00-model_states.pt",
            "mp_rank_01_model_states.pt",
            "consolidated.01.pth",
            "original/consolidated.03.pth",
            "rank1.safetensors",
            "model-rank-1-part-0.safetensors",
            "model_world_size_2_rank_0.pt",
            "optim_world_size_16_rank_3.pt",
            "ckpt_rank-00000000-of-00000004-model.pth",
            "epoch_1_rank-00000001-of-00000004.pth",
            "reshard-model_part-1.pt",
            "checkpoint_last-model_part-0-shard1.pt",
            "checkpoint-shard3.pt",
            "model3-mp8.safetensors",
            "pytorch_model_fsdp_rank1.bin",
            "__1_0.pt",
            "weights_0_of_4.pt",
            "model-1-of-2.pth",
            "model_weight_pp-rank-0-of-1_tp-rank-0-of-2.safetensors",
            "model-rank0of2.pt",
            "CONSOLIDATED.01.PTH",
        ] {
            assert!(part(&[name]).is_some(), "{name}");
        }
    }

    #[test]
    fn siblings_make_a_part() {
        for names in [
            ["consolidated.00.pth", "consolidated.01.pth"],
            ["consolidated.00.pth", "consolidated.07.pth"],
            ["a/consolidated.00.pth", "a/consolidated.01.pth"],
            ["rank0.safetensors", "rank1.safetensors"],
            ["model-rank-0-part-0.safetensors", "model-rank-0-part-1.safetensors"],
            ["mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"],
            ["reshard-model_part-0.pt", "reshard-model_part-1.pt"],
            ["ep0-ba1-rank0.pt", "ep0-ba1-rank1.pt"],
            ["net_rank_1.pt", "net_rank_0.pt"],
            ["RANK0.PT", "RANK1.PT"],
            ["model_tp0_pp0.pt", "model_tp1_pp0.pt"],
            ["tp_rank_0_pp_rank_0.safetensors", "tp_rank_1_pp_rank_0.safetensors"],
            ["tp0_sharded.safetensors", "tp1_sharded.safetensors"],
            ["llama.shard.0.pth", "llama.shard.1.pth"],
            ["checkpoint_last-rank-0-shard0.pt", "checkpoint_last-rank-1-shard1.pt"],
            ["weights.00.safetensors", "weights.01.safetensors"],
            ["weights.01.npz", "weights.00.npz"],
        ] {
            assert!(part(&names).is_some_and(|part| part.contains("next to it")), "{names:?}");
        }
    }

    #[test]
    fn a_whole_model_is_not_a_part() {
        for names in [
            &["consolidated.00.pth"][..],
            &["consolidated.00.pth", "consolidated.safetensors", "b/consolidated.01.pth"],
            &["rank0.safetensors", "config.json"],
            &["model_world_size_1_rank_0.pt"],
            &["model0-mp1.safetensors"],
            &["model_weight_pp-rank-0-of-1_tp-rank-0-of-1.safetensors"],
            &["embeddings_shard_0.npy", "embeddings_shard_1.npy"],
            &["model_rank-00000000-of-00000001.pth"],
            &["mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"],
            &["lora_rank_8.safetensors"],
            &["weights.00.safetensors"],
            &["lora_rank_8.safetensors", "lora_rank_16.safetensors"],
            &["ep0-ba1-rank0.pt", "ep0-ba2-rank0.pt"],
            &["model.pt", "rank.pt", "model-00001-of-00001.safetensors"],
        ] {
            assert_eq!(part(names), None, "{names:?}");
        }
    }

    #[test]
    fn a_configuration_counts_ranks() {
        let of = |world_size: u64| {
            let config = format!(r#"{{"mapping":{{"world_size":{world_size}}}}}"#);
            let files = [("rank0.safetensors", Vec::new()), ("config.json", config.into_bytes())];
            let files = files.map(|(name, bytes)| (name.to_owned(), bytes)).into();
            let source = MemorySource::new(Entry::File("rank0.safetensors".to_owned()), files);
            part_of_ranks(&source, "rank0.safetensors").unwrap()
        };
        assert_eq!(of(1), None);
        assert_eq!(of(2).as_deref(), Some("one of 2 ranks, according to config.json"));
    }

    #[test]
    fn a_part_is_refused_or_noted() {
        let (source, mut context) = (MemorySource::file("consolidated.01.pth", []), MemoryContext::default());
        context.purpose = Purpose::FLAT;
        let error = refuse_part(&source, "consolidated.01.pth", &context).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("rank"), "{error}");
        assert!(
            error.details().any(|(name, text)| name == "hint" && text.contains("shard=alone")),
            "{error}"
        );
        context.purpose = Purpose::SHOW;
        refuse_part(&source, "consolidated.01.pth", &context).unwrap();
        assert!(context.notes()[0].contains("a part of a model"));
    }

    #[test]
    fn ranks_of_one_model_are_known() {
        assert!(are_ranks_of_one_model(&["consolidated.00.pth", "consolidated.01.pth"]));
        assert!(!are_ranks_of_one_model(&["consolidated.00.pth", "model.pth"]));
        assert!(!are_ranks_of_one_model(&["a.pth", "b.pth"]));
        assert!(!are_ranks_of_one_model(&["consolidated.00.pth"]));
    }
}
