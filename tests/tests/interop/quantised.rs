//! Compares every supported form of quantized checkpoint with values that numpy computes from the
//! libraries' formulas.

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

/// Tests scales with random bits, including NaN, infinite and subnormal scales. Each seed produces
/// different checkpoints.
#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn scales_of_all_bits_give_what_the_formulas_give() {
    let (mut numbers, mut nan) = (0, 0);
    for seed in ["1", "2", "3"] {
        let ferry = Ferry::new();
        let said = python::script("quantised_make.py", [ferry.home().as_os_str(), seed.as_ref()]).json();
        for name in said["made"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
            let out = ferry.at(format!("{name}.out.safetensors"));
            ferry.convert(&ferry.at(name), &out, &["--step", "dequantize:f32"]);
            let (all, without) = python::same_numbers(&out, &ferry.at(format!("{name}.safetensors")));
            numbers += all;
            nan += without;
        }
    }
    assert!(numbers > 3 * 43 * 1000 && nan > 1000, "{numbers}, {nan}");
}
