//! One build of all tests, programs and examples, and the paths of its output.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Options;
use crate::cargo::{cargo, shown};

/// A program that cargo has built.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) package: String,
    /// The folder of the package's manifest.
    pub(super) folder: PathBuf,
    pub(super) kind: Kind,
    /// The name of the target.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A folder or file of `tests`.
    Test,
    /// The unit tests of a library or a program.
    Unit,
    Example,
}

/// No choice of targets, because `--bins` would include the fuzz targets, which run for ever, and `--all-targets` the
/// benchmarks.
pub(super) fn build(options: &Options) -> Result<Vec<Built>> {
    let mut command = cargo(["test", "--no-run", "--all-features"]);
    command.arg("--message-format=json-render-diagnostics");
    for package in &options.package {
        command.args(["--package", package]);
    }
    if options.package.is_empty() {
        command.arg("--workspace");
    }
    if options.release {
        command.arg("--release");
    }
    let shown = shown(&command);
    println!("{shown}");
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| shown.clone())?;
    let messages = child.stdout.take().context("cargo has no output")?;
    let mut built = Vec::new();
    for line in BufReader::new(messages).lines() {
        built.extend(parse(&line?));
    }
    ensure!(child.wait()?.success(), "{shown} failed");
    Ok(built)
}

/// The program in a message of cargo, if it can be run.
fn parse(line: &str) -> Option<Built> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = message["executable"].as_str()?.into();
    let target = &message["target"];
    let kind = match (target["kind"][0].as_str()?, message["profile"]["test"].as_bool()?) {
        ("test", true) => Kind::Test,
        (_, true) => Kind::Unit,
        ("example", false) => Kind::Example,
        _ => return None,
    };
    let manifest = PathBuf::from(message["manifest_path"].as_str()?);
    Some(Built {
        package: package(message["package_id"].as_str()?).to_owned(),
        folder: manifest.parent()?.to_owned(),
        kind,
        name: target["name"].as_str()?.to_owned(),
        path,
    })
}

/// The name in an id such as `path+file:///a/b#name@0.1.0`, or `path+file:///a/name#0.1.0`.
fn package(id: &str) -> &str {
    let (path, rest) = id.rsplit_once('#').unwrap_or(("", id));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, is_test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/tests#some-tests@0.1.0",
            "manifest_path":"/w/tests/Cargo.toml","target":{{"kind":["{kind}"],"name":"redis"}},
            "profile":{{"test":{is_test}}},"executable":"/w/target/redis-1"}}"#
        )
    }

    #[test]
    fn finds_tests_and_examples_in_what_cargo_says() {
        let built = parse(&message("test", true)).unwrap();
        assert_eq!((built.package.as_str(), built.name.as_str()), ("some-tests", "redis"));
        assert_eq!(built.folder, PathBuf::from("/w/tests"));
        let kind = |kind, is_test| parse(&message(kind, is_test)).map(|built| built.kind);
        assert_eq!(kind("test", true), Some(Kind::Test));
        assert_eq!(kind("lib", true), Some(Kind::Unit));
        assert_eq!(kind("example", false), Some(Kind::Example));
        assert_eq!(kind("bin", false), None);
        assert!(parse("   Compiling").is_none());
    }

    #[test]
    fn reads_both_forms_of_a_package_id() {
        assert_eq!(package("path+file:///w/tests#some-tests@0.1.0"), "some-tests");
        assert_eq!(package("path+file:///w/crates/some-core#0.1.0"), "some-core");
    }
}
