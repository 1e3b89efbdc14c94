//! Statistics of tensors, and what is wrong with a model by them.

pub use tensorferry_convert::statistics::{
    Finding, FindingKind, ModelStatistics, StatisticsRequest, TensorStatistics, model_statistics,
};
pub use tensorferry_tensors::statistics::{BINS, Histogram, Number, Numbers, Statistics};
