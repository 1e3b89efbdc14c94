//! A cast converts numbers as they are read from a storage. The step `cast` only changes the
//! catalog ([`Catalog::cast`](tensorferry_sdk::Catalog::cast)). All code that reads the tensor,
//! including the copy, then gets numbers of the new dtype.
//!
//! - *To a float*: to the nearest number, ties to even, in one step. Numbers that are too large
//!   become infinite. In a dtype without infinity, they become the largest number (F8_E4M3) or NaN
//!   (the FNUZ dtypes, E8M0). NaN remains NaN, with its sign and as much of its payload as fits in
//!   16 bits.
//! - *To an integer*: the fraction of a float is dropped. A float that is out of range becomes the
//!   nearest end of the range, and NaN becomes zero. If an integer is out of range, its low bits
//!   are kept.
//! - *To BOOL*: zero becomes false, and every other number becomes true.
//! - *To F8_E8M0*: to the power of two that is nearest to the number's magnitude. The dtype has
//!   neither a sign nor zero.
//!
//! If torch defines the result of a cast, the result here is the same, with two exceptions. In
//! casts from F64 and wide integers to smaller floats, torch first rounds to F32, so its result may
//! differ by one unit in the last place. In casts to E8M0, torch rounds most numbers just above
//! 2^-127 up.
//!
//! The copy counts the values that casts change ([`CastLosses`]), and counts each element of the
//! output once ([`tally`](super::tally)). Casts that cannot change any value are not counted.

mod double;
mod float;
mod gather;
mod integer;
mod loops;
mod losses;
mod number;
mod read;
mod single;
mod table;

pub use losses::CastLosses;
pub use read::{CastChain, ReadObserver};

pub use loops::{Load, Store};
use number::NumberSet;
use std::sync::OnceLock;
use table::Table;
use tensorferry_sdk::{Dtype, Error, Result};

/// Number of values that are processed at a time. This many values fit in the L1 cache.
const BLOCK: usize = 1024;

pub struct Cast {
    from_width: usize,
    to_width: usize,
    exact: bool,
    kernel: Kernel,
}

#[expect(
    clippy::large_enum_variant,
    reason = "there is one per cast of a catalog, and the table is read for each element"
)]
enum Kernel {
    Table(Table),
    Single(Load<f32>, Store<f32>),
    Double(Load<f64>, Store<f64>),
    Integer(Load<i128>, Store<i128>),
}

/// Returns whether a dtype's values can be cast.
#[must_use]
pub fn is_castable(dtype: Dtype) -> bool {
    NumberSet::of(dtype).is_some()
}

/// Returns whether a dtype is a float dtype, as in torch's `is_floating_point`.
#[must_use]
pub fn is_float(dtype: Dtype) -> bool {
    matches!(NumberSet::of(dtype), Some(NumberSet::Float(_)))
}

/// Returns the castable dtype with this name. Accepts the name that `ferry inspect` shows, in upper
/// or lower case, and torch's name.
#[must_use]
pub fn dtype_called(name: &str) -> Option<Dtype> {
    let is = |dtype: &Dtype| {
        dtype.info().is_some_and(|info| info.name().eq_ignore_ascii_case(name))
            || torch_name(*dtype) == Some(name)
    };
    dtypes().find(is)
}

/// Returns torch's name for a castable dtype, if torch has this dtype.
#[must_use]
pub fn torch_name(dtype: Dtype) -> Option<&'static str> {
    Some(match dtype {
        Dtype::BOOL => "bool",
        Dtype::U8 => "uint8",
        Dtype::I8 => "int8",
        Dtype::U16 => "uint16",
        Dtype::I16 => "int16",
        Dtype::U32 => "uint32",
        Dtype::I32 => "int32",
        Dtype::U64 => "uint64",
        Dtype::I64 => "int64",
        Dtype::F64 => "float64",
        Dtype::F32 => "float32",
        Dtype::BF16 => "bfloat16",
        Dtype::F16 => "float16",
        Dtype::F8_E4M3 => "float8_e4m3fn",
        Dtype::F8_E5M2 => "float8_e5m2",
        Dtype::F8_E4M3FNUZ => "float8_e4m3fnuz",
        Dtype::F8_E5M2FNUZ => "float8_e5m2fnuz",
        Dtype::F8_E8M0 => "float8_e8m0fnu",
        _ => return None,
    })
}

/// Iterates over the dtypes that casts can convert from and to.
pub fn dtypes() -> impl Iterator<Item = Dtype> {
    number::NUMBERS.iter().map(|(dtype, _)| *dtype)
}

impl Cast {
    /// Returns the cast between two dtypes, or an error if the values of one dtype are not numbers.
    pub fn between(from: Dtype, to: Dtype) -> Result<&'static Self> {
        const COUNT: usize = number::NUMBERS.len();
        // Each cast is created on first use and boxed, because static tables for all pairs would
        // add 3.7 MB to the executable.
        static KNOWN: [OnceLock<Box<Cast>>; COUNT * COUNT] = [const { OnceLock::new() }; COUNT * COUNT];
        let place = |dtype| dtypes().position(|known| known == dtype).ok_or_else(|| no_numbers(dtype));
        let known = &KNOWN[place(from)? * COUNT + place(to)?];
        if let Some(found) = known.get() {
            return Ok(found);
        }
        let made = Self::new(from, to).ok_or_else(|| no_numbers(from))?;
        Ok(known.get_or_init(|| Box::new(made)))
    }

    fn new(from: Dtype, to: Dtype) -> Option<Self> {
        let direct = Self::direct(from, to)?;
        if direct.from_width > 1 {
            return Some(direct);
        }
        let table = Table::new(|value| {
            let mut bytes = vec![0; direct.to_width];
            let lost = direct.run(&[value], &mut bytes);
            (bytes, lost)
        });
        Some(Self { kernel: Kernel::Table(table), ..direct })
    }

    /// Returns a cast that converts each number without a lookup table.
    fn direct(from: Dtype, to: Dtype) -> Option<Self> {
        let width = |dtype: Dtype| dtype.info()?.element_bytes().map(|bytes| bytes as usize);
        let (numbers, to_numbers) = (NumberSet::of(from)?, NumberSet::of(to)?);
        let is_wide = matches!(from, Dtype::U64 | Dtype::I64);
        let kernel = if !is_float(from) && (!is_float(to) || (is_wide && to == Dtype::F64)) {
            Kernel::Integer(integer::load(from)?, integer::store(to)?)
        } else if let (Some(load), Some(store)) = (single::load(from), single::store(to)) {
            Kernel::Single(load, store)
        } else {
            Kernel::Double(double::load(from)?, double::store(to)?)
        };
        Some(Self { from_width: width(from)?, to_width: width(to)?, exact: numbers.fits(to_numbers), kernel })
    }

    /// Returns whether the cast preserves every value.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Casts contiguous little-endian values, and returns how many values changed in each way.
    pub fn run(&self, from: &[u8], to: &mut [u8]) -> CastLosses {
        debug_assert_eq!(from.len() / self.from_width, to.len() / self.to_width);
        let mut lost = CastLosses::default();
        match &self.kernel {
            Kernel::Table(table) => lost = table.cast(from, to, !self.exact),
            Kernel::Single(load, store) => self.blocks(from, to, 0_f32, *load, *store, &mut lost),
            Kernel::Double(load, store) => self.blocks(from, to, 0_f64, *load, *store, &mut lost),
            Kernel::Integer(load, store) => self.blocks(from, to, 0_i128, *load, *store, &mut lost),
        }
        if self.exact { CastLosses::default() } else { lost }
    }

    fn blocks<V: Copy>(
        &self,
        from: &[u8],
        to: &mut [u8],
        zero: V,
        load: Load<V>,
        store: Store<V>,
        lost: &mut CastLosses,
    ) {
        let mut values = [zero; BLOCK];
        let from = from.chunks(BLOCK * self.from_width);
        for (from, to) in from.zip(to.chunks_mut(BLOCK * self.to_width)) {
            let values = &mut values[..from.len() / self.from_width];
            load(from, values);
            store(values, to, lost);
        }
    }
}

/// Returns a loop that reads contiguous little-endian F32, F16 or BF16 numbers until the output is
/// full.
#[must_use]
pub(crate) fn load_singles(from: Dtype) -> Option<Load<f32>> {
    single::load(from)
}

/// Returns a loop that reads numbers of a castable dtype as F64; 64-bit integers are rounded.
#[must_use]
pub(crate) fn load_doubles(from: Dtype) -> Option<Load<f64>> {
    double::load(from)
}

/// Returns a loop that writes numbers as little-endian F32, F16 or BF16, and counts the numbers
/// that change.
#[must_use]
pub(crate) fn store_singles(to: Dtype) -> Option<Store<f32>> {
    single::store(to)
}

fn no_numbers(dtype: Dtype) -> Error {
    let name = dtype.info().map_or("an extension dtype", |info| info.name());
    let names: Vec<&str> = dtypes().filter_map(|dtype| Some(dtype.info()?.name())).collect();
    Error::unsupported(format!("{name} cannot be cast")).expected(format!("one of {}", names.join(", ")))
}

#[cfg(test)]
mod tests;
