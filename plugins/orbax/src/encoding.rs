//! How an array is stored, as zarr 2 and zarr 3 both come to say it.

use crate::codec::Chain;
use crate::json::Json;
use tensorferry_sdk::{ByteOrder, Dtype, Order};

/// How an array is stored.
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

/// How a chunk's key is made of its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) separator: char,
    pub(crate) has_c: bool,
}

/// The shapes of chunks: those with keys, and those in them where they are shards.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    pub(crate) tiles: Vec<Vec<u64>>,
    /// For each layer of shards, whether its index is at its start.
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
