//! A schema says what the fields of a message are called: the text form has names where the wire has
//! numbers. It is made from the descriptors that were compiled with TensorFlow's messages.

use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use std::collections::HashMap;
use std::sync::LazyLock;
use tensorferry_proto::{DESCRIPTORS, Message as _};

/// TensorFlow's messages, by full name: `tensorflow.GraphDef`.
pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    // The build wrote these bytes; every test of the text form reads them.
    Schema::new(&FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote valid descriptors"))
});

/// Messages and enumerations.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    messages: HashMap<String, Message>,
    enums: HashMap<String, HashMap<String, i32>>,
}

/// A message's fields by name. A map's entries are messages with the fields `key` and `value`.
#[derive(Debug, Default)]
pub(crate) struct Message {
    fields: HashMap<String, Field>,
}

/// A field.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its number.
    pub(crate) number: u32,
    /// What it holds.
    pub(crate) kind: Type,
    /// The message or the enumeration that it holds, by full name.
    type_name: String,
}

impl Schema {
    fn new(files: &FileDescriptorSet) -> Self {
        let mut schema = Self::default();
        for file in &files.file {
            let package = file.package();
            for message in &file.message_type {
                schema.add_message(&format!("{package}.{}", message.name()), message);
            }
            for values in &file.enum_type {
                schema.add_enum(&format!("{package}.{}", values.name()), values);
            }
        }
        schema
    }

    fn add_message(&mut self, full_name: &str, message: &DescriptorProto) {
        for nested in &message.nested_type {
            self.add_message(&format!("{full_name}.{}", nested.name()), nested);
        }
        for values in &message.enum_type {
            self.add_enum(&format!("{full_name}.{}", values.name()), values);
        }
        let fields = message.field.iter().map(|field| {
            let described = Field {
                number: field.number().unsigned_abs(),
                kind: field.r#type(),
                type_name: field.type_name().trim_start_matches('.').to_owned(),
            };
            (field.name().to_owned(), described)
        });
        self.messages.insert(full_name.to_owned(), Message { fields: fields.collect() });
    }

    fn add_enum(&mut self, full_name: &str, values: &EnumDescriptorProto) {
        let values = values.value.iter().map(|value| (value.name().to_owned(), value.number()));
        self.enums.insert(full_name.to_owned(), values.collect());
    }

    /// The message of this full name.
    pub(crate) fn message(&self, full_name: &str) -> Option<&Message> {
        self.messages.get(full_name)
    }

    /// The message that a field holds.
    pub(crate) fn message_of(&self, field: &Field) -> Option<&Message> {
        self.message(&field.type_name)
    }

    /// The number of a value of the enumeration that a field holds.
    pub(crate) fn enum_value(&self, field: &Field, name: &str) -> Option<i32> {
        self.enums.get(&field.type_name)?.get(name).copied()
    }
}

impl Message {
    /// The field of this name.
    pub(crate) fn field(&self, name: &[u8]) -> Option<&Field> {
        self.fields.get(std::str::from_utf8(name).ok()?)
    }
}
