#![expect(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "tests")]

use super::bins::Bins;
use super::histogram::BINS;
use super::kind::{ElementLoop, StatisticsKind};
use super::partial::{Number, Numbers, PartialStatistics};
use super::texts::{LengthCollector, Texts};
use proptest::prelude::*;
use tensorferry_sdk::Dtype;

fn kind(dtype: Dtype) -> ElementLoop {
    StatisticsKind::of(dtype, dtype.info().unwrap()).unwrap().0
}

/// Computes the statistics of `bytes`, which are processed in pieces.
fn found(dtype: Dtype, bytes: &[u8], stretch: usize) -> Numbers {
    let mut all = PartialStatistics::default();
    for stretch in bytes.chunks(stretch) {
        let mut part = PartialStatistics::default();
        kind(dtype).add(stretch, &mut part);
        all.merge(&part);
    }
    all.finish()
}

/// Computes the same statistics number by number, in F64, for comparison.
fn naive(values: &[f64], least_normal: f64, largest: f64) -> Numbers {
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let is_any = !finite.is_empty();
    let count = |test: &dyn Fn(f64) -> bool| values.iter().filter(|value| test(**value)).count() as u64;
    let of_finite = |test: &dyn Fn(f64) -> bool| finite.iter().filter(|value| test(**value)).count() as u64;
    let mean = finite.iter().sum::<f64>() / finite.len() as f64;
    let variance = finite.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / finite.len() as f64;
    Numbers {
        count: values.len() as u64,
        finite: finite.len() as u64,
        min: is_any.then(|| Number::Float(finite.iter().copied().fold(f64::INFINITY, f64::min))),
        max: is_any.then(|| Number::Float(finite.iter().copied().fold(f64::NEG_INFINITY, f64::max))),
        mean: is_any.then_some(mean),
        deviation: is_any.then(|| variance.sqrt()),
        zeros: of_finite(&|value| value == 0.0),
        nan: count(&f64::is_nan),
        positive_infinities: count(&|value| value == f64::INFINITY),
        negative_infinities: count(&|value| value == f64::NEG_INFINITY),
        subnormals: of_finite(&|value| value != 0.0 && value.abs() < least_normal),
        saturated: of_finite(&|value| value.abs() >= largest),
        zero_rows: None,
        histogram: None,
    }
}

/// Checks that the counts and ranges are equal, and that the means and deviations are close.
fn assert_same(found: &Numbers, expected: &Numbers, what: &str) {
    let near = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => {
            let scale = expected.deviation.unwrap_or(0.0).max(b.abs());
            a == b || (a - b).abs() <= 1e-9 * scale
        }
        (a, b) => a == b,
    };
    assert!(near(found.mean, expected.mean), "{what}: {:?} {:?}", found.mean, expected.mean);
    assert!(
        near(found.deviation, expected.deviation),
        "{what}: {:?} {:?}",
        found.deviation,
        expected.deviation
    );
    let number = |number: Option<Number>| number.map(Number::as_f64);
    assert_eq!(
        (number(found.min), number(found.max)),
        (number(expected.min), number(expected.max)),
        "{what}"
    );
    let rest = |numbers: &Numbers| {
        let (mean, deviation, min, max) = (None, None, None, None);
        Numbers { mean, deviation, min, max, ..numbers.clone() }
    };
    assert_eq!(rest(found), rest(expected), "{what}");
}

/// Returns the bits of `count` pseudorandom floats.
fn codes(count: usize, bits: u32) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 20 ^ state >> 41) & (u64::MAX >> (64 - bits))
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn floats_are_as_one_by_one() {
    for count in [0, 1, 2, 15, 16, 17, 1023, 1024, 1025, 5000] {
        for (dtype, width, least, largest) in [
            (Dtype::F16, 2, 2_f64.powi(-14), 65504.0),
            (Dtype::BF16, 2, f64::from(f32::MIN_POSITIVE), f64::from(half::bf16::MAX)),
            (Dtype::F32, 4, f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
            (Dtype::F64, 8, f64::MIN_POSITIVE, f64::MAX),
        ] {
            let mut codes = codes(count, width * 8);
            if dtype == Dtype::F64 {
                // The exponents are limited to the widest range whose squares F64 can represent.
                codes
                    .iter_mut()
                    .for_each(|code| *code = f64::from(f32::from_bits((*code >> 32) as u32)).to_bits());
            }
            let bytes: Vec<u8> =
                codes.iter().flat_map(|code| code.to_le_bytes()[..width as usize].to_vec()).collect();
            let values: Vec<f64> = codes
                .iter()
                .map(|&code| match dtype {
                    Dtype::F16 => half::f16::from_bits(code as u16).into(),
                    Dtype::BF16 => half::bf16::from_bits(code as u16).into(),
                    Dtype::F32 => f32::from_bits(code as u32).into(),
                    _ => f64::from_bits(code),
                })
                .collect();
            let what = format!("{count} of {dtype:?}");
            assert_same(&found(dtype, &bytes, 1 << 20), &naive(&values, least, largest), &what);
            assert_same(&found(dtype, &bytes, 24), &naive(&values, least, largest), &what);
        }
    }
}

#[test]
fn what_is_special_in_floats_is_counted() {
    let values = [
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        f32::from_bits(1),
        -f32::MIN_POSITIVE / 2.0,
        f32::MIN_POSITIVE,
        f32::MAX,
        f32::MIN,
        3.0,
    ];
    // The test first uses only these special numbers, and then the same numbers within a block of
    // ordinary numbers.
    for others in [0, 1011, 4096] {
        let bytes: Vec<u8> = values
            .iter()
            .copied()
            .chain(std::iter::repeat_n(0.5, others))
            .flat_map(f32::to_le_bytes)
            .collect();
        let numbers = found(Dtype::F32, &bytes, 1 << 20);
        assert_eq!(numbers.count, (values.len() + others) as u64);
        assert_eq!(numbers.finite, (8 + others) as u64);
        assert_eq!((numbers.nan, numbers.positive_infinities, numbers.negative_infinities), (2, 1, 2));
        assert_eq!((numbers.zeros, numbers.subnormals, numbers.saturated), (2, 2, 2));
        assert_eq!(numbers.max.unwrap().as_f64(), f64::from(f32::MAX));
    }
    let none = found(Dtype::F16, &[0x00, 0x7c, 0x01, 0x7c], 1 << 20);
    assert_eq!((none.finite, none.min, none.mean, none.deviation), (0, None, None, None));
}

#[test]
fn a_large_mean_costs_no_digits() {
    // The numbers are near 1e6, 1e15 and -1e12, and differ by small steps.
    for (mean, step) in [(1e6_f64, 1e-3_f64), (1e15, 1.0), (-1e12, 0.5)] {
        let value = |index: usize| mean + step * (if index.is_multiple_of(2) { 1.0 } else { -1.0 });
        let bytes: Vec<u8> = (0..200_000).flat_map(|index| value(index).to_le_bytes()).collect();
        let numbers = found(Dtype::F64, &bytes, 8 * 5000);
        assert!((numbers.deviation.unwrap() / step - 1.0).abs() < 1e-6, "{numbers:?}");
        assert!((numbers.mean.unwrap() / mean - 1.0).abs() < 1e-12, "{numbers:?}");
    }
    let large = i64::MAX - 5000;
    let bytes: Vec<u8> = (0..4096_i64).flat_map(|index| (large + index % 2).to_le_bytes()).collect();
    let numbers = found(Dtype::I64, &bytes, 512);
    assert!((numbers.deviation.unwrap() - 0.5).abs() < 1e-9, "{numbers:?}");
    // A single distant number does not reduce the precision for the other numbers of its block.
    let values = (0..1024).map(|index| if index == 0 { 1e30 } else { f64::from(index % 7) });
    let bytes: Vec<u8> = values.clone().flat_map(f64::to_le_bytes).collect();
    assert_same(
        &found(Dtype::F64, &bytes, 1 << 20),
        &naive(&values.collect::<Vec<_>>(), 0.0, f64::MAX),
        "far",
    );
}

#[test]
fn numbers_whose_squares_are_beyond_f64_have_a_mean() {
    let bytes: Vec<u8> = [1e308, -1e308, 1e308, 1e308].into_iter().flat_map(f64::to_le_bytes).collect();
    let numbers = found(Dtype::F64, &bytes, 8);
    assert_eq!((numbers.mean, numbers.deviation), (Some(5e307), Some(f64::INFINITY)));
    let numbers = found(Dtype::F64, &bytes, 1 << 20);
    assert_eq!((numbers.mean, numbers.deviation), (Some(5e307), Some(f64::INFINITY)));
}

#[test]
fn integers_are_exact_to_their_ends() {
    macro_rules! check {
        ($($dtype:ident $integer:ty),*) => { $(
            for count in [1, 3, 17, 1024, 3000] {
                let values: Vec<$integer> = codes(count, 64).into_iter().map(|code| code as $integer)
                    .chain([<$integer>::MIN, <$integer>::MAX, 0]).collect();
                let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                let numbers = found(Dtype::$dtype, &bytes, 48);
                assert_eq!(numbers.min, Some(Number::Integer(<$integer>::MIN.into())));
                assert_eq!(numbers.max, Some(Number::Integer(<$integer>::MAX.into())));
                let as_floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
                assert_same(&numbers, &naive(&as_floats, 0.0, f64::INFINITY), stringify!($dtype));
            }
        )* };
    }
    check!(I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, U8 u8, I8 i8);
}

#[test]
fn small_codes_are_what_they_stand_for() {
    // Each byte contains two numbers. The first number is in the low four bits.
    let numbers = found(Dtype::I4, &[0x8f, 0x70], 1);
    assert_eq!((numbers.min, numbers.max), (Some(Number::Integer(-8)), Some(Number::Integer(7))));
    assert_eq!((numbers.count, numbers.zeros, numbers.mean), (4, 1, Some(-0.5)));
    let numbers = found(Dtype::U2, &[0b11_10_01_00], 1);
    assert_eq!((numbers.count, numbers.mean, numbers.zeros), (4, Some(1.5), 1));
    let numbers = found(Dtype::I2, &[0b11_10_01_00], 1);
    assert_eq!((numbers.min, numbers.max), (Some(Number::Integer(-2)), Some(Number::Integer(1))));
    // The input contains the codes of 0.5, -6, 6 and 0.
    let numbers = found(Dtype::F4, &[0xf1, 0x07], 1);
    assert_eq!((numbers.min, numbers.max), (Some(Number::Float(-6.0)), Some(Number::Float(6.0))));
    assert_eq!((numbers.saturated, numbers.subnormals, numbers.zeros), (2, 1, 1));
    // The input contains the six-bit codes of 1, 0.125, 7.5 and -7.5.
    let four = 0b00_1000_u32 | 1 << 6 | 0b01_1111 << 12 | 0b11_1111 << 18;
    let numbers = found(Dtype::F6_E2M3, &four.to_le_bytes()[..3], 3);
    assert_eq!((numbers.min, numbers.max), (Some(Number::Float(-7.5)), Some(Number::Float(7.5))));
    assert_eq!((numbers.saturated, numbers.subnormals), (2, 1));
    assert_eq!(numbers.mean, Some((1.0 + 0.125) / 4.0));
    let numbers = found(Dtype::F8_E4M3, &[0x7f, 0xff, 0x7e, 0x01, 0x00, 0x80], 6);
    assert_eq!((numbers.nan, numbers.saturated, numbers.subnormals, numbers.zeros), (2, 1, 1, 2));
    assert_eq!(numbers.max, Some(Number::Float(448.0)));
    let numbers = found(Dtype::F8_E5M2, &[0x7c, 0xfc, 0xfd, 0x7b], 4);
    assert_eq!((numbers.positive_infinities, numbers.negative_infinities, numbers.nan), (1, 1, 1));
    assert_eq!((numbers.saturated, numbers.max), (1, Some(Number::Float(57344.0))));
    let numbers = found(Dtype::F8_E8M0, &[0x00, 0xff, 0x7f], 3);
    assert_eq!((numbers.nan, numbers.subnormals, numbers.max), (1, 0, Some(Number::Float(1.0))));
    let numbers = found(Dtype::BOOL, &[0, 1, 1, 0], 3);
    assert_eq!((numbers.mean, numbers.max, numbers.zeros), (Some(0.5), Some(Number::Integer(1)), 2));
}

#[test]
fn every_dtype_has_numbers_or_a_reason() {
    let mut with = 0;
    for dtype in Dtype::built_in() {
        match StatisticsKind::of(dtype, dtype.info().unwrap()) {
            Ok(_) => with += 1,
            Err(why) => assert!(why.contains("codes") || why.contains("bits"), "{why}"),
        }
    }
    assert_eq!(with, 36, "all but quantized numbers and bits");
}

#[test]
fn complex_numbers_are_their_magnitudes() {
    let parts = [3.0_f32, 4.0, 0.0, -0.0, f32::NAN, 1.0, f32::INFINITY, 1.0, f32::MAX, 0.0];
    let numbers = found(Dtype::C64, &parts.map(f32::to_le_bytes).concat(), 24);
    assert_eq!((numbers.count, numbers.finite, numbers.nan, numbers.infinities()), (5, 3, 1, 1));
    assert_eq!((numbers.zeros, numbers.saturated), (1, 1));
    assert_eq!(numbers.min, Some(Number::Float(0.0)));
}

#[test]
fn strings_are_cut_anywhere() {
    let bytes = ["", "abc", "0123456789"]
        .map(|text| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat());
    let bytes = bytes.concat();
    for stretch in 1..bytes.len() + 1 {
        let mut lengths = LengthCollector::default();
        bytes.chunks(stretch).for_each(|part| lengths.add(part));
        assert!(lengths.is_whole());
        let expected = Texts { count: 3, empty: 1, shortest: 0, longest: 10, total: 13 };
        assert_eq!(lengths.found, expected);
        assert_eq!(lengths.found.mean(), Some(13.0 / 3.0));
    }
}

fn histogram(dtype: Dtype, bytes: &[u8]) -> Option<[u64; BINS]> {
    let bins = Bins::of(kind(dtype), &found(dtype, bytes, 1 << 20))?;
    let mut counts = [0; BINS];
    bins.count(kind(dtype), bytes, &mut counts);
    Some(bins.finish(counts).counts)
}

#[test]
fn bins_hold_their_lower_edge_and_the_last_one_both() {
    let bytes: Vec<u8> = (0..=64).flat_map(|value: i32| (value as f32).to_le_bytes()).collect();
    let mut expected = [1; BINS];
    expected[63] = 2;
    assert_eq!(histogram(Dtype::F32, &bytes), Some(expected));
    let bytes: Vec<u8> = (0..=64_i64).flat_map(i64::to_le_bytes).collect();
    assert_eq!(histogram(Dtype::I64, &bytes), Some(expected));
    // If all numbers are equal, the range of the histogram has length one, with the number in the
    // middle.
    let mut one = [0; BINS];
    one[32] = 3;
    assert_eq!(histogram(Dtype::F32, &[2.5_f32; 3].map(f32::to_le_bytes).concat()), Some(one));
    // If the edges are not distinct, the histogram is `None`. In this case, numpy raises an error.
    assert_eq!(histogram(Dtype::F32, &[1e20_f32; 2].map(f32::to_le_bytes).concat()), None);
    assert_eq!(histogram(Dtype::F64, &[]), Some([0; BINS]));
}

proptest! {
    #[test]
    fn stretches_change_nothing(values in prop::collection::vec(any::<f32>(), 0..600), stretch in 1_usize..80) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let numbers: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        let expected = naive(&numbers, f32::MIN_POSITIVE.into(), f32::MAX.into());
        assert_same(&found(Dtype::F32, &bytes, stretch * 4), &expected, "stretches");
    }

    #[test]
    fn every_finite_number_is_in_the_bin_of_its_edges(values in prop::collection::vec(-1e6_f64..1e6, 2..400)) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let bins = Bins::of(kind(Dtype::F64), &found(Dtype::F64, &bytes, 1 << 20));
        prop_assume!(bins.is_some());
        let bins = bins.unwrap();
        let mut counts = [0; BINS];
        bins.count(kind(Dtype::F64), &bytes, &mut counts);
        let found = bins.finish(counts);
        for bin in 0..BINS {
            let (from, to) = (found.edges[bin], found.edges[bin + 1]);
            let is_in = |value: &&f64| **value >= from && (**value < to || (bin == BINS - 1 && **value <= to));
            prop_assert_eq!(found.counts[bin], values.iter().filter(is_in).count() as u64);
        }
    }
}
