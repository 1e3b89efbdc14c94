//! `ferry doctor` describes an installation in any state, and never prints a credential.

use std::env::consts::DLL_EXTENSION;
use tensorferry_tests::ferry::run;
use tensorferry_tests::{Ferry, Outcome};

const SECRET: &str = "hush5150";

/// Runs the command with credentials in the environment, the arguments, and files, and checks that
/// none is printed.
fn doctor(ferry: &Ferry, arguments: &[&str]) -> Outcome {
    ferry.write(".cache/huggingface/token", SECRET);
    ferry.write(
        ".aws/credentials",
        format!("[default]\naws_access_key_id = {SECRET}\naws_secret_access_key = {SECRET}"),
    );
    let mut command = ferry.command(["doctor"]);
    command.args(["--store", &format!("http-token={SECRET}")]).args(arguments).env("HOME", ferry.home());
    for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "AWS_PROFILE", "HF_HOME", "HF_TOKEN", "HF_TOKEN_PATH"] {
        command.env_remove(name);
    }
    command.env("HF_TOKEN_PATH", ferry.at(".cache/huggingface/token"));
    command.env("AZURE_STORAGE_ACCOUNT_KEY", SECRET).env("FERRY_STORE", format!("s3.secret-key={SECRET}"));
    let outcome = run(&mut command).expect(0);
    assert!(!outcome.said().contains(SECRET), "{outcome}");
    outcome
}

#[test]
fn sources_of_credentials_are_named_and_values_are_not() {
    let ferry = Ferry::new();
    let text = doctor(&ferry, &["--limit", "columns=77"]);
    text.prints(&[
        &format!("ferry {} on linux", env!("CARGO_PKG_VERSION")),
        "features: remote",
        "environment variable AZURE_STORAGE_ACCOUNT_KEY",
        "setting http-token",
        "setting s3.secret-key",
        "profile \"default\" of the AWS tools",
        "huggingface/token",
        "FERRY_STORE",
        "columns=77",
        "formats arrow, csv",
        "Problems\n  none",
    ]);
    let document = doctor(&ferry, &["--json", "--threads", "3"]).json();
    assert_eq!(document["credentials"].as_array().unwrap().len(), 5, "{document}");
    assert_eq!(
        (&document["threads"], &document["features"]["remote"]),
        (&3.into(), &true.into()),
        "{document}"
    );
    assert_eq!(document["plugins"][0]["loaded"], true, "{document}");
    assert_eq!(document["paths"]["store_settings"]["exists"], false, "{document}");
    assert_eq!(document["problems"], serde_json::json!([]), "{document}");
}

#[test]
fn what_is_broken_is_reported_with_the_reason() {
    let ferry = Ferry::new();
    let library = ferry.plugin_folder().join(format!("libferry_text.{DLL_EXTENSION}"));
    std::fs::write(&library, "not a library").unwrap();
    doctor(&ferry, &[]).prints(&["refused  ", "libferry_text", "cannot be opened: "]);
    // Other commands end with an error for each of these.
    ferry.write(".config/ferry/stores", "no-such-setting=1\n");
    ferry.write(".config/ferry/plugins.sha256", "not a digest\n");
    doctor(&ferry, &[]).prints(&["unknown setting \"no-such-setting\"", "not a SHA-256 digest"]);
    let document = doctor(&ferry, &["--json"]).json();
    assert!(document["problems"].as_array().unwrap().len() >= 2, "{document}");
}
