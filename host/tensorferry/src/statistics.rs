//! Statistics of tensors, and the problems that these statistics reveal in a model.

pub use tensorferry_convert::statistics::{
    Finding, FindingKind, ModelStatistics, StatisticsRequest, TensorStatistics, model_statistics,
};
pub use tensorferry_tensors::statistics::{BINS, Histogram, Number, Numbers, Statistics};
