//! Runs the SDK's conformance suite on this format. The samples are files that this format wrote.
//! The fixtures are files that other programs wrote.

use tensorferry_sdk::conformance::{Sample, check};
use tensorferry_sdk::memory::{self, MemoryView};
use tensorferry_sdk::{
    Block, CatalogSink, Dtype, MemoryContext, MemorySource, Node, Region, Result, Storage, Target,
};
use tensorferry_torch::Torch;

/// Builds a model with tied and transposed tensors and some non-tensor state.
fn model(catalog: &mut dyn CatalogSink) -> Result<()> {
    let storage = catalog.storage(Storage::inline([5; 24]))?;
    let wte = catalog.tensor("model.wte", Dtype::F32, &[2, 3], storage, 0)?;
    let head = catalog.tensor("model.head", Dtype::F32, &[2, 3], storage, 0)?;
    let block = Block { region: Region::whole(&[3, 2]), storage, offset: 0, strides: vec![1, 3] };
    let turned = catalog.tensor_of_blocks("turned", Dtype::F32, &[3, 2], vec![block])?;
    let mut map = |entries: Vec<(&str, Node)>| -> Result<Node> {
        let mut nodes = Vec::new();
        for (key, value) in entries {
            nodes.push((catalog.node(Node::text(key))?, catalog.node(value)?));
        }
        Ok(Node::map("", &nodes))
    };
    let model = map(vec![("wte", Node::tensor(wte)), ("head", Node::tensor(head))])?;
    let root = map(vec![("model", model), ("turned", Node::tensor(turned)), ("step", Node::int(1000))])?;
    let root = catalog.node(root)?;
    catalog.root(root)
}

fn file() -> Vec<u8> {
    let (source, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::build("model", &source, &context, model).unwrap();
    let output = memory::write(&Torch, &[], &view, &Target::File("m.pt".to_owned()), &context).unwrap();
    output.files["m.pt"].clone()
}

#[test]
fn torch_conforms() {
    let sample = Sample::file("m.pt", file()).holding(&["model.wte", "model.head", "turned"]);
    let report = check(&Torch, &[sample]);
    assert!(report.damaged > 1000 && report.written > 100, "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
}
