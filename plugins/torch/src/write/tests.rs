//! Plans archives in memory. Checks them independently of the writer with the `zip` crate, and by
//! disassembling their pickles.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::io::Read;
use tensorferry_sdk::memory::{MemoryOutput, MemoryView, write};
use tensorferry_sdk::{
    Block, ByteOrder, CatalogSink, Dtype, DtypeInfo, Layout, LossKind, MemoryContext, MemorySource, Node,
    NodeId, NodeKind, Region, Storage, StorageId, TensorId,
};
use tensorferry_torch_file::TorchDtype;

type Fill = fn(&mut dyn CatalogSink) -> Result<()>;

fn write_to(target: &Target, fill: Fill) -> Result<MemoryOutput> {
    let (source, context) = (MemorySource::file("in", []), MemoryContext::default());
    let view = MemoryView::build(OWN_ID, &source, &context, fill)?;
    write(&crate::Torch, &[], &view, target, &context)
}

/// Writes a catalog. Returns the records of the file, and the layout.
fn written(fill: Fill) -> (Vec<(String, Vec<u8>)>, Layout) {
    let output = write_to(&Target::File("model.v1.pt".to_owned()), fill).unwrap();
    (records(&output.files["model.v1.pt"]), output.layout)
}

/// Returns all records of a file, after checking their checksums and alignment.
fn records(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(file)).unwrap();
    (0..archive.len())
        .map(|index| {
            let mut record = archive.by_index(index).unwrap();
            assert_eq!(record.compression(), zip::CompressionMethod::Stored);
            let name = record.name().unwrap().into_owned();
            assert_eq!(record.data_start().unwrap() % 64, 0, "{name}");
            let mut bytes = Vec::new();
            record.read_to_end(&mut bytes).unwrap();
            (name, bytes)
        })
        .collect()
}

fn record<'a>(records: &'a [(String, Vec<u8>)], name: &str) -> &'a [u8] {
    let found = records.iter().find(|(known, _)| known.strip_prefix("model.v1/") == Some(name));
    &found.unwrap_or_else(|| panic!("no record {name}")).1
}

fn names(records: &[(String, Vec<u8>)]) -> Vec<&str> {
    records.iter().map(|(name, _)| name.as_str()).collect()
}

/// Disassembles a pickle. Returns each opcode with its argument, except for the opcodes that store
/// values in the memo.
fn disassemble(pickle: &[u8]) -> String {
    let mut rest = pickle;
    let mut words = Vec::new();
    while !rest.is_empty() {
        let rest = &mut rest;
        words.push(match take(rest, 1)[0] {
            0x80 => format!("proto{}", take(rest, 1)[0]),
            b'c' => format!("{}.{}", line(rest), line(rest)),
            b'X' => {
                let len = number(rest, 4);
                format!("{:?}", std::str::from_utf8(take(rest, len)).unwrap())
            }
            b'K' => number(rest, 1).to_string(),
            b'M' => number(rest, 2).to_string(),
            0x8a => {
                let len = number(rest, 1);
                format!("long{:?}", take(rest, len))
            }
            b'G' => f64::from_be_bytes(take(rest, 8).try_into().unwrap()).to_string(),
            b'q' => {
                take(rest, 1);
                continue;
            }
            b'h' => format!("get{}", number(rest, 1)),
            tuple @ 0x85..=0x87 => format!("tuple{}", tuple - 0x84),
            0x88 => "True".to_owned(),
            0x89 => "False".to_owned(),
            b'N' => "None".to_owned(),
            bare => {
                assert!(b".()]}eutRbQ".contains(&bare), "opcode {bare:#x}");
                char::from(bare).to_string()
            }
        });
    }
    words.join(" ")
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(len);
    *rest = left;
    taken
}

fn number(rest: &mut &[u8], len: usize) -> usize {
    take(rest, len).iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte))
}

fn line<'a>(rest: &mut &'a [u8]) -> &'a str {
    let len = rest.iter().position(|&byte| byte == b'\n').unwrap();
    let line = std::str::from_utf8(take(rest, len)).unwrap();
    take(rest, 1);
    line
}

fn pickle_of(records: &[(String, Vec<u8>)]) -> String {
    disassemble(record(records, "data.pkl"))
}

fn block(shape: &[u64], storage: StorageId, offset: u64, strides: &[i64]) -> Vec<Block> {
    vec![Block { region: Region::whole(shape), storage, offset, strides: strides.to_vec() }]
}

fn whole(c: &mut dyn CatalogSink, name: &str, dtype: Dtype, shape: &[u64], bytes: &[u8]) -> Result<TensorId> {
    let storage = c.storage(Storage::inline(bytes))?;
    c.tensor(name, dtype, shape, storage, 0)
}

fn losses(layout: &Layout) -> Vec<(LossKind, &str)> {
    layout.losses().iter().map(|loss| (loss.kind, loss.what.as_str())).collect()
}

#[test]
fn a_flat_catalog_becomes_a_state_dict() {
    let (records, layout) = written(|c| {
        whole(c, "w", Dtype::F32, &[2, 1], &[1; 8])?;
        whole(c, "s", Dtype::F8_E4M3, &[], &[2])?;
        whole(c, "e", Dtype::I64, &[0, 3], &[]).map(drop)
    });
    assert_eq!(
        names(&records),
        ["data.pkl", "byteorder", "version", "data/0", "data/1", "data/2"]
            .map(|name| format!("model.v1/{name}"))
    );
    assert_eq!(record(&records, "byteorder"), b"little");
    assert_eq!(record(&records, "version"), b"3\n");
    assert_eq!((record(&records, "data/0"), record(&records, "data/1")), (&[1; 8][..], &[2][..]));
    assert_eq!(record(&records, "data/2"), b"");
    assert_eq!(losses(&layout), []);
    assert_eq!(
        pickle_of(&records),
        "proto2 collections.OrderedDict ) R ( \
         \"w\" torch._utils._rebuild_tensor_v2 ( ( \"storage\" torch.FloatStorage \"0\" \"cpu\" 2 t Q \
         0 2 1 tuple2 1 1 tuple2 False get0 ) R t R \
         \"s\" torch._utils._rebuild_tensor_v3 ( ( get3 torch.storage.UntypedStorage \"1\" get5 1 t Q \
         0 ) ) False get0 ) R torch.float8_e4m3fn t R \
         \"e\" get2 ( ( get3 torch.LongStorage \"2\" get5 0 t Q 0 0 3 tuple2 3 1 tuple2 False get0 ) R t R u ."
    );
}

#[test]
fn bytes_depend_on_nothing_else() {
    let fill: Fill = |c| {
        for index in 0..300 {
            whole(c, &format!("layer.{index}"), Dtype::U8, &[1], &[1])?;
        }
        c.metadata_text("b", "2")?;
        c.metadata_text("a", "1")
    };
    let target = Target::File("model.pt".to_owned());
    let (one, two) = (write_to(&target, fill).unwrap(), write_to(&target, fill).unwrap());
    assert!(one.files == two.files);
}

#[test]
fn the_root_is_the_files_stem() {
    for (path, root) in [
        ("model.pt", "model"),
        ("a.b.ckpt", "a.b"),
        ("plain", "plain"),
        (".bin", "archive"),
        ("...pt", "archive"),
        ("ünïcode.pt", "ünïcode"),
        ("a\nb.pt", "archive"),
    ] {
        assert_eq!(root_folder(path), root);
    }
    let output = write_to(&Target::Folder, |_| Ok(())).unwrap();
    let records = records(&output.files["pytorch_model.bin"]);
    assert!(records.iter().all(|(name, _)| name.starts_with("pytorch_model/")));
}

#[test]
fn tied_tensors_have_one_storage() {
    let (records, _) = written(|c| {
        let storage = c.storage(Storage::inline([7; 16]))?;
        c.tensor("a", Dtype::F32, &[4], storage, 0)?;
        whole(c, "between", Dtype::F32, &[1], &[1; 4])?;
        c.tensor("b", Dtype::F32, &[4], storage, 0).map(drop)
    });
    assert_eq!(record(&records, "data/0"), [7; 16]);
    assert_eq!(record(&records, "data/1"), [1; 4]);
    assert_eq!(records.len(), 5);
    assert_eq!(pickle_of(&records).matches("\"0\"").count(), 2);
}

#[test]
fn overlapping_views_keep_sharing_one_stretch() {
    let (records, layout) = written(|c| {
        let bytes: Vec<u8> = (0..48).collect();
        let storage = c.storage(Storage::inline(bytes))?;
        c.tensor_of_blocks("t", Dtype::I32, &[2, 3], block(&[2, 3], storage, 8, &[1, 2]))?;
        c.tensor("row", Dtype::I32, &[4], storage, 12)?;
        c.tensor("apart", Dtype::I32, &[2], storage, 40).map(drop)
    });
    assert_eq!(record(&records, "data/0"), (8..32).collect::<Vec<u8>>());
    assert_eq!(record(&records, "data/1"), (40..48).collect::<Vec<u8>>());
    assert_eq!(losses(&layout), []);
    let pickle = pickle_of(&records);
    assert!(pickle.contains("6 t Q 0 2 3 tuple2 1 2 tuple2"), "{pickle}");
    assert!(pickle.contains("6 t Q 1 4 tuple1 1 tuple1"), "{pickle}");
}

#[test]
fn a_shared_stretch_that_is_big_endian_is_reversed() {
    let (records, _) = written(|c| {
        let bytes: Vec<u8> = (0..16).collect();
        let storage = c.storage(Storage::inline(bytes).byte_order(ByteOrder::Big))?;
        c.tensor("a", Dtype::C64, &[2], storage, 0)?;
        c.tensor("b", Dtype::C64, &[1], storage, 8).map(drop)
    });
    assert_eq!(record(&records, "data/0"), [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12]);
    assert_eq!(records.len(), 4);
}

#[test]
fn sharing_that_torch_cannot_say_is_an_alias_loss() {
    let (records, layout) = written(|c| {
        let storage = c.storage(Storage::inline(vec![0; 4096]))?;
        // The tensors of each pair cannot share a storage, for one reason per pair. The reasons are
        // different dtypes, a negative stride, an offset of half an element, and a span that is
        // much longer than the tensors.
        c.tensor("f", Dtype::F32, &[4], storage, 0)?;
        c.tensor("i", Dtype::I32, &[4], storage, 0)?;
        c.tensor("up", Dtype::F32, &[4], storage, 100)?;
        c.tensor_of_blocks("down", Dtype::F32, &[4], block(&[4], storage, 112, &[-1]))?;
        c.tensor("even", Dtype::F32, &[4], storage, 200)?;
        c.tensor("odd", Dtype::F32, &[4], storage, 202)?;
        c.tensor_of_blocks("c0", Dtype::F32, &[8], block(&[8], storage, 1000, &[64]))?;
        c.tensor_of_blocks("c1", Dtype::F32, &[8], block(&[8], storage, 1004, &[64])).map(drop)
    });
    assert_eq!(losses(&layout), ["i", "down", "odd", "c1"].map(|name| (LossKind::Alias, name)));
    assert_eq!(records.len(), 3 + 8);
    assert!(records[3..].iter().all(|(_, bytes)| bytes.len() == 16 || bytes.len() == 32));
}

#[test]
fn a_lone_view_is_written_row_major() {
    let (records, _) = written(|c| {
        let storage = c.storage(Storage::inline((0..6).collect::<Vec<u8>>()))?;
        c.tensor_of_blocks("t", Dtype::U8, &[3, 2], block(&[3, 2], storage, 0, &[1, 3])).map(drop)
    });
    assert_eq!(record(&records, "data/0"), [0, 3, 1, 4, 2, 5]);
    assert!(pickle_of(&records).contains("0 3 2 tuple2 2 1 tuple2"));
}

#[test]
fn what_torch_has_no_dtype_for_is_given_up() {
    let (records, layout) = written(|c| {
        whole(c, "text", Dtype::STR, &[1], &[0; 8])?;
        whole(c, "f6", Dtype::F6_E2M3, &[4], &[0; 3])?;
        whole(c, "q", Dtype::QI8, &[1], &[0])?;
        let block = c.dtype(&DtypeInfo::extension("Q4_0", 32, 18, 1)?)?;
        whole(c, "ext", block, &[32], &[0; 18])?;
        whole(c, "pair", Dtype::F4, &[2, 2], &[0x21, 0x43])?;
        whole(c, "odd", Dtype::F4, &[2, 3], &[0; 3]).map(drop)
    });
    let given_up = ["text", "f6", "q", "ext", "odd"].map(|name| (LossKind::Tensor, name));
    assert_eq!(losses(&layout), given_up);
    assert_eq!(record(&records, "data/0"), [0x21, 0x43]);
    let pickle = pickle_of(&records);
    assert!(
        pickle.contains("2 t Q 0 2 1 tuple2 1 1 tuple2 False get0 ) R torch.float4_e2m1fn_x2"),
        "{pickle}"
    );
    assert_eq!(records.len(), 4);
}

#[test]
fn metadata_and_origin_go_into_the_side_record() {
    let (records, _) = written(|c| {
        c.metadata_text("format", "pt")?;
        c.origin("safetensors")
    });
    let side = SideRecord::parse(record(&records, SIDE_RECORD), "it").unwrap();
    assert_eq!(side.origin, "safetensors");
    assert_eq!(side.metadata["format"], "pt");
    let (plain, _) = written(|_| Ok(()));
    assert_eq!(names(&plain), ["model.v1/data.pkl", "model.v1/byteorder", "model.v1/version"]);
}

/// Appends a container with these children.
fn container(c: &mut dyn CatalogSink, kind: NodeKind, class: &str, children: &[NodeId]) -> Result<NodeId> {
    c.node(Node::container(kind, class, children))
}

#[test]
fn a_tree_keeps_its_nesting_and_scalars() {
    let (records, layout) = written(|c| {
        let weight = whole(c, "model.w", Dtype::F32, &[1], &[0; 4])?;
        let (model, w, epoch, note) = (
            c.node(Node::text("model"))?,
            c.node(Node::text("w"))?,
            c.node(Node::text("epoch"))?,
            c.node(Node::text("note"))?,
        );
        let (tensor, three) = (c.node(Node::tensor(weight))?, c.node(Node::int(3))?);
        let state = container(c, NodeKind::MAP, "collections.OrderedDict", &[w, tensor])?;
        let wide = c.node(Node::scalar(NodeKind::INT, &[0, 0, 0, 0, 0, 0, 0, 0, 1]))?;
        let (none, yes, half) = (c.node(Node::none())?, c.node(Node::bool(true))?, c.node(Node::float(0.5))?);
        let bytes = c.node(Node::scalar(NodeKind::BYTES, &[1, 255]))?;
        let list = container(c, NodeKind::LIST, "", &[none, yes, half, wide, bytes])?;
        // The tuple contains the same list object twice.
        let pair = container(c, NodeKind::TUPLE, "", &[list, list])?;
        let root = container(c, NodeKind::MAP, "", &[model, state, epoch, three, note, pair])?;
        c.root(root)
    });
    assert_eq!(losses(&layout), []);
    assert_eq!(
        pickle_of(&records),
        "proto2 } ( \"model\" collections.OrderedDict ) R ( \
         \"w\" torch._utils._rebuild_tensor_v2 ( ( \"storage\" torch.FloatStorage \"0\" \"cpu\" 1 t Q \
         0 1 tuple1 1 tuple1 False get1 ) R t R u \
         \"epoch\" 3 \"note\" ( ] ( None True 0.5 long[0, 0, 0, 0, 0, 0, 0, 0, 1] \
         _codecs.encode \"\\u{1}ÿ\" \"latin1\" tuple2 R e get11 t u ."
    );
}

#[test]
fn what_weights_only_refuses_is_never_written_again() {
    let (records, layout) = written(|c| {
        let text = c.node(Node::text("import os"))?;
        let arguments = container(c, NodeKind::TUPLE, "", &[text])?;
        let evil = container(c, NodeKind::OBJECT, "builtins.eval", &[arguments])?;
        let named = c.node(Node::container(NodeKind::OBJECT, "os.system", []))?;
        let unknown = c.node(Node::container(NodeKind(77), "builtins.eval", [text]))?;
        let odd_device = container(c, NodeKind::OBJECT, "torch.device", &[arguments])?;
        let ordered = container(c, NodeKind::MAP, "builtins.exec", &[text, named])?;
        let key = c.node(Node::text("key"))?;
        let list = container(c, NodeKind::LIST, "", &[evil, named, unknown, odd_device, ordered])?;
        let root = container(c, NodeKind::MAP, "", &[key, list, evil, text])?;
        c.root(root)
    });
    assert_eq!(
        pickle_of(&records),
        "proto2 } ( \"key\" ] ( None None None None } ( \"import os\" None u e u ."
    );
    let reported: Vec<&str> = losses(&layout).into_iter().map(|(_, what)| what).collect();
    assert_eq!(reported, [".", "key.0", "key.1", "key.2", "key.3", "key.4", "key.4.import os"]);
    assert!(layout.losses().iter().any(|loss| loss.why.contains("builtins.eval")));
}

#[test]
fn objects_that_weights_only_accepts_stay() {
    let (records, layout) = written(|c| {
        let weight = whole(c, "0", Dtype::BF16, &[1], &[0; 2])?;
        let count = whole(c, "1", Dtype::I32, &[1], &[0; 4])?;
        let (weight, count) = (c.node(Node::tensor(weight))?, c.node(Node::tensor(count))?);
        let (yes, flag) = (c.node(Node::bool(true))?, c.node(Node::text("requires_grad"))?);
        let hooks = container(c, NodeKind::MAP, "collections.OrderedDict", &[])?;
        let arguments = container(c, NodeKind::TUPLE, "", &[weight, yes, hooks])?;
        let parameter = container(c, NodeKind::OBJECT, "torch._utils._rebuild_parameter", &[arguments])?;
        let flags = container(c, NodeKind::MAP, "", &[flag, yes])?;
        // torch cannot load either of the next two tensors with `requires_grad`.
        let small = whole(c, "2", Dtype::F8_E4M3, &[1], &[0])?;
        let small = c.node(Node::tensor(small))?;
        let small = container(c, NodeKind::ATTRIBUTED, "", &[small, flags])?;
        let counter = container(c, NodeKind::ATTRIBUTED, "", &[count, flags])?;
        let dtype = c.node(Node::container(NodeKind::OBJECT, "torch.half", []))?;
        let (two, cpu) = (c.node(Node::int(2))?, c.node(Node::text("cuda:1"))?);
        let dims = container(c, NodeKind::TUPLE, "", &[two, two])?;
        let arguments = container(c, NodeKind::TUPLE, "", &[dims])?;
        let size = container(c, NodeKind::OBJECT, "torch.Size", &[arguments])?;
        let arguments = container(c, NodeKind::TUPLE, "", &[cpu])?;
        let device = container(c, NodeKind::OBJECT, "torch.device", &[arguments])?;
        let set = container(c, NodeKind::SET, "", &[two])?;
        let complex: Vec<u8> = [1_f64, -2.0].iter().flat_map(|part| part.to_le_bytes()).collect();
        let complex = c.node(Node::scalar(NodeKind::COMPLEX, &complex))?;
        let root = container(
            c,
            NodeKind::LIST,
            "",
            &[parameter, counter, small, dtype, size, device, set, complex],
        )?;
        c.root(root)
    });
    assert_eq!(losses(&layout), [(LossKind::State, "1"), (LossKind::State, "2")]);
    assert_eq!(
        pickle_of(&records),
        "proto2 ] ( torch._utils._rebuild_parameter \
         torch._utils._rebuild_tensor_v2 ( ( \"storage\" torch.BFloat16Storage \"0\" \"cpu\" 1 t Q \
         0 1 tuple1 1 tuple1 False collections.OrderedDict ) R t R True get5 ) R tuple3 R \
         get1 ( ( get2 torch.IntStorage \"1\" get4 1 t Q 0 1 tuple1 1 tuple1 False get5 ) R t R \
         torch._utils._rebuild_tensor_v3 ( ( get2 torch.storage.UntypedStorage \"2\" get4 1 t Q \
         0 1 tuple1 1 tuple1 False get5 ) R torch.float8_e4m3fn t R \
         torch.float16 torch.Size 2 2 tuple2 tuple1 R torch.device \"cuda:1\" tuple1 R \
         __builtin__.set ] ( 2 e tuple1 R __builtin__.complex 1 -2 tuple2 R e ."
    );
}

#[test]
fn an_object_that_torch_refuses_becomes_a_dict_of_its_tensors() {
    let (records, layout) = written(|c| {
        let weight = whole(c, "w", Dtype::U8, &[1], &[5])?;
        let weight = c.node(Node::tensor(weight))?;
        let arguments = container(c, NodeKind::TUPLE, "", &[weight])?;
        let net = container(c, NodeKind::OBJECT, "__main__.Net", &[arguments])?;
        c.root(net)
    });
    assert_eq!(losses(&layout), [(LossKind::State, ".")]);
    let pickle = pickle_of(&records);
    assert!(pickle.starts_with("proto2 } ( 0 torch._utils._rebuild_tensor_v2 ( ( \"storage\" "), "{pickle}");
    assert_eq!(record(&records, "data/0"), [5]);
}

#[test]
fn a_tree_that_would_lose_a_tensor_is_given_up() {
    for fill in [
        |c: &mut dyn CatalogSink| {
            // The object's state is a single tensor without a name, and torch refuses the object's
            // class.
            let weight = whole(c, "w", Dtype::U8, &[1], &[5])?;
            let weight = c.node(Node::tensor(weight))?;
            let arguments = container(c, NodeKind::TUPLE, "", &[])?;
            let module = container(c, NodeKind::OBJECT, "__main__.Net", &[arguments, weight])?;
            c.root(module)
        },
        |c: &mut dyn CatalogSink| {
            // The tree does not contain this tensor.
            whole(c, "w", Dtype::U8, &[1], &[5])?;
            let epoch = c.node(Node::int(3))?;
            c.root(epoch)
        },
    ] {
        let (records, layout) = written(fill);
        assert_eq!(losses(&layout), [(LossKind::State, ".")]);
        let pickle = pickle_of(&records);
        assert!(pickle.starts_with("proto2 collections.OrderedDict ) R ( \"w\" "), "{pickle}");
        assert_eq!(record(&records, "data/0"), [5]);
    }
}

#[test]
fn a_tensor_that_is_given_up_leaves_no_key() {
    let (records, layout) = written(|c| {
        let text = whole(c, "t", Dtype::STR, &[1], &[0; 8])?;
        let (key, text) = (c.node(Node::text("t"))?, c.node(Node::tensor(text))?);
        let list = container(c, NodeKind::LIST, "", &[text])?;
        let other = c.node(Node::text("l"))?;
        let root = container(c, NodeKind::MAP, "", &[key, text, other, list])?;
        c.root(root)
    });
    assert_eq!(losses(&layout), [(LossKind::Tensor, "t")]);
    assert_eq!(pickle_of(&records), "proto2 } ( \"l\" ] ( None e u .");
}

#[test]
fn deep_and_shared_trees_are_walked_without_recursion() {
    let (records, layout) = written(|c| {
        let mut node = c.node(Node::none())?;
        for _ in 0..200 {
            node = container(c, NodeKind::LIST, "", &[node, node])?;
        }
        c.root(node)
    });
    assert_eq!(losses(&layout), []);
    assert!(record(&records, "data.pkl").len() < 4000);
}

#[test]
fn our_reader_gets_back_what_was_written() {
    for (format, metadata_losses) in [("zip", 0), ("legacy", 1)] {
        round_trip(format, metadata_losses);
    }
}

fn round_trip(format: &str, metadata_losses: usize) {
    let options = [("format".to_owned(), format.to_owned())];
    let fill: Fill = |c| {
        for dtype in Dtype::built_in() {
            let Some(row) = TorchDtype::of(dtype).filter(|row| !row.quantized) else { continue };
            let len = usize::try_from(dtype.info().unwrap().bytes_of(8)?).unwrap();
            let bytes: Vec<u8> = (0_u8..).map(|byte| byte & 1).take(len).collect();
            whole(c, row.name, dtype, &[2, 4], &bytes)?;
            whole(c, &format!("empty {}", row.name), dtype, &[0, 2], &[])?;
        }
        let storage = c.storage(Storage::inline((0..64).collect::<Vec<u8>>()))?;
        for name in ["tied", "dots.in.it", "", "\u{1f600}\n"] {
            c.tensor(name, Dtype::I16, &[4], storage, 0)?;
        }
        c.tensor_of_blocks("view", Dtype::I16, &[2, 3], block(&[2, 3], storage, 2, &[1, 2]))?;
        c.metadata_text("format", "pt")?;
        c.origin("safetensors")
    };
    let (none, context) = (MemorySource::file("in", []), MemoryContext::default());
    let before = MemoryView::build(OWN_ID, &none, &context, fill).unwrap();
    let target = Target::File("model.pt".to_owned());
    let output = write(&crate::Torch, &options, &before, &target, &context).unwrap();
    assert_eq!(losses(&output.layout).len(), metadata_losses, "{format}");
    assert_eq!(context.notes().len(), metadata_losses, "{format}");
    let file = MemorySource::file("model.pt", output.files["model.pt"].clone());
    let after = MemoryView::read(&crate::Torch, &[], &file, &context).unwrap();
    assert_eq!(after.catalog().losses(), []);
    if format == "zip" {
        assert_eq!(after.catalog().origin(), "safetensors");
        assert_eq!(after.catalog().metadata(), before.catalog().metadata());
    }
    assert_eq!(after.catalog().ties(), before.catalog().ties());
    assert_eq!(after.catalog().tensors().len(), before.catalog().tensors().len());
    for tensor in before.catalog().tensors() {
        assert_eq!(after.tensor_named(&tensor.name).unwrap(), before.tensor_named(&tensor.name).unwrap());
    }
    let again = write(&crate::Torch, &options, &after, &target, &context).unwrap();
    assert!(again.files == output.files);
}
