//! Compares the results of steps with their definitions, element by element, and checks that
//! inverse steps undo them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod tree;

use super::spec::Spec;
use super::*;
use proptest::prelude::*;
use std::time::{Duration, Instant};
use tensorferry_sdk::{
    Catalog, CatalogBuilder, CatalogSink, Data, Dtype, Edges, Grid, Limits, Loss, LossKind, MemorySource,
    Node, NodeId, NodeKind, Order, Result, Severity, Storage, StorageLocation, TensorId, Tiles, Value,
};

/// Returns a catalog to which `fill` has added content.
fn build(fill: impl FnOnce(&mut CatalogBuilder<'_>) -> Result<()>) -> Catalog {
    let source = MemorySource::file("x", Vec::new());
    let limits = Limits::default();
    let mut builder = CatalogBuilder::new("test", &source, &limits);
    fill(&mut builder).unwrap();
    builder.finish().unwrap()
}

/// Returns a catalog of I32 tensors whose elements are all different.
pub(crate) fn catalog(tensors: &[(&str, &[u64])]) -> Catalog {
    build(|builder| {
        let mut next = 0_i32;
        for (name, shape) in tensors {
            let elements: u64 = shape.iter().product();
            let values: Vec<u8> = (0..elements)
                .flat_map(|_| {
                    next += 1;
                    next.to_le_bytes()
                })
                .collect();
            let storage = builder.storage(Storage::inline(values))?;
            builder.tensor(name, Dtype::I32, shape, storage, 0)?;
        }
        Ok(())
    })
}

/// Returns the shape of a tensor and its elements in row-major order. The elements are read
/// according to the definition of a block.
fn values(catalog: &Catalog, name: &str) -> (Vec<u64>, Vec<i32>) {
    let tensor = catalog.tensors().iter().find(|tensor| tensor.name == name);
    let tensor = tensor.unwrap_or_else(|| panic!("no {name:?} in {:?}", names(catalog)));
    let count: u64 = tensor.shape.iter().product();
    let mut found = vec![None; usize::try_from(count).unwrap()];
    for block in tensor.blocks() {
        let StorageLocation::Inline(bytes) = &catalog.storage(block.storage).unwrap().location else {
            panic!("not inline")
        };
        for linear in 0..block.region.shape.iter().product::<u64>() {
            let (mut rest, mut from, mut to, mut weight) = (linear, block.offset.cast_signed(), 0, 1);
            for d in (0..tensor.shape.len()).rev() {
                let index = rest % block.region.shape[d];
                rest /= block.region.shape[d];
                from += index.cast_signed() * block.strides[d] * 4;
                to += (index + block.region.origin[d]) * weight;
                weight *= tensor.shape[d];
            }
            let from = usize::try_from(from).unwrap();
            let value = i32::from_le_bytes(bytes[from..from + 4].try_into().unwrap());
            assert_eq!(found[usize::try_from(to).unwrap()].replace(value), None);
        }
    }
    (tensor.shape.clone(), found.into_iter().map(Option::unwrap).collect())
}

pub(crate) fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tensors().iter().map(|tensor| tensor.name.as_str()).collect()
}

/// Creates a step from a spec.
fn step(spec: Spec) -> Result<Step<TensorAction>> {
    let action = TENSOR_KINDS.iter().find_map(|kind| kind.action(&spec)).expect("a step on tensors");
    Ok(Step { action: action?, spec, recipe: None })
}

fn parse(texts: &[&str]) -> Result<Vec<Step<TensorAction>>> {
    texts.iter().map(|text| step(Spec::parse(text)?)).collect()
}

pub(super) fn run(catalog: Catalog, texts: &[&str]) -> Result<(Catalog, Effects)> {
    apply(catalog, &parse(texts)?)
}

fn ran(catalog: Catalog, texts: &[&str]) -> Catalog {
    run(catalog, texts).unwrap().0
}

fn refused(text: &str) -> String {
    parse(&[text]).unwrap_err().to_string()
}

/// Returns the names, shapes and elements of all tensors.
fn content(catalog: &Catalog) -> Vec<(String, (Vec<u64>, Vec<i32>))> {
    let mut all: Vec<_> =
        names(catalog).into_iter().map(|name| (name.to_owned(), values(catalog, name))).collect();
    all.sort();
    all
}

/// Checks that steps keep the attributes of a tensor if they keep its dimensions. Other steps
/// report the attributes as lost.
#[test]
fn attributes_go_where_their_tensor_goes() {
    let with_attributes = || {
        build(|builder| {
            let storage = builder.storage(Storage::inline(vec![0; 64]))?;
            for (name, offset) in [("a", 0), ("b", 16)] {
                let tensor = builder.tensor(name, Dtype::I32, &[2, 2], storage, offset)?;
                builder.attribute(tensor, "unit", Value::text(name))?;
                builder.attribute(tensor, "spacings", Value::numbers(Dtype::U8, [1, 2])?)?;
            }
            builder.metadata("step", Value::int(7))
        })
    };
    let unit = |catalog: &Catalog, name: &str| {
        let tensor = catalog.tensors().iter().find(|tensor| tensor.name == name).unwrap();
        tensor.attributes.get("unit").cloned()
    };
    for spec in [
        "select:a",
        "rename:^a$,to=a",
        "cast:f32,only=any",
        "untie",
        "tie:^b$,to=c",
        "reshape:2x2",
        "permute:0x1",
    ] {
        let (catalog, effects) = run(with_attributes(), &[spec]).unwrap();
        assert_eq!(effects.losses, [], "{spec}");
        assert_eq!(unit(&catalog, "a").unwrap(), "a", "{spec}");
        assert_eq!(catalog.metadata()["step"], Value::int(7));
    }
    assert_eq!(unit(&ran(with_attributes(), &["tie:^b$,to=c"]), "c").unwrap(), "b");
    for (spec, name, lost) in [
        ("transpose,where=a", "a", 2),
        ("permute:1x0", "a", 4),
        ("reshape:4,where=a", "a", 2),
        ("split:^a$,to=x,to=y", "x", 2),
        ("unstack:^a$,to=x$i", "x1", 2),
        ("concat:^a$,with=b,to=ab", "ab", 4),
        ("stack:^a$,with=b,to=ab", "ab", 4),
    ] {
        let (catalog, effects) = run(with_attributes(), &[spec]).unwrap();
        assert_eq!(unit(&catalog, name), None, "{spec}");
        let said = |loss: &Loss| loss.kind == LossKind::Attribute && loss.requested;
        assert_eq!(effects.losses.iter().filter(|loss| said(loss)).count(), lost, "{spec}");
    }
    let set = ran(with_attributes(), &["set_metadata:step,to=8", "set_metadata:x,to=y", "drop_metadata:x"]);
    assert_eq!(set.metadata()["step"], "8");
    assert_eq!(set.metadata().len(), 1);
}

#[test]
fn selectors_hold_together() {
    let some: &[(&str, &[u64])] = &[("a.weight", &[4, 4]), ("a.bias", &[4]), ("b/weight", &[8]), ("c", &[])];
    for (spec, expected) in [
        ("select:*weight", &["a.weight", "b/weight"][..]),
        ("select:*weight,where=c", &["a.weight", "b/weight", "c"]),
        ("select:*weight,where_re=^a", &["a.weight"]),
        ("select,not=a.*,not_re=^c$", &["b/weight"]),
        ("select,rank=0,rank=2", &["a.weight", "c"]),
        ("select,min_size=16,max_size=32", &["a.bias", "b/weight"]),
        ("drop,dtype=i32,rank=1", &["a.weight", "c"]),
        ("\"select:{a,b}?weight\"", &["a.weight", "b/weight"]),
    ] {
        assert_eq!(names(&ran(catalog(some), &[spec])), expected, "{spec}");
    }
    let wrong = |spec| run(catalog(some), &[spec]).unwrap_err().to_string();
    assert!(wrong("select:x").contains("leaves no tensor"));
    assert!(wrong("select,dtype=F23").contains("did you mean \"F32\""), "{}", wrong("select,dtype=F23"));
    let note = run(catalog(some), &["drop:x"]).unwrap().1.notes;
    assert!(note[0].contains("drop:x changed nothing"), "{note:?}");
}

#[test]
fn names_are_rewritten() {
    let some = || catalog(&[("a.x", &[1]), ("b.x", &[1]), ("c.y", &[1])]);
    assert_eq!(names(&ran(some(), &[r"rename:^(.)\.(.)$,to=$2/${1}_$$"])), ["x/a_$", "x/b_$", "y/c_$"]);
    assert_eq!(names(&ran(some(), &[r"rename:x$,to=z,beside=y"])), ["a.x", "b.x", "c.y"]);
    assert_eq!(names(&ran(some(), &[r"rename:^b,to=d,where=*.x,not=a*"])), ["a.x", "d.x", "c.y"]);
}

#[test]
fn collisions_are_listed() {
    let some = catalog(&[("a.x", &[1]), ("b.x", &[1]), ("c.y", &[1]), ("y", &[1])]);
    let error = run(some, &[r"rename:^.\.,to="]).unwrap_err();
    assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Usage);
    let error = error.to_string();
    assert!(error.contains(r#""a.x", "b.x" -> "x"; "c.y", "y" -> "y""#), "{error}");
}

#[test]
fn dimensions_are_turned() {
    let turned = ran(catalog(&[("w", &[2, 3, 4])]), &["permute:abc->cab"]);
    let (shape, found) = values(&turned, "w");
    assert_eq!(shape, [4, 2, 3]);
    let at = |c: usize, a: usize, b: usize| found[(c * 2 + a) * 3 + b];
    assert_eq!(at(3, 1, 2), (3 + 2) * 4 + 3 + 1);
    assert_eq!(ran(catalog(&[("w", &[2, 3, 4])]), &["transpose"]).tensors()[0].shape, [2, 4, 3]);
    let error = run(catalog(&[("b", &[2])]), &["transpose"]).unwrap_err().to_string();
    assert!(error.contains("tensor \"b\"") && error.contains("rank="), "{error}");
}

#[test]
fn fused_weights_are_split_and_joined() {
    let fused = || catalog(&[("l.qkv.weight", &[12, 2]), ("l.qkv.bias", &[12]), ("x", &[1])]);
    let split = r"split:\.qkv\.,to=.q.,to=.k.,to=.v.,sizes=8x2x2";
    let parts = ran(fused(), &[split]);
    assert_eq!(parts.tensors().len(), 7);
    assert_eq!(values(&parts, "l.k.weight"), (vec![2, 2], (17..21).collect()));
    let back = ran(parts, &[r"concat:\.q\.,with=.k.,with=.v.,to=.qkv.,sizes=8x2x2"]);
    // The tensors have the original values and consist of one block again, so that tied tensors
    // remain tied.
    assert_eq!(back.tensors(), fused().tensors());
    for (spec, said) in [
        (r"split:\.qkv\.,to=.q.,to=.k.,sizes=8x2", "do not add up to the whole"),
        (r"split:\.qkv\.,to=.q$i.,parts=5", "multiple of 5"),
        (r"split:^l\.qkv\..*$,to=x$i,parts=2", "several tensors would have the same name"),
        (r"split:\.qkv\.,to=.q$i.,parts=2,axis=1", "no dimension 1"),
        (r"concat:qkv.weight,with=qkv.bias,to=x", "differs from the first part"),
        (r"concat:qkv.weight,with=none,to=x", "which would be the next part"),
    ] {
        let error = run(fused(), &[spec]).unwrap_err().to_string();
        assert!(error.contains(said), "{spec}: {error}");
    }
    let unequal = catalog(&[("q", &[8, 2]), ("k", &[2, 2])]);
    let error = run(unequal.clone(), &["concat:^q$,with=k,to=qk"]).unwrap_err().to_string();
    assert!(error.contains("sizes="), "{error}");
    assert_eq!(values(&ran(unequal, &["concat:^q$,with=k,to=qk,sizes=any"]), "qk").0, [10, 2]);
}

#[test]
fn experts_are_stacked_by_their_numbers() {
    let names_of: Vec<String> = (0..11).map(|number| format!("l.experts.{number}.w1")).collect();
    let mut list: Vec<(&str, &[u64])> =
        names_of.iter().map(|name| (name.as_str(), &[2_u64, 3][..])).collect();
    list.sort_unstable();
    let apart = catalog(&list);
    let stacked = ran(apart.clone(), &[r"stack:\.experts\.(?<i>\d+)\.(w\d)$,to=.experts.$2,parts=11"]);
    assert_eq!(names(&stacked), ["l.experts.w1"]);
    let (shape, all) = values(&stacked, "l.experts.w1");
    assert_eq!(shape, [11, 2, 3]);
    assert_eq!(all[60..], values(&apart, "l.experts.10.w1").1);
    let back = ran(stacked, &[r"unstack:\.experts\.(w\d)$,to=.experts.$i.$1"]);
    assert_eq!(content(&back), content(&apart));
    let error = run(ran(apart, &["drop:*.3.w1"]), &[r"stack:experts\.(?<i>\d+),to=experts"]).unwrap_err();
    assert!(error.to_string().contains("part 3 is missing"), "{error}");
}

#[test]
fn ties_are_made_and_end() {
    let some = catalog(&[("wte", &[3]), ("head", &[3]), ("other", &[4])]);
    let (tied, effects) = run(some.clone(), &["tie:^wte$,to=head", "tie:^wte$,to=third"]).unwrap();
    assert_eq!(tied.ties(), [TensorId(0), TensorId(0), TensorId(2), TensorId(0)]);
    let losses: Vec<_> = effects.losses.iter().map(|loss| (loss.kind, loss.what.as_str())).collect();
    assert_eq!(losses, [(LossKind::Tensor, "head")]);
    let apart = ran(tied.clone(), &["untie"]);
    assert_eq!(content(&apart), content(&tied));
    assert_eq!(apart.ties(), [0, 1, 2, 3].map(TensorId));
    assert_eq!(ran(tied, &["untie:wte"]).ties(), [0, 1, 2, 1].map(TensorId));
    assert!(
        run(some, &["tie:^wte$,to=other"]).unwrap_err().to_string().contains("a different dtype or shape")
    );
}

#[test]
fn packed_elements_and_strings_are_cut_only_where_they_can_be() {
    let some = || {
        build(|builder| {
            let packed = builder.storage(Storage::inline(vec![0x10, 0x32, 0x54, 0x76]))?;
            builder.tensor("f4", Dtype::F4, &[4, 2], packed, 0)?;
            let texts = builder.storage(Storage::inline(vec![0; 16]))?;
            builder.tensor("text", Dtype::STR, &[2], texts, 0).map(drop)
        })
    };
    let parts = ran(some(), &["split:f4,to=a,to=b"]);
    assert_eq!(ran(parts, &["concat:a,with=b,to=f4", "select:f4"]).tensors(), &some().tensors()[..1]);
    assert_eq!(
        ran(some(), &["reshape:2x2x2,where=f4", "reshape:2x1,where=text"]).tensors()[0].shape,
        [2, 2, 2]
    );
    for spec in ["transpose,where=f4", "split:f4,to=a,to=b,axis=1", "split:text,to=a,to=b"] {
        let error = run(some(), &[spec]).unwrap_err();
        assert_eq!(error.kind(), tensorferry_sdk::ErrorKind::Unsupported, "{spec}: {error}");
    }
}

#[test]
fn metadata_is_set_and_dropped() {
    let set = ran(
        catalog(&[("a", &[1])]),
        &["set_metadata:x.a,to=1", "set_metadata:y,\"to=b,c\"", "drop_metadata:x.*"],
    );
    assert_eq!(set.metadata().iter().map(|(k, v)| format!("{k}={v:?}")).collect::<Vec<_>>(), ["y=\"b,c\""]);
}

#[test]
fn a_grid_stays_one_until_its_axes_change() {
    // A 3 x 3 tensor in tiles of 2 x 2, which are clipped at the edges and stored column by column.
    // The third tile is missing.
    let grid = build(|builder| {
        let inline = |numbers: &[i32]| {
            Storage::inline(numbers.iter().copied().flat_map(i32::to_le_bytes).collect::<Vec<u8>>())
        };
        let mut tiles = Vec::new();
        for numbers in [&[0, 3, 1, 4][..], &[2, 5], &[], &[8]] {
            let tile = (!numbers.is_empty()).then(|| builder.storage(inline(numbers)));
            tiles.push(tile.transpose()?);
        }
        let fill = Some(builder.storage(inline(&[7]))?);
        for name in ["a", "b"] {
            let tiles = Tiles::Listed(tiles.clone());
            let (tile, order, edges) = (vec![2, 2], Order::Fortran, Edges::Clipped);
            let grid = Grid { tile, order, edges, tiles, fill };
            builder.tensor_of_tiles(name, Dtype::I32, &[3, 3], grid)?;
        }
        Ok(())
    });
    let is_grid =
        |catalog: &Catalog| catalog.tensors().iter().map(|t| matches!(t.data, Data::Grid(_))).collect();
    let plain = vec![0, 1, 2, 3, 4, 5, 7, 7, 8];
    assert_eq!(values(&grid, "a"), (vec![3, 3], plain.clone()));
    assert_eq!(grid.ties(), [TensorId(0), TensorId(0)]);
    let apart = ran(grid.clone(), &["untie", "rename:b,to=c"]);
    assert_eq!(apart.ties(), [TensorId(0), TensorId(1)]);
    assert_eq!((values(&apart, "c").1, is_grid(&apart)), (plain.clone(), vec![true, true]));
    let cast = ran(grid.clone(), &["cast:i64"]);
    assert_eq!((cast.ties(), is_grid(&cast)), (vec![TensorId(0), TensorId(0)], vec![true, true]));
    let turned = ran(grid.clone(), &["transpose,where=a", "reshape:9,where=b"]);
    assert_eq!(values(&turned, "a").1, [0, 3, 7, 1, 4, 7, 2, 5, 8]);
    assert_eq!((values(&turned, "b").1, is_grid(&turned)), (plain, vec![false, false]));
    let halves = ran(grid, &["split:^a$,axis=1,sizes=1x2,to=x,to=y"]);
    assert_eq!(values(&halves, "y").1, [1, 2, 4, 5, 7, 8]);
}

#[test]
#[ignore = "many seconds without optimization"]
fn a_hundred_thousand_tensors_go_through_ten_steps() {
    let chain = parse(&[
        "rename:^bert/,to=",
        "rename:/,to=.",
        r"split:\.qkv$,to=.q,to=.k,to=.v",
        r"concat:\.q$,with=.k,with=.v,to=.qkv",
        "transpose,rank=2",
        "reshape:*x-1,rank=2",
        "drop:*.adam",
        r"tie:\.0\.qkv$,to=.0.copy",
        "set_metadata:a,to=b",
        "select:*",
    ])
    .unwrap();
    let time = |count: u64| {
        let some = build(|builder| {
            let storage = builder.storage(Storage::inline(vec![0; 96]))?;
            let mut entries = Vec::new();
            for number in 0..count {
                let name = format!("bert/layer/{number}/{}", ["qkv", "adam"][usize::from(number % 2 == 1)]);
                let tensor = builder.tensor(&name, Dtype::F32, &[6, 4], storage, 0)?;
                let key = builder.node(Node::text(&name))?;
                entries.push((key, builder.node(Node::tensor(tensor))?));
            }
            let root = builder.node(Node::map("", &entries))?;
            builder.root(root)
        });
        let started = Instant::now();
        let (stepped, _) = apply(some, &chain).unwrap();
        assert_eq!(stepped.tensors().len() as u64, count / 2 + 1);
        started.elapsed().max(Duration::from_millis(1))
    };
    let (few, many) = (time(10_000), time(100_000));
    // With ten times as many tensors, a step should take ten times as long. If the time were
    // quadratic, it would take a hundred times as long.
    assert!(many < few * 40, "{few:?}, {many:?}");
}

/// Returns a strategy for a shape, an order of its dimensions, and a second shape with the same
/// number of elements.
fn shapes() -> impl Strategy<Value = (Vec<u64>, Vec<usize>, Vec<u64>)> {
    proptest::collection::vec(prop_oneof![Just(1_u64), Just(2), Just(3), Just(4)], 1..5).prop_flat_map(
        |shape| {
            let axes: Vec<usize> = (0..shape.len()).collect();
            // The factors of the number of elements. Grouping these factors differently and
            // multiplying each group results in the second shape.
            let factors: Vec<u64> =
                shape.iter().flat_map(|len| if *len == 4 { vec![2, 2] } else { vec![*len] }).collect();
            let cuts = proptest::collection::vec(any::<bool>(), factors.len());
            (Just(shape), Just(axes).prop_shuffle(), Just(factors).prop_shuffle(), cuts).prop_map(
                |(shape, axes, factors, cuts)| {
                    let mut new = vec![1];
                    for (factor, cut) in factors.into_iter().zip(cuts) {
                        match new.last_mut() {
                            Some(last) if !cut => *last *= factor,
                            _ => new.push(factor),
                        }
                    }
                    (shape, axes, new)
                },
            )
        },
    )
}

fn text(numbers: impl IntoIterator<Item = impl ToString>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join("x")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_view_in_other_dimensions_keeps_its_elements((shape, axes, new) in shapes()) {
        let permute = format!("permute:{}", text(&axes));
        let turned = ran(catalog(&[("w", &shape)]), &[&permute]);
        let (turned_shape, elements) = values(&turned, "w");
        let reshape = format!("reshape:{}", text(&new));
        let reshaped = ran(turned.clone(), &[&reshape]);
        prop_assert_eq!(values(&reshaped, "w"), (new, elements));
        let back = ran(reshaped, &[&format!("reshape:{}", text(&turned_shape))]);
        prop_assert_eq!(content(&back), content(&turned));
    }

    #[test]
    fn what_is_undone_is_as_it_was((shape, axes, new) in shapes(), axis in 0_usize..4, parts in 1_u64..4) {
        let axis = axis % shape.len();
        let mut whole = shape.clone();
        whole[axis] *= parts;
        let some = catalog(&[("l.0.qkv.w", &whole), ("l.1.qkv.w", &whole), ("other", &[3])]);
        let to: String = ["a", "b", "c"].iter().take(usize::try_from(parts).unwrap()).map(|part| format!(",to=.{part}.")).collect();
        let rest: String = ["b", "c"].iter().take(usize::try_from(parts - 1).unwrap()).map(|part| format!(",with=.{part}.")).collect();
        let back: Vec<usize> = (0..axes.len()).map(|old| axes.iter().position(|&axis| axis == old).unwrap()).collect();
        let turned = text(axes.iter().map(|&axis| shape[axis]));
        let chain = [
            (r"rename:^l\.(\d+)\.(.*)$,to=layer/$1/$2".to_owned(), r"rename:^layer/(\d+)/(.*)$,to=l.$1.$2".to_owned()),
            if parts == 1 {
                (r"split:\.qkv\.,to=.qkv_$i.,parts=1".to_owned(), r"concat:\.qkv_(?<i>\d+)\.,to=.qkv.,parts=1".to_owned())
            } else {
                (format!(r"split:\.qkv\.{to},axis={axis}"), format!(r"concat:\.a\.{rest},to=.qkv.,axis={axis}"))
            },
            (format!("permute:{},where=layer*", text(&axes)), format!("permute:{},where=layer*", text(&back))),
            (
                format!("reshape:{},where=layer*,from={turned}", text(&new)),
                format!("reshape:{turned},where=layer*,from={}", text(&new)),
            ),
            (r"rename:/,to=:".to_owned(), r"rename::,to=/".to_owned()),
            (
                r"unstack:^layer:0:(.*)$,to=x.$1.$i.y,axis=-1".to_owned(),
                r"stack:^x\.(.*)\.(?<i>\d+)\.y$,to=layer:0:$1,axis=-1".to_owned(),
            ),
            (r"tie:^other$,to=second".to_owned(), r"drop,where_re=^second$".to_owned()),
        ];
        for end in (1..=chain.len()).step_by(2) {
            let (steps, undo): (Vec<&str>, Vec<&str>) = chain[..end].iter().map(|(step, undo)| (&**step, &**undo)).unzip();
            let undo: Vec<&str> = undo.into_iter().rev().collect();
            let back = ran(ran(some.clone(), &steps), &undo);
            prop_assert_eq!(content(&back), content(&some), "{:?}, then {:?}", steps, undo);
        }
    }
}

#[test]
fn hostile_numbers_are_refused() {
    let some = || catalog(&[("a", &[4, 3]), ("none", &[0, 1 << 60])]);
    for spec in [
        "reshape:18446744073709551615x18446744073709551615x18446744073709551615",
        "reshape:99999999999999999999",
        "unstack:none,to=x$i,axis=1",
        "split:none,to=x$i,axis=1,parts=1152921504606846976",
        "split:^a$,to=x$i,sizes=18446744073709551615x5",
        "split:^a$,to=x$i,parts=0",
        "transpose,rank=18446744073709551616",
        "split:^a$,to=x$i,parts=2,axis=-9223372036854775808",
        "select:a,min_size=99999999999TB",
        "rename:(((((((((a{1000}){1000}){1000}){1000})))))),to=",
    ] {
        assert!(run(some(), &[spec]).is_err(), "{spec}");
    }
    let long = format!("reshape:1{}", "x1".repeat(100_000));
    assert!(refused(&long).contains("64 dimensions"));
    let deep = format!("rename:{}a{},to=", "(".repeat(10_000), ")".repeat(10_000));
    assert!(refused(&deep).contains("regular expression"));
}
