//! Encoders for quantized blocks. Their output is bit-identical to that of the quantizers in
//! gguf-py (`gguf/quants.py`) and of the reference functions in ggml (`ggml-quants.c`).
//!
//! All arithmetic is in f32. The scale is stored as f16, but its inverse is computed from the f32
//! scale. In a block of nibbles, elements 0 to 15 are in the low halves of the bytes, and elements
//! 16 to 31 are in the high halves.

use half::f16 as Half;

/// Copies values unchanged.
pub(crate) fn f32(numbers: &[f32], output: &mut Vec<u8>) {
    numbers.iter().for_each(|x| output.extend(x.to_le_bytes()));
}

/// Rounds values to f16.
pub(crate) fn f16(numbers: &[f32], output: &mut Vec<u8>) {
    numbers.iter().for_each(|x| write_half(*x, output));
}

/// Block: d f16, 32 i8. x = d q.
pub(crate) fn q8_0(numbers: &[f32], output: &mut Vec<u8>) {
    for block in numbers.as_chunks::<32>().0 {
        let d = largest(block) / 127.0;
        let inverse = inverse(d);
        write_half(d, output);
        output.extend(block.iter().map(|x| byte((x * inverse).round())));
    }
}

/// Block: d f16, 32 nibbles. x = d (q - 8).
pub(crate) fn q4_0(numbers: &[f32], output: &mut Vec<u8>) {
    for block in numbers.as_chunks::<32>().0 {
        let (d, codes) = quantize_symmetric(block, 8);
        write_half(d, output);
        write_nibbles(&codes, output);
    }
}

/// Block: d f16, fifth bits u32, 32 nibbles. x = d (q - 16).
pub(crate) fn q5_0(numbers: &[f32], output: &mut Vec<u8>) {
    for block in numbers.as_chunks::<32>().0 {
        let (d, codes) = quantize_symmetric(block, 16);
        write_half(d, output);
        write_fifth_bits(&codes, output);
        write_nibbles(&codes, output);
    }
}

/// Block: d f16, m f16, 32 nibbles. x = d q + m.
pub(crate) fn q4_1(numbers: &[f32], output: &mut Vec<u8>) {
    for block in numbers.as_chunks::<32>().0 {
        let (d, m, codes) = quantize_from_min(block, 15);
        write_half(d, output);
        write_half(m, output);
        write_nibbles(&codes, output);
    }
}

/// Block: d f16, m f16, fifth bits u32, 32 nibbles. x = d q + m.
pub(crate) fn q5_1(numbers: &[f32], output: &mut Vec<u8>) {
    for block in numbers.as_chunks::<32>().0 {
        let (d, m, codes) = quantize_from_min(block, 31);
        write_half(d, output);
        write_half(m, output);
        write_fifth_bits(&codes, output);
        write_nibbles(&codes, output);
    }
}

/// Block: 256 trits, five per byte (four in the last four bytes), d f16. x = d (t - 1). A byte is
/// `ceil(256 v / 243)`, where v is the number whose base-3 digits are the trits, most significant
/// first.
pub(crate) fn tq1_0(numbers: &[f32], output: &mut Vec<u8>) {
    for block in numbers.as_chunks::<256>().0 {
        let (d, trits) = trits(block);
        for (start, trits_of_byte, width) in [(0, 5, 32), (160, 5, 16), (240, 4, 4)] {
            for at in start..start + width {
                let of_byte = (0..5).map(|n| if n < trits_of_byte { trits[at + n * width] } else { 0 });
                let number = of_byte.fold(0_u16, |number, trit| number * 3 + u16::from(trit));
                output.push((number * 256).div_ceil(243).to_le_bytes()[0]);
            }
        }
        write_half(d, output);
    }
}

/// Block: 256 bit pairs, d f16. x = d (t - 1). Each byte contains the pairs of four elements whose
/// indices are 32 apart.
pub(crate) fn tq2_0(numbers: &[f32], output: &mut Vec<u8>) {
    for block in numbers.as_chunks::<256>().0 {
        let (d, trits) = trits(block);
        for half in trits.as_chunks::<128>().0 {
            output.extend((0..32).map(|at| (0..4).fold(0, |byte, n| byte | half[at + 32 * n] << (2 * n))));
        }
        write_half(d, output);
    }
}

/// Block: e u8, 32 nibbles. x = 2^(e - 127) E\[q\], where E is the table of OCP's E2M1 values.
pub(crate) fn mxfp4(numbers: &[f32], output: &mut Vec<u8>) {
    // E2M1 values multiplied by 2. The scale is halved to compensate.
    const DOUBLED: [f32; 16] =
        [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];
    for block in numbers.as_chunks::<32>().0 {
        let largest = largest(block);
        // A rounded F64 gives the same bits on every system.
        #[expect(clippy::cast_possible_truncation, reason = "the logarithm is F32")]
        let logarithm = libm::log2(f64::from(largest)) as f32;
        let exponent = if largest > 0.0 { byte(logarithm.floor() - 2.0 + 127.0) } else { 0 };
        let half_scale = f32::from_bits(match u32::from(exponent) {
            // These powers of two are subnormal.
            small @ 0..2 => 0x0020_0000 << small,
            exponent => (exponent - 1) << 23,
        });
        let codes = block.map(|x| {
            let errors = DOUBLED.map(|value| (half_scale * value - x).abs());
            let (code, _) = (1_u8..).zip(&errors[1..]).fold((0, errors[0]), |best, (code, &error)| {
                if error < best.1 { (code, error) } else { best }
            });
            code
        });
        output.push(exponent);
        write_nibbles(&codes, output);
    }
}

/// Returns the scale and the codes. The code `middle` represents zero. The scale is chosen so that
/// the value farthest from zero gets code 0. If several values are equally far from zero, the first
/// one is used.
fn quantize_symmetric(block: &[f32; 32], middle: u8) -> (f32, [u8; 32]) {
    let farthest = block.iter().fold(block[0], |max, &x| if x.abs() > max.abs() { x } else { max });
    let d = farthest / -f32::from(middle);
    let inverse = inverse(d);
    let code = |x: f32| (x * inverse + (f32::from(middle) + 0.5)).trunc();
    (d, block.map(|x| byte(code(x)).min(2 * middle - 1)))
}

/// Returns the scale, the minimum and the codes. A code is the number of scale steps above the
/// minimum, at most `max`.
fn quantize_from_min(block: &[f32; 32], max: u8) -> (f32, f32, [u8; 32]) {
    let min = block.iter().fold(f32::MAX, |min, &x| if x < min { x } else { min });
    let greatest = block.iter().fold(f32::MIN, |greatest, &x| if x > greatest { x } else { greatest });
    let d = (greatest - min) / f32::from(max);
    let inverse = inverse(d);
    (d, min, block.map(|x| byte(((x - min) * inverse + 0.5).trunc()).min(max)))
}

/// Returns the largest magnitude d, and a code for each value: 0, 1 or 2 for -d, 0 and d.
fn trits(block: &[f32; 256]) -> (f32, [u8; 256]) {
    let d = largest(block);
    let inverse = inverse(d);
    (d, block.map(|x| byte((x * inverse).round()).wrapping_add(1)))
}

fn largest(block: &[f32]) -> f32 {
    block.iter().fold(0.0, |max, x| x.abs().max(max))
}

fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// Returns the lowest byte of an integral number. A number that does not fit in an i32 becomes
/// zero, as in the reference implementation on x86. Such numbers occur if the inverse of a tiny
/// scale overflows.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the number fits in an i32, and only its lowest byte is needed"
)]
fn byte(number: f32) -> u8 {
    let fits = number.abs() < 2_147_483_648.0;
    if fits { (number as i32).to_le_bytes()[0] } else { 0 }
}

fn write_half(x: f32, output: &mut Vec<u8>) {
    output.extend(Half::from_f32(x).to_le_bytes());
}

fn write_nibbles(codes: &[u8; 32], output: &mut Vec<u8>) {
    let (low, high) = codes.split_at(16);
    output.extend(low.iter().zip(high).map(|(low, high)| low & 15 | high << 4));
}

fn write_fifth_bits(codes: &[u8; 32], output: &mut Vec<u8>) {
    let bits = (0..).zip(codes).fold(0_u32, |bits, (at, code)| bits | u32::from(code >> 4 & 1) << at);
    output.extend(bits.to_le_bytes());
}
