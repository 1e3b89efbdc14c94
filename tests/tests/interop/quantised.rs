//! Every form of a quantised checkpoint that is dequantised: what numpy makes of it after the libraries' formulas.

use tensorferry_tests::{Ferry, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn each_form_is_what_its_formula_says() {
    let ferry = Ferry::new();
    let said = python::script("quantised_make.py", [ferry.home()]).json();
    let made = said["made"].as_array().unwrap();
    assert_eq!(made.len(), 43);
    for name in made.iter().map(|name| name.as_str().unwrap()) {
        let out = ferry.at(format!("{name}.out.safetensors"));
        ferry.convert(&ferry.at(name), &out, &["--step", "dequantize:f32", "--verify"]);
        assert!(ferry.equal(&out, &ferry.at(format!("{name}.safetensors"))), "{name}");
    }
    let refused = said["refused"].as_object().unwrap();
    assert_eq!(refused.len(), 9);
    for (name, why) in refused {
        let out = ferry.at("refused.safetensors");
        let run = ferry.try_convert(&ferry.at(name), &out, &["--step", "dequantize:f32"]);
        run.expect(3).says(&["dequantize", why.as_str().unwrap()]);
        assert!(!out.exists(), "{name}");
    }
}
