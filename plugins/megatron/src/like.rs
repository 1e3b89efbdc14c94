//! Reads the run passed as `-o like=`. In addition to the weights, Megatron needs a run's
//! arguments, which cannot be derived from the weights.

use crate::args::Args;
use crate::run_folder;
use tensorferry_megatron_model::{GridSize, ModelFacts};
use tensorferry_sdk::{Context, Error, LayoutSink, Loss, LossKind, Result, Source};
use tensorferry_torch_file::pickle::ValueId;
use tensorferry_torch_file::{Budget, ClassName, Extent, ObjectFile, PickleWriter, push_plain};

/// The file in a `torch_dist` checkpoint that contains everything except the tensors.
pub(crate) const COMMON: &str = "common.pt";
/// Enumerations that occur as values of arguments.
const ENUMS: [ClassName; 7] = [
    ("megatron.core.transformer.enums", "AttnBackend"),
    ("megatron.core.transformer.enums", "AttnMaskType"),
    ("megatron.core.transformer.enums", "AttnType"),
    ("megatron.core.transformer.enums", "CudaGraphScope"),
    ("megatron.core.transformer.enums", "LayerType"),
    ("megatron.core.transformer.enums", "ModelType"),
    ("megatron.core.enums", "ModelType"),
];
/// Arguments for other ways to divide layers among stages, which the output does not use.
const OTHER_STAGES: [&str; 6] = [
    "virtual_pipeline_model_parallel_size",
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "pipeline_model_parallel_layout",
];
const OTHER_SHARES: [&str; 2] =
    ["account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"];

/// The argument that selects the format of checkpoints: `torch` or `torch_dist`.
const FORM: &str = "ckpt_format";

pub(crate) struct TemplateRun {
    object: ObjectFile,
    arguments: ValueId,
    args: Args,
    pub(crate) iteration: Option<i64>,
}

impl TemplateRun {
    /// Opens a run and reads the arguments of one of its ranks.
    pub(crate) fn open(path: &str, context: &dyn Context) -> Result<Self> {
        Self::read(&*context.open(path)?, context).map_err(|error| error.context(format!("-o like={path}")))
    }

    fn read(source: &dyn Source, context: &dyn Context) -> Result<Self> {
        let name = match run_folder::distributed(source, None)? {
            Some(folder) => format!("{folder}{COMMON}"),
            None => match run_folder::find(source, None)?.first() {
                Some(folder) => folder.file(source)?,
                None => return Err(Error::plugin("a run without ranks")),
            },
        };
        let extent = Extent::whole(source, source.open(&name)?);
        let object = ObjectFile::open(source, extent, context).map_err(|error| error.file(&name))?;
        let (graph, root) = (object.graph(), object.root());
        let no_args = || Error::usage("the run has no arguments").file(&name).expected("args");
        let arguments = Args::entries(graph, graph.entry(root, "args").ok_or_else(no_args)?);
        let args = Args::read(graph, arguments, &mut Budget::new(context.limits()))?;
        let iteration = graph.entry(root, "iteration").and_then(|iteration| graph.int(iteration));
        Ok(Self { arguments, args, iteration, object })
    }

    pub(crate) fn facts(&self) -> ModelFacts {
        let args = &self.args;
        let groups =
            args.count("num_query_groups").filter(|_| args.flag("group_query_attention") != Some(false));
        ModelFacts {
            gated: args.gated(),
            untied: args.flag("untie_embeddings_and_output_weights"),
            layers: args.count("num_layers"),
            vocabulary: args.count("padded_vocab_size"),
            heads: [args.count("num_attention_heads"), groups],
        }
    }

    /// Appends the arguments as an `argparse.Namespace`, with the sizes of the output's grid.
    /// Returns the names of omitted arguments.
    pub(crate) fn push(&self, size: GridSize, form: &str, pickle: &mut PickleWriter) -> Result<Vec<String>> {
        let sizes = [
            ("tensor_model_parallel_size", size.tensor),
            ("pipeline_model_parallel_size", size.stages),
            ("transformer_pipeline_model_parallel_size", size.stages),
            ("expert_model_parallel_size", size.experts),
            ("expert_tensor_parallel_size", size.tensor),
            ("context_parallel_size", 1),
            ("data_parallel_size", 1),
            ("world_size", size.tensor.saturating_mul(size.stages)),
        ];
        let graph = self.object.graph();
        let mut left_out = Vec::new();
        pickle.global("argparse", "Namespace");
        pickle.tuple(0);
        pickle.new_object();
        pickle.empty_dict();
        pickle.mark();
        for (key, value) in graph.entries(self.arguments).unwrap_or_default() {
            let Some(key) = graph.text(key) else { continue };
            let size = sizes.iter().find(|(name, _)| *name == key).map(|(_, size)| size.cast_signed());
            let is_replaced =
                size.is_some() || OTHER_STAGES.contains(&key) || OTHER_SHARES.contains(&key) || key == FORM;
            // Pickle the value into a discarded pickle first, so that the output never contains a
            // key without a value.
            if !is_replaced && !push_plain(graph, value, &ENUMS, &mut PickleWriter::new())? {
                left_out.push(key.to_owned());
                continue;
            }
            pickle.text(key)?;
            match size {
                Some(size) => pickle.int(size),
                None if OTHER_STAGES.contains(&key) => pickle.none(),
                None if OTHER_SHARES.contains(&key) => pickle.bool(false),
                None if key == FORM => pickle.text(form)?,
                None => drop(push_plain(graph, value, &ENUMS, pickle)?),
            }
        }
        pickle.set_items();
        pickle.build();
        Ok(left_out)
    }

    /// Reports a loss for each omitted argument.
    pub(crate) fn report(left_out: &[String], layout: &mut dyn LayoutSink) -> Result<()> {
        let why = "an argument of the -o like= run that is neither a plain value nor a dtype";
        left_out
            .iter()
            .try_for_each(|key| layout.loss(Loss::new(LossKind::State, format!("args.{key}"), why)))
    }
}
