//! The words in a key: `grad_scaler` and `gradScaler` contain the word `scaler`, but `upscaler`
//! does not. These words indicate the purpose of a checkpoint's branch, or of a file next to a
//! model.

/// Words for state that is needed only for training: optimizers, schedulers, gradient scalers.
const TRAINING_WORDS: [&str; 12] = [
    "optim",
    "optims",
    "optimizer",
    "optimizers",
    "optimiser",
    "optimisers",
    "sched",
    "scheduler",
    "schedulers",
    "scaler",
    "scalers",
    "gradscaler",
];

/// Words that checkpoints and file names use for models.
const MODEL_WORDS: [&str; 9] =
    ["model", "models", "module", "modules", "net", "network", "ema", "params", "weights"];

/// Returns whether a key names state that is needed only for training, including random state and
/// training arguments.
pub fn names_training_state(key: &str) -> bool {
    let words = words(key);
    words.iter().any(|word| TRAINING_WORDS.contains(&&**word))
        || has_run(&words, ["opt", "state"])
        || has_run(&words, ["training", "args"])
        || names_random_state(key)
}

/// Returns whether a folder contains training state, judging by its name, such as Accelerate's
/// `optimizer_0`.
pub fn is_training_folder(name: &str) -> bool {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_');
    ["optimizer", "optimizers", "optim", "scheduler"].contains(&stem)
}

/// Returns whether a key names the state of a random generator.
pub(crate) fn names_random_state(key: &str) -> bool {
    let words = words(key);
    words.iter().any(|word| matches!(&**word, "rng" | "rngs"))
        || has_run(&words, ["random", "state"])
        || has_run(&words, ["random", "states"])
}

/// Returns whether a key names a model.
pub(crate) fn names_a_model(key: &str) -> bool {
    let words = words(key);
    words.iter().any(|word| MODEL_WORDS.contains(&&**word)) || has_run(&words, ["state", "dict"])
}

fn has_run(words: &[String], run: [&str; 2]) -> bool {
    words.windows(2).any(|pair| pair == run)
}

/// Splits a key into words in lowercase. A word is a run of letters, and a capital letter can begin
/// a new word. `LRScheduler2` becomes `lr` and `scheduler`.
fn words(key: &str) -> Vec<String> {
    let letters: Vec<char> = key.chars().collect();
    let mut words = vec![String::new()];
    for (place, &letter) in letters.iter().enumerate() {
        let is_lower = |place: Option<usize>| {
            place.and_then(|place| letters.get(place)).is_some_and(|letter| letter.is_lowercase())
        };
        let begins = letter.is_uppercase() && (is_lower(place.checked_sub(1)) || is_lower(Some(place + 1)));
        if begins || !letter.is_alphabetic() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphabetic()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_count() {
        for key in [
            "optimizer",
            "optimizer_states",
            "optimizerG",
            "optim_g",
            "opt_state",
            "lr_schedulers",
            "LRScheduler",
            "grad_scaler",
            "GradScaler",
            "scaler",
            "rng_state_0",
            "cuda_rng_state",
            "random_states_0",
            "optimizer2",
            "training_args.bin",
        ] {
            assert!(names_training_state(key), "{key}");
        }
        for key in
            ["upscaler", "optimal_weights", "noise_schedule", "strong", "optics", "random", "opt", "state"]
        {
            assert!(!names_training_state(key), "{key}");
        }
        for key in ["model", "model_state", "netG", "EMA", "generator_state_dict", "pytorch_model.bin"] {
            assert!(names_a_model(key), "{key}");
        }
        for key in ["class_weight", "losses", "remodelled", "stats", "optimizer_state"] {
            assert!(!names_a_model(key), "{key}");
        }
    }
}
