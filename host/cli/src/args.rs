//! Command-line arguments.

use super::cluster::Cluster;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::convert::Infallible;
use std::path::PathBuf;
use tensorferry::compare::MaxDiff;
use tensorferry::inspect::InspectOptions;
use tensorferry::request::{LossPolicy, Part};
use tensorferry::values::Algorithm;
use tensorferry_sdk::{Limits, LossKind, Purpose, parse_size};

/// Largest value that the user may set for the limit `nesting`, because nested values are processed
/// recursively.
const MAX_NESTING: u64 = 1_000;

const GLOBAL: &str = "Global options";

/// Default buffer budget, in bytes.
const MEMORY: u64 = 256 << 20;
/// Minimum memory, in bytes, from which the limits are derived. A smaller `--memory` value counts
/// as this value.
const MIN_MEMORY: u64 = 128 << 20;
/// Limits that are derived from the memory: pickle values, tensors and archive entries. Each number
/// is the largest memory use per item, in bytes, that was measured during inspection or conversion.
const BYTES_OF_EACH: [(&str, u64); 3] = [("nodes", 320), ("tensors", 1536), ("entries", 256)];

/// Convert ML checkpoints and datasets between formats
#[derive(Debug, Parser)]
#[command(name = "ferry", version, propagate_version = true, max_term_width = 100)]
#[command(override_usage = "ferry COMMAND [OPTIONS]")]
#[command(after_help = "\
Examples:
  ferry convert pytorch_model.bin model.safetensors
  ferry convert model.safetensors shards/ --to safetensors -o max_shard_size=5GB
  ferry inspect checkpoint.pt
  ferry show model.safetensors 'lm_head.weight[0:3]'
  ferry diff checkpoint.pt model.safetensors

Exit codes:
    0  success
    1  differences found
    2  usage error
    3  the input is malformed, unsupported, or exceeds a limit
    4  verification failed
    5  system or plugin error
   75  temporary failure: run the command again
  130  interrupted")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Search DIR for plugins first [env: FERRY_PLUGIN_PATH]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub(crate) plugin_dir: Vec<PathBuf>,

    /// Allow a plugin to override this built-in format
    #[arg(long, global = true, value_name = "FORMAT", help_heading = GLOBAL)]
    pub(crate) allow_shadow: Vec<String>,

    /// Worker threads [default: number of cores]
    #[arg(long, global = true, value_name = "N", value_parser = threads, help_heading = GLOBAL)]
    pub(crate) threads: Option<usize>,

    /// Buffer budget; larger data spills to a temporary file [default: 256MiB]
    ///
    /// Total memory use stays within 32 MiB of the budget. The process needs about 160 MiB in any case. Passing --memory also caps
    /// object counts: one tensor per 1,536 bytes of the budget, one pickle value per 320, one archive entry per 256.
    #[arg(long, global = true, value_name = "SIZE", value_parser = size, help_heading = GLOBAL)]
    pub(crate) memory: Option<u64>,

    /// List every loss instead of a summary per kind
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) losses: bool,

    /// When to use color: auto, always or never [default: auto]
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true, help_heading = GLOBAL)]
    pub(crate) color: clap::ColorChoice,

    /// Configure S3, GCS, Azure or HTTP access, e.g. region=eu-west-1
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = GLOBAL)]
    pub(crate) store: Vec<String>,

    /// Change a safety limit, e.g. columns=50000 (see `ferry formats`)
    #[arg(long = "limit", global = true, value_name = "NAME=N", value_parser = limit, help_heading = GLOBAL)]
    pub(crate) limits: Vec<(String, u64)>,
}

/// The headings of `ferry -h`, each with its commands.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Convert and check", &["convert", "diff", "check", "verify"]),
    ("Look", &["inspect", "show", "cat", "view"]),
    ("Many files", &["run", "plan", "work"]),
    ("Reference", &["formats", "steps"]),
    ("Maintenance", &["index", "plugin", "doctor", "clean", "recover", "completions", "man"]),
];

impl Arguments {
    /// Parses the command line. The help text lists the commands in groups.
    pub(crate) fn parse_grouped() -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let mut groups = Vec::new();
        for (heading, names) in GROUPS {
            let mut text = format!("{heading}:\n");
            for command in names.iter().filter_map(|name| command.find_subcommand(name)) {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                text += &format!("  {:12} {about}\n", command.get_name());
            }
            groups.push(text);
        }
        // If the commands were not hidden, the placeholder `{all-args}` would list them a second
        // time.
        command = command.mut_subcommands(|command| command.hide(true)).before_help(groups.join("\n"));
        let template = "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";
        Self::from_arg_matches(&command.help_template(template).try_get_matches()?)
    }

    /// Returns the buffer budget, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.unwrap_or(MEMORY)
    }

    /// Returns the safety limits. The limit for a header, page or record is at most the memory.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.header_bytes = limits.header_bytes.min(self.memory().max(MIN_MEMORY));
        for (name, value) in self.changed_limits(self.memory) {
            let _ = limits.set(&name, value);
        }
        limits
    }

    /// Returns the limits that differ from the defaults. If the user set `memory`, the limits
    /// derived from it are first. The limits that the user set by name follow.
    pub(crate) fn changed_limits(&self, memory: Option<u64>) -> impl Iterator<Item = (String, u64)> {
        let whole = memory.map(|memory| ("memory_bytes".to_owned(), memory));
        let memory = memory.map(|memory| memory.max(MIN_MEMORY));
        // A pickle value may occupy only a few bytes of a file, so the limit `nodes` always depends
        // on the memory.
        let of = move |name: &str| if name == "nodes" { memory.or(Some(MEMORY)) } else { memory };
        let within =
            BYTES_OF_EACH.iter().filter_map(move |&(name, bytes)| Some((name.to_owned(), of(name)? / bytes)));
        whole.into_iter().chain(within).chain(self.limits.iter().cloned())
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Convert a checkpoint or dataset to another format
    Convert(Convert),
    /// Show what a checkpoint or dataset contains
    Inspect(Inspect),
    /// Print tensor values or table rows
    Show(Show),
    /// Browse an input in your web browser
    View(View),
    /// Print records as JSON Lines
    Cat(Cat),
    /// Verify record checksums and write an index
    Index(Index),
    /// Compare two inputs, whatever their formats
    Diff(Diff),
    /// Compare tensor names, dtypes and shapes with an expected list
    Check(Check),
    /// Run the conversions in a manifest (rerun to continue)
    Run(Run),
    /// Split a manifest into pieces for several machines
    Plan(Plan),
    /// Run pieces of a plan
    Work(Work),
    /// Run jobs for a runner (internal)
    #[command(hide = true)]
    Job {
        /// Process ID of the runner
        #[arg(long)]
        runner: u32,
    },
    /// Inspect plugin libraries in a child process (internal)
    #[command(hide = true)]
    ScanPlugins {
        /// Plugin libraries
        libraries: Vec<PathBuf>,
    },
    /// Run a plugin's conformance tests in a child process (internal)
    #[command(hide = true)]
    ExaminePlugin {
        #[command(flatten)]
        test: TestPlugin,
        /// Keep the files of this input and stop there
        #[arg(long)]
        stop_at: Option<String>,
    },
    /// Check outputs against their receipts
    Verify(Verify),
    /// Resume or discard an interrupted conversion
    ///
    /// ferry recovers interrupted conversions on its own, except those in a folder that was copied or moved.
    #[command(after_help = "\
Examples:
  ferry recover models/.ferry-stage-model.safetensors/7c1e")]
    Recover {
        /// Staging folder, .ferry-stage-.../...
        stage: PathBuf,
    },
    /// Abort unfinished uploads in an object store
    Clean(Clean),
    /// List formats, or show one format's options
    #[command(after_help = "\
Examples:
  ferry formats
  ferry formats gguf
  ferry formats --json")]
    Formats {
        /// Format ID, e.g. safetensors
        id: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List conversion steps, or explain one
    Steps(Steps),
    /// Describe this installation for a bug report
    ///
    /// Lists the version, paths, plugins and why any were rejected, limits, and the sources of credentials. The output never
    /// contains a credential.
    #[command(after_help = "\
Examples:
  ferry doctor
  ferry doctor --json > report.json")]
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Manage plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Print the manual page
    #[command(after_help = "\
Examples:
  ferry man | man -l -")]
    Man,
    /// Print shell completions
    #[command(after_help = "\
Examples:
  ferry completions bash > ~/.local/share/bash-completion/completions/ferry
  ferry completions zsh > ~/.zfunc/_ferry")]
    Completions {
        /// Shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry clean s3://bucket/models/
  ferry clean s3://bucket/models/ --older-than 2h")]
pub(crate) struct Clean {
    /// Prefix of the object names, e.g. s3://bucket/prefix
    pub(crate) url: PathBuf,

    /// Only abort uploads older than this (active uploads look the same)
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = humantime::parse_duration)]
    pub(crate) older_than: std::time::Duration,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// List plugin libraries, and why any were rejected
    #[command(after_help = "\
Examples:
  ferry plugin list")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Load a library or a folder of them and report its formats or errors
    ///
    /// Lifts a quarantine if the library loads.
    #[command(after_help = "\
Examples:
  ferry plugin check target/release/libmy_format.so")]
    Check {
        /// Library, or a folder of libraries
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Install a library into your plugin folder
    ///
    /// ferry refuses an installed library whose SHA-256 changes.
    #[command(after_help = "\
Examples:
  ferry plugin install target/release/libmy_format.so")]
    Install {
        /// Plugin library
        library: PathBuf,
        /// Replace an installed library with the same file name
        #[arg(long, short)]
        force: bool,
    },
    /// Remove a library from your plugin folder
    #[command(after_help = "\
Examples:
  ferry plugin remove my-format")]
    Remove {
        /// Plugin name, format ID, or file name
        name: String,
    },
    /// Create a plugin project (Rust or C) with tests and a sample
    New(NewPlugin),
    /// Run the conformance tests on a plugin library
    Test(TestPlugin),
    /// Allow only listed libraries to load; without arguments, show the list
    ///
    /// Once the list exists, ferry refuses every library that is not on it, except its own.
    #[command(after_help = "\
Examples:
  ferry plugin trust libmy_format.so
  ferry plugin trust --remove libmy_format.so")]
    Trust {
        /// Plugin libraries
        libraries: Vec<PathBuf>,
        /// Remove them from the list
        #[arg(long, requires = "libraries")]
        remove: bool,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry plugin new my-format
  ferry plugin new my-rows --kind records --lang c")]
pub(crate) struct NewPlugin {
    /// Format ID and folder name: lowercase letters, digits and dashes
    pub(crate) name: String,
    /// Language
    #[arg(long, value_enum, value_name = "rust|c", default_value = "rust", hide_possible_values = true)]
    pub(crate) lang: PluginLanguage,
    /// Content of the format
    #[arg(
        long,
        value_enum,
        value_name = "tensors|records",
        default_value = "tensors",
        hide_possible_values = true
    )]
    pub(crate) kind: PluginKind,
    /// Build with the SDK in this folder instead of the published one
    #[arg(long, value_name = "DIR")]
    pub(crate) sdk: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PluginLanguage {
    Rust,
    C,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PluginKind {
    Tensors,
    Records,
}

#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  ferry plugin test target/release/libmy_format.so samples/small.myf")]
pub(crate) struct TestPlugin {
    /// Plugin library
    pub(crate) library: PathBuf,
    /// Small samples of its formats, a few kilobytes each
    ///
    /// A sample is a folder, or a file together with the files next to it whose names begin with the file's name. The test damages each byte once.
    pub(crate) samples: Vec<PathBuf>,
    /// Format of the samples [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,
    /// Keep the inputs that fail a test in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

// In the help, the most common options come first. The other options have headings.
#[derive(Debug, Args)]
#[command(
    override_usage = "ferry convert [OPTIONS] INPUT OUTPUT\n       ferry convert [OPTIONS] INPUT... -O TEMPLATE",
    help_template = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}",
    before_help = "\
Examples:
  ferry convert pytorch_model.bin model.safetensors
  ferry convert model.safetensors model.pt --step cast:bf16
  ferry convert checkpoints/step-100/ model.safetensors --from deepspeed
  ferry convert train/ train.parquet --from tfrecord
  ferry convert *.pt -O 'out/{stem}.safetensors'
  cat rows.jsonl | ferry convert - rows.parquet --from jsonl",
    after_help = "Run `ferry formats ID` for the options of a format, and `ferry steps` for all steps."
)]
pub(crate) struct Convert {
    /// INPUT: file, folder, shard index, file-name prefix or URL. OUTPUT: file, or folder ending in `/`
    ///
    /// The extension of OUTPUT selects the format. `-` is standard input or output.
    #[arg(required = true, value_name = "INPUT OUTPUT")]
    pub(crate) paths: Vec<PathBuf>,

    /// Output format [default: from the extension]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,

    /// Output format option, repeatable (see `ferry formats ID`)
    #[arg(short = 'o', long = "output-option", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) output_options: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,

    /// Transform on the way, repeatable, e.g. cast:bf16 (see `ferry steps`)
    #[arg(long, value_name = "SPEC")]
    pub(crate) step: Vec<String>,

    /// Part of a checkpoint, or split of a dataset [default: auto]
    ///
    /// `auto` is the model, `.` is everything; otherwise a path such as model.encoder, or a split such as train.
    #[arg(long, value_name = "PATH", default_value = "auto", hide_default_value = true, value_parser = part)]
    pub(crate) part: Part,

    /// Overwrite an existing output (never deletes other files)
    #[arg(long, short)]
    pub(crate) force: bool,

    /// Check everything without writing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Read the output back and compare every value before publishing it
    #[arg(long)]
    pub(crate) verify: bool,

    /// Output of each input: a folder, or a template with {stem}, {name}, {parent}
    #[arg(short = 'O', value_name = "TEMPLATE", help_heading = "Output")]
    pub(crate) output_template: Option<String>,

    /// Files next to the weights to copy: globs, `all` or `none`
    ///
    /// By default, ferry copies all files of a model folder, and no file next to a model that is a file. A glob matches
    /// a path in the folder, or a file name: 'config.json,tokenizer*'.
    #[arg(long, value_name = "GLOBS", value_parser = companions, help_heading = "Output")]
    pub(crate) companions: Option<Companions>,

    /// Write a receipt next to the output (`=blake3` is faster)
    ///
    /// A receipt lists the sources, the options and the digests of all files and tensors.
    #[arg(
        long,
        value_name = "ALGORITHM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "sha256",
        help_heading = "Output"
    )]
    pub(crate) receipt: Option<DigestName>,

    /// Flush to disk before finishing, to survive power loss
    #[arg(long, help_heading = "Output")]
    pub(crate) sync: bool,

    /// Allow inputs without tensors or records
    #[arg(long, help_heading = "Output")]
    pub(crate) allow_empty: bool,

    #[command(flatten)]
    pub(crate) losses: LossArgs,

    /// Print JSON
    #[arg(long, help_heading = "Messages")]
    pub(crate) json: bool,

    /// Print only errors and losses
    #[arg(long, short, help_heading = "Messages")]
    pub(crate) quiet: bool,
}

// The options for losses, used by the commands that read an input's content.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Losses")]
pub(crate) struct LossArgs {
    /// Fail on any loss or change you did not ask for
    #[arg(long)]
    strict: bool,

    /// Permit this kind of loss, repeatable
    ///
    /// `input` also skips entries of a folder that cannot be read.
    #[arg(long, value_name = "KIND", value_parser = loss_kind)]
    allow_loss: Vec<LossKind>,
}

impl LossArgs {
    pub(crate) fn policy(&self) -> LossPolicy {
        LossPolicy { strict: self.strict, allowed: self.allow_loss.clone() }
    }
}

// Options for reading an input. This is not a doc comment, because clap would print a doc comment
// as the help of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReaderArgs {
    /// Input format [default: detected]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,

    /// Input format option, repeatable (see `ferry formats ID`)
    #[arg(short = 'i', long = "input-option", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) options: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) links: LinkArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct LinkArgs {
    /// Follow links to weights and records outside the folder
    #[arg(long)]
    pub(crate) follow_links: bool,
}

// The options of commands that only inspect an input.
#[derive(Debug, Clone, Args)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    pub(crate) reader: ReaderArgs,

    /// Part of a checkpoint, or split of a dataset [default: .]
    ///
    /// `.` is everything, `auto` is the model; otherwise a path such as model.encoder, or a split such as train.
    #[arg(long, value_name = "PATH", default_value = ".", hide_default_value = true, value_parser = part)]
    pub(crate) part: Part,
}

impl Command {
    /// Returns whether ferry follows links to weights and records outside the input's folder.
    pub(crate) fn follows_links(&self) -> bool {
        let links = match self {
            Self::Convert(command) => &command.reader.links,
            Self::Inspect(command) => &command.reader.reader.links,
            Self::View(command) => &command.reader.reader.links,
            Self::Show(command) => &command.reader.reader.links,
            Self::Cat(command) => &command.reader.reader.links,
            Self::Index(command) => &command.reader.links,
            Self::Diff(command) => &command.links,
            Self::Check(command) => &command.reader.reader.links,
            _ => return false,
        };
        links.follow_links
    }
}

impl LookArgs {
    pub(crate) fn look(&self, purpose: Purpose) -> InspectOptions<'_> {
        let ReaderArgs { from, options, .. } = &self.reader;
        InspectOptions { from: from.as_deref(), options, part: &self.part, purpose }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// File, folder, shard index, file-name prefix or URL; `-` is standard input
    pub(crate) input: PathBuf,

    /// Show only tensors or columns whose names match, e.g. 'encoder.*'
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// Show all tensors and all metadata
    #[arg(long)]
    pub(crate) all: bool,

    /// Print a digest per tensor: sha256 of its bytes, or blake3
    #[arg(long, value_name = "ALGORITHM")]
    pub(crate) digest: Option<DigestName>,

    /// Compute statistics per tensor or column, and report anomalies
    ///
    /// Reads every value: minimum, maximum, mean, standard deviation, zeros, NaN and infinities, and for records the number of distinct
    /// values. With GLOB, only for matching names.
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, conflicts_with = "schema")]
    pub(crate) stats: Option<Option<String>>,

    /// With --stats, add 64-bin histograms (second pass)
    #[arg(long, requires = "stats")]
    pub(crate) histogram: bool,

    /// Print the dataset's schema, usable with -i schema=FILE
    #[arg(long)]
    pub(crate) schema: bool,

    /// Write a self-contained HTML report
    ///
    /// The report has a treemap, a searchable tree and the metadata; with --stats also histograms and heat maps.
    #[arg(long, value_name = "OUT.html", conflicts_with_all = ["json", "schema"])]
    pub(crate) html: Option<PathBuf>,

    /// With --html, overwrite an existing report
    #[arg(long, short, requires = "html")]
    pub(crate) force: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    help_template = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}",
    before_help = "\
Examples:
  ferry view model.safetensors
  ferry view checkpoint.pt 'encoder.*'
  ferry view train.parquet --port 8000",
    after_help = "\
ferry prints the address of the page, which only this machine can open. Anyone who has the address
can see the page. Values of a tensor are read when you select it. Press Ctrl-C to stop."
)]
pub(crate) struct View {
    /// File, folder, shard index, file-name prefix or URL
    pub(crate) input: PathBuf,

    /// Show only tensors or columns whose names match, e.g. 'encoder.*'
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// Local port [default: any free port]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum DigestName {
    Sha256,
    Blake3,
}

impl DigestName {
    pub(crate) fn algorithm(self) -> Algorithm {
        match self {
            Self::Sha256 => Algorithm::Sha256,
            Self::Blake3 => Algorithm::Blake3,
        }
    }
}

#[derive(Debug, Args)]
#[command(
    help_template = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}",
    before_help = "\
Examples:
  ferry show model.safetensors lm_head.weight
  ferry show model.safetensors 'layers.0.w[0:3, ::2]' 'layers.*.bias[-1]'
  ferry show model.gguf blk.0.attn_q.weight --precision 3
  ferry show checkpoint.pt model.w --json
  ferry show train.parquet --rows 10:20 --columns id,text",
    after_help = "\
INDEX follows NumPy: integers, start:stop:step (negative values too) and `...`. ferry reads only the bytes that it
needs; --json reports how many. In JSON, numbers that are not finite are \"NaN\", \"inf\" and \"-inf\", and complex numbers are
pairs. Quantized weights are shown as floats."
)]
pub(crate) struct Show {
    /// File, folder, shard index, file-name prefix or URL; `-` is standard input
    pub(crate) input: PathBuf,

    /// Tensor names or patterns, with an optional NumPy slice: 'w[0:3, ::2]'
    #[arg(value_name = "NAME[INDEX]")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// Transform before showing, repeatable (see `ferry steps`)
    #[arg(long, value_name = "SPEC")]
    pub(crate) step: Vec<String>,

    /// Maximum digits after the decimal point
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) precision: usize,

    /// Summarize tensors with more values than this
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) threshold: u64,

    /// Show all values, or all rows and columns
    #[arg(long)]
    pub(crate) all: bool,

    /// Row range, as in Python (5, 10:20, -5:) [default: 0:10]
    #[arg(long, value_name = "START:STOP", allow_hyphen_values = true)]
    pub(crate) rows: Option<String>,

    /// Columns to show, comma-separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,

    /// Line width [default: terminal width, or 75 for tensors and 100 for records]
    #[arg(long, value_name = "N")]
    pub(crate) width: Option<usize>,

    /// Print JSON: one document with all values, or one object per record
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry cat train.parquet --rows :10 | jq .text
  ferry cat shards/ --from tfrecord")]
pub(crate) struct Cat {
    /// Record file, folder, shard prefix or URL; `-` is standard input
    pub(crate) input: PathBuf,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// Row range, as in Python (5, 10:20, :100) [default: all]
    #[arg(long, value_name = "START:STOP", allow_hyphen_values = true)]
    pub(crate) rows: Option<String>,

    #[command(flatten)]
    pub(crate) losses: LossArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry index train.tfrecord
  ferry index train.tfrecord train.idx --force")]
pub(crate) struct Index {
    /// TFRecord file
    pub(crate) input: PathBuf,

    /// Index file [default: INPUT.idx]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,

    /// Overwrite an existing index
    #[arg(long, short)]
    pub(crate) force: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    help_template = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}",
    before_help = "\
Examples:
  ferry diff checkpoint.pt model.safetensors
  ferry diff model.safetensors model-bf16.safetensors --max-diff 1e-2,relative
  ferry diff step-100.pt step-200.pt --part model --json
  ferry diff train.parquet train.jsonl",
    after_help = "\
Differences are sorted worst first: missing names, different shapes, then the largest absolute difference, or the largest
relative difference with --max-diff X,relative. NaN equals NaN. The exit code is 0 if the inputs are equal, and 1
if they differ."
)]
pub(crate) struct Diff {
    /// First checkpoint or dataset
    pub(crate) a: PathBuf,

    /// Second checkpoint or dataset
    pub(crate) b: PathBuf,

    /// Input format option for A, B or both, repeatable
    #[arg(short = 'i', long = "input-option", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) options: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) links: LinkArgs,

    /// Part of a checkpoint: `.` (everything), `auto` (the model), or a path [default: .]
    #[arg(long, value_name = "PATH", default_value = ".", hide_default_value = true, value_parser = part)]
    pub(crate) part: Part,

    /// Transform A before comparing, repeatable (see `ferry steps`)
    #[arg(long, value_name = "SPEC")]
    pub(crate) step: Vec<String>,

    /// Absolute tolerance
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) atol: Option<f64>,

    /// Relative tolerance (times B's value)
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) rtol: Option<f64>,

    /// Report all differences, but fail only on those above X
    ///
    /// `X,relative` compares the difference divided by the larger value. Missing names and different shapes always fail.
    #[arg(long, value_name = "X[,relative]", value_parser = max_diff)]
    pub(crate) max_diff: Option<MaxDiff>,

    /// Write a self-contained HTML report with all differences
    #[arg(long, value_name = "OUT.html", conflicts_with = "json")]
    pub(crate) html: Option<PathBuf>,

    /// With --html, overwrite an existing report
    #[arg(long, short, requires = "html")]
    pub(crate) force: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) losses: LossArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry steps
  ferry steps cast
  ferry steps @recipe.toml")]
pub(crate) struct Steps {
    /// Step, recipe, or @FILE for a recipe in a file
    pub(crate) name: Option<String>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry inspect model.safetensors --json > expected.json
  ferry check checkpoint.pt --against expected.json

EXPECTED.json may also be {\"tensors\": {NAME: {\"dtype\": ..., \"shape\": [...]}}}.")]
pub(crate) struct Check {
    /// Checkpoint
    pub(crate) input: PathBuf,

    /// Expected tensors: JSON from `ferry inspect --json`
    #[arg(long, value_name = "EXPECTED.json")]
    pub(crate) against: PathBuf,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry run zoo.toml
  ferry run zoo.toml --dry-run
  ferry run zoo.toml --only 'llama*' --jobs 4")]
pub(crate) struct Run {
    /// Manifest (TOML) or plan folder
    #[arg(required_unless_present = "schema")]
    pub(crate) manifest: Option<PathBuf>,

    /// Check every job without writing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Explain why each job runs or is skipped
    #[arg(long)]
    pub(crate) explain: bool,

    /// Select jobs whose names match this glob, repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Run part I of N (`2/8`); `slurm` or `k8s/N` read I from the scheduler
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<String>,

    /// Run on a Ray cluster: `ray` or `ray=ADDRESS` [env: FERRY_PYTHON]
    ///
    /// Needs Python with `tensorferry[ray]`.
    #[arg(long, value_name = "ENGINE", value_parser = Cluster::parse, conflicts_with_all = ["dry_run", "explain", "shard"])]
    pub(crate) on: Option<Cluster>,

    /// With --on, plan folder visible to all nodes [default: next to the manifest]
    #[arg(long, value_name = "DIR", requires = "on")]
    pub(crate) plan: Option<PathBuf>,

    /// Concurrent jobs [default: one per thread, more for small jobs]
    #[arg(long, short, value_name = "N", value_parser = threads)]
    pub(crate) jobs: Option<usize>,

    /// Stop at the first permanent failure
    #[arg(long)]
    pub(crate) fail_fast: bool,

    /// Continue after failures (overrides the manifest)
    #[arg(long, conflicts_with = "fail_fast")]
    pub(crate) keep_going: bool,

    /// Set a manifest variable, repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub(crate) var: Vec<(String, String)>,

    /// Journal file [default: next to the manifest]
    #[arg(long, value_name = "PATH")]
    pub(crate) journal: Option<PathBuf>,

    /// Report folder [default: next to the journal]
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,

    /// Print the manifest's JSON Schema
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,

    /// Print events as JSON Lines
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, failures and losses
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry plan zoo.toml /shared/zoo-plan
  ferry work /shared/zoo-plan --pull")]
pub(crate) struct Plan {
    /// Manifest (TOML)
    pub(crate) manifest: PathBuf,

    /// Plan folder to create
    pub(crate) plan: PathBuf,

    /// Select jobs whose names match this glob, repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Set a manifest variable, repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub(crate) var: Vec<(String, String)>,

    /// Maximum jobs per piece
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) piece_jobs: usize,

    /// Maximum input size per piece; a larger model gets its own piece
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    pub(crate) piece_bytes: u64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry work /shared/zoo-plan --pull
  echo '{\"piece\":17}' | ferry work /shared/zoo-plan")]
pub(crate) struct Work {
    /// Plan folder
    pub(crate) plan: PathBuf,

    /// Claim unclaimed pieces of the plan
    ///
    /// Without --pull, ferry reads `{"piece":17}` lines from standard input and reports the results as JSON Lines.
    #[arg(long)]
    pub(crate) pull: bool,

    /// Exit when the process with this ID exits
    #[arg(long, value_name = "PID")]
    pub(crate) runner: Option<u32>,

    /// Concurrent jobs [default: one per thread, more for small jobs]
    #[arg(long, short, value_name = "N", value_parser = threads)]
    pub(crate) jobs: Option<usize>,

    /// Stop at the first piece with a permanent failure
    #[arg(long, requires = "pull")]
    pub(crate) fail_fast: bool,

    /// Print events as JSON Lines
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, failures and losses
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ferry verify model.safetensors
  ferry verify models/ --quick")]
pub(crate) struct Verify {
    /// Outputs, receipts, or folders of outputs
    #[arg(required = true, value_name = "OUTPUT")]
    pub(crate) outputs: Vec<PathBuf>,

    /// Check file digests only
    #[arg(long)]
    pub(crate) quick: bool,

    /// Also check the source files
    #[arg(long)]
    pub(crate) source: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    if !Limits::NAMES.contains(&name) {
        return Err(format!("unknown limit {name:?}; the limits are {}", Limits::NAMES.join(", ")));
    }
    let value = parse_size(value).ok_or("expected a number, or a size such as 64MiB")?;
    if name == "nesting" && value > MAX_NESTING {
        return Err(format!("nesting is at most {MAX_NESTING}"));
    }
    Ok((name.to_owned(), value))
}

fn part(text: &str) -> Result<Part, Infallible> {
    Ok(Part::parse(text))
}

/// The globs of `--companions`.
#[derive(Debug, Clone)]
pub(crate) struct Companions(pub(crate) Vec<String>);

fn companions(text: &str) -> Result<Companions, Infallible> {
    Ok(Companions(match text {
        "all" => vec!["*".to_owned()],
        "none" => Vec::new(),
        globs => {
            globs.split(',').map(|glob| glob.trim().to_owned()).filter(|glob| !glob.is_empty()).collect()
        }
    }))
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text)
        .filter(|&bytes| bytes >= 1 << 20)
        .ok_or_else(|| "expected a size of at least 1MiB, such as 256MiB".to_owned())
}

fn threads(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|threads| (1..=1024).contains(threads))
        .ok_or_else(|| "expected 1 to 1024".to_owned())
}

fn tolerance(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|&x: &f64| x >= 0.0)
        .ok_or_else(|| "expected a number that is not negative".to_owned())
}

fn max_diff(text: &str) -> Result<MaxDiff, String> {
    let (limit, kind) = text.split_once(',').unwrap_or((text, "absolute"));
    let is_relative = match kind.trim() {
        "relative" => true,
        "absolute" => false,
        other => return Err(format!("expected X, or X,relative, not {other:?}")),
    };
    Ok(MaxDiff { limit: tolerance(limit)?, is_relative })
}

fn loss_kind(text: &str) -> Result<LossKind, String> {
    LossKind::named(text).ok_or_else(|| {
        let words: Vec<&str> = LossKind::ALL.iter().map(|kind| kind.word()).collect();
        format!("expected one of {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let command = Arguments::command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut visible: Vec<&str> = visible.map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        visible.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, visible);
    }

    #[test]
    fn limits_follow_the_memory_that_is_given() {
        let limits = |arguments: &[&str]| {
            let words = ["ferry"].iter().chain(arguments).chain(&["formats"]).copied();
            Arguments::try_parse_from(words).unwrap().limits()
        };
        let default = limits(&[]);
        assert_eq!((default.nodes, default.tensors), (838_860, 4 << 20));
        let small = limits(&["--memory", "256MiB"]);
        assert_eq!((small.nodes, small.tensors, small.entries), (838_860, 174_762, 1 << 20));
        assert_eq!(limits(&["--memory", "1MiB"]).nodes, 419_430);
        assert_eq!(limits(&["--memory", "16GiB"]).nodes, 53_687_091);
        assert_eq!(limits(&["--memory", "256MiB", "--limit", "nodes=9"]).nodes, 9);
        assert_eq!((default.memory_bytes, limits(&["--memory", "1MiB"]).memory_bytes), (256 << 20, 1 << 20));
    }
}
