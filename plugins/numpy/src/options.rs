//! Options of the reader and the writer.

use tensorferry_hub::SHARD_OPTION;
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
    "elements without a dtype (V<n>): refuse them, or read them as U8 with a last dimension of n",
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
    "dtype of elements of one untyped byte (V1), as numpy.save writes the 8-bit floats and the 4- and 2-bit numbers of \
     ml_dtypes",
)
.without_default();
const V2: TypedOption<Option<Dtype>> = TypedOption::choice(
    Reader,
    "v2",
    &[("bf16", Some(Dtype::BF16)), ("f16", Some(Dtype::F16))],
    "dtype of elements of two untyped bytes (V2), as numpy.save writes bfloat16 of ml_dtypes",
)
.without_default();

const ORDER: TypedOption<Order> = TypedOption::choice(
    Writer,
    "order",
    &[("c", Order::C), ("fortran", Order::Fortran)],
    "order of elements: c (last index fastest) or fortran (first index fastest)",
);
const COMPRESS: TypedOption<bool> = TypedOption::choice(
    Writer,
    "compression",
    &[("none", false), ("deflate", true)],
    "compression of the arrays of a .npz, as by numpy.savez or numpy.savez_compressed",
);
const ML_DTYPES: TypedOption<MlDtypes> = TypedOption::choice(
    Writer,
    "ml_dtypes",
    &[("omit", MlDtypes::Omit), ("void", MlDtypes::Void), ("name", MlDtypes::Name)],
    "BF16 and F8, which need the package ml_dtypes: omit skips them; void writes V2 and V1 like numpy.save, without the \
     dtype, so --verify cannot check them; name writes ml_dtypes' name, which numpy.load accepts once ml_dtypes is \
     imported",
);

pub(crate) fn declared() -> Vec<OptionSpec> {
    vec![
        SHARD_OPTION.spec(),
        STRUCTURED.spec(),
        VOID.spec(),
        V1.spec(),
        V2.spec(),
        ORDER.spec(),
        COMPRESS.spec(),
        ML_DTYPES.spec(),
    ]
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadOptions {
    /// Whether to read a shard without the other shards of its set.
    pub(crate) shard_is_alone: bool,
    /// Whether to read each field of a structured array as a tensor.
    pub(crate) fields: bool,
    /// Whether to read untyped elements as bytes.
    pub(crate) bytes: bool,
    /// Dtype for untyped elements of one byte.
    pub(crate) v1: Option<Dtype>,
    /// Dtype for untyped elements of two bytes.
    pub(crate) v2: Option<Dtype>,
}

impl ReadOptions {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self {
            shard_is_alone: SHARD_OPTION.get(options)?,
            fields: STRUCTURED.get(options)?,
            bytes: VOID.get(options)?,
            v1: V1.get(options)?,
            v2: V2.get(options)?,
        })
    }
}

/// How to write dtypes that numpy supports only with the package ml_dtypes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MlDtypes {
    Omit,
    Void,
    Name,
}

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
            return Err(Error::usage("option order=fortran does not work with compression=deflate"));
        }
        Ok(Self { order, deflates, ml_dtypes: ML_DTYPES.get(options)? })
    }
}
