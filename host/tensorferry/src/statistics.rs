//! Statistics of tensors, and the problems of a model that these statistics show.

pub use tensorferry_convert::statistics::{
    Finding, FindingKind, ModelStatistics, StatisticsRequest, TensorStatistics, model_statistics,
};
pub use tensorferry_tensors::statistics::{BINS, Histogram, Number, Numbers, Statistics};
