//! The storage form of an array, parsed from its description in zarr 2 or zarr 3.

use crate::codec::Chain;
use crate::json::Json;
use tensorferry_sdk::{ByteOrder, Dtype, Order};

#[derive(Debug, Clone)]
pub(crate) struct Encoding {
    pub(crate) shape: Vec<u64>,
    pub(crate) dtype: Dtype,
    pub(crate) byte_order: ByteOrder,
    pub(crate) order: Order,
    pub(crate) fill: Json,
    pub(crate) keys: Keys,
    pub(crate) layers: Layers,
    pub(crate) chain: Chain,
}

/// The form of chunk keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) separator: char,
    pub(crate) has_c: bool,
}

/// Chunk shapes of all layers. The first shape is the shape of the chunks with keys. Each following
/// shape is the shape of the chunks inside a shard.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    pub(crate) tiles: Vec<Vec<u64>>,
    /// For each layer of shards, whether the index is at the start of the shard.
    pub(crate) index_at_start: Vec<bool>,
}

impl Keys {
    pub(crate) fn of(self, place: &[u64]) -> String {
        let numbers: Vec<String> = place.iter().map(u64::to_string).collect();
        let numbers = numbers.join(&self.separator.to_string());
        match (self.has_c, place.is_empty()) {
            (true, true) => "c".to_owned(),
            (true, false) => format!("c{}{numbers}", self.separator),
            (false, true) => "0".to_owned(),
            (false, false) => numbers,
        }
    }
}
