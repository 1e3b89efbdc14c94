//! Reads models that are split into several files, as on the Hugging Face Hub. Each model becomes
//! one catalog, which is checked against the index.

use std::collections::BTreeMap;
use tensorferry_sdk::memory::{self, MemoryView};
use tensorferry_sdk::{
    Catalog, CatalogSink, CatalogView, Dtype, Entry, ErrorKind, Format, LossKind, MemoryContext,
    MemorySource, Node, NodeKind, Purpose, Result, Score, Storage, Target,
};
use tensorferry_torch::Torch;

/// Builds four tensors of 16 bytes, two of which are tied.
fn model(catalog: &mut dyn CatalogSink, nested: bool) -> Result<()> {
    let mut first = None;
    for (name, byte) in [("a", 1), ("b", 2), ("c", 3), ("tied", 1)] {
        let storage = match first.filter(|_| name == "tied") {
            Some(first) => first,
            None => catalog.storage(Storage::inline([byte; 16]))?,
        };
        first.get_or_insert(storage);
        catalog.tensor(name, Dtype::F32, &[4], storage, 0)?;
    }
    catalog.metadata_text("who", "me")?;
    if nested {
        let root = catalog.node(Node::text("more than tensors"))?;
        catalog.root(root)?;
    }
    Ok(())
}

fn write(options: &[(&str, &str)], target: &Target, nested: bool) -> memory::MemoryOutput {
    let (source, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::build("model", &source, &context, |catalog| model(catalog, nested)).unwrap();
    memory::write(&Torch, &memory::pairs(options), &view, target, &context).unwrap()
}

fn shards() -> BTreeMap<String, Vec<u8>> {
    write(&[("max_shard_size", "32")], &Target::Folder, false).files
}

const INDEX: &str = "pytorch_model.bin.index.json";

fn read(entry: Entry, files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<(String, u8)>> {
    let (source, context) = (MemorySource::new(entry, files.clone()), MemoryContext::default());
    let view = MemoryView::read(&Torch, &[], &source, &context)?;
    let names: Vec<String> = view.tensor_ids().map(|id| view.tensor(id).name.to_owned()).collect();
    names.into_iter().map(|name| Ok((name.clone(), view.tensor_named(&name)?.2[0]))).collect()
}

#[test]
fn files_are_named_and_split_as_on_the_hub() {
    let files = shards();
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let [one, two] = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"];
    assert_eq!(names, [one, two, INDEX]);
    let index: serde_json::Value = serde_json::from_slice(&files[INDEX]).unwrap();
    assert_eq!(index["metadata"]["total_size"], 48);
    assert_eq!(index["weight_map"], serde_json::json!({"a": one, "b": one, "c": two, "tied": one}));
    for (target, whole) in [(Target::Folder, "pytorch_model.bin"), (Target::File("m.pt".to_owned()), "m.pt")]
    {
        let files = write(&[("max_shard_size", "1GB")], &target, false).files;
        assert_eq!(files.keys().collect::<Vec<_>>(), [whole]);
    }
}

#[test]
fn the_folder_the_index_and_the_prefix_are_the_set() {
    for format in ["zip", "legacy"] {
        let files = write(&[("max_shard_size", "32"), ("format", format)], &Target::Folder, false).files;
        let file = |name: &str| Entry::File(name.to_owned());
        let entries = [Entry::Folder, file(INDEX), Entry::Prefix("pytorch_model".to_owned())];
        for entry in entries {
            let mut held = read(entry.clone(), &files).unwrap();
            held.sort();
            let wanted =
                [("a", 1), ("b", 2), ("c", 3), ("tied", 1)].map(|(name, byte)| (name.to_owned(), byte));
            assert_eq!(held, wanted, "{format}: {entry:?}");
            let source = MemorySource::new(entry, files.clone());
            let score = Torch.probe(&source, &MemoryContext::default()).unwrap().unwrap();
            assert!(score >= Score::MAYBE);
        }
    }
    let (source, context) = (MemorySource::folder(shards()), MemoryContext::default());
    let view = MemoryView::read(&Torch, &[], &source, &context).unwrap();
    assert_eq!(view.metadata_texts(), [("who".to_owned(), "me".to_owned())]);
    assert_eq!(view.catalog().losses(), []);
    assert_eq!(view.catalog().origin(), "model");
    let find = |name: &str| view.tensor_ids().find(|&id| view.tensor(id).name == name).unwrap();
    assert_eq!(view.tied_to(find("a")), view.tied_to(find("tied")));
}

#[test]
fn index_and_files_name_the_same_tensors() {
    let with_index = |from: &str, to: &str| {
        let mut files = shards();
        let index = String::from_utf8(files[INDEX].clone()).unwrap();
        assert!(index.contains(from));
        files.insert(INDEX.to_owned(), index.replace(from, to).into_bytes());
        read(Entry::Folder, &files).unwrap_err()
    };
    for (from, to, words) in [
        ("\"c\":", "\"d\":", "missing from their files"),
        ("\"a\": \"pytorch_model-00001", "\"a\": \"pytorch_model-00002", "missing from their files"),
        ("\"c\": \"pytorch_model-00002-of-00002.bin\"", "\"c\": \"other.bin\"", "missing files"),
        ("\"c\": \"pytorch", "\"c\": \"../pytorch", "leaves its folder"),
        ("\"a\":", "\"b\":", "is duplicated"),
        ("weight_map", "weights", "weight_map"),
    ] {
        let error = with_index(from, to);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

/// A tensor that is in two files is read from the file that the index assigns to it. A tensor that
/// the index does not list is a loss.
#[test]
fn an_index_decides_which_tensors_are_read() {
    let mut files = shards();
    files.insert(
        "pytorch_model-00002-of-00002.bin".to_owned(),
        files["pytorch_model-00001-of-00002.bin"].clone(),
    );
    let index = String::from_utf8(files[INDEX].clone()).unwrap();
    let index = index.replace("    \"c\": \"pytorch_model-00002-of-00002.bin\",\n", "");
    let index = index.replace("\"a\": \"pytorch_model-00001", "\"a\": \"pytorch_model-00002");
    let index = index.replace("    \"b\": \"pytorch_model-00001-of-00002.bin\",\n", "");
    files.insert(INDEX.to_owned(), index.into_bytes());
    let (source, context) = (MemorySource::new(Entry::Folder, files), MemoryContext::default());
    let view = MemoryView::read(&Torch, &[], &source, &context).unwrap();
    let catalog = view.catalog();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["tied", "a"]);
    let tree = catalog.tree();
    assert_eq!(tree.get(tree.root().unwrap()).unwrap().entries().count(), 2);
    let lost: Vec<_> = catalog.losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(lost, [(LossKind::Tensor, "b")]);
    assert!(context.notes().iter().any(|note| note.contains("\"a\" in")), "{:?}", context.notes());
}

#[test]
fn a_set_without_its_index_is_whole_or_refused() {
    let mut files = shards();
    files.remove(INDEX);
    assert_eq!(read(Entry::Folder, &files).unwrap().len(), 4);
    let one = "pytorch_model-00001-of-00002.bin";
    files.insert("pytorch_model-00002-of-00002.bin".to_owned(), files[one].clone());
    assert!(
        read(Entry::Folder, &files).unwrap_err().to_string().contains(one.rsplit_once("00001").unwrap().0)
    );
    files.remove("pytorch_model-00002-of-00002.bin");
    files.insert("pytorch_model-00003-of-00003.bin".to_owned(), Vec::new());
    assert!(read(Entry::Folder, &files).is_err());
}

#[test]
fn what_shards_have_no_place_for_is_a_loss() {
    let output = write(&[("max_shard_size", "32")], &Target::Folder, true);
    let losses: Vec<_> = output.layout.losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(losses, [(LossKind::State, ".")]);
}

/// Builds a shard with this tensor in its `state_dict`. The shard also contains the number `epoch`,
/// as all shards do.
fn nested_shard(tensor: &str, epoch: i64) -> Vec<u8> {
    let (source, context) = (MemorySource::file("model", []), MemoryContext::default());
    let fill = |catalog: &mut dyn CatalogSink| {
        let storage = catalog.storage(Storage::inline([1; 4]))?;
        let id = catalog.tensor(&format!("state_dict.{tensor}"), Dtype::F32, &[1], storage, 0)?;
        let mut map = |entries: &[(&str, Node)]| {
            let mut children = Vec::new();
            for (key, value) in entries {
                children.extend([catalog.node(Node::text(key))?, catalog.node(value.clone())?]);
            }
            Ok::<_, tensorferry_sdk::Error>(Node::container(NodeKind::MAP, "", children))
        };
        let state_dict = map(&[(tensor, Node::tensor(id))])?;
        let config = map(&[("epoch", Node::int(epoch))])?;
        let root = map(&[("state_dict", state_dict), ("config", config)])?;
        let root = catalog.node(root)?;
        catalog.root(root)
    };
    let view = MemoryView::build("model", &source, &context, fill).unwrap();
    let target = Target::File("shard.bin".to_owned());
    memory::write(&Torch, &[], &view, &target, &context).unwrap().files.remove("shard.bin").unwrap()
}

fn nested(parts: [(&str, i64); 2]) -> Result<Catalog> {
    let shard = |(number, (tensor, epoch))| {
        (format!("pytorch_model-0000{number}-of-00002.bin"), nested_shard(tensor, epoch))
    };
    let (source, context) = (MemorySource::folder((1..).zip(parts).map(shard)), MemoryContext::default());
    MemoryView::read(&Torch, &[], &source, &context).map(|view| view.catalog().clone())
}

#[test]
fn mappings_of_shards_are_joined() {
    let catalog = nested([("a", 7), ("b", 7)]).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["state_dict.a", "state_dict.b"]);
    let tree = catalog.tree();
    let root = tree.get(tree.root().unwrap()).unwrap();
    let keys = |node: &Node| -> Vec<String> {
        node.entries().map(|(key, _)| tree.get(key).unwrap().as_text().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(root), ["state_dict", "config"]);
    let (_, state_dict) = root.entries().next().unwrap();
    assert_eq!(keys(tree.get(state_dict).unwrap()), ["a", "b"]);
    for (parts, reported) in [([("a", 7), ("b", 8)], "config.epoch"), ([("a", 7), ("a", 7)], "state_dict.a")]
    {
        let error = nested(parts).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains(reported), "{error}");
    }
}

/// A file may declare the number of ranks regardless of its name.
#[test]
fn a_file_that_says_that_it_is_a_part_is_refused() {
    let of = |count: i64| {
        let (source, context) = (MemorySource::file("model", []), MemoryContext::default());
        let fill = |catalog: &mut dyn CatalogSink| {
            let storage = catalog.storage(Storage::inline([1; 4]))?;
            let id = catalog.tensor("module.a", Dtype::F32, &[1], storage, 0)?;
            let nodes =
                [Node::text("a"), Node::tensor(id), Node::text("module"), Node::text("mp_world_size")];
            let [a, tensor, module, world] = nodes.map(|node| catalog.node(node));
            let model = catalog.node(Node::container(NodeKind::MAP, "", [a?, tensor?]))?;
            let count = catalog.node(Node::int(count))?;
            let root = catalog.node(Node::container(NodeKind::MAP, "", [module?, model, world?, count]))?;
            catalog.root(root)
        };
        let view = MemoryView::build("model", &source, &context, fill).unwrap();
        let target = Target::File("m.pt".to_owned());
        memory::write(&Torch, &[], &view, &target, &context).unwrap().files.remove("m.pt").unwrap()
    };
    let read = |count, options: &[(&str, &str)]| {
        let (source, mut context) = (MemorySource::file("m.pt", of(count)), MemoryContext::default());
        context.purpose = Purpose::FLAT;
        MemoryView::read(&Torch, &memory::pairs(options), &source, &context).map(drop)
    };
    read(1, &[]).unwrap();
    read(2, &[("shard", "alone")]).unwrap();
    let error = read(2, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("one of 2 tensor-parallel ranks"), "{error}");
}
