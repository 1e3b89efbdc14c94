//! Reads a run. The reader finds the ranks, reads their files, compares the tensors that several
//! ranks share, and fills the catalog.

use crate::args::Args;
use crate::like::COMMON;
use crate::model::{Group, Parameter, parameters};
use crate::rank_file::{OtherContent, RankFile, RankReader};
use crate::run_folder::{self, RankFolder};
use crate::subfolder::Subfolder;
use std::collections::{BTreeMap, HashMap};
use tensorferry_megatron_model::{
    GridSize, JoinRule, JoinedCatalog, Placement, Rank, describe_location, fused, is_embedding, is_gated,
    is_output, placement, same_bytes,
};
use tensorferry_sdk::{
    Catalog, CatalogSink, Context, Error, Format, Loss, LossKind, NothingEncoded, OptionSpec, Options,
    Purpose, Result, Side, Source, TensorDecoder, TensorReader, TypedOption, Value, listed,
};
use tensorferry_torch_dcp::TorchDcp;
use tensorferry_torch_file::{Budget, Extent, Location, ObjectFile};

/// Behavior if several ranks share a tensor and its values differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    Refuse,
    TakeFirst,
}

/// Row order of fused attention weights in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FusedOrder {
    Stored,
    Current,
}

const REPLICATED: TypedOption<Difference> = TypedOption::choice(
    Side::Reader,
    "replicated",
    &[("equal", Difference::Refuse), ("first", Difference::TakeFirst)],
    "require equal copies on all ranks, or use the first rank's",
);
const QKV: TypedOption<FusedOrder> = TypedOption::choice(
    Side::Reader,
    "qkv",
    &[("stored", FusedOrder::Stored), ("today", FusedOrder::Current)],
    "row order of query_key_value: as stored, or as in version 2 and later",
);
const VOCABULARY: TypedOption<Option<u32>> = TypedOption::integer(
    Side::Reader,
    "vocab_size",
    1..=u32::MAX as u64,
    "rows of the embedding and output layer to keep; the rest is padding",
);
const ITERATION: TypedOption<Option<String>> = TypedOption::text(
    Side::Reader,
    "iteration",
    "iteration to read instead of the newest: a number, or release",
);
const SHARD_IS_ALONE: TypedOption<bool> = TypedOption::choice(
    Side::Reader,
    "shard",
    &[("refuse", false), ("alone", true)],
    "refuse the folder of a single rank, or read only that rank's part",
);

/// Reason for omitting values that are not part of the model.
const OF_TRAINING: &str = "training state, which is not part of the model";

pub(crate) fn options() -> Vec<OptionSpec> {
    vec![REPLICATED.spec(), QKV.spec(), VOCABULARY.spec(), ITERATION.spec(), SHARD_IS_ALONE.spec()]
}

#[derive(Debug)]
pub(crate) struct Reader {
    difference: Difference,
    order: FusedOrder,
    vocabulary: Option<u64>,
    iteration: Option<String>,
    shard_is_alone: bool,
}

impl Reader {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            difference: REPLICATED.get(options)?,
            order: QKV.get(options)?,
            vocabulary: VOCABULARY.get(options)?.map(u64::from),
            iteration: ITERATION.get(options)?,
            shard_is_alone: SHARD_IS_ALONE.get(options)?,
        })
    }

    /// Returns an error unless the user requested only one rank's part of the model.
    fn check_part_allowed(&self, context: &dyn Context) -> Result<()> {
        if !self.shard_is_alone && context.purpose().has(Purpose::SHOW) {
            context.note("this is one rank's part of a model: the parent folder has the whole model");
        } else if !self.shard_is_alone {
            return Err(Error::usage(
                "the folder is one rank's part of a model, unless the run had only one rank",
            )
            .hint("pass the parent folder for the whole model, or -i shard=alone for this rank's part"));
        }
        if self.order == FusedOrder::Current || self.vocabulary.is_some() {
            return Err(Error::usage(format!(
                "{QKV} and {VOCABULARY} apply only to whole models, not to one rank's part"
            )));
        }
        Ok(())
    }
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        if let Some(folder) = run_folder::distributed(source, self.iteration.as_deref())? {
            report_common(source, &format!("{folder}{COMMON}"), catalog, context)?;
            return TorchDcp.reader(&Options::default())?.read(
                &Subfolder { source, folder },
                catalog,
                context,
            );
        }
        let rank = if self.iteration.is_none() { run_folder::one_rank(source)? } else { None };
        let is_alone = rank.is_some();
        let folders = match rank {
            Some(rank) => vec![rank],
            None => run_folder::find(source, self.iteration.as_deref())?,
        };
        let run = RunReader::read(source, folders, is_alone, context)?;
        if is_alone && !run.args().declares_one_rank() {
            self.check_part_allowed(context)?;
            run.report(catalog)?;
            return run.add_part(catalog);
        }
        run.report(catalog)?;
        let parameters = parameters(run.size, &run.files, run.args())?;
        let output = JoinedCatalog::new(&run.collected, catalog);
        let mut joining = Joining {
            reader: self,
            source,
            context,
            run: &run,
            output,
            shapes: HashMap::new(),
            told_order: false,
        };
        joining.shapes = parameters.iter().filter_map(shape_of_part).collect();
        let embedding = parameters.iter().find(|parameter| is_embedding(&parameter.name));
        for parameter in &parameters {
            context.check_cancelled()?;
            joining.add(parameter, embedding).map_err(|error| error.tensor(&parameter.name))?;
        }
        Ok(Box::new(NothingEncoded))
    }
}

/// Adds the arguments of a distributed checkpoint to the metadata. Reports the other values in the
/// file `common.pt` as lost.
fn report_common(
    source: &dyn Source,
    name: &str,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<()> {
    if !source.contains(name)? {
        return Ok(());
    }
    let extent = Extent::whole(source, source.open(name)?);
    let object = ObjectFile::open(source, extent, context).map_err(|error| error.file(name))?;
    object.globals().try_for_each(|global| catalog.global(global))?;
    let (graph, mut budget) = (object.graph(), Budget::new(context.limits()));
    for (key, value) in graph.entries(object.root()).unwrap_or_default() {
        let said = match graph.text(key) {
            Some("args") => Args::read(graph, value, &mut budget)?.value()?,
            Some("iteration") => graph.int(value).map(Value::int),
            Some("checkpoint_version") => graph.float(value).map(Value::float),
            Some("content_metadata") | None => None,
            Some(key) => {
                catalog.loss(Loss::new(LossKind::State, budget.name(key)?, OF_TRAINING))?;
                None
            }
        };
        said.map_or(Ok(()), |said| catalog.metadata(graph.text(key).unwrap_or_default(), said))?;
    }
    Ok(())
}

fn shape_of_part(parameter: &Parameter) -> Option<(&str, Vec<u64>)> {
    let (_, parts) = parameter.groups().next()?;
    Some((&parameter.name, parts.first()?.shape.clone()))
}

/// The content of all rank files in a run.
struct RunReader {
    size: GridSize,
    folders: BTreeMap<Rank, RankFolder>,
    files: BTreeMap<Rank, RankFile>,
    collected: Catalog,
    found: OtherContent,
    /// Files in the ranks' folders that are not part of the model.
    others: Vec<String>,
}

impl RunReader {
    /// Reads the ranks in these folders. If `is_alone` is set, there is only one folder, and the
    /// rank counts in its arguments are ignored.
    fn read(
        source: &dyn Source,
        folders: Vec<RankFolder>,
        is_alone: bool,
        context: &dyn Context,
    ) -> Result<Self> {
        let mut reader = RankReader::new(source, context);
        // The arguments contain the number of ranks. They are the same on all ranks, so read the
        // arguments of the first rank.
        let (any, first) = match folders.first() {
            Some(folder) => (folder.path.clone(), reader.read(&folder.file(source)?)?),
            None => return Err(Error::plugin("a run without ranks")),
        };
        let args = if is_alone { &Args::NONE } else { &first.args };
        let mut known = BTreeMap::new();
        let mut second_is_expert = false;
        if let Some(last) = run_folder::last_ambiguous(&folders, args) {
            // The parameter names of the first and last pipeline stages differ, because only the
            // first stage has the embedding and only the last one has the output layer. The
            // parameter names of all expert ranks are the same.
            let file = reader.read(&last.file(source)?)?;
            second_is_expert = file.names() == first.names();
            known.insert(last.path.clone(), file);
        }
        let (size, folders) = run_folder::grid(folders, args, second_is_expert)?;
        known.insert(any, first);
        let mut files: BTreeMap<Rank, RankFile> = BTreeMap::new();
        let mut others = Vec::new();
        for (&rank, folder) in &folders {
            let file = folder.file(source)?;
            let read = match known.remove(&folder.path) {
                Some(read) => read,
                None => reader.read(&file)?,
            };
            if let Some(first) = files.values().next() {
                check_of_one_run(first, &read).map_err(|error| error.file(&file))?;
            }
            files.insert(rank, read);
            others.extend(folder.others(source)?);
        }
        let (collected, found) = reader.finish()?;
        Ok(Self { size, folders, files, collected, found, others })
    }

    fn first(&self) -> Option<&RankFile> {
        self.files.values().next()
    }

    fn args(&self) -> &Args {
        const NONE: &Args = &Args::NONE;
        self.first().map_or(NONE, |file| &file.args)
    }

    fn path(&self, rank: Rank) -> &str {
        self.folders.get(&rank).map_or("", |folder| &folder.path)
    }

    /// Adds the tensors of the only rank without joining them.
    fn add_part(&self, catalog: &mut dyn CatalogSink) -> Result<Box<dyn TensorDecoder>> {
        let mut output = JoinedCatalog::new(&self.collected, catalog);
        for parameter in parameters(self.size, &self.files, &Args::NONE)? {
            for (_, parts) in parameter.groups() {
                output.whole(&parameter.name, parts[0])?;
            }
        }
        Ok(Box::new(NothingEncoded))
    }

    /// Adds the metadata and the globals, and reports everything that is not a parameter as lost.
    fn report(&self, catalog: &mut dyn CatalogSink) -> Result<()> {
        let OtherContent { globals, calls, training, no_tensors, extra_states } = &self.found;
        globals.iter().try_for_each(|global| catalog.global(global))?;
        calls.report(catalog)?;
        if let Some(args) = self.args().value()? {
            catalog.metadata("args", args)?;
        }
        let first = self.first();
        if let Some(version) = first.and_then(|file| file.version) {
            catalog.metadata("checkpoint_version", Value::float(version))?;
        }
        if let Some(iteration) = first.and_then(|file| file.iteration) {
            catalog.metadata("iteration", Value::int(iteration))?;
        }
        let mut lose = |what: &str, why: &str| catalog.loss(Loss::new(LossKind::State, what, why));
        training.iter().try_for_each(|key| lose(key, OF_TRAINING))?;
        no_tensors.iter().try_for_each(|name| lose(name, "a value of the model that is not a tensor"))?;
        if *extra_states > 0 {
            lose(&format!("{extra_states} _extra_state"), "extra state of modules, such as FP8 scales")?;
        }
        if !self.others.is_empty() {
            let why = "files of the sharded optimizer: flat buffers whose layout is known only to the running model";
            lose(&listed(&self.others, 1), why)?;
        }
        Ok(())
    }
}

fn check_of_one_run(first: &RankFile, rank: &RankFile) -> Result<()> {
    first.args.check_same(&rank.args)?;
    let said =
        |file: &RankFile| format!("iteration {:?}, checkpoint_version {:?}", file.iteration, file.version);
    if said(first) == said(rank) {
        return Ok(());
    }
    Err(Error::malformed("the rank is from a different run or iteration than the first rank")
        .expected(said(first))
        .found(said(rank)))
}

/// State for joining the parameters of a run in order.
struct Joining<'j, 'o> {
    reader: &'j Reader,
    source: &'j dyn Source,
    context: &'j dyn Context,
    run: &'j RunReader,
    output: JoinedCatalog<'o>,
    /// For each parameter, the shape of the first rank's part.
    shapes: HashMap<&'j str, Vec<u64>>,
    /// Whether the note about the old row order was already printed.
    told_order: bool,
}

impl Joining<'_, '_> {
    fn add(&mut self, parameter: &Parameter, embedding: Option<&Parameter>) -> Result<()> {
        let name = parameter.name.as_str();
        let mut groups = parameter.groups();
        let (group, parts) = groups.next().ok_or_else(|| Error::plugin("a parameter without parts"))?;
        for (other, copies) in groups {
            self.check_copies((group, &parts), (other, &copies), name)?;
        }
        if let Some((of, originals)) =
            embedding.filter(|_| self.is_tied(name)).and_then(|e| e.groups().next())
        {
            self.check_copies((of, &originals), (group, &parts), name)?;
            self.context.note(&format!("{name} is left out: it is the last stage's copy of the embedding"));
            return Ok(());
        }
        let (placement, ranks) = (placement(name), self.run.size.tensor);
        if parameter.is_expert
            && self.run.args().count("expert_tensor_parallel_size").is_some_and(|n| n != ranks)
        {
            return Err(Error::unsupported("experts are split across a different number of tensor ranks"));
        }
        let max = self.reader.vocabulary.filter(|_| placement == Placement::Vocabulary);
        let fused = self.fused(name)?;
        match placement {
            Placement::Vocabulary => self.check_vocabulary(name, &parts)?,
            // With several expert ranks, the names are unsupported even if each expert is complete
            // on one tensor rank.
            Placement::Unsupported(what) if ranks > 1 || self.run.size.experts > 1 => {
                return Err(Error::unsupported(what));
            }
            _ => {}
        }
        let joint = match placement {
            _ if fused.is_some() => fused.unwrap_or(JoinRule::Along(0)),
            Placement::Along(dim) if ranks > 1 => JoinRule::Along(dim),
            Placement::Vocabulary if ranks > 1 || max.is_some() => JoinRule::Along(0),
            Placement::MaybeGated if ranks > 1 => {
                let shape_of = |name: &str| self.shapes.get(name).map(Vec::as_slice);
                let rows = parts[0].shape.first().copied();
                match is_gated(name, rows, shape_of, self.run.args().gated())? {
                    true => JoinRule::Halves,
                    false => JoinRule::Along(0),
                }
            }
            Placement::Replicated | Placement::Unknown if ranks > 1 => {
                return self.replicated(name, group, &parts, placement == Placement::Unknown);
            }
            _ => return self.output.whole(name, parts[0]),
        };
        if let Some(cut) = max {
            let why = format!("rows from {cut} on are left out: they are vocabulary padding");
            self.output.catalog.loss(Loss::new(LossKind::Tensor, name, why).requested_by_user())?;
        }
        self.output.joined(name, &parts, joint, max)
    }

    /// Checks that all ranks have the same tensor, and adds the first rank's tensor.
    fn replicated(&mut self, name: &str, group: Group, parts: &[&Location], is_unknown: bool) -> Result<()> {
        for (tensor, copy) in (1..).zip(&parts[1..]) {
            let ranks = [group.rank(0), group.rank(tensor)];
            if is_unknown && !self.is_same(parts[0], copy)? {
                return Err(Error::unsupported(
                    "the ranks' parts differ, and the tensor's name does not determine how to join them",
                )
                .file(self.run.path(ranks[1]))
                .expected(describe_location(parts[0]))
                .found(describe_location(copy)));
            }
            self.check_copy((parts[0], copy), ranks, name)?;
        }
        self.output.whole(name, parts[0])
    }

    fn check_copies(
        &mut self,
        first: (Group, &[&Location]),
        other: (Group, &[&Location]),
        name: &str,
    ) -> Result<()> {
        for ((tensor, part), copy) in (0..).zip(first.1).zip(other.1) {
            self.check_copy((part, copy), [first.0.rank(tensor), other.0.rank(tensor)], name)?;
        }
        Ok(())
    }

    /// Checks that two ranks have the same tensor. Depending on the option, a difference is an
    /// error or a loss.
    fn check_copy(&mut self, pair: (&Location, &Location), ranks: [Rank; 2], name: &str) -> Result<()> {
        let [first, other] = ranks.map(|rank| self.run.path(rank));
        if (pair.0.dtype, &pair.0.shape) != (pair.1.dtype, &pair.1.shape) {
            return Err(Error::malformed(
                "the ranks have different shapes or dtypes for a tensor that must be equal",
            )
            .file(other)
            .expected(format!("{}, as in {first}", describe_location(pair.0)))
            .found(describe_location(pair.1)));
        }
        if self.is_same(pair.0, pair.1)? {
            return Ok(());
        }
        match self.reader.difference {
            Difference::Refuse => Err(Error::malformed(
                "the ranks have different values for a tensor that must be equal on all of them",
            )
            .hint("pass -i replicated=first to use the first rank's values")
            .file(other)
            .expected(format!("the same bytes as in {first}"))),
            Difference::TakeFirst => {
                let why = format!("the values in {other} differ from those in {first}, which are used");
                self.output.catalog.loss(Loss::new(LossKind::Tensor, name, why).requested_by_user())
            }
        }
    }

    fn is_same(&self, first: &Location, other: &Location) -> Result<bool> {
        if (first.dtype, &first.shape) != (other.dtype, &other.shape) {
            return Ok(false);
        }
        same_bytes(self.source, &self.run.collected, (first, other), self.context)
    }

    /// Returns whether a parameter is a copy of the embedding, according to the arguments or its
    /// name.
    fn is_tied(&self, name: &str) -> bool {
        let untied = self.run.args().flag("untie_embeddings_and_output_weights");
        is_output(name) && (untied == Some(false) || name.contains("word_embeddings_for_head"))
    }

    /// Returns how to convert the rows of fused attention weights to the current order. Returns
    /// `None` if the rows already have this order or are kept as stored.
    fn fused(&mut self, name: &str) -> Result<Option<JoinRule>> {
        let version = self.run.first().and_then(|file| file.version).unwrap_or(0.0);
        let Some(fused) = fused(name).filter(|_| version < 2.0) else { return Ok(None) };
        if self.reader.order == FusedOrder::Stored {
            if !std::mem::replace(&mut self.told_order, true) {
                let note = "query_key_value has the row order of checkpoint versions below 2; -i qkv=today converts it";
                self.context.note(note);
            }
            return Ok(None);
        }
        let heads = self.run.args().count("num_attention_heads").ok_or_else(|| {
            Error::unsupported("the row order cannot be determined").expected("args with num_attention_heads")
        })?;
        Ok(Some(JoinRule::Fused { heads: heads / self.run.size.tensor, fused, heads_inside: version < 1.0 }))
    }

    /// Checks that the number of rows in the embedding matches the arguments.
    fn check_vocabulary(&self, name: &str, parts: &[&Location]) -> Result<()> {
        let Some(expected) = self.run.args().count("padded_vocab_size").filter(|_| is_embedding(name)) else {
            return Ok(());
        };
        let found: u64 =
            parts.iter().filter_map(|part| part.shape.first()).fold(0, |sum, rows| sum.saturating_add(*rows));
        if found == expected {
            return Ok(());
        }
        Err(Error::malformed("the number of vocabulary rows in the ranks differs from the arguments")
            .expected(expected)
            .found(found))
    }
}
