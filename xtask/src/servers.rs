//! `cargo xtask fetch`: releases of servers in the target folder, for `cargo xtask test --servers`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use syncguard_test_services::catalogue::{self, RELEASES, Release, Source};
use syncguard_test_services::{fetch, install};

#[derive(Args)]
pub(crate) struct Options {
    /// A release such as `redis=8.2.3`, or `redis` for each release of it, or `all`
    #[arg(required = true)]
    names: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    for release in named(&options.names)? {
        match fetch(release)? {
            Some(folder) => {
                println!("{}: export {}={}", release.id(), install::SERVERS, folder.display());
            }
            None => println!("{}: the system has it", release.id()),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The releases of the list that these words stand for.
pub(crate) fn named(names: &[String]) -> Result<Vec<&'static Release>> {
    let mut all = Vec::new();
    for name in names {
        let releases = catalogue::named(name);
        let known: Vec<_> = RELEASES.iter().map(Release::id).collect();
        ensure!(!releases.is_empty(), "{name} is not on the list: all, {}", known.join(", "));
        all.extend(releases);
    }
    Ok(all)
}

/// The folder of a release's programs, or `None` for the system's.
pub(crate) fn fetch(release: &Release) -> Result<Option<PathBuf>> {
    install::allow();
    fetch::fetch(release, &fetch::root()?)
}

/// The folders of the newest servers that cargo itself can get, which tests take unless other ones are chosen: the form is
/// that of `PATH`.
pub(crate) fn newest() -> Result<Option<OsString>> {
    if env::var_os(install::SERVERS).is_some() || !fetch::IS_POSSIBLE {
        return Ok(None);
    }
    let is_newest = |release: &&Release| {
        catalogue::named(release.name).last().is_some_and(|last| last.version == release.version)
    };
    let by_cargo = |release: &&Release| matches!(release.source, Source::Crate(_));
    let releases = RELEASES.iter().filter(is_newest).filter(by_cargo);
    let folders = releases.filter_map(|release| fetch(release).transpose());
    Ok(Some(env::join_paths(folders.collect::<Result<Vec<_>>>()?)?))
}

/// True on Debian 12: the list has servers of it, and of the release after it.
pub(crate) fn can_fetch_all() -> bool {
    let system = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    system.lines().any(|line| line == "VERSION_CODENAME=bookworm")
}

/// Parts of the names of the tests that use this server.
pub(crate) fn tests_of(release: &Release) -> &'static [&'static str] {
    match release.name {
        "redis" | "valkey" => &["redis"],
        "pgbouncer" => &["pgbouncer", "pooler"],
        "pgpool" => &["pgpool"],
        "postgres" => &["postgres"],
        "etcd" => &["etcd"],
        "azurite" => &["object_store"],
        _ => &["mariadb"],
    }
}
