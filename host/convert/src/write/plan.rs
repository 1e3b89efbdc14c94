//! Planning: the target's writer says which files there will be, and where in them each tensor's bytes go.

use crate::write::naming;
use crate::write::target::OutputTarget;
use tensorferry_core::read::losses;
use tensorferry_core::read::model::InputModel;
use tensorferry_sdk::{Layout, LayoutBuilder, Loss, Result, TensorPlan, TensorWriter};
use tensorferry_tensors::logical::Logical;

/// What a writer promised, and what it still has to say.
pub struct Planned {
    /// The files and their segments.
    pub layout: Layout,
    /// The plan in hand.
    pub plan: Box<dyn TensorPlan>,
    /// What the writer cannot carry, and tied tensors that it writes apart.
    pub losses: Vec<Loss>,
}

/// Plans the output of a model, `logical`, in the folder where it lies in the input.
///
/// # Errors
/// Whatever the writer or the layout's checks say.
pub fn plan(
    target: &OutputTarget<'_>,
    writer: &dyn TensorWriter,
    model: &InputModel<'_>,
    logical: &Logical<'_>,
) -> Result<Planned> {
    let description = &target.format.description;
    let mut builder = LayoutBuilder::new(logical, &model.context);
    let plan = writer.plan(logical, &naming::target_of(model, target), &mut builder, &model.context)?;
    let layout = builder.finish().map_err(|e| target.format.blame(e))?;
    let mut losses = layout.losses().to_vec();
    losses.extend(losses::of_ties(logical, &layout, description.capabilities));
    let layout = if model.folder.is_empty() { layout } else { layout.below(&model.folder) };
    Ok(Planned { layout, plan, losses })
}
