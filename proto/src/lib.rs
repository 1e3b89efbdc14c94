//! TensorFlow's protobuf messages for checkpoints, graphs, SavedModels and records.
//!
//! The names and field numbers come from the `.proto` files of TensorFlow 2.21. The files in
//! `proto/` have the same paths as in TensorFlow, but contain only the messages and fields that
//! ferry reads. The build compiles these files.
//!
//! Decoding drops unknown fields, because prost does not keep them. To copy a message, a program
//! must therefore copy its bytes instead of decoding and encoding it. Fields of enumeration types
//! contain plain numbers. `DataType::try_from` converts a number to a dtype, and fails if the
//! number is unknown.
//!
//! This crate does not validate values. Lengths and offsets are signed, and the product of a shape
//! may exceed 64 bits.
//!
//! The module [`wire`] reads messages without copying them. Some messages take up a whole file. A
//! program that needs only [`wire`] can disable the `messages` feature.
#![forbid(unsafe_code)]

pub mod masked_crc;
pub mod wire;

#[cfg(feature = "messages")]
mod messages {
    pub use prost::{DecodeError, Message};

    include!(concat!(env!("OUT_DIR"), "/tensorflow.rs"));

    /// The descriptors of all messages, as a serialized `google.protobuf.FileDescriptorSet`.
    /// Programs that read protobuf's text format need the descriptors, because the text format
    /// contains names instead of numbers.
    pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
}

#[cfg(feature = "messages")]
pub use messages::*;

#[cfg(all(test, feature = "messages"))]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The header that TensorFlow writes for a bundle with one little-endian data file.
    const HEADER: [u8; 6] = [0x08, 0x01, 0x1a, 0x02, 0x08, 0x01];

    #[test]
    fn the_header_has_the_bytes_that_tensorflow_writes() {
        let header = BundleHeaderProto {
            num_shards: 1,
            endianness: bundle_header_proto::Endianness::Little.into(),
            version: Some(VersionDef { producer: 1, ..VersionDef::default() }),
        };
        assert_eq!(header.encode_to_vec(), HEADER);
        assert_eq!(BundleHeaderProto::decode(&HEADER[..]).unwrap(), header);
    }

    #[test]
    fn an_entry_has_each_field_under_its_number() {
        let entry = BundleEntryProto {
            dtype: DataType::DtFloat.into(),
            shape: Some(TensorShapeProto {
                dim: vec![tensor_shape_proto::Dim { size: 2, name: String::new() }],
                unknown_rank: false,
            }),
            shard_id: 3,
            offset: 4,
            size: 8,
            crc32c: 0x0403_0201,
            slices: Vec::new(),
        };
        let bytes = [
            0x08, 1, // dtype
            0x12, 4, 0x12, 2, 0x08, 2, // shape { dim { size } }
            0x18, 3, // shard_id
            0x20, 4, // offset
            0x28, 8, // size
            0x35, 1, 2, 3, 4, // crc32c
        ];
        assert_eq!(entry.encode_to_vec(), bytes);
        assert_eq!(BundleEntryProto::decode(&bytes[..]).unwrap(), entry);
    }

    #[test]
    fn a_slice_tells_an_absent_length_from_zero() {
        let slice = TensorSliceProto::decode(&[0x0a, 0, 0x0a, 2, 0x10, 0][..]).unwrap();
        let lengths: Vec<_> = slice.extent.iter().map(|extent| extent.has_length).collect();
        assert_eq!(lengths, [None, Some(tensor_slice_proto::extent::HasLength::Length(0))]);
    }

    #[test]
    fn dtypes_have_the_published_numbers() {
        for (number, name) in [
            (1, "DT_FLOAT"),
            (14, "DT_BFLOAT16"),
            (19, "DT_HALF"),
            (25, "DT_FLOAT8_E4M3FN"),
            (33, "DT_FLOAT4_E2M1FN"),
        ] {
            assert_eq!(DataType::try_from(number).unwrap().as_str_name(), name);
        }
        assert!(DataType::try_from(34).is_err());
    }

    #[test]
    fn unknown_fields_are_dropped() {
        let with_field_100 = [&HEADER[..], &[0xa0, 0x06, 0x07]].concat();
        let header = BundleHeaderProto::decode(&with_field_100[..]).unwrap();
        assert_eq!(header.encode_to_vec(), HEADER);
    }
}
