//! What the writer makes.

use crate::common::{folder, with_view, write};
use tensorferry_sdk::{CatalogSink, Dtype, ErrorKind, Result, Storage, Target};

fn one(catalog: &mut dyn CatalogSink, name: &str, dtype: Dtype, shape: &[u64], bytes: &[u8]) -> Result<()> {
    let storage = catalog.storage(Storage::inline(bytes))?;
    catalog.tensor(name, dtype, shape, storage, 0).map(drop)
}

#[test]
fn each_tensor_is_an_array_of_one_chunk() {
    let output = write(
        |catalog| {
            one(catalog, "a.w", Dtype::BF16, &[1, 2], &[1, 2, 3, 4])?;
            one(catalog, "a", Dtype::I8, &[], &[7])?;
            one(catalog, "it's", Dtype::F32, &[0, 3], &[])
        },
        &Target::Folder,
    )
    .unwrap();
    let names: Vec<&str> = output.files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["_METADATA", "a.w/.zarray", "a.w/0.0", "a/.zarray", "a/0", "it's/.zarray", "it's/0.0"]
    );
    assert_eq!(output.files["a.w/0.0"], [1, 2, 3, 4]);
    let metadata: serde_json::Value = serde_json::from_slice(&output.files["_METADATA"]).unwrap();
    // A part of its name is a tensor, which can hold nothing.
    assert_eq!(metadata["tree_metadata"]["('a.w',)"]["key_metadata"][0]["key"], "a.w");
    assert!(metadata["tree_metadata"][r"('it\'s',)"].is_object(), "{metadata}");
    with_view(&folder(output.files.into_iter().collect()), |view| {
        assert_eq!(view.tensor_named("a.w").unwrap(), ("BF16".to_owned(), vec![1, 2], vec![1, 2, 3, 4]));
        assert_eq!(view.tensor_named("it's").unwrap().1, [0, 3]);
    })
    .unwrap();
}

#[test]
fn what_no_folder_can_be_called_is_left_out() {
    let names = ["", "a/../b", "/a", "a\\b", ".zarray", "_METADATA", "good"];
    let output = write(
        |catalog| names.into_iter().try_for_each(|name| one(catalog, name, Dtype::U8, &[1], &[1])),
        &Target::Folder,
    )
    .unwrap();
    assert_eq!(output.layout.omitted().len(), names.len() - 1);
    let refused = write(|_| Ok(()), &Target::File("x".to_owned())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Usage);
}
