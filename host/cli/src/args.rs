//! The command line's arguments.

use super::cluster::Cluster;
use clap::{Args, Parser, Subcommand};
use std::convert::Infallible;
use std::path::PathBuf;
use tensorferry::compare::FailOver;
use tensorferry::inspect::Look;
use tensorferry::request::{LossPolicy, Part};
use tensorferry::values::Algorithm;
use tensorferry_sdk::{Limits, LossKind, Purpose, parse_size};

/// How far the limit of nesting can be raised.
const MOST_NESTING: u64 = 1_000;

/// The heading of what every command takes.
const GLOBAL: &str = "Every command";

/// Bytes of buffers, if the user does not say.
const MEMORY: u64 = 256 << 20;
/// What the process needs anyway: less is taken for a wish.
const LEAST_MEMORY: u64 = 128 << 20;
/// Limits on what is held in memory whatever its bytes, and how much of it one takes at most. Measured, of what is
/// inspected and of what is converted: a value of a pickle, a tensor of many that are small, an entry of an archive.
const BYTES_OF_EACH: [(&str, u64); 3] = [("nodes", 320), ("tensors", 1536), ("entries", 256)];

/// Converts files of tensors and of records from one format to another: at the disk's speed, in bounded memory, without
/// running a pickle, and saying what could not be carried.
#[derive(Debug, Parser)]
#[command(name = "ferry", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  ferry convert pytorch_model.bin model.safetensors
  ferry convert model.safetensors shards/ --to safetensors -o max_shard_size=5GB
  ferry inspect checkpoint.pt
  ferry show model.safetensors 'lm_head.weight[0:3]'
  ferry diff checkpoint.pt model.safetensors

Exit codes: 0 done, 1 differences found, 2 usage, 3 the input is malformed, unsupported or over a
limit, 4 verification failed, 5 environment, 75 a passing fault (worth a retry), 130 interrupted.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Look for plugins in this folder first (also: FERRY_PLUGIN_PATH)
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub(crate) plugin_dir: Vec<PathBuf>,

    /// Let a plugin of another folder take the place of this built-in format
    #[arg(long, global = true, value_name = "FORMAT", help_heading = GLOBAL)]
    pub(crate) allow_shadow: Vec<String>,

    /// Threads that copy and hash [default: one for each core]
    #[arg(long, global = true, value_name = "N", value_parser = threads, help_heading = GLOBAL)]
    pub(crate) threads: Option<usize>,

    /// Memory for buffers; what does not fit goes through a temporary file beside the output. The process takes
    /// 32 MiB more at most, and 160 MiB may be needed whatever is said here [default: 256MiB]
    #[arg(long, global = true, value_name = "SIZE", value_parser = size, help_heading = GLOBAL)]
    pub(crate) memory: Option<u64>,

    /// Show every loss on a line of its own, and not the first names of each kind
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) losses: bool,

    /// Colours in messages [default: on a terminal, unless NO_COLOR is set]
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_default_value = true, help_heading = GLOBAL)]
    pub(crate) color: clap::ColorChoice,

    /// How stores are reached, `endpoint=http://localhost:9000`; the guide's chapter on them lists the keys
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = GLOBAL)]
    pub(crate) store: Vec<String>,

    /// Raise or lower a limit that an error names, `columns=50000`; `ferry formats` lists them
    #[arg(long, global = true, value_name = "NAME=VALUE", value_parser = bound, help_heading = GLOBAL)]
    pub(crate) bound: Vec<(String, u64)>,
}

impl Arguments {
    /// Bytes of buffers.
    pub(crate) fn memory(&self) -> u64 {
        self.memory.unwrap_or(MEMORY)
    }

    /// What bounds hostile input: no header, page or record is larger than the memory that it should fit in.
    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.header_bytes = limits.header_bytes.min(self.memory().max(LEAST_MEMORY));
        for (name, value) in self.bounds(self.memory) {
            let _ = limits.set(&name, value);
        }
        limits
    }

    /// The limits that are not as they are by default: as many values and tensors as there is memory for, if the user
    /// says how much there is, and what is said by name.
    pub(crate) fn bounds(&self, memory: Option<u64>) -> impl Iterator<Item = (String, u64)> {
        let whole = memory.map(|memory| ("memory_bytes".to_owned(), memory));
        let memory = memory.map(|memory| memory.max(LEAST_MEMORY));
        // A few bytes of a file make a value: their number is always that for which there is memory.
        let of = move |name: &str| if name == "nodes" { memory.or(Some(MEMORY)) } else { memory };
        let within =
            BYTES_OF_EACH.iter().filter_map(move |&(name, bytes)| Some((name.to_owned(), of(name)? / bytes)));
        whole.into_iter().chain(within).chain(self.bound.iter().cloned())
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Convert a checkpoint or a data set to another format
    Convert(Convert),
    /// Show what a checkpoint or a data set holds
    Inspect(Inspect),
    /// Print values of tensors as numpy does, or rows of records as a table
    Show(Show),
    /// Show an input as a page in the browser of this machine, until Ctrl-C
    View(View),
    /// Print records, one JSON object a line
    Cat(Cat),
    /// Check the framing of every record, and write an index of them
    Index(Index),
    /// Tell whether two inputs hold the same tensors, or the same records, whatever their formats
    Diff(Diff),
    /// Compare names, dtypes and shapes with what is expected
    Check(Check),
    /// Do the jobs of a manifest; again: what is left, and what has changed
    Run(Run),
    /// Cut a manifest's jobs into pieces once, for many workers
    Plan(Plan),
    /// Do pieces of a plan until there are none left
    Work(Work),
    /// Do jobs for a runner: not for people
    #[command(hide = true)]
    Job {
        /// The process that started this one
        #[arg(long)]
        runner: u32,
    },
    /// Look what plugin libraries are, in a process of its own: not for people
    #[command(hide = true)]
    ScanPlugins {
        /// The libraries
        libraries: Vec<PathBuf>,
    },
    /// Hold a plugin to the rules, in a process of its own: not for people
    #[command(hide = true)]
    ExaminePlugin {
        /// What is tested
        #[command(flatten)]
        test: TestPlugin,
        /// Keep the files of this input, and end there
        #[arg(long)]
        stop_at: Option<String>,
    },
    /// Hold outputs against their receipts
    Verify(Verify),
    /// Finish or remove a staging folder that was not made where it stands, once you have looked at it
    Recover {
        /// The folder, .ferry-stage-.../...
        stage: PathBuf,
    },
    /// End uploads that killed runs have left in a store
    Clean(Clean),
    /// List the formats, or show one of them with its options
    Formats {
        /// A format's id
        id: Option<String>,
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// List the steps and recipes that `--step` takes, or show one of them
    Steps(Steps),
    /// Look after plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Print the manual page, with all commands: `ferry man | man -l -`
    Man,
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// The start of the names whose uploads are ended: s3://bucket/prefix
    pub(crate) url: PathBuf,

    /// End those that were begun longer ago than this: nothing tells an upload that is going on from one of a dead run
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = humantime::parse_duration)]
    pub(crate) older_than: std::time::Duration,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Every library that was found, where, and why it was refused if it was
    List {
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// Open one library, or all of a folder, anew and say what it has or why it is refused; ends a quarantine
    Check {
        /// A library, or a folder of them
        path: PathBuf,
        /// One JSON document
        #[arg(long)]
        json: bool,
    },
    /// Copy a library into your own plugin folder, with its SHA-256 beside it
    Install {
        /// The library
        library: PathBuf,
        /// Replace one of the same file name
        #[arg(long)]
        force: bool,
    },
    /// Remove a library from your own plugin folder
    Remove {
        /// The plugin, one of its formats, or its file
        name: String,
    },
    /// Write a small complete plugin into a new folder, to begin with: it builds, has tests, and converts a sample
    New(NewPlugin),
    /// Hold a library to every rule of the boundary, whatever language it is written in
    Test(TestPlugin),
    /// Put libraries on the list of those that may be opened; without any, show the list. Once there is a list,
    /// libraries that are not on it are refused, except ferry's own
    Trust {
        /// The libraries
        libraries: Vec<PathBuf>,
        /// Take them off the list
        #[arg(long, requires = "libraries")]
        remove: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NewPlugin {
    /// The format's id, which is the folder's name: lowercase letters, digits, dashes
    pub(crate) name: String,
    /// The language
    #[arg(long, value_enum, value_name = "rust|c", default_value = "rust", hide_possible_values = true)]
    pub(crate) lang: PluginLanguage,
    /// What the format holds
    #[arg(
        long,
        value_enum,
        value_name = "tensors|records",
        default_value = "tensors",
        hide_possible_values = true
    )]
    pub(crate) kind: PluginKind,
    /// Build with the SDK in this folder, and not with the published one
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
pub(crate) struct TestPlugin {
    /// The library
    pub(crate) library: PathBuf,
    /// Small inputs of its formats, of some kilobytes: files, each with those beside it whose names begin with its
    /// own, or folders. Every byte of them is damaged once
    pub(crate) samples: Vec<PathBuf>,
    /// The format of the samples [default: the one of the library that knows them]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,
    /// Keep the inputs that break a rule in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

// The commonest first; the rest under headings.
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
    after_help = "`ferry formats ID` shows the options of a format, `ferry steps` all steps."
)]
pub(crate) struct Convert {
    /// INPUT, then OUTPUT. INPUT is a file, a folder, an index, or the common start of a set of files. OUTPUT is a file, or
    /// a folder if it ends in `/` or is one; its ending names the format. `-` is standard input or output
    #[arg(required = true, value_name = "INPUT OUTPUT")]
    pub(crate) paths: Vec<PathBuf>,

    /// The output's format [default: told by its ending]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,

    /// An option of the writer; `ferry formats ID` lists them
    #[arg(short = 'o', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) writer_options: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,

    /// A step or a recipe, applied in order: `rename:^bert/(.*)$,to=$1`; `ferry steps` lists them
    #[arg(long, value_name = "SPEC")]
    pub(crate) step: Vec<String>,

    /// Which part of a nested checkpoint: `auto` (the model), `.` (everything), or a path; or which split of a
    /// folder of records: `train`
    #[arg(long, value_name = "PATH", default_value = "auto", value_parser = part)]
    pub(crate) part: Part,

    /// Replace an output that exists; files that ferry did not write are kept
    #[arg(long)]
    pub(crate) force: bool,

    /// Plan and check everything, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Read the output back, and compare the content of every tensor, before it becomes visible
    #[arg(long)]
    pub(crate) verify: bool,

    /// Of several inputs, where the output of each goes: a path with {stem}, {name} or {parent} in it, or a folder
    #[arg(short = 'O', value_name = "TEMPLATE", help_heading = "Output")]
    pub(crate) output_template: Option<String>,

    /// Write a receipt with the output: what it was made from and how, with the digests of all of it; those of
    /// files by SHA-256, or by BLAKE3, which is faster
    #[arg(
        long,
        value_name = "ALGORITHM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "sha256",
        help_heading = "Output"
    )]
    pub(crate) receipt: Option<DigestName>,

    /// Sync files and folders to the disk before the output counts as written
    #[arg(long, help_heading = "Output")]
    pub(crate) sync: bool,

    /// Convert an input without a tensor or a record too
    #[arg(long, help_heading = "Output")]
    pub(crate) allow_empty: bool,

    #[command(flatten)]
    pub(crate) losses: LossArgs,

    /// One JSON document on stdout
    #[arg(long, help_heading = "Messages")]
    pub(crate) json: bool,

    /// Errors and what is lost, and nothing else
    #[arg(long, short, help_heading = "Messages")]
    pub(crate) quiet: bool,
}

// Of commands that take the content of an input.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Losses")]
pub(crate) struct LossArgs {
    /// Fail if content is lost, or changed without having been asked for
    #[arg(long)]
    strict: bool,

    /// Let losses of this kind pass: `input` also goes on without entries of a folder that cannot be read
    #[arg(long, value_name = "KIND", value_parser = loss_kind)]
    allow_loss: Vec<LossKind>,
}

impl LossArgs {
    pub(crate) fn policy(&self) -> LossPolicy {
        LossPolicy { strict: self.strict, allowed: self.allow_loss.clone() }
    }
}

// Of commands that read an input. No doc comment: it would become the command's help.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReaderArgs {
    /// The input's format [default: told by its content]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,

    /// An option of the reader; `ferry formats` lists them
    #[arg(short = 'i', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) options: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) links: LinkArgs,
}

// Of commands that read an input.
#[derive(Debug, Clone, Args)]
pub(crate) struct LinkArgs {
    /// Follow links to weights and records outside the folder
    #[arg(long)]
    pub(crate) follow_links: bool,
}

// Of commands that only look.
#[derive(Debug, Clone, Args)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    pub(crate) reader: ReaderArgs,

    /// Which part of a nested checkpoint: `.` (everything), `auto` (the model), or a path; or which split of
    /// a folder of records: `train`
    #[arg(long, value_name = "PATH", default_value = ".", value_parser = part)]
    pub(crate) part: Part,
}

impl Command {
    /// Whether weights and records outside an input's folder may be read.
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
    pub(crate) fn look(&self, purpose: Purpose) -> Look<'_> {
        let ReaderArgs { from, options, .. } = &self.reader;
        Look { from: from.as_deref(), options, part: &self.part, purpose }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A file, a folder, an index, or the common start of a set of files; `-` is standard input
    pub(crate) input: PathBuf,

    /// Only tensors, or columns, with such names: 'encoder.*'
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// Show every tensor, however many there are
    #[arg(long)]
    pub(crate) all: bool,

    /// Hash every tensor: sha256 over its bytes, or blake3, ferry's content digest
    #[arg(long, value_name = "ALGORITHM")]
    pub(crate) digest: Option<DigestName>,

    /// Look at every value: the least, the greatest, mean, deviation, zeros, NaN and infinities of each tensor, or of those
    /// whose names GLOB matches, and what is wrong with them; of records, also the distinct values of each column
    #[arg(long, value_name = "GLOB", num_args = 0..=1, require_equals = true, conflicts_with = "schema")]
    pub(crate) stats: Option<Option<String>>,

    /// With --stats: how the values of each tensor are distributed, in 64 bins, which takes a second pass
    #[arg(long, requires = "stats")]
    pub(crate) histogram: bool,

    /// Of records: print the schema that was found, as a file that schema=FILE takes
    #[arg(long)]
    pub(crate) schema: bool,

    /// Write a page for a browser, one file that needs no network: a treemap, a tree to search, what else the input says;
    /// with --stats histograms and heat maps too
    #[arg(long, value_name = "OUT.html", conflicts_with_all = ["json", "schema"])]
    pub(crate) html: Option<PathBuf>,

    /// With --html: replace a page that exists
    #[arg(long, requires = "html")]
    pub(crate) force: bool,

    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

// No more than `inspect` has, where a page shows it.
#[derive(Debug, Args)]
#[command(
    help_template = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}",
    before_help = "\
Examples:
  ferry view model.safetensors
  ferry view checkpoint.pt 'encoder.*'
  ferry view train.parquet --port 8000",
    after_help = "\
The address that is printed leads to the page, on this machine alone; who has it may see what the
page shows. The values of a tensor are read when it is chosen. Ctrl-C ends it."
)]
pub(crate) struct View {
    /// A file, a folder, an index, or the common start of a set of files
    pub(crate) input: PathBuf,

    /// Only tensors, or columns, with such names: 'encoder.*'
    #[arg(value_name = "PATTERN")]
    pub(crate) patterns: Vec<String>,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// The port of 127.0.0.1 to listen on [default: one that is free]
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
NAME[INDEX] takes what numpy takes of an array: numbers, start:stop:step (negative ones too) and `...`. Only the bytes
that are needed are read; --json says how many, and has numbers that are not finite as \"NaN\", \"inf\" and \"-inf\", complex
ones as two parts. Weights in blocks of a format's own are shown as the floats that they
stand for."
)]
pub(crate) struct Show {
    /// A file, a folder, an index, or the common start of a set of files; `-` is standard input
    pub(crate) input: PathBuf,

    /// Tensors by name, or a few by a pattern, each with an index if not all of it is meant: 'w[0:3, ::2]'
    #[arg(value_name = "NAME[INDEX]")]
    pub(crate) names: Vec<String>,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// A step or a recipe, applied in order before values are shown; `ferry steps` lists them
    #[arg(long, value_name = "SPEC")]
    pub(crate) step: Vec<String>,

    /// Of tensors: digits behind the point, at most
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) precision: usize,

    /// Of tensors: show the ends of those that have more values than this
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) threshold: u64,

    /// Show every value, or every row and column
    #[arg(long)]
    pub(crate) all: bool,

    /// Of records: which rows, from 0, as in Python; a number alone is one row [default: 0:10]
    #[arg(long, value_name = "START:STOP", allow_hyphen_values = true)]
    pub(crate) rows: Option<String>,

    /// Of records: these columns, with commas between
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,

    /// Characters of a line [default: the terminal's; elsewhere 75 for tensors, 100 for records]
    #[arg(long, value_name = "N")]
    pub(crate) width: Option<usize>,

    /// One JSON document with all values on stdout; of records, one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Cat {
    /// A file of records, a folder of them, or the common start of a set of shards; `-` is standard input
    pub(crate) input: PathBuf,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// Print the first N records
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,

    #[command(flatten)]
    pub(crate) losses: LossArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Index {
    /// A file of records
    pub(crate) input: PathBuf,

    /// The index [default: INPUT.idx]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,

    /// Replace an index that exists
    #[arg(long)]
    pub(crate) force: bool,

    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    help_template = "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}",
    before_help = "\
Examples:
  ferry diff checkpoint.pt model.safetensors
  ferry diff model.safetensors model-bf16.safetensors --fail-over 1e-2,relative
  ferry diff step-100.pt step-200.pt --part model --json
  ferry diff train.parquet train.jsonl",
    after_help = "\
The worst comes first: names that one side alone has, other shapes, then by the largest absolute difference (with
--fail-over X,relative by the largest relative one, which is over the larger of both numbers). NaN is equal to NaN.
The verdict is on stdout; the exit code is 0 or 1."
)]
pub(crate) struct Diff {
    /// One checkpoint, or one data set
    pub(crate) a: PathBuf,

    /// The other
    pub(crate) b: PathBuf,

    /// An option of the reader: of A's, of B's, or of both, where both have it
    #[arg(short = 'i', value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) options: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) links: LinkArgs,

    /// Which part of a nested checkpoint: `.` (everything), `auto` (the model), or a path
    #[arg(long, value_name = "PATH", default_value = ".", value_parser = part)]
    pub(crate) part: Part,

    /// A step or a recipe, applied to A in order; `ferry steps` lists them
    #[arg(long, value_name = "SPEC")]
    pub(crate) step: Vec<String>,

    /// Numbers may differ by X ...
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) atol: Option<f64>,

    /// ... plus X times the number in B
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) rtol: Option<f64>,

    /// Exit with 1 only if a number differs by more than X, a name is missing, or a shape is another one; `X,relative`
    /// is of the difference over the larger of both numbers
    #[arg(long, value_name = "X[,relative]", value_parser = fail_over)]
    pub(crate) fail_over: Option<FailOver>,

    /// Write a page for a browser, one file that needs no network: all differences, to search, the worst first
    #[arg(long, value_name = "OUT.html", conflicts_with = "json")]
    pub(crate) html: Option<PathBuf>,

    /// With --html: replace a page that exists
    #[arg(long, requires = "html")]
    pub(crate) force: bool,

    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) losses: LossArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Steps {
    /// A step, a recipe, or `@` and the path of a file that holds a recipe
    pub(crate) name: Option<String>,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// A checkpoint
    pub(crate) input: PathBuf,

    /// What `ferry inspect --json` printed of another, or {"tensors": {NAME: {"dtype": ..., "shape": [...]}}}
    #[arg(long, value_name = "EXPECTED.json")]
    pub(crate) against: PathBuf,

    #[command(flatten)]
    pub(crate) reader: LookArgs,

    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The manifest: TOML, see --schema; or a plan
    #[arg(required_unless_present = "schema")]
    pub(crate) manifest: Option<PathBuf>,

    /// Print the plan of every job, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Say of every job why it runs or does not
    #[arg(long)]
    pub(crate) explain: bool,

    /// Only jobs whose names match this glob
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Only the I-th of N parts of the jobs, or of a plan's pieces, from 1; `slurm` or `k8s/N` ask the scheduler for I
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<String>,

    /// Run the jobs on the nodes of a cluster: `ray` or `ray=ADDRESS`; needs Python with `tensorferry[ray]` (which:
    /// FERRY_PYTHON)
    #[arg(long, value_name = "ENGINE", value_parser = Cluster::parse, conflicts_with_all = ["dry_run", "explain", "shard"])]
    pub(crate) on: Option<Cluster>,

    /// With --on: the folder of the plan, which all nodes see [default: beside the manifest]
    #[arg(long, value_name = "DIR", requires = "on")]
    pub(crate) plan: Option<PathBuf>,

    /// Jobs at the same time [default: one for each thread, more while they are small]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) jobs: Option<usize>,

    /// End at the first job that fails for good
    #[arg(long)]
    pub(crate) fail_fast: bool,

    /// Go on after a job that failed: the default, whatever the manifest says
    #[arg(long, conflicts_with = "fail_fast")]
    pub(crate) keep_going: bool,

    /// The value of a variable of the manifest
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub(crate) var: Vec<(String, String)>,

    /// The journal [default: beside the manifest]
    #[arg(long, value_name = "PATH")]
    pub(crate) journal: Option<PathBuf>,

    /// The folder of the report [default: beside the journal]
    #[arg(long, value_name = "DIR")]
    pub(crate) report: Option<PathBuf>,

    /// Print the manifest's JSON Schema
    #[arg(long, exclusive = true)]
    pub(crate) schema: bool,

    /// JSON lines on stdout: what happens, as it happens
    #[arg(long)]
    pub(crate) json: bool,

    /// Errors, failures and what is lost, and nothing else
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Plan {
    /// The manifest
    pub(crate) manifest: PathBuf,

    /// The folder that the plan will be
    pub(crate) plan: PathBuf,

    /// Only jobs whose names match this glob
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// The value of a variable of the manifest
    #[arg(long, value_name = "NAME=VALUE", value_parser = key_value)]
    pub(crate) var: Vec<(String, String)>,

    /// Most jobs of a piece
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) piece_jobs: usize,

    /// Most bytes that the jobs of a piece read; a bigger model is a piece alone
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    pub(crate) piece_bytes: u64,

    /// One JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Work {
    /// The plan
    pub(crate) plan: PathBuf,

    /// Claim pieces that no other worker does; without it, they come as lines `{"piece":17}` over the standard input, and
    /// what becomes of them is told in JSON lines
    #[arg(long)]
    pub(crate) pull: bool,

    /// End with this process, which has started this one
    #[arg(long, value_name = "PID")]
    pub(crate) runner: Option<u32>,

    /// Jobs at the same time [default: one for each thread, more while they are small]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) jobs: Option<usize>,

    /// End at the first piece with a job that fails for good
    #[arg(long, requires = "pull")]
    pub(crate) fail_fast: bool,

    /// JSON lines on stdout: what happens, as it happens
    #[arg(long)]
    pub(crate) json: bool,

    /// Errors, failures and what is lost, and nothing else
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// Outputs, their receipts, or folders with any number of them
    #[arg(required = true, value_name = "OUTPUT")]
    pub(crate) outputs: Vec<PathBuf>,

    /// Compare the digests of the files, and do not read the tensors
    #[arg(long)]
    pub(crate) quick: bool,

    /// Also compare the files that the outputs were made from
    #[arg(long)]
    pub(crate) source: bool,

    /// One JSON document on stdout
    #[arg(long)]
    pub(crate) json: bool,
}

fn bound(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    if !Limits::NAMES.contains(&name) {
        return Err(format!("no limit {name:?}: there are {}", Limits::NAMES.join(", ")));
    }
    let value = parse_size(value).ok_or("expected a number, or a size such as 64MiB")?;
    // What nests is followed by calls, and a stack has an end.
    if name == "nesting" && value > MOST_NESTING {
        return Err(format!("nesting is at most {MOST_NESTING}"));
    }
    Ok((name.to_owned(), value))
}

fn part(text: &str) -> Result<Part, Infallible> {
    Ok(Part::parse(text))
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

fn fail_over(text: &str) -> Result<FailOver, String> {
    let (limit, kind) = text.split_once(',').unwrap_or((text, "absolute"));
    let is_relative = match kind.trim() {
        "relative" => true,
        "absolute" => false,
        other => return Err(format!("expected X, or X,relative, not {other:?}")),
    };
    Ok(FailOver { limit: tolerance(limit)?, is_relative })
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
        assert_eq!(limits(&["--memory", "256MiB", "--bound", "nodes=9"]).nodes, 9);
        assert_eq!((default.memory_bytes, limits(&["--memory", "1MiB"]).memory_bytes), (256 << 20, 1 << 20));
    }
}
