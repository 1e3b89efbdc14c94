//! Runs the tests of the Python package. pip builds the package from the development build and
//! installs it in a separate environment together with the frameworks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tensorferry_tests::ferry::run;
use tensorferry_tests::fixtures::case;
use tensorferry_tests::guide::{Chapter, WITH_PYTHON, clone};
use tensorferry_tests::workspace::{cargo, forget_package, root, workspace};
use tensorferry_tests::{Ferry, python};

/// Packages that the tests of the Python package need in addition to the frameworks.
const MORE: [&str; 5] = ["polars==2.1.0", "pandas==3.1.1", "duckdb==2.0.0", "pytest==9.2.0", "mypy==2.4.1"];
/// Packages to install without dependencies, and the dependencies that are needed. The full
/// dependencies would include a library that is too new for the frameworks, and scipy, which takes
/// 143 MB and is not used.
const ALONE: [&str; 8] = [
    "jax==0.10.2",
    "jaxlib==0.10.2",
    "datasets==4.1.1",
    "pytest-timeout==2.4.0",
    "dill",
    "multiprocess",
    "xxhash",
    "fsspec[http]",
];

#[test]
#[ignore = "builds and installs a wheel: a minute"]
fn the_package_needs_only_python() {
    let folder = workspace().folder("package-");
    let environment = folder.path().join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment)).expect(0);
    let interpreter = environment.join("bin/python");
    let model = case("torch", "zip_module_state_dict").input();
    let script = "import tensorferry; print(tensorferry.__file__, len(tensorferry.open('out.safetensors')))";
    let package = root().join("host/python");
    for (options, home) in [(&[][..], &environment), (&["--editable"][..], &package)] {
        let mut pip = Command::new(&interpreter);
        pip.args(["-m", "pip"]);
        install(&mut pip, options);
        let output = folder.path().join("out.safetensors");
        run(Command::new(environment.join("bin/ferry")).arg("convert").args([&model, &output])).expect(0);
        let python =
            Command::new(&interpreter).args(["-c", script]).current_dir(folder.path()).output().unwrap();
        let printed = String::from_utf8(python.stdout).unwrap();
        assert!(printed.starts_with(&*home.to_string_lossy()) && printed.ends_with(" 15\n"), "{printed}");
        std::fs::remove_file(output).unwrap();
    }
}

#[test]
#[ignore = "needs the build of the workspace"]
fn the_source_distribution_contains_what_the_build_reads() {
    let folder = workspace().folder("sdist-");
    let script = "import backend, sys; print(backend.build_sdist(sys.argv[1]), end='')";
    let mut build = Command::new("python3");
    build.args(["-B", "-c", script]).arg(folder.path()).current_dir(root().join("host/python"));
    let name = run(&mut build).expect(0).stdout;
    run(Command::new("tar").arg("-xf").arg(&name).current_dir(folder.path())).expect(0);
    let unpacked = folder.path().join(name.strip_suffix(".tar.gz").unwrap());
    let mut read = BTreeSet::new();
    for result in ["ferry-of-wheel.d", "libferry_formats.d", "lib_native.d"] {
        let list = std::fs::read_to_string(workspace().formats.with_file_name(result)).unwrap();
        read.extend(list.split_whitespace().filter_map(|path| {
            let path = Path::new(path).strip_prefix(root()).ok()?;
            path.extension().filter(|_| !path.starts_with("target"))?;
            Some(path.to_owned())
        }));
    }
    for path in &read {
        let same = std::fs::read(unpacked.join(path))
            .is_ok_and(|data| data == std::fs::read(root().join(path)).unwrap());
        assert!(same, "{} is missing or different", path.display());
    }
    assert!(read.len() > 700, "{read:?}");
    let mut check = cargo();
    check.args(["metadata", "--locked", "--offline", "--format-version=1"]).current_dir(&unpacked);
    run(&mut check).expect(0);
}

#[test]
#[ignore = "needs the frameworks; builds and installs a wheel: minutes"]
fn the_package_does_what_its_tests_say() {
    let mut tests = Command::new(installed());
    tests.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).arg(root().join("host/python/tests"));
    let folder = workspace().folder("package-");
    let outcome = run(tests.env("JAX_PLATFORMS", "cpu").current_dir(folder.path())).expect(0);
    assert!(!outcome.stdout.contains(" skipped"), "{}", outcome.stdout);
}

#[test]
#[ignore = "needs the frameworks; builds and installs a wheel: minutes"]
fn the_guides_scripts_print_what_it_says() {
    for name in WITH_PYTHON {
        let ferry = Ferry::new();
        let clone = clone(ferry.home());
        Chapter::read(name).check(&clone, |script| {
            let mut shell = ferry.shell(script);
            let path = std::env::var("PATH").unwrap_or_default();
            let programs = installed().parent().expect("a program is in a folder").display();
            run(shell.env("PATH", format!("{programs}:{path}")).current_dir(&clone))
        });
    }
}

/// Returns the interpreter of an environment with the package, installed once per process.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let interpreter = environment(&workspace().target);
        let mut pip = Command::new(python::interpreter());
        pip.args(["-m", "pip", "--python"]).arg(&interpreter);
        install(&mut pip, &["--no-compile"]);
        interpreter
    })
}

/// Builds and installs the package with pip.
fn install(pip: &mut Command, options: &[&str]) {
    forget_package(pip);
    pip.args(["install", "--quiet", "--no-deps", "--force-reinstall", "-C", "profile=dev"]).args(options);
    run(pip.arg(root().join("host/python")).env("CARGO_TARGET_DIR", &workspace().target)).expect(0);
}

/// Returns an environment that includes the frameworks. The environment is created once for each
/// list of packages.
fn environment(target: &Path) -> PathBuf {
    let folder = target.join("package-venv");
    let (interpreter, done) = (folder.join("bin/python"), folder.join("done"));
    let wanted = format!("{MORE:?} {ALONE:?} {}", python::interpreter().display());
    if std::fs::read_to_string(&done).is_ok_and(|known| known == wanted) {
        return interpreter;
    }
    run(Command::new("python3").args(["-m", "venv", "--clear", "--without-pip"]).arg(&folder)).expect(0);
    let paths = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
    let purelib = |python: &Path| run(Command::new(python).args(["-c", paths])).expect(0).stdout;
    let link = Path::new(&purelib(&interpreter)).join("frameworks.pth");
    std::fs::write(link, purelib(python::interpreter())).unwrap();
    run(pip(&interpreter).args(MORE)).expect(0);
    run(pip(&interpreter).arg("--no-deps").args(ALONE)).expect(0);
    std::fs::write(&done, wanted).unwrap();
    interpreter
}

/// Returns a command that runs the frameworks' pip for this environment. Without compiled files,
/// which are rarely used, and without cached downloads, the environment takes 709 MB instead of 965
/// MB, and a third of the time.
fn pip(interpreter: &Path) -> Command {
    let mut pip = Command::new(python::interpreter());
    pip.args(["-m", "pip", "--python"]).arg(interpreter);
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-compile", "--no-cache-dir"]);
    pip
}
