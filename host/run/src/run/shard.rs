//! A shard is one of N parts into which a manifest's jobs or a plan's pieces are divided. A job's
//! shard depends only on the job's output. A piece's shard depends only on the piece's number.

use std::env::var;
use tensorferry_sdk::{Error, Result};

/// One of `count` parts. The number of the part is `index`, which starts at 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// Parses a shard such as `2/8`. For `slurm` or `k8s/8`, reads the environment variables that
    /// the scheduler sets for array jobs.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "slurm" => {
                let (id, count) = (number("SLURM_ARRAY_TASK_ID")?, number("SLURM_ARRAY_TASK_COUNT")?);
                let first = number("SLURM_ARRAY_TASK_MIN")?;
                let step = var("SLURM_ARRAY_TASK_STEP").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
                let index = id.checked_sub(first).map(|above| above / std::cmp::max(step, 1) + 1);
                Self::new(index.unwrap_or(0), count)
            }
            "k8s" => Err(Error::usage(
                "--shard k8s needs the number of pods, which Kubernetes does not pass to them",
            )
            .hint("pass --shard k8s/N with the value of spec.completions")),
            _ => {
                let (index, count) = text.split_once('/').ok_or_else(|| wrong(text))?;
                let count = count.parse().map_err(|_| wrong(text))?;
                let index = match index {
                    "k8s" => number("JOB_COMPLETION_INDEX")?.saturating_add(1),
                    index => index.parse().map_err(|_| wrong(text))?,
                };
                Self::new(index, count)
            }
        }
    }

    fn new(index: u64, count: u64) -> Result<Self> {
        if index == 0 || index > count {
            return Err(wrong(&format!("{index}/{count}")));
        }
        Ok(Self { index, count })
    }

    /// Returns whether a job is in the shard.
    #[must_use]
    pub fn has(self, output: &str) -> bool {
        let hash = blake3::hash(output.as_bytes());
        let bytes = hash.as_bytes().first_chunk::<8>().copied().unwrap_or_default();
        u64::from_le_bytes(bytes) % self.count == self.index - 1
    }

    /// Returns whether a piece of a plan is in the shard.
    pub(super) fn has_piece(self, number: u64) -> bool {
        number % self.count == self.index - 1
    }

    /// Returns the shard in the form that is used in names of journals, such as `2-of-8`.
    #[must_use]
    pub fn word(self) -> String {
        format!("{}-of-{}", self.index, self.count)
    }
}

fn number(variable: &str) -> Result<u64> {
    let text = var(variable).map_err(|_| Error::usage(format!("--shard: {variable} is not set")))?;
    text.parse().map_err(|_| Error::usage(format!("--shard: {variable} is not a number: {text:?}")))
}

fn wrong(text: &str) -> Error {
    Error::usage(format!("invalid value {text:?} for --shard"))
        .hint("pass I/N with I from 1 to N, slurm, or k8s/N")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn every_job_is_in_one_shard() {
        let shards: Vec<Shard> = (1..=5).map(|i| Shard::parse(&format!("{i}/5")).unwrap()).collect();
        let mut counts = [0; 5];
        for job in 0..1000 {
            let output = format!("/out/{job}.safetensors");
            let of: Vec<usize> = (0..5).filter(|&i| shards[i].has(&output)).collect();
            assert_eq!(of.len(), 1);
            counts[of[0]] += 1;
        }
        assert!(counts.iter().all(|&count| count > 100), "{counts:?}");
        for text in ["0/5", "6/5", "1/0", "x", "1/", "-1/2"] {
            assert!(Shard::parse(text).is_err(), "{text}");
        }
    }
}
