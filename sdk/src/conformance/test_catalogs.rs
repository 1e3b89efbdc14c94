//! Test catalogs for writers. Each catalog covers one feature.

use crate::memory::MemoryView;
use crate::{
    Block, ByteOrder, ByteSink, CatalogSink, Context, Dtype, DtypeInfo, Edges, Error, FileId, Grid,
    MemoryContext, MemorySource, Node, NodeKind, Order, Region, Result, Source, Storage, StorageRange,
    TensorDecoder, TensorId, Tiles, Value, row_major_strides,
};

type Fill = dyn Fn(&mut dyn CatalogSink) -> Result<()>;

/// A test catalog, stored as the calls that build it.
pub(super) struct TestCatalog {
    pub(super) title: String,
    fill: Box<Fill>,
}

/// Returns the file that contains the bytes of the test catalogs. No two neighboring bytes of the
/// file are equal.
pub(super) fn source() -> MemorySource {
    MemorySource::file("made", pattern(LEN))
}

const LEN: u64 = 4096;
const FILE: FileId = FileId(0);

fn pattern(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(37) >> 3 ^ i).to_le_bytes()[0]).collect()
}

impl TestCatalog {
    /// Returns the catalog, with its bytes in [`source`].
    pub(super) fn view<'a>(
        &self,
        source: &'a MemorySource,
        context: &'a MemoryContext,
    ) -> Result<MemoryView<'a>> {
        MemoryView::build_with_decoder("made", source, context, |catalog| {
            (self.fill)(catalog)?;
            Ok(Box::new(Decoder))
        })
    }
}

struct Decoder;

impl TensorDecoder for Decoder {
    /// Decodes a storage. The handle of a storage is also its length.
    fn decode(&self, _: &dyn Source, handle: u64, output: &mut dyn ByteSink, _: &dyn Context) -> Result<()> {
        output.write(&pattern(handle))
    }
}

pub(super) fn catalogs() -> Vec<TestCatalog> {
    let mut all = Vec::new();
    dtypes(&mut all);
    shapes(&mut all);
    named(&mut all);
    views(&mut all);
    storages(&mut all);
    with_other_content(&mut all);
    all
}

fn add(
    all: &mut Vec<TestCatalog>,
    title: impl Into<String>,
    fill: impl Fn(&mut dyn CatalogSink) -> Result<()> + 'static,
) {
    all.push(TestCatalog { title: title.into(), fill: Box::new(fill) });
}

/// Adds a row-major tensor whose bytes start at `offset` in the file.
fn plain(
    catalog: &mut dyn CatalogSink,
    name: &str,
    dtype: Dtype,
    shape: &[u64],
    offset: u64,
) -> Result<TensorId> {
    let storage = catalog.storage(Storage::file(FILE, 0, LEN))?;
    catalog.tensor(name, dtype, shape, storage, offset)
}

fn dtypes(all: &mut Vec<TestCatalog>) {
    for dtype in Dtype::built_in() {
        let name = dtype.info().map_or("", DtypeInfo::name);
        add(all, format!("dtype {name}"), move |catalog| match dtype {
            Dtype::BOOL => {
                let storage = catalog.storage(Storage::inline([0, 1, 1, 0, 1, 0, 0, 1]))?;
                catalog.tensor("t", dtype, &[2, 4], storage, 0).map(drop)
            }
            Dtype::STR => {
                let texts = ["", "a", "two\n", "\u{1f980}"];
                let bytes = texts.map(|t| [&(t.len() as u64).to_le_bytes(), t.as_bytes()].concat()).concat();
                let storage = catalog.storage(Storage::inline(bytes))?;
                catalog.tensor("t", dtype, &[2, 2], storage, 0).map(drop)
            }
            _ => plain(catalog, "t", dtype, &[2, 4], 0).map(drop),
        });
    }
    add(all, "a dtype that is not built in", |catalog| {
        let dtype = catalog.dtype(&DtypeInfo::extension("CONFORMANCE_4", 32, 18, 1)?)?;
        plain(catalog, "t", dtype, &[2, 32], 0).map(drop)
    });
}

fn shapes(all: &mut Vec<TestCatalog>) {
    let shapes: [&[u64]; 7] =
        [&[], &[0], &[3, 0, 2], &[1], &[1, 1, 1, 1], &[2, 3, 2, 2], &[1, 1, 1, 1, 1, 1, 1, 1, 2]];
    for shape in shapes {
        add(all, format!("shape {shape:?}"), move |catalog| {
            plain(catalog, "t", Dtype::F32, shape, 0).map(drop)
        });
    }
    add(all, "no tensors", |_| Ok(()));
    add(all, "an empty tensor among others", |catalog| {
        plain(catalog, "a", Dtype::F32, &[2], 0)?;
        plain(catalog, "b", Dtype::F32, &[0, 4], 8)?;
        plain(catalog, "c", Dtype::I64, &[2], 8).map(drop)
    });
    add(all, "two hundred tensors of several dtypes", |catalog| {
        let dtypes = [Dtype::F32, Dtype::U8, Dtype::I64, Dtype::F16];
        let storage = catalog.storage(Storage::file(FILE, 0, LEN))?;
        for (index, &dtype) in (0..200).zip(dtypes.iter().cycle()) {
            catalog.tensor(
                &format!("layer.{index}.weight"),
                dtype,
                &[index % 3 + 1, 2],
                storage,
                index * 8,
            )?;
        }
        Ok(())
    });
}

fn named(all: &mut Vec<TestCatalog>) {
    let long = "x".repeat(1000);
    let names = [
        "",
        ".",
        "..",
        "a.b.c",
        "a..b",
        ".a",
        "a.",
        "a/b",
        "/a",
        "../a",
        "a\\b",
        "with space",
        "quote\"'",
        "line\nbreak",
        "nul\0",
        "\u{7f}\u{1b}[31m",
        "\u{e9}\u{6f22}\u{1f980}",
        "e\u{301}",
        "__metadata__",
        "0",
        "[0]",
        "data",
        &long,
    ];
    for name in names.map(str::to_owned) {
        let title: String = format!("name {name:?}").chars().take(40).collect();
        add(all, title, move |catalog| plain(catalog, &name, Dtype::F32, &[2], 0).map(drop));
    }
    add(all, "names that contain each other", |catalog| {
        let names = ["a", "a.b", "A", "a/b", "a b", "a.b.0", "b", "b.", ".b"];
        for (index, name) in (0..).zip(names) {
            plain(catalog, name, Dtype::F32, &[2], index * 8)?;
        }
        Ok(())
    });
}

fn view(
    all: &mut Vec<TestCatalog>,
    title: &str,
    shape: &'static [u64],
    offset: u64,
    strides: &'static [i64],
) {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        add(all, format!("{title}, {order:?}-endian"), move |catalog| {
            let storage = catalog.storage(Storage::file(FILE, 64, 1024).byte_order(order))?;
            let block = Block { region: Region::whole(shape), storage, offset, strides: strides.to_vec() };
            catalog.tensor_of_blocks("t", Dtype::I32, shape, vec![block]).map(drop)
        });
    }
}

fn views(all: &mut Vec<TestCatalog>) {
    view(all, "a transposed view", &[3, 5], 0, &[1, 3]);
    view(all, "a view with gaps", &[3, 2], 8, &[10, 3]);
    view(all, "a reversed view", &[6], 20, &[-1]);
    view(all, "a repeated row", &[3, 4], 0, &[0, 1]);
    view(all, "a repeated element", &[2, 2], 4, &[0, 0]);
    view(all, "overlapping windows", &[4, 3], 0, &[1, 1]);
    view(all, "a view inside a storage", &[2, 2, 2], 100, &[4, 2, 1]);
    add(all, "two views of one storage that overlap", |catalog| {
        let storage = catalog.storage(Storage::file(FILE, 0, 96))?;
        catalog.tensor("a", Dtype::F32, &[4, 4], storage, 0)?;
        catalog.tensor("b", Dtype::F32, &[4, 4], storage, 32).map(drop)
    });
    for order in [ByteOrder::Little, ByteOrder::Big] {
        add(all, format!("four blocks of two storages, one {order:?}-endian"), move |catalog| {
            let one = catalog.storage(Storage::file(FILE, 0, 64))?;
            let other = catalog.storage(Storage::file(FILE, 128, 64).byte_order(order))?;
            let quarter = |origin: [u64; 2], storage, offset| {
                let region = Region { origin: origin.to_vec(), shape: vec![2, 3] };
                Block { region, storage, offset, strides: row_major_strides(&[2, 3]) }
            };
            let blocks = vec![
                quarter([2, 3], other, 24),
                quarter([0, 0], one, 0),
                quarter([0, 3], other, 0),
                quarter([2, 0], one, 24),
            ];
            catalog.tensor_of_blocks("t", Dtype::F32, &[4, 6], blocks).map(drop)
        });
    }
}

fn storages(all: &mut Vec<TestCatalog>) {
    for dtype in [Dtype::I16, Dtype::F32, Dtype::F64, Dtype::C64, Dtype::U8] {
        let name = dtype.info().map_or("", DtypeInfo::name);
        add(all, format!("big-endian {name}"), move |catalog| {
            let storage = catalog.storage(Storage::file(FILE, 32, 64).byte_order(ByteOrder::Big))?;
            catalog.tensor("t", dtype, &[2, 2], storage, 16).map(drop)
        });
    }
    add(all, "an encoded storage", |catalog| {
        let storage = catalog.storage(Storage::encoded(48, 48))?;
        catalog.tensor("t", Dtype::F32, &[2, 4], storage, 16).map(drop)
    });
    add(all, "an encoded storage, big-endian, transposed", |catalog| {
        let storage = catalog.storage(Storage::encoded(48, 48).byte_order(ByteOrder::Big))?;
        let block = Block { region: Region::whole(&[3, 4]), storage, offset: 0, strides: vec![1, 3] };
        catalog.tensor_of_blocks("t", Dtype::F32, &[3, 4], vec![block]).map(drop)
    });
    for order in [ByteOrder::Little, ByteOrder::Big] {
        add(all, format!("joined storages, {order:?}-endian"), move |catalog| {
            let file = catalog.storage(Storage::file(FILE, 10, 50).byte_order(order))?;
            let encoded = catalog.storage(Storage::encoded(48, 48).byte_order(order))?;
            let inline = catalog.storage(Storage::inline(pattern(5)).byte_order(order))?;
            let range = |storage, offset, len| StorageRange { storage, offset, len };
            // Some elements extend over two or three ranges.
            let ranges = [range(file, 3, 9), range(inline, 0, 5), range(encoded, 1, 2), range(file, 0, 32)];
            let joined = catalog.storage(Storage::joined(ranges).byte_order(order))?;
            catalog.tensor("t", Dtype::F32, &[3, 4], joined, 0)?;
            let block =
                Block { region: Region::whole(&[2, 2]), storage: joined, offset: 0, strides: vec![1, 2] };
            catalog.tensor_of_blocks("turned", Dtype::F64, &[2, 2], vec![block]).map(drop)
        });
    }
    for (edges, order) in [(Edges::Clipped, Order::C), (Edges::Padded, Order::Fortran)] {
        let title =
            format!("tiles that are absent, encoded or big-endian, {edges:?} at the edges, {order:?}");
        add(all, title, move |catalog| {
            let fill = catalog.storage(Storage::inline(7.5_f32.to_be_bytes()).byte_order(ByteOrder::Big))?;
            // The tiles have the shape [2, 3] in a tensor of shape [5, 7]. Tiles at the edges have
            // one row, one column, or both.
            let len =
                |[rows, columns]: [u64; 2]| if edges == Edges::Padded { 24 } else { rows * columns * 4 };
            let mut tiles = Vec::new();
            for (number, origin) in (0..3).flat_map(|i| (0..3).map(move |j| [2 * i, 3 * j])).enumerate() {
                let len = len([2.min(5 - origin[0]), 3.min(7 - origin[1])]);
                let storage = match number {
                    1 | 8 => None,
                    2 | 4 => Some(Storage::encoded(len, len)),
                    3 => Some(Storage::file(FILE, 40, len).byte_order(ByteOrder::Big)),
                    _ => Some(Storage::file(FILE, 0, len)),
                };
                tiles.push(storage.map(|storage| catalog.storage(storage)).transpose()?);
            }
            let (tile, tiles) = (vec![2, 3], Tiles::Listed(tiles));
            let grid = Grid { tile, order, edges, tiles, fill: Some(fill) };
            catalog.tensor_of_tiles("t", Dtype::F32, &[5, 7], grid).map(drop)
        });
    }
    add(all, "an inline storage", |catalog| {
        let storage = catalog.storage(Storage::inline(pattern(24)))?;
        catalog.tensor("t", Dtype::I16, &[3, 2], storage, 4).map(drop)
    });
}

/// The dtypes of numbers in test metadata.
const NUMBERS: [Dtype; 10] = [
    Dtype::U8,
    Dtype::I8,
    Dtype::U16,
    Dtype::I16,
    Dtype::U32,
    Dtype::I32,
    Dtype::U64,
    Dtype::I64,
    Dtype::F32,
    Dtype::F64,
];

/// Returns values that consist of a single node. The key of each value describes it.
fn scalars() -> Vec<(&'static str, Value)> {
    vec![
        ("text", Value::text("a")),
        ("no text", Value::text("")),
        ("true", Value::bool(true)),
        ("integer", Value::int(-40)),
        ("float", Value::float(0.1)),
        ("infinity", Value::float(f64::INFINITY)),
    ]
}

fn with_other_content(all: &mut Vec<TestCatalog>) {
    add(all, "tied tensors", |catalog| {
        let storage = catalog.storage(Storage::file(FILE, 0, 96))?;
        for name in ["wte", "lm_head", "other_head"] {
            catalog.tensor(name, Dtype::F32, &[4, 4], storage, 0)?;
        }
        catalog.tensor("untied", Dtype::F32, &[4, 4], storage, 32).map(drop)
    });
    add(all, "tied transposed tensors", |catalog| {
        let storage = catalog.storage(Storage::file(FILE, 0, 96))?;
        for name in ["a", "b"] {
            let block = Block { region: Region::whole(&[3, 4]), storage, offset: 4, strides: vec![1, 3] };
            catalog.tensor_of_blocks(name, Dtype::F32, &[3, 4], vec![block])?;
        }
        Ok(())
    });
    // Some formats accept only one dtype.
    for dtype in [Dtype::F32, Dtype::U8, Dtype::I64] {
        let name = dtype.info().map_or("", DtypeInfo::name);
        add(all, format!("metadata beside {name}"), move |catalog| {
            catalog.metadata_text("step", "3")?;
            catalog.metadata_text("", "empty key")?;
            catalog.metadata_text("text\n\"", "\u{1f980} value\n\0")?;
            catalog.metadata_text("t", "the name of a tensor")?;
            plain(catalog, "t", dtype, &[2], 0).map(drop)
        });
        add(all, format!("a tree of state with {name}"), move |catalog| {
            let tensor = plain(catalog, "w", dtype, &[2], 0)?;
            tree(catalog, tensor)
        });
    }
    add(all, "metadata of every kind", |catalog| {
        for dtype in NUMBERS {
            let name = dtype.info().map_or("", DtypeInfo::name);
            let width = dtype.info().and_then(DtypeInfo::element_bytes).unwrap_or(1) as usize;
            // These bytes contain no NaN.
            let bytes: Vec<u8> = (1..).map(|byte: u8| byte.wrapping_mul(0x15)).take(5 * width).collect();
            catalog.metadata(name, Value::number(dtype, &bytes[..width])?)?;
            catalog.metadata(&format!("{name}s"), Value::numbers(dtype, bytes)?)?;
        }
        for (key, value) in scalars() {
            catalog.metadata(key, value)?;
        }
        let list = Value::list(scalars().into_iter().map(|(_, value)| value))?;
        catalog.metadata(
            "map",
            Value::map([(Value::text("list"), list), (Value::int(1), Value::bool(true))])?,
        )?;
        catalog.metadata("", Value::list([])?)
    });
    add(all, "attributes of tensors", |catalog| {
        let first = plain(catalog, "first", Dtype::F32, &[2, 3], 0)?;
        let second = plain(catalog, "second", Dtype::F32, &[2], 64)?;
        for (key, value) in scalars() {
            catalog.attribute(first, key, value)?;
        }
        catalog.attribute(first, "line\nbreak", Value::text("\u{1f980}\n"))?;
        let spacings: Vec<u8> = [0.5_f64, 1.25].iter().flat_map(|number| number.to_le_bytes()).collect();
        catalog.attribute(first, "spacings", Value::numbers(Dtype::F64, spacings)?)?;
        catalog.attribute(first, "units", Value::list(["mm", ""].map(Value::text))?)?;
        // Both tensors have an attribute with this key, but the values are different.
        catalog.attribute(second, "text", Value::text("b"))
    });
    add(all, "metadata without tensors", |catalog| catalog.metadata_text("step", "3"));
}

/// Adds the tree `{"w": tensor, "step": 3, "lr": 0.5, "none": None, "deep": [True, ("text", bytes,
/// -70000)]}`.
fn tree(catalog: &mut dyn CatalogSink, tensor: TensorId) -> Result<()> {
    let inner = [Node::text("text"), Node::scalar(NodeKind::BYTES, b"\0\xff"), Node::int(-70_000)];
    let inner = inner.into_iter().map(|node| catalog.node(node)).collect::<Result<Vec<_>, Error>>()?;
    let list = [catalog.node(Node::bool(true))?, catalog.node(Node::container(NodeKind::TUPLE, "", inner))?];
    let values = [
        ("w", Node::tensor(tensor)),
        ("step", Node::int(3)),
        ("lr", Node::float(0.5)),
        ("none", Node::none()),
        ("deep", Node::container(NodeKind::LIST, "", list)),
    ];
    let mut entries = Vec::new();
    for (key, value) in values {
        entries.push((catalog.node(Node::text(key))?, catalog.node(value)?));
    }
    let root = catalog.node(Node::map("", &entries))?;
    catalog.root(root)
}
