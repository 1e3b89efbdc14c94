//! The plan stage: the target's writer lays out the files, and the position of each tensor's bytes
//! in the files.

use crate::write::naming;
use crate::write::target::OutputTarget;
use tensorferry_core::read::losses;
use tensorferry_core::read::model::InputModel;
use tensorferry_sdk::{Layout, LayoutBuilder, Loss, Result, TensorPlan, TensorWriter};
use tensorferry_tensors::logical::Logical;

/// The layout of an output, and the writer's plan that completes the output.
pub struct PlannedLayout {
    /// The files and their segments.
    pub layout: Layout,
    pub plan: Box<dyn TensorPlan>,
    /// Losses for content that the writer cannot store, and for tied tensors that it writes
    /// separately.
    pub losses: Vec<Loss>,
}

/// Plans the output of a model. `logical` contains the model's tensors. The output is in the
/// sub-folder with the same name as the model's sub-folder in the input.
pub fn plan(
    target: &OutputTarget<'_>,
    writer: &dyn TensorWriter,
    model: &InputModel<'_>,
    logical: &Logical<'_>,
) -> Result<PlannedLayout> {
    let description = &target.format.description;
    let mut builder = LayoutBuilder::new(logical, &model.context);
    let plan = writer.plan(logical, &naming::target_of(model, target), &mut builder, &model.context)?;
    let layout = builder.finish().map_err(|e| target.format.attribute_error(e))?;
    let mut losses = layout.losses().to_vec();
    losses.extend(losses::of_ties(logical, &layout, description));
    let layout = if model.folder.is_empty() { layout } else { layout.in_folder(&model.folder) };
    Ok(PlannedLayout { layout, plan, losses })
}
