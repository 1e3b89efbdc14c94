//! gguf-py reads what `ferry` writes, and makes the same blocks.

use tensorferry_tests::{Ferry, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn blocks_are_those_of_gguf_py() {
    let ferry = Ferry::new();
    let source = ferry.at("model.gguf");
    python::script("gguf_make.py", [&source]);
    for word in ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "tq1_0", "tq2_0", "mxfp4"] {
        let output = ferry.at(format!("{word}.gguf"));
        ferry.convert(&source, &output, &["-o", &format!("quantize={word}"), "--strict", "--verify"]);
        let compared =
            python::script("gguf_same.py", [source.as_os_str(), output.as_os_str(), word.as_ref()]);
        assert_eq!(compared.json(), 8, "{word}");
    }
}
