//! Options: what a user may tell the reader and the writer.

use tensorferry_hub::SHARD_IS_ALONE;
use tensorferry_sdk::Side::{Reader, Writer};
use tensorferry_sdk::{Dtype, Error, OptionSpec, Options, Order, Result, TypedOption};

const STRUCTURED: TypedOption<bool> = TypedOption::choice(
    Reader,
    "structured",
    &[("refuse", false), ("fields", true)],
    "arrays of named fields: refuse them, or read each field as a tensor (array.field)",
);
const VOID: TypedOption<bool> = TypedOption::choice(
    Reader,
    "void",
    &[("refuse", false), ("bytes", true)],
    "elements of n bytes of which numpy says nothing (V<n>): refuse them, or read U8 with n for a last dimension",
);
const V1: TypedOption<Option<Dtype>> = TypedOption::choice(
    Reader,
    "v1",
    &[
        ("f8_e4m3", Some(Dtype::F8_E4M3)),
        ("f8_e5m2", Some(Dtype::F8_E5M2)),
        ("f8_e4m3fnuz", Some(Dtype::F8_E4M3FNUZ)),
        ("f8_e5m2fnuz", Some(Dtype::F8_E5M2FNUZ)),
        ("f8_e4m3b11fnuz", Some(Dtype::F8_E4M3B11FNUZ)),
        ("f8_e8m0", Some(Dtype::F8_E8M0)),
        ("f4", Some(Dtype::F4_UNPACKED)),
        ("i4", Some(Dtype::I4_UNPACKED)),
        ("u4", Some(Dtype::U4_UNPACKED)),
        ("i2", Some(Dtype::I2_UNPACKED)),
        ("u2", Some(Dtype::U2_UNPACKED)),
    ],
    "what elements of one unnamed byte (V1) are: numpy.save writes ml_dtypes' floats of 8 bits so, and its numbers of \
     4 and 2 bits, a byte each",
)
.without_default();
const V2: TypedOption<Option<Dtype>> = TypedOption::choice(
    Reader,
    "v2",
    &[("bf16", Some(Dtype::BF16)), ("f16", Some(Dtype::F16))],
    "what elements of two unnamed bytes (V2) are: numpy.save writes ml_dtypes' bfloat16 so",
)
.without_default();

const ORDER: TypedOption<Order> = TypedOption::choice(
    Writer,
    "order",
    &[("c", Order::C), ("fortran", Order::Fortran)],
    "which index runs fastest: c the last, fortran the first",
);
const COMPRESS: TypedOption<bool> = TypedOption::choice(
    Writer,
    "compress",
    &[("stored", false), ("deflate", true)],
    "arrays of a .npz: stored as numpy.savez has them, or deflated as by numpy.savez_compressed",
);
const ML_DTYPES: TypedOption<MlDtypes> = TypedOption::choice(
    Writer,
    "ml_dtypes",
    &[("omit", MlDtypes::Omit), ("void", MlDtypes::Void), ("name", MlDtypes::Name)],
    "BF16 and F8, which numpy has with the package ml_dtypes alone: omit them; void writes V2 and V1 as numpy.save \
     does, which does not say what they are, so that --verify cannot; name writes ml_dtypes' name, which numpy.load \
     takes once ml_dtypes is imported",
);

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![
        SHARD_IS_ALONE.spec(),
        STRUCTURED.spec(),
        VOID.spec(),
        V1.spec(),
        V2.spec(),
        ORDER.spec(),
        COMPRESS.spec(),
        ML_DTYPES.spec(),
    ]
}

/// What the reader was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    /// Whether a file that holds a part of a model is read by itself.
    pub(crate) shard_is_alone: bool,
    /// Whether each field of a structured array is a tensor.
    pub(crate) fields: bool,
    /// Whether elements without a dtype are bytes.
    pub(crate) bytes: bool,
    /// What elements of one such byte are.
    pub(crate) v1: Option<Dtype>,
    /// What elements of two such bytes are.
    pub(crate) v2: Option<Dtype>,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            shard_is_alone: SHARD_IS_ALONE.get(options)?,
            fields: STRUCTURED.get(options)?,
            bytes: VOID.get(options)?,
            v1: V1.get(options)?,
            v2: V2.get(options)?,
        })
    }
}

/// What becomes of dtypes that numpy has with ml_dtypes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MlDtypes {
    Omit,
    Void,
    Name,
}

/// What the writer was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    pub(crate) order: Order,
    pub(crate) deflates: bool,
    pub(crate) ml_dtypes: MlDtypes,
}

impl WriteOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (order, deflates) = (ORDER.get(options)?, COMPRESS.get(options)?);
        if deflates && order == Order::Fortran {
            return Err(Error::usage(
                "what is deflated is read in order: -o order=fortran is for stored arrays",
            ));
        }
        Ok(Self { order, deflates, ml_dtypes: ML_DTYPES.get(options)? })
    }
}
