#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use half::{bf16, f16};

/// Casts values. Returns the bits of the results as integers, and how many values changed in each
/// way.
fn cast(from: Dtype, to: Dtype, bytes: &[u8]) -> (Vec<u64>, CastLosses) {
    let conversion = Cast::between(from, to).unwrap();
    let width = |dtype: Dtype| dtype.info().unwrap().element_bytes().unwrap() as usize;
    let mut out = vec![0; bytes.len() / width(from) * width(to)];
    let lost = conversion.run(bytes, &mut out);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    (out.chunks(width(to)).map(number).collect(), lost)
}

fn of_f32(values: &[f32], to: Dtype) -> (Vec<u64>, CastLosses) {
    cast(Dtype::F32, to, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn of_f64(values: &[f64], to: Dtype) -> (Vec<u64>, CastLosses) {
    cast(Dtype::F64, to, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
}

fn all_codes(dtype: Dtype) -> Vec<u8> {
    if dtype.info().unwrap().element_bytes() == Some(1) {
        (0..=u8::MAX).collect()
    } else {
        (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()
    }
}

const FLOATS: [Dtype; 10] = [
    Dtype::F64,
    Dtype::F32,
    Dtype::F16,
    Dtype::BF16,
    Dtype::F8_E4M3,
    Dtype::F8_E5M2,
    Dtype::F8_E4M3FNUZ,
    Dtype::F8_E5M2FNUZ,
    Dtype::F8_E4M3B11FNUZ,
    Dtype::F8_E8M0,
];

#[test]
fn halves_are_the_libraries() {
    let mut bits = 1_u32;
    let mut values = Vec::new();
    for _ in 0..1 << 16 {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        values.push(f32::from_bits(bits));
    }
    let (halves, _) = of_f32(&values, Dtype::F16);
    let (brains, _) = of_f32(&values, Dtype::BF16);
    for ((value, half), brain) in values.iter().zip(halves).zip(brains) {
        // `f16::from_f32_const` rounds in software, and slice conversions use processor
        // instructions. Both methods keep NaN payloads.
        assert_eq!(u64::from(f16::from_f32_const(*value).to_bits()), half, "{value:e}");
        assert_eq!(u64::from(bf16::from_f32(*value).to_bits()), brain, "{value:e}");
    }
}

#[test]
fn each_loss_is_counted_as_what_it_is() {
    let tiny = f32::from_bits(1);
    let values = [0.0, -0.0, 1.0, f32::INFINITY, f32::NAN, 1.0 + f32::EPSILON, f32::MAX, -tiny];
    let (bits, lost) = of_f32(&values, Dtype::BF16);
    assert_eq!(bits, [0, 0x8000, 0x3f80, 0x7f80, 0x7fc0, 0x3f80, 0x7f80, 0x8000]);
    assert_eq!(lost, CastLosses { infinite: 1, zero: 1, rounded: 1, ..CastLosses::default() });
    let (bits, lost) = of_f32(&[1e9, -1e9, f32::NEG_INFINITY, f32::NAN, 448.0, 465.0, 2e-10], Dtype::F8_E4M3);
    assert_eq!(bits, [0x7e, 0xfe, 0xfe, 0x7f, 0x7e, 0x7e, 0]);
    assert_eq!(lost, CastLosses { range: 4, zero: 1, ..CastLosses::default() });
    let (bits, lost) = of_f32(&[1e9, f32::INFINITY, -0.0, 240.0, 247.0, 248.0], Dtype::F8_E4M3FNUZ);
    assert_eq!(bits, [0x80, 0x80, 0, 0x7f, 0x7f, 0x80]);
    assert_eq!(lost, CastLosses { nan: 3, rounded: 1, ..CastLosses::default() });
    let (bits, lost) = of_f32(&[57344.0, 61440.0, 1e9, f32::INFINITY], Dtype::F8_E5M2);
    assert_eq!(bits, [0x7b, 0x7c, 0x7c, 0x7c]);
    assert_eq!(lost, CastLosses { infinite: 2, ..CastLosses::default() });
    let (bits, lost) = of_f32(&[0.0, -2.0, 1.4, 1.5, f32::MAX, f32::INFINITY, tiny], Dtype::F8_E8M0);
    assert_eq!(bits, [0, 128, 127, 128, 255, 255, 0]);
    assert_eq!(lost, CastLosses { nan: 2, range: 1, rounded: 4, ..CastLosses::default() });
    let (bits, lost) = of_f32(&[1.9, -1.9, 127.0, 128.0, -129.0, f32::NAN, 0.0], Dtype::I8);
    assert_eq!(bits, [1, 0xff, 127, 127, 0x80, 0, 0]);
    assert_eq!(lost, CastLosses { range: 3, rounded: 2, ..CastLosses::default() });
    assert_eq!(lost.describe(), "3 were out of range, 2 were rounded");
    let (bits, lost) = of_f32(&[1.9, 0.0, 1.0, -0.0], Dtype::BOOL);
    assert_eq!((bits, lost.values()), (vec![1, 0, 1, 0], 1));
}

#[test]
fn nothing_is_rounded_twice() {
    // Just above the midpoint of two bf16 values. A cast through f32 would round this value to the
    // midpoint, and then down to even.
    let above = 1.0 + 2_f64.powi(-8) + 2_f64.powi(-40);
    assert_eq!(of_f64(&[above, -above], Dtype::BF16).0, [0x3f81, 0xbf81]);
    assert_eq!(of_f64(&[1.0 + 2_f64.powi(-11) + 2_f64.powi(-40)], Dtype::F16).0, [0x3c01]);
    let subnormal = 2_f64.powi(-25) + 2_f64.powi(-60);
    assert_eq!(of_f64(&[subnormal, 2_f64.powi(-25)], Dtype::F16).0, [1, 0]);
    assert_eq!(of_f64(&[2_f64.powi(-149) * 0.5, 2_f64.powi(-149) * 0.75], Dtype::F32).0, [0, 1]);
    // 2^60 + 2^52 is the midpoint between two bf16 values, and 2^60 + 2^36 is the midpoint between
    // two f32 values.
    for (value, to, bits) in [
        ((1_i64 << 60) + (1 << 52) + 1, Dtype::BF16, 0x5d81),
        ((1 << 60) + (1 << 52), Dtype::BF16, 0x5d80),
        (-((1 << 60) + (1 << 52) + 1), Dtype::BF16, 0xdd81),
        ((1 << 60) + (1 << 36) + 1, Dtype::F32, 0x5d80_0001),
        ((1 << 60) + (1 << 36), Dtype::F32, 0x5d80_0000),
        (i64::MAX, Dtype::F64, 0x43e0_0000_0000_0000),
        (i64::MIN, Dtype::F32, 0xdf00_0000),
    ] {
        let (found, lost) = cast(Dtype::I64, to, &value.to_le_bytes());
        assert_eq!((found, lost.rounded), (vec![bits], u64::from(value != i64::MIN)), "{value}");
    }
}

#[test]
fn integers_keep_their_low_bits() {
    let values = [300_i64, -1, i64::MIN, 127].map(i64::to_le_bytes).concat();
    assert_eq!(
        cast(Dtype::I64, Dtype::U8, &values),
        (vec![44, 255, 0, 127], CastLosses { range: 3, ..CastLosses::default() })
    );
    assert_eq!(cast(Dtype::I64, Dtype::BOOL, &values).0, [1; 4]);
    assert_eq!(cast(Dtype::BOOL, Dtype::F16, &[0, 1]), (vec![0, 0x3c00], CastLosses::default()));
    let wide = u64::MAX.to_le_bytes();
    assert_eq!(cast(Dtype::U64, Dtype::I64, &wide).1.range, 1);
    assert_eq!(cast(Dtype::U64, Dtype::F16, &wide).1.infinite, 1);
}

/// Checks that a cast is reported as exact if and only if it preserves all values of the source
/// dtype.
#[test]
fn casts_that_lose_nothing_are_known() {
    let mut compared = 0;
    for from in dtypes().filter(|from| from.info().unwrap().element_bytes() <= Some(2)) {
        for to in dtypes().filter(|&to| to != from) {
            let conversion = Cast::direct(from, to).unwrap();
            let is_exact = conversion.is_exact();
            let counting = Cast { exact: false, ..conversion };
            let codes = if from == Dtype::BOOL { vec![0, 1] } else { all_codes(from) };
            let mut out = vec![0; codes.len() / counting.from_width * counting.to_width];
            let lost = counting.run(&codes, &mut out);
            let names = [from, to].map(|dtype| dtype.info().unwrap().name());
            assert_eq!(lost.values() == 0, is_exact, "{names:?}: {lost:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, 13 * 18);
}

/// Checks that every small float survives a round trip through every larger float dtype, and that
/// its conversion to `f64` has the same value.
#[test]
fn small_floats_come_back() {
    let mut pairs = 0;
    for from in FLOATS.iter().filter(|from| from.info().unwrap().element_bytes() <= Some(2)) {
        for to in FLOATS.iter().filter(|to| *to != from) {
            if !Cast::between(*from, *to).unwrap().is_exact() {
                continue;
            }
            let codes = all_codes(*from);
            let (there, lost) = cast(*from, *to, &codes);
            assert_eq!(lost, CastLosses::default());
            let width = to.info().unwrap().element_bytes().unwrap() as usize;
            let bytes: Vec<u8> = there.iter().flat_map(|bits| bits.to_le_bytes()[..width].to_vec()).collect();
            let (back, lost) = cast(*to, *from, &bytes);
            assert_eq!(lost, CastLosses::default());
            let values = |codes: &[u8]| -> Vec<f64> {
                let (bits, _) = cast(*from, Dtype::F64, codes);
                bits.into_iter().map(f64::from_bits).collect()
            };
            let width = from.info().unwrap().element_bytes().unwrap() as usize;
            let back: Vec<u8> = back.iter().flat_map(|bits| bits.to_le_bytes()[..width].to_vec()).collect();
            for (value, back) in values(&codes).iter().zip(values(&back)) {
                assert!(
                    value.to_bits() == back.to_bits() || (value.is_nan() && back.is_nan()),
                    "{value} {back}"
                );
            }
            pairs += 1;
        }
    }
    assert!(pairs >= 25, "{pairs}");
}

#[test]
fn numbers_of_eight_bits_are_what_their_dtypes_say() {
    let value = |dtype, code: u8| f64::from_bits(cast(dtype, Dtype::F64, &[code]).0[0]);
    for (dtype, largest, code, min) in [
        (Dtype::F8_E4M3, 448.0, 0x7e, -9),
        (Dtype::F8_E5M2, 57344.0, 0x7b, -16),
        (Dtype::F8_E4M3FNUZ, 240.0, 0x7f, -10),
        (Dtype::F8_E5M2FNUZ, 57344.0, 0x7f, -17),
        (Dtype::F8_E4M3B11FNUZ, 30.0, 0x7f, -13),
    ] {
        assert_eq!(value(dtype, code), largest);
        assert_eq!(value(dtype, code | 0x80), -largest);
        assert_eq!(value(dtype, 1), 2_f64.powi(min));
        assert_eq!(value(dtype, 0).to_bits(), 0);
    }
    assert_eq!(
        (value(Dtype::F8_E5M2, 0x7c), value(Dtype::F8_E5M2, 0xfc)),
        (f64::INFINITY, f64::NEG_INFINITY)
    );
    assert_eq!((value(Dtype::F8_E8M0, 0), value(Dtype::F8_E8M0, 254)), (2_f64.powi(-127), 2_f64.powi(127)));
    assert!(value(Dtype::F8_E8M0, 255).is_nan() && value(Dtype::F8_E4M3FNUZ, 0x80).is_nan());
}

#[test]
fn what_has_no_numbers_is_not_cast() {
    for dtype in [Dtype::STR, Dtype::C64, Dtype::F4, Dtype::QI8, Dtype::BITS8] {
        assert!(Cast::between(dtype, Dtype::F32).is_err() && Cast::between(Dtype::F32, dtype).is_err());
        assert!(!is_castable(dtype));
    }
    assert_eq!(dtype_called("bf16"), Some(Dtype::BF16));
    assert_eq!(dtype_called("float8_e4m3fn"), Some(Dtype::F8_E4M3));
    assert_eq!(dtype_called("f4"), None);
}
