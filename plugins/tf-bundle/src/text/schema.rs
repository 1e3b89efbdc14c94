//! The text form contains field names instead of the field numbers of the wire form. The schema
//! maps the names to fields. It consists of descriptors that the build creates from TensorFlow's
//! messages.

use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::collections::HashMap;
use std::mem::take;
use std::sync::LazyLock;
use tensorferry_proto::{DESCRIPTORS, Message as _};

/// TensorFlow's messages and enumerations.
pub(super) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    // The build creates these bytes, and every test of the text form decodes them.
    let files = FileDescriptorSet::decode(DESCRIPTORS).expect("the build wrote valid descriptors");
    let mut schema = Schema::default();
    for file in files.file {
        schema.add(&format!(".{}", file.package()), file.message_type, file.enum_type);
    }
    schema
});

/// Messages and enumerations by their full names. The names have the same form as in field
/// descriptors, such as `.tensorflow.GraphDef`.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) messages: HashMap<String, DescriptorProto>,
    enums: HashMap<String, EnumDescriptorProto>,
}

impl Schema {
    fn add(&mut self, scope: &str, messages: Vec<DescriptorProto>, enums: Vec<EnumDescriptorProto>) {
        for mut message in messages {
            let name = format!("{scope}.{}", message.name());
            self.add(&name, take(&mut message.nested_type), take(&mut message.enum_type));
            self.messages.insert(name, message);
        }
        for values in enums {
            self.enums.insert(format!("{scope}.{}", values.name()), values);
        }
    }

    /// Returns the message type of a field.
    pub(super) fn message_of(&self, field: &FieldDescriptorProto) -> Option<&DescriptorProto> {
        self.messages.get(field.type_name())
    }

    /// Returns the number of an enumeration value. The arguments are the field that contains the
    /// value, and the value's name.
    pub(super) fn enum_value(&self, field: &FieldDescriptorProto, name: &[u8]) -> Option<i32> {
        let mut values = self.enums.get(field.type_name())?.value.iter();
        values.find(|value| value.name().as_bytes() == name).map(|value| value.number())
    }
}

/// Returns the field with this name. Map entries are messages with the fields `key` and `value`.
pub(super) fn field_of<'a>(message: &'a DescriptorProto, name: &[u8]) -> Option<&'a FieldDescriptorProto> {
    message.field.iter().find(|field| field.name().as_bytes() == name)
}
