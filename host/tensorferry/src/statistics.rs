//! Statistics of tensors, and the problems of a model that they show.

pub use tensorferry_convert::statistics::{
    Finding, FindingKind, ModelStatistics, StatisticsRequest, TensorStatistics, model_statistics,
};
pub use tensorferry_tensors::statistics::{BINS, Histogram, Number, Numbers, Statistics};
